"""A simulation: the engine, a log and a simulated cluster, run in virtual time to the end.

Only virtual time exists here. At each instant everything that happens is observed, then attempts
are made until the active queue is empty; the clock moves on when all that asks something of the
cluster is committed (what asks nothing may wait for it; docs/adr/0006). A run ends when nothing
but the flush of unschedulable pods could still happen, when only repetition is left
(repetition.py), or when attempts do nothing but fail with errors. Where the log holds a run of the
same inputs already, it goes on from there (resumption.py).
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from eventsched import __version__
from eventsched.cluster.simulated.cluster import SimulatedCluster
from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.records import FORMAT, Queue
from eventsched.domain.records.logged import Logged
from eventsched.domain.state.scheduler_state import PodState
from eventsched.eventlog.port import EventLog, StoredSnapshot
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.effects.batches import Writer
from eventsched.runtime.effects.committer import Committer
from eventsched.runtime.simulation.repetition import repeating
from eventsched.runtime.simulation.run_counters import RunCounters
from eventsched.runtime.simulation.utilization import Meter
from eventsched.runtime.snapshot_policy import BYTE_SECONDS, FOLD_SECONDS, label
from eventsched.scheduling.engine import Engine

DEFAULT_SEED = "eventsched"
HOPELESS_AFTER = 1_000
"""Attempts in a row that ended in errors (or three for each waiting pod) before a run gives up."""


class KeptRun(msgspec.Struct):
    """A snapshot's body: the engine's state, and where the run was."""

    engine: msgspec.Raw
    observed: int
    scheduling: bool
    tally: dict[str, Any]
    meter: list[Any]
    cluster: list[Any]


class Simulation:
    """One run. ``tally`` and ``meter`` tell how it goes; ``engine`` holds the state at the end."""

    def __init__(
        self,
        assembly: Assembly,
        cluster: SimulatedCluster,
        log: EventLog | None,
        *,
        seed: str = DEFAULT_SEED,
        inputs: Mapping[str, str] | None = None,
        batch_size: int = 256,
        keep: Callable[[StoredSnapshot], None] | None = None,
        keep_every: int = 100_000,
    ) -> None:
        """``inputs`` are digests of what the run is made of, by name, for the stream's first
        record. Without a log nothing is recorded (for measuring). ``keep`` stores a snapshot; one
        is made after so many records and at the end. A log that is not empty is to be taken in by
        ``resumption.resume`` before the run."""
        self.engine: Engine = assembly.engine(with_detail=log is not None)
        self.tally = RunCounters(queues=self.engine.queue_lengths)
        self.meter = Meter(self.engine.state.nodes)
        self.cluster = cluster
        self.started = records.StreamStarted(
            format=FORMAT,
            engine=__version__,
            seed=seed,
            inputs={**(inputs or {}), "configuration": assembly.digest},
            configuration=assembly.text,
            flags=CURRENT,
            plugins=assembly.sources,
        )
        self.writer = Writer(self.engine.state, batch_size=batch_size)
        self.observed = 0
        """Things that happened in the cluster and were observed."""
        self.scheduling = False
        """Whether the present instant has come to its attempts."""
        self.ends_early = True
        """Whether the run ends as soon as only repetition is left."""
        self.kept_at = 0
        """The position of the newest snapshot."""
        self._unkept = 0
        self._log = log
        self._committer = Committer(log, cluster.execute)
        self._keep, self._keep_every = keep, keep_every
        if log is None or log.head == 0:
            self._write(self.engine.observe(self.started, 0))

    def run(
        self, until: int | None = None, progress: Callable[[RunCounters], None] | None = None
    ) -> RunCounters:
        """Runs to the end, or to a virtual time (µs) that is not passed. ``progress`` is called
        often and should return soon. Raises what the log raises."""
        if self._is_cut_off:
            self._instant(self.engine.state.now, progress)
        self.ends_early = until is None
        while not self.is_over and (now := self._next_instant()) is not None:
            if until is not None and now > until:
                self.meter.advance(max(until, self.engine.state.now))
                self.tally.now = max(until, self.engine.state.now)
                break
            self.meter.advance(now)
            self._instant(now, progress)
        self._commit()
        self._committer.settle()
        if self.kept_at < self.engine.position:
            self._keep_snapshot()
        return self.tally

    def snapshot(self, head_hash: bytes) -> StoredSnapshot:
        """The run as it is, at a moment when all that was decided is committed."""
        kept = KeptRun(
            engine=msgspec.Raw(self.engine.snapshot()),
            observed=self.observed,
            scheduling=self.scheduling,
            tally=self.tally.snapshot(),
            meter=self.meter.snapshot(),
            cluster=self.cluster.snapshot(),
        )
        return StoredSnapshot(
            position=self.engine.position,
            hash=head_hash,
            digest=self.engine.state.digest(),
            version=label(),
            body=zlib.compress(msgspec.json.encode(kept), 1),
        )

    @property
    def hopeless(self) -> bool:
        """Whether attempts only end in errors: pods that fail so are tried again and again, for as
        long as virtual time goes on, and a broken plugin would keep a run from ever ending."""
        queues = self.engine.queue_lengths
        waiting = queues[Queue.ACTIVE] + queues[Queue.BACKOFF]
        return self.tally.errors_in_a_row >= max(HOPELESS_AFTER, 3 * waiting)

    @property
    def repeats(self) -> list[PodState]:
        """The pods that come to the same end again and again, where nothing else is left
        (repetition.py). None in a run to a given time: that goes on to its end."""
        if not self.ends_early or self.cluster.next_at is not None:
            return []
        return repeating(self.tally.rounds, self.engine.state)

    @property
    def is_over(self) -> bool:
        """Whether what is left leads nowhere."""
        return self.hopeless or bool(self.repeats)

    @property
    def _is_cut_off(self) -> bool:
        """Whether the log ends within an instant that cannot be found again by what is to come."""
        flush = self.engine.flush_due
        overdue = flush is not None and flush <= self.engine.state.now
        return self.scheduling or not self.engine.idle or overdue

    def _next_instant(self) -> int | None:
        awaited = [self.cluster.next_at, self.engine.due]
        times = [time for time in awaited if time is not None]
        if not times:
            return None
        flush = self.engine.flush_due
        return max(self.engine.state.now, min(times if flush is None else [*times, flush]))

    def _instant(self, now: int, progress: Callable[[RunCounters], None] | None) -> None:
        self.tally.now = now
        if not self.scheduling:
            self._observe_all(now, progress)
        while logged := self.engine.schedule_next():
            self._write(logged)
            if progress is not None:
                progress(self.tally)
        if self.writer.has_effects:
            self._commit()
        self.scheduling = False
        # Outcomes of effects are the next things that may happen.
        self._committer.settle()
        self._keep_snapshot_when_due()

    def _observe_all(self, now: int, progress: Callable[[RunCounters], None] | None) -> None:
        for number, stimulus in enumerate(self.cluster.take(now)):
            self.observed += 1
            self._write(self.engine.observe(stimulus, now))
            if progress is not None and number % 256 == 255:
                progress(self.tally)
        self.scheduling = True
        timers = (self.engine.due, self.engine.flush_due)
        if any(due is not None and due <= now for due in timers):
            self._write(self.engine.observe(records.TimePassed(), now))

    def _write(self, logged: list[Logged]) -> None:
        for each in logged:
            self.tally.count(each.record)
        self.writer.add(logged)
        if self.writer.full:
            self._commit()
            if self.scheduling:
                self._keep_snapshot_when_due()

    def _commit(self) -> None:
        pending = self.writer.close(b"[%d,%d]" % (self.observed, self.scheduling))
        if pending is not None:
            if self._keep is not None:
                self._unkept += sum(len(each.body) for each in pending.batch.records)
            self._committer.offer(pending)

    def _keep_snapshot_when_due(self) -> None:
        many = self.engine.position - self.kept_at >= self._keep_every
        if self._keep is not None and (many or self._unkept * BYTE_SECONDS >= FOLD_SECONDS):
            self._commit()
            self._committer.settle()
            self._keep_snapshot()

    def _keep_snapshot(self) -> None:
        if self._keep is not None and self._log is not None:
            self._keep(self.snapshot(self._log.head_hash))
            self.kept_at, self._unkept = self.engine.position, 0
