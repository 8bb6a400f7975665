"""What a replica of ``eventsched run`` reports, passed on to metrics, log lines, readiness and
traces.

An extender's answers leave here, too, once their records are committed.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from eventsched.domain.records.log_entry import LogEntry
from eventsched.process.extenders.extender_server_requests import Inquiries
from eventsched.process.replica_status import LiveStatus
from eventsched.process.start_times import StartClock
from eventsched.process_log.narration import Narrator
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import Assembly
from eventsched.web.metrics import Metrics

if TYPE_CHECKING:  # the SDK is imported only if tracing is on
    from eventsched.process.tracing.span_export import Tracing

logger = structlog.get_logger()


class ServiceObserver:
    """Passes what a replica reports on to metrics and to log lines."""

    def __init__(
        self,
        metrics: Metrics,
        stream: str,
        status: LiveStatus,
        assembly: Assembly,
        start_clock: StartClock,
        inquiries: Inquiries | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._inquiries, self._tracing = inquiries, tracing
        self._assembly, self._status, self._start_clock = assembly, status, start_clock
        self._is_reloaded = False
        self.fenced, self.log_applied = metrics.fenced, metrics.log_applied
        self._metrics, self._narrator = metrics, Narrator(stream, status.pod_name)

    def took_over(self, seconds: float) -> None:
        """A leader begins to make attempts; it knows the nodes by now."""
        self._metrics.took_over(seconds)
        if self._is_reloaded:
            self._is_reloaded = False
            gc_tuning.freeze()
        logger.info("deciding", nodes=self._status.nodes, after=round(seconds, 3))
        replica = self._status.replica
        if replica is not None and replica.follower is not None:
            self._start_clock.report(replica.follower.caught_up_at, seconds)
        for plugin, node in self._assembly.unknown_nodes(self._status.node_names):
            logger.warning("a plugin names a node that is not there", plugin=plugin, node=node)

    def reloaded(self, assembly: Assembly) -> None:
        """Another configuration is in force; what the one before has built is garbage."""
        self._assembly, self._is_reloaded = assembly, True
        gc_tuning.thaw()

    def batch_committed(self, seconds: float, records: int, size: int) -> None:
        """Measures a commit."""
        self._metrics.batch_committed(seconds, records, size)
        if self._tracing is not None:
            self._tracing.batch_committed(seconds)

    def records_followed(self, logged: Sequence[LogEntry]) -> None:
        """Notes records of another leader, for the case that this replica takes over."""
        self._status.records_committed(logged, is_own=False)

    def records_committed(self, logged: Sequence[LogEntry], now: int) -> None:
        """Counts, logs and traces committed records, and sends the answers among them."""
        if self._inquiries is not None:
            self._inquiries.records_committed(logged)
        self._metrics.records_committed(logged, now)
        self._status.records_committed(logged)
        self._narrator.log(logged)
        if self._tracing is not None:
            self._tracing.records_committed(logged, now)
