"""The present state of a pod, as data: the first part of what ``explain`` prints.

Computed from the pod's records alone. The states are those of view ``pods_now``: ``bound``,
``binding`` (the bind is in progress), ``waiting`` (it has a node and waits at Permit or for
PreBind), the four queues, ``unqueued`` (in no queue) and ``gone`` (deleted).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eventsched.domain import records
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Pod
from eventsched.domain.records import AnyRecord, Outcome, PodDecided, PodQueued
from eventsched.domain.records.verdicts import Code
from eventsched.history.closed_nodes import closed_nodes, unselected_nodes
from eventsched.history.dominant_refusal import refusal_rank
from eventsched.history.explain.conclusions.named_refusal import (
    AFFINITY,
    CORDON,
    TAINT,
    named_refusal,
)
from eventsched.history.explain.conclusions.remedies import (
    NO_VOLUME_FITS,
    OTHER_NODES,
    Circumstances,
    next_step,
    remedy,
)
from eventsched.history.explain.explanation import ExplainedAttempt, Explanation, NodeRefusals
from eventsched.history.explain.waits import waits_of_attempt
from eventsched.scheduling.queueing.queue_index import FLUSH_AFTER

BOUND, BINDING, WAITING, UNQUEUED, GONE = "bound", "binding", "waiting", "unqueued", "gone"
VICTIMS_NAMED = 3
_FIT = "NodeResourcesFit"
_QUEUED = ("active", "backoff", "unschedulable", "gated")


@dataclass
class Headline:
    """The present state of a pod. Times are in µs.

    ``since``: when the state began. ``waiting_since``: when a pod without a node was first queued.
    ``until``: the latest time at which the state ends by itself (a backoff, a wait or the flush).
    ``plugin`` and ``reason``: the refusal of the last attempt that is named (named_refusal.py), on
    ``nodes`` of ``of``, of which ``with_reason`` have the reason; all 0 if no node was refused.
    ``closed_by``: the plugin that alone refuses nodes large enough for the pod, if NodeResourcesFit
    is named and no other node is; opening these is the next step. "" without one.
    ``waits_for``: the plugins whose waits delay the bind, or the scheduling gates.
    ``helps``: what would help, "" if that is not known.
    ``evicted_by``: the pod for which it had to leave its node, or has to; "" without one.
    ``next_step``: what to do about it, as an imperative phrase; "" if a pod needs nothing.
    """

    state: str = UNQUEUED
    node: str = ""
    since: int = 0
    waiting_since: int | None = None
    until: int | None = None
    attempts: int = 0
    outcome: str = ""
    plugin: str = ""
    reason: str = ""
    nodes: int = 0
    with_reason: int = 0
    of: int = 0
    closed_by: str = ""
    waits_for: tuple[str, ...] = ()
    helps: str = ""
    next_step: str = ""
    scheduler: str = ""
    deleting: bool = False
    evicted_by: str = ""


def headline(explained: Explanation) -> Headline:
    """The state of the pod after its last record."""
    pod = Headline()
    for step in explained.steps:
        take(pod, step.at, step.record)
    last = explained.attempts[-1] if explained.attempts else None
    if pod.state == WAITING and last is not None:
        waits = waits_of_attempt(explained.steps, last.position)
        open_waits = [wait for wait in waits if wait.ended is None]
        pod.waits_for = tuple(f"{wait.plugin} at {wait.point}" for wait in open_waits)
        pod.until = min((wait.due for wait in open_waits), default=None)
    elif pod.state in _QUEUED and pod.state != "gated":
        _add_refusal(pod, last, explained)
    if explained.eviction is not None and pod.state in (BOUND, GONE):
        pod.evicted_by = explained.eviction.by
    pod.next_step = _next_step(pod, explained)
    return pod


def take(pod: Headline, at: int, record: AnyRecord) -> None:
    """Changes the state of a pod by its next record, of a time (µs)."""
    before = pod.state, pod.node
    _apply(pod, at, record)
    if (pod.state, pod.node) != before:
        pod.since = at
    if pod.state == BOUND:
        pod.waiting_since = None


def _next_step(pod: Headline, explained: Explanation) -> str:
    """What to do about a pod that a plugin keeps in a queue."""
    if pod.state not in _QUEUED or (not pod.plugin and not pod.of):
        return ""
    if pod.outcome == Outcome.ERROR:
        return f"fix what the message of {pod.plugin} names, the pod is tried again by itself"
    gave_up_node = pod.outcome in (Outcome.SCHEDULED, Outcome.WAITING)
    if gave_up_node and pod.plugin != "Coscheduling":
        return "wait for the next attempt, the pod had a node and is tried again by itself"
    room = explained.preemption
    last = explained.attempts[-1].position if explained.attempts else -1
    if room is not None and room.position > last and not room.landed:
        left = f"{victims_text(room.victims)} {'has' if len(room.victims) == 1 else 'have'} left"
        return f"wait until {left} {room.decided.node}, it is tried again then"
    refused = named_refusal(explained)
    code, reasons = "", pod.reason.split("; ")
    if refused is not None and refused.plugin == pod.plugin:
        # What makes room has to hold for whatever the nodes lack.
        code, reasons = refused.code, [*(refused.all_reasons if pod.plugin == _FIT else reasons)]
    name, spec = explained.pod.full_name, _last_seen(explained)
    circumstances = _circumstances(explained)._replace(full=_full_node(explained, code))
    return next_step(pod.plugin, reasons, name, spec, code, circumstances)


def _full_node(explained: Explanation, code: str) -> str:
    """A node that lacked room for the pod in its last attempt, with that code; "" if none is
    named."""
    refusals = explained.attempts[-1].refusals if explained.attempts else ()
    refused = (each for each in refusals if each.plugin == _FIT and each.code == code)
    return next((node for each in refused for node in each.examples), "")


def _last_seen(explained: Explanation) -> Pod | None:
    """The pod as it was last observed."""
    seen = (
        step.record.pod
        for step in reversed(explained.steps)
        if isinstance(step.record, records.PodAdded | records.PodUpdated)
    )
    return next(seen, None)


def _circumstances(explained: Explanation) -> Circumstances:
    """What else the last attempt shows."""
    if not explained.attempts:
        return Circumstances()
    last = explained.attempts[-1]
    refused = {
        plugin: [refusal for refusal in last.refusals if refusal.plugin == plugin]
        for plugin in (CORDON, TAINT)
    }
    examples = [node for rows in refused.values() for row in rows for node in row.examples]
    unmatched = [row for row in last.refusals if NO_VOLUME_FITS in row.reasons]
    return Circumstances(
        sum(row.nodes for row in refused[TAINT]),
        sum(row.nodes for row in refused[CORDON]),
        examples[0] if examples else "",
        last.decided.message,
        explained.closed,
        explained.unselected,
        too_small=_too_small(last.refusals),
        without_volume=sum(row.nodes for row in unmatched),
        is_tied=any(OTHER_NODES in row.reasons for row in last.refusals),
        without_volume_example=next((node for row in unmatched for node in row.examples), ""),
    )


def _too_small(refusals: Sequence[NodeRefusals]) -> tuple[str, ...]:
    """Why nodes are too small for the pod even if they are empty."""
    rows = [row for row in refusals if row.plugin == _FIT and row.code == Code.UNRESOLVABLE]
    return tuple(dict.fromkeys(reason for row in rows for reason in row.reasons))


def needs_closed_nodes(explained: Explanation) -> bool:
    """Whether the next step depends on the nodes that only taints or a cordon close to the pod."""
    seen, pod = _circumstances(explained), headline(explained)
    depends = pod.plugin in (_FIT, TAINT, CORDON, AFFINITY) and pod.state in _QUEUED
    return bool(seen.tainted or seen.cordoned) and depends


def with_closed_nodes(
    explained: Explanation, nodes: NodeTable | None, *, has_pods: bool = False
) -> Explanation:
    """The explanation with those of the nodes that only taints or a cordon close to the pod, and
    those that only their labels do. None: the nodes are not known. ``has_pods``: whether the table
    has the pods on them."""
    pod = _last_seen(explained)
    if nodes is None or pod is None:
        return explained
    return replace(
        explained,
        closed=closed_nodes(nodes, pod, has_pods=has_pods),
        unselected=unselected_nodes(nodes, pod, has_pods=has_pods),
    )


def victims_text(names: Sequence[str]) -> str:
    """The names of victims in a sentence: the first ones, and how many there are besides."""
    known = list(dict.fromkeys(names))
    if len(known) > VICTIMS_NAMED + 1:
        rest = len(names) - VICTIMS_NAMED
        known = [*known[:VICTIMS_NAMED], f"{rest} more"]
    return " and ".join(filter(None, [", ".join(known[:-1]), *known[-1:]]))


def _apply(pod: Headline, at: int, record: AnyRecord) -> None:
    """Applies one record, in the way that view ``pods_now`` does."""
    match record:
        case records.PodAdded() | records.PodUpdated() as observed:
            _apply_observed(pod, observed, at)
        case PodQueued() as moved:
            _apply_move(pod, moved, at)
        case PodDecided() as decided:
            _apply_decision(pod, decided)
        case records.BindIntended():
            pod.state, pod.until = BINDING, None
        case records.PodBound() as bound:
            pod.state, pod.node, pod.until = BOUND, bound.node, None
        case records.PodUnreserved() if pod.state != BOUND:
            pod.state, pod.node = UNQUEUED, ""
        case records.PodSkipped():
            pod.state = UNQUEUED
        case records.EvictionSucceeded():
            pod.deleting = True
        case records.PodDeleted():
            pod.state, pod.until = GONE, None


def _apply_observed(pod: Headline, record: records.PodAdded | records.PodUpdated, at: int) -> None:
    observed = record.pod
    pod.scheduler, pod.deleting = observed.scheduler_name, observed.deleting
    if isinstance(record, records.PodAdded):
        pod.since = at
    if observed.node_name:
        pod.state, pod.node = BOUND, observed.node_name


def _apply_decision(pod: Headline, decided: PodDecided) -> None:
    pod.attempts = decided.attempt
    if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
        pod.state = WAITING if decided.outcome is Outcome.WAITING else BINDING
        pod.node, pod.until = decided.node, None
    else:
        pod.state, pod.node = UNQUEUED, ""


def _apply_move(pod: Headline, moved: PodQueued, at: int) -> None:
    pod.state, pod.node = moved.queue.value, ""
    if pod.waiting_since is None:
        pod.waiting_since = at
    pod.until = None
    if pod.state == "backoff":
        pod.until = moved.until
    elif pod.state == "unschedulable":
        pod.until = at + FLUSH_AFTER
    elif pod.state == "gated":
        pod.waits_for, pod.plugin = moved.rejectors, moved.plugin
        pod.reason, pod.helps = moved.message, remedy(moved.plugin, ())


def _add_refusal(pod: Headline, last: ExplainedAttempt | None, explained: Explanation) -> None:
    """Adds why the last attempt did not place the pod."""
    if last is None:
        return
    decided = last.decided
    pod.outcome = decided.outcome.value
    pod.plugin, pod.reason = decided.plugin, decided.message
    if decided.row >= 0:  # the attempt chose a node, which the pod gave up later
        later = [step.record for step in explained.steps if step.position > last.position]
        unreserved = [record for record in later if isinstance(record, records.PodUnreserved)]
        if unreserved:
            pod.plugin, pod.reason = unreserved[-1].plugin, unreserved[-1].message
        return
    refused = named_refusal(explained)
    if refused is not None and decided.outcome is Outcome.UNSCHEDULABLE:
        pod.plugin, pod.reason = refused.plugin, "; ".join(refused.reasons)
        pod.nodes, pod.with_reason = refused.nodes, refused.with_reasons
        pod.of = sum(refusal.nodes for refusal in last.refusals)
        pod.helps = remedy(refused.plugin, refused.reasons, refused.code, refused.closed_by)
        pod.closed_by = refused.closed_by


def dominant(refusals: Sequence[NodeRefusals]) -> NodeRefusals | None:
    """The refusal to name first: of the lowest rank, then of the most nodes. Among equals it is the
    first; refusals are in order of their numbers."""
    return min(
        refusals,
        key=lambda each: (refusal_rank(each.plugin, each.code), -each.nodes),
        default=None,
    )
