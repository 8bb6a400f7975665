"""NodeResourceTopologyMatch's columns against a plain reading of the rule, while objects and pods
come, change and go; and against columns that are made afresh."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.objects import Container, Pod, PodSpec
from eventsched.domain.objects.registry import NodeResourceTopology, NumaZone
from eventsched.domain.state import snapshot
from eventsched.domain.state.pod_set_fingerprints import fingerprint
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.plugins.gallery.node_resource_topology_match import (
    NodeResourceTopologyMatch,
    NodeResourceTopologyMatchArgs,
    ScoredResource,
    TopologyScoringStrategy,
)
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle
from tests.builders import SECOND, added, attempted, engine_of, make_node, observed
from tests.properties import naive_zones
from tests.properties.strategies import deterministic

NIC = "vendor/nic1"
STRATEGIES = ("MostAllocated", "LeastAllocated", "BalancedAllocation", "LeastNUMANodes")
WEIGHTS = {"cpu": 3, NIC: 0}
NODES = ("n0", "n1", "n2")
amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from([0, 300, 1000, 1500, 2000, 4000]),
        "memory": st.integers(0, 6),
        "hugepages-2Mi": st.integers(0, 2),
        "ephemeral-storage": st.integers(0, 2),
        NIC: st.integers(0, 3),
        "vendor/none": st.integers(0, 1),
    },
)
containers = st.builds(Container, requests=amounts)
specs = st.builds(
    PodSpec,
    containers=st.lists(containers, min_size=1, max_size=3).map(tuple),
    init_containers=st.lists(
        st.builds(Container, requests=amounts, restarts=st.booleans()), max_size=2
    ).map(tuple),
    overhead=st.just({}) | st.just({"cpu": 200}),
    guaranteed=st.booleans(),
)
free = st.fixed_dictionaries(
    {"cpu": st.sampled_from([0, 900, 2000, 4000, 6500]), "memory": st.integers(0, 9)},
    optional={
        "hugepages-2Mi": st.integers(0, 3), NIC: st.integers(0, 4), "ephemeral-storage": st.just(1),
    },
)  # fmt: skip
costs = st.dictionaries(st.integers(0, 4), st.sampled_from([10, 12, 20, 255, 300]))


@st.composite
def zone_lists(draw: st.DrawFn) -> tuple[NumaZone, ...]:
    """Up to four zones, whose numbers need not follow each other."""
    numbers = sorted(draw(st.sets(st.integers(0, 4), max_size=4)))
    return tuple(
        NumaZone(number=number, available=draw(free), costs=tuple(sorted(draw(costs).items())))
        for number in numbers
    )


topologies = st.builds(
    NodeResourceTopology,
    name=st.sampled_from(NODES),
    policy=st.sampled_from(["single-numa-node"] * 3 + ["restricted"]),
    scope=st.sampled_from(["pod", "container"]),
    most_zones=st.sampled_from([2, 4, 8, 300]),
    zones=zone_lists(),
)


def engine(strategy: str, period: int) -> tuple[Engine, NodeResourceTopologyMatch]:
    """One with the nodes, one of which has no NICs; and its plugin."""
    resources = tuple(ScoredResource(name, weight) for name, weight in WEIGHTS.items())
    args = NodeResourceTopologyMatchArgs(
        scoring_strategy=TopologyScoringStrategy(strategy, resources),
        cache_resync_period_seconds=period,
    )
    plugin = NodeResourceTopologyMatch(args)
    made = engine_of(plugin)
    for name in NODES:
        extra = {"hugepages-2Mi": 9} | ({} if name == "n2" else {NIC: 9})
        observed(made, *added(make_node(name, extra=extra)))
    return made, plugin


def answers(it: Engine, plugin: NodeResourceTopologyMatch, spec: PodSpec) -> list[tuple[str, int]]:
    """What the plugin says about each node: why not ("" if it passes), and its score if it does."""
    pod = Pod(uid="probe", name="probe", spec=spec)
    judged = it.judge(pod)
    found = []
    for row in range(len(NODES)):
        key, total = int(judged.keys[row]), int(judged.totals[row])
        passes = total >= 0
        reason = "" if passes else plugin.explain(Cycle(0, ""), pod, key % 65_536).reasons[0]
        found.append((reason.removeprefix("cannot align "), total if passes else 0))
    return found


def is_concerned(spec: PodSpec) -> bool:
    """Whether it is not BestEffort, or names devices."""
    parts = [each.requests for each in (*spec.containers, *spec.init_containers)]
    asks = any(part.get(name) for part in parts for name in ("cpu", "memory"))
    return spec.guaranteed or asks or any("/" in name for part in parts for name in part)


def expected(
    strategy: str, spec: PodSpec, held: dict[str, NodeResourceTopology], it: Engine
) -> list[tuple[str, int]]:
    """What the plain reading says."""
    found = []
    asks = is_concerned(spec)
    for name in NODES:
        node = it.state.nodes.nodes[it.state.nodes.rows[name]]
        assert node is not None
        reason = naive_zones.passes(spec, held.get(name), node) if asks else ""
        total = 0 if reason else naive_zones.score(strategy, spec, held.get(name), WEIGHTS)
        found.append((reason, total))
    return found


@deterministic(250)
@given(
    st.sampled_from(STRATEGIES), st.lists(topologies | st.sampled_from(NODES), max_size=6),
    st.lists(specs, min_size=1, max_size=3),
)  # fmt: skip
def test_columns_are_what_the_rule_says(
    strategy: str, changes: list[Any], asked: list[PodSpec]
) -> None:
    """After each change of an object; a name is the end of that node's."""
    it, plugin = engine(strategy, 0)
    held: dict[str, NodeResourceTopology] = {}
    for change in (None, *changes):
        if isinstance(change, NodeResourceTopology):
            held[change.name] = change
            observed(it, records.ObjectChanged(object=change))
        elif change in held:
            del held[change]
            observed(
                it,
                records.ObjectDeleted(type="NodeResourceTopology", namespace="", name=change),
            )
        for spec in asked:
            assert answers(it, plugin, spec) == expected(strategy, spec, held, it)


