"""NodeResourceTopologyMatch. The zones and pods of the table cases are those of scheduler-plugins,
pkg/noderesourcetopology/filter_test.go, score_test.go and least_numa_test.go; what comes of them is
worked out from its rule."""

from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import NodeResourceTopology
from eventsched.domain.records import PodDecided
from eventsched.plugins.gallery.node_resource_topology_match import (
    NodeResourceTopologyMatch,
    NodeResourceTopologyMatchArgs,
    ScoredResource,
    TopologyScoringStrategy,
)
from eventsched.scheduling.engine import Engine
from tests.builders import SECOND, added, attempted, engine_of, observed
from tests.zones import CONTAINER, POD, amounts, node_of, seen, topology, zone, zoned_pod

NO_POD, NO_CONTAINER = "cannot align pod", "cannot align container"
NODES = {
    "node1": topology(
        "node1", zone(0, cpu="4", memory="8Gi", nic="10"), zone(1, cpu="8", memory="8Gi", nic="10"),
    ),
    "node2": topology(
        "node2", zone(0, cpu="2", memory="4Gi", huge="128Mi", nic="5"),
        zone(1, cpu="4", memory="4Gi", huge="128Mi", nic="2"),
    ),
    "node3": topology(
        "node3", zone(0, cpu="2", memory="4Gi", nic="5"), zone(1, cpu="4", memory="4Gi", nic="2"),
        policy=POD,
    ),
    "badly_formed_node": topology(
        "badly_formed_node", zone(0, cpu="2", memory="4Gi", nic="5"),
        zone(75, cpu="4", memory="4Gi", nic="2"), policy=POD,
    ),
}  # fmt: skip


def engine(*found: NodeResourceTopology, **args: Any) -> Engine:
    """One with these nodes."""
    made = engine_of(NodeResourceTopologyMatch(NodeResourceTopologyMatchArgs(**args)))
    observed(made, *seen(*found))
    return made


def refusal(pod: Pod, found: NodeResourceTopology, **extra: int) -> str:
    """Why the node does not take the pod, "" if it does."""
    it = engine_of(NodeResourceTopologyMatch())
    observed(it, *seen(found)[1:], *added(node_of(found, **extra)), *added(pod))
    decided = next(each for each in attempted(it) if isinstance(each, PodDecided))
    if decided.node:
        return ""
    head, tail = "0/1 nodes are available: 1 ", "."
    assert decided.message.startswith(head), decided.message
    return decided.message.removeprefix(head).split(tail)[0]


def guaranteed(**given: str) -> Pod:
    """One container with these requests and limits."""
    return zoned_pod(amounts(**given))


def burstable(**given: str) -> Pod:
    """One container without limits."""
    return zoned_pod(amounts(**given), limited=False)


# --- Filter -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("node", "pod", "expected"),
    [
        ("node1", zoned_pod({}), ""),
        ("node3", guaranteed(nic="5"), ""),
        ("node3", guaranteed(nic="20"), NO_POD),
        ("node2", guaranteed(nic="5"), ""),
        ("node1", guaranteed(nic="20"), NO_CONTAINER),
        ("node2", burstable(cpu="3", memory="3Gi", nic="11"), NO_CONTAINER),
        ("node3", burstable(cpu="1", memory="1Gi", nic="6"), NO_POD),
        ("node3", burstable(cpu="1", memory="1Gi", nic="5"), ""),
        ("node3", burstable(cpu="19", memory="5Gi", nic="5"), ""),
        ("node2", burstable(cpu="5", memory="5Gi", nic="5"), ""),
        ("node1", guaranteed(cpu="2", memory="2Gi"), ""),
        ("node1", guaranteed(cpu="8", memory="8Gi"), ""),
        ("node1", guaranteed(cpu="2", memory="2Gi", huge="0", nic="3"), ""),
        ("node2", guaranteed(cpu="2", memory="2Gi", nic="3"), ""),
        ("node2", guaranteed(cpu="2", memory="2Gi", huge="64Mi", nic="3"), ""),
        ("node2", guaranteed(cpu="4", nic="3"), ""),
        ("node2", guaranteed(cpu="4", nic="11"), NO_CONTAINER),
        ("node3", guaranteed(cpu="2", nic="6"), NO_POD),
        ("node3", guaranteed(cpu="20", nic="5"), ""),
        ("node3", guaranteed(memory="5Gi", nic="5"), ""),
        ("node2", guaranteed(memory="2Gi", nic="11"), NO_CONTAINER),
        ("node2", guaranteed(cpu="2", memory="2Gi", huge="256Mi", nic="3"), NO_CONTAINER),
        ("node1", guaranteed(cpu="9", memory="1Gi", nic="3"), NO_CONTAINER),
        ("node3", zoned_pod(*[amounts(cpu="3", memory="1Gi")] * 3), NO_POD),
        ("node3", guaranteed(cpu="1", memory="1Gi"), ""),
        ("badly_formed_node", guaranteed(cpu="2", memory="4Gi"), ""),
        ("node3", zoned_pod(*[amounts(cpu="1", memory="1Gi")] * 3), ""),
        ("badly_formed_node", zoned_pod(*[amounts(cpu="1", memory="1Gi")] * 3), NO_POD),
        ("node2", guaranteed(cpu="2", memory="2Gi", huge="64Mi", old_nic="3"), ""),
        ("node1", guaranteed(cpu="2", memory="2Gi", old_nic="3"), NO_CONTAINER),
        ("node2", guaranteed(cpu="2", memory="2Gi", **{"ephemeral-storage": "100Mi"}), ""),
        # Burstable pods get cpu from anywhere, but some zone has to have it.
        ("node1", burstable(cpu="1", huge="2Mi"), NO_CONTAINER),
    ],
)
def test_a_pod_and_a_node(node: str, pod: Pod, expected: str) -> None:
    """node2 has a NIC outside its zones."""
    extra = {"old_nic": 4} if node == "node2" else {}
    assert refusal(pod, NODES[node], **extra) == expected


