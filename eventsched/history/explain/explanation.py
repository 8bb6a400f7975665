"""Why a pod is where it is, or nowhere: told from the log alone, never from the engine's state.

``eventsched explain`` and ``simulate --why`` print it (cli/output/explain_output.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

import msgspec
import numpy as np
from numpy.typing import NDArray

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records import AnyRecord, PodDecided, PodQueued
from eventsched.domain.records.verdicts import (
    STORED_EXCLUDED,
    STORED_NO_NODE,
    STORED_NOT_EVALUATED,
    STORED_PASSES,
    Detail,
    ScoreColumn,
    Verdict,
    normalized,
)
from eventsched.eventlog.port import Stored
from eventsched.history.explain import update_differences
from eventsched.history.explain.evidence import Evidence, LoggedPod, uid_key
from eventsched.history.explain.origins import Origin, origins_of
from eventsched.history.explain.preemption_explanation import PreemptionExplanation, displacement
from eventsched.history.explain.record_text import Namer, displaced, named_in, told
from eventsched.history.explain.sample_ages import SampleAge, measured

EXAMPLES = 3
"""Nodes named for each refusal; the rest are counted."""
_SUGGESTED = 3
_OWN_CAUSES = frozenset({"PodAdd", "AttemptFailed", "BackoffComplete", "Flush"})
"""Causes of moves that lie with the pod itself or with the clock."""
_FIXED: dict[int, tuple[str, str]] = {
    STORED_EXCLUDED: ("Excluded", "PreFilter left the node out"),
    STORED_NOT_EVALUATED: ("NotEvaluated", "the search ended before this node"),
}


class NoPodError(InputError):
    """The log knows no pod of that name (yet)."""


@dataclass(frozen=True)
class Step:
    """A record of the pod, and what it says in words. ``origin`` is what happened elsewhere that
    moved the pod between queues."""

    position: int
    at: int
    record: AnyRecord
    text: str
    origin: Origin | None


@dataclass(frozen=True)
class NodeRefusals:
    """What so many nodes were told; ``plugin`` is "" where it was PreFilter as a whole, or nobody
    as the search had ended. ``nodes`` in row order, the first EXAMPLES of them where vectors are
    kept, are ``examples``."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class PluginScore:
    """A plugin's score of a node: weighted = weight x normalised."""

    plugin: str
    weight: int
    raw: int
    normalized: int
    weighted: int


@dataclass(frozen=True)
class NodeScore:
    """A feasible node's scores and their sum; ``rank`` is 1 for the best, equal for equal sums."""

    node: str
    total: int
    rank: int
    parts: tuple[PluginScore, ...]


@dataclass(frozen=True)
class NodeAnswer:
    """What one node was told: its refusal, or its scores and how far it is ``behind`` the best."""

    node: str
    refusal: NodeRefusals | None
    score: NodeScore | None
    behind: int


