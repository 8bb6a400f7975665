"""Explains from the log alone why a pod is on its node, or on none. The engine's state is not used.

``eventsched explain`` and ``simulate --why`` print it (output/explain_output.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from eventsched.domain import near_names, records
from eventsched.domain.errors import InputError
from eventsched.domain.records import AnyRecord, MoveCause, PodDecided, PodQueued
from eventsched.domain.records.exclusions import EXCLUSION_CODE, UNNAMED
from eventsched.domain.records.verdicts import (
    STORED_EXCLUDED,
    STORED_NOT_EVALUATED,
    STORED_PASSES,
    Detail,
    Verdict,
)
from eventsched.eventlog.port import StoredRecord
from eventsched.history.closed_nodes import ClosedNodes, UnselectedNodes
from eventsched.history.decision_vectors import (
    DecisionVectors,
    NodeScore,
    VectorSource,
)
from eventsched.history.explain import update_differences
from eventsched.history.explain.evictions import ExplainedEviction, eviction_of
from eventsched.history.explain.evidence import Evidence, LoggedPod, uid_key
from eventsched.history.explain.origins import Origin, origins_of
from eventsched.history.explain.preemption_explanation import (
    PreemptionExplanation,
    UnusedRoom,
    explain_preemption,
    unused_room,
)
from eventsched.history.explain.record_text import Namer, describe, describe_victim, pods_named_in
from eventsched.history.explain.sample_ages import SampleAge, sample_ages_at
from eventsched.history.undecided_pods import undecided_error

_SUGGESTED = 3
_LEAST_RATIO = 0.6
"""The least likeness of names that are offered."""
_OWN_CAUSES = frozenset(
    {MoveCause.POD_ADD, MoveCause.ATTEMPT_FAILED, MoveCause.BACKOFF_COMPLETE, MoveCause.FLUSH}
)
"""Causes of moves between queues that are due to the pod itself or to the clock."""
_WORDS_OF_FIXED_CODES: dict[int, tuple[str, str]] = {
    STORED_EXCLUDED: (EXCLUSION_CODE, UNNAMED.reason),
    STORED_NOT_EVALUATED: ("NotEvaluated", "the search ended before this node"),
}


class NoPodError(InputError):
    """The log holds no pod of that name (yet)."""


@dataclass(frozen=True)
class Step:
    """A record of the pod, and its text. ``origin`` is the event elsewhere that moved the pod
    between queues, if it was one."""

    position: int
    at: int
    record: AnyRecord
    text: str
    origin: Origin | None


@dataclass(frozen=True)
class NodeRefusals:
    """Nodes that were refused for the same reasons. ``plugin`` is "" if PreFilter as a whole left
    the nodes out, or if the search ended before them. ``nodes`` is their number; ``examples`` names
    the first EXAMPLES of them in row order, if the log has the vectors."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int
    examples: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeAnswer:
    """The result for one node: its refusal, or its scores and how far its sum is ``behind`` the
    best."""

    node: str
    refusal: NodeRefusals | None
    score: NodeScore | None
    behind: int


@dataclass(frozen=True)
class ExplainedAttempt:
    """An attempt with the results for the nodes. ``compared`` holds the chosen node and the
    runner-up, ``node_answer`` the node that the user asked about. These, the examples,
    ``samples`` and ``source`` are filled in only for the attempt to explain, as far as its vectors
    are there. ``best_nodes`` is the number of nodes whose scores they have."""

    position: int
    at: int
    decided: PodDecided
    refusals: tuple[NodeRefusals, ...]
    compared: tuple[NodeScore, ...] = ()
    node_answer: NodeAnswer | None = None
    source: VectorSource = VectorSource.NONE
    best_nodes: int = 0
    samples: tuple[SampleAge, ...] = ()


class Gap(NamedTuple):
    """How many records of the pod are left out before the one at a position."""

    position: int
    left_out: int


