"""Which pods wait since they arrived: known from the state, against the rows of their moves."""

from collections.abc import Iterator

import pytest

from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams, opened_streams
from tests.databases import Server
from tests.postgres.histories import ODD, TIGHT, odd_and_tight


@pytest.fixture(scope="module")
def streams(one_server: Server) -> Iterator[DatabaseStreams]:
    with one_server.fresh(odd_and_tight) as url, opened_streams(url, None) as opened:
        yield opened


def said(past: PastPods) -> int:
    """How many of the pods are said to wait; -1 if that is not known."""
    waits = past.waits(past.rows)
    if waits is None:
        return -1
    past.add_waits(past.rows)
    assert waits == [row["waiting_since"] is not None for row in past.rows]
    waiting = [row for row, is_waiting in zip(past.rows, waits, strict=True) if is_waiting]
    by_wait = sorted(waiting, key=lambda row: (row["waiting_since"], row.seq))
    assert by_wait == sorted(waiting, key=lambda row: row.seq)
    return len(waiting)


@pytest.mark.parametrize(("name", "most"), [(TIGHT, 20), (ODD, 1)])
def test_what_is_said_is_so_at_every_position(
    streams: DatabaseStreams, name: str, most: int
) -> None:
    stream = streams.open(name)
    found = [
        said(FoldedStates().past(stream, str(position)))
        for position in range(0, stream.log.head.next + 1, 3)
    ]
    assert max(found) >= most
    assert min(found) == -1  # within the step of an arrival, if nowhere else
