"""What a live scheduler needs of others: a cluster, and somebody who is told how it goes."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from eventsched.cluster.messages import (
    Announce,
    CallExtender,
    ClusterAnswer,
    Listed,
    PodRequest,
    WatchEvent,
    WriteObject,
)
from eventsched.domain.records.logged import Logged

Subscriber = Callable[[Listed | WatchEvent], None]


class Cluster(Protocol):
    """A cluster, watched all the time; used inside one event loop."""

    async def listed(self) -> None:
        """Waits until everything was listed once, and is watched."""

    async def list_cluster(self, subscriber: Subscriber) -> str:
        """Gives the subscriber all objects, as of now or later, and from then on each event of the
        watches in order. "" where that is done, else why it is not (and nothing was given)."""

    def unsubscribe(self) -> None:
        """Nobody gets anything any more."""

    async def carry_out(
        self, request: PodRequest | Announce | WriteObject | CallExtender
    ) -> ClusterAnswer:
        """Sends a request when there is room for it, and answers it; ``Unknown`` where nobody
        knows what came of it."""


class Election(Protocol):
    """Who of several replicas may lead."""

    @property
    def leader(self) -> str:
        """The name of the one that leads, as far as is known; "" for nobody."""

    def observe(self) -> None:
        """Begins to watch who leads, without taking part. A leader that died is then known to be
        silent by the time that this one is ready to lead."""

    async def won(self) -> None:
        """Takes part, and waits until this one may."""

    async def lost(self) -> str:
        """Waits until it may no longer, and says why."""

    async def release(self) -> None:
        """Lets another one lead at once; nothing where it does not lead."""


class Unopposed:
    """No election: the log's epoch alone keeps two writers apart."""

    leader = ""

    def observe(self) -> None:
        """Nothing."""

    async def won(self) -> None:
        """At once."""

    async def lost(self) -> str:
        """Never."""
        await asyncio.Event().wait()
        return ""

    async def release(self) -> None:
        """Nothing."""


class Audience(Protocol):
    """Is told what has become durable and how long things took; metrics and log lines."""

    def observe(self, logged: Sequence[Logged], now: int) -> None:
        """Committed records, each once, in the order of the log; ``now`` in µs."""

    def committed(self, seconds: float, records: int, size: int) -> None:
        """A batch of so many records and bytes is durable, so long after it was first offered."""

    def fenced(self) -> None:
        """A batch was refused: somebody else has the stream."""

    def folded(self, seconds: float) -> None:
        """The log was read and folded at the beginning of a term, which took so long."""

    def took_over(self, seconds: float) -> None:
        """A term makes attempts, so long after its lease was won."""


class Silence:
    """An audience that does not listen."""

    def observe(self, logged: Sequence[Logged], now: int) -> None:
        """Nothing."""

    def committed(self, seconds: float, records: int, size: int) -> None:
        """Nothing."""

    def fenced(self) -> None:
        """Nothing."""

    def folded(self, seconds: float) -> None:
        """Nothing."""

    def took_over(self, seconds: float) -> None:
        """Nothing."""
