"""The pods at a position, as rows that have the columns of table pod_now.

The folded state says which pods there are and where each stands. Since when one waits, and what its
last attempt came to, is read from the derived rows, by index and before the position.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import RowMapping

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.explain.evidence import uid_key
from eventsched.history.past_state.state_document import (
    AT_PERMIT,
    BINDING,
    BOUND,
    NOT_SCHEDULED_HERE,
    PREPARING,
    standing,
)
from eventsched.questions.answer_shapes import NodesFilled
from eventsched.questions.decisions import dominant_refusals
from eventsched.questions.streams import LoggedStream
from eventsched.runtime.queries.state_at import FoldedState

_AT_ONCE = 2_000
"""Pods or decisions that one query asks for."""
_STATES = {AT_PERMIT: "waiting", PREPARING: "waiting", NOT_SCHEDULED_HERE: "unqueued"}
"""Place of a pod in a state → its name in pod_now, for those that have another one."""
_FAILED = ("unschedulable", "error")

_T = TypeVar("_T")

_DECIDED = """
SELECT DISTINCT ON (d.pod) CAST(d.pod AS text) AS uid, d.seq, d.at,
       CAST(d.outcome AS text) AS outcome, d.feasible
FROM eventsched_log.decision d
WHERE d.stream = :s AND d.pod = ANY(CAST(:uids AS uuid[])) AND d.seq < :end
ORDER BY d.pod, d.seq DESC
"""
_QUEUED = """
SELECT CAST(m.pod AS text) AS uid, min(m.at) AS at FROM eventsched_log.queue_move m
WHERE m.stream = :s AND m.pod = ANY(CAST(:uids AS uuid[])) AND m.seq < :end GROUP BY m.pod
"""
_FIRST_QUEUED = """
SELECT CAST(m.pod AS text) AS uid, min(m.seq) AS seq, min(m.at) AS at
FROM eventsched_log.queue_move m
WHERE m.stream = :s AND m.pod = ANY(CAST(:uids AS uuid[])) AND m.seq < :end AND m.queue <> 'gated'
GROUP BY m.pod
"""
_BOUND = """
SELECT CAST(r.pod AS text) AS uid, min(r.at) AS at FROM eventsched_log.reservation r
WHERE r.stream = :s AND r.pod = ANY(CAST(:uids AS uuid[])) AND r.seq < :end
  AND r.ended_by = 'PodBound'
GROUP BY r.pod
"""
_REFUSED = """
SELECT r.seq, r.number FROM eventsched_log.refusal r
WHERE r.stream = :s AND r.seq >= :low AND r.seq <= :high
  AND r.seq = ANY(CAST(:seqs AS bigint[]))
