"""Queues: who goes first, who waits, and what moves a pod up again."""

from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.objects import Node, NodeSelectorTerm, Requirement, Taint, Toleration
from eventsched.domain.records import PodQueued, Queue, Record, Stimulus
from eventsched.scheduling.engine import Engine
from tests.builders import (
    SECOND,
    active,
    added,
    attempted,
    backing_off,
    engine_with,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    woken,
)

TICK = records.TimePassed()
TAINT = Taint(key="k", effect="NoSchedule")
CORDON = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")


def waiting(node: Node, **pod: Any) -> Engine:
    """An engine with the default profile whose only pod, p1, was refused at 0."""
    engine = engine_with()
    observed(engine, *added(node, make_pod(**pod)))
    *_, decided, queued = attempted(engine)
    assert decided.outcome == "unschedulable"
    assert queued.queue is Queue.UNSCHEDULABLE
    return engine


def updated(node: Node, **fields: object) -> Stimulus:
    """The update of a node."""
    return records.NodeUpdated(node=msgspec.structs.replace(node, **fields))


FULL = make_node(cpu=500)
ROOMY = make_node("n2")
BOUND = make_pod("bound", cpu=4000, node_name="n1")
SELECTING = {"spec": {"node_selector": {"disk": "ssd"}}}


@pytest.mark.parametrize(
    ("node", "pod", "stimulus", "moves"),
    [
        pytest.param(
            FULL, {}, added(ROOMY)[0], [woken("NodeAdd", "NodeResourcesFit")], id="a node that fits"
        ),
        pytest.param(FULL, {}, added(make_node("n2", cpu=500))[0], [], id="a node as small"),
        pytest.param(
            FULL, {}, added(make_node("n2", taints=(TAINT,)))[0],
            [woken("NodeAdd", "NodeResourcesFit")], id="a hint looks at its own plugin only",
        ),
        pytest.param(
            FULL, {}, updated(FULL, allocatable=make_node().allocatable),
            [woken("NodeUpdateAllocatable", "NodeResourcesFit")], id="the node grows",
        ),
        pytest.param(FULL, {}, updated(FULL, labels={"a": "b"}), [], id="a label nobody reads"),
        pytest.param(FULL, {}, records.NodeDeleted(name="n1"), [], id="a node goes"),
        pytest.param(
            make_node(taints=(TAINT,)), {}, updated(make_node()),
            [woken("NodeUpdateTaint", "TaintToleration")], id="the taint is removed",
        ),
        pytest.param(
            make_node(taints=(TAINT,)), {}, updated(make_node(taints=(TAINT,), labels={"a": "b"})),
            [], id="the taint stays",
        ),
        pytest.param(
            make_node(taints=(TAINT,)), {},
            updated(make_node(taints=(TAINT, Taint(key="soft", effect="PreferNoSchedule")))),
            [], id="another taint comes",
        ),
        pytest.param(
            make_node(unschedulable=True), {}, updated(make_node()),
            [woken("NodeUpdateTaint", "NodeUnschedulable")], id="uncordoned",
        ),
        pytest.param(
            make_node(), SELECTING, updated(make_node(labels={"disk": "ssd"})),
            [woken("NodeUpdateLabel", "NodeAffinity")], id="the label is added",
        ),
        pytest.param(
            make_node(), SELECTING, updated(make_node(labels={"disk": "hdd"})), [],
            id="another value",
        ),
        pytest.param(
            make_node(), SELECTING, updated(make_node(cpu=8000)), [], id="room does not help",
        ),
    ],
)  # fmt: skip
def test_wake_up_by_nodes(
    node: Node, pod: dict[str, object], stimulus: Stimulus, moves: list[Record]
) -> None:
    """A pod wakes when the plugin that refused it says that the change may help it."""
    assert observed(waiting(node, **pod), stimulus, at=2 * SECOND) == [stimulus, *moves]


def test_a_deleted_pod_makes_room() -> None:
    """On its node, others fit now."""
    engine = engine_with()
    observed(engine, *added(make_node(), BOUND, make_pod()))
    attempted(engine)
    gone = records.PodDeleted(uid="bound")
    move = woken("AssignedPodDelete", "NodeResourcesFit")
    assert observed(engine, gone, at=2 * SECOND) == [gone, move]


def test_a_pod_deleted_elsewhere_does_not_make_room() -> None:
    """A node too small for the pod gets emptier: no pod wakes."""
    engine = engine_with()
    elsewhere = make_pod("elsewhere", cpu=100, node_name="n2")
    observed(engine, *added(make_node(), BOUND, make_node("n2", cpu=900), elsewhere, make_pod()))
    attempted(engine)
    gone = records.PodDeleted(uid="elsewhere")
    assert observed(engine, gone, at=2 * SECOND) == [gone]


