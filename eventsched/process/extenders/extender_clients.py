"""Extenders of a live scheduler: which objects' bytes are kept for them, and binds through them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from eventsched.cluster.extenders.client import Extenders, FailedError
from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
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
    """Which objects' bytes are kept, by resource: those of waiting pods, and whatever else is sent
    to extenders without a cache of their own."""
    if not configured:
        return {}
    uncached = [extender for extender in configured if not extender.node_cache_capable]
    keeps_by_resource: dict[str, Keeps] = {POD: _waits}
    if any(extender.preempt_verb for extender in uncached):
        keeps_by_resource[POD] = _is_any
    if any(extender.filter_verb or extender.prioritize_verb for extender in uncached):
        keeps_by_resource[NODE] = _is_any
    return keeps_by_resource


def _waits(seen: Seen) -> bool:
    return isinstance(seen, PodSeen) and not seen.pod.node_name


def _is_any(seen: Seen) -> bool:
    return isinstance(seen, PodSeen | NodeSeen)


async def bound(
    extenders: Extenders, calls: RequestDispatcher, request: BindPod
) -> PodAnswer | Unknown:
    """Has an extender bind a pod. If it refuses, the pod is read to see what happened. If the
    extender fails and is ignorable, the pod is bound as usual (upstream: schedule_one.go
    extendersBinding)."""
    try:
        await extenders.bind(request)
    except FailedError as failed:
        if extenders.is_ignorable(request.extender):
            answer = await calls.carry_out(replace(request, extender=-1))
            return _about(request, answer)
        if not failed.refused:
            return Unknown(request)
        pod_answer = await calls.carry_out(GetPod(request.uid, request.namespace, request.name))
        return _about(request, pod_answer, str(failed))
    return Bound(request)


def _about(request: BindPod, answer: object, message: str = "") -> PodAnswer | Unknown:
    """Turns the answer to another request into an answer to this one."""
    match answer:
        case Bound():
            return Bound(request)
        case PodShown(seen=seen):
            return PodShown(request, seen, message)
        case PodAbsent():
            return PodAbsent(request)
    return Unknown(request)
