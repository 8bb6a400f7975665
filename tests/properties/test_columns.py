"""Each in-tree plugin over columns says about every node what upstream's rule says about that node
alone.

The rules are in naive.py. Tables have dead rows and rewritten ones, and a plugin is asked about all
rows or about some, as the class columns do.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.pod_requests import of as requests_of
from eventsched.domain.records.verdicts import Code
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.plugins.image_locality import ImageLocality
from eventsched.plugins.node_affinity import NodeAffinity
from eventsched.plugins.node_name import NodeName
from eventsched.plugins.node_ports import NodePorts
from eventsched.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from eventsched.plugins.node_resources_fit import (
    NodeResourcesFit,
    NodeResourcesFitArgs,
    RatioParameters,
    ScoringStrategy,
)
from eventsched.plugins.node_unschedulable import NodeUnschedulable
from eventsched.plugins.taint_toleration import TaintToleration
from eventsched.scheduling.config.pluginargs import ShapePoint
from eventsched.scheduling.framework import Cycle, PreFilterResult, Status
from eventsched.scheduling.rules.resource_scoring import ResourceSpec

from . import naive, strategies
from .naive import Place
from .strategies import FPGA, GPU, HUGE, deterministic

CYCLE = Cycle(now=0, seed="test")


class Cluster:
    """The same cluster twice: as a state folded from records, and as plain lists."""

    def __init__(self) -> None:
        self.state = SchedulerState()
        self.places: dict[str, Place] = {}

    def add(self, node: Node) -> None:
        updated = node.name in self.places
        kind = records.NodeUpdated if updated else records.NodeAdded
        self.state.apply(kind(node=node), 0)
        self.places[node.name] = Place(node, self.places[node.name].pods if updated else [])

    def remove(self, name: str) -> None:
        self.state.apply(records.NodeDeleted(name=name), 0)
        del self.places[name]

    def put(self, pod: Pod) -> None:
        self.state.apply(records.PodAdded(pod=pod), 0)
        self.places[pod.node_name].pods.append(pod)

    @property
    def rows(self) -> dict[str, int]:
        return self.state.nodes.rows


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    cluster = Cluster()
    names = strategies.NODE_NAMES[: draw(st.integers(1, 5))]
    for name in names:
        cluster.add(draw(strategies.nodes(name)))
    for number in range(draw(st.integers(0, 5))):
        spec = strategies.simple_specs if number else strategies.specs
        where = draw(st.sampled_from(names))
        cluster.put(draw(strategies.pods(f"on-{number}", spec, node_name=where)))
    if draw(st.booleans()):
        cluster.add(draw(strategies.nodes(names[0])))
    if len(names) > 1 and draw(st.booleans()):
        cluster.remove(names[-1])
        if draw(st.booleans()):
            cluster.add(draw(strategies.nodes(names[-1])))
            for pod in list(cluster.state.pods.values()):
                if pod.pod.node_name == names[-1]:
                    cluster.places[names[-1]].pods.append(pod.pod)
    return cluster


pending = strategies.pods("p", strategies.specs)
Column = Callable[[NodeView], Any]


def by_name(cluster: Cluster, column: Column) -> dict[str, int]:
    """The column by node name; asked about all rows, then about every other one, and one by one."""
    table = cluster.state.nodes
    everything = column(NodeView(table))
    whole = np.zeros(table.size, dtype=np.int64) if everything is None else everything
    for rows in (np.arange(0, table.size, 2), *(np.array([r]) for r in range(table.size))):
        some = column(NodeView(table, rows.astype(np.intp)))
        expected = whole[rows]
        assert (np.zeros(len(rows)) if some is None else some).tolist() == expected.tolist()
    return {name: int(whole[row]) for name, row in cluster.rows.items()}


def check_filter(
    cluster: Cluster, pod: Pod, plugin: Any, rule: Callable[[Pod, Place], naive.Refusal]
) -> None:
    codes = by_name(cluster, lambda nodes: plugin.filter(CYCLE, pod, nodes))
    for name, place in cluster.places.items():
        expected = rule(pod, place)
        if expected is None:
            assert codes[name] == 0, name
            continue
        reasons, unresolvable = expected
        code = Code.UNRESOLVABLE if unresolvable else Code.UNSCHEDULABLE
        assert codes[name] > 0, name
        assert plugin.explain(CYCLE, pod, codes[name]) == Status(code, tuple(reasons)), name


def check_score(cluster: Cluster, pod: Pod, plugin: Any, rule: Callable[[Pod, Place], int]) -> None:
    scores = by_name(cluster, lambda nodes: plugin.score(CYCLE, pod, nodes))
    assert scores == {name: rule(pod, place) for name, place in cluster.places.items()}


resource_weights = st.lists(
    st.tuples(
        st.sampled_from(["cpu", "memory", "ephemeral-storage", GPU, FPGA, HUGE, "vendor.io/none"]),
        st.sampled_from([1, 2, 3, 100]),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each[0],
)
shapes = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each[0],
).map(sorted)


def _fit(kind: str, weights: naive.Weights, shape: list[tuple[int, int]] | None = None) -> Any:
    points = tuple(ShapePoint(utilization=x, score=y) for x, y in shape or [])
    strategy = ScoringStrategy(
        type=kind,
        resources=tuple(ResourceSpec(name, weight) for name, weight in weights),
        requested_to_capacity_ratio=RatioParameters(shape=points) if shape else None,
    )
    return NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=strategy))


@deterministic(110)
@given(clusters(), pending, st.data())
def test_filters(cluster: Cluster, pod: Pod, data: st.DataObject) -> None:
    check_filter(cluster, pod, NodeUnschedulable(), naive.node_unschedulable)
    check_filter(cluster, pod, TaintToleration(), naive.taint_toleration)
    check_filter(cluster, pod, NodeAffinity(), naive.node_affinity)
    check_filter(cluster, pod, NodePorts(), naive.node_ports)

    name = data.draw(st.sampled_from(["", "n0", "n1", "elsewhere"]))
    named = Pod(uid="p", name="p", node_name=name, spec=pod.spec)
    check_filter(cluster, named, NodeName(), naive.node_name)

    ignored = data.draw(st.sampled_from([(), (GPU,), (FPGA, HUGE)]))
    groups = data.draw(st.sampled_from([(), ("example.com",), ("vendor.io", "example.com")]))
    args = NodeResourcesFitArgs(ignored_resources=ignored, ignored_resource_groups=groups)
    fit = NodeResourcesFit(args)
    check_filter(cluster, pod, fit, lambda p, at: naive.fit(p, at, ignored, groups))


@deterministic(110)
@given(clusters(), pending, resource_weights, shapes)
def test_scores(
    cluster: Cluster, pod: Pod, weights: naive.Weights, shape: list[tuple[int, int]]
) -> None:
    places = list(cluster.places.values())
    check_score(cluster, pod, TaintToleration(), naive.taint_toleration_score)
    check_score(cluster, pod, NodeAffinity(), naive.node_affinity_score)
    check_score(cluster, pod, ImageLocality(), lambda p, at: naive.image_locality(p, at, places))
    least, most = _fit("LeastAllocated", weights), _fit("MostAllocated", weights)
    check_score(cluster, pod, least, lambda p, at: naive.least_allocated(p, at, weights))
    check_score(cluster, pod, most, lambda p, at: naive.most_allocated(p, at, weights))
    ratio = _fit("RequestedToCapacityRatio", weights, shape)
    check_score(cluster, pod, ratio, lambda p, at: naive.ratio(p, at, weights, shape))
    for resources in BALANCED:
        _check_balanced(cluster, pod, resources)


BALANCED = (
    ("cpu", "memory"),
    ("cpu",),
    ("cpu", "memory", GPU),
    (GPU, HUGE),
    ("memory", "ephemeral-storage", "cpu"),
    ("cpu", "vendor.io/none", FPGA, "memory"),
)


def _check_balanced(cluster: Cluster, pod: Pod, resources: tuple[str, ...]) -> None:
    args = NodeResourcesBalancedAllocationArgs(resources=tuple(map(ResourceSpec, resources)))
    plugin = NodeResourcesBalancedAllocation(args)
    answer = plugin.pre_score(CYCLE, pod, NodeView(cluster.state.nodes))
    if not any(naive.request(pod.spec, name) for name in resources):
        assert answer == Status.skip()
        return
    assert answer is None
    check_score(cluster, pod, plugin, lambda p, at: naive.balanced(p, at, list(resources)))


@deterministic(150)
@given(pending)
def test_prefilter_of_node_affinity(pod: Pod) -> None:
    names = naive.node_affinity_names(pod)
    answer = NodeAffinity().pre_filter(CYCLE, pod, NodeView(SchedulerState().nodes))
    if names is None:
        skips = pod.spec.required_node_terms is None and not pod.spec.node_selector
        assert answer == (Status.skip() if skips else None)
    elif names:
        assert answer == PreFilterResult(frozenset(names))
    else:
        assert answer == Status.unresolvable("pod affinity terms conflict")


@deterministic(150)
@given(strategies.specs)
def test_request_arithmetic(spec: Any) -> None:
    found = requests_of(spec)
    names = {n for n in naive.named(spec) if naive.scalar(n)} | {"cpu", "memory"}
    for name in names | {"ephemeral-storage"}:
        assert found.effective.get(name, 0) == naive.request(spec, name), name
        level = naive.request(spec, name, naive.DEFAULTS.get(name), pod_level=False)
        assert found.scored.get(name, 0) == level, name
    assert found.nonzero_cpu == naive.nonzero(spec, "cpu")
    assert found.nonzero_memory == naive.nonzero(spec, "memory")


@pytest.mark.parametrize("count", [1, 2])
def test_a_view_of_no_rows_gives_empty_columns(count: int) -> None:
    cluster = Cluster()
    for name in strategies.NODE_NAMES[:count]:
        cluster.add(Node(name=name, allocatable={"cpu": 1}))
    pod = Pod(uid="p", name="p")
    none = NodeView(cluster.state.nodes, np.zeros(0, dtype=np.intp))
    for plugin in (TaintToleration(), NodeAffinity(), NodePorts()):
        assert len(plugin.filter(CYCLE, pod, none)) == 0
    for scorer in (ImageLocality(), NodeResourcesFit(), TaintToleration()):
        assert len(scorer.score(CYCLE, pod, none)) == 0
