"""Node selectors over columns: the semantics of label expressions, and which of them are malformed.

Held against the rules in naive.py for each node alone; that a term with one malformed expression
matches nothing is upstream's LazyErrorNodeSelector.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, NodeSelectorTerm, Requirement
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.scheduling.rules.selection import SelectorError, check, matches, matches_any

from . import naive, strategies
from .strategies import deterministic

label_sets = st.lists(strategies.labels, min_size=1, max_size=6)


def nodes_of(labels: list[dict[str, str]]) -> tuple[list[Node], NodeView]:
    state = SchedulerState()
    nodes = [Node(name=f"n{index}", labels=each) for index, each in enumerate(labels)]
    for node in nodes:
        state.apply(records.NodeAdded(node=node), 0)
    return nodes, NodeView(state.nodes)


@deterministic(300)
@given(label_sets, strategies.any_terms)
def test_a_term_matches_what_its_expressions_say(
    labels: list[dict[str, str]], term: NodeSelectorTerm
) -> None:
    nodes, view = nodes_of(labels)
    expected = [naive.term_holds(term, node) for node in nodes]
    try:
        found = matches(view, term).tolist()
    except SelectorError:
        found = [False] * len(nodes)
        with pytest.raises(SelectorError):
            check(term)
    assert found == expected


@deterministic(150)
@given(label_sets, st.lists(strategies.any_terms, max_size=3).map(tuple))
def test_terms_are_alternatives(
    labels: list[dict[str, str]], terms: tuple[NodeSelectorTerm, ...]
) -> None:
    nodes, view = nodes_of(labels)
    expected = [any(naive.term_holds(term, node) for term in terms) for node in nodes]
    assert matches_any(view, terms).tolist() == expected


@pytest.mark.parametrize(("operator", "values", "holds"), [
    ("In", ("a", "b"), ["a"]),
    ("NotIn", ("a", "b"), ["7", "007", "x", "", None]),
    ("Exists", (), ["a", "7", "007", "x", ""]),
    ("DoesNotExist", (), [None]),
    ("Gt", ("6",), ["7", "007"]),
    ("Gt", ("7",), []),
    ("Lt", ("8",), ["7", "007"]),
    ("Lt", ("7",), []),
])  # fmt: skip
def test_each_operator(operator: str, values: tuple[str, ...], holds: list[Any]) -> None:
    values_of = ["a", "7", "007", "x", "", None]
    _, view = nodes_of([{} if value is None else {"key": value} for value in values_of])
    term = NodeSelectorTerm(expressions=(Requirement(key="key", operator=operator, values=values),))
    found = [v for v, hit in zip(values_of, matches(view, term).tolist(), strict=True) if hit]
    assert found == holds