@dataclass(frozen=True)
class Explanation:
    """What a log says about a pod. ``older`` are earlier pods of the same name. ``explained`` is
    the attempt to explain; None if there was none yet."""

    stream: str
    pod: LoggedPod
    older: tuple[LoggedPod, ...]
    steps: tuple[Step, ...]
    attempts: tuple[ExplainedAttempt, ...]
    explained: ExplainedAttempt | None
    preemption: PreemptionExplanation | None = None
    """The preemption that the explained attempt caused, or that made room for it."""
    begin: int = 0
    """The position of the first record that was kept, if the pod was added before; else 0."""
    is_shadow: bool = False
    """Whether the log is a shadow's, by whose decisions nothing is bound."""
    eviction: ExplainedEviction | None = None
    """The eviction of the pod. A shadow evicts none."""
    closed: tuple[ClosedNodes, ...] | None = None
    """The nodes that only taints or a cordon close to the pod; None if that was not checked."""
    unselected: UnselectedNodes = UnselectedNodes()  # noqa: RUF009 - immutable
    """The open nodes that only its node selector or affinity leaves out, if that was checked."""
    unused_room: UnusedRoom | None = None
    """The room that the pod's last preemption made for it, if it was placed on another node."""
    gaps: tuple[Gap, ...] = ()

    @property
    def moves(self) -> list[Step]:
        """The pod's moves between queues."""
        return [step for step in self.steps if isinstance(step.record, PodQueued)]


def explain(
    evidence: Evidence,
    name: str,
    attempt: int | None = None,
    node: str | None = None,
    recompute: Callable[[int], Detail] | None = None,
) -> Explanation:
    """Explains a pod. ``name`` is ``namespace/name``, a unique name, or a uid; among pods that had
    the same name over time it means the newest. ``attempt`` is the attempt to explain, by default
    the last; ``node`` a node to report on. ``recompute`` gives the vectors of the decision at a
    position; without it those that are stored are used. Raises InputError for anything that the log
    does not hold."""
    pod, older = find_pod(evidence, name)
    stored = list(evidence.records(pod))
    begin = evidence.begin if pod.position < evidence.begin else 0
    steps = _steps(evidence, pod, stored, begin)
    verdicts = evidence.verdicts()
    attempts = [
        ExplainedAttempt(step.position, step.at, step.record, refusals_of(step.record, verdicts))
        for step in steps
        if isinstance(step.record, PodDecided)
    ]
    eviction = None
    if not evidence.is_shadow:
        recorded = ((step.position, step.record) for step in steps)
        eviction = eviction_of(evidence, pod.uid, recorded)
    index = attempt_index([each.decided.attempt for each in attempts], attempt, pod)
    if index is None:
        if node is not None:
            raise undecided_error("--node", pod.full_name, (step.record for step in steps))
        return Explanation(
            evidence.stream, pod, older, steps, tuple(attempts), None, begin=begin,
            is_shadow=evidence.is_shadow, eviction=eviction,
        )  # fmt: skip
    attempts[index] = _with_vectors(evidence, attempts[index], verdicts, node, recompute)
    return Explanation(
        evidence.stream, pod, older, steps, tuple(attempts), attempts[index],
        _preemption_of(evidence, pod, steps, attempts[index], recompute or evidence.detail), begin,
        evidence.is_shadow, eviction, unused_room=unused_room(evidence, pod.uid, steps),
    )  # fmt: skip


def _preemption_of(
    evidence: Evidence,
    pod: LoggedPod,
    steps: tuple[Step, ...],
    attempt: ExplainedAttempt,
    detail_at: Callable[[int], Detail | None],
) -> PreemptionExplanation | None:
    """The preemption that followed the attempt, or the one before it if the attempt placed the pod
    on the node that the preemption nominated it to. ``detail_at`` gives the vectors of the decision
    at a position."""
    decided, found = attempt.decided, None
    for number, step in enumerate(steps):
        record = step.record
        if not isinstance(record, records.PreemptionDecided) or uid_key(record.uid) != pod.uid:
            continue
        is_result = step.position > attempt.position and record.attempt == decided.attempt
        is_earlier = step.position < attempt.position and decided.nominated
        if is_result or (is_earlier and record.node == decided.node):
            found = number, record
    if found is None:
        return None
    number, record = found
    position = steps[number].position
    detail = detail_at(position) if record.digest else None
    return explain_preemption(evidence, position, record, steps[number + 1 :], detail)


