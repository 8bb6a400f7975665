"""A world whose log lives long: it is partitioned, sealed, archived, thinned and dropped. Its
database is slow or full for a while, and clocks are set while processes run.

The product's housekeeping, sealing, archiver and standbys run as they are (tasks.py,
log_queries.py, archiving.py). Any of them may be interrupted at any of its queries, by anything
that happens here.
"""

import zlib
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from eventsched.cluster.messages import Unknown
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.domain.records import Stimulus, verdicts
from eventsched.domain.units import SECOND
from eventsched.eventlog.archive import archiver
from eventsched.eventlog.archive.archive_notes import note_archived
from eventsched.eventlog.log_errors import CorruptLogError, HistoryChangedError
from eventsched.eventlog.postgres import housekeeping
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Acquired,
    Append,
    DatabaseRequest,
    Deposed,
    Message,
    Request,
    StoreSnapshot,
)
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live import log_housekeeping
from eventsched.runtime.live.clock import Clock
from eventsched.runtime.live.follower import Follower
from eventsched.runtime.live.log_housekeeping import Retention, keep_house

from . import cluster
from .archiving import FOLDER, ArchiveFolder, MemoryDayWriter
from .invariants import ViolationError, ensure
from .log_queries import Connection, MemoryReader, MemoryTail
from .partitioned_database import PARTITION_RECORDS, NoRoomError, PartitionedDatabase
from .processes import Flight, Process
from .reloads import ReloadedWorld
from .retention import RetentionAuditor
from .tasks import Call, Sleep, Task, YieldingWorker, finished, without_event_loop

ADDRESS = "postgresql:///log"
LIMITS = Limits(records=24, size=12_000, touches=3, reports=3, snapshot_every=30)
VECTORS_AGE, RECORDS_AGE = 0.5, 1.5
"""Seconds for which vectors and records are kept."""
HOUSE_AFTER, HOUSE_EVERY = 0.02, 0.3
"""Seconds before the housekeeping of a term, and between two looks."""
DAY_LENGTH = SECOND // 2
"""A day of the archive, in µs."""
MOST_STANDBYS = 3
SETTLING_STEPS = 6_000
NEVER = 10**18
_NANO = 1_000


class KilledError(BaseException):
    """The process that makes this call has died."""


class LongLivedMutant(NamedTuple):
    """What replaces the product's rules. ``patches`` are modules or classes, names in them, and
    values. With ``raw_clock`` processes have the clock of their machine."""

    database: type[PartitionedDatabase] = PartitionedDatabase
    day_writer: type[MemoryDayWriter] = MemoryDayWriter
    patches: tuple[tuple[Any, str, Any], ...] = ()
    raw_clock: bool = False


class LivingProcess(Process):
    """A process with a clock, a follower, and the housekeeping of its term."""

    def __init__(self, name: str, number: int, leader: Leader, skew: int) -> None:
        super().__init__(name, number, leader, skew)
        self.clock: Callable[[], int] = lambda: 0
        self.follower: Follower
        self.house: Task | None = None
        self.house_ready_at = 0
        self.rounds = 0
        """How often the housekeeping has begun to wait."""
        self.submitted: deque[Stimulus] = deque()

    @property
    def accepts_stimuli(self) -> bool:
        """See StimulusReceiver."""
        return self.leader.leading

    def submit(self, stimulus: Stimulus) -> None:
        """See StimulusReceiver."""
        self.submitted.append(stimulus)


def long_lived_leader(followed_stream: FollowedStream) -> Leader:
    """A leader that often stores a snapshot."""
    return Leader(followed_stream, cluster.OPENING, LIMITS)


