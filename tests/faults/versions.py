"""A world in which processes of two versions take terms in turns, while an operator upgrades the
schema in steps (docs/adr/0031-two-versions-on-one-log.md).

The next version has a migration of each step and a behaviour that post switches on: it decides
without Pairs. The product's own rules say who may run, which behaviours are in force, and whether a
step is refused.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from enum import IntEnum
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec

from eventsched.domain import behaviours
from eventsched.domain.behaviours import MODES, Behaviour
from eventsched.domain.errors import NewerLogError
from eventsched.domain.records import Stimulus, StreamStarted, TermBegan
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.schema import migration_files, migrations
from eventsched.eventlog.schema.migration_files import POST, PRE, STOP, MigrationFile
from eventsched.eventlog.schema.migrations import StoredVersion
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import Acquire, Acquired, Deposed, Message
from eventsched.runtime.live.replica_plan import ReplicaPlan
from eventsched.scheduling.engine import Engine

from . import cluster
from .database import Database
from .invariants import Auditor, ViolationError, ensure
from .processes import Flight, Process, standing_by
from .reloads import OTHER, engine_of
from .world import World

ADDRESS = "postgresql:///log"
NEW = max(Behaviour) + 1
"""The behaviour of the next version."""
OURS = migrations.newest()
PRE_REVISION, POST_REVISION = (f"{int(OURS) + step:04d}" for step in (1, 2))
_ALL = {behaviour.name: behaviour.value for behaviour in Behaviour}
_NextBehaviour = IntEnum("_NextBehaviour", {**_ALL, "WITHOUT_PAIRS": NEW})  # type: ignore[misc]
_OURS = migration_files.migrations()


class Version(NamedTuple):
    """A version of the product."""

    behaviours: Any
    migrations: tuple[MigrationFile, ...]

    @property
    def flags(self) -> tuple[int, ...]:
        """Its behaviours."""
        return tuple(number for number in self.behaviours if number not in MODES)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The block is executed by this version."""
        with ExitStack() as stack:
            switched_on_by = {NEW: POST_REVISION} if NEW in self.flags else {}
            for module, name, value in (
                (behaviours, "Behaviour", self.behaviours),
                (behaviours, "CURRENT", self.flags),
                (behaviours, "SWITCHED_ON_BY", switched_on_by),
                (migration_files, "migrations", lambda: self.migrations),
            ):
                stack.enter_context(patch.object(module, name, value))
            yield


THIS = Version(Behaviour, _OURS)
NEXT = Version(
    _NextBehaviour,
    (*_OURS, MigrationFile(PRE_REVISION, PRE), MigrationFile(POST_REVISION, POST)),
)
assert STOP in {migration.step for migration in _OURS}


def engine_as_of(flags: Collection[int]) -> Callable[[], Engine]:
    """Makes engines with these behaviours."""
    configuration = OTHER if NEW in flags else ""
    return lambda: engine_of(configuration)


def plan_of(version: Version) -> ReplicaPlan:
    """What a process of a version runs on a schema with everything."""
    return ReplicaPlan(
        make_engine=engine_as_of(version.flags),
        opening=msgspec.structs.replace(cluster.OPENING, flags=version.flags),
        address=ADDRESS,
        stream=cluster.STREAM,
        holder="",
        engine_as_of=engine_as_of,
    )


