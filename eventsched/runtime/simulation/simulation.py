"""A simulation: the engine, a log and a simulated cluster, run in virtual time to the end.

At each instant of virtual time:

1. Everything that happens is observed.
2. Attempts are made until the active queue is empty.
3. The simulated cluster gets the effects. It ends with this process and is rebuilt from the log, so
   effects need not wait for the commit (docs/adr/0026): batches are committed when they are full.

A run ends when only the flush of unschedulable pods could still happen, when only repetition
is left (repetition.py), or when attempts only fail with errors. If the log already holds a run of
the same inputs, that run is continued (resumption.py).
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from eventsched import __version__
from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.detail_levels import DetailLevels
from eventsched.domain.records import FORMAT, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.eventlog.port import EventLog, StoredSnapshot
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.effects.batches import BatchBuilder
from eventsched.runtime.effects.committer import Committer
from eventsched.runtime.simulation.repetition import repeating
from eventsched.runtime.simulation.run_counters import RunCounters
from eventsched.runtime.simulation.utilization import Meter
from eventsched.runtime.snapshot_policy import (
    APPLY_SECONDS,
    BYTE_SECONDS,
    label,
    snapshot_distance,
)
from eventsched.scheduling.engine import Engine

DEFAULT_SEED = "eventsched"
BATCH_SIZE = 256
"""Records of a batch. Readers see the log of a running simulation in steps of this size."""
MAX_ERRORS_IN_A_ROW = 1_000
"""A run is given up after this many errors in a row, or three for each waiting pod if these are
more."""


class SimulationSnapshot(msgspec.Struct):
    """A snapshot's body: the engine's state and the progress of the run."""

    engine: msgspec.Raw
    observed: int
    instant_observed: bool = msgspec.field(name="scheduling")
    counters: dict[str, Any] = msgspec.field(name="tally")
    utilization: list[Any] = msgspec.field(name="meter")
    cluster: list[Any]


class Simulation:
    """One run. ``counters`` and ``utilization`` show its progress; ``engine`` has the
    state."""

    def __init__(
        self,
        assembly: Assembly,
        cluster: InMemoryCluster,
        log: EventLog | None,
        *,
        seed: str = DEFAULT_SEED,
        inputs: Mapping[str, str] | None = None,
        batch_size: int | None = None,
        store_snapshot: Callable[[StoredSnapshot], None] | None = None,
        snapshot_every: int | None = None,
        detail_levels: DetailLevels | None = None,
        begins: SchedulerState | None = None,
        watch: Callable[[list[LogEntry]], None] = lambda logged: None,
    ) -> None:
        """``inputs`` are digests of the run's inputs, by name, for the stream's first record.
        ``begins`` is a state that a run without a log goes on from; it is used up.
        ``watch`` is called with the records of each step.
        ``detail_levels`` says which vectors are stored, by default all. Without a log nothing is
        recorded; this is for measuring. ``store_snapshot`` is called every ``snapshot_every``
        records (None: ``snapshot_distance``) and at the end. ``batch_size`` is BATCH_SIZE by
        default. If the log is not empty, ``resumption.resume`` must be called before ``run``."""
        self.engine: Engine = assembly.engine(
            with_detail=log is not None, detail_levels=detail_levels, state=begins
        )
        self.counters = RunCounters(queues=self.engine.queue_lengths)
        self.utilization = Meter(self.engine.state.nodes)
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
        self.batch_builder = BatchBuilder(self.engine.state, batch_size=batch_size or BATCH_SIZE)
        self.observed = 0
        """How many stimuli of the cluster were observed."""
        self.instant_observed = False
        """Whether all stimuli of the current instant were observed, so that attempts may be
        made."""
        self.ends_early = True
        """Whether the run ends as soon as only repetition is left."""
        self.snapshot_position = 0
        """The position of the newest snapshot."""
        self._bytes_since_snapshot = 0
        self._log = log
        self._committer = Committer(log)
        self._store, self._snapshot_every = store_snapshot, snapshot_every
        self._watch = watch
        if begins is None and (log is None or log.head == 0):
            self._write(self.engine.observe(self.started, 0))

    def run(
        self, until: int | None = None, progress: Callable[[RunCounters], None] | None = None
    ) -> RunCounters:
        """Runs to the end, or up to the virtual time ``until`` (µs). ``progress`` is called often
        and should return soon. Raises what the log raises."""
        if self._is_cut_off:
            self._instant(self.engine.state.now, progress)
        self.ends_early = until is None
        while not self.is_over and (now := self._next_instant()) is not None:
            if until is not None and now > until:
                self.utilization.advance(max(until, self.engine.state.now))
                self.counters.now = max(until, self.engine.state.now)
                break
            self.utilization.advance(now)
            self._instant(now, progress)
        self._commit()
        if self.snapshot_position < self.engine.position:
            self._store_snapshot()
        self._committer.wait()
        return self.counters

    def take_in(self, stimulus: records.Stimulus) -> None:
        """Records a stimulus that does not come from the cluster, between two runs."""
        self._write(self.engine.observe(stimulus, self.engine.state.now))
        self._commit()
        self._committer.wait()

    def snapshot(self) -> StoredSnapshot:
        """A snapshot of the run, without the hash of the log's last batch: that one may not be
        committed yet."""
        run = SimulationSnapshot(
            engine=msgspec.Raw(self.engine.snapshot()),
            observed=self.observed,
            instant_observed=self.instant_observed,
            counters=self.counters.snapshot(),
            utilization=self.utilization.snapshot(),
            cluster=self.cluster.snapshot(),
        )
        return StoredSnapshot(
            position=self.engine.position,
            hash=b"",
            digest=self.engine.state.digest(),
            version=label(),
            body=zlib.compress(msgspec.json.encode(run), 1),
        )

    @property
    def only_errors(self) -> bool:
        """Whether attempts only end in errors. Such pods are retried as long as virtual time goes
        on, so a broken plugin would keep a run from ever ending."""
        queues = self.engine.queue_lengths
        waiting = queues[Queue.ACTIVE] + queues[Queue.BACKOFF]
        return self.counters.errors_in_a_row >= max(MAX_ERRORS_IN_A_ROW, 3 * waiting)

    @property
    def repeats(self) -> list[PodState]:
        """The pods that only repeat, if nothing else is left (repetition.py). Empty in a run to a
        given time: that always goes on to its end."""
        if not self.ends_early or self.cluster.next_at is not None:
            return []
        return repeating(self.counters.rounds, self.engine.state)

    @property
    def is_over(self) -> bool:
        """Whether the run is to be given up."""
        return self.only_errors or bool(self.repeats)

    @property
    def _is_cut_off(self) -> bool:
        """Whether the log ends in the middle of an instant, which has to be finished first."""
        flush = self.engine.flush_due
        overdue = flush is not None and flush <= self.engine.state.now
        return self.instant_observed or not self.engine.idle or overdue

    def _next_instant(self) -> int | None:
        next_times = (self.cluster.next_at, self.engine.due)
        times = [time for time in next_times if time is not None]
        if not times:
            return None
        flush = self.engine.flush_due
        return max(self.engine.state.now, min(times if flush is None else [*times, flush]))

    def _instant(self, now: int, progress: Callable[[RunCounters], None] | None) -> None:
        self.counters.now = now
        if not self.instant_observed:
            self._observe_all(now, progress)
        while logged := self.engine.schedule_next():
            self._write(logged)
            self._committer.advance()
            if progress is not None:
                progress(self.counters)
        self.instant_observed = False
        self._execute_effects()  # their outcomes may be the next stimuli
        self._store_snapshot_when_due()

    def _observe_all(self, now: int, progress: Callable[[RunCounters], None] | None) -> None:
        for number, stimulus in enumerate(self.cluster.due_stimuli(now)):
            self.observed += 1
            self._write(self.engine.observe(stimulus, now))
            if progress is not None and number % 256 == 255:
                progress(self.counters)
        self.instant_observed = True
        timers = (self.engine.due, self.engine.flush_due)
        if any(due is not None and due <= now for due in timers):
            self._write(self.engine.observe(records.TimePassed(), now))

    def _write(self, logged: list[LogEntry]) -> None:
        for entry in logged:
            self.counters.count(entry.record)
        self._watch(logged)
        self.batch_builder.add(logged)
        if self.batch_builder.full:
            self._commit()
            if self.instant_observed:
                self._store_snapshot_when_due()

    def _execute_effects(self) -> None:
        for effect, at in self.batch_builder.take_effects():
            self.cluster.execute(effect, at)

    def _commit(self) -> None:
        self._execute_effects()
        closed = self.batch_builder.close(b"[%d,%d]" % (self.observed, self.instant_observed))
        if closed is not None:
            if self._store is not None:
                self._bytes_since_snapshot += sum(
                    len(stored.body) for stored in closed.batch.records
                )
            self._committer.begin(closed.batch)

    def _store_snapshot_when_due(self) -> None:
        if self._store is None:
            return
        every = self._snapshot_every or snapshot_distance(len(self.engine.state.pods))
        is_many = self.engine.position - self.snapshot_position >= every
        if is_many or self._bytes_since_snapshot * BYTE_SECONDS >= APPLY_SECONDS:
            self._commit()
            self._store_snapshot()

    def _store_snapshot(self) -> None:
        """Makes a snapshot, and stores it behind the batches that are under way."""
        if (store := self._store) is not None and self._log is not None:
            snapshot = self.snapshot()
            self._committer.then(lambda log: store(snapshot._replace(hash=log.head_hash)))
            self.snapshot_position, self._bytes_since_snapshot = self.engine.position, 0