CPUS = {
    name: topology(name, zone(0, cpu="4", memory="8Gi"), zone(1, cpu="4", memory="8Gi"),
                   policy=policy)
    for name, policy in (("by-container", CONTAINER), ("by-pod", POD))
}  # fmt: skip
FOUR, THREE, FIVE = (amounts(cpu=each, memory="1Gi") for each in "435")


@pytest.mark.parametrize(
    ("node", "pod", "expected"),
    [
        ("by-container", zoned_pod(FOUR, FOUR), ""),
        ("by-pod", zoned_pod(FOUR, FOUR), NO_POD),
        # Each takes the first zone with room: 3 + 3, and no zone has another 3.
        ("by-container", zoned_pod(THREE, THREE, THREE), NO_CONTAINER),
        ("by-container", zoned_pod(FOUR, FOUR, init=(FOUR, FOUR)), ""),
        ("by-container", zoned_pod(THREE, init=(THREE, FIVE)), "cannot align init container"),
        ("by-container", zoned_pod(THREE, sidecars=(FIVE,)), "cannot align sidecar container"),
        # In upstream's sum sidecars count as init containers do: 4 and the 3 beside them.
        ("by-pod", zoned_pod(FOUR, sidecars=(THREE,)), ""),
        ("by-pod", zoned_pod(THREE, init=(FIVE,)), NO_POD),
        ("by-pod", zoned_pod(FOUR, overhead={"cpu": "1"}), NO_POD),
    ],
)
def test_containers(node: str, pod: Pod, expected: str) -> None:
    """Init containers, sidecars, overhead, and what containers take from those that follow."""
    assert refusal(pod, CPUS[node]) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"policy": "BestEffortPodLevel"}, ""),
        ({"policy": "RestrictedContainerLevel"}, ""),
        ({"policy": "None"}, ""),
        ({"policy": ""}, ""),
        ({"policy": "", "topologyManagerPolicy": "single-numa-node"}, NO_CONTAINER),
        (
            {
                "policy": "", "topologyManagerPolicy": "single-numa-node",
                "topologyManagerScope": "pod",
            },
            NO_POD,
        ),
        ({"policy": POD, "topologyManagerScope": "container"}, NO_CONTAINER),
        ({"policy": POD, "topologyManagerPolicy": "none"}, ""),
        ({"policy": POD, "topologyManagerPolicy": "single-numa", "topologyManagerScope": "x"},
         NO_POD),
    ],
)  # fmt: skip
def test_where_the_policy_stands(given: dict[str, str], expected: str) -> None:
    """Attributes go before the deprecated list; what a kubelet does not know is passed over."""
    found = topology("n", zone(0, cpu="4", memory="8Gi"), zone(1, cpu="4", memory="8Gi"), **given)
    assert refusal(guaranteed(cpu="5", memory="1Gi"), found) == expected


def test_a_node_without_an_object_passes() -> None:
    """And one whose object is gone."""
    it, pod = engine_of(NodeResourceTopologyMatch()), guaranteed(cpu="5", memory="1Gi")
    observed(it, *added(node_of(CPUS["by-pod"])))
    assert it.judge(pod).feasible == 1
    observed(it, records.ObjectChanged(object=CPUS["by-pod"]))
    assert it.judge(pod).feasible == 0
    observed(it, records.ObjectDeleted(type="NodeResourceTopology", namespace="", name="by-pod"))
    assert it.judge(pod).feasible == 1