def find_pod(evidence: Evidence, name: str) -> tuple[LoggedPod, tuple[LoggedPod, ...]]:
    """The newest pod of that name (or uid), and the older ones. Raises InputError."""
    pods = evidence.pods(name)
    full_names = sorted({pod.full_name for pod in pods})
    if not pods:
        lowered = name.lower()  # as the API server takes names
        remedy = suggestion(lowered, evidence.similar(lowered))
        raise NoPodError(
            "POD", f"there is no pod {name or repr(name)} in stream {evidence.stream}", remedy
        )
    if len(full_names) > 1:
        problem = f"{name} is the name of {len(full_names)} pods"
        raise InputError("POD", problem, f"name one: {', '.join(full_names[:9])}")
    return pods[-1], tuple(pods[:-1])


def suggestion(name: str, known: list[str]) -> str:
    """The remedy for an unknown name: the nearest of the known full names."""
    nearest = near_names.nearest(name, known, _LEAST_RATIO)
    if not nearest:  # a bare name, or one with another namespace
        bare = {full_name.rpartition("/")[2]: full_name for full_name in reversed(known)}
        matches = near_names.nearest(name.rpartition("/")[2], bare, _LEAST_RATIO)
        nearest = [bare[match] for match in matches]
    if nearest:
        return f"did you mean {' or '.join(nearest)}?"
    return f"there are, among others: {', '.join(known[:_SUGGESTED])}" if known else "there is none"


def _steps(
    evidence: Evidence, pod: LoggedPod, stored: list[StoredRecord], begin: int
) -> tuple[Step, ...]:
    """The pod's records with their texts, and the origins of its moves between queues. The records
    before position ``begin`` are made up."""
    decoded = [(entry, entry.record) for entry in stored]
    causes = {
        entry.cause
        for entry, record in decoded
        if isinstance(record, PodQueued) and record.cause not in _OWN_CAUSES
    }
    origins = origins_of(evidence, causes - {entry.position for entry in stored})
    names = evidence.names({uid for _, record in decoded for uid in pods_named_in(record)})
    changes = update_differences.in_words(
        (entry.position, record) for entry, record in decoded if entry.position >= begin
    )
    return tuple(
        Step(
            entry.position,
            entry.at,
            record,
            changes.get(entry.position) or _text_of(record, pod, lambda uid: names.get(uid, uid)),
            origins.get(entry.cause) if isinstance(record, PodQueued) else None,
        )
        for entry, record in decoded
    )


def _text_of(record: AnyRecord, pod: LoggedPod, name: Namer) -> str:
    """What a record says about the pod."""
    if isinstance(record, records.PreemptionDecided) and uid_key(record.uid) != pod.uid:
        uid = next(uid for uid in record.victims if uid_key(uid) == pod.uid)
        return describe_victim(record, uid, name)
    return describe(record, name)


def attempt_index(made: Sequence[int], attempt: int | None, pod: LoggedPod) -> int | None:
    """The index of the attempt to explain among the numbers of those that were ``made``, by default
    the last; None if there is none yet. Raises InputError."""
    if attempt is None:
        return len(made) - 1 if made else None
    for index in reversed(range(len(made))):
        if made[index] == attempt:
            return index
    numbers = sorted(set(made))
    known = f"there are 1 to {numbers[-1]}" if len(numbers) > 1 else "there is 1"
    raise InputError(
        "--attempt",
        f"there was no attempt {attempt} for {pod.full_name}",
        known if numbers else "none was made yet",
    )


