"""What the HTTP server reads of a running scheduler, as a protocol.

Everything is read in the scheduler's own event loop when a request arrives, so no value is half
changed. Each value must be cheap: a scrape may come every second.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol


class WatchStatus(Protocol):
    """One resource's watch. The three counts start at 0 with the process and only rise."""

    @property
    def events(self) -> int:
        """Events received over the watch, including bookmarks."""

    @property
    def relists(self) -> int:
        """Times that everything was listed again because the watch could not resume (410, a
        gap)."""

    @property
    def reconnects(self) -> int:
        """Times that the watch was resumed after it had ended."""

    @property
    def lag(self) -> float:
        """Seconds since the API server last said anything on it: an event, a bookmark, a list."""

    @property
    def undecodable(self) -> int:
        """Objects that are skipped now because they could not be decoded."""


class UndecodableStatus(Protocol):
    """An object that is skipped because it could not be decoded."""

    @property
    def resource(self) -> str:
        """``Pod``, ``Node``…"""

    @property
    def name(self) -> str:
        """Its name, or ``namespace/name``."""

    @property
    def reason(self) -> str:
        """What could not be read."""

    @property
    def kept(self) -> bool:
        """Whether scheduling uses its previous version."""


class ProcessStatus(Protocol):
    """A running scheduler. Before there is a term or a state, numbers are 0 and mappings empty."""

    @property
    def liveness(self) -> Mapping[str, str]:
        """Check → what is wrong, "" if nothing is. A process that fails a check is restarted, so
        only problems that a restart solves belong here: not an unreachable database or API server.
        """

    @property
    def readiness(self) -> Mapping[str, str]:
        """Check → what is wrong, "" if nothing is: whether it schedules, or could take over at once
        as a standby. The texts are public and must contain no secret."""

    @property
    def remarks(self) -> Mapping[str, str]:
        """Check of readiness → a remark on it although it passes."""

    @property
    def lease(self) -> str:
        """The name of the Lease that elects; "" without election."""

    @property
    def leading(self) -> bool:
        """Whether attempts are made."""

    @property
    def epoch(self) -> int:
        """The epoch of the last term that is known."""

    @property
    def log_head(self) -> int:
        """Records of the stream that are known to be committed."""

    @property
    def log_lag(self) -> int:
        """Committed records that a standby has not taken in yet; 0 for a leader."""

    @property
    def queues(self) -> Mapping[str, int]:
        """Queue (``active``, ``backoff``, ``unschedulable``, ``gated``) → pods that wait in it."""

    @property
    def unschedulable(self) -> Mapping[tuple[str, str], int]:
        """(Plugin, profile) → unschedulable pods that the plugin refused."""

    @property
    def oldest_waiting(self) -> Mapping[tuple[str, str], float]:
        """(Queue, profile) → when its oldest pod was created, in seconds since 1970."""

    @property
    def nodes(self) -> int:
        """Nodes that are known."""

    @property
    def pods(self) -> int:
        """Pods on a node, reserved ones too."""

    @property
    def reservations(self) -> int:
        """Pods with a node held for them whose bind has no outcome yet."""

    @property
    def open_binds(self) -> int:
        """Intents to bind without an outcome."""

    @property
    def open_evictions(self) -> int:
        """Intents to evict without an outcome."""

    @property
    def overcommitted_nodes(self) -> int:
        """Nodes whose pods request more than they offer."""

    @property
    def reports_waiting(self) -> int:
        """Events and conditions that are to be written to the API server yet."""

    @property
    def reports_dropped(self) -> int:
        """Those that were given up, since the process began."""

    @property
    def reports_refused(self) -> int:
        """Those that the API server would not take, since the process began."""

    @property
    def undecodable(self) -> Iterable[UndecodableStatus]:
        """The objects that are passed over at present."""

    @property
    def watches(self) -> Mapping[str, WatchStatus]:
        """Resource (``Pod``, ``Node``…) → its watch."""
