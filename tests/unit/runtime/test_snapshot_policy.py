"""Stored states: often enough for a short start, of use to the next version, and of several the
newest that is."""

from collections.abc import Iterator

import pytest

from eventsched import __version__
from eventsched.cluster.messages import NodeSeen
from eventsched.domain.objects import Node
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime import snapshot_policy
from eventsched.runtime.leader.leader_messages import Append, StoreSnapshot
from tests.builders import make_node
from tests.leader_harness import LeaderHarness, new_followed_stream

MB = 1 << 20


def large(number: int) -> Node:
    """A node whose record has a megabyte."""
    return make_node(annotations={"example.com/a": f"{number}" + "x" * MB})


def stored_snapshots(harness: LeaderHarness, updates: int) -> Iterator[tuple[int, StoredSnapshot]]:
    """The snapshots that a leader makes while a large node changes, and after which change."""
    for number in range(updates):
        requests = harness.send(NodeSeen(large(number), 100 + number))
        while any(isinstance(each, Append) for each in requests):
            requests = harness.commit(requests)
            others = [*requests, *harness.complete_snapshot()]
            yield from (
                (number, each.snapshot) for each in others if isinstance(each, StoreSnapshot)
            )


def test_large_records_make_a_snapshot_due_earlier() -> None:
    """The records since the newest snapshot never take longer to apply than was promised."""
    harness = LeaderHarness(snapshot_every=10_000)
    harness.commit_all(harness.lead(make_node()))
    each = snapshot_policy.apply_seconds(1, MB)
    most = int(snapshot_policy.APPLY_SECONDS / each)
    found = [number for number, _ in stored_snapshots(harness, 2 * most)]
    assert found, "no snapshot was made"
    gaps = [after - before for before, after in zip([0, *found], found, strict=False)]
    assert max(gaps) <= most
    assert min(gaps) > most // 4, "and not all the time"


def test_records_that_a_standby_has_followed_count_for_the_next_snapshot() -> None:
    """A leader that began with a long rest of a log stores its state at once."""
    first = LeaderHarness(snapshot_every=None)
    first.commit_all(first.lead(make_node()))
    assert list(stored_snapshots(first, 40)) == []
    second = LeaderHarness(first, snapshot_every=10_000)
    others = [*second.commit_all(second.lead(large(39))), *second.complete_snapshot()]
    assert [each for each in others if isinstance(each, StoreSnapshot)], "no snapshot was made"


def test_small_records_are_counted() -> None:
    """As before."""
    followed_stream = new_followed_stream()
    assert followed_stream.due(Head(10, b""), 10) == 1
    followed_stream.count_records(1_000, 250_000)
    assert 0 < followed_stream.due(Head(0, b""), 10**9) < 0.1


def test_a_large_state_is_stored_less_often() -> None:
    """No more is applied at a start than takes as long as loading the state."""
    followed_stream = new_followed_stream()
    followed_stream.count_records(
        0, round(snapshot_policy.APPLY_SECONDS / snapshot_policy.BYTE_SECONDS)
    )
    assert followed_stream.due(Head(0, b""), 10**9) == pytest.approx(2)
    followed_stream.snapshot_begun(0)
    followed_stream.snapshot_size = 100 * MB
    assert followed_stream.seconds_since_snapshot == 0
    followed_stream.count_records(0, 100 * MB)
    assert followed_stream.due(Head(0, b""), 10**9) == pytest.approx(2)


def test_many_pods_make_snapshots_rarer_than_seconds_would() -> None:
    """Their lists take a start longer than the records after two positions a pod."""
    most = snapshot_policy.most_apply_seconds
    assert most(25_000, 0) == most(0, 0) == snapshot_policy.APPLY_SECONDS
    for pods in (50_000, 100_000):
        distance = snapshot_policy.snapshot_distance(pods)
        assert most(pods, 0) == pytest.approx(snapshot_policy.apply_seconds(distance, 0))


@pytest.fixture
def snapshot() -> StoredSnapshot:
    """One of this version."""
    harness = LeaderHarness(snapshot_every=1)
    others = harness.commit_all(harness.lead(make_node()))
    return [each.snapshot for each in others if isinstance(each, StoreSnapshot)][-1]


@pytest.mark.parametrize(
    ("version", "helps"),
    [
        (f"{snapshot_policy.FORMAT}/{__version__}", True),
        (f"{snapshot_policy.FORMAT}/99.0", True),
        (f"{snapshot_policy.FORMAT + 1}/{__version__}", False),
        ("0.1.0", True),
        ("0.0.9", False),
        ("", False),
    ],
)
def test_a_snapshot_of_another_version_with_the_same_format_is_readable(
    snapshot: StoredSnapshot, version: str, helps: bool
) -> None:
    """What matters is its format."""
    assert snapshot.version == f"{snapshot_policy.FORMAT}/{__version__}"
    loaded = new_followed_stream().load_snapshot(snapshot._replace(version=version))
    assert (loaded is not None) is helps


def test_the_digest_of_a_snapshot_is_checked(snapshot: StoredSnapshot) -> None:
    """Whatever its label says."""
    assert new_followed_stream().load_snapshot(snapshot._replace(digest="0" * 32)) is None
