"""Object changes that binds wait for, as requests of a leader: sent after the commit, repeated by
the next leader, and followed to their outcomes."""

from typing import Any

from eventsched.cluster.messages import (
    BindPod,
    ListCluster,
    Listed,
    Listing,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
    Unknown,
    WriteObject,
    WriteRefused,
    Written,
)
from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import TYPES
from eventsched.domain.records import Record, StreamStarted
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import Acquired, Append, Committed, Tick
from eventsched.runtime.leader.retry_queue import RETRY_DELAY
from tests.builders import SECOND, engine_of
from tests.faults.database import stored_of
from tests.volumes import LOCAL, claim, node, pod, promise, volume

NOW = 1_700_000_000 * SECOND
CLAIM, VOLUME = claim(), volume()
PROMISED = volume(claim=("default", "c", "uid-c"))
CLUSTER = (LOCAL, CLAIM, VOLUME, node(), pod())
WRITE = WriteObject("p1", "default", "p1", 1, promise())
MADE = records.WriteSucceeded(uid="p1", attempt=1, write=promise())
CONFLICT = "the object has been modified"


class LeaderHarness:
    """A leader and the log of its committed batches."""

    def __init__(self, batches: tuple[SealedBatch, ...] = (), epoch: int = 1) -> None:
        self.batches = list(batches)
        followed_stream = FollowedStream(lambda: engine_of(VolumeBinding()), "main")
        self.leader = Leader(followed_stream, StreamStarted(format=1, engine="0", seed="s"))
        term = Term("main", epoch, bytes([epoch]) * 16)
        start = Head(0, chain.genesis("main"))
        head = batches[-1].head if batches else start
        mark = batches[-1].mark if batches else b"null"
        stored = [record for batch in batches for record in stored_of(batch)]
        self.acquired = Acquired(term, start, head, stored, "t1", mark)
        self.records: list[Record] = []

    def send(self, message: Any, after: float = 0) -> list[Any]:
        """Passes a message and commits the batches. Returns the binds and changes requested."""
        cluster_requests = []
        requests = self.leader.handle(message, NOW + round(after * SECOND))
        while requests:
            appends = [request for request in requests if isinstance(request, Append)]
            cluster_requests += [
                request for request in requests if isinstance(request, WriteObject | BindPod)
            ]
            requests = []
            for append in appends:
                self.batches.append(append.batch)
                self.records += [stored.record for stored in stored_of(append.batch)]
                requests = self.leader.handle(Committed(), NOW + round(after * SECOND))
        return cluster_requests

    def lead(self, *objects: Any) -> list[Any]:
        """Takes over from a cluster with these objects."""
        assert self.leader.handle(self.acquired, NOW) == [ListCluster()]
        return self.send(listed(*(objects or CLUSTER)))

    def new_records(self) -> list[Record]:
        """The records since the last call."""
        new, self.records = self.records, []
        return new


def listed(*objects: Any) -> Listed:
    """A list of these objects, with resourceVersions 10, 11, …"""
    seen: dict[str, list[Any]] = {kind: [] for kind in (*TYPES, "Node", "Pod")}
    for version, listed_object in enumerate(objects, 10):
        makers: dict[type, Any] = {Node: NodeSeen, Pod: PodSeen}
        maker = makers.get(type(listed_object), ObjectSeen)
        seen[type(listed_object).__name__].append(maker(listed_object, version))
    return Listed([Listing(kind, 20, listed) for kind, listed in seen.items()])


def waiting() -> LeaderHarness:
    """A leader that has requested that a volume is promised to p1's claim."""
    harness = LeaderHarness()
    assert harness.lead() == [WRITE]
    harness.new_records()
    return harness


def test_nothing_is_written_before_its_record_is_committed() -> None:
    harness = LeaderHarness()
    harness.leader.handle(harness.acquired, NOW)
    requests = harness.leader.handle(listed(*CLUSTER), NOW)
    assert all(isinstance(request, Append) for request in requests)
    intents = [stored.kind for stored in stored_of(requests[0].batch)][-3:]
    assert intents == ["PodDecided", "MemoryChanged", "PreparationIntended"]


def test_a_made_change_observes_the_object_before_its_outcome() -> None:
    """The bind follows when the claim is bound."""
    harness = waiting()
    assert harness.send(Written(WRITE, ObjectSeen(PROMISED, 31))) == []
    assert harness.new_records() == [records.ObjectChanged(object=PROMISED), MADE]
    assert harness.send(ObjectSeen(PROMISED, 31)) == []  # the watch repeats it
    bound = claim(volume="v", bound=True)
    [bind] = harness.send(ObjectSeen(bound, 32))
    assert (type(bind), bind.node) == (BindPod, "n1")
    intent = records.BindIntended(uid="p1", node="n1", attempt=1)
    assert harness.new_records() == [records.ObjectChanged(object=bound), intent]


