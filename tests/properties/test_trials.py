"""``eventsched try`` says what a scheduler then does: its answers against plain simulations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.translate.metadata import pod_uid
from eventsched.domain.objects import CPU, MEMORY, PODS, Container, Node, Pod, PodSpec
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import Assembly, assemble
from eventsched.runtime.queries.node_proposals import (
    HOSTNAME,
    NodeProposal,
    new_node,
    propose_nodes,
    shapes_of,
)
from eventsched.runtime.queries.trial_run import (
    TrialCluster,
    TrialRun,
    copies_of,
    room_for,
    run_trial,
)
from eventsched.runtime.simulation.simulation import Simulation

from .strategies import MIB, deterministic, roomy_nodes

LATER = 1_000_000
ASSEMBLY: Assembly = assemble()


specs = st.builds(
    lambda cpu, memory, selector: PodSpec(
        containers=(Container(requests={CPU: cpu, MEMORY: memory * MIB}),), node_selector=selector
    ),
    st.sampled_from([250, 500, 1000, 2000, 2000, 8000]),
    st.sampled_from([0, 100, 512]),
    st.sampled_from([{}, {}, {}, {"zone": "a"}, {"zone": "b"}]),
)
ALLOCATABLE = ({CPU: 2000, MEMORY: 2048 * MIB, PODS: 110}, {CPU: 4000, MEMORY: 1024 * MIB, PODS: 4})


@st.composite
def clusters(draw: st.DrawFn) -> list[Node]:
    """Nodes of two sizes, now and then one of any kind."""
    nodes = []
    for index in range(draw(st.integers(1, 4))):
        node = draw(roomy_nodes(f"n{index}"))
        if draw(st.integers(0, 4)):
            fields = {"allocatable": draw(st.sampled_from(ALLOCATABLE)), "taints": ()}
            node = msgspec.structs.replace(node, unschedulable=False, images=(), **fields)
        nodes.append(node)
    return nodes


def pods(prefix: str, most: int, priorities: Sequence[int]) -> st.SearchStrategy[list[Pod]]:
    drawn = st.lists(st.tuples(specs, st.sampled_from(priorities)), min_size=1, max_size=most)

    def named(specs: list[tuple[PodSpec, int]]) -> list[Pod]:
        return [
            Pod(
                uid=pod_uid("default", f"{prefix}{number}"), name=f"{prefix}{number}",
                spec=spec, priority=priority,
            )
            for number, (spec, priority) in enumerate(specs)
        ]  # fmt: skip

    return drawn.map(named)


def simulated(nodes: Sequence[Node], *waves: tuple[int, Sequence[Pod]]) -> Simulation:
    """A simulation with a log, in which pods come at times (µs), at its end."""
    arrivals = [TracePod(pod, arrives_at=at) for at, wave in waves for pod in wave]
    run = Simulation(ASSEMBLY, InMemoryCluster(nodes, arrivals), MemoryEventLog())
    run.run()
    return run


def nodes_of(run: Simulation, pods: Sequence[Pod]) -> dict[str, str]:
    """Where pods are in the end; a pod that was evicted has no entry."""
    state = run.engine.state
    return {p.name: state.pods[p.uid].booked_node for p in pods if p.uid in state.pods}


@deterministic(120)
@given(clusters(), pods("old-", 12, [0, 0, 5]), pods("new-", 6, [0, 5, 10]))
def test_pods_go_where_they_were_said_to_go(
    nodes: list[Node], old: list[Pod], new: list[Pod]
) -> None:
    """A scheduler's state, the pods tried on it, and the scheduler when they really come."""
    before = simulated(nodes, (0, old))
    now = before.engine.state.now + LATER
    cluster = TrialCluster(
        ASSEMBLY, nodes, state=before.engine.state, position=before.engine.position, now=now,
    )  # fmt: skip
    digest = before.engine.state.digest()
    tried = run_trial(cluster, [TracePod(pod) for pod in new]).tried
    assert run_trial(cluster, [TracePod(pod) for pod in new]).tried == tried
    really = simulated(nodes, (0, old), (now, new))

    assert {each.pod.name: each.node for each in tried} == nodes_of(really, new)
    gone = {pod.full_name for pod in old if pod.uid not in really.engine.state.pods}
    assert {
        name for each in tried for name in each.victims if name.startswith("default/old")
    } == gone
    assert before.engine.state.digest() == digest


@deterministic(60)
@given(clusters(), pods("old-", 8, [0, 5]), pods("new-", 5, [0, 10]))
def test_the_same_from_manifests(nodes: list[Node], old: list[Pod], new: list[Pod]) -> None:
    """What waits there comes first."""
    waiting = [TracePod(pod) for pod in old]
    cluster = TrialCluster(ASSEMBLY, nodes, waiting=waiting)
    tried = run_trial(cluster, [TracePod(pod) for pod in new]).tried
    assert {each.pod.name: each.node for each in tried} == nodes_of(
        simulated(nodes, (0, [*old, *new])), new
    )


