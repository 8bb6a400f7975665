"""Reads of one question on one connection: each thread has its own, and none is kept."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Barrier

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import QueuePool

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.addresses import sqlalchemy_url
from eventsched.eventlog.postgres.reader import Reader
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import LoggedStream, opened_streams
from tests.databases import Server
from tests.postgres.histories import TIGHT, odd_and_tight

_BACKEND = "SELECT pg_backend_pid() AS pid, :s"


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    with one_server.fresh(odd_and_tight) as url:
        yield url


@pytest.fixture
def reader(address: str) -> Iterator[Reader]:
    engine = create_engine(
        sqlalchemy_url(address), poolclass=QueuePool, pool_size=2, max_overflow=0, pool_timeout=9
    )
    with closing(Reader(address, TIGHT, engine=engine)) as made:
        yield made
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    engine.dispose()


def _backend(reader: Reader) -> int:
    return int(reader.rows(_BACKEND)[0]["pid"])


def test_each_thread_has_its_own(reader: Reader) -> None:
    """Also with an iterator between the reads, and with a block within."""
    both = Barrier(2, timeout=30)

    def read() -> set[int]:
        with reader.one_connection():
            both.wait()
            found = {_backend(reader)}
            for batch in reader.batches(0, reader.head.next):
                found.add(_backend(reader))
                assert batch.count
            with reader.one_connection():
                found.add(_backend(reader))
            found.add(_backend(reader))
            both.wait()
        return found

    with ThreadPoolExecutor(2) as threads:
        first, second = [each.result() for each in [threads.submit(read) for _ in range(2)]]
    assert len(first) == len(second) == 1
    assert first != second


def test_none_is_kept_after_an_error(reader: Reader) -> None:
    """Neither one of the block, nor of a connection that the server has ended."""
    with pytest.raises(KeyError), reader.one_connection():
        raise KeyError
    assert reader._shared.connection is None
    with pytest.raises(UnavailableError), reader.one_connection():
        reader.rows("SELECT pg_terminate_backend(pg_backend_pid()), :s")
    assert reader._shared.connection is None
    assert reader.head.next


def test_a_state_of_its_own_leaves_that_of_others_as_it_was(address: str) -> None:
    """And two at once are two."""
    with opened_streams(address, None) as streams:
        stream, states = streams.open(TIGHT), FoldedStates()
        expected = _digest(FoldedStates(), stream)
        first, second = states.own(stream, "300").state, states.own(stream, "300").state
        assert first is not second
        assert first.digest() == second.digest() == expected
        first.pods.clear()
        assert second.digest() == _digest(states, stream) == expected


def _digest(states: FoldedStates, stream: LoggedStream) -> str:
    with states.at(stream, "300") as folded:
        return folded.state.digest()
