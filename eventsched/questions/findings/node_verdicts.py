"""What the newest attempts found for one node: which were refused there, by whom, and which pods
went there or could have."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import (
    STORED_EXCLUDED,
    STORED_NO_NODE,
    STORED_NOT_EVALUATED,
    STORED_PASSES,
)
from eventsched.output.time_format import iso
from eventsched.questions.excluded_nodes import exclusions_at
from eventsched.questions.findings.finding_answers import (
    AttemptAtNode,
    NodeRefusalRow,
    NodeVerdictsAnswer,
)
from eventsched.questions.rows import Refusal
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

LOOKED_AT = 100
"""Attempts that are looked at: the verdicts of each are read."""
PLACED = 10
"""Pods that went to the node that are listed, of the newest PLACED_AMONG attempts."""
PLACED_AMONG = 20_000
_MOST_ROWS = 1_000
"""Rows of a node that are looked at: each time that a node of the name is added it has one."""

_ROWS = f"""
SELECT n.seq, n.ordinal, (SELECT min(m.seq) FROM eventsched_log.node m
    WHERE m.stream = :s AND m.ordinal = n.ordinal AND m.seq > n.seq) AS until
FROM (SELECT seq, ordinal FROM eventsched_log.node
      WHERE stream = :s AND name = :name ORDER BY seq DESC LIMIT {_MOST_ROWS}) n ORDER BY n.seq
"""
"""The newest rows that a node had, and up to where each was its own."""
_NAMES = "SELECT DISTINCT name FROM eventsched_log.node WHERE stream = :s"
_COLUMNS = """
d.seq, d.at, d.node, d.attempt, CAST(d.outcome AS text) AS outcome, CAST(d.pod AS text) AS uid,
p.namespace, p.name
"""
_NEWEST = f"""
SELECT {_COLUMNS} FROM eventsched_log.decision d
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
WHERE d.stream = :s AND d.seq < :high ORDER BY d.seq DESC LIMIT :most
"""
_PLACED = f"""
SELECT {_COLUMNS} FROM eventsched_log.decision d
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
WHERE d.stream = :s AND d.seq < :high AND d.node = :node
  AND d.outcome IN ('scheduled', 'waiting')
  AND d.seq >= (SELECT min(w.seq) FROM (SELECT e.seq FROM eventsched_log.decision e
      WHERE e.stream = :s AND e.seq < :high ORDER BY e.seq DESC LIMIT {PLACED_AMONG}) w)
ORDER BY d.seq DESC LIMIT {PLACED}
"""


def node_verdicts(
    stream: LoggedStream, sees: Visibility, node: str, end: int | None
) -> NodeVerdictsAnswer:
    """The verdicts of the newest attempts before position ``end``, or of now. Raises
    InputError, also NotVisibleError, and UnavailableError."""
    sees.require_whole("a node")
    head = stream.rows.head
    high = head if end is None else end
    attempts = stream.rows.all(_NEWEST, high=high, most=LOOKED_AT)
    codes = _codes(stream, node, [row["seq"] for row in attempts])
    known = [row for row in attempts if row["seq"] in codes]
    passed = [row for row in known if codes[row["seq"]] == STORED_PASSES]
    placed = stream.rows.all(_PLACED, high=high, node=node)
    return NodeVerdictsAnswer(
        stream=stream.name,
        head=head,
        node=node,
        attempts=len(attempts),
        known=len(known),
        feasible=len(passed),
        chosen=sum(row["node"] == node for row in passed),
        refusals=_refusals(stream, known, codes),
        placed=[_attempt(row) for row in placed],
    )


def _codes(stream: LoggedStream, node: str, positions: Iterable[int]) -> dict[int, int]:
    """The verdict on a node by position, for the attempts of which the log has it."""
    rows = stream.rows.all(_ROWS, name=node)
    if not rows:
        names = [row["name"] for row in stream.rows.all(_NAMES)]
        raise InputError("node", f"{node} was never there", near_names.offer(node, names))
    begins = [row["seq"] for row in rows]
    found = {}
    for position, detail in stream.log.details(positions).items():
        place = bisect_right(begins, position) - 1
        if place < 0 or (rows[place]["until"] or position) < position:
            continue
        ordinal = rows[place]["ordinal"]
        if ordinal >= detail.size or not isinstance(detail.codes, np.ndarray):
            continue
        code = int(detail.codes[ordinal])
        if code not in (STORED_NO_NODE, STORED_NOT_EVALUATED):
            found[position] = code
    return found


def _refusals(
    stream: LoggedStream, rows: Iterable[Any], codes: Mapping[int, int]
) -> list[NodeRefusalRow]:
    """The refusals, those of most attempts first; ``rows`` are the attempts, the newest first."""
    refused_rows = [row for row in rows if codes[row["seq"]] != STORED_PASSES]
    meanings = stream.rows.refusals(codes.values())
    excluding = [row["seq"] for row in refused_rows if codes[row["seq"]] == STORED_EXCLUDED]
    excluded = exclusions_at(stream, excluding) if excluding else {}
    by_refusal: dict[Refusal, list[Any]] = {}
    for row in refused_rows:
        refusal = excluded.get(row["seq"], meanings[codes[row["seq"]]])
        by_refusal.setdefault(refusal, []).append(row)
    return [
        NodeRefusalRow(
            plugin=refusal.plugin, code=refusal.code, reason=refusal.reason,
            attempts=len(refused), newest=_attempt(refused[0]),
        )
        for refusal, refused in sorted(by_refusal.items(), key=lambda each: -len(each[1]))
    ]  # fmt: skip


def _attempt(row: Any) -> AttemptAtNode:
    return AttemptAtNode(
        position=row["seq"], at=iso(row["at"]), namespace=row["namespace"], pod=row["name"],
        uid=row["uid"], attempt=row["attempt"],
    )  # fmt: skip
