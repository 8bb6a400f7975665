"""The metrics of one scheduler, in a registry of their own. docs/metrics.md explains each.

There are four sources: committed records, which ``records_committed`` counts; measurements that
the process reports (``batch_committed``, ``log_applied``…); values that are read at each scrape
(web/gauges.py); and parts of the process that register metrics of their own
(web/reload_metrics.py). If a metric means the same as one of upstream's
pkg/scheduler/metrics/metrics.go, it has the same name, labels and buckets.
"""

import platform
from collections.abc import Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from eventsched import __version__
from eventsched.domain.records.log_entry import LogEntry
from eventsched.web.gauges import Gauges
from eventsched.web.record_counters import RecordCounters, exponential
from eventsched.web.status import ProcessStatus

# For the whole process: creation times of the series would double the length of the output.
disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Counts since the process began. Called in the scheduler's event loop only."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._record_counters = RecordCounters(self.registry)
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        info = Gauge(
            "eventsched_build_info",
            "Always 1; the labels say what runs.",
            ["version", "python"],
            registry=self.registry,
        )
        info.labels(__version__, platform.python_version()).set(1)
        self._commit_duration = self._histogram(
            "eventsched_log_commit_duration_seconds",
            "From sending a batch to knowing that it is durable, retries included.",
            exponential(0.001, 2, 15),
        )
        self._batch_records = self._histogram(
            "eventsched_log_batch_records",
            "Records of a committed batch.",
            exponential(1, 2, 13),
        )
        self._batch_bytes = self._histogram(
            "eventsched_log_batch_bytes",
            "Bytes of the records of a committed batch, without their vectors.",
            exponential(256, 4, 10),
        )
        self._fold_duration = self._histogram(
            "eventsched_log_fold_duration_seconds",
            "Reading the log and applying it to the state, at the beginning of a term.",
            exponential(0.01, 2, 15),
        )
        self._takeover_duration = self._histogram(
            "eventsched_takeover_duration_seconds",
            "From winning the lease to being able to make attempts.",
            exponential(0.01, 2, 15),
        )
        self._fenced = Counter(
            "eventsched_log_fenced_appends_total",
            "Batches refused because another writer had begun a newer epoch.",
            registry=self.registry,
        )

        self._checkpoints = Counter(
            "eventsched_checkpoints_total",
            "Signed checkpoints of the log.",
            registry=self.registry,
        )
        self._checkpoint_failures = Counter(
            "eventsched_checkpoint_write_failures_total",
            "Signed checkpoints that could not be written to the file.",
            registry=self.registry,
        )

    def _histogram(self, name: str, help_text: str, buckets: list[float]) -> Histogram:
        return Histogram(name, help_text, buckets=buckets, registry=self.registry)

    def attach(self, status: ProcessStatus) -> None:
        """Also shows values of a running scheduler from now on; they are read at each scrape."""
        self.registry.register(Gauges(status))

    def records_committed(self, logged: Iterable[LogEntry], now: int) -> None:
        """Counts committed records, each once, in the order of the log. ``now`` (µs) is when they
        were known to be committed."""
        self._record_counters.count(logged, now)

    def batch_committed(self, seconds: float, records: int, size: int) -> None:
        """A batch of ``records`` records and ``size`` bytes is durable, ``seconds`` after it was
        first sent."""
        self._commit_duration.observe(seconds)
        self._batch_records.observe(records)
        self._batch_bytes.observe(size)

    def fenced(self) -> None:
        """A batch was refused: another writer has the stream."""
        self._fenced.inc()

    def checkpoint_signed(self) -> None:
        """A checkpoint was signed."""
        self._checkpoints.inc()

    def checkpoint_unwritten(self) -> None:
        """A checkpoint could not be written to the file."""
        self._checkpoint_failures.inc()

    def log_applied(self, seconds: float) -> None:
        """The log was read and applied in ``seconds``, at the beginning of a term."""
        self._fold_duration.observe(seconds)

    def took_over(self, seconds: float) -> None:
        """A term makes attempts, ``seconds`` after its lease was won."""
        self._takeover_duration.observe(seconds)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics as text, and the content type. ``accept`` is the value of the header
        Accept."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
