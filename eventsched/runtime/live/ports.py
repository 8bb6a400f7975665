"""The ports of a live scheduler: the cluster, the election, and the observer (metrics, logs)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from eventsched.cluster.messages import (
    CallExtender,
    ClusterAnswer,
    Listed,
    PodRequest,
    WatchEvent,
    WriteEvent,
    WriteObject,
)
from eventsched.domain.records.log_entry import LogEntry

Subscriber = Callable[[Listed | WatchEvent], None]


class Cluster(Protocol):
    """A watched cluster; used on one event loop."""

    async def listed(self) -> None:
        """Waits until everything has been listed and is watched."""

    async def list_cluster(self, subscriber: Subscriber) -> str:
        """Passes all objects, as of now or later, to the subscriber, and from then on each event of
        the watches in order. Returns "", or the problem if nothing was passed."""

    def unsubscribe(self) -> None:
        """Passes nothing more to the subscriber."""

    async def carry_out(
        self, request: PodRequest | WriteEvent | WriteObject | CallExtender
    ) -> ClusterAnswer:
        """Sends a request, as soon as there are not too many under way, and returns its answer;
        ``Unknown`` if its outcome is unknown."""


class Election(Protocol):
    """Decides which replica may lead."""

    @property
    def leader(self) -> str:
        """The name of the replica that leads, as far as is known; "" for none."""

    def watch_leader(self) -> None:
        """Begins to watch the leader without running. The lease of a leader that died may then
        have expired by the time that this replica is ready to lead."""

    async def won(self) -> None:
        """Runs for leader, and waits until this replica may lead."""

    async def wait_until_lost(self) -> str:
        """Waits until this replica may no longer lead, and returns the reason."""

    async def release(self) -> None:
        """Lets another replica lead at once. Does nothing if this one does not lead."""

    def annotate(self, key: str, value: str) -> None:
        """Publishes an annotation beside the leader's name, with the next renewal: it costs no
        request. Does nothing if this replica does not lead."""


class NoElection:
    """No election: only the log's epoch excludes a second writer."""

    leader = ""

    def watch_leader(self) -> None:
        """Does nothing."""

    async def won(self) -> None:
        """Returns at once."""

    async def wait_until_lost(self) -> str:
        """Never returns."""
        await asyncio.Event().wait()
        return ""

    async def release(self) -> None:
        """Does nothing."""

    def annotate(self, key: str, value: str) -> None:
        """Does nothing."""


class TermObserver(Protocol):
    """Receives what has become durable, and durations: metrics and log lines."""

    def records_followed(self, logged: Sequence[LogEntry]) -> None:
        """Committed records that were read from the log, in its order. They are read again if the
        replica begins to follow it again."""

    def records_committed(self, logged: Sequence[LogEntry], now: int) -> None:
        """Own committed records, each once, in the order of the log; ``now`` in µs."""

    def batch_committed(self, seconds: float, records: int, size: int) -> None:
        """A batch of ``records`` records and ``size`` bytes is durable, ``seconds`` after it was
        first sent."""

    def fenced(self) -> None:
        """A batch was refused: another writer has the stream."""

    def log_applied(self, seconds: float) -> None:
        """The log was applied at the beginning of a term."""

    def took_over(self, seconds: float) -> None:
        """A term makes attempts, ``seconds`` after its lease was won."""