"""


class PastPods(NamedTuple):
    """The pods before the record at ``position``; ``now`` is the time then (µs). ``rows`` have the
    columns of pod_now, in the order in which the pods came; of a pod without a node also the
    ``outcome`` of its last attempt, how many nodes were ``feasible`` and, if it failed,
    ``numbers``: those of all its verdicts. ``since`` is None if no row says it: of a pod that
    another scheduler placed, or that left Permit. ``nodes``: how full the nodes were."""

    position: int
    now: int
    rows: Sequence[Mapping[str, Any]]
    nodes: NodesFilled


def past_pods(stream: LoggedStream, folded: FoldedState, nodes: NodesFilled) -> PastPods:
    """The pods of a folded state. Raises UnavailableError."""
    state, end = folded.state, folded.position
    rows = [_row(state, each) for each in state.pods.values()]
    _add_times(stream, rows, end)
    _add_attempts(stream, [row for row in rows if row["state"] != BOUND], end)
    rows.sort(key=lambda row: row["seq"])
    return PastPods(end, state.now, rows, nodes)


def _row(state: SchedulerState, pod_state: PodState) -> dict[str, Any]:
    """What the state says about a pod."""
    pod, place = pod_state.pod, standing(state, pod_state)
    owner = pod.owner
    return {
        "uid": uid_key(pod.uid), "seq": pod_state.number,
        "since": None if pod_state.queue is None else pod_state.entered,
        "waiting_since": None, "decided_seq": None, "attempts": pod_state.attempts,
        "priority": pod.priority, "verdict": None, "deleting": pod.deleting,
        "state": _STATES.get(place, place), "namespace": pod.namespace, "name": pod.name,
        "scheduler": pod.scheduler_name, "owner_kind": owner.kind if owner else None,
        "owner_name": owner.name if owner else None, "node": pod_state.booked_node or None,
        "nominated": state.preemptions.node(pod.uid) or None, "plugin": None, "message": None,
        "numbers": frozenset(), "outcome": None, "feasible": 0,
    }  # fmt: skip


def _add_times(stream: LoggedStream, rows: list[dict[str, Any]], end: int) -> None:
    """Since when pods wait, and since when those that this scheduler placed are on their nodes."""
    waiting = {row["uid"]: row for row in rows if row["state"] != BOUND}
    for found in _of_pods(stream, _QUEUED, list(waiting), end):
        waiting[found["uid"]]["waiting_since"] = found["at"]
    bound = {row["uid"]: row for row in rows if row["state"] == BOUND}
    for found in _of_pods(stream, _BOUND, list(bound), end):
        bound[found["uid"]]["since"] = found["at"]
    # An attempt takes a pod out of a queue. Without one it may have come with its node.
    untried = {uid: row for uid, row in bound.items() if not row["attempts"]}
    queued = {found["uid"] for found in _of_pods(stream, _QUEUED, list(untried), end)}
    came = {row["seq"]: row for uid, row in untried.items() if uid not in queued}
    for seqs in _chunks(list(came)):  # with a node
        for seq, stored in stream.evidence().records_at(seqs).items():
            came[seq]["since"] = stored.at


def _add_attempts(stream: LoggedStream, rows: list[dict[str, Any]], end: int) -> None:
    """What the last attempts of pods without a node came to."""
    by_uid = {row["uid"]: row for row in rows}
    failed: dict[int, dict[str, Any]] = {}
    for found in last_attempts(stream, list(by_uid), end):
        row = by_uid[found["uid"]]
        row["decided_seq"], row["outcome"] = found["seq"], found["outcome"]
        row["feasible"] = found["feasible"]
        if found["outcome"] in _FAILED:
            failed[found["seq"]] = row
        is_allowed = row["state"] == BINDING and found["outcome"] == "waiting"  # some time later
        if row["since"] is None and not is_allowed:
            row["since"] = found["at"]
    for seqs in _chunks(sorted(failed)):
        for seq, number in dominant_refusals(stream, seqs).items():
            failed[seq]["verdict"] = number
        for refused in stream.rows.all(_REFUSED, low=seqs[0], high=seqs[-1], seqs=tuple(seqs)):
            failed[refused["seq"]]["numbers"] |= {refused["number"]}
    unnamed = (seq for seq, row in failed.items() if row["verdict"] in (None, STORED_EXCLUDED))
    for seqs in _chunks(sorted(unnamed)):
        add_messages(stream, [failed[seq] for seq in seqs])


def last_attempts(stream: LoggedStream, uids: list[str], end: int) -> Iterator[RowMapping]:
    """The last attempt before position ``end`` of each pod that had one: uid, seq, at, outcome."""
    return _of_pods(stream, _DECIDED, uids, end)


def first_queued(stream: LoggedStream, uids: list[str], end: int) -> Iterator[RowMapping]:
    """When each pod first came to a queue other than the gated one, before position ``end``: uid,
    seq, at."""
    return _of_pods(stream, _FIRST_QUEUED, uids, end)


def add_messages(stream: LoggedStream, rows: Sequence[dict[str, Any]]) -> None:
    """The plugin and the message of failed last attempts, from their records."""
    by_seq = {row["decided_seq"]: row for row in rows}
    for seq, stored in stream.evidence().records_at(by_seq).items() if by_seq else ():
        record = stored.record
        assert isinstance(record, PodDecided)
        if record.outcome.value in _FAILED:
            by_seq[seq]["plugin"], by_seq[seq]["message"] = record.plugin, record.message


def _of_pods(stream: LoggedStream, query: str, uids: list[str], end: int) -> Iterator[RowMapping]:
    for some in _chunks(uids):
        # As the text of an array: an array of texts is looked through for what has to be quoted.
        yield from stream.rows.all(query, uids=f"{{{','.join(some)}}}", end=end)


def _chunks(items: list[_T]) -> Iterator[list[_T]]:
    for first in range(0, len(items), _AT_ONCE):
        yield items[first : first + _AT_ONCE]