pods = st.tuples(st.sampled_from("abcd"), st.sampled_from(NODES), st.sampled_from(["", "other"]))
events = st.lists(
    st.tuples(st.just("pod"), pods, specs)
    | st.tuples(st.just("gone"), st.sampled_from("abcd"), st.none())
    | st.tuples(st.just("decide"), st.none(), st.none())
    | st.tuples(st.just("bound"), st.none(), st.none())
    | st.tuples(st.just("object"), topologies, st.booleans() | st.none()),
    max_size=12,
)


def step(it: Engine, kind: str, what: Any, more: Any, at: int) -> None:
    """One thing that happens, as far as it can happen now. An object has no fingerprint, that of
    the pods that are bound to its node, or another one."""
    known = it.state.pods
    if kind == "pod" and what[0] not in known:
        uid, node, scheduler = what
        there = {"node_name": node, "scheduler_name": scheduler} if scheduler else {}
        observed(it, *added(Pod(uid=uid, name=uid, spec=more, **there)), at=at)
    elif kind == "gone" and what in known:
        observed(it, records.PodDeleted(uid=what), at=at)
    elif kind == "decide":
        attempted(it)
    elif kind == "bound":
        for uid, held in list(it.state.reservations.items()):
            if held.intended:
                observed(it, records.BindSucceeded(uid=uid, node=held.node), at=at)
    elif kind == "object":
        names = [
            each.pod for each in known.values() if each.booked_node == what.name and each.bound
        ]
        right = fingerprint((each.namespace, each.name) for each in names)
        mark = {None: "", True: right, False: "pfp0v0010000000000000000"}[more]
        topology = msgspec.structs.replace(what, fingerprint=mark)
        observed(it, records.ObjectChanged(object=topology), at=at)


@deterministic(200)
@given(st.sampled_from(STRATEGIES), events, specs)
def test_what_is_not_covered_yet(strategy: str, happened: list[Any], spec: PodSpec) -> None:
    """The plain reading is given the object that holds, without what came since; columns that
    followed all changes are those of a plugin that has seen none."""
    it, plugin = engine(strategy, 5)
    for number, (kind, what, more) in enumerate(happened):
        step(it, kind, what, more, number * 60 * SECOND)
        held, stale = what_holds(it)
        rule = expected(strategy, spec, held, it)
        for row, name in enumerate(NODES):
            if name in stale:
                rule[row] = refused_as_stale(spec)
        assert answers(it, plugin, spec) == rule
    restored = SchedulerState()
    snapshot.restore(restored, snapshot.encode(it.state))
    assert restored.digest() == it.state.digest()
    followed = answers(it, plugin, spec)
    plugin._columns = None
    assert answers(it, plugin, spec) == followed


def what_holds(it: Engine) -> tuple[dict[str, NodeResourceTopology], set[str]]:
    """The objects that hold, without what was placed since; and the nodes that others used."""
    held, stale = {}, set()
    for name, report in it.state.topologies.all().items():
        since = [it.state.pods[uid].pod for uid, ours in report.uncovered.items() if ours]
        if not all(report.uncovered.values()):
            stale.add(name)
        zones = []
        for zone in report.current.zones:
            left = dict(zone.available)
            for pod in since:
                for resource, amount in naive_zones.request(pod.spec).items():
                    if resource in left:
                        left[resource] = max(0, left[resource] - amount)
            zones.append(msgspec.structs.replace(zone, available=left))
        held[name] = msgspec.structs.replace(report.current, zones=tuple(zones))
    return held, stale


def refused_as_stale(spec: PodSpec) -> tuple[str, int]:
    """What a node comes to whose numbers are of no use; BestEffort pods do not mind."""
    return ("invalid node topology data", 0) if is_concerned(spec) else ("", 100)