def refusals_of(decided: PodDecided, verdicts: Mapping[int, Verdict]) -> tuple[NodeRefusals, ...]:
    """The refusals of an attempt, in order of their numbers, without example nodes."""
    if (
        not decided.evaluated
        and decided.plugin
        and [n for n, _ in decided.counts] == [STORED_EXCLUDED]
    ):
        # PreFilter refused the pod on all nodes at once: its message is that of the attempt.
        (_, nodes), reasons = decided.counts[0], (decided.message,)
        return (
            NodeRefusals(decided.plugin, _WORDS_OF_FIXED_CODES[STORED_EXCLUDED][0], reasons, nodes),
        )
    return tuple(_refusal(number, nodes, verdicts) for number, nodes in decided.counts)


def _refusal(number: int, nodes: int, verdicts: Mapping[int, Verdict]) -> NodeRefusals:
    if number in _WORDS_OF_FIXED_CODES:
        code, reason = _WORDS_OF_FIXED_CODES[number]
        return NodeRefusals("", code, (reason,), nodes)
    verdict = verdicts[number]
    return NodeRefusals(verdict.plugin, verdict.code.value, verdict.reasons, nodes)


def _with_vectors(
    evidence: Evidence,
    attempt: ExplainedAttempt,
    verdicts: Mapping[int, Verdict],
    node: str | None,
    recompute: Callable[[int], Detail] | None,
) -> ExplainedAttempt:
    """The attempt with the parts that come from its vectors. Raises InputError for a node that
    they do not have."""
    decided = attempt.decided
    source, detail = _vectors_of(evidence, attempt, recompute)
    if detail is None:
        if node is not None:
            remedy = "add --recompute" if source is VectorSource.DIGEST else "leave the option out"
            problem = f"attempt {decided.attempt} kept no verdicts of single nodes"
            raise InputError("--node", problem, remedy)
        return replace(attempt, source=source)
    vectors = DecisionVectors(
        decided, detail, evidence.nodes(attempt.position), evidence.columns(decided.scoring)
    )
    refusals = tuple(
        replace(refusal, examples=vectors.refused(number))
        for refusal, (number, _) in zip(attempt.refusals, decided.counts, strict=True)
    )
    compared = [] if decided.row < 0 else [vectors.score(decided.row)]
    if compared and decided.runner_up in vectors.present:
        compared.append(vectors.score(vectors.present[decided.runner_up]))
    if node is not None and node not in vectors.present and source is VectorSource.BEST:
        problem = f"attempt {decided.attempt} kept the best nodes, and {node} is not among them"
        raise InputError("--node", problem, "add --recompute")
    return replace(
        attempt,
        refusals=refusals,
        compared=tuple(compared),
        node_answer=None if node is None else _node_answer(evidence, vectors, verdicts, node),
        source=source,
        best_nodes=vectors.best_nodes,
        samples=sample_ages_at(evidence, attempt.position, attempt.at, decided),
    )


def _vectors_of(
    evidence: Evidence, attempt: ExplainedAttempt, recompute: Callable[[int], Detail] | None
) -> tuple[VectorSource, Detail | None]:
    """The vectors of an attempt, with an array for each column."""
    if not attempt.decided.digest:
        return VectorSource.NONE, None
    if recompute is not None:
        return VectorSource.RECOMPUTED, recompute(attempt.position)
    detail = evidence.detail(attempt.position)
    if detail is None:
        return VectorSource.DIGEST, None
    return VectorSource.BEST if detail.is_partial else VectorSource.ALL, detail


def _node_answer(
    evidence: Evidence, vectors: DecisionVectors, verdicts: Mapping[int, Verdict], node: str
) -> NodeAnswer:
    """The attempt's result for a node. Raises InputError if the node was not there."""
    if node not in vectors.present:
        remedy = near_names.offer(node, vectors.present)
        was_ever_there = evidence.has_node(node)
        problem = "was not there at that attempt" if was_ever_there else "is not known"
        raise InputError("--node", f"{node} {problem}", remedy)
    row = vectors.present[node]
    number = int(vectors.codes[row])
    if number != STORED_PASSES:
        return NodeAnswer(node, _refusal(number, 1, verdicts), None, 0)
    score = vectors.score(row)
    return NodeAnswer(node, None, score, vectors.best - score.total)
