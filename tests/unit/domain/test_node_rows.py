"""A new node gets the row of a deleted one, and nothing of the deleted node is left in it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.nodes.dictionary_column import DictionaryColumn
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.scheduling.seen_stimuli import ROW_REST, as_seen
from tests.builders import make_node, make_pod
from tests.properties.strategies import deterministic

BEFORE = tuple(flag for flag in CURRENT if flag != Behaviour.REUSES_ROWS)


def state_with(*nodes: Node, flags: tuple[int, ...] = CURRENT) -> SchedulerState:
    state = SchedulerState()
    state.flags = flags
    for node in nodes:
        state.apply(records.NodeAdded(node=node), 0)
    return state


def observe(state: SchedulerState, stimulus: records.Stimulus, at: int) -> records.Stimulus:
    """Applies what the engine would record. ``TimePassed`` moves the state's time first."""
    state.apply(records.TimePassed(), at)
    seen = as_seen(state, stimulus)
    assert seen is not None
    state.apply(seen, at)
    return seen


def test_a_row_is_given_away_after_its_rest() -> None:
    state = state_with(make_node("a"), make_node("b"))
    observe(state, records.NodeDeleted(name="a"), 1)

    early = observe(state, records.NodeAdded(node=make_node("c")), ROW_REST)
    late = observe(state, records.NodeAdded(node=make_node("d")), ROW_REST + 1)

    assert early == records.NodeAdded(node=make_node("c"))
    assert late == records.NodeAdded(node=make_node("d"), row=0)
    assert state.nodes.rows == {"b": 1, "c": 2, "d": 0}
    assert state.nodes.names == ["d", "b", "c"]
    assert not state.nodes.free_rows


def test_the_row_that_is_free_for_the_longest_time_goes_first() -> None:
    state = state_with(*(make_node(name) for name in "abc"))
    for at, name in enumerate("bca"):
        observe(state, records.NodeDeleted(name=name), at)

    rows = [
        observe(state, records.NodeAdded(node=make_node(name)), 2 * ROW_REST).row  # type: ignore[attr-defined]
        for name in "defg"
    ]

    assert rows == [1, 2, 0, -1]


def test_a_stream_without_the_behaviour_gives_every_node_a_new_row() -> None:
    state = state_with(make_node("a"), flags=BEFORE)
    observe(state, records.NodeDeleted(name="a"), 0)

    again = observe(state, records.NodeAdded(node=make_node("a")), 2 * ROW_REST)

    assert again == records.NodeAdded(node=make_node("a"))
    assert state.nodes.rows == {"a": 1}


def test_the_digest_has_the_free_rows_only_with_the_behaviour() -> None:
    def digests(flags: tuple[int, ...]) -> set[str]:
        found = set()
        for at in (1, 2):
            state = state_with(make_node("a"), flags=flags)
            observe(state, records.NodeDeleted(name="a"), at)
            found.add(state.digest())
        return found

    assert len(digests(CURRENT)) == 2
    assert len(digests(BEFORE)) == 1


def test_a_snapshot_has_the_free_rows() -> None:
    state = state_with(*(make_node(name) for name in "abc"))
    for name in "ba":
        observe(state, records.NodeDeleted(name=name), 5)
    restored = SchedulerState()

    snapshot.restore(restored, snapshot.encode(state))

    assert list(restored.nodes.free_rows.items()) == [(1, 5), (0, 5)]
    assert restored.digest() == state.digest()
    assert restored.nodes.rows == {"c": 2}
    # The row of a deleted node may be behind one that has the same name now.
    observe(state, records.NodeAdded(node=make_node("a")), 2 * ROW_REST)
    observe(state, records.NodeDeleted(name="c"), 2 * ROW_REST)
    snapshot.restore(SchedulerState(), snapshot.encode(state))


def test_a_snapshot_without_its_free_rows_is_refused() -> None:
    state = state_with(make_node("a"))
    observe(state, records.NodeDeleted(name="a"), 0)
    body = snapshot.encode(state).replace(b'"free_rows":[[0,0]]', b'"free_rows":null')
    assert b'"free_rows":null' in body

    with pytest.raises(ValueError, match="free rows"):
        snapshot.restore(SchedulerState(), body)


def test_columns_do_not_grow_with_the_nodes_that_were_ever_there() -> None:
    table = NodeTable()
    read: Any = lambda node: node.name  # noqa: E731
    for number in range(1000):
        labels = {"host": f"n{number}", f"once-{number}": "x"}
        table.add(make_node(f"n{number}", labels=labels), 0 if number else -1)
        assert table.dictionary("name", read).answer(np.array([0]), lambda name: name[1:]) == number
        assert table.label("host").answer(np.array([0]), lambda value: value[1:]) == number
        assert table.label(f"once-{number}").number("x") >= 0
        table.remove(f"n{number}", 0)

    assert table.size == 1
    assert len(table.dictionary("name", read).values) <= 2
    assert not table._label_names
    assert len(table._derived) == 1


@deterministic(100)
@given(st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), st.integers(0, 4))), max_size=40))
def test_a_column_answers_like_a_list(puts: list[tuple[int, int | None]]) -> None:
    column, expected = DictionaryColumn([], 6), list[int | None]()
    for wanted, value in puts:
        row = min(wanted, len(expected))
        column.put(row, value)
        expected[row : row + 1] = [value]
        ids = column.ids[: len(expected)]
        assert [column.values[number] for number in ids.tolist()] == expected
        assert column.integers[ids].tolist() == [each or 0 for each in expected]
        assert {each: column.number(each) for each in (None, 0, 1, 2, 3, 4)} == {
            each: ids.item(expected.index(each)) if each in expected else -1
            for each in (None, 0, 1, 2, 3, 4)
        }
        assert len(column.values) <= len(expected) + 1


@pytest.mark.parametrize("resources", [("cpu", "memory"), ("pods", "cpu"), ("gpu", "cpu")])
def test_books_are_what_is_asked_for_one_by_one_and_are_read_only(
    resources: tuple[str, ...],
) -> None:
    pods = [make_pod(name, node_name="b", cpu=100, memory=7) for name in "pq"]
    state = state_with(make_node("a", cpu=8), make_node("b"), make_node("c", memory=5))
    for pod in pods:
        state.apply(records.PodAdded(pod=pod), 0)
    view = NodeView(state.nodes, np.array([2, 1]))
    for _ in range(2):
        allocatable, requested, nonzero = view.books(resources)
        assert allocatable.tolist() == view.allocatable(resources).tolist()
        assert requested.tolist() == view.requested(resources).tolist()
        assert nonzero.tolist() == view.nonzero_requested(resources).tolist()
    if resources == ("cpu", "memory"):
        assert requested.tolist() == [[0, 200], [0, 14]]
        with pytest.raises(ValueError, match="read-only"):
            requested += 1
