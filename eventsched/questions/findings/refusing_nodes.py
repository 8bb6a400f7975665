"""Which nodes refuse most: of the newest attempts with one refusal, how many each node refused so.

The rows of a refusal have the number of nodes, the verdicts of an attempt their names. To read
these takes longer, so they are read of some attempts only.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from eventsched.domain.records.verdicts import (
    STORED_EXCLUDED,
    STORED_NO_NODE,
    STORED_NOT_EVALUATED,
    Codes,
    Detail,
)
from eventsched.output.time_format import iso
from eventsched.questions.excluded_nodes import FAILED, exclusions_at
from eventsched.questions.findings.finding_answers import RefusingNode, RefusingNodesAnswer
from eventsched.questions.findings.refusal_counts import (
    RefusalFilter,
    attempt_conditions,
    looked_at,
)
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

READ = 100
"""Attempts whose verdicts are read, at most: the newest with the refusal."""

_REFUSED = """
SELECT DISTINCT d.seq, d.at FROM eventsched_log.refusal r
JOIN eventsched_log.decision d ON d.stream = r.stream AND d.seq = r.seq {join}
WHERE r.stream = :s AND r.seq >= :low AND r.seq < :high AND r.number = ANY(:numbers)
  AND d.stream = :s AND d.seq >= :low AND d.seq < :high{conditions}
ORDER BY d.seq DESC LIMIT :most
"""
_CHANGES = """
SELECT seq, ordinal, name FROM eventsched_log.node
WHERE stream = :s AND seq >= :low AND seq < :high ORDER BY seq
"""


class _Attempt(NamedTuple):
    """An attempt, and the numbers in its verdicts that are the refusal."""

    position: int
    at: int
    numbers: Collection[int]


def refusing_nodes(
    stream: LoggedStream,
    sees: Visibility,
    wanted: RefusalFilter,
    refusal: tuple[str, str | None],
    limit: int,
) -> RefusingNodesAnswer:
    """The nodes that a plugin refused, for one reason or any: of the newest READ attempts with
    that refusal, among those of which ``refusal_counts`` counts the refusals. Raises
    UnavailableError and NotVisibleError."""
    attempts = _attempts(stream, sees, wanted, *refusal)
    details = stream.log.details(each.position for each in attempts)
    known = [each for each in attempts if _has_all(details.get(each.position))]
    nodes = _counted(stream, known, details)
    always = [each for each in nodes if each.attempts == each.evaluated]
    return RefusingNodesAnswer(
        stream=stream.name,
        head=stream.rows.head,
        plugin=refusal[0],
        reason=refusal[1],
        attempts=len(attempts),
        known=len(known),
        since=iso(known[-1].at) if known else None,
        until=iso(known[0].at) if known else None,
        count=len(nodes),
        always=len(always),
        nodes=nodes[:limit],
    )


def _attempts(
    stream: LoggedStream, sees: Visibility, wanted: RefusalFilter, plugin: str, reason: str | None
) -> list[_Attempt]:
    """The newest attempts with a refusal, the newest first."""
    place = looked_at(stream, sees, wanted)
    if place is None:
        return []
    conditions, values = attempt_conditions(sees, wanted)
    bounds = {"low": place.first, "high": place.last + 1, "most": READ}

    def newest(numbers: list[int], more: str = "") -> list[Any]:
        text = _REFUSED.format(join=conditions.join, conditions=conditions.text + more)
        return stream.rows.all(text, numbers=tuple(numbers), **bounds, **values) if numbers else []

    named = stream.rows.numbers(plugin, None)
    meanings = stream.rows.refusals(named)
    same = [each for each in named if reason in (None, meanings[each].reason)]
    left_out = newest([STORED_EXCLUDED], f" AND d.outcome IN {FAILED}")
    excluded = exclusions_at(stream, [row["seq"] for row in left_out]) if left_out else {}
    found = {row["seq"]: _Attempt(row["seq"], row["at"], same) for row in newest(same)}
    for row in left_out:
        meaning = excluded.get(row["seq"])
        if meaning and meaning.plugin == plugin and reason in (None, meaning.reason):
            numbers = [*same, STORED_EXCLUDED]
            found[row["seq"]] = _Attempt(row["seq"], row["at"], numbers)
    return sorted(found.values(), reverse=True)[:READ]


def _has_all(detail: Detail | None) -> bool:
    """Whether the log has the verdicts of an attempt on all nodes."""
    return detail is not None and isinstance(detail.codes, np.ndarray)


def _counted(
    stream: LoggedStream, attempts: Iterable[_Attempt], details: Mapping[int, Detail]
) -> list[RefusingNode]:
    """The nodes with a refusal, those of most attempts first. A row of the vectors may be
    another node's later."""
    in_order = sorted(attempts)
    if not in_order:
        return []
    first, last = in_order[0].position, in_order[-1].position
    names = stream.evidence().nodes(first)
    changes = deque(stream.rows.all(_CHANGES, low=first, high=last))
    tally = _Tally(names)
    for attempt in in_order:
        while changes and changes[0]["seq"] < attempt.position:
            change = changes.popleft()
            tally.rename(change["ordinal"], change["name"])
        codes = details[attempt.position].codes
        assert isinstance(codes, np.ndarray)
        tally.add(attempt, codes)
    return tally.nodes()


class _Tally:
    """Counts by row of the vectors, and of the rows' former nodes by name."""

    def __init__(self, names: list[str]) -> None:
        self._names = list(names)
        self._refused, self._evaluated, self._newest = np.zeros((3, len(names)), np.int64)
        self._sums: Counter[str] = Counter()
        self._looks: Counter[str] = Counter()
        self._last: dict[str, int] = {}

    def rename(self, row: int, name: str) -> None:
        """A row is another node's from now on."""
        if row < len(self._names):
            self._close(row)
            self._names[row] = name
            return
        self._names.append(name)
        self._refused, self._evaluated, self._newest = (
            np.append(each, 0) for each in (self._refused, self._evaluated, self._newest)
        )

    def add(self, attempt: _Attempt, codes: Codes) -> None:
        """Counts the verdicts of an attempt."""
        size = len(codes)
        refused = np.isin(codes, list(attempt.numbers))
        self._refused[:size] += refused
        self._evaluated[:size] += ~np.isin(codes, (STORED_NO_NODE, STORED_NOT_EVALUATED))
        self._newest[:size][refused] = attempt.position

    def nodes(self) -> list[RefusingNode]:
        """The nodes that were refused, those most often first."""
        for row in range(len(self._names)):
            self._close(row)
        found = [
            RefusingNode(
                node=name, attempts=count, evaluated=self._looks[name], newest=self._last[name]
            )
            for name, count in self._sums.items()
        ]
        return sorted(found, key=lambda each: (-each.attempts, each.evaluated, each.node))

    def _close(self, row: int) -> None:
        name, refused = self._names[row], int(self._refused[row])
        self._looks[name] += int(self._evaluated[row])
        if refused:
            self._sums[name] += refused
            self._last[name] = max(self._last.get(name, 0), int(self._newest[row]))
        self._refused[row] = self._evaluated[row] = self._newest[row] = 0
