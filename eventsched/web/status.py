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
        """Seconds since the last event, bookmark or list on this watch."""

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


class HousekeepingFacts(Protocol):
    """What a leader's look at its log found (runtime/live/log_housekeeping.py)."""

    @property
    def done_at(self) -> float:
        """When that was (s since 1970)."""

    @property
    def records_ahead(self) -> int:
        """The number of records for which there are partitions."""

    @property
    def unarchived_since(self) -> float | None:
        """When the oldest record was written that waits for an archive (s since 1970)."""


class LongWaitFacts(Protocol):
    """Pods that wait too long, by profile (runtime/symptoms/long_waits.py)."""

    @property
    def starving(self) -> Mapping[str, int]:
        """Those that a node could take, while later pods of their priority or less were placed."""

    @property
    def unplaceable(self) -> Mapping[str, int]:
        """Those that no node would take, even without other pods."""

    @property
    def since(self) -> float | None:
        """When the term began that they are counted in (s since 1970); None if nothing counts."""


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
        """Check of readiness → information to show with a check that passes, such as who leads."""

    @property
    def lease(self) -> str:
        """The name of the Lease of the leader election; "" without election."""

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
    def long_waits(self) -> LongWaitFacts:
        """Pods that wait too long."""

    @property
    def preemption_anomalies(self) -> Mapping[str, int]:
        """Kind → preemptions that did not help, since the process began. Every kind is there."""

    @property
    def nodes(self) -> int:
        """Known nodes."""

    @property
    def pods(self) -> int:
        """Pods on a node, reserved ones too."""

    @property
    def reservations(self) -> int:
        """Pods that have a reserved node and whose bind has no outcome yet."""

    @property
    def open_binds(self) -> int:
        """Intents to bind without an outcome."""

    @property
    def open_evictions(self) -> int:
        """Intents to evict without an outcome."""

    @property
    def overcommitted_nodes(self) -> int:
        """Nodes whose pods request more than is allocatable."""

    @property
    def reports_waiting(self) -> int:
        """Events and pod conditions not yet written to the API server."""

    @property
    def reports_dropped(self) -> int:
        """Events and pod conditions that were dropped since the process began."""

    @property
    def reports_refused(self) -> int:
        """Events and pod conditions that the API server has refused since the process began."""

    @property
    def divergences(self) -> Mapping[str, int]:
        """Kind → pods that a list of the API server showed otherwise than the log, since the
        process began. Every kind is there."""

    @property
    def database_size(self) -> int | None:
        """Bytes of the whole database at the leader's last measurement; None if there is none."""

    @property
    def housekeeping(self) -> HousekeepingFacts | None:
        """What the leader's last look at its log found; None if there was none."""

    @property
    def undecodable(self) -> Iterable[UndecodableStatus]:
        """The objects that are skipped now."""

    @property
    def watches(self) -> Mapping[str, WatchStatus]:
        """Resource (``Pod``, ``Node``…) → its watch."""