def test_a_freed_host_port_wakes() -> None:
    """NodePorts' hint."""
    engine = engine_with()
    holder = make_pod("holder", ports=[80], node_name="n1")
    observed(engine, *added(make_node(), holder, make_pod(ports=[80])))
    *_, decided, _ = attempted(engine)
    reason = "1 node(s) didn't have free ports for the requested pod ports"
    message = (
        f"0/1 nodes are available: {reason}. no new claims to deallocate, preemption: 0/1 nodes "
        "are available: 1 No preemption victims found for incoming pod."
    )
    assert decided == refused(message=message, counts=((1, 1),))
    gone = records.PodDeleted(uid="holder")
    move = woken("AssignedPodDelete", "NodePorts")
    assert observed(engine, gone, at=2 * SECOND) == [gone, move]


def test_a_pod_wakes_by_its_own_update() -> None:
    """It requests less now."""
    update = records.PodUpdated(pod=make_pod(cpu=100))
    move = woken("PodUpdate", "NodeResourcesFit")
    assert observed(waiting(FULL), update, at=2 * SECOND) == [update, move]


def test_a_pods_own_update_that_does_not_help() -> None:
    """NodeUnschedulable asks for the toleration of a cordon."""
    cordoned = make_node(unschedulable=True)
    update = records.PodUpdated(pod=make_pod(labels={"a": "b"}))
    assert observed(waiting(cordoned), update, at=2 * SECOND) == [update]
    update = records.PodUpdated(pod=make_pod(spec={"tolerations": (CORDON,)}))
    move = woken("PodUpdate", "NodeUnschedulable")
    assert observed(waiting(cordoned), update, at=2 * SECOND) == [update, move]


def test_a_pod_without_any_node_wakes_when_one_comes() -> None:
    """No plugin refused it, so there is none to ask."""
    engine = engine_with()
    observed(engine, *added(make_pod()))
    assert attempted(engine) == [
        refused(message="no nodes available to schedule pods", evaluated=0),
        parked("p1"),
    ]
    move = active(cause="NodeAdd", until=SECOND, failures=1)
    assert observed(engine, *added(make_node()), at=SECOND) == [*added(make_node()), move]