@deterministic(40)
@given(clusters(), pods("old-", 6, [0]), pods("new-", 6, [0, 5]))
def test_the_proposed_nodes_are_enough_and_none_is_too_much(
    nodes: list[Node], old: list[Pod], new: list[Pod]
) -> None:
    cluster = TrialCluster(ASSEMBLY, nodes, waiting=[TracePod(pod) for pod in old])
    arrivals = [TracePod(pod) for pod in new]
    run = run_trial(cluster, arrivals)
    if not run.pending:
        return
    proposal = propose_nodes(run, nodes, lambda more: run_trial(cluster, arrivals, more_nodes=more))

    def without(which: int = -1) -> set[str]:
        """The pods that wait in a simulation with the nodes, one of a kind left out."""
        more = [
            new_node(added.shape, number)
            for index, added in enumerate(proposal.nodes)
            for number in range(added.number - (index == which))
        ]
        places = nodes_of(simulated([*nodes, *more], (0, [*old, *new])), new)
        return {f"default/{name}" for name, node in places.items() if not node}

    hopeless = set(proposal.hopeless)
    assert without() <= hopeless
    assert all(without(which) - hopeless for which in range(len(proposal.nodes)))


def plain(name: str, cpu: int = 1000) -> Pod:
    spec = PodSpec(containers=(Container(requests={CPU: cpu, MEMORY: MIB}),))
    return Pod(uid=pod_uid("default", name), name=name, spec=spec)


def even(name: str, **changes: Any) -> Node:
    allocatable = {CPU: 4000, MEMORY: 4096 * MIB, PODS: 110}
    labels = {"kubernetes.io/hostname": name, "zone": "a"}
    return msgspec.structs.replace(
        Node(name=name, allocatable=allocatable, labels=labels), **changes
    )


def test_a_later_shape_takes_pods_of_an_earlier_one() -> None:
    """Three small nodes would take three pods; the large one that the fourth needs has room for one
    of these."""
    small = even("small", labels={"x": "1", "y": "1", "z": "1"})
    small = msgspec.structs.replace(small, allocatable={**small.allocatable, CPU: 1000})
    large = even("large", labels={"x": "1", "w": "1"})
    pods = [
        msgspec.structs.replace(
            pod := plain(f"p-{label}"),
            spec=msgspec.structs.replace(pod.spec, node_selector={label: "1"}),
        )
        for label in "xyzw"
    ]
    cluster, arrivals = TrialCluster(ASSEMBLY, [even("other")]), [TracePod(pod) for pod in pods]
    proposal = propose_nodes(
        run_trial(cluster, arrivals),
        [small, large],
        lambda more: run_trial(cluster, arrivals, more_nodes=more),
    )
    assert [(each.shape.example, each.number) for each in proposal.nodes] == [
        ("small", 2), ("large", 1)
    ]  # fmt: skip


def test_shapes_that_take_no_fewer_nodes_are_tried_twice() -> None:
    """Zones, in most clusters. What was tried is not tried again."""
    pods = [plain(f"p{number}", 3000) for number in range(40)]
    cluster, arrivals = TrialCluster(ASSEMBLY, [even("n0")]), [TracePod(pod) for pod in pods]
    tried: list[tuple[str, int]] = []

    def try_nodes(more: Sequence[Node]) -> TrialRun:
        tried.append((more[0].labels["zone"], len(more)))
        return run_trial(cluster, arrivals, more_nodes=more)

    nodes = [even(f"n{number}", labels={"zone": zone}) for number, zone in enumerate("aabbcc")]
    [added] = propose_nodes(run_trial(cluster, arrivals), nodes, try_nodes).nodes
    assert (added.shape.example, added.number) == ("n0", 39)
    assert len(tried) == len(set(tried))
    assert [number for zone, number in tried if zone != "a"] == [39, 38, 39, 38]


@pytest.mark.parametrize("cpu", [4001, 4000, 1001, 1000, 30])
def test_as_many_fit_as_were_said_to_fit(cpu: int) -> None:
    nodes = [even(f"n{number}") for number in range(3)]
    cluster = TrialCluster(ASSEMBLY, nodes)
    pod = plain("web", cpu)
    room = room_for(cluster, (), (), copies_of(pod), 1_000)
    made = [copies_of(pod)(number).pod for number in range(room.pods + 1)]
    assert "" not in nodes_of(simulated(nodes, (0, made[:-1])), made[:-1]).values()
    assert list(nodes_of(simulated(nodes, (0, made)), made).values()).count("") == 1
    assert not room.is_limit
    assert "Insufficient cpu" in room.message or "Too many pods" in room.message
    some = room_for(cluster, (), (), copies_of(pod), 2)
    assert (some.pods, some.is_limit) == (min(room.pods, 2), room.pods >= 2)


