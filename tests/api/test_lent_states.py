"""States that are lent for a long search, and the connection that the reads of a question share."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import event

from eventsched.domain.records import NodeDeleted
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.snapshot import StateSnapshot
from eventsched.history.past_state.state_differences import ComparedState, differences
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from eventsched.runtime.queries.lent_state import LentState
from eventsched.runtime.queries.state_at import FoldedState, state_at
from tests.postgres.histories import ODD, TIGHT

AT = "700"


def test_a_search_that_fails_uses_no_state_up(logs: str) -> None:
    """What it did to the state is not known, so the next question gets another one."""
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


def test_a_state_is_copied_only_if_someone_else_needs_it(
    logs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied: list[int] = []
    copy_of = snapshot.copied

    def counted(state: SchedulerState) -> StateSnapshot:
        copied.append(state.position)
        return copy_of(state)

    monkeypatch.setattr(snapshot, "copied", counted)
    states = FoldedStates()
    with opened_streams(logs, None) as streams:
        stream = streams.open(TIGHT)
        with states.lent(stream, AT) as lent:
            own = lent.folded.state
        with states.at(stream, AT) as found:
            assert found.state is own
        assert copied == []
        with states.lent(stream, AT) as lent, states.at(stream, AT) as found:
            assert lent.folded.state is not found.state
            assert lent.copy.position == int(AT)
        assert copied == [int(AT)]


@pytest.mark.parametrize("stream", [TIGHT, ODD])
def test_a_state_goes_on_to_the_next_position_and_leaves_a_copy(logs: str, stream: str) -> None:
    """Also the second time, when the copy is all that there is of it."""
    states = FoldedStates()
    with opened_streams(logs, None) as streams:
        opened = streams.open(stream)
        log, head = opened.log, opened.log.head.next
        places = [head // 3, head // 3 + 5, head // 2, head // 3, head // 3 + 1]
        made = []
        for place in places:
            with states.at(opened, str(place)) as found:
                made.append(found.state)
                expected = state_at(log, log, place, head).state
                assert found.state.digest() == expected.digest()
                assert list(found.state.pods) == list(expected.pods)
        assert made[0] is made[1] is made[2]
        assert made[3] is made[4] is not made[0]


def test_a_state_that_was_given_away_is_made_again(logs: str) -> None:
    """Of a position and of the log's end."""
    states = FoldedStates()
    with opened_streams(logs, None) as streams:
        stream = streams.open(TIGHT)
        for at in (AT, None):
            first = states.given(stream, at).folded.state
            digest = first.digest()
            first.apply(NodeDeleted(name="node-00001"), first.now)
            assert first.digest() != digest
            for _ in range(2):
                assert states.given(stream, at).folded.state.digest() == digest
        with states.at(stream, None) as newest:
            assert newest.state.digest() == digest


@pytest.mark.parametrize("stream", [TIGHT, ODD])
def test_differences_to_a_copy_are_those_to_the_state(logs: str, stream: str) -> None:
    """They are found by the objects that two states share, and here by two that share none."""
    states = FoldedStates()
    with opened_streams(logs, None) as streams:
        opened = streams.open(stream)
        log, head = opened.log, opened.log.head.next

        def folded(place: int) -> FoldedState:
            return state_at(log, log, place, head)

        found_some = 0
        for early in range(0, head, head // 12):
            for late in (early, early + 1, early + 40, head):
                if late > head:
                    continue
                before, after = folded(early).state, folded(late).state
                expected = differences(ComparedState.of(before), ComparedState.of(after))
                compared = states.compared(opened, str(early), "from")
                with states.at(opened, str(late)) as there:
                    assert differences(compared, ComparedState.of(there.state)) == expected
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
