"""Verifies preemptions: what a PreemptionDecided record says about its candidates and victims.

The choice is repeated from the candidates' vectors and from the pods in earlier records.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from eventsched.history.verify.verified_decisions import Facts
from eventsched.history.verify.verified_log import Packed
from eventsched.history.verify.verified_vectors import (
    GONE,
    Expander,
    LostError,
    Vector,
    VectorError,
    Whole,
)

_NOT_STARTED, _MAX_VICTIMS = 2**62, 250
_PER_VICTIM = 2**31
_CRITERIA = ("violations", "highest", "total", "number", "start")

Record = dict[str, Any]
Report = Callable[[int, str], None]


class PodFacts(NamedTuple):
    """A pod in the log: uid, priority, start (µs; 0 if it has not started), namespace."""

    uid: str
    priority: int
    start: int
    namespace: str = "default"


class Candidates(NamedTuple):
    """The n candidates of a decision. ``rows``: int64[n], ascending; ``counts``: int64[n], numbers
    of victims; ``criteria``: int64[n, 4] (violations, highest, total, start); ``victims``: the
    numbers of each candidate's victims."""

    rows: Vector
    counts: Vector
    criteria: Vector
    victims: list[list[int]]


class LivePods:
    """The existing pods, numbered by the position of their PodAdded record."""

    def __init__(self) -> None:
        self.by_number: dict[int, PodFacts] = {}
        self.number_of: dict[str, int] = {}

    def take(self, position: int, record: Record) -> None:
        """Applies a record of a pod. Raises KeyError and TypeError if it lacks a field."""
        kind = record["kind"]
        if kind == "PodDeleted":
            self.by_number.pop(self.number_of.pop(record["uid"], -1), None)
            return
        pod = record["pod"]
        number = position if kind == "PodAdded" else self.number_of.get(pod["uid"], position)
        self.number_of[pod["uid"]] = number
        self.by_number[number] = PodFacts(
            pod["uid"], pod.get("priority", 0), pod.get("started_at", 0),
            pod.get("namespace", "default"),
        )  # fmt: skip


class PreemptionCheck:
    """Checks preemptions in order of position. Its counters are those of DecisionCheck."""

    def __init__(
        self, facts: Facts, pods: LivePods, find: Callable[[int], Packed | None], report: Report,
        lacking: Report, *, thinned: bool,
    ) -> None:  # fmt: skip
        self._facts, self._pods, self._report, self._may_lack = facts, pods, report, thinned
        self._find, self._lacking = find, lacking
        self._expander = Expander(find)
        self.checked = self.partial = self.thinned = self.vanished = 0

    def check(self, position: int, record: Record, packed: Packed | None) -> None:
        """Checks one preemption with its detail. Raises KeyError, TypeError and ValueError for a
        record of a wrong shape."""
        problem = self._record_problem(record)
        if packed is None:
            if record.get("digest"):
                self.thinned += 1
                if not self._may_lack:
                    self._lacking(position, "the decision has a digest, but there is no detail row")
        elif not record.get("digest"):
            problem = "a detail row of a decision that has no vectors (no digest)"
        else:
            vectors_problem = self._vectors_problem(position, record, packed)
            problem = problem or vectors_problem
        if problem:
            self._report(position, problem)

    def _record_problem(self, record: Record) -> str:
        names, row = self._facts.names, record.get("row", 0)
        if not 0 <= row < len(names) or names[row] != record["node"]:
            return f"node {record['node']!r} was chosen, but that is not row {row}"
        if self._facts.live.get(record["node"]) != row:
            return f"node {record['node']!r} was chosen, but it is gone"
        victims = record["victims"]
        spared = [*record.get("leaving", ()), *record.get("sent_back", ())]
        if not victims or len({*victims}) < len(victims) or not {*spared} <= {*victims}:
            return f"victims {victims}, of them {spared} not evicted"
        for uid in victims:
            if not self._may_displace(record, self._pod(uid)):
                return f"{uid} is evicted for {record['uid']}, which is not more important"
        numbers = [record.get(name, 0) for name in ("candidates", "looked", "nodes")]
        if not 0 < numbers[0] <= numbers[1] <= numbers[2] <= len(self._facts.live):
            return f"candidates, looked, nodes: {numbers}, of {len(self._facts.live)} nodes"
        return ""

    def _pod(self, uid: str) -> PodFacts:
        number = self._pods.number_of.get(uid)
        if number is None:
            raise ValueError(f"pod {uid} is not there")
        return self._pods.by_number[number]

    def _may_displace(self, record: Record, victim: PodFacts) -> bool:
        """Whether the victim has a lower priority. A quota plugin may also choose others, in
        another namespace."""
        pod = self._pod(record["uid"])
        if victim.priority < pod.priority:
            return True
        return bool(record.get("plugin")) and victim.namespace != pod.namespace

    def _vectors_problem(self, position: int, record: Record, packed: Packed) -> str:
        size = len(self._facts.names)
        try:
            whole = self._expander.expand(packed, size)
            considered = candidates(whole, record.get("first", 0), record.get("last", 0))
        except LostError as lost:
            if self._may_lack:
                self.thinned += 1
                return ""
            if self._find(position) is None:  # it was thinned together with its base
                self.vanished += 1
                self.thinned += 1
                return ""
            return f"detail: {lost}"
        except VectorError as wrong:
            return f"detail: {wrong}"
        self.checked += 1
        self.partial += whole.is_partial
        number = len(considered.rows)
        if whole.is_partial:
            if not 0 < number <= record.get("candidates", 0):
                return f"{number} of {record.get('candidates', 0)} candidates"
        elif (digest := digest_of(considered)) != record["digest"]:
            return f"the candidates have digest {digest}, expected {record['digest']}"
        elif number != record.get("candidates", 0):
            return f"{record.get('candidates', 0)} candidates, expected {number}"
        problem = self._candidates_problem(record, considered)
        return problem or self._choice_problem(record, considered, is_partial=whole.is_partial)

    def _candidates_problem(self, record: Record, considered: Candidates) -> str:
        rows = zip(
            considered.rows.tolist(), considered.counts.tolist(), considered.criteria.tolist(),
            considered.victims, strict=True,
        )  # fmt: skip
        for row, count, criteria, numbers in rows:
            pods = [self._pods.by_number.get(number) for number in numbers]
            known = [pod for pod in pods if pod is not None]
            if len(known) < len(pods):
                return f"row {row} has victims {numbers}, not all of which are there"
            if not all(self._may_displace(record, pod) for pod in known):
                return f"row {row} has a victim that is not less important"
            if count <= _MAX_VICTIMS and criteria[1:] != _numbers(known):
                return f"row {row} has criteria {criteria[1:]}, expected {_numbers(known)}"
            if not 0 <= criteria[0] <= count:
                return f"row {row} has {criteria[0]} violations with {count} victims"
        return ""

    def _choice_problem(self, record: Record, considered: Candidates, *, is_partial: bool) -> str:
        """What contradicts the choice among the candidates. A choice among the best of them can
        need another criterion."""
        row, criterion = choice(considered, record.get("first", 0))
        criterion = record["criterion"] if is_partial else criterion
        if (row, criterion) != (record.get("row", 0), record["criterion"]):
            return (
                f"row {record.get('row', 0)} was chosen by {record['criterion']!r}, expected row "
                f"{row} by {criterion!r}"
            )
        index = int(np.searchsorted(considered.rows, row))
        uids = [self._pods.by_number[number].uid for number in considered.victims[index]]
        if uids != list(record["victims"])[:_MAX_VICTIMS]:
            return f"victims {record['victims']}, expected {uids} by the vectors"
        criteria = [record.get(name, 0) for name in ("violations", "highest", "total", "start")]
        expected = considered.criteria[index].tolist()
        if criteria != expected:
            return f"criteria {criteria}, expected {expected} by the vectors"
        return ""


