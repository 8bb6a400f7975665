"""A score out of range costs its node, with the reason, and never the attempt."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Outcome, PodDecided, VerdictDefined
from eventsched.domain.records.verdicts import Code, Normalization, Verdict
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import ClusterEvent, signed_by_spec
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed

BAD = "node-1"
NODES = ("node-0", BAD, "node-2")
STARTED = records.StreamStarted(format=1, engine="t", seed="s", flags=CURRENT)


def column(wild: int, usual: int = 7) -> Callable[..., Any]:
    """A score method: ``wild`` for one node, the usual one for all others."""

    def score(self: Any, cycle: Any, pod: Pod, nodes: Any) -> Any:
        names = [node.name if node else "" for node in nodes.nodes]
        return np.array([wild if name == BAD else usual for name in names], dtype=np.int64)

    return score


def plugin(**methods: Any) -> Any:
    return type("Wild", (), {"name": "Wild", **methods})()


def of_kind(normalization: Normalization, wild: int) -> Any:
    return plugin(score=column(wild), normalization=normalization)


def by_node(self: Any, pod: Pod, node: Node) -> int:
    return 2**70 if node.name == BAD else 7


def out_of_range_at_last(self: Any, cycle: Any, pod: Pod, scores: Any) -> Any:
    return np.where(scores == 1, 101, 50)


PLUGINS = {
    "above 100": lambda: plugin(score=column(101)),
    "below 0": lambda: plugin(score=column(-1)),
    "signed": lambda: plugin(score=column(2**62), sign=staticmethod(signed_by_spec)),
    "one node at a time": lambda: plugin(score_node=by_node),
    "negative by default": lambda: of_kind(Normalization.DEFAULT, -5),
    "negative, reversed": lambda: of_kind(Normalization.REVERSED, -(2**63)),
    "beyond a float's integers": lambda: of_kind(Normalization.MIN_MAX, 2**53 + 1),
    "ratio": lambda: of_kind(Normalization.RATIO, -(2**62)),
    "spread": lambda: of_kind(Normalization.SPREAD, -2),
    "after its own normalisation": lambda: plugin(
        score=column(1), normalize_score=out_of_range_at_last
    ),
    "before its own normalisation": lambda: plugin(
        score=column(2**60), normalize_score=out_of_range_at_last
    ),
}


def started(*plugins: Any) -> Engine:
    engine = engine_of(*plugins)
    observed(engine, STARTED, *added(*(make_node(name) for name in NODES)))
    return engine


@pytest.mark.parametrize("kind", PLUGINS)
def test_the_node_is_refused_and_the_pod_goes_elsewhere(kind: str) -> None:
    engine = started(NodeResourcesFit(), PLUGINS[kind]())
    observed(engine, *added(*(make_pod(f"p{number}") for number in range(4))))

    for _ in range(4):
        made = attempted(engine)
        decided = next(each for each in made if isinstance(each, PodDecided))
        assert decided.outcome is Outcome.SCHEDULED
        assert decided.node != BAD
        assert decided.feasible == 2
        number = engine.state.verdict_numbers[refusal("Wild")]
        assert decided.counts == ((number, 1),)


def refusal(name: str) -> Verdict:
    reason = f"node(s) got a score out of range from {name}"
    return Verdict(plugin=name, code=Code.UNRESOLVABLE, reasons=(reason,))


def test_a_pod_without_any_node_says_why_and_waits() -> None:
    engine = engine_of(plugin(score=column(101), wakes_on=(ClusterEvent.NODE_ADD,)))
    observed(engine, STARTED, *added(make_node(BAD), make_pod()))

    defined, decided, queued = attempted(engine)

    assert isinstance(defined, VerdictDefined)
    assert decided.outcome is Outcome.UNSCHEDULABLE
    reason = "node(s) got a score out of range from Wild"
    assert decided.message == f"0/1 nodes are available: 1 {reason}."
    assert queued.rejectors == ("Wild",)
    observed(engine, *added(make_node("node-2")), at=queued.until)
    assert attempted(engine)[-1].node == "node-2"


def test_a_filter_counts_before_a_score_and_the_first_score_before_the_second() -> None:
    other = type("Other", (), {"name": "Other", "score": column(-1)})()
    full = make_node("full", cpu=1)
    engine = engine_of(NodeResourcesFit(), plugin(score=column(101)), other)
    observed(engine, STARTED, *added(make_node(BAD), full, make_node("good")))

    judged = engine.judge(make_pod())

    words = {verdict.plugin: number for verdict, number in judged.refusals}
    assert words == {"NodeResourcesFit": 1, "Wild": 1}


@pytest.mark.parametrize("flags", [(), tuple(set(CURRENT) - {Behaviour.SPARES_OTHER_NODES})])
def test_in_a_stream_of_before_the_attempt_fails_as_it_did(flags: tuple[int, ...]) -> None:
    engine = engine_of(plugin(score=column(101)))
    opening = records.StreamStarted(format=1, engine="0.1.0", seed="s", flags=flags)
    observed(engine, opening, *added(make_node("node-0"), make_node(BAD), make_pod()))

    decided, _ = attempted(engine)

    assert decided.outcome is Outcome.ERROR
    assert decided.message == (
        "plugin Wild failed in score: returned a value outside [0, 100]: 7 to 101"
    )


def test_the_largest_node_that_there_is_can_be_placed_beside() -> None:
    """No node stops the scheduling of pods elsewhere, whatever it says that it has."""
    engine = engine_of(NodeResourcesFit())
    huge = make_node("huge", cpu=2**63 - 1, memory=2**63 - 1)
    wrapped = make_node("wrapped", cpu=-1000, memory=2**62)
    observed(engine, STARTED, *added(huge, wrapped, make_node("ordinary"), make_pod()))

    assert attempted(engine)[-1].outcome is Outcome.SCHEDULED