@dataclass(frozen=True)
class ExplainedAttempt:
    """An attempt, with what the nodes were told. ``compared`` are the chosen node and the
    runner-up; these, examples and ``samples`` are there for the attempt that was asked for, where
    vectors are kept."""

    position: int
    at: int
    decided: PodDecided
    refusals: tuple[NodeRefusals, ...]
    compared: tuple[NodeScore, ...] = ()
    asked: NodeAnswer | None = None
    has_vectors: bool = False
    samples: tuple[SampleAge, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """What a log says of a pod. ``older`` are earlier pods of the same name, ``explained`` is the
    attempt that was asked for, None where there was none yet."""

    stream: str
    pod: LoggedPod
    older: tuple[LoggedPod, ...]
    steps: tuple[Step, ...]
    attempts: tuple[ExplainedAttempt, ...]
    explained: ExplainedAttempt | None
    displacement: PreemptionExplanation | None = None
    """What the attempt that was asked for did to other pods, where it found no node."""

    @property
    def moves(self) -> list[Step]:
        """The moves between queues."""
        return [step for step in self.steps if isinstance(step.record, PodQueued)]


def explain(
    evidence: Evidence, wanted: str, attempt: int | None = None, node: str | None = None
) -> Explanation:
    """The explanation of a pod: ``namespace/name``, a name that is unique, or a uid; of several
    with one name over time the newest. ``attempt`` is the one to explain, by default the last;
    ``node`` one to be told of. Raises InputError for what the log does not know."""
    pod, older = chosen_pod(evidence, wanted)
    stored = list(evidence.records(pod))
    steps = _steps(evidence, pod, stored)
    verdicts = evidence.verdicts()
    attempts = [
        ExplainedAttempt(step.position, step.at, step.record, _refusals(step.record, verdicts))
        for step in steps
        if isinstance(step.record, PodDecided)
    ]
    number = _asked_for(attempts, attempt, pod)
    if number is None:
        if node is not None:
            raise InputError("--node", f"no attempt was made for {pod.full_name} yet", "wait")
        return Explanation(evidence.stream, pod, older, steps, tuple(attempts), None)
    attempts[number] = _in_full(evidence, attempts[number], verdicts, node)
    return Explanation(
        evidence.stream, pod, older, steps, tuple(attempts), attempts[number],
        _displacement(evidence, pod, steps, attempts[number]),
    )  # fmt: skip


def _displacement(
    evidence: Evidence, pod: LoggedPod, steps: tuple[Step, ...], attempt: ExplainedAttempt
) -> PreemptionExplanation | None:
    """The preemption that came of the attempt, or that it came of: the one before, where the pod
    was placed on the node that it was nominated to."""
    decided, found = attempt.decided, None
    for number, step in enumerate(steps):
        record = step.record
        if not isinstance(record, records.PreemptionDecided) or uid_key(record.uid) != pod.uid:
            continue
        of_it = step.position > attempt.position and record.attempt == decided.attempt
        before = step.position < attempt.position and decided.nominated
        if of_it or (before and record.node == decided.node):
            found = displacement(evidence, step.position, record, steps[number + 1 :])
    return found


def chosen_pod(evidence: Evidence, wanted: str) -> tuple[LoggedPod, tuple[LoggedPod, ...]]:
    """The pod that is meant, and older ones of its name. Raises InputError."""
    found = evidence.pods(wanted)
    names = sorted({pod.full_name for pod in found})
    if not found:
        near = suggestion(wanted, evidence.similar(wanted))
        raise NoPodError("POD", f"there is no pod {wanted} in stream {evidence.stream}", near)
    if len(names) > 1:
        raise InputError(
            "POD", f"{wanted} is the name of {len(names)} pods", f"name one: {', '.join(names[:9])}"
        )
    return found[-1], tuple(found[:-1])


def suggestion(wanted: str, known: list[str]) -> str:
    """What to do about a name that is not known."""
    full = get_close_matches(wanted, known, _SUGGESTED)
    if not full:  # a bare name, or one with another namespace
        bare = {name.rpartition("/")[2]: name for name in reversed(known)}
        full = [bare[n] for n in get_close_matches(wanted.rpartition("/")[2], bare, _SUGGESTED)]
    if full:
        return f"did you mean {' or '.join(full)}?"
    return f"there are, among others: {', '.join(known[:_SUGGESTED])}" if known else "there is none"


def _steps(evidence: Evidence, pod: LoggedPod, stored: list[Stored]) -> tuple[Step, ...]:
    """The pod's records, with what moved it where that was something else."""
    found = [(each, each.record) for each in stored]
    moved = {
        each.cause
        for each, record in found
        if isinstance(record, PodQueued) and record.cause not in _OWN_CAUSES
    }
    origins = origins_of(evidence, moved - {each.position for each in stored})
    names = evidence.names({uid for _, record in found for uid in named_in(record)})
    changed = update_differences.in_words((each.position, record) for each, record in found)
    return tuple(
        Step(
            each.position,
            each.at,
            record,
            changed.get(each.position) or _words(record, pod, lambda uid: names.get(uid, uid)),
            origins.get(each.cause) if isinstance(record, PodQueued) else None,
        )
        for each, record in found
    )


def _words(record: AnyRecord, pod: LoggedPod, name: Namer) -> str:
    """What a record says of the pod."""
    if isinstance(record, records.PreemptionDecided) and uid_key(record.uid) != pod.uid:
        uid = next(uid for uid in record.victims if uid_key(uid) == pod.uid)
        return displaced(record, uid, name)
    return told(record, name)


def _asked_for(attempts: list[ExplainedAttempt], attempt: int | None, pod: LoggedPod) -> int | None:
    """The index of the attempt to explain."""
    if attempt is None:
        return len(attempts) - 1 if attempts else None
    for index in reversed(range(len(attempts))):
        if attempts[index].decided.attempt == attempt:
            return index
    numbers = sorted({each.decided.attempt for each in attempts})
    there = f"there are 1 to {numbers[-1]}" if len(numbers) > 1 else "there is 1"
    raise InputError(
        "--attempt",
        f"there was no attempt {attempt} for {pod.full_name}",
        there if numbers else "none was made yet",
    )


def _refusals(decided: PodDecided, verdicts: Mapping[int, Verdict]) -> tuple[NodeRefusals, ...]:
    if (
        not decided.evaluated
        and decided.plugin
        and [n for n, _ in decided.counts] == [STORED_EXCLUDED]
    ):
        # PreFilter refused the pod, and so all nodes at once: its words are the attempt's.
        (_, nodes), said = decided.counts[0], (decided.message,)
        return (NodeRefusals(decided.plugin, _FIXED[STORED_EXCLUDED][0], said, nodes),)
    return tuple(_refusal(number, nodes, verdicts) for number, nodes in decided.counts)


def _refusal(number: int, nodes: int, verdicts: Mapping[int, Verdict]) -> NodeRefusals:
    if number in _FIXED:
        code, reason = _FIXED[number]
        return NodeRefusals("", code, (reason,), nodes)
    verdict = verdicts[number]
    return NodeRefusals(verdict.plugin, verdict.code.value, verdict.reasons, nodes)


def _in_full(
    evidence: Evidence, attempt: ExplainedAttempt, verdicts: Mapping[int, Verdict], node: str | None
) -> ExplainedAttempt:
    """The attempt with what only its vectors tell."""
    decided = attempt.decided
    detail = evidence.detail(attempt.position)
    if detail is None or detail.codes is None:
        if node is not None:
            raise InputError(
                "--node",
                f"attempt {decided.attempt} kept no verdicts of single nodes",
                "leave the option out",
            )
        return attempt
    vectors = _Vectors(decided, detail, evidence.nodes(), evidence.columns(decided.scoring))
    refusals = tuple(
        replace(each, examples=vectors.refused(number))
        for each, (number, _) in zip(attempt.refusals, decided.counts, strict=True)
    )
    compared = [] if decided.row < 0 else [vectors.score(decided.row)]
    if compared and decided.runner_up:
        compared.append(vectors.score(vectors.present[decided.runner_up]))
    asked = None if node is None else _answer(vectors, verdicts, node)
    return replace(
        attempt, refusals=refusals, compared=tuple(compared), asked=asked, has_vectors=True,
        samples=measured(evidence, attempt.position, attempt.at, decided),
    )  # fmt: skip


def _answer(vectors: "_Vectors", verdicts: Mapping[int, Verdict], node: str) -> NodeAnswer:
    """What a node was told in the attempt. Raises InputError for one that was not there."""
    if node not in vectors.present:
        near = get_close_matches(node, vectors.present, _SUGGESTED)
        remedy = (
            f"did you mean {' or '.join(near)}?" if near else "see `eventsched sql` on verdicts()"
        )
        known = "was not there at that attempt" if node in vectors.names else "is not known"
        raise InputError("--node", f"{node} {known}", remedy)
    row = vectors.present[node]
    number = int(vectors.codes[row])
    if number != STORED_PASSES:
        return NodeAnswer(node, _refusal(number, 1, verdicts), None, 0)
    score = vectors.score(row)
    return NodeAnswer(node, None, score, vectors.best - score.total)


class _Vectors:
    """The vectors of one decision, by node."""

    def __init__(
        self,
        decided: PodDecided,
        detail: Detail,
        names: list[str],
        columns: tuple[ScoreColumn, ...],
    ) -> None:
        assert isinstance(detail.codes, np.ndarray)
        self.names = names
        self.codes = detail.codes
        self.present = {
            names[row]: int(row) for row in np.flatnonzero(self.codes != STORED_NO_NODE)
        }  # a name that came back stands at its newest row
        pairs = zip(columns, decided.parameters, strict=True)
        self._columns = [msgspec.structs.replace(c, parameters=given) for c, given in pairs]
        self._raws, self._normalized = [], []
        self._totals: NDArray[np.int64] = np.zeros(len(self.codes), dtype=np.int64)
        for place, column in enumerate(self._columns):
            raw = detail.scores[place]
            assert isinstance(raw, np.ndarray), "a whole record has all columns"
            own = detail.normalized[place] if detail.normalized else None
            values = normalized(column, raw) if own is None else own
            self._raws.append(raw)
            self._normalized.append(values)
            self._totals += values * column.weight
        self._feasible = self._totals[self.codes == STORED_PASSES]

    @property
    def best(self) -> int:
        """The largest sum."""
        return int(self._feasible.max())

    def refused(self, number: int) -> tuple[str, ...]:
        """The first nodes that were told so."""
        return tuple(self.names[row] for row in np.flatnonzero(self.codes == number)[:EXAMPLES])

    def score(self, row: int) -> NodeScore:
        """The scores of a feasible row."""
        columns = zip(self._columns, self._raws, self._normalized, strict=True)
        given = [(column, int(raw[row]), int(values[row])) for column, raw, values in columns]
        parts = tuple(
            PluginScore(column.plugin, column.weight, raw, value, value * column.weight)
            for column, raw, value in given
        )
        total = int(self._totals[row])
        rank = 1 + int(np.count_nonzero(self._feasible > total))
        return NodeScore(self.names[row], total, rank, parts)