class VersionedDatabase(Database):
    """A database with a schema, and the sessions of those that follow the stream."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self._schemas = [(0, StoredVersion(OURS, ""))]
        """Each with the number of batches before it."""
        self.sessions: dict[int, str] = {}
        """Names of sessions, by the number of the process."""

    @property
    def schema(self) -> StoredVersion:
        """The present one."""
        return self._schemas[-1][1]

    def upgrade(self, step: str) -> bool:
        """``db upgrade`` of the next version, with a step. False if it is refused."""
        with NEXT.running():
            try:
                revision = migrations._target(ADDRESS, self.schema.revision, step)
                migrations._require_served(
                    self,  # type: ignore[arg-type]
                    ADDRESS,
                    migration_files.served(revision),
                )
            except DatabaseRefusedError:
                return False
            stored = StoredVersion(revision, migration_files.served(revision))
        if stored != self.schema:
            self._schemas.append((len(self.batches), stored))
        return True

    def scalars(self, _: object) -> list[str]:
        """The names of the sessions of replicas."""
        return sorted(self.sessions.values())

    def fail_over(self, count: int) -> None:
        """See Database. An upgrade after the last batch that is left is lost with it."""
        super().fail_over(count)
        before = [each for each in self._schemas if each[0] <= len(self.batches)]
        self._schemas = before or self._schemas[:1]


class VersionsAuditor(Auditor):
    """Replays each decision with the behaviours that were in force."""

    _database: VersionedDatabase
    _is_repeated = False

    def engine_for(self, stimulus: Stimulus, engine: Engine) -> Engine:
        """See Auditor."""
        if not isinstance(stimulus, StreamStarted | TermBegan) or not stimulus.engine:
            return engine
        successor = engine_as_of(stimulus.flags)()
        if engine.position:
            successor.restore(engine.snapshot(), engine.position)
        return successor

    def history_changed(self) -> None:
        """See Auditor."""
        with NEXT.running():
            super().history_changed()

    def read(self) -> None:
        """See Auditor. It knows both versions."""
        with NEXT.running():
            super().read()

    def _take(self, logged: LogEntry) -> None:
        record = logged.record
        if isinstance(record, StreamStarted | TermBegan) and NEW in record.flags:
            is_after = self._database.schema.revision >= POST_REVISION
            ensure(is_after, f"a behaviour is in force at {logged.position}, before step post")
        super()._take(logged)


class VersionsMutant(NamedTuple):
    """What replaces the product's rules: modules or classes, names in them, and values."""

    patches: tuple[tuple[Any, str, Any], ...] = ()
    looks: bool = True
    """Whether leaders look at the schema."""
    asks_at_terms: bool = True
    """Whether a term begins only with the behaviours that the schema then allows."""


class VersionedProcess(Process):
    """A process of a version."""

    def __init__(self, name: str, number: int, leader: Leader, skew: int) -> None:
        super().__init__(name, number, leader, skew)
        self.version = THIS
        self.plan = plan_of(THIS)
        self.is_late = False
        """Whether it has connected after post, having looked at the schema before."""


