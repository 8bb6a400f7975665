"""A simulation: the engine, a log and a simulated cluster, run in virtual time to the end.

Only virtual time exists here. At each instant everything that happens is observed, then attempts
are made until the active queue is empty; the clock moves on when all of that is committed. A run
ends when nothing but the flush of unschedulable pods could still happen, or when attempts do
nothing but fail with errors.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from eventsched import __version__
from eventsched.cluster.port import Cluster
from eventsched.domain import records
from eventsched.domain.records import FORMAT, Outcome, PodBound, PodDecided, Queue, Record, Stimulus
from eventsched.eventlog.port import EventLog
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.meter import Meter
from eventsched.runtime.writer import Writer
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.ledger import Logged

DEFAULT_SEED = "eventsched"
HOPELESS_AFTER = 1_000
"""Attempts in a row that ended in errors (or three for each waiting pod) before a run gives up."""


@dataclass
class Tally:
    """What has happened so far; ``messages`` are the last words said of each pod that waits,
    ``failures`` the first ones of each plugin that failed."""

    placed: int = 0
    attempts: int = 0
    decided: int = 0
    arrived: int = 0
    errors: int = 0
    errors_in_a_row: int = 0
    now: int = 0
    queues: Mapping[Queue, int] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def count(self, record: Record) -> None:
        """Takes in a record."""
        match record:
            case PodDecided():
                self.attempts += 1
                broken = record.outcome is Outcome.ERROR
                self.errors += broken
                self.decided += record.outcome is Outcome.SCHEDULED
                if broken and record.plugin:
                    self.failures.setdefault(record.plugin, record.message)
                self.errors_in_a_row = self.errors_in_a_row + 1 if broken else 0
                if record.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
                    self.messages[record.uid] = record.message
            case PodBound():
                self.placed += 1
                self.messages.pop(record.uid, None)
            case records.PodDeleted():
                self.messages.pop(record.uid, None)


class Simulation:
    """One run. ``tally`` and ``meter`` tell how it goes; ``engine`` holds the state at the end."""

    def __init__(
        self,
        assembly: Assembly,
        cluster: Cluster,
        log: EventLog | None,
        *,
        seed: str = DEFAULT_SEED,
        inputs: Mapping[str, str] | None = None,
        batch_size: int = 256,
    ) -> None:
        """``inputs`` are digests of what the run is made of, by name, for the stream's first
        record. Without a log nothing is recorded (for measuring)."""
        self.engine: Engine = assembly.engine(with_detail=log is not None)
        self.tally = Tally(queues=self.engine.queue_lengths)
        self.meter = Meter(self.engine.state.nodes)
        self._cluster = cluster
        self._writer = Writer(log, self.engine.state, cluster.execute, batch_size=batch_size)
        self._observe(
            records.StreamStarted(
                format=FORMAT,
                engine=__version__,
                seed=seed,
                inputs={**(inputs or {}), "configuration": assembly.digest},
                plugins=assembly.sources,
            ),
            0,
        )

    def run(
        self, until: int | None = None, progress: Callable[[Tally], None] | None = None
    ) -> Tally:
        """Runs to the end, or to a virtual time (µs) that is not passed. ``progress`` is called
        often and should return soon."""
        while (now := self._next_instant()) is not None and (until is None or now <= until):
            self.meter.advance(now)
            self._instant(now, progress)
            if self.hopeless:
                break
        else:
            if now is not None and until is not None:
                self.meter.advance(until)
                self.tally.now = until
        self._writer.commit()
        return self.tally

    @property
    def hopeless(self) -> bool:
        """Whether attempts only end in errors: pods that fail so are tried again and again, for as
        long as virtual time goes on, and a broken plugin would keep a run from ever ending."""
        queues = self.engine.queue_lengths
        waiting = queues[Queue.ACTIVE] + queues[Queue.BACKOFF]
        return self.tally.errors_in_a_row >= max(HOPELESS_AFTER, 3 * waiting)

    def _next_instant(self) -> int | None:
        awaited = [self._cluster.next_at, self.engine.due]
        times = [time for time in awaited if time is not None]
        if not times:
            return None
        flush = self.engine.flush_due
        return max(self.engine.state.now, min(times if flush is None else [*times, flush]))

    def _instant(self, now: int, progress: Callable[[Tally], None] | None) -> None:
        self.tally.now = now
        for number, stimulus in enumerate(self._cluster.take(now)):
            self._observe(stimulus, now)
            if progress is not None and number % 256 == 255:
                progress(self.tally)
        timers = (self.engine.due, self.engine.flush_due)
        if any(due is not None and due <= now for due in timers):
            self._observe(records.TimePassed(), now)
        while logged := self.engine.schedule_next():
            self._write(logged)
            if progress is not None:
                progress(self.tally)
        self._writer.commit()

    def _observe(self, stimulus: Stimulus, at: int) -> None:
        if isinstance(stimulus, records.PodAdded) and not stimulus.pod.node_name:
            self.tally.arrived += 1
        self._write(self.engine.observe(stimulus, at))

    def _write(self, logged: list[Logged]) -> None:
        for each in logged:
            self.tally.count(each.record)
        self._writer.add(logged)
