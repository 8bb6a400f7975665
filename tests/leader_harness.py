"""Drives a leader by hand: messages in, requests out, and the log of its committed batches."""

from typing import Any

from eventsched.cluster.messages import (
    BindPod,
    GetPod,
    ListCluster,
    Listed,
    Listing,
    NodeSeen,
    ObjectSeen,
    PatchStatus,
    PodSeen,
    TouchPod,
    WriteEvent,
)
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import Namespace
from eventsched.domain.records import Record, StreamStarted
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Acquired,
    Append,
    Committed,
    Message,
    Request,
    Tick,
)
from eventsched.runtime.leader.limits import Limits
from tests.builders import SECOND, engine_of, make_node, make_pod
from tests.faults.database import stored_of

NOW = 1_700_000_000 * SECOND
OPENING = StreamStarted(format=1, engine="0", seed="s")
BIND = BindPod("p1", "default", "p1", "n1", 11, "main/6@01010101")
GET = GetPod("p1", "default", "p1")
TOUCH = TouchPod("p1", "default", "p1")


class LeaderHarness:
    """A leader and the log of its committed batches. ``reports`` are its Events and status."""

    def __init__(
        self,
        before: "LeaderHarness | None" = None,
        timeline: str = "t1",
        followed_stream: FollowedStream | None = None,
        opening: StreamStarted = OPENING,
        **limits: Any,
    ) -> None:
        self.batches: list[SealedBatch] = list(before.batches) if before else []
        self.reports: list[Request] = []
        followed_stream = followed_stream or new_followed_stream()
        self.leader = Leader(followed_stream, opening, Limits(**limits))
        assert self.leader.start() == [Acquire(followed_stream.head)]
        epoch = 2 if before else 1
        self.term = Term("main", epoch, bytes([epoch]) * 16)
        stored = [record for batch in self.batches for record in stored_of(batch)]
        heads = [Head(0, chain.genesis("main")), *(batch.head for batch in self.batches)]
        since = followed_stream.head if followed_stream.head in heads else heads[0]
        mark = self.batches[-1].mark if self.batches else b"null"
        self.acquired = Acquired(self.term, since, heads[-1], stored[since.next :], timeline, mark)

    def send(self, message: Message, after: float = 0) -> list[Request]:
        """Passes a message, ``after`` seconds after the start; the requests without reports."""
        requests = self.leader.handle(message, NOW + round(after * SECOND))
        reports = [request for request in requests if isinstance(request, PatchStatus | WriteEvent)]
        self.reports += reports
        return [request for request in requests if request not in reports]

    def lead(self, *objects: Node | Pod | Namespace) -> list[Request]:
        """Acquires, and lists these objects with resourceVersions 10, 11, …"""
        assert self.send(self.acquired) == [ListCluster()]
        return self.send(listed(*objects))

    def commit(self, requests: list[Request], after: float = 0) -> list[Request]:
        """Commits the batch among the requests."""
        [append] = [request for request in requests if isinstance(request, Append)]
        self.batches.append(append.batch)
        return self.send(Committed(), after)

    def complete_snapshot(self) -> list[Request]:
        """Turns of the leader until a snapshot that it makes is complete. Returns their
        requests."""
        requests: list[Request] = []
        while (wake_at := self.leader.wake_at) is not None and wake_at <= NOW:
            requests += self.send(Tick())
        return requests

    def commit_all(self, requests: list[Request]) -> list[Request]:
        """Commits batches until there are none. Returns the other requests."""
        others: list[Request] = []
        while any(isinstance(request, Append) for request in requests):
            others += [request for request in requests if not isinstance(request, Append)]
            requests = self.commit(requests)
        return others + requests


def new_followed_stream() -> FollowedStream:
    """A stream of which nothing was followed yet."""
    return FollowedStream(lambda: engine_of(NodeResourcesFit()), "main")


def listed(*objects: Node | Pod | Namespace) -> Listed:
    """A list of these objects, with resourceVersions 10, 11, …"""
    seen: dict[str, list[Any]] = {"Pod": [], "Node": [], "Namespace": []}
    makers: dict[str, Any] = {"Pod": PodSeen, "Node": NodeSeen, "Namespace": ObjectSeen}
    for version, listed_object in enumerate(objects, 10):
        kind = type(listed_object).__name__
        seen[kind].append(makers[kind](listed_object, version))
    return Listed([Listing(kind, 20, listed) for kind, listed in seen.items()])


def offered(requests: list[Request]) -> list[Record]:
    """The records of the batch among the requests."""
    [append] = [request for request in requests if isinstance(request, Append)]
    return [stored.record for stored in stored_of(append.batch)]


def kinds(requests: list[Request]) -> list[str]:
    """The kinds of the records of the batch among the requests."""
    return [type(record).__name__ for record in offered(requests)]


def leading() -> LeaderHarness:
    """A leader that has placed p1 on n1; its bind is on its way."""
    harness = LeaderHarness()
    assert harness.commit(harness.lead(make_node(), make_pod())) == [BIND]
    return harness
