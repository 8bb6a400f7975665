"""A leader that begins with what it knows: a standby that has followed the log, a snapshot."""

import zlib
from typing import Any

import pytest

from eventsched.cluster.messages import (
    ListCluster,
    PodAbsent,
    PodSeen,
)
from eventsched.runtime.leader.leader_messages import StoreSnapshot
from tests.builders import make_node, make_pod
from tests.faults.database import stored_of
from tests.leader_harness import (
    BIND,
    TOUCH,
    LeaderHarness,
    kinds,
    leading,
    listed,
    new_followed_stream,
    offered,
)


def test_a_standby_that_has_followed_reads_only_the_rest() -> None:
    """And begins as one that has read all."""
    before = leading()
    followed_stream = new_followed_stream()
    batch = before.batches[0]
    followed_stream.follow(stored_of(batch), batch.head, batch.mark)
    before.commit(before.send(PodSeen(make_pod("p2", cpu=9000), 30)))
    harness, cold = LeaderHarness(before, followed_stream=followed_stream), LeaderHarness(before)
    assert harness.acquired.since == batch.head
    assert [each.position for each in harness.acquired.records] == [7, 8, 9, 10, 11]
    objects = make_node(), make_pod(), make_pod("p2", cpu=9000)
    assert offered(harness.lead(*objects)) == offered(cold.lead(*objects))
    assert harness.leader.engine.state.digest() == cold.leader.engine.state.digest()


def test_a_standby_that_knows_more_than_the_log_starts_over() -> None:
    """History was lost, also if the database does not say so."""
    before = leading()
    followed_stream = new_followed_stream()
    for batch in before.batches:
        followed_stream.follow(stored_of(batch), batch.head, batch.mark)
    other = LeaderHarness()
    other.commit(other.lead(make_node("n7")))
    harness = LeaderHarness(other, followed_stream=followed_stream)
    assert harness.acquired.since.next == 0
    assert harness.send(harness.acquired) == [ListCluster()]
    assert harness.leader.history_lost
    assert harness.send(listed(make_node("n7"), make_pod())) == [TOUCH]
    assert list(harness.leader.engine.state.nodes.rows) == ["n7"]
    assert harness.send(PodAbsent(TOUCH)) == [ListCluster()]
    assert kinds(harness.send(listed(make_node("n7"))))[-1] == "HistoryLost"
    assert not harness.leader.history_lost


def test_a_snapshot_is_stored_once_its_batch_is_committed() -> None:
    """A leader that begins with it redoes the open intent by its name."""
    harness = LeaderHarness(snapshot_every=5)
    kept, bind = harness.commit(harness.lead(make_node(), make_pod()))[::-1]
    assert bind == BIND
    assert isinstance(kept, StoreSnapshot)
    assert kept.snapshot.position == harness.leader.engine.position
    followed_stream = new_followed_stream()
    stream_state = followed_stream.load_snapshot(kept.snapshot)
    assert stream_state is not None
    followed_stream.begin(stream_state)
    assert followed_stream.stream_state.engine.state.digest() == kept.snapshot.digest
    compressed = kept.snapshot._replace(body=zlib.compress(kept.snapshot.body))
    from_compressed = new_followed_stream().load_snapshot(compressed)
    assert from_compressed is not None
    assert from_compressed.loaded_size == stream_state.loaded_size == len(kept.snapshot.body)
    after = LeaderHarness(harness, followed_stream=followed_stream)
    assert list(after.acquired.records) == []
    assert after.commit(after.lead(make_node(), make_pod())) == [BIND]


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "0" * 32},
        {"version": "0"},
        {"body": b"{}"},
        {"body": b"no JSON"},
        {"body": zlib.compress(b"no JSON")},
    ],
    ids=["another state", "another version", "another form", "no form", "compressed, no form"],
)
def test_a_snapshot_with_a_wrong_digest_is_not_used(change: dict[str, Any]) -> None:
    """The log is read from its beginning then."""
    harness = LeaderHarness(snapshot_every=5)
    [_, kept] = harness.commit(harness.lead(make_node(), make_pod()))
    assert isinstance(kept, StoreSnapshot)
    assert new_followed_stream().load_snapshot(kept.snapshot._replace(**change)) is None