class VersionsWorld(World):
    """One run."""

    audited_by = VersionsAuditor
    database: VersionedDatabase
    processes: dict[str, VersionedProcess]  # type: ignore[assignment]

    def __init__(
        self,
        seed: int,
        *,
        lossy: bool = False,
        mutant: VersionsMutant = VersionsMutant(),  # noqa: B008  immutable
    ) -> None:
        super().__init__(seed, lossy=lossy, database=VersionedDatabase)
        self.mutant = mutant
        self._starting: tuple[Version, ReplicaPlan, bool] = THIS, plan_of(THIS), False

    def run(self, steps: int = 500) -> "VersionsWorld":
        """See World."""
        with self.in_place():
            super().run(steps)
        return self

    def in_place(self) -> ExitStack:
        """Replaces the rules that the mutant lacks."""
        stack = ExitStack()
        for module, name, value in self.mutant.patches:
            stack.enter_context(patch.object(module, name, value))
        return stack

    # --- processes ------------------------------------------------------------------------

    def start(self, name: str, version: Version | None = None) -> Process:
        """Starts a process of a version, if the schema runs it; else one of the next version. The
        schema may be upgraded after it has looked and before it is connected."""
        if version is None:
            is_ours = self.faults and self.rng.random() < 0.5
            version = THIS if is_ours or self.database.schema.revision == OURS else NEXT
        if not self.runs(version):
            self.counts["start refused"] += 1
            version = NEXT
        with version.running():
            plan = plan_of(version).on_schema(self.database.schema.revision)
        is_late = self.faults and self.rng.random() < 0.2 and self.upgrade(POST)
        self._starting = version, plan, is_late
        with version.running():
            try:
                return super().start(name)
            except NewerLogError as problem:
                self._require_late(is_late, problem)
        return self.start(name, NEXT)

    def runs(self, version: Version) -> bool:
        """Whether a version runs on the schema."""
        with version.running():
            return self.database.schema.runs_us

    def _followed_stream(self, name: str) -> FollowedStream:
        plan = self._starting[1]

        def make() -> FollowedStream:
            return FollowedStream(plan.make_engine, cluster.STREAM)

        followed_stream, kind = standing_by(self.rng, self.database, make)
        self.counts[f"start {kind}"] += 1
        return followed_stream

    def _new_process(
        self, name: str, number: int, followed_stream: FollowedStream, leader: Leader, skew: int
    ) -> VersionedProcess:
        version, plan, is_late = self._starting
        leader = Leader(followed_stream, plan.opening, cluster.LIMITS)
        process = VersionedProcess(name, number, leader, skew)
        process.version, process.plan, process.is_late = version, plan, is_late
        with version.running():
            self.database.sessions[number] = migrations.replica_session(cluster.STREAM)
        self.counts[
            "start of the next version" if version is NEXT else "start of this version"
        ] += 1
        return process

    def crash(self, process: Process) -> None:
        """See World."""
        super().crash(process)
        self.database.sessions.pop(process.number, None)

    def deliver(self, process: Process, message: Message) -> None:
        """See World."""
        assert isinstance(process, VersionedProcess)
        with process.version.running():
            try:
                super().deliver(process, message)
            except NewerLogError as problem:
                self._require_late(process.is_late, problem)
                self.crash(process)

    def _require_late(self, is_late: bool, problem: NewerLogError) -> None:
        self.counts["log of a newer version"] += 1
        if not is_late:
            raise ViolationError(f"a process that follows cannot read the log: {problem}")

    def _carry_out(self, flight: Flight) -> Message | None:
        """A term begins only if the schema runs the version."""
        process = flight.process
        assert isinstance(process, VersionedProcess)
        if isinstance(flight.request, Acquire) and not self.runs(process.version):
            self.counts["term refused"] += 1
            self.flights.remove(flight)
            if process.alive:
                self.crash(process)
            return None
        answer = super()._carry_out(flight)
        asks = self.mutant.asks_at_terms and isinstance(answer, Acquired)
        if asks and not self._are_allowed(process):
            self.counts["term on another schema"] += 1
            return Deposed("the schema has changed")
        return answer

    def _are_allowed(self, process: VersionedProcess) -> bool:
        """Whether the schema allows the behaviours of a process, and maybe more."""
        with process.version.running():
            plan = plan_of(process.version).on_schema(self.database.schema.revision)
        return set(process.plan.opening.flags) <= set(plan.opening.flags)

    def look_at_schema(self, process: VersionedProcess) -> None:
        """What a leader does once a minute."""
        if not self.mutant.looks:
            return
        if not self.runs(process.version):
            self.counts["leader refused"] += 1
            self.crash(process)
            return
        with process.version.running():
            plan = plan_of(process.version).on_schema(self.database.schema.revision)
            if plan.opening.flags != process.plan.opening.flags:
                self._reload(process, plan)

    def _reload(self, process: VersionedProcess, plan: ReplicaPlan) -> None:
        self.counts["behaviour taken up"] += 1
        stream = FollowedStream(plan.make_engine, cluster.STREAM)
        if process.leader.hand_over():
            carried = process.leader._followed_stream.reconfigured(plan.make_engine)
            assert carried is not None, "the state cannot be carried over"
            stream = carried
        self.crash(process)
        self._starting = process.version, plan, process.is_late
        successor = self._new_process(
            process.name, process.number, stream, process.leader, process.skew
        )
        self.processes[process.name] = successor
        self._send(successor, successor.leader.start())

    # --- the operator ---------------------------------------------------------------------

    def upgrade(self, step: str) -> bool:
        """A step of the upgrade."""
        done = self.database.upgrade(step)
        if done and step == POST:
            ours = [name for name, each in self.processes.items() if each.version is THIS]
            ensure(not ours, f"step post ends the processes {ours} of this version")
        self.counts[f"step {step}" if done else f"step {step} refused"] += 1
        return done

    def _fault(self) -> bool:
        drawn = self.rng.random()
        if drawn < 0.01:
            self.upgrade(PRE)
        elif drawn < 0.014:
            self.upgrade(POST)
        elif drawn < 0.04 and self.processes:
            self.look_at_schema(self.rng.choice(list(self.processes.values())))
        else:
            return super()._fault()
        self.trace.append((self.steps, self.now, *self.database.schema))
        return True

    def _calm_down(self) -> None:
        """See World. The operator replaces all processes of this version, and runs both steps."""
        super()._calm_down()
        self.upgrade(PRE)
        for process in list(self.processes.values()):
            if process.version is THIS:
                self.crash(process)
        ensure(self.upgrade(POST), "step post is refused, and no earlier version runs")

    def _is_done(self, process: Process) -> bool:
        assert isinstance(process, VersionedProcess)
        if not super()._is_done(process):
            return False
        if NEW not in process.leader.engine.state.flags:
            self.look_at_schema(process)
            return False
        return True

    def _until_converged(self) -> None:
        with NEXT.running():
            super()._until_converged()