def test_nodes_of_the_cluster_are_the_templates() -> None:
    """A large pod needs large nodes; what a new node does not have is left out."""
    small = [even(f"n{number}", allocatable={CPU: 1000, PODS: 10}) for number in range(3)]
    large = [even("big-1", labels={"kubernetes.io/hostname": "big-1", "id": "1"}),
             even("big-2", labels={"kubernetes.io/hostname": "big-2", "id": "2"},
                  unschedulable=True)]  # fmt: skip
    nodes = [*small, *large]
    assert [(shape.example, shape.count) for shape in shapes_of(nodes)] == [("n0", 3), ("big-1", 2)]
    added = new_node(shapes_of([large[1]])[0], 0)
    assert (added.name, added.labels["kubernetes.io/hostname"]) == ("big-2-more-0", "big-2-more-0")
    assert not added.unschedulable

    cluster = TrialCluster(ASSEMBLY, nodes)
    arrivals = [TracePod(plain(f"p{number}", 3000)) for number in range(4)]
    run = run_trial(cluster, arrivals)
    assert len(run.pending) == 3
    proposal = propose_nodes(run, nodes, lambda more: run_trial(cluster, arrivals, (), more))
    assert [(each.shape.example, each.number) for each in proposal.nodes] == [("big-1", 3)]
    assert proposal.hopeless == ()
    huge = [TracePod(plain("huge", 9000))]
    run = run_trial(cluster, huge)
    proposal = propose_nodes(run, nodes, lambda more: run_trial(cluster, huge, (), more))
    assert (proposal.nodes, proposal.hopeless) == ((), ("default/huge",))
    assert replace(cluster, nodes=nodes) == cluster


@pytest.mark.parametrize("step", [1, 0])
def test_a_label_of_a_rare_node_is_not_missing(step: int) -> None:
    """Of forty shapes a few are tried: the one whose label the pod asks for is among them. So is
    the node if it differs from others only by that label."""
    nodes = [
        even(
            f"n{number}",
            allocatable={CPU: 4000 + step * number, MEMORY: 4096 * MIB, PODS: 110},
            labels={HOSTNAME: f"n{number}", "zone": f"z{number}"},
        )
        for number in range(40)
    ]
    cluster = TrialCluster(ASSEMBLY, nodes)

    def proposed(cpu: int, **selector: str) -> NodeProposal:
        """What is proposed for two pods of a size, of which a node takes one at most."""
        spec = msgspec.structs.replace(plain("p", cpu).spec, node_selector=selector)
        arrivals = [
            TracePod(msgspec.structs.replace(plain(name), spec=spec)) for name in ("p0", "p1")
        ]
        run = run_trial(cluster, arrivals)
        return propose_nodes(run, nodes, lambda more: run_trial(cluster, arrivals, (), more))

    fits = proposed(3000, zone="z39")
    assert [(each.shape.example, each.number) for each in fits.nodes] == [("n39", 1)]
    assert (fits.hopeless, fits.missing_labels) == ((), ())
    large = proposed(9000, zone="z39")
    assert (large.hopeless, large.missing_labels) == (("default/p0", "default/p1"), ())
    assert proposed(3000, zone="z40").missing_labels == ("zone=z40",)
    assert proposed(3000, **{HOSTNAME: "n39"}).missing_labels == (f"{HOSTNAME}=n39",)


def test_a_pod_is_hopeless_only_if_no_shape_helps() -> None:
    """All of forty shapes are as likely, and only the last one is large enough."""
    nodes = [
        even(f"n{number:02}", allocatable={CPU: 1000 + number, MEMORY: 4096 * MIB, PODS: 110})
        for number in range(40)
    ]
    bound = [
        msgspec.structs.replace(plain(f"b{row}", 500), node_name=node.name)
        for row, node in enumerate(nodes)
    ]
    cluster = TrialCluster(ASSEMBLY, nodes, bound=bound)

    def proposed(*sizes: int) -> NodeProposal:
        arrivals = [TracePod(plain(f"p{number}", cpu)) for number, cpu in enumerate(sizes)]
        run = run_trial(cluster, arrivals)
        assert len(run.pending) == len(sizes)
        return propose_nodes(run, nodes, lambda more: run_trial(cluster, arrivals, (), more))

    fits = proposed(1039, 1039, 1039)
    assert [(each.shape.example, each.number) for each in fits.nodes] == [("n39", 3)]
    assert fits.hopeless == ()
    some = proposed(1040, 1037)
    assert [each.number for each in some.nodes] == [1]
    assert some.nodes[0].shape.example in ("n37", "n38", "n39")
    assert some.hopeless == ("default/p0",)
    assert proposed(1040).hopeless == ("default/p0",)


def test_a_trial_is_freed_at_once_when_it_is_dropped() -> None:
    """Each run has a state of its own, and collections wait for the end of a question."""
    before = simulated([even("n")], (0, [plain("old", 500)]))
    cluster = TrialCluster(
        ASSEMBLY, [even("n")], state=before.engine.state, position=before.engine.position,
        now=before.engine.state.now,
    )  # fmt: skip
    with gc_tuning.paused():
        run = run_trial(cluster, [TracePod(plain("big", 9_000))])
        assert run.pending
        simulation = ref(run.simulation)
        state = ref(run.simulation.engine.state)
        assert state() is not before.engine.state
        del run
        assert simulation() is None
        assert state() is None
