"""FixedNode and tonodename-scoring-plugin: one named node is better than all others."""

import json
from typing import Any

import pytest

from eventsched.domain.behaviours import CURRENT
from eventsched.domain.records.verdicts import Normalization, ScoreColumn
from eventsched.plugins import IN_TREE
from eventsched.plugins.gallery.fixed_node import FixedNode, FixedNodeArgs
from eventsched.plugins.gallery.to_node_name_scoring import (
    ToNodeNameScoring,
    ToNodeNameScoringArgs,
)
from eventsched.runtime.assembly import assemble_text
from tests.builders import (
    added,
    attempted,
    defined,
    engine_of,
    engine_with,
    identity,
    make_node,
    make_pod,
    observed,
    scheduled,
)

NODES = [make_node("n1"), make_node("piworknode001"), make_node("n3")]


@pytest.mark.parametrize(
    ("name", "node", "score", "ties"), [("n3", "n3", 100, 1), ("x", "n1", 0, 3)]
)
def test_the_fixed_node_wins(name: str, node: str, score: int, ties: int) -> None:
    """If it does not exist, all score 0, and the others decide."""
    engine = engine_of(FixedNode(FixedNodeArgs(node_name=name)))
    observed(engine, *added(*NODES, make_pod()))
    definition, decided = attempted(engine)
    assert definition == defined(identity("FixedNode"))
    assert (decided.score, decided.ties) == (score, ties)
    assert ties > 1 or decided.node == node


def test_a_fixed_node_that_comes_later() -> None:
    """Is the best as soon as it is there."""
    engine = engine_of(FixedNode(FixedNodeArgs(node_name="late")))
    observed(engine, *added(*NODES, make_pod()))
    assert attempted(engine)[-1].score == 0
    observed(engine, *added(make_node("late"), make_pod("p2")))
    assert attempted(engine)[-1].node == "late"


@pytest.mark.parametrize(
    ("args", "normalization", "parameters", "best", "next_best"),
    [
        ({}, Normalization.DEFAULT, (80,), 100, 25),
        ({"normalization": "default"}, Normalization.DEFAULT, (80,), 100, 25),
        ({"normalization": "minmax"}, Normalization.MIN_MAX, (20, 80), 100, 0),
        ({"node_name": "x"}, Normalization.DEFAULT, (20,), 100, 100),
        ({"node_name": "x", "normalization": "minmax"}, Normalization.MIN_MAX, (20, 20), 0, 0),
    ],
)
def test_eighty_and_twenty_are_scaled(
    args: Any, normalization: Normalization, parameters: Any, best: int, next_best: int
) -> None:
    """The whole decision."""
    engine = engine_of(ToNodeNameScoring(ToNodeNameScoringArgs(**args)))
    observed(engine, *added(*NODES[:2], make_pod()))
    column = ScoreColumn(
        plugin="tonodename-scoring-plugin", weight=1, normalization=normalization,
        parameters=parameters,
    )  # fmt: skip
    definition, decided = attempted(engine)
    assert definition == defined(column)
    assert (decided.score, decided.runner_up_score) == (best, next_best)
    if "node_name" not in args:
        assert decided == scheduled(
            node="piworknode001", row=1, score=100, feasible=2, evaluated=2, runner_up="n1",
            runner_up_score=next_best, scores=[column],
        )  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "args", "normalization"),
    [
        ((), {}, Normalization.MIN_MAX),
        ((), {"normalization": "default"}, Normalization.DEFAULT),
        (CURRENT, {}, Normalization.DEFAULT),
    ],
)
def test_a_log_of_0_1_has_the_scale_of_its_time(
    flags: Any, args: Any, normalization: Normalization
) -> None:
    """If its configuration names none; what it names holds in any case."""
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        "- plugins: {score: {enabled: [{name: tonodename-scoring-plugin}]}}\n"
        f"  pluginConfig: [{{name: tonodename-scoring-plugin, args: {json.dumps(args)}}}]\n"
    )
    made = assemble_text(text, [], "test", IN_TREE, flags)
    [profile] = made.profiles.values()
    assert profile.plugin("tonodename-scoring-plugin").normalization is normalization


def test_ten_replicas_all_land_on_the_named_node() -> None:
    """Among the default plugins, with weight enough to outdo them."""
    engine = engine_with(ToNodeNameScoring(), weights={"tonodename-scoring-plugin": 100})
    replicas = [make_pod(f"web-{number}", cpu=100, memory=0) for number in range(10)]
    observed(engine, *added(*NODES, *replicas))
    nodes = set()
    while records := attempted(engine):
        nodes.add(records[-1].node)
    assert nodes == {"piworknode001"}
