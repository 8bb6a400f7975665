"""Further pods that fit for certain, against deciding about each of them."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.translate.metadata import pod_uid
from eventsched.domain.objects import (
    CPU,
    MEMORY,
    PODS,
    AffinityTerm,
    Container,
    HostPort,
    Node,
    Pod,
    PodSpec,
    Requirement,
    SpreadConstraint,
)
from eventsched.domain.records import PodAdded
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.runtime.assembly import Assembly, assemble, assemble_document, registry
from eventsched.runtime.queries.certain_room import certainly_fit
from eventsched.runtime.queries.trial_run import (
    Room,
    TrialCluster,
    TrialRun,
    copies_of,
    room_for,
    run_trial,
)
from eventsched.runtime.simulation.simulation import Simulation

from .strategies import MIB, deterministic, roomy_nodes
from .strategies import specs as any_specs

ASSEMBLY: Assembly = assemble()
APP = {"app": "a"}
OWN = (Requirement(key="app", operator="In", values=("a",)),)
APART = AffinityTerm(topology_key="zone", selector=OWN)
NAMED = "kubernetes.io/hostname"
SMALL = PodSpec(containers=(Container(requests={CPU: 1000, MEMORY: MIB}),))


def pod(name: str, spec: PodSpec = SMALL, priority: int = 0) -> Pod:
    return Pod(
        uid=pod_uid("default", name), name=name, spec=spec, priority=priority, labels=APP
    )  # fmt: skip


def even(name: str, zone: str = "a") -> Node:
    """A node that takes four small pods."""
    allocatable = {CPU: 4000, MEMORY: 4096 * MIB, PODS: 110}
    return Node(name=name, allocatable=allocatable, labels={NAMED: name, "zone": zone})


def tried(
    nodes: Sequence[Node], old: Sequence[Pod], active: Sequence[Pod], new: Sequence[Pod],
    assembly: Assembly = ASSEMBLY, *, ends: bool = False,
) -> tuple[TrialCluster, TrialRun]:  # fmt: skip
    """A cluster on which ``old`` pods came and were decided, and ``active`` ones were not yet; and
    what came of ``new`` ones in it. With ``ends`` the old ones are being evicted."""
    before = Simulation(
        assembly, InMemoryCluster(nodes, [TracePod(each) for each in old]), MemoryEventLog()
    )
    before.run()
    engine = before.engine
    for each in active:
        engine.observe(PodAdded(pod=each), engine.state.now)
    cluster = TrialCluster(
        assembly, nodes, state=engine.state, position=engine.position, now=engine.state.now,
        known=frozenset(engine.state.pods), leaving=old if ends else (),
    )  # fmt: skip
    return cluster, run_trial(cluster, [TracePod(each) for each in new])


def room(cluster: TrialCluster, new: Sequence[Pod], most: int) -> Room:
    """How many more of the pods fit, one decided after the other."""
    pods = [TracePod(each) for each in new]
    return room_for(cluster, pods, (), copies_of(new[0]), most)


others = st.tuples(
    st.one_of(
        st.just(SMALL),
        any_specs,
        st.just(msgspec.structs.replace(SMALL, required_anti_affinity=(APART,))),
    ),
    st.sampled_from([0, 0, 5]),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Node], list[Pod], list[Pod], list[Pod], int]:
    """Nodes, pods that came, pods in a queue, equal ones to try, and how many more."""
    nodes = [draw(roomy_nodes(f"n{index}")) for index in range(draw(st.integers(2, 8)))]
    if draw(st.booleans()):
        nodes += [even(f"e{index}") for index in range(4)]
    old = [
        pod(f"old-{number}", *each)
        for number, each in enumerate(draw(st.lists(others, max_size=5)))
    ]
    active = [
        pod(f"active-{number}", *each)
        for number, each in enumerate(draw(st.lists(others, max_size=2)))
    ]
    spec = draw(st.one_of(st.just(SMALL), st.just(SMALL), any_specs))
    priority = draw(st.sampled_from([0, 0, 10]))
    new = [pod(f"new-{number}", spec, priority) for number in range(draw(st.integers(1, 3)))]
    return nodes, old, active, new, draw(st.integers(1, 8))


def test_what_fits_for_certain_fits() -> None:
    """It is said often enough, and other pods had less room often enough."""
    certain, refused = 0, 0

    @deterministic(400)
    @given(cases())
    def compared(case: tuple[list[Node], list[Pod], list[Pod], list[Pod], int]) -> None:
        nonlocal certain, refused
        nodes, old, active, new, most = case
        cluster, done = tried(nodes, old, active, new)
        if done.pending:
            return
        found = room(cluster, new, most)
        digest = cluster.state.digest() if cluster.state is not None else b""
        is_certain = certainly_fit(cluster, done, copies_of(new[0]), most)
        assert cluster.state is not None
        assert cluster.state.digest() == digest
        if is_certain:
            assert found == Room(most, is_limit=True)
        certain += is_certain
        refused += not found.is_limit

    compared()
    assert certain > 40
    assert refused > 40


@pytest.mark.parametrize(("waiting", "most"), [(0, 8), (1, 4), (2, 0)])
def test_each_pod_without_a_node_may_take_one(waiting: int, most: int) -> None:
    """Three nodes for four pods each; one of them is for the pod that is tried."""
    nodes = [even(f"n{number}") for number in range(3)]
    active = [pod(f"active-{number}") for number in range(waiting)]
    cluster, done = tried(nodes, (), active, [pod("new")])
    assert room(cluster, [pod("new")], 100).pods == 12 - 1 - waiting
    more = copies_of(pod("new"))
    said = [number for number in range(1, 14) if certainly_fit(cluster, done, more, number)]
    assert said == list(range(1, most + 1))


IN_A = {"zone": "a"}
ALONE = msgspec.structs.replace(SMALL, required_anti_affinity=(APART,), node_selector=IN_A)
"""Lets no pod of these tests into its zone."""
PORT = Container(requests={CPU: 1}, ports=(HostPort(port=80, protocol="TCP", ip="0.0.0.0"),))


@pytest.mark.parametrize(
    "spec",
    [
        msgspec.structs.replace(SMALL, containers=(PORT,)),
        msgspec.structs.replace(
            SMALL, required_anti_affinity=(AffinityTerm(topology_key=NAMED, selector=OWN),)
        ),
        msgspec.structs.replace(
            SMALL, spread=(SpreadConstraint(max_skew=1, topology_key="zone", selector=OWN),)
        ),
        msgspec.structs.replace(SMALL, node_selector={"zone": "b"}),
    ],
    ids=["host ports", "anti-affinity", "spread", "selector"],
)
def test_what_else_refuses_a_pod_is_not_counted(spec: PodSpec) -> None:
    """The cpu would be enough for 24."""
    nodes = [*(even(f"n{number}") for number in range(5)), even("b", "b")]
    new = [pod("new", spec)]
    cluster, done = tried(nodes, (), (), new)
    assert room(cluster, new, 10).pods < 10
    assert not certainly_fit(cluster, done, copies_of(new[0]), 10)


@pytest.mark.parametrize("place", ["on a node", "ends", "in a queue"])
def test_anti_affinity_of_other_pods_counts(place: str) -> None:
    nodes = [*(even(f"n{number}") for number in range(5)), even("b", "b")]
    alone, new = [pod("alone", ALONE)], [pod("new")]
    old, active = (alone, ()) if place != "in a queue" else ((), alone)
    cluster, done = tried(nodes, old, active, new, ends=place == "ends")
    assert not done.pending
    assert ("alone" in {each.pod.name for each in done.simulation.engine.state.pods.values()}) == (
        place != "ends"
    )
    assert room(cluster, new, 10).pods == 3
    assert not certainly_fit(cluster, done, copies_of(new[0]), 10)


def test_other_plugins_may_refuse_whatever_they_read() -> None:
    nodes, new = [even(f"n{number}") for number in range(5)], [pod("new")]
    text = """
kind: KubeSchedulerConfiguration
apiVersion: kubescheduler.config.k8s.io/v1
profiles:
- plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}
"""
    with_quotas = assemble_document(text, "quotas.yaml", registry(()))
    for assembly, is_certain in ((ASSEMBLY, True), (with_quotas, False)):
        cluster, done = tried(nodes, (), (), new, assembly)
        assert room(cluster, new, 10) == Room(10, is_limit=True)
        assert certainly_fit(cluster, done, copies_of(new[0]), 10) == is_certain


def test_a_name_that_is_taken_is_not_counted() -> None:
    """A pod of the cluster has the uid of a further one, which so does not come."""
    nodes, new = [even(f"n{number}") for number in range(5)], [pod("new")]
    cluster, done = tried(nodes, [pod("new-more-2")], (), new)
    assert certainly_fit(cluster, done, copies_of(new[0]), 2)
    assert not certainly_fit(cluster, done, copies_of(new[0]), 3)