class LongLivedWorld(ReloadedWorld):
    """One run. Odd seeds drop records without an archive."""

    audited_by = RetentionAuditor
    auditor: RetentionAuditor
    database: PartitionedDatabase
    processes: dict[str, LivingProcess]  # type: ignore[assignment]
    limits = LIMITS

    def __init__(
        self,
        seed: int,
        *,
        lossy: bool = False,
        mutant: LongLivedMutant = LongLivedMutant(),  # noqa: B008  immutable
    ) -> None:
        super().__init__(seed, lossy=lossy, make_leader=long_lived_leader, database=mutant.database)
        self.mutant = mutant
        needs_archive = seed % 2 == 0
        self.retention = Retention(VECTORS_AGE, RECORDS_AGE, needs_archive)
        self.folder = ArchiveFolder(self._at_archive_step, self.now - 4000 * SECOND, DAY_LENGTH)
        self.auditor.watch(self.folder, needs_archive=needs_archive)
        self.standbys: list[Follower] = []
        self.cut_off: list[Follower] = []
        """Standbys that do not read the log any more, until they run for leader."""
        self._chosen: Follower | None = None
        self._caller: LivingProcess | None = None
        """Whose call asks the database."""
        self._is_within = False
        """Whether this happens between two queries of something else."""
        self._timeline = 0
        """The database's when its caller connected."""
        self.slow_until = 0

    # --- a run ----------------------------------------------------------------------------

    def run(self, steps: int = 600) -> "LongLivedWorld":
        """See World."""
        with self.in_place():
            super().run(steps)
        self.counts["dropped partitions"] += len(self.database.tables.pruned)
        self.counts["thinned partitions"] += self.auditor.thinned_count
        return self

    def in_place(self) -> ExitStack:
        """Has the product's modules ask this world's database."""
        stack = without_event_loop()
        stack.enter_context(self.folder.in_place(self.mutant.day_writer))
        for module, name, value in (
            (housekeeping, "connect", lambda *_: Connection(self.database, self._at_query)),
            (housekeeping, "for_login", nullcontext),
            (log_housekeeping, "_AFTER", HOUSE_AFTER),
            (log_housekeeping, "_EVERY", HOUSE_EVERY),
            (verdicts, "DELTA_BLOCK", PARTITION_RECORDS),
            *self.mutant.patches,
        ):
            stack.enter_context(patch.object(module, name, value))
        return stack

    def _able(self) -> list[Callable[[], None]]:
        events = super()._able()
        for process in self.processes.values():
            if process.paused_until > self.now:
                continue
            if process.house is not None and process.house_ready_at <= self.now:
                events.append(partial(self._keep_house, process))
            if process.submitted:
                events.append(partial(self._pass_on, process))
        return events

    def _skip_ahead(self) -> None:
        before = self.now
        super()._skip_ahead()
        times = [each.house_ready_at for each in self.processes.values() if each.house is not None]
        later = [time for time in times if before < time < NEVER]
        if later:
            self.now = min(later) if self.now == before else min(self.now, *later)

    # --- processes ------------------------------------------------------------------------

    def _followed_stream(self, name: str) -> FollowedStream:
        """Of a standby that has followed the log up to some time before, or of a new one."""
        ready = [each for each in (self.standbys, self.cut_off) if each]
        if self._chosen is not None:
            return self._chosen._followed_stream
        if ready and self.rng.random() < 0.7:
            chosen = self.rng.choice(ready)
            self.counts["start standby" if chosen is self.standbys else "start cut off"] += 1
            self._chosen = chosen.pop(self.rng.randrange(len(chosen)))
        else:
            self.counts["start cold"] += 1
            self._chosen = self._new_follower(self._make_followed_stream())
        return self._chosen._followed_stream

    def _new_follower(self, followed_stream: FollowedStream) -> Follower:
        return Follower(
            followed_stream,
            MemoryTail(self.database),
            YieldingWorker("reader"),  # type: ignore[arg-type]
        )

    def _new_process(
        self, name: str, number: int, followed_stream: FollowedStream, leader: Leader, skew: int
    ) -> LivingProcess:
        process = LivingProcess(name, number, leader, skew)
        chosen, self._chosen = self._chosen, None
        process.follower = chosen or self._new_follower(followed_stream)
        if self.mutant.raw_clock:
            process.clock = lambda: self.now + process.skew
        else:
            process.clock = Clock(
                lambda: (self.now + process.skew) * _NANO, lambda: self.now * _NANO
            ).now
        process.house = Task(
            keep_house(ADDRESS, cluster.STREAM, self.retention, process, process.clock)
        )
        process.house_ready_at = self.now + round(HOUSE_AFTER * SECOND)
        return process

    def _clock(self, process: Process) -> int:
        assert isinstance(process, LivingProcess)
        return process.clock()

    def _when(self, process: Process, time: int) -> int:
        """A clock that is behind runs at most half as fast again."""
        ahead = time - self._clock(process)
        return self.now + max(1, ahead * 2 // 3) if ahead > 0 else self.now

    def crash(self, process: Process) -> None:
        """See World."""
        assert isinstance(process, LivingProcess)
        super().crash(process)
        process.house = None

    # --- housekeeping ---------------------------------------------------------------------

    def _pass_on(self, process: LivingProcess) -> None:
        self.deliver(process, process.submitted.popleft())

    def _keep_house(self, process: LivingProcess) -> None:
        """Carries on the housekeeping of a process: until it waits, or asks the database again."""
        task = process.house
        assert task is not None
        self._caller, within = process, self._is_within
        process.house_ready_at, self._timeline = NEVER, self.database.timeline
        try:
            if isinstance(task.awaits, Sleep):
                task.sent()
            elif self._happens("lose request"):
                task.failed(UnavailableError("the database", "is unreachable", ""))
            elif self._happens("lose answer"):
                self._carry_out_unanswered(task)
            else:
                task.carry_on()
        except KilledError:
            self.counts["crash in housekeeping"] += 1
            return
        finally:
            self._caller, self._is_within = None, within
        wait = task.awaits
        if isinstance(wait, Sleep):
            process.rounds += 1
            process.house_ready_at = self.now + round(wait.seconds * SECOND)
        else:
            process.house_ready_at = self.now + self._slowness()

    def _carry_out_unanswered(self, task: Task) -> None:
        assert isinstance(task.awaits, Call)
        self.counts["housekeeping unanswered"] += 1
        try:
            task.awaits.function(*task.awaits.arguments)
        except UnavailableError as problem:
            task.failed(problem)
        else:
            task.failed(UnavailableError("the database", "does not answer", ""))

    def _at_query(self) -> None:
        """Before a query of the housekeeping or of the archiver. A failover ends connections."""
        if not self.faults or self._is_within:
            return
        drawn = self.rng.random()
        if drawn < 0.02:
            raise UnavailableError("the database", "is unreachable", "")
        if drawn < 0.12:
            self._others_go_on()

    def _others_go_on(self) -> None:
        """Other things happen between two steps of something."""
        caller, timeline, self._is_within = self._caller, self._timeline, True
        self.counts["between two queries"] += 1
        for _ in range(self.rng.randint(1, 4)):
            self.step()
        self._caller, self._timeline, self._is_within = caller, timeline, False
        if caller is not None and not caller.alive:
            raise KilledError
        if self.database.timeline != timeline:
            raise UnavailableError("the database", "has failed over", "")

    # --- the archive ----------------------------------------------------------------------

    def archive(self) -> bool:
        """Archives the days that are over, unless something goes wrong. Returns whether to try
        again, because files of lost history were removed."""
        today = self.folder.day_of(self.now)
        reader = MemoryReader(self.database, self._at_query)
        within, self._timeline = self._is_within, self.database.timeline
        try:
            for _ in archiver._archived(reader, FOLDER, today, today):  # type: ignore[arg-type]
                self.counts["day archived"] += 1
            note_archived(ADDRESS, FOLDER, cluster.STREAM, self.folder.manifests())  # type: ignore[arg-type]
        except KilledError:
            self.counts["archiver killed"] += 1
        except OSError:
            self.counts["archive without room"] += 1
        except UnavailableError:
            self.counts["archiver without database"] += 1
        except (InputError, CorruptLogError) as problem:
            return self._archive_refused(problem)
        finally:
            self._is_within = within
        return False

    def _archive_refused(self, problem: Exception) -> bool:
        """The archive is of lost history, or records were dropped that it should have continued
        with: only where that may be. An operator removes the files of lost history."""
        self.counts[f"archive refused: {type(problem).__name__}"] += 1
        is_lossy = self.database.timeline > 1
        ensure(is_lossy or not self.retention.needs_archive, f"the archiver: {problem}")
        if is_lossy and self.folder.batches:
            self.folder.remove_last_day()
            return True
        return False

    def _at_archive_step(self) -> None:
        if not self.faults:
            return
        drawn = self.rng.random()
        if drawn < 0.04:
            raise KilledError
        if drawn < 0.06:
            raise OSError(28, "No space left on device")
        if drawn < 0.2 and not self._is_within:
            self._others_go_on()

    # --- requests -------------------------------------------------------------------------

    def _slowness(self) -> int:
        return self.rng.randint(0, 3 * SECOND) if self.now < self.slow_until else 0

    def _send(self, process: Process, requests: list[Request]) -> None:
        count = len(self.flights)
        super()._send(process, requests)
        for flight in self.flights[count:]:
            if isinstance(flight.request, DatabaseRequest):
                flight.held_until = max(flight.held_until, self.now + self._slowness())

    def _carry_out(self, flight: Flight) -> Message | None:
        request = flight.request
        if isinstance(request, StoreSnapshot):
            body = zlib.compress(request.snapshot.body, 1)
            self.database.store_snapshot(request.term, request.snapshot._replace(body=body))
            return None
        try:
            return super()._carry_out(flight)
        except NoRoomError:
            assert isinstance(request, Append)
            self.counts["append without room"] += 1
            return Unknown(request)

    def _answer(self, flight: Flight) -> None:
        """A term begins when its process has read the log up to its head."""
        process, answer = flight.process, flight.answer
        if isinstance(answer, Acquired) and process.alive:
            assert isinstance(process, LivingProcess)
            known, begin = process.follower._followed_stream.head, self.database.kept[:1]
            if known.next > 0 and begin and known.next < begin[0].first:
                self.counts["start behind the log"] += 1
            try:
                finished(process.follower.catch_up(answer.head))
            except HistoryChangedError as problem:
                flight.answer = Deposed(str(problem))
            except UnavailableError:
                raise ViolationError("a term waits forever for records that were lost") from None
            assert isinstance(flight.request, Acquire)
        super()._answer(flight)

    # --- faults ---------------------------------------------------------------------------

    def _fault(self) -> bool:
        drawn = self.rng.random()
        for name, rate, happens in self._happenings():
            drawn -= rate
            if drawn < 0:
                self.counts[name] += 1
                self.trace.append((self.steps, self.now, name))
                happens()
                return True
        return super()._fault()

    def _happenings(self) -> list[tuple[str, float, Callable[[], object]]]:
        return [
            ("archive", 0.0 if self._is_within else 0.03, self.archive),
            ("standby", 0.03, self._follow),
            ("clock set", 0.01, self._set_clock),
            ("slow database", 0.004, self._slow_down),
            ("full disk", 0.004, self._fill_disk),
            ("room again", 0.03 if self.database.room is not None else 0.0, self._make_room),
        ]

    def _follow(self) -> None:
        """A standby begins to follow the log, or reads some more of it. Every other one is cut off
        after its first look."""
        if len(self.standbys) + len(self.cut_off) < MOST_STANDBYS and self.rng.random() < 0.3:
            standby = self._new_follower(self._make_followed_stream())
            finished(standby._step())
            self.rng.choice([self.standbys, self.cut_off]).append(standby)
        if self.standbys:
            finished(self.rng.choice(self.standbys)._step())

    def _set_clock(self) -> None:
        """The clock of a process is set, by up to an hour."""
        for process in self.processes.values():
            process.skew += self.rng.choice([-3600, -10, -1, 1, 10, 3600]) * SECOND

    def _slow_down(self) -> None:
        self.slow_until = self.now + self.rng.randint(1, 10 * SECOND)

    def _fill_disk(self) -> None:
        if self.database.room is None:
            self.database.room = self.rng.randint(0, 6_000)

    def _make_room(self) -> None:
        self.database.room = None

    # --- the end --------------------------------------------------------------------------

    def _calm_down(self) -> None:
        super()._calm_down()
        self.slow_until = 0
        for process in self.processes.values():
            process.house_ready_at = min(process.house_ready_at, self.now + SECOND)

    def step(self) -> None:
        """See World. Without faults there is room again unless retention makes it."""
        if not self.faults and self.database.room is not None and not self._will_be_dropped():
            self.database.room = None
        super().step()

    def _will_be_dropped(self) -> bool:
        times = [self._clock(each) for each in self.processes.values()]
        before = max(times, default=self.now) - round(RECORDS_AGE * SECOND)
        return self.database.prunable(before) is not None

    def _until_converged(self) -> None:
        super()._until_converged()
        self._until_kept()
        [process] = self.processes.values()
        self.auditor.converged(process.leader)
        self.auditor.kept()

    def _until_kept(self) -> None:
        """Archives everything, and waits until housekeeping has nothing left to do."""
        self.now += 2 * DAY_LENGTH
        while self.archive():
            pass
        idle, before = 0, self.database.tables
        for _ in range(SETTLING_STEPS):
            if not self.processes:
                self.start("A")
            [process] = self.processes.values()
            rounds = process.rounds
            self.step()
            if process.rounds > rounds:
                is_same = before == self.database.tables
                idle, before = (idle + 1 if is_same else 0), self.database.tables
            if idle >= 4 and self._is_done(process):
                before_time = self._clock(process) - round((RECORDS_AGE + 2) * SECOND)
                ensure(self.database.prunable(before_time) is None, "an old partition stays")
                ensure(not self.database.thinnable(before_time), "old vectors stay")
                return
        raise ViolationError(f"housekeeping goes on after {SETTLING_STEPS} steps")
