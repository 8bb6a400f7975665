"""Results as JSON values: what commands print, and what the workers of a grid return."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from eventsched.domain.near_names import nearest
from eventsched.domain.units import SECOND
from eventsched.runtime.queries.what_if.cluster_measures import ClusterUse
from eventsched.runtime.queries.what_if.conditions import Condition, Measured
from eventsched.runtime.queries.what_if.history_run import ClosedOutcome, SideOutcome
from eventsched.runtime.queries.what_if.open_loop import OpenLoop
from eventsched.runtime.queries.what_if.pod_fates import Cause, Life, PodFate, Reason


def closed_document(outcome: ClosedOutcome) -> dict[str, Any]:
    """A closed loop: both sides, and the pods that differ, also counted by cause."""
    fates = list(outcome.fates)
    differing = [fate for fate in fates if fate.differs]
    reasons = [_reason_of(fate, outcome) for fate in differing]
    return {
        "loop": "closed",
        "first": outcome.first,
        "end": outcome.end,
        "moved": sum(fate.is_moved for fate in differing),
        "before": _side(outcome.before, [(fate, fate.before) for fate in fates], outcome.now),
        "after": _side(outcome.after, [(fate, fate.after) for fate in fates], outcome.now),
        "causes": _causes(reasons),
        "differences": [_difference(*pair) for pair in zip(differing, reasons, strict=True)],
        "warnings": [
            _without_profile(name, number, outcome.profiles)
            for name, number in outcome.unscheduled.items()
        ],
    }


def _without_profile(name: str, pods: int, profiles: Sequence[str]) -> str:
    """The warning that pods of a schedulerName are left out; a profile that is named nearly so may
    be mistyped."""
    said = f"no profile is named {name}: {pods} pod{'s' if pods != 1 else ''} of the range "
    near = nearest(name, profiles)
    meant = f"; did you mean {name} instead of {near[0]}?" if near else ""
    return f"{said}would not be scheduled{meant}"


def open_document(loop: OpenLoop, first: int, end: int) -> dict[str, Any]:
    """An open loop: the decisions that come out otherwise."""
    return {
        "loop": "open",
        "first": first,
        "end": end,
        "decisions": loop.decisions,
        "moved": sum(bool(other.before and other.after) for other in loop.others),
        "without_node": loop.unplaced,
        "causes": _causes(other.reason for other in loop.others),
        "differences": [
            {
                "namespace": other.namespace,
                "name": other.pod,
                "priority": other.priority,
                "position": other.position,
                "attempt": other.attempt,
                "before": {"node": other.before},
                "after": {"node": other.after},
                "reason": _reason(other.reason),
            }
            for other in loop.others
        ],
    }


def closed_value(outcome: ClosedOutcome, measured: Measured) -> float:
    """The value of a measure of the other side; waiting times are in seconds."""
    if measured.name == "empty":
        return len(outcome.after.use.empty)
    fates = [fate for fate in outcome.fates if measured.selects(fate.namespace, fate.priority)]
    match measured.name:
        case "moved":
            return sum(fate.is_moved for fate in fates)
        case "pending":
            return sum(not fate.after.node for fate in fates)
        case "preempted":
            return sum(fate.after.is_evicted for fate in fates)
    return _waited(_waits(((fate, fate.after) for fate in fates), outcome.now), measured.which)


def open_value(loop: OpenLoop, measured: Measured) -> float:
    """The value of ``moved()`` (decisions for another node) or ``pending()`` (decisions without a
    node that had one)."""
    others = [each for each in loop.others if measured.selects(each.namespace, each.priority)]
    if measured.name == "moved":
        return sum(bool(other.before and other.after) for other in others)
    return sum(not other.after for other in others)


def condition_document(condition: Condition, value: Callable[[Measured], float]) -> dict[str, Any]:
    """A condition, whether it holds, and the value of each measure that it compares."""
    values = {measured: value(measured) for measured in condition.measured}
    return {
        "condition": condition.text,
        "holds": condition.holds(values.__getitem__),
        "values": {measured.text: number for measured, number in values.items()},
    }


def _side(side: SideOutcome, lives: Sequence[tuple[PodFate, Life]], now: int) -> dict[str, Any]:
    # Pods that had a node are known only if a side evicts them: history's numbers would depend on
    # the rules that it is compared with.
    of_range = [life for fate, life in lives if not fate.had_node]
    waits = _waits(lives, now)
    return {
        "decisions": side.decisions,
        "placed": sum(bool(life.node) for life in of_range),
        "pending": sum(not life.node for life in of_range),
        "waited": {which: _waited(waits, which) for which in ("p50", "p99", "mean", "max")},
        "preemptions": side.preemptions,
        "evicted": sum(life.is_evicted for _, life in lives),
        **_use(side.use),
    }


def _use(use: ClusterUse) -> dict[str, Any]:
    return {
        "utilization": {
            name: {"mean": round(share.mean, 4), "peak": round(share.peak, 4)}
            for name, share in use.utilization.items()
        },
        "fragmentation": {name: round(share, 4) for name, share in use.fragmentation.items()},
        "spread": {name: round(share, 4) for name, share in use.spread.items()},
        "empty_nodes": list(use.empty),
        "unused_nodes": list(use.unused),
        "samples": [
            {
                "seconds": sample.at / SECOND,
                "requested": {name: round(v, 4) for name, v in sample.requested.items()},
                "waiting": sample.waiting,
            }
            for sample in use.samples
        ],
    }


def _causes(reasons: Iterable[Reason]) -> dict[str, int]:
    """How many reasons there are of each cause."""
    numbers = Counter(reason.cause for reason in reasons)
    return {cause.value: numbers[cause] for cause in Cause}


def _difference(fate: PodFate, reason: Reason) -> dict[str, Any]:
    return {
        "namespace": fate.namespace,
        "name": fate.name,
        "priority": fate.priority,
        "before": _life(fate, fate.before),
        "after": _life(fate, fate.after),
        "reason": _reason(reason),
    }


def _reason_of(fate: PodFate, outcome: ClosedOutcome) -> Reason:
    if fate.scheduler_name in outcome.unscheduled:
        return Reason("", f"no profile is named {fate.scheduler_name}")
    return fate.reason or _elsewhen(fate)


def _elsewhen(fate: PodFate) -> Reason:
    """Of a pod whose attempts are not comparable."""
    before, after = fate.before, fate.after
    if not before.node or not after.node:
        return Reason("", "decided at other times, in another state of the cluster")
    seconds = (after.placed_at - before.placed_at) / SECOND
    when = f"{abs(seconds):.3f}s {'later' if seconds > 0 else 'earlier'}"
    return Reason("", f"decided {when}, in another state of the cluster")


def _life(fate: PodFate, life: Life) -> dict[str, Any]:
    waited = (life.placed_at - fate.arrived) / SECOND if life.node else None
    return {"node": life.node, "waited": waited, "evicted": life.is_evicted}


def _reason(reason: Reason) -> dict[str, Any]:
    return {
        "plugin": reason.plugin, "text": reason.text, "position": reason.position,
        "cause": reason.cause.value,
    }  # fmt: skip


def _waits(lives: Iterable[tuple[PodFate, Life]], now: int) -> list[int]:
    """How long (µs) the pods waited that had no node at first, ascending: also those without a node
    until ``now`` or their end. Otherwise rules that place fewer pods would seem to be faster."""
    return sorted(fate.wait(life, now) for fate, life in lives if not fate.had_node)


def _waited(waits: Sequence[int], which: str) -> float:
    """A percentile (the nearest rank), the mean or the maximum, in seconds; 0 without pods."""
    if not waits:
        return 0.0
    if which == "mean":
        return sum(waits) / len(waits) / SECOND
    if which == "max":
        return waits[-1] / SECOND
    rank = -(-len(waits) * float(which[1:]) // 100)
    return waits[max(0, int(rank) - 1)] / SECOND
