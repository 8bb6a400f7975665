"""The points of scoring: raw scores, normalizations and weights."""

from typing import Any

import msgspec
import numpy as np
import pytest

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import Normalization, ScoreColumn, normalized
from eventsched.scheduling.framework import Status
from tests.builders import (
    added,
    attempted,
    defined,
    engine_with,
    identity,
    make_node,
    make_pod,
    observed,
    scheduled,
)
from tests.unit.scheduling.scripted_plugins import Scripted, decision, everywhere, on, waiting


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("kind", "parameters", "total", "winner"),
    [
        (Normalization.IDENTITY, (), 60, "c"),
        (Normalization.DEFAULT, (60,), 100, "c"),
        (Normalization.REVERSED, (60,), 67, "a"),
        (Normalization.MIN_MAX, (20, 60), 100, "c"),
        (Normalization.RATIO, (0, 40), 100, "c"),
        (Normalization.SPREAD, (20, 60), 100, "a"),
    ],
)
def test_normalizations(
    signed: bool, kind: Normalization, parameters: tuple[int, ...], total: int, winner: str
) -> None:
    """Raw 20, 30 and 60, weight 2, whether the plugin signs its pods or not."""
    plugin = Scripted("Scores", score=on(a=20, b=30, c=60))
    plugin.normalization = kind
    if signed:
        plugin.sign = lambda pod: pod.spec.key
    engine = waiting(plugin, weights={"Scores": 2})
    decided = decision(engine)
    assert (decided.node, decided.score) == (winner, total * 2)
    assert decided.parameters == (parameters,)
    column = ScoreColumn(plugin="Scores", weight=2, normalization=kind)
    assert engine.state.scorings[decided.scoring] == (column,)


@pytest.mark.parametrize(
    ("raw", "parameters", "score", "node"),
    [
        ({"a": -1, "b": 30, "c": 60}, (30, 60), 100, "b"),
        ({"a": 0, "b": -1, "c": -1}, (0, 0), 100, "a"),
        ({"a": 7, "b": 7, "c": 7}, (7, 7), 100, "a"),
        ({"a": -1, "b": -1, "c": -1}, (0, 0), 0, "a"),
    ],
)
def test_spread_leaves_out_ignored_nodes(
    raw: dict[str, int], parameters: tuple[int, ...], score: int, node: str
) -> None:
    """They get 0 and do not count for the smallest and largest raw score."""
    plugin = Scripted("Scores", score=on(**raw))
    plugin.normalization = Normalization.SPREAD
    decided = decision(waiting(plugin))
    assert (decided.score, decided.parameters) == (score, (parameters,))
    assert decided.node == node


def test_ratios_are_of_distances() -> None:
    """What all feasible nodes have alike is not recorded."""
    plugin = Scripted("Scores", filter=on(a=0, b=0, c=1), score=on(a=-30, b=-1))
    plugin.normalization = Normalization.RATIO
    logged = waiting(plugin).schedule_next()[-1]
    decided: Any = logged.record
    assert logged.detail is not None
    assert logged.detail.scores[0].tolist() == [0, 29, 0]
    assert (decided.node, decided.parameters) == ("b", ((0, 29),))


def test_ratios_are_cut_off_in_floating_point() -> None:
    """100 * (29 / 100) is a little less than 29."""
    column = ScoreColumn(
        plugin="p", weight=1, normalization=Normalization.RATIO, parameters=(0, 100)
    )
    assert normalized(column, np.array([0, 29, 57, 58, 100])).tolist() == [0, 28, 56, 57, 100]
    equal = msgspec.structs.replace(column, parameters=(7, 7))
    assert normalized(equal, np.array([7, 7])).tolist() == [0, 0]


def test_own_normalization_is_kept_beside_the_raw_scores() -> None:
    """normalize_score sees the feasible nodes' scores only."""
    plugin = Scripted(
        "Own", filter=on(a=0, b=1, c=0), score=on(a=-5, c=5),
        normalize_score=lambda cycle, pod, scores: np.where(scores > 0, 0, 100),
    )  # fmt: skip
    engine = waiting(plugin)
    logged = engine.schedule_next()[-1]
    decided, detail = logged.record, logged.detail
    assert isinstance(decided, PodDecided)
    assert detail is not None
    assert (decided.node, decided.score, decided.runner_up) == ("a", 100, "c")
    own = ScoreColumn(plugin="Own", weight=1, normalization=Normalization.OWN)
    assert (engine.state.scorings[decided.scoring], decided.parameters) == ((own,), ((),))
    assert detail.scores[0].tolist() == [-5, 0, 5]
    assert [None if n is None else n.tolist() for n in detail.normalized] == [[100, 0, 0]]


def test_pre_score_skip_leaves_out_the_score_of_that_plugin_only() -> None:
    """Skip."""
    skips = Scripted("Skips", pre_score=Status.skip(), score=everywhere(50))
    other = Scripted("Other", score=on(a=1, b=2, c=3))
    engine = waiting(skips, other)
    decided = decision(engine)
    assert (decided.node, decided.score) == ("c", 3)
    assert engine.state.scorings[decided.scoring] == (identity("Other"),)


def test_weights_come_from_the_configuration() -> None:
    """plugins.score.enabled[].weight."""
    engine = engine_with(
        config="apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins:\n    score:\n      disabled: [{name: '*'}]\n"
        "      enabled: [{name: NodeResourcesFit, weight: 7}]\n"
    )
    observed(engine, *added(make_node(), make_pod()))
    column = identity("NodeResourcesFit", 7)
    assert attempted(engine) == [defined(column), scheduled(score=7 * 75, scores=[column])]
