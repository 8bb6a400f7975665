"""Conditions for --fail-if, and changes of nodes: their meaning, and errors that show the place."""

import pytest

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Taint
from eventsched.runtime.queries.what_if.conditions import Measured, PodFilter, parse_condition
from eventsched.runtime.queries.what_if.node_changes import NodeChanges, parse_changes
from eventsched.testing import make_node

VALUES = {"moved": 3.0, "pending": 0.0, "preempted": 2.0, "waited": 45.0, "empty": 1.0}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("moved() > 2", True), ("moved() > 3", False), ("moved()>=3", True), ("moved() < 4", True),
        ("moved() <= 2", False), ("moved() = 3", True), ("moved() == 4", False),
        ("moved() != 3", False), ("waited(p99) > 30s", True), ("waited(p99) > 1m", False),
        ("waited(mean) < 0.5h", True), ("empty() < 2", True),
        ("pending() > 0 or moved() > 0", True), ("pending() > 0 and moved() > 0", False),
        ("pending() > 0 and moved() > 9 or preempted(priority>=1000) > 0", True),
    ],
)  # fmt: skip
def test_conditions(text: str, *, holds: bool) -> None:
    condition = parse_condition(text)
    assert condition.text == text
    assert condition.holds(lambda measured: VALUES[measured.name]) is holds


def test_filters() -> None:
    condition = parse_condition("waited(p99.9, priority>=1000, namespace!=team/a) > 0")
    [[comparison]] = condition.ways
    assert comparison.measured == Measured(
        "waited",
        "p99.9",
        (PodFilter("priority", ">=", "1000"), PodFilter("namespace", "!=", "team/a")),
    )
    assert comparison.measured.selects("team/b", 1000)
    assert not comparison.measured.selects("team/a", 1000)
    assert not comparison.measured.selects("team/b", 999)


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("", "expected one of moved, pending, preempted, waited, empty, and it ends here", 1),
        ("moves() > 0", "there is no moves, only moved, pending, preempted, waited, empty", 1),
        ("moved > 0", "expected (, not '>'", 7),
        ("moved( > 0", "expected priority or namespace, not '>'", 8),
        ("moved() > ", "expected a number, and it ends here", 11),
        ("moved() > x", "expected a number, not 'x'", 11),
        ("moved() 0", "expected a comparison such as >, not '0'", 9),
        ("moved() > 0 moved()", "expected and, or, or the end, not 'moved'", 13),
        ("moved() > 5 %", "this is not part of a condition", 13),
        ("waited() > 0", "expected p50, p99, mean or max, not ')'", 8),
        ("waited(p) > 0", "expected p50, p99, mean or max", 8),
        ("waited(p99 priority>0) > 0", "expected , or ), not 'priority'", 12),
        ("empty(priority>0) > 0", "expected ), not 'priority'", 7),
        ("moved(age>0) > 0", "expected priority or namespace", 7),
        ("moved(namespace>a) > 0", "a namespace is compared by = or !=", 16),
        ("moved(priority>1.5) > 0", "a priority is a whole number", 16),
        ("moved() > 3d", "this is not part of a condition", 11),
    ],
)
def test_a_condition_that_does_not_parse_points_at_the_place(
    text: str, problem: str, column: int
) -> None:
    with pytest.raises(InputError) as raised:
        parse_condition(text)
    first, shown, caret = str(raised.value).split("\n")
    assert first.startswith(f"--fail-if: column {column}: {problem}; write one such as moved() > 0")
    assert (shown, caret) == (text, " " * (column - 1) + "^")


def test_node_changes() -> None:
    changes = parse_changes(["+20xn1|-n2", "+n3"])
    assert changes == NodeChanges(((20, "n1"), (1, "n3")), frozenset({"n2"}))
    assert changes.names == {"n1", "n2", "n3"}
    taints = (Taint(key="node.kubernetes.io/not-ready"), Taint(key="team", value="a"))
    known = {
        "n1": make_node("n1", labels={"kubernetes.io/hostname": "n1", "zone": "a"}, taints=taints),
        "n2": make_node("n2"), "n3": make_node("n3", annotations={"of": "n3"}),
    }  # fmt: skip
    nodes = changes.new_nodes(known)
    assert [node.name for node in nodes[::19]] == ["n1-more-0", "n1-more-19"]
    assert nodes[1].labels == {"kubernetes.io/hostname": "n1-more-1", "zone": "a"}
    assert nodes[1].taints == taints[1:]
    assert (nodes[20].name, nodes[20].annotations) == ("n3-more-0", {})


def test_nodes_that_a_file_describes() -> None:
    """Numbers go on for nodes of one name, wherever they come from."""
    large = make_node("n1", cpu=64_000)
    changes = parse_changes(["+1xlarge.yaml|+2xn1|+1x./large"], lambda path: large)
    assert changes.names == {"n1"}
    nodes = changes.new_nodes({"n1": make_node("n1", cpu=1000)})
    assert [(node.name, node.allocatable["cpu"]) for node in nodes] == [
        ("n1-more-0", 64_000), ("n1-more-1", 1000), ("n1-more-2", 1000), ("n1-more-3", 64_000),
    ]  # fmt: skip
    with pytest.raises(InputError, match="names a file, and only the command reads files"):
        parse_changes(["+1xlarge.yaml"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("20xn1", "'20xn1' does not say which nodes"),
        ("+", "'+' does not say which nodes"),
        ("-", "'-' does not say which nodes"),
        ("+1xn1|", "'' does not say which nodes"),
        ("+0xn1", "'+0xn1' is not a number of nodes from 1 to 100000"),
        ("+100001xn1", "'+100001xn1' is not a number of nodes from 1 to 100000"),
        ("+60000xn1|+60000xn2", "adds more than 100000 nodes"),
    ],
)
def test_node_changes_with_nonsense(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=r"^--nodes: ") as raised:
        parse_changes([text])
    assert raised.value.problem == problem


def test_a_measure_reads_as_it_is_written() -> None:
    text = "waited(p99, namespace!=a, priority>=10) > 1h or waited(p50) > 0 and empty() = 1 "
    measured = parse_condition(f"{text} or waited(p50) > 2").measured
    assert [each.text for each in measured] == [
        "waited(p99, namespace!=a, priority>=10)", "waited(p50)", "empty()",
    ]  # fmt: skip