def test_woken_too_early_it_waits_for_the_end_of_its_backoff() -> None:
    """Half a second after the failure; BackoffComplete comes with the time."""
    engine = waiting(FULL)
    early = woken("NodeAdd", "NodeResourcesFit", Queue.BACKOFF)
    assert observed(engine, *added(ROOMY), at=SECOND // 2) == [*added(ROOMY), early]
    assert engine.due == SECOND
    assert observed(engine, TICK, at=SECOND - 1) == [TICK]
    late = active(
        cause="BackoffComplete", rejectors=("NodeResourcesFit",), until=SECOND, failures=1
    )
    assert observed(engine, TICK, at=SECOND) == [TICK, late]
    assert engine.due is None
    assert observed(engine, TICK, at=SECOND) == [TICK]


def test_an_update_during_backoff_does_not_end_it_twice() -> None:
    """One BackoffComplete, whatever the pod's labels did meanwhile."""
    engine = waiting(FULL)
    observed(engine, *added(ROOMY), at=10)
    update = records.PodUpdated(pod=make_pod(labels={"a": "b"}))
    assert observed(engine, update, at=20) == [update]
    late = active(
        cause="BackoffComplete", rejectors=("NodeResourcesFit",), until=SECOND, failures=1
    )
    assert observed(engine, TICK, at=SECOND) == [TICK, late]


def test_an_update_does_not_flush_twice() -> None:
    """One Flush."""
    engine = waiting(make_node(unschedulable=True))
    observed(engine, records.PodUpdated(pod=make_pod(labels={"a": "b"})), at=20)
    flush = woken("Flush", "", rejectors=("NodeUnschedulable",))
    assert observed(engine, TICK, at=300 * SECOND) == [TICK, flush]


def test_flush_after_five_minutes() -> None:
    """Without any reason, a pod is tried again; not a microsecond earlier."""
    engine = waiting(FULL)
    assert (engine.due, engine.flush_due) == (None, 300 * SECOND)
    assert observed(engine, TICK, at=300 * SECOND - 1) == [TICK]
    flush = woken("Flush", "", rejectors=("NodeResourcesFit",))
    assert observed(engine, TICK, at=300 * SECOND) == [TICK, flush]
    assert engine.flush_due is None


def test_backoff_doubles_up_to_ten_seconds() -> None:
    """1, 2, 4, 8, 10, 10 seconds, counted from each failure."""
    engine = waiting(FULL)
    now, lengths = 0, []
    for _ in range(6):
        now += 300 * SECOND
        observed(engine, TICK, at=now)
        _, queued = attempted(engine)
        lengths.append((queued.until - now) // SECOND)
    assert lengths == [2, 4, 8, 10, 10, 10]


def test_backoff_is_configurable() -> None:
    """podInitialBackoffSeconds and podMaxBackoffSeconds."""
    engine = engine_with(
        config="apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 5\n"
    )
    observed(engine, *added(FULL, make_pod()))
    *_, queued = attempted(engine)
    assert queued == parked("p1", "NodeResourcesFit", until=3 * SECOND)
    observed(engine, TICK, at=300 * SECOND)
    *_, queued = attempted(engine)
    assert queued == parked("p1", "NodeResourcesFit", until=305 * SECOND, failures=2)


def test_attempts_rise_and_errors_are_counted_apart_from_failures() -> None:
    """The backoff goes by the errors if there are any (upstream: ConsecutiveErrorsCount)."""
    engine = waiting(FULL)
    observed(engine, *added(ROOMY), at=SECOND)
    decided = attempted(engine)[-1]
    assert (decided.attempt, decided.node) == (2, "n2")
    lost = records.BindFailed(uid="p1", node="n2", message="no")
    *_, queued = observed(engine, lost, at=SECOND)
    assert queued == backing_off(cause="BindFailed", until=2 * SECOND, failures=1, message="no")


def test_gates_hold_a_pod_until_the_last_is_removed() -> None:
    """Gated, an update that leaves a gate, an update that leaves none."""
    engine = engine_with()
    gated = make_pod(gates=("a", "b"))
    assert observed(engine, *added(make_node(), gated)) == [
        *added(make_node(), gated),
        PodQueued(
            uid="p1",
            queue=Queue.GATED,
            cause="PodAdd",
            plugin="SchedulingGates",
            rejectors=("SchedulingGates",),
            message="waiting for scheduling gates: [a b]",
        ),
    ]
    assert attempted(engine) == []
    update = records.PodUpdated(pod=make_pod(gates=("b",)))
    assert observed(engine, update, at=1) == [update]
    assert observed(engine, TICK, at=1000 * SECOND) == [TICK]
    update = records.PodUpdated(pod=make_pod())
    assert observed(engine, update, at=1000 * SECOND) == [
        update, active(cause="PodUpdate", rejectors=("SchedulingGates",)),
    ]  # fmt: skip
    assert attempted(engine)[-1].node == "n1"


def test_a_gated_pod_does_not_wake_by_nodes() -> None:
    """SchedulingGates listens to the pod alone."""
    engine = engine_with()
    observed(engine, *added(make_pod(gates=("a",))))
    assert observed(engine, *added(make_node()), at=SECOND) == added(make_node())


def test_higher_priority_first_then_who_came_first() -> None:
    """PrioritySort."""
    engine = engine_with()
    observed(engine, *added(make_node(), make_pod("old"), make_pod("older")))
    observed(engine, *added(make_pod("high", priority=10)), at=5)
    observed(engine, *added(make_pod("low", priority=-1), make_pod("young")), at=6)
    order = [attempted(engine)[-1].uid for _ in range(4)]
    assert order == ["high", "old", "older", "young"]


def test_pods_of_one_group_wake_in_the_order_of_their_moves() -> None:
    """And those of several groups among each other, too."""
    engine = engine_with()
    pods = [make_pod(f"p{i}", cpu=1000 + 100 * (i % 2)) for i in range(4)]
    observed(engine, *added(FULL, *pods))
    for _ in pods:
        attempted(engine)
    _, *moves = observed(engine, *added(ROOMY), at=2 * SECOND)
    assert [move.uid for move in moves] == ["p0", "p1", "p2", "p3"]


def test_required_affinity_wakes_on_the_named_label_only() -> None:
    """Expressions of node affinity, by NodeAffinity's hint."""
    zone = Requirement(key="zone", operator="In", values=("a", "b"))
    terms = (NodeSelectorTerm(expressions=(zone,)),)
    engine = waiting(make_node(labels={"zone": "c"}), spec={"required_node_terms": terms})
    node = records.NodeUpdated(node=make_node(labels={"zone": "b"}))
    move = woken("NodeUpdateLabel", "NodeAffinity")
    assert observed(engine, node, at=2 * SECOND) == [node, move]


def test_a_woken_pod_gets_the_room_where_all_nodes_had_refused_it_alike() -> None:
    """The columns of its class knew only one verdict, and it was not that it passes."""
    engine = engine_with()
    observed(engine, *added(make_node(cpu=1000), make_pod(), make_pod("p2")))
    attempted(engine)
    assert isinstance(attempted(engine)[-1], PodQueued)
    observed(engine, records.PodDeleted(uid="p1"), at=2 * SECOND)
    [decided] = attempted(engine)
    assert isinstance(decided, records.PodDecided)
    assert (decided.uid, decided.node) == ("p2", "n1")
