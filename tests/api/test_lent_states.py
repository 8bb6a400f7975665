"""States that are lent for a long search, and the connection that the reads of a question share."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.runtime.queries.state_at import LentState
from tests.postgres.histories import TIGHT

AT = "700"


def test_a_search_that_fails_uses_no_state_up(logs: str) -> None:
    """What it did to the state is not known, so the next question gets one from the copy."""
    states = FoldedStates()
    with opened_streams(logs, None) as streams:
        stream = streams.open(TIGHT)
        with states.at(stream, AT) as found:
            first, digest, pods = found.state, found.state.digest(), list(found.state.pods)

        def fail() -> None:
            with states.lent(stream, AT) as lent:
                assert lent.folded.state is first
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with states.at(stream, AT) as found:
            assert found.state is not first
            assert (found.state.digest(), list(found.state.pods)) == (digest, pods)


def test_two_searches_at_once_have_states_of_their_own(logs: str) -> None:
    states = FoldedStates()
    with opened_streams(logs, None) as streams, ThreadPoolExecutor(1) as other:
        stream = streams.open(TIGHT)

        def lend() -> LentState:
            with states.lent(stream, AT) as lent:
                return lent

        with states.lent(stream, AT) as own:
            theirs = other.submit(lend).result(timeout=60)
            assert theirs.folded.state is not own.folded.state
            assert theirs.folded.state.digest() == own.folded.state.digest()


def test_the_reads_in_a_block_share_a_connection(logs: str) -> None:
    """Those of another thread do not, and after the block each read has its own again."""
    taken: list[object] = []
    with opened_streams(logs, None) as streams, ThreadPoolExecutor(1) as other:
        log = streams.open(TIGHT).log
        head = log.head
        event.listen(log._engine, "checkout", lambda connection, *_: taken.append(connection))
        with log.one_connection():
            assert [log.head for _ in range(3)] == [head] * 3
            with log.one_connection():
                assert len(list(log.decoded(0, 20))) == 20
            assert len(taken) == 1
            assert other.submit(lambda: log.head).result(timeout=60) == head
            assert len(taken) == 2
        assert [log.head for _ in range(3)] == [head] * 3
        assert len(taken) == 5
