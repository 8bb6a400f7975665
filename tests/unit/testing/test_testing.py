"""eventsched.testing: what a plugin's own tests are written with."""

from typing import Any

import msgspec
import pytest

from eventsched.domain.errors import InputError
from eventsched.scheduling.framework import PluginError, PreFilterResult, Status
from eventsched.testing import (
    Answered,
    make_node,
    make_pod,
    scheduled_to,
    scores,
    typed,
    verdicts,
)

A, B = make_node("a", labels={"kind": "x"}), make_node("b")


class PickyArgs(msgspec.Struct):
    label: str = "kind"


class Picky:
    """Refuses nodes without a label; scores by the pods on a node."""

    name = "Picky"
    Args = PickyArgs

    def __init__(self, args: PickyArgs) -> None:
        self._label = args.label

    def filter_node(self, pod: Any, node: Any) -> str | None:
        return None if self._label in node.labels else f"node(s) had no {self._label}"

    def score(self, cycle: Any, pod: Any, nodes: Any) -> Any:
        return nodes.pods * 10


class Narrow:
    name = "Narrow"

    def pre_filter(self, cycle: Any, pod: Any, nodes: Any) -> PreFilterResult:
        return PreFilterResult(frozenset({"b"}))


class Closed:
    name = "Closed"

    def pre_filter(self, cycle: Any, pod: Any, nodes: Any) -> Status:
        return Status.unschedulable("closed today")


class Gate:
    name = "Gate"

    def pre_enqueue(self, pod: Any) -> Status:
        return Status.unresolvable("not yet")


class Broken:
    name = "Broken"

    def filter_node(self, pod: Any, node: Any) -> Any:
        raise KeyError("why")

    def score_node(self, pod: Any, node: Any) -> Any:
        return "much"


def test_verdicts_are_reasons_by_node() -> None:
    assert verdicts(typed(Picky), make_pod(), [A, B]) == {"a": "", "b": "node(s) had no kind"}
    assert verdicts(Narrow(), make_pod(), [A, B]) == {
        "a": "node(s) didn't satisfy plugin(s) [Narrow]",
        "b": "",
    }
    assert verdicts(Closed(), make_pod(), [A, B]) == {"a": "closed today", "b": "closed today"}


def test_scores_are_of_the_nodes_that_pass() -> None:
    there = [make_pod("there", node_name="a"), make_pod("too", node_name="a")]
    assert scores(typed(Picky), make_pod(), [A, B], there) == {"a": 20}


def test_where_a_pod_goes_among_all_plugins() -> None:
    assert scheduled_to(make_pod(), [A, B], typed(Picky)) == Answered("a")
    assert scheduled_to(make_pod(cpu=9000), [A], typed(Picky)) == Answered(
        "",
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "
        "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    )
    assert scheduled_to(make_pod(), [A], Gate()) == Answered("", "not yet")


def test_a_plugin_that_breaks_is_named() -> None:
    for ask in (verdicts, scores):
        with pytest.raises(PluginError, match="plugin Broken failed in filter: raised KeyError"):
            ask(Broken(), make_pod(), [A])
    with pytest.raises(PluginError, match="plugin Broken failed in filter: raised KeyError"):
        scheduled_to(make_pod(), [A], Broken())


def test_arguments_are_checked_as_in_a_configuration() -> None:
    assert verdicts(typed(Picky, label="other"), make_pod(), [A]) == {"a": "node(s) had no other"}
    with pytest.raises(InputError, match="did you mean label"):
        typed(Picky, lable="x")
    with pytest.raises(InputError, match="takes no arguments"):
        typed(Gate, label="x")
