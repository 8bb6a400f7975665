"""Cached class columns are what a fresh computation gives, after whatever has happened.

Journals that forget at once, tables that grow, maxima that leave, images that spread, classes that
are evicted: keys, raw scores, totals, counts and digests stay those of a cache made just now, and
expanding a chain of deltas gives the vectors of each decision in full.
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.nodes import node_table as table_columns
from eventsched.domain.objects import CPU, MEMORY, Container, Image, Node, Pod, PodSpec, Taint
from eventsched.domain.records.verdicts import Detail, Normalization, column_digest, detail_digest
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from eventsched.scheduling.cycle import judgement_recording
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.cycle.cycle_keys import KEY_NO_NODE, KEY_PASSES, NOT_FEASIBLE
from eventsched.scheduling.cycle.judgement import Judgement, judge
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import (
    Cycle,
    DependsOn,
    NodeView,
    PluginError,
    Status,
    signed_by_spec,
)
from eventsched.scheduling.framework.profile import Profile

from . import driving, strategies
from .driving import Driver, Operation
from .strategies import MIB, deterministic


class Crowd:
    """A signed plugin whose normalised score and verdicts follow usage: the largest raw score can
    leave with a pod."""

    name = "Crowd"
    normalization = Normalization.DEFAULT
    sign = staticmethod(signed_by_spec)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        """Two codes, by the number of pods."""
        return np.select([nodes.pods > 6, nodes.pods > 4], [2, 1], 0)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        return Status.unschedulable(f"crowd of level {code}")

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        return nodes.pods * 7


class Spread:
    """Normalised by the smallest and the largest score; not kept in a class."""

    name = "Spread"
    normalization = Normalization.MIN_MAX
    sign = staticmethod(signed_by_spec)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        return 500 - nodes.pods


class Wild:
    """Signed, and out of range on empty and on full nodes."""

    name = "Wild"
    sign = staticmethod(signed_by_spec)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        return nodes.pods * 45 - 1


class WildByNode:
    """The same by what no pod on a node changes."""

    name = "WildByNode"
    depends_on = DependsOn.NODE
    sign = staticmethod(signed_by_spec)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        return np.array([0 if node is None else 99 + len(node.taints) for node in nodes.nodes])


class WildAtLast:
    """Not signed, and out of range before or after its own normalisation."""

    name = "WildAtLast"

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        return np.where(nodes.pods == 1, 2**60, nodes.pods)

    def normalize_score(self, cycle: Cycle, pod: Pod, scores: Any) -> Any:
        return scores * 34


class Widespread:
    """A filter that reads how far an image has spread."""

    name = "Widespread"
    depends_on = DependsOn.IMAGES
    sign = staticmethod(signed_by_spec)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        sizes, holders = nodes.image_sizes("app:latest")
        return (sizes > 0) & (holders > 3)


class Picky:
    """Not signed: some pods are judged apart, by name."""

    name = "Picky"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        return None if pod.name.endswith("3") else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
        return nodes.pods > 1


def in_tree() -> Profile:
    found = assemble_loaded(configuration.default(), "default", IN_TREE).profiles
    return found["default-scheduler"]


def with_plugins(*plugins: Any, images: bool = False) -> Profile:
    """The in-tree ones and these. If no plugin reads images, a node more or less is taken in
    row by row; otherwise it means to compute all columns again."""
    base = in_tree()
    points = {
        point: [each for each in found if images or each.name != "ImageLocality"]
        for point, found in base.points.items()
    }
    for plugin in plugins:
        for point, method in (("preFilter", "pre_filter"), ("filter", "filter")):
            if hasattr(plugin, method):
                points[point].insert(len(points[point]) // 2, plugin)
        if hasattr(plugin, "score"):
            points["score"].append(plugin)
    weights = {score.name: score.weight for score in base.scores} | {"Crowd": 5}
    return Profile("default-scheduler", points, weights)


PROFILES: dict[str, Callable[[], Profile]] = {
    "in-tree": in_tree,
    "normalised by usage": lambda: with_plugins(Crowd()),
    "min-max": lambda: with_plugins(Spread()),
    "no images": with_plugins,
    "reads images": lambda: with_plugins(Widespread(), Crowd(), images=True),
    "unsigned": lambda: with_plugins(Picky()),
    "out of range": lambda: with_plugins(Wild(), WildByNode(), Crowd()),
    "out of range at last": lambda: with_plugins(Wild(), WildAtLast(), Spread()),
}

shapes = st.lists(
    st.one_of(strategies.simple_specs, strategies.simple_specs, strategies.specs),
    min_size=3, max_size=3,
)  # fmt: skip
operations = st.lists(
    st.one_of(driving.node_operations, driving.usage_operations, driving.usage_operations),
    min_size=1, max_size=25,
)  # fmt: skip


class Forgetful(ClassCache):
    """Every node is judged again."""

    def get(self, profile: Profile, pod: Pod, cycle: Cycle) -> Any:
        self._classes.clear()
        return super().get(profile, pod, cycle)


class Small:
    """Tables and journals that are full at once."""

    def __init__(self, capacity: int, limit: int) -> None:
        self._patch = patch.object(table_columns, "_FIRST_CAPACITY", capacity)
        self.limit = limit

    def engine(self, profile: Profile, cache: ClassCache) -> Engine:
        with self._patch:
            engine = Engine({profile.name: profile}, classes=cache)
        nodes = engine.state.nodes
        nodes.usage_journal.limit = nodes.node_journal.limit = self.limit
        return engine


def assert_equal(found: Judgement, fresh: Judgement) -> None:
    assert found.keys.tolist() == fresh.keys.tolist()
    assert found.counts == fresh.counts
    assert [s.column for s in found.scores] == [s.column for s in fresh.scores]
    for one, other in zip(found.scores, fresh.scores, strict=True):
        assert one.raw.dtype == other.raw.dtype
        assert one.raw.tolist() == other.raw.tolist(), one.column.plugin
        assert (one.normalized is None) == (other.normalized is None)
    assert found.totals.tolist() == fresh.totals.tolist()


class Decisions:
    """Judges and records pods as an engine does, twice: with a cache that is kept and with none."""

    def __init__(self, engine: Engine, profile: Profile, kept: ClassCache) -> None:
        self.state, self.profile, self.kept = engine.state, profile, kept
        self.position = 0
        self.details: dict[int, Detail] = {}
        self.deltas = 0

    def judge(self, pod: Pod, cache: ClassCache) -> Judgement:
        return judge(self.state.nodes, cache, self.profile, pod, Cycle(now=0, seed=""))

    def check(self, pod: Pod) -> None:
        judged, fresh = self.judge(pod, self.kept), self.judge(pod, ClassCache())
        assert_equal(judged, fresh)
        again = judgement_recording.record(self.state, fresh, self.position)
        found = judgement_recording.record(self.state, judged, self.position)
        assert (found.definitions, found.counts) == (again.definitions, again.counts)
        for each in found.definitions:
            self.state.apply(each, self.state.now)
        assert found.digest == again.digest
        at = self.position + len(found.definitions)
        assert found.detail is not None
        self.details[at] = found.detail
        self.position = at + 1
        self.deltas += found.detail.base is not None
        self._check(self._expanded(at), again.detail, found.digest)

    def _expanded(self, at: int) -> Detail:
        detail = self.details[at]
        return detail if detail.base is None else detail.expand(self._expanded(detail.base))

    def _check(self, expanded: Any, whole: Any, digest: str) -> None:
        assert whole.base is None
        assert expanded.size == whole.size
        assert expanded.codes.tolist() == whole.codes.tolist()
        for one, other in zip(expanded.scores, whole.scores, strict=True):
            assert (one.dtype, one.tolist()) == (other.dtype, other.tolist())
        columns = [column_digest(each) for each in expanded.scores]
        columns += [column_digest(each) for each in whole.normalized if each is not None]
        assert detail_digest(column_digest(expanded.codes), columns) == digest


@pytest.mark.parametrize("kind", PROFILES)
@deterministic(40)
@given(
    shapes, operations, st.integers(1, 4), st.sampled_from([2, 3, 6, 65_536]), st.data(),
    st.sampled_from([0, 400, 2**20]),
)  # fmt: skip
def test_columns_are_those_of_a_fresh_computation(
    kind: str, shapes: list[PodSpec], operations: list[Operation], capacity: int, limit: int,
    data: st.DataObject, cache_bytes: int,
) -> None:  # fmt: skip
    kept, profile = ClassCache(cache_bytes), PROFILES[kind]()
    engine = Small(capacity, limit).engine(profile, ClassCache())
    driver = Driver(engine, shapes)
    decisions = Decisions(engine, profile, kept)
    for name in strategies.NODE_NAMES[:3]:
        node = Node(name=name, allocatable={CPU: 2000, MEMORY: 4096 * MIB, "pods": 9})
        engine.observe(records.NodeAdded(node=node), 0)
    for number, operation in enumerate(operations):
        driver.observe(operation)
        for shape in data.draw(st.sampled_from([(), (0,), (1,), (0, 1), (0, 1, 2)])):
            decisions.check(Pod(uid="p", name=f"p{number % 5}", spec=shapes[shape]))


@pytest.mark.parametrize("kind", PROFILES)
@deterministic(25)
@given(
    shapes,
    st.lists(
        st.one_of(driving.node_operations, driving.usage_operations, driving.engine_operations),
        min_size=5, max_size=40,
    ),
    st.integers(1, 4), st.sampled_from([2, 5, 65_536]),
)  # fmt: skip
def test_decisions_do_not_depend_on_the_cache(
    kind: str, shapes: list[PodSpec], operations: list[Operation], capacity: int, limit: int
) -> None:
    small, profile = Small(capacity, limit), PROFILES[kind]()
    caches = (ClassCache(), Forgetful(), ClassCache(0))
    drivers = [Driver(small.engine(profile, cache), shapes) for cache in caches]
    for operation in operations:
        plays = [driver.play(operation) for driver in drivers]
        kept, *others = [[each[:4] for each in play] for play in plays]
        assert all(other == kept for other in others)
    digests = {driver.engine.state.digest() for driver in drivers}
    assert len(digests) == 1
    table = drivers[0].engine.state.nodes
    assert table.totals.tolist() == table.books[:, :2].sum(axis=0).tolist()


# --- cases worth a name ---------------------------------------------------------------------------


def simple(cpu: int = 100) -> Pod:
    spec = PodSpec(containers=(Container(requests={CPU: cpu, MEMORY: MIB}),))
    return Pod(uid="p", name="p", spec=spec)


def cluster(profile: Profile, count: int = 8) -> tuple[Engine, Decisions]:
    engine = Engine({profile.name: profile})
    for index in range(count):
        node = Node(name=f"n{index}", allocatable={CPU: 4000, MEMORY: 4096 * MIB, "pods": 9})
        engine.observe(records.NodeAdded(node=node), 0)
    return engine, Decisions(engine, profile, ClassCache())


def put(engine: Engine, uid: str, node: str, cpu: int = 100) -> None:
    spec = simple(cpu).spec
    engine.observe(records.PodAdded(pod=Pod(uid=uid, name=uid, node_name=node, spec=spec)), 0)


def test_a_node_that_came_and_went_between_two_decisions_is_no_node() -> None:
    engine, decisions = cluster(with_plugins())
    decisions.check(simple())
    engine.observe(records.NodeAdded(node=Node(name="brief", allocatable={CPU: 1})), 0)
    engine.observe(records.NodeDeleted(name="brief"), 0)
    decisions.check(simple())
    put(engine, "a", "n1")
    decisions.check(simple())
    assert decisions.deltas == 2


def test_a_chain_of_deltas_ends_after_sixty_four() -> None:
    engine, decisions = cluster(in_tree())
    for number in range(150):
        put(engine, f"a{number}", f"n{number % 8}", cpu=1)
        engine.observe(records.PodDeleted(uid=f"a{number - 3}"), 0) if number > 2 else None
        decisions.check(simple())
    assert decisions.deltas == 150 - 3


def test_the_maximum_that_leaves_is_noticed_on_every_row() -> None:
    engine, decisions = cluster(with_plugins(Crowd()))
    for number in range(4):
        put(engine, f"a{number}", "n0")
    put(engine, "b", "n1")
    decisions.check(simple())
    before = decisions.judge(simple(), decisions.kept).totals.tolist()
    engine.observe(records.PodDeleted(uid="a0"), 0)
    decisions.check(simple())
    after = decisions.judge(simple(), decisions.kept).totals.tolist()
    assert after[1] > before[1]


@pytest.mark.parametrize("change", ["usage", "node", "refused"])
def test_columns_recover_from_a_plugin_that_failed_half_way(change: str) -> None:
    class Flaky:
        name = "Flaky"
        sign = staticmethod(signed_by_spec)
        broken = False

        def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
            if self.broken:
                raise RuntimeError("away")
            return np.full(len(nodes), 3)

    flaky = Flaky()
    engine, decisions = cluster(with_plugins(flaky))
    decisions.check(simple())
    flaky.broken = True
    put(engine, "a", "n2", cpu=4000 if change == "refused" else 900)
    put(engine, "b", "n3")
    if change == "node":
        node = Node(name="n2", allocatable={CPU: 2000, MEMORY: 4096 * MIB, "pods": 9})
        engine.observe(records.NodeUpdated(node=node), 0)
    with pytest.raises(PluginError, match="Flaky"):
        decisions.judge(simple(), decisions.kept)
    flaky.broken = False
    decisions.check(simple())
    decisions.check(simple())


SOFT = Taint(key="old", effect="PreferNoSchedule")
ROOM = {CPU: 4000, MEMORY: 4096 * MIB, "pods": 9}


def test_a_row_that_is_free_again_has_its_static_scores_again() -> None:
    engine, decisions = cluster(with_plugins())
    engine.observe(records.NodeUpdated(node=Node(name="n1", taints=(SOFT,), allocatable=ROOM)), 0)
    put(engine, "a", "n1", cpu=4000)
    decisions.check(simple())
    engine.observe(records.PodDeleted(uid="a"), 0)
    decisions.check(simple())
    taints = {each.column.plugin: each.raw for each in decisions.judge(
        simple(), decisions.kept).scores}["TaintToleration"]  # fmt: skip
    assert taints.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]


def test_a_node_update_changes_static_scores() -> None:
    engine, decisions = cluster(with_plugins())
    for taints in ((SOFT,), (SOFT, Taint(key="older", effect="PreferNoSchedule")), ()):
        decisions.check(simple())
        node = Node(name="n1", taints=taints, allocatable=ROOM)
        engine.observe(records.NodeUpdated(node=node), 0)
    decisions.check(simple())


def test_an_image_that_spreads_changes_the_scores_of_other_nodes() -> None:
    engine, decisions = cluster(in_tree())
    held = (Image(names=("app:v1",), size=900 * MIB),)
    spec = PodSpec(containers=(Container(image="app:v1", requests={CPU: 10}),))
    for name in ("n0", "n4", "n5"):
        engine.observe(records.NodeUpdated(node=Node(name=name, images=held, allocatable=ROOM)), 0)
        decisions.check(Pod(uid="p", name="p", spec=spec))
    engine.observe(records.NodeDeleted(name="n4"), 0)
    decisions.check(Pod(uid="p", name="p", spec=spec))


@pytest.mark.parametrize("journal", ["usage_journal", "node_journal"])
def test_a_journal_that_has_forgotten_means_everything(journal: str) -> None:
    engine, decisions = cluster(with_plugins())
    decisions.check(simple())
    getattr(engine.state.nodes, journal).limit = 2
    for number, name in enumerate(("n0", "n1", "n2", "n2", "n2", "n2")):
        put(engine, f"a{number}", name, cpu=900)
        node = Node(name=name, taints=(SOFT,) if number < 3 else (), allocatable=ROOM)
        if journal == "node_journal":
            engine.observe(records.NodeUpdated(node=node), 0)
    decisions.check(simple())


def test_dead_rows_are_never_feasible() -> None:
    engine, decisions = cluster(in_tree(), 2)
    decisions.check(simple())
    engine.observe(records.NodeDeleted(name="n0"), 0)
    judged = decisions.judge(simple(), decisions.kept)
    assert judged.keys.tolist() == [KEY_NO_NODE, KEY_PASSES]
    assert judged.totals[0] == NOT_FEASIBLE


@pytest.mark.parametrize("returns", [False, True])
def test_a_score_out_of_range_leaves_no_stale_total_of_another_row(returns: bool) -> None:
    class Full:
        name = "Full"
        sign = staticmethod(signed_by_spec)

        def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Any:
            return np.where(nodes.pods > 2, 101, 7)

    engine, decisions = cluster(with_plugins(Full()))
    decisions.check(simple())
    if returns:
        put(engine, "whole", "n1", cpu=3950)
        decisions.check(simple())
        engine.observe(records.PodDeleted(uid="whole"), 0)
    put(engine, "a", "n1", cpu=900)
    for number in range(3):
        put(engine, f"b{number}", "n3")
    decisions.check(simple())