def test_resources_that_no_object_has_any_more_take_no_room() -> None:
    """An agent that invents a name each time."""
    plugin = NodeResourceTopologyMatch()
    it = engine_of(plugin)
    observed(it, *seen(NODES["node1"]))
    fits, large = guaranteed(cpu="8", memory="1Gi"), guaranteed(cpu="9", memory="1Gi")
    for number in range(300):
        devices: dict[str, Any] = {f"example.com/d{number}": "1"}
        zones = zone(0, cpu="8", memory="8Gi", **devices)
        observed(it, records.ObjectChanged(object=topology("node1", zones)))
        assert (it.judge(fits).feasible, it.judge(large).feasible) == (1, 0)
    columns = plugin._columns
    assert columns is not None
    assert columns.zones(np.array([0])).available.shape[2] <= 128


# --- waking -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (topology("n1", zone(0, cpu="6", memory="8Gi")), True),
        (topology("n2", zone(0, cpu="6", memory="8Gi")), True),
        (topology("n2", zone(0, cpu="4", memory="8Gi"), zone(1, cpu="4", memory="8Gi")), False),
        (topology("n1", zone(0, cpu="3", memory="8Gi")), False),
        (topology("n1", zone(0, cpu="3", memory="8Gi"), policy="None"), True),
        (topology("unknown", zone(0, cpu="6", memory="8Gi")), False),
    ],
)
def test_what_wakes_a_pod(change: NodeResourceTopology, *, expected: bool) -> None:
    """An object by which it passes on its node."""
    small = (topology(name, zone(0, cpu="4", memory="8Gi")) for name in ("n1", "n2"))
    it = engine(*small)
    observed(it, *added(guaranteed(cpu="5", memory="1Gi")))
    attempted(it)
    made = observed(it, records.ObjectChanged(object=change), at=20 * SECOND)
    assert any(isinstance(each, records.PodQueued) for each in made) is expected


def test_nodes_and_pods_wake_a_pod() -> None:
    """A node without an object, a device that a node offers now, and the pod's own change."""
    plain = topology("n1", zone(0, cpu="4", memory="8Gi"))
    for stimulus in (
        *added(node_of(topology("n2", zone(0, cpu="1", memory="1Gi")))),
        records.NodeUpdated(node=node_of(plain, old_nic=2)),
        records.PodUpdated(pod=guaranteed(cpu="1", memory="1Gi")),
    ):
        it = engine(plain)
        observed(it, *added(guaranteed(cpu="1", memory="1Gi", old_nic="1")))
        attempted(it)
        made = observed(it, stimulus, at=20 * SECOND)
        assert any(isinstance(each, records.PodQueued) for each in made), stimulus


# --- Score --------------------------------------------------------------------------------

VAST = amounts(cpu="9Ei", memory="9Ei")


@pytest.mark.parametrize(
    "strategy", ["MostAllocated", "LeastAllocated", "BalancedAllocation", "LeastNUMANodes"]
)
@pytest.mark.parametrize("policy", [CONTAINER, POD])
def test_amounts_that_fill_int64(strategy: str, policy: str) -> None:
    """They fit nowhere, or are counted as far as int64 goes; nothing fails."""
    large = topology("large", *(zone(n, cpu="9Ei", memory="9Ei") for n in (0, 1)), policy=policy)
    small = topology("small", zone(0, cpu="1", memory="1Gi"), policy=policy)
    it = engine(large, small, scoring_strategy=TopologyScoringStrategy(strategy))
    for pod in (zoned_pod(VAST), zoned_pod(VAST, VAST, VAST, init=(VAST,), overhead=VAST)):
        judged = it.judge(pod)
        assert judged.refusal is None
        assert judged.totals[1] < 0


THREE_NODES = (("Node1", "4", "500Mi"), ("Node2", "2", "50Mi"), ("Node3", "6", "60Mi"))


def scores(strategy: str, pod: Pod, *found: NodeResourceTopology, **more: Any) -> list[int]:
    """The nodes' scores, by row."""
    args = TopologyScoringStrategy(strategy, **more)
    judged = engine(*found, scoring_strategy=args).judge(pod)
    return [int(total) for total in judged.totals]


def defaults(policy: str) -> list[NodeResourceTopology]:
    """Upstream's three nodes of two equal zones."""
    return [
        topology(name, *(zone(n, cpu=cpu, memory=memory) for n in (0, 1)), policy=policy)
        for name, cpu, memory in THREE_NODES
    ]


