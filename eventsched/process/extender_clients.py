"""Extenders of a live scheduler: what is kept for them, and binds that are theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eventsched.cluster.extenders.client import Extenders, FailedError
from eventsched.cluster.kube.calls.dispatch import Calls
from eventsched.cluster.kube.watch.object_decoding import Keeps
from eventsched.cluster.kube.watch.resources import NODE, POD
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    GetPod,
    NodeSeen,
    PodAbsent,
    PodAnswer,
    PodSeen,
    PodShown,
    Seen,
    Unknown,
)
from eventsched.scheduling.config.sections import ExtenderSection


def keeps(configured: Sequence[ExtenderSection]) -> Mapping[str, Keeps]:
    """Of which objects the bytes are kept, by resource: of pods that wait, and of what extenders
    without a cache of their own are sent besides."""
    if not configured:
        return {}
    uncached = [each for each in configured if not each.node_cache_capable]
    found: dict[str, Keeps] = {POD: _waits}
    if any(each.preempt_verb for each in uncached):
        found[POD] = _is_any
    if any(each.filter_verb or each.prioritize_verb for each in uncached):
        found[NODE] = _is_any
    return found


def _waits(seen: Seen) -> bool:
    return isinstance(seen, PodSeen) and not seen.pod.node_name


def _is_any(seen: Seen) -> bool:
    return isinstance(seen, PodSeen | NodeSeen)


async def bound(extenders: Extenders, calls: Calls, request: BindPod) -> PodAnswer | Unknown:
    """Has an extender bind a pod. Where it refuses to the pod is looked at, and where it may be
    ignored the pod is bound as usual (upstream: schedule_one.go extendersBinding)."""
    try:
        await extenders.bind(request)
    except FailedError as failed:
        if extenders.is_ignorable(request.extender):
            answer = await calls.carry_out(replace(request, extender=-1))
            return _about(request, answer)
        if not failed.refused:
            return Unknown(request)
        looked = await calls.carry_out(GetPod(request.uid, request.namespace, request.name))
        return _about(request, looked, str(failed))
    return Bound(request)


def _about(request: BindPod, answer: object, message: str = "") -> PodAnswer | Unknown:
    """An answer to another request as one to this."""
    match answer:
        case Bound():
            return Bound(request)
        case PodShown(seen=seen):
            return PodShown(request, seen, message)
        case PodAbsent():
            return PodAbsent(request)
    return Unknown(request)
