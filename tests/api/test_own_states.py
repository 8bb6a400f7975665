"""States that a question has for itself, states that are made from one another, and the connection
that the reads of a question share."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from eventsched.domain.errors import InputError
from eventsched.domain.records import NodeDeleted
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.past_state.state_differences import differences
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.runtime.queries.state_at import state_at
from tests.postgres.histories import ODD, TIGHT

AT = "700"


@pytest.mark.parametrize("at", [AT, None])
def test_what_is_done_to_a_state_of_its_own_is_seen_by_no_other_question(
    logs: str, at: str | None
) -> None:
    states = FoldedStates()
    with opened_streams(logs, None) as streams:
        stream = streams.open(TIGHT)
        with states.at(stream, at) as found:
            kept, digest, pods = found.state, found.state.digest(), list(found.state.pods)
        own = states.before_step(stream, at).state if at is None else states.own(stream, at).state
        assert (own.digest(), list(own.pods)) == (digest, pods)
        own.apply(NodeDeleted(name="node-00001"), own.now)
        assert own.digest() != digest
        with states.at(stream, at) as found:
            assert found.state is kept
            assert found.state.digest() == digest


@pytest.mark.parametrize("late", ["800", None])
def test_a_state_does_not_go_on_over_records_that_were_dropped(
    logs: str, late: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is folded from a stored one; here there is none, which the error says."""
    states = FoldedStates()
    with opened_streams(logs, None) as streams:
        stream = streams.open(TIGHT)
        with states.at(stream, AT if late else None) as found:
            begin = found.position + 1
        monkeypatch.setattr(Reader, "begin", begin)
        with pytest.raises(InputError, match="were dropped"), states.at(stream, late):
            pass


@pytest.mark.parametrize("stream", [TIGHT, ODD])
def test_differences_to_a_state_that_was_made_from_the_other(logs: str, stream: str) -> None:
    """They are found by the objects that the two share; here also between two that share none."""
    with opened_streams(logs, None) as streams:
        opened = streams.open(stream)
        log, head = opened.log, opened.log.head.next

        def folded(place: int) -> SchedulerState:
            return state_at(log, log, place, head).state

        found_some = 0
        for early in range(0, head, head // 12):
            states = FoldedStates()
            for late in (early, early + 1, early + 40, head):
                if late > head:
                    continue
                expected = differences(folded(early), folded(late))
                with (
                    states.at(opened, str(early)) as before,
                    states.at(opened, str(late)) as after,
                ):
                    assert differences(before.state, after.state) == expected
                found_some += bool(expected)
        assert found_some > 12


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
