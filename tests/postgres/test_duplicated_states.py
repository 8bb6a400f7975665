"""States that are copied with their columns: equal, and independent of one another."""

from collections.abc import Iterator
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType
from typing import Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np
import pytest

from eventsched.domain.state import snapshot
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.state_document import state_document
from eventsched.questions.streams import opened_streams
from eventsched.runtime.queries.state_at import state_at
from tests.databases import Server
from tests.postgres.histories import ODD, TIGHT, odd_and_tight

_SHARED = (str, bytes, int, float, type(None), frozenset, type, Enum, FunctionType,
           BuiltinFunctionType, WeakValueDictionary)  # fmt: skip
"""What two states may have in common, with all that never changes."""


_LABELS = ("kubernetes.io/hostname", "topology.kubernetes.io/zone", "missing")


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    with one_server.fresh(odd_and_tight) as url:
        yield url


@pytest.mark.parametrize("stream", [TIGHT, ODD])
def test_it_is_equal_and_goes_on_alone(address: str, stream: str) -> None:
    with opened_streams(address, None) as streams:
        log = streams.open(stream).log
        head = log.head.next
        for place in range(1, head, head // 15):
            state = state_at(log, log, place, head).state
            _all_of(state)  # derives columns
            twin, expected = snapshot.duplicated(state), state_at(log, log, place, head).state
            assert _all_of(twin) == _all_of(state) == _all_of(expected)
            first, second = _mutable(state), _mutable(twin)
            assert [first[key] for key in first.keys() & second.keys()] == []
            until = min(head, place + 400)
            for stored in log.read(place):
                if stored.position == until:
                    break
                twin.apply(stored.record, stored.at)
            assert _all_of(twin) == _all_of(state_at(log, log, until, head).state)
            assert _all_of(state) == _all_of(expected)


def _all_of(state: SchedulerState) -> tuple[Any, ...]:
    """Everything of a state, in its order, with what is derived."""
    nodes = state.nodes
    columns = [nodes.label(name, blank=blank) for name in _LABELS for blank in (False, True)]
    columns.append(nodes.dictionary("taints", lambda node: node.taints))
    return (
        state.digest(), state_document(state, whole=True),
        [list(each) for each in nodes.residents],
        [each.title for each in state.registry.everything()],
        nodes.books[: nodes.size].tolist(), nodes.totals.tolist(), nodes.unoffered,
        nodes.resource_index, nodes.free_rows, nodes.host_ports._by_port, nodes.images._sizes,
        nodes.volumes._users, nodes.volumes._mounting, state._on_unknown_nodes,
        {term: tally.rows for term, tally in nodes.tallies._owners.items()},
        [[column.values[n] for n in column.ids[: nodes.size].tolist()] for column in columns],
    )  # fmt: skip


def _mutable(state: SchedulerState) -> dict[int, Any]:
    """All objects of a state that can change, by identity; they are kept alive with it."""
    found: dict[int, Any] = {}
    left: list[Any] = [state]
    while left:
        value = left.pop()
        is_frozen = isinstance(value, msgspec.Struct) and not isinstance(value, PodState)
        if isinstance(value, _SHARED) or is_frozen or id(value) in found:
            continue
        if not isinstance(value, tuple) and type(value) is not object:
            found[id(value)] = value
        if isinstance(value, Reservation):  # nothing changes the values of plugins
            found |= {id(each): each for each in (value.carry, value.waits)}
        elif isinstance(value, SchedulerState):
            found |= {id(each): each for each in (value.memory, *value.memory.values())}
            left += [each for name, each in vars(value).items() if name != "memory"]
        else:
            left.extend(_parts(value))
    return found


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from (*value.keys(), *value.values())
    elif isinstance(value, (list, tuple, set)):
        yield from value
    elif isinstance(value, partial):
        yield from (value.func, *value.args)
    elif isinstance(value, PodState):
        yield from msgspec.structs.astuple(value)
    elif not isinstance(value, np.ndarray):
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        yield from (getattr(value, name) for name in names if hasattr(value, name))
        yield from vars(value).values() if hasattr(value, "__dict__") else ()
