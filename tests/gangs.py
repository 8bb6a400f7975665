"""Groups of pods for tests of Coscheduling: an engine with one node, and what it logs of them."""

from collections.abc import Hashable
from typing import Any

import msgspec
import numpy as np

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records import (
    BindIntended,
    Outcome,
    PermitGranted,
    PodQueued,
    PodUnreserved,
    Record,
)
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import ClusterEvent, Cycle, DependsOn, IntColumn, Status
from eventsched.scheduling.framework.pod_groups import MINIMUM, NAMES
from eventsched.testing import typed
from tests.builders import (
    SECOND,
    added,
    engine_of,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    scheduled,
    woken,
)

GANG = Coscheduling.name
TICK = records.TimePassed()
LEFT = "pod group default/g goes together, "


class Room:
    """Refuses nodes that hold as many pods as they may."""

    name = "Room"
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.ASSIGNED_POD_DELETE)
    depends_on = DependsOn.NODE | DependsOn.USAGE

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        return (nodes.pods >= nodes.allowed_pods).astype(np.int64)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        return Status.unschedulable("full")


def member(name: str, minimum: object = 3, group: str = "g", **fields: Any) -> Pod:
    """A pod of a group; without a minimum if that is None."""
    said = {} if minimum is None else {MINIMUM: str(minimum)}
    return make_pod(name, labels={NAMES[0]: group, **said, **fields.pop("more", {})}, **fields)


def engine(*pods: Pod, room: int = 110, others: tuple[object, ...] = (), **args: Any) -> Engine:
    """One node with room for ``room`` pods, and these."""
    made = engine_of(typed(Coscheduling, **args), Room(), *others)
    observed(made, *added(make_node(pods=room), *pods))
    return made


def waits(uid: str, seconds: int = 60, **fields: Any) -> Record:
    """A decision for the node, and that the pod waits for the others."""
    deadlines = {GANG: seconds * SECOND}
    return scheduled(uid, outcome=Outcome.WAITING, deadlines=deadlines, **fields)


def goes(uid: str, by: str, attempt: int = 1) -> list[Record]:
    """The end of a wait."""
    return [
        PermitGranted(uid=uid, plugin=GANG, by=by),
        BindIntended(uid=uid, node="n1", attempt=attempt),
    ]


def held(uid: str, message: str) -> list[Record]:
    """An attempt that PreFilter refused, the first one, at 0."""
    said = f"0/1 nodes are available: {message}."
    decided = refused(uid, said, evaluated=0, plugin=GANG, counts=((65533, 1),))
    return [decided, parked(uid, GANG, plugin=GANG)]


def moved(uid: str, cause: str, plugin: str = GANG, **fields: Any) -> PodQueued:
    """A move up after one failure at 0."""
    return msgspec.structs.replace(woken(cause, plugin, **fields), uid=uid)


def sent_back(uid: str, why: str, until: int = SECOND) -> list[Record]:
    """A wait that ended otherwise."""
    return [
        PodUnreserved(uid=uid, node="n1", plugin=GANG, message=why),
        parked(uid, GANG, cause="PermitDenied", plugin=GANG, until=until),
    ]


def placed(made: Engine) -> set[str]:
    """The pods that have a node and wait for no other pod."""
    state = made.state
    waiting = {uid for uid, held in state.reservations.items() if held.waits}
    return {uid for uid, each in state.pods.items() if each.booked_node} - waiting


def settle(made: Engine) -> None:
    """Attempts, and the end of each backoff and wait, until nothing is left to do."""
    for _ in range(1000):
        while not made.idle:
            made.schedule_next()
        if made.due is None:
            return
        made.observe(TICK, max(made.due, made.state.now))
    raise AssertionError("it never ends")
