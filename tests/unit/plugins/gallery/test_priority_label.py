"""PriorityLabel, or Priority: nodes need a label, and the largest number in it wins."""

import pytest

from eventsched.domain import records
from eventsched.domain.objects import Node
from eventsched.domain.records.verdicts import Normalization, ScoreColumn
from eventsched.plugins.gallery import priority_label
from eventsched.plugins.gallery.priority_label import (
    MAX_PRIORITY,
    Priority,
    PriorityLabel,
    PriorityLabelArgs,
)
from eventsched.scheduling.engine import Engine
from tests.builders import (
    SECOND,
    active,
    added,
    attempted,
    defined,
    engine_of,
    engine_with,
    make_node,
    make_pod,
    observed,
    scheduled,
    woken,
)

KEY = "priority.lixueduan.com"


def node(name: str, priority: str | None = None) -> Node:
    """One with the label, if it has a value."""
    return make_node(name, labels={} if priority is None else {KEY: priority})


def labelled(engine: Engine, name: str, priority: str, at: int = 0) -> list[records.Record]:
    """Sets a node's label."""
    return observed(engine, records.NodeUpdated(node=node(name, priority)), at=at)


def column(plugin: str, largest: int) -> ScoreColumn:
    """Its scores, as fractions of the largest."""
    return ScoreColumn(
        plugin=plugin, weight=1, normalization=Normalization.DEFAULT, parameters=(largest,)
    )


def test_the_story_of_the_label() -> None:
    """Two nodes without it; one with 10; the other with 20; the first with 30. Under the name
    Priority and with the default plugins, the words are the original's; except for the part about
    claims, which DynamicResources says since v1.34."""
    engine = engine_with(Priority())
    observed(engine, *added(node("scheduler-1"), node("scheduler-2"), make_pod()))
    *_, decided, _ = attempted(engine)
    assert decided.message == (
        "0/2 nodes are available: 1 Node:Node: scheduler-1 does not have label "
        "priority.lixueduan.com, 1 Node:Node: scheduler-2 does not have label "
        "priority.lixueduan.com. no new claims to deallocate, preemption: 0/2 nodes are available: "
        "2 No preemption victims found for incoming pod."
    )
    assert labelled(engine, "scheduler-1", "10", at=SECOND)[1:] == [
        woken("NodeUpdateLabel", "Priority")
    ]
    assert attempted(engine)[-1].node == "scheduler-1"
    labelled(engine, "scheduler-2", "20", at=SECOND)
    observed(engine, *added(make_pod("p2")), at=SECOND)
    assert attempted(engine)[-1].node == "scheduler-2"
    labelled(engine, "scheduler-1", "30", at=SECOND)
    observed(engine, *added(make_pod("p3")), at=SECOND)
    assert attempted(engine)[-1].node == "scheduler-1"


def test_scores_are_fractions_of_the_largest() -> None:
    """The whole decision."""
    engine = engine_of(PriorityLabel())
    observed(engine, *added(node("a", "10"), node("b", "40"), node("c"), make_pod()))
    verdict, definition, decided = attempted(engine)
    assert verdict.verdict.reasons == (f"node(s) did not have label {KEY}",)
    scores = [column("PriorityLabel", 40)]
    assert definition == defined(*scores)
    assert decided == scheduled(
        node="b", row=1, score=100, runner_up="a", runner_up_score=25, feasible=2, evaluated=3,
        counts=((1, 1),), scores=scores,
    )  # fmt: skip


ODD = ["abc", "1e9", "", "-1", "1.5", str(MAX_PRIORITY + 1), "9" * 30]


def test_labels_that_are_no_numbers_keep_their_nodes_out() -> None:
    """Nothing else is harmed: nodes are counted by what is wrong."""
    nodes = [node(f"n{number}", text) for number, text in enumerate(ODD)]
    engine = engine_of(PriorityLabel())
    observed(engine, *added(*nodes, node("without"), make_pod()))
    *_, decided, _ = attempted(engine)
    assert decided.message == (
        f"0/8 nodes are available: 1 node(s) did not have label {KEY}, "
        f"7 node(s) had no integer from 0 to 9007199254740992 in label {KEY}."
    )
    assert labelled(engine, "n0", "still none", at=SECOND)[1:] == []
    assert labelled(engine, "n0", "0", at=SECOND)[1:] == [
        active(cause="NodeUpdateLabel", plugin="PriorityLabel", rejectors=("PriorityLabel",),
               until=SECOND, failures=1)
    ]  # fmt: skip
    assert attempted(engine)[-1].node == "n0"


@pytest.mark.parametrize("text", ODD)
def test_named_nodes_say_what_their_label_holds(text: str) -> None:
    """In full."""
    engine = engine_of(PriorityLabel(PriorityLabelArgs(name_nodes=True)))
    observed(engine, *added(node("n1", text), make_pod()))
    *_, decided, _ = attempted(engine)
    assert decided.message == (
        f"0/1 nodes are available: 1 node n1 has priority {text!r}, "
        "no integer from 0 to 9007199254740992."
    )


def test_more_nodes_than_there_are_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals without a code of their own are counted."""
    monkeypatch.setattr(priority_label, "_MAX_NAMED", 1)
    engine = engine_of(Priority())
    observed(engine, *added(node("n1"), node("n2"), node("n3"), node("n4", "x"), make_pod()))
    *_, decided, _ = attempted(engine)
    assert "1 Node:Node: n1 does not have label priority.lixueduan.com" in decided.message
    assert "2 node(s) did not have label priority.lixueduan.com" in decided.message
    assert "1 node(s) had no integer from 0 to " in decided.message


def test_another_label() -> None:
    """As the arguments say."""
    engine = engine_of(PriorityLabel(PriorityLabelArgs(label="example.com/rank")))
    observed(engine, *added(node("a", "9"), make_node("b", labels={"example.com/rank": "1"})))
    observed(engine, *added(make_pod()))
    assert attempted(engine)[-1].node == "b"


def test_score_without_filter_takes_a_missing_label_for_0() -> None:
    """Where only Score is enabled."""
    engine = engine_with(points={"score": [PriorityLabel()]})
    observed(engine, *added(node("a"), node("b", "abc"), node("c", "1"), make_pod()))
    decided = attempted(engine)[-1]
    assert (decided.node, decided.feasible, decided.score) == ("c", 3, 100)
