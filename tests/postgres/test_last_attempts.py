"""The last attempts of pods: sought by their number among the decisions before a position first."""

from collections.abc import Iterator

import pytest

from eventsched.questions.past import last_attempts as module
from eventsched.questions.past.last_attempts import arrivals, attempts_of, last_attempts
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams, opened_streams
from tests.databases import Server
from tests.postgres.histories import ODD, TIGHT, odd_and_tight


@pytest.fixture(scope="module")
def streams(one_server: Server) -> Iterator[DatabaseStreams]:
    with one_server.fresh(odd_and_tight) as url, opened_streams(url, None) as opened:
        yield opened


@pytest.mark.parametrize("name", [TIGHT, ODD])
@pytest.mark.parametrize(("few", "near"), [(0, (20, 60)), (3, (10, 40)), (64, (60_000,))])
def test_they_are_those_of_all_attempts(
    streams: DatabaseStreams, name: str, few: int, near: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """At many positions, however far back is looked first."""
    monkeypatch.setattr(module, "_FEW", few)
    monkeypatch.setattr(module, "_NEAR", near)
    stream, again = streams.open(name), 0
    for position in range(5, stream.log.head.next + 1, 11):
        rows = FoldedStates().past(stream, str(position)).rows
        found = last_attempts(stream, rows, position)
        assert found == attempts_of(stream, arrivals(rows), position)
        again += sum(row.attempts > 1 for row in rows)
    assert again
