"""A snapshot is encoded some parts at a time; it is of the state as it was at first."""

import msgspec
import pytest

from eventsched.cluster.messages import Unknown
from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided, Queue
from eventsched.domain.state import snapshot
from eventsched.domain.state.state_snapshot import copied
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime.leader import snapshot_encoder
from eventsched.runtime.leader.followed_stream import StreamState
from eventsched.runtime.leader.leader_messages import Append, StoreSnapshot, Tick
from eventsched.runtime.leader.retry_queue import RETRY_DELAY
from tests.builders import SECOND, make_node, make_pod
from tests.leader_harness import GET, LeaderHarness, new_followed_stream

PODS = 40


def stream_state() -> StreamState:
    """With nodes, pods, one of them reserved, and plugin memory."""
    found = new_followed_stream().stream_state
    for record in (
        *(records.NodeAdded(node=make_node(f"n{number}")) for number in range(3)),
        *(records.PodAdded(pod=make_pod(f"p{number}")) for number in range(PODS)),
        records.PodQueued(uid="p1", queue=Queue.ACTIVE, cause="PodAdd"),
        PodDecided(uid="p2", attempt=1, outcome=Outcome.WAITING, node="n1", row=1),
        records.MemoryChanged(plugin="Sticky", key="default/p1", value={"node": "n1"}),
    ):
        found.engine.state.apply(record, 5)
    return found


def change_everything(state: StreamState) -> None:
    for record in (
        records.NodeDeleted(name="n0"),
        records.PodDeleted(uid="p0"),
        records.PodQueued(uid="p1", queue=Queue.BACKOFF, cause="x", until=99),
        records.PodUnreserved(uid="p2", node="n1"),
        records.MemoryChanged(plugin="Sticky", key="default/p1", value=None),
        records.MemoryChanged(plugin="Sticky", key="default/p9", value={"node": "n2"}),
        records.PodAdded(pod=make_pod("late")),
    ):
        state.engine.state.apply(record, 50)


def loaded(stored: StoredSnapshot) -> StreamState:
    found = new_followed_stream().load_snapshot(stored)
    assert found is not None
    return found


def test_the_state_may_change_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot and its digest are those of the state before."""
    monkeypatch.setattr(snapshot_encoder, "PARTS_AT_ONCE", 1)
    state = stream_state()
    digest = state.engine.state.digest()
    encoder = state.snapshot(state.head, ())
    change_everything(state)
    turns = 1
    while encoder.advance() is None:
        turns += 1
    stored = encoder.finish()
    assert turns > 2 * PODS
    assert stored.digest == digest != state.engine.state.digest()
    assert loaded(stored).engine.state.digest() == digest


@pytest.mark.parametrize("empty", [False, True])
def test_the_parts_are_the_whole(empty: bool) -> None:
    """Together they are the bytes of the copy."""
    state = (new_followed_stream().stream_state if empty else stream_state()).engine.state
    copy = copied(state)
    body = b"".join(snapshot.parts(copy))
    assert body == snapshot.encode(state)
    assert msgspec.json.decode(body, type=snapshot.EncodedState).decoded() == copy


def test_a_large_part_ends_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_encoder, "BYTES_AT_ONCE", 10_000)
    state = new_followed_stream().stream_state
    for number in range(5):
        node = make_node(f"n{number}", annotations={"example.com/a": "x" * 20_000})
        state.engine.state.apply(records.NodeAdded(node=node), 5)
    encoder = state.snapshot(state.head, ())
    turns = 1
    while encoder.advance() is None:
        turns += 1
    assert turns == 11, "five nodes are encoded and five digested; the rest is small"


def test_a_leader_works_while_it_makes_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on from turn to turn without a timer, and stores the snapshot when it is complete and
    its batch is committed, whichever is later."""
    monkeypatch.setattr(snapshot_encoder, "PARTS_AT_ONCE", 1)
    harness = LeaderHarness(snapshot_every=5)
    [append] = harness.lead(make_node(), make_pod())
    complete = harness.complete_snapshot()
    assert complete == [], "not committed yet"
    [_, kept] = harness.commit([append])
    assert isinstance(kept, StoreSnapshot)
    again = LeaderHarness(snapshot_every=5)
    [bind] = again.commit(again.lead(make_node(), make_pod()))
    assert not isinstance(bind, StoreSnapshot), "committed before it is complete"
    [stored] = again.complete_snapshot()
    assert stored == kept
    assert not [each for each in again.send(Tick()) if isinstance(each, Append | StoreSnapshot)]


def test_a_snapshot_whose_outcome_is_unknown_is_not_sent_again() -> None:
    """Nor does it make requests to the API server wait longer: the database was silent."""
    harness = LeaderHarness(snapshot_every=5)
    requests = harness.commit(harness.lead(make_node(), make_pod()))
    [bind, kept] = [*requests, *harness.complete_snapshot()]
    assert isinstance(kept, StoreSnapshot)
    assert harness.send(Unknown(kept)) == []
    assert harness.send(Tick(), after=1) == []
    assert harness.send(Unknown(bind), after=1.5) == []
    assert harness.send(Tick(), after=1.5 + RETRY_DELAY / SECOND) == [GET]