def _numbers(victims: list[PodFacts]) -> list[int]:
    """Highest priority, sum of priorities, and the earliest start among the most important."""
    highest = max(pod.priority for pod in victims)
    starts = [pod.start for pod in victims if pod.priority == highest and pod.start]
    return [highest, sum(pod.priority for pod in victims), min(starts, default=0)]


def candidates(whole: Whole, first: int, last: int) -> Candidates:
    """The candidates in the window of rows from ``first`` to ``last``, which may wrap around.
    Raises VectorError."""
    if whole.scores < 4 or any(column is None for column in whole.columns):
        raise VectorError(f"{whole.scores} columns, expected 4 and those of the victims")
    rows = np.arange(whole.size)
    inside = (rows >= first) & (rows <= last) if first <= last else (rows >= first) | (rows <= last)
    rows = np.flatnonzero(inside & (whole.codes > 0) & (whole.codes != GONE))
    columns = [column[rows].astype(np.int64) for column in whole.columns if column is not None]
    counts = columns[0]
    if len(rows) and min(counts.max(), _MAX_VICTIMS) > whole.scores - 4:
        raise VectorError(f"{counts.max()} victims in {whole.scores - 4} columns")
    flat = np.stack(columns[5:], axis=1) if len(columns) > 5 else np.zeros((len(rows), 0), np.int64)
    victims = [
        flat[i, :n].tolist() for i, n in enumerate(np.minimum(counts, _MAX_VICTIMS).tolist())
    ]
    return Candidates(rows, counts, np.stack(columns[1:5], axis=1), victims)


def digest_of(considered: Candidates) -> str:
    """The digest that the record should have."""
    flat = [number for victims in considered.victims for number in victims]
    hashed = blake2b(digest_size=16)
    for part in (considered.rows, considered.counts, *considered.criteria.T, flat):
        hashed.update(np.ascontiguousarray(part, dtype="<i8").data)
    return hashed.hexdigest()


def choice(considered: Candidates, first: int) -> tuple[int, str]:
    """The row to choose and the criterion that decides. Among equals it is the first row, counted
    from ``first``, where the dry runs began."""
    if len(considered.rows) == 1:
        return int(considered.rows[0]), "only"
    violations, highest, total, start = considered.criteria.T
    values = {
        "violations": violations,
        "highest": highest,
        "total": total + _PER_VICTIM * considered.counts,
        "number": considered.counts,
        "start": -np.where(start == 0, _NOT_STARTED, start),
    }
    left = np.argsort(considered.rows < first, kind="stable")
    for name in _CRITERIA:
        left = left[values[name][left] == values[name][left].min()]
        if len(left) == 1:
            return int(considered.rows[left[0]]), name
    return int(considered.rows[left[0]]), "first"
