"""``state`` as text: all of what it prints about a pod, a node and a whole state."""

from eventsched.domain import records
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.state_document import (
    node_document,
    pod_document,
    row_of,
    state_document,
)
from eventsched.output.state_output import node_text, pod_text, state_text
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import SECOND, engine_of, make_node, make_pod
from tests.gangs import member
from tests.volumes import claim, shown

MIB = 1024**2

WAITING = """
namespace        default
name             second
uid              second
state            unschedulable
priority         7
requests         cpu 2, memory 4000Mi
scheduler_name   default-scheduler
attempts         1
failures         1
since            00:01:00.000
rejected_by      NodeResourcesFit
backoff_until    00:01:01.000"""

AT_PERMIT = """
namespace        default
name             a
uid              a
state            waiting at Permit
node             n1
requests         cpu 1, memory 2048Mi
scheduler_name   default-scheduler
attempts         1
waits_for        Coscheduling until 00:02:00.000"""

NODE = """node n1

RESOURCE   ALLOCATABLE   REQUESTED
cpu        2500m         2000m
memory     8.0 GiB       3.9 GiB
pods       110           1

POD             STATE     NODE   PRIORITY   ATTEMPTS   FOR   HELD BY
default/first   binding   n1     7          1"""

STATE = """stream simulation before position 11, 00:01:00.000
1 node; 2 pods: 1 binding, 1 unschedulable

RESOURCE   ALLOCATABLE   REQUESTED
cpu        2500m         2000m       80%
memory     8.0 GiB       3.9 GiB     49%
pods       110           1           1%

1 PersistentVolumeClaim"""


def _state() -> SchedulerState:
    """A pod that is on its way to the node, one for which the node has too little left, and a
    claim."""
    engine = engine_of(NodeResourcesFit())
    node = make_node("n1", cpu=2500, memory=8192 * MIB, pods=110, labels={"zone": "a"})
    engine.observe(shown(claim("data")), 0)
    engine.observe(records.NodeAdded(node=node), 0)
    for name in ("first", "second"):
        pod = make_pod(name, cpu=2000, memory=4000 * MIB, priority=7)
        engine.observe(records.PodAdded(pod=pod), 60 * SECOND)
    engine.schedule_next()
    engine.schedule_next()
    return engine.state


def _pod_text(state: SchedulerState, name: str) -> str:
    [pod_state] = [each for each in state.pods.values() if each.pod.name == name]
    return pod_text(pod_document(state, pod_state))


def test_a_pod_that_waits() -> None:
    state = _state()
    assert _pod_text(state, "second") == WAITING


def test_a_pod_at_permit_has_its_deadline() -> None:
    engine = engine_of(Coscheduling())
    engine.observe(records.NodeAdded(node=make_node("n1")), 0)
    for name in ("a", "b", "c"):
        engine.observe(records.PodAdded(pod=member(name)), 60 * SECOND)
    engine.schedule_next()
    assert _pod_text(engine.state, "a") == AT_PERMIT


def test_a_node_with_its_pods() -> None:
    state = _state()
    row = row_of(state, "n1")
    pods = [pod_document(state, state.pods[uid]) for uid in state.nodes.residents[row]]
    assert node_text(node_document(state, row), pods, state.now) == NODE


def test_a_whole_state() -> None:
    assert state_text(state_document(_state(), whole=False), "simulation") == STATE
