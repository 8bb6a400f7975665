"""Where a pod stands, as data: the answer that ``explain`` begins with.

Folded from the pod's records alone. States are those of view ``pods_now``: ``bound``, ``binding``
(the bind is under way), ``waiting`` (it has a node, and waits at Permit or for PreBind), the four
queues, ``unqueued`` (nobody schedules it) and ``gone``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, PodQueued
from eventsched.history.explain.explanation import ExplainedAttempt, Explanation, NodeRefusals, Step
from eventsched.history.explain.remedies import remedy
from eventsched.history.explain.waits import waits_of_attempt
from eventsched.scheduling.queueing.queue import FLUSH_AFTER

BOUND, BINDING, WAITING, UNQUEUED, GONE = "bound", "binding", "waiting", "unqueued", "gone"


@dataclass
class Headline:
    """Where a pod stands. Times are µs.

    ``since`` is when it came to be so, ``waiting_since`` when it was first queued for the node that
    it still has not. ``until`` is the latest time at which that ends by itself: the end of a
    backoff, of a wait, or the flush. ``plugin`` and ``reason`` are the dominant refusal of the last
    attempt: that of most nodes (``nodes`` of ``of``; both 0 if the attempt did not end at nodes),
    the same as in ``pods_now``. ``waits_for`` names plugins whose waits hold the bind, or gates.
    ``helps`` says what would help, "" if nothing is known.
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
    of: int = 0
    waits_for: tuple[str, ...] = ()
    helps: str = ""
    scheduler: str = ""
    deleting: bool = False


def headline(explained: Explanation) -> Headline:
    """The pod's, after the last of its records."""
    found = Headline()
    for step in explained.steps:
        before = found.state, found.node
        _take(found, step, explained.pod.uid)
        if (found.state, found.node) != before:
            found.since = step.at
        if found.state == BOUND:
            found.waiting_since = None
    last = explained.attempts[-1] if explained.attempts else None
    if found.state == WAITING and last is not None:
        held = [
            each for each in waits_of_attempt(explained.steps, last.position) if each.ended is None
        ]
        found.waits_for = tuple(f"{each.plugin} at {each.point}" for each in held)
        found.until = min((each.due for each in held), default=None)
    elif found.state in ("active", "backoff", "unschedulable"):
        _take_refusal(found, last, explained.steps)
    return found


def _take(found: Headline, step: Step, uid: str) -> None:
    record = step.record
    match record:
        case records.PodAdded() | records.PodUpdated():
            pod = record.pod
            found.scheduler, found.deleting = pod.scheduler_name, pod.deleting
            if isinstance(record, records.PodAdded):
                found.since = step.at
            if pod.node_name:
                found.state, found.node = BOUND, pod.node_name
        case PodQueued():
            _queued(found, record, step.at)
        case PodDecided(outcome=Outcome.SCHEDULED | Outcome.WAITING):
            waits_first = record.outcome is Outcome.WAITING
            found.state, found.node = WAITING if waits_first else BINDING, record.node
            found.attempts, found.until = record.attempt, None
        case PodDecided():
            found.state, found.node, found.attempts = UNQUEUED, "", record.attempt
        case records.BindIntended():
            found.state, found.until = BINDING, None
        case records.PodBound():
            found.state, found.node, found.until = BOUND, record.node, None
        case records.PodUnreserved() if found.state != BOUND:
            found.state, found.node = UNQUEUED, ""
        case records.PodSkipped():
            found.state = UNQUEUED
        case records.EvictionSucceeded():
            found.deleting = True
        case records.PodDeleted():
            found.state, found.until = GONE, None


def _queued(found: Headline, moved: PodQueued, at: int) -> None:
    found.state, found.node = moved.queue.value, ""
    if found.waiting_since is None:
        found.waiting_since = at
    found.until = None
    if found.state == "backoff":
        found.until = moved.until
    elif found.state == "unschedulable":
        found.until = at + FLUSH_AFTER
    elif found.state == "gated":
        found.waits_for, found.plugin = moved.rejectors, moved.plugin
        found.reason, found.helps = moved.message, remedy(moved.plugin, ())


def _take_refusal(found: Headline, last: ExplainedAttempt | None, steps: Sequence[Step]) -> None:
    """Why the last attempt came to nothing."""
    if last is None:
        return
    decided = last.decided
    found.outcome = decided.outcome.value
    if decided.row >= 0:  # it had a node, and gave it up
        ended = [s.record for s in steps if s.position > last.position]
        lost = [r for r in ended if isinstance(r, records.PodUnreserved)]
        found.plugin = lost[-1].plugin if lost else decided.plugin
        found.reason = lost[-1].message if lost else decided.message
        return
    found.plugin, found.reason = decided.plugin, decided.message
    refused = dominant(last.refusals)
    if refused is not None and decided.outcome is Outcome.UNSCHEDULABLE:
        found.plugin, found.reason = refused.plugin, "; ".join(refused.reasons)
        found.nodes, found.of = refused.nodes, sum(each.nodes for each in last.refusals)
        found.helps = remedy(refused.plugin, refused.reasons)


def dominant(refusals: Sequence[NodeRefusals]) -> NodeRefusals | None:
    """The refusal of most nodes; what no plugin said of a node (PreFilter left it out, the search
    had ended) only if there is nothing else. Of equals the first: refusals stand in the order of
    their numbers."""
    said = [each for each in refusals if each.plugin] or list(refusals)
    return max(said, key=lambda each: each.nodes, default=None)
