"""The small cluster in memory: its nodes, its pods and the engine of its scheduler."""

from functools import cache
from random import Random
from typing import Any

import msgspec

from eventsched import __version__
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import Namespace
from eventsched.domain.records import FORMAT, StreamStarted
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.limits import Limits
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, Cycle, PreFilterResult, Status, Wait, points_of
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.queue_index import Backoff
from tests.builders import PROFILE, make_node, make_pod

OPENING = StreamStarted(format=FORMAT, engine=__version__, seed="faults", flags=CURRENT)
FOREIGN = "somebody-else"
STREAM = "faults"
NAMESPACES = ("default", "shop")
LIMITS = Limits(records=24, size=12_000, touches=3, reports=3, snapshot_every=80)


class Openings:
    """Pods fit on no node while their namespace is closed or does not exist."""

    name = "Openings"
    wakes_on = ()
    wakes_on_objects = (Namespace,)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: Any) -> PreFilterResult | Status | None:
        namespace = cycle.registry.get(Namespace, pod.namespace)
        if namespace is None or "closed" in namespace.labels:
            return Status.unresolvable(f"{pod.namespace} is closed")
        return Status.skip()


class Pairs:
    """Pods of one pair (pair-1-a, pair-1-b) are bound together: the first waits at Permit."""

    name = "Pairs"
    wakes_on = ()

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> Status | Wait | None:
        if "pair" not in pod.labels:
            return None
        partners = [uid for uid in cycle.waiting if uid.startswith(f"pair-{pod.labels['pair']}-")]
        for uid in partners:
            cycle.allow(uid)
        return None if partners else Wait(1.5)


@cache
def _profiles() -> dict[str, Profile]:
    plugins = [
        PrioritySort(), SchedulingGates(), Openings(), NodeResourcesFit(), DefaultPreemption(),
        Pairs(), DefaultBinder(),
    ]  # fmt: skip
    points = {
        point: [plugin for plugin in plugins if point in points_of(plugin)] for point in POINTS
    }
    return {PROFILE: Profile(PROFILE, points, {})}


def engine() -> Engine:
    """A fresh engine."""
    return Engine(_profiles(), Backoff(1, 4))


def followed_stream() -> FollowedStream:
    """A FollowedStream that has read nothing yet."""
    return FollowedStream(engine, STREAM)


def namespace(name: str, *, closed: bool = False) -> Namespace:
    """A namespace, open to pods or not."""
    return Namespace(name=name, labels={"closed": "yes"} if closed else {})


def node(name: str) -> Node:
    """A node, always of the same size: 2 or 3 cpu."""
    return make_node(name, cpu=2000 + 1000 * (int(name[1:]) % 2), pods=20)


def pod(rng: Random, number: int) -> list[Pod]:
    """A pod of 0.5 to 2 cpu, one that is gated, or a pair."""
    cpu = rng.choice([500, 1000, 1000, 2000])
    kind = rng.random()
    if kind < 0.15:
        return [
            make_pod(f"pair-{number}-{half}", cpu=500, memory=0, labels={"pair": str(number)})
            for half in "ab"
        ]
    gates = ("wait",) if kind < 0.25 else ()
    namespace = rng.choice(NAMESPACES)
    made = make_pod(f"pod-{number}", cpu=cpu, memory=0, gates=gates, priority=rng.randint(0, 2))
    return [msgspec.structs.replace(made, namespace=namespace)]


def foreign_pod(rng: Random, number: int) -> Pod:
    """A pod that another scheduler places."""
    cpu = rng.choice([500, 1000])
    return make_pod(f"foreign-{number}", cpu=cpu, memory=0, scheduler_name=FOREIGN)


def is_to_be_bound(pod: Pod) -> bool:
    """Whether a pod is bound as soon as it fits. (Half of a pair waits for the other.)"""
    return (
        not pod.node_name
        and not pod.gates
        and not pod.deleting
        and pod.scheduler_name == PROFILE
        and "pair" not in pod.labels
    )