@pytest.mark.parametrize("policy", [CONTAINER, POD])
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("MostAllocated", [(50 + 4) // 2, (100 + 40) // 2, (33 + 33) // 2]),
        ("LeastAllocated", [(50 + 96) // 2, (0 + 60) // 2, (66 + 66) // 2]),
        # Variances of (1/2, 1/25), (1, 2/5) and (1/3, 1/3).
        ("BalancedAllocation", [89, 82, 100]),
    ],
)
def test_strategies(policy: str, strategy: str, expected: list[int]) -> None:
    """One container: both scopes say the same."""
    pod = guaranteed(cpu="2", memory="20Mi")
    assert scores(strategy, pod, *defaults(policy)) == expected


def test_weights_whole_processors_and_the_mean_of_containers() -> None:
    """1.5 processors count as 2, and a node's score is that of its worst zone that fits at all."""
    found = topology("n", zone(0, cpu="4", memory="100"), zone(1, cpu="1", memory="100"))
    pod = guaranteed(cpu="1500m", memory="50")
    weighted = (ScoredResource("cpu", 3), ScoredResource("memory", 0))
    # Zone 0: (4 - 2) / 4 = 50 and 50; zone 1: no cpu, so (0 * 3 + 50) / 4 = 12.
    assert scores("LeastAllocated", pod, found, resources=weighted) == [12]
    assert scores("MostAllocated", pod, found, resources=weighted) == [12]
    two = zoned_pod(amounts(cpu="1", memory="50"), amounts(cpu="3", memory="25"))
    # Zone 1 is the worse one for both: no processor would be left, or there is none.
    assert scores("LeastAllocated", two, found) == [((0 + 50) // 2 + (0 + 75) // 2) // 2]


def test_pods_that_are_not_guaranteed_like_all_nodes() -> None:
    """And Guaranteed ones not those without data."""
    it = engine(defaults(POD)[0])
    observed(it, *added(node_of(topology("unknown", zone(0, cpu="8", memory="8Gi")))))
    judged = it.judge(burstable(cpu="1", memory="1Mi"))
    assert [int(each) for each in judged.totals] == [100, 100]
    judged = it.judge(guaranteed(cpu="2", memory="20Mi"))
    assert [int(each) for each in judged.totals] == [73, 0]


@pytest.mark.parametrize(
    ("policy", "containers", "expected"),
    [
        ("BestEffortContainerLevel", ["2"], [94, 94, 94]),
        ("BestEffortContainerLevel", ["4"], [94, 82, 94]),
        ("BestEffortContainerLevel", ["6"], [82, 0, 94]),
        ("BestEffortContainerLevel", ["2", "2"], [94, 94, 94]),
        ("BestEffortContainerLevel", ["1", "3"], [94, 82, 94]),
        ("BestEffortContainerLevel", ["5", "3"], [82, 0, 94]),
        ("BestEffortPodLevel", ["2", "2"], [94, 82, 82]),
        ("BestEffortPodLevel", ["1", "3"], [94, 82, 82]),
        ("BestEffortPodLevel", ["5", "3"], [82, 0, 82]),
    ],
)
def test_fewest_zones(policy: str, containers: list[str], expected: list[int]) -> None:
    """Steps of 100 / 8; half of one more if distances are as short as can be."""
    pod = zoned_pod(*(amounts(cpu=cpu, memory="50Mi") for cpu in containers))
    assert scores("LeastNUMANodes", pod, *defaults(policy)) == expected


def four(name: str, *gpus: str, **attributes: str) -> NodeResourceTopology:
    """Two pairs of near zones."""
    near = ((10, 12, 20, 20), (12, 10, 20, 20), (20, 20, 10, 12), (20, 20, 12, 10))
    zones = (
        zone(n, dict(enumerate(near[n])), cpu="2", memory="50Mi", nic=gpus[n]) for n in range(4)
    )
    return topology(name, *zones, policy="BestEffortContainerLevel", **attributes)


@pytest.mark.parametrize(("devices", "expected"), [("1", [94, 94]), ("2", [82, 76]), ("3", [0, 0])])
def test_distances(devices: str, expected: list[int]) -> None:
    """The devices of Node1 are near each other, those of Node2 are not."""
    nodes = four("Node1", "1", "1", "0", "0"), four("Node2", "1", "0", "1", "0")
    pod = guaranteed(cpu="2", memory="50Mi", nic=devices)
    assert scores("LeastNUMANodes", pod, *nodes) == expected


def test_what_no_zone_reports_and_what_the_kubelet_supports() -> None:
    """Containers that need no zone are left out; fewer supported zones are larger steps."""
    found = [*defaults("BestEffortPodLevel")[:1]]
    found.append(four("n2", "1", "1", "1", "1", topologyManagerMaxNUMANodes="4"))
    # 100 - 25 + 12.
    assert scores("LeastNUMANodes", guaranteed(cpu="1", memory="1Mi"), *found) == [94, 87]
    it = engine(*found, scoring_strategy=TopologyScoringStrategy("LeastNUMANodes"))
    nine = topology("nine", *(zone(n, cpu="1", memory="1Gi") for n in range(9)), policy="")
    observed(it, *seen(nine))
    judged = it.judge(guaranteed(cpu="1", memory="1Mi"))
    assert [int(each) for each in judged.totals] == [94, 87, 0]
