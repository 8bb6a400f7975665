"""A node that was full and has room again is judged as by a class that never saw it full."""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod, Taint
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.cycle.judgement import Judgement, judge
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, NodeView
from eventsched.testing.engines import PROFILE, engine_with, observed
from tests.builders import make_node, make_pod

POD = make_pod("p", cpu=1000, memory=0)
AVOIDED = (Taint(key="slow", effect="PreferNoSchedule"),)
FILLER = make_pod("filler", cpu=4000, memory=0, node_name="n1", scheduler_name="other")
FILL, FREE = records.PodAdded(pod=FILLER), records.PodDeleted(uid="filler")


class CountsNodes:
    """Scores by a label alone, and counts the nodes that it is asked about."""

    name = "CountsNodes"
    depends_on = DependsOn.NODE

    def __init__(self) -> None:
        self.asked = 0

    @staticmethod
    def sign(pod: Pod) -> str:
        return ""

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        self.asked += len(nodes)
        return nodes.label("points", lambda value: int(value or 0))


def shown(judgement: Judgement) -> dict[str, Any]:
    return {
        "keys": judgement.keys.tolist(),
        "counts": dict(sorted(judgement.counts.items())),
        "totals": judgement.totals.tolist(),
        "scores": [(score.column, score.raw.tolist()) for score in judgement.scores],
    }


def assert_as_fresh(engine: Engine, profile: Any) -> None:
    fresh = judge(engine.state.nodes, ClassCache(), profile, POD, Cycle(now=0, seed="", attempt=1))
    assert shown(engine.judge(POD)) == shown(fresh)


@pytest.mark.parametrize("label", ["0", "7"])
@pytest.mark.parametrize("taints", [(), AVOIDED])
@pytest.mark.parametrize("others", [(), AVOIDED])
def test_a_node_gets_full_and_has_room_again(
    label: str, taints: tuple[Taint, ...], others: tuple[Taint, ...]
) -> None:
    plugin = CountsNodes()
    engine = engine_with(plugin)
    profile = engine._step.profiles[PROFILE]
    node = make_node("n1", labels={"points": label}, taints=taints)
    second = make_node("n2", labels={"points": "3"}, taints=others)
    observed(engine, *map(node_added, (node, second)))
    assert_as_fresh(engine, profile)
    for _ in range(2):
        observed(engine, FILL)
        assert_as_fresh(engine, profile)
        observed(engine, FREE)
        assert_as_fresh(engine, profile)


def test_a_node_that_changes_while_it_is_full() -> None:
    """Its scores from before it was full no longer count."""
    engine = engine_with(CountsNodes())
    profile = engine._step.profiles[PROFILE]
    observed(engine, *map(node_added, (make_node("n1"), make_node("n2"))))
    assert_as_fresh(engine, profile)
    observed(engine, FILL)
    assert_as_fresh(engine, profile)
    changed = make_node("n1", labels={"points": "9"}, taints=AVOIDED)
    observed(engine, records.NodeUpdated(node=changed))
    assert_as_fresh(engine, profile)
    observed(engine, FREE)
    assert_as_fresh(engine, profile)


def test_plugins_that_read_no_pods_of_nodes_are_not_asked_again() -> None:
    plugin = CountsNodes()
    engine = engine_with(plugin)
    observed(engine, *map(node_added, (make_node("n1"), make_node("n2"))))
    engine.judge(POD)
    assert plugin.asked == 2
    for stimulus in (FILL, FREE, FILL, FREE):
        observed(engine, stimulus)
        engine.judge(POD)
    assert plugin.asked == 2


def node_added(node: Node) -> records.NodeAdded:
    return records.NodeAdded(node=node)