def test_the_watch_may_be_ahead_of_the_answer() -> None:
    harness = waiting()
    newer = volume(claim=("default", "c", "uid-c"), phase="Bound")
    harness.send(ObjectSeen(newer, 40))
    harness.new_records()
    harness.send(Written(WRITE, ObjectSeen(PROMISED, 31)))
    assert harness.new_records() == [MADE]


def test_an_answer_does_not_bring_back_a_deleted_object() -> None:
    harness = waiting()
    harness.send(ObjectGone("PersistentVolume", "", "v", 40))
    harness.new_records()
    harness.send(Written(WRITE, ObjectSeen(PROMISED, 31)))
    made, unreserved, *_ = harness.new_records()
    assert made == MADE
    assert isinstance(unreserved, records.PodUnreserved)
    assert 'persistentvolumes "v" not found' in unreserved.message


def test_a_refused_change_gives_its_reason_and_the_pod_is_retried() -> None:
    harness = waiting()
    other = volume(claim=("default", "d", "uid-d"))
    harness.send(WriteRefused(WRITE, CONFLICT, ObjectSeen(other, 31)))
    shown, failed, unreserved, *_ = harness.new_records()
    assert shown == records.ObjectChanged(object=other)
    assert failed == records.WriteFailed(uid="p1", attempt=1, write=promise(), message=CONFLICT)
    assert isinstance(unreserved, records.PodUnreserved)


def test_a_change_without_an_answer_is_requested_again() -> None:
    harness = waiting()
    assert harness.send(Unknown(WRITE)) == []
    assert harness.send(Tick(), RETRY_DELAY / SECOND - 0.001) == []
    assert harness.send(Tick(), RETRY_DELAY / SECOND) == [WRITE]
    harness.send(Written(WRITE, ObjectSeen(PROMISED, 31)), 1)
    assert MADE in harness.new_records()


def test_a_change_for_a_deleted_pod_is_not_requested_again() -> None:
    harness = waiting()
    harness.send(Unknown(WRITE))
    harness.send(PodGone("p1", 40))
    assert harness.send(Tick(), 5) == []
    harness.new_records()
    harness.send(Written(WRITE, ObjectSeen(PROMISED, 31)), 6)
    assert harness.new_records() == [records.ObjectChanged(object=PROMISED)]


def test_the_next_leader_goes_on_with_it() -> None:
    """With the same change and the same deadline."""
    harness = waiting()
    due = harness.leader.engine.due
    second = LeaderHarness(tuple(harness.batches), 2)
    assert second.lead() == [WRITE]
    assert [type(record).__name__ for record in second.new_records()] == ["TermBegan"]
    assert second.leader.engine.due == due == NOW + 600 * SECOND
    second.send(Written(WRITE, ObjectSeen(PROMISED, 31)))
    assert second.new_records() == [records.ObjectChanged(object=PROMISED), MADE]
    third = LeaderHarness(tuple(second.batches), 3)
    assert third.lead(LOCAL, CLAIM, PROMISED, node(), pod()) == []
    [bind] = third.send(ObjectSeen(claim(volume="v", bound=True), 32))
    assert isinstance(bind, BindPod)


def test_a_takeover_may_find_everything_done() -> None:
    """The claim was bound while no replica led: the change is requested again and already made."""
    harness = waiting()
    second = LeaderHarness(tuple(harness.batches), 2)
    bound = claim(volume="v", bound=True)
    assert second.lead(LOCAL, bound, PROMISED, node(), pod()) == [WRITE]
    [bind] = second.send(Written(WRITE, ObjectSeen(PROMISED, 12)))
    assert isinstance(bind, BindPod)


def test_a_takeover_may_find_the_node_gone() -> None:
    """The reservation is given up together with its change."""
    harness = waiting()
    second = LeaderHarness(tuple(harness.batches), 2)
    assert second.lead(LOCAL, CLAIM, VOLUME, pod()) == []
    kinds = [type(record).__name__ for record in second.new_records()]
    assert kinds[:4] == ["TermBegan", "NodeDeleted", "BindVoided", "PodUnreserved"]
    second.send(Written(WRITE, ObjectSeen(PROMISED, 31)))
    assert [type(record).__name__ for record in second.new_records()] == ["ObjectChanged"]
