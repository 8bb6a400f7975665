"""A process of the world, how it reads the log, and its requests in flight."""

from collections.abc import Callable
from random import Random

from eventsched.cluster.messages import Listed, Listing, Relisted
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import Message, Request

from . import cluster
from .apiserver import RESOURCES
from .database import Database, stored_of

MakeLeader = Callable[[FollowedStream], Leader]


def ordinary_leader(followed_stream: FollowedStream) -> Leader:
    """The product's leader with small limits."""
    return Leader(followed_stream, cluster.OPENING, cluster.LIMITS)


def standing_by(
    rng: Random, database: Database, make: Callable[[], FollowedStream]
) -> tuple[FollowedStream, str]:
    """A FollowedStream that has read nothing ("cold"), a part of the log ("warm"), or started from
    a snapshot ("restored"); and which of these."""
    followed_stream, kind = make(), rng.choice(["cold", "warm", "restored"])
    snapshots = database.snapshots()
    if kind == "restored" and snapshots:
        snapshot = rng.choice(snapshots)
        stream_state = followed_stream.load_snapshot(snapshot)
        assert stream_state is not None, "a snapshot does not match its position"
        followed_stream.begin(stream_state)
    elif kind != "warm":
        return followed_stream, "cold"
    ahead = [batch for batch in database.batches if batch.first >= followed_stream.head.next]
    for batch in ahead[: rng.randint(0, len(ahead))]:
        followed_stream.follow(stored_of(batch), batch.head, batch.mark)
    return followed_stream, kind if followed_stream.head.next else "cold"


class Process:
    """A leader, its clock skew, and the positions of its watches in the API server's histories
    (``cursors``, by resource). After a gap, a resource is listed again: first the list is made,
    later it is delivered. ``barrier`` is the API server's resourceVersion when its term began."""

    def __init__(self, name: str, number: int, leader: Leader, skew: int) -> None:
        self.name = name
        self.number = number
        self.leader = leader
        self.skew = skew
        self.paused_until = 0
        self.watching = False
        self.cursors = dict.fromkeys(RESOURCES, 0)
        self.gaps: dict[str, Relisted | None] = {}
        self.barrier = 0
        self.alive = True


class Flight:
    """A request in flight to a server, or its answer in flight back. ``abandoned`` means that the
    process no longer waits for it; it may still arrive."""

    def __init__(self, process: Process, request: Request, held_until: int) -> None:
        self.process = process
        self.request = request
        self.held_until = held_until
        self.answer: Message | None = None
        self.abandoned = False
        self.listings: list[Listing] = []
        self.barrier = 0
        self.cursors: dict[str, int] = {}

    @property
    def listed(self) -> Listed:
        """The result of a list."""
        return Listed(tuple(self.listings))
