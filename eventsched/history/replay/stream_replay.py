"""Replays a stream: ``rebuild`` applies its records, ``verify`` makes every decision again.

``verify`` gives a fresh engine only the logged stimuli and compares the engine's events with the
logged ones, byte for byte. The first difference ends the replay and is reported with its plugin and
node, unless an older version is known to have caused it (tolerances.py).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from eventsched.domain.detail_levels import DetailLevels
from eventsched.domain.errors import NewerLogError
from eventsched.domain.objects import canonical
from eventsched.domain.records import AnyRecord, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.state.digest import digest_of
from eventsched.domain.state.state_snapshot import copied
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog, StoredRecord, StoredSnapshot
from eventsched.history.replay.engine_versions import EngineOfTerm, engine_for
from eventsched.history.replay.logged_state import LoggedState, ReplayStart, apply_stored
from eventsched.history.replay.partial_vectors import PartialDetails, PartialVectorCheck
from eventsched.history.replay.tolerances import Tolerance, escaped, tolerance
from eventsched.history.replay.vector_differences import in_vectors
from eventsched.scheduling.engine import Engine

_STIMULI = frozenset(row.name for row in CATALOGUE if row.is_stimulus)
ABSENT = "nothing"


@dataclass(frozen=True)
class Divergence:
    """The first difference between log and replay. ``what`` names a field, or a plugin and column;
    ``expected`` is the logged value, ``came`` the replayed one."""

    position: int
    kind: str
    pod: str
    what: str
    expected: str
    came: str

    def __str__(self) -> str:
        pod = f", pod {self.pod}" if self.pod else ""
        return (
            f"position {self.position} ({self.kind}{pod}): {self.what}: "
            f"expected {self.expected}, came {self.came}"
        )


@dataclass
class ReplayResult:
    """How far a replay came. ``engine`` holds the state there."""

    engine: Engine
    records: int = 0
    decisions: int = 0
    placed: int = 0
    answers: int = 0
    divergence: Divergence | None = None
    tolerated: Counter[Tolerance] = field(default_factory=Counter)
    """Steps that differ for a known cause."""

    def count(self, stored: StoredRecord) -> None:
        """Counts a record."""
        self.records += 1
        self.decisions += stored.kind == "PodDecided"
        self.placed += stored.kind == "PodBound"
        self.answers += stored.kind == "ExtenderReplied"


Progress = Callable[[ReplayResult], None]


def rebuild(
    engine: Engine,
    log: StoredLog,
    until: int | None = None,
    snapshot: StoredSnapshot | None = None,
    progress: Progress | None = None,
    *,
    end: int = 0,
    start: ReplayStart = ReplayStart(),  # noqa: B008 - immutable
) -> ReplayResult:
    """Applies the records from ``start`` to before position ``until`` (all, for None) to a new
    engine. If the replay passes the position of ``snapshot``, the states are compared. The log has
    to reach to ``end``; otherwise the result has a divergence."""
    result = ReplayResult(start.begin(engine))
    try:
        for stored in _in_order(log, end, start.position):
            if _differs_from_snapshot(snapshot, result, stored.position):
                return result
            if until is not None and stored.position >= until:
                return result
            apply_stored(engine, stored)
            result.count(stored)
            if progress is not None and not result.records % 1_000:
                progress(result)
        _differs_from_snapshot(snapshot, result, engine.position)
    except CorruptLogError as problem:
        result.divergence = _corrupt(problem)
    return result


def verify(
    make_engine: Callable[[], Engine],
    log: StoredLog,
    until: int | None = None,
    snapshot: StoredSnapshot | None = None,
    progress: Progress | None = None,
    *,
    end: int = 0,
    engine_of_term: EngineOfTerm | None = None,
    start: ReplayStart = ReplayStart(),  # noqa: B008 - immutable
    partial_details: PartialDetails | None = None,
) -> ReplayResult:
    """Makes every decision again, up to the first difference. ``make_engine`` makes an engine with
    the configuration and plugins in force at ``start``, ``engine_of_term`` one for a term with
    others. ``partial_details`` are the vectors of best nodes to compare, from ``start`` on. The
    other parameters are those of ``rebuild``."""
    replay = _DecisionReplay(make_engine, log, until, engine_of_term, start)
    replay.partial_vectors = PartialVectorCheck(partial_details or iter(()))
    return replay.run(snapshot, progress, end)


class _DecisionReplay:
    """One run of ``verify``."""

    def __init__(
        self,
        make_engine: Callable[[], Engine],
        log: StoredLog,
        until: int | None,
        engine_of_term: EngineOfTerm | None,
        start: ReplayStart,
    ) -> None:
        self._make_engine, self._log, self._until = make_engine, log, until
        self._engine_of_term, self._start = engine_of_term, start
        self._logged_state = LoggedState(make_engine, log, engine_of_term, start)
        self._result = ReplayResult(start.begin(make_engine()))
        self.partial_vectors = PartialVectorCheck(iter(()))

    def run(
        self, snapshot: StoredSnapshot | None, progress: Progress | None, end: int
    ) -> ReplayResult:
        """Replays step by step."""
        result = self._result
        try:
            for step in _steps(_in_order(self._log, end, self._start.position)):
                if _differs_from_snapshot(snapshot, result, step[0].position):
                    return result
                if self._until is not None and step[0].position >= self._until:
                    return result
                if not self._replay(step):
                    return result
                if progress is not None:
                    progress(result)
            _differs_from_snapshot(snapshot, result, result.engine.position)
        except CorruptLogError as problem:
            result.divergence = _corrupt(problem)
        return result

    def _replay(self, step: list[StoredRecord]) -> bool:
        """Replays one step, of the last one only the records before ``until``. Returns whether to
        go on. Raises CorruptLogError."""
        result, first = self._result, step[0].position
        result.engine = engine_for(result.engine, step[0], self._engine_of_term)
        result.engine.set_detail(DetailLevels(self.partial_vectors.level(step)))
        replayed = decide_again(result.engine, step[0])
        logged = step if self._until is None else step[: self._until - first]
        is_cut = len(logged) < len(step)
        if is_cut:
            replayed = replayed[: len(logged)]
        index = _first_difference(logged, replayed)
        if index is not None and not self._tolerate(logged, replayed):
            before = self._engine_before(first)
            result.divergence = _divergence(logged, replayed, index, before, self._log)
            return False
        if index is None and (differs := self.partial_vectors.difference(replayed)) is not None:
            entry, expected, came = differs
            what, fields = "the stored vectors of the best nodes", [_fields(StoredRecord.of(entry))]
            pod = _pod_of(fields, logged, replayed, result.engine)
            kind = type(entry.record).__name__
            result.divergence = Divergence(entry.position, kind, pod, what, expected, came)
            return False
        for stored in logged:
            result.count(stored)
        if is_cut:
            result.engine = self._engine_before(first + len(logged))
        return not is_cut

    def _tolerate(self, logged: list[StoredRecord], replayed: list[LogEntry]) -> bool:
        """Whether the difference has a known cause. It is counted then, and the engine gets the
        logged state."""
        result = self._result
        stored = [StoredRecord.of(event) for event in replayed]
        cause = tolerance(logged, stored, result.engine.state, _STIMULI)
        if cause is None:
            return False
        result.tolerated[cause] += 1
        if cause is not Tolerance.ESCAPED_NUL:
            result.engine = self._logged_state.engine_at(logged[0].position + len(logged))
        return True

    def _engine_before(self, position: int) -> Engine:
        """An engine with the logged state before a position, read from the start on."""
        engine = self._start.begin(self._make_engine())
        for stored in self._log.read(self._start.position):
            if stored.position >= position:
                break
            engine = engine_for(engine, stored, self._engine_of_term)
            apply_stored(engine, stored)
        return engine


# --- reading ------------------------------------------------------------------------------


def _in_order(log: StoredLog, end: int, begin: int) -> Iterator[StoredRecord]:
    """The records of a log from position ``begin`` on. Raises CorruptLogError for a gap, and for an
    end before ``end``."""
    expected = begin
    for stored in log.read(begin):
        if stored.position != expected:
            raise CorruptLogError(expected, f"is not there: position {stored.position} follows")
        yield stored
        expected += 1
    if expected < end:
        raise CorruptLogError(expected, f"is not there: the log should reach to {end}")


def _steps(log: Iterator[StoredRecord]) -> Iterator[list[StoredRecord]]:
    """The records grouped by step. If reading fails, the records of the unfinished step are yielded
    first, because they may differ themselves."""
    step: list[StoredRecord] = []
    try:
        for stored in log:
            if step and stored.cause != step[0].position:
                yield step
                step = []
            step.append(stored)
    except CorruptLogError:
        if step:
            yield step
        raise
    if step:
        yield step


def decide_again(engine: Engine, first: StoredRecord) -> list[LogEntry]:
    """The engine's records for a step that begins with ``first``: a stimulus, or a scheduling
    attempt. Raises CorruptLogError."""
    if first.kind not in _STIMULI:
        return engine.schedule_next()
    try:
        record: AnyRecord = first.record
        assert isinstance(record, Stimulus)
        return engine.observe(record, first.at)
    except NewerLogError:
        raise
    except (msgspec.MsgspecError, ValueError, LookupError, AssertionError) as problem:
        raise CorruptLogError(first.position, f"cannot be taken in: {problem}") from problem


# --- differences --------------------------------------------------------------------------


def _first_difference(step: list[StoredRecord], replayed: list[LogEntry]) -> int | None:
    """The index of the first record that differs; None if all are equal."""
    for index in range(max(len(step), len(replayed))):
        if (
            index >= min(len(step), len(replayed))
            or StoredRecord.of(replayed[index]) != step[index]
        ):
            return index
    return None


def _divergence(
    step: list[StoredRecord],
    replayed: list[LogEntry],
    index: int,
    engine: Engine,
    log: StoredLog,
) -> Divergence:
    """What differs at ``index`` of a step. ``engine`` is in the state before the step."""
    old = step[index] if index < len(step) else None
    new = StoredRecord.of(replayed[index]) if index < len(replayed) else None
    old_fields, new_fields = _fields(old), _fields(new)
    difference = None
    if step[0].kind not in _STIMULI:
        difference = in_vectors(step, engine, log)
    for name in {**old_fields, **new_fields}:
        if difference is None and old_fields.get(name) != new_fields.get(name):
            difference = name, _field_text(old_fields, name), _field_text(new_fields, name)
    if difference is None:
        difference = "the record's bytes", str(old and old.body), str(new and new.body)
    return Divergence(
        step[0].position + index,
        (old or new or step[0]).kind,
        _pod_of([old_fields, new_fields], step, replayed, engine),
        *difference,
    )


def _fields(stored: StoredRecord | None) -> dict[str, Any]:
    if stored is None:
        return {}
    try:
        body: dict[str, Any] = msgspec.json.decode(stored.body)
    except msgspec.MsgspecError as problem:
        raise CorruptLogError(stored.position, str(problem)) from problem
    return {"kind": stored.kind, "at": stored.at, "cause": stored.cause, **body}


def _field_text(fields: dict[str, Any], name: str) -> str:
    if name not in fields:
        return ABSENT
    value = fields[name]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _pod_of(
    differing: list[dict[str, Any]],
    step: list[StoredRecord],
    replayed: list[LogEntry],
    engine: Engine,
) -> str:
    """The pod that a difference is about: that of the differing records, else of their step."""
    in_step = (*map(_fields, step), *(_fields(StoredRecord.of(event)) for event in replayed))
    for fields in (*differing, *in_step):
        pod = fields.get("pod")
        uid = fields.get("uid") or (pod.get("uid") if isinstance(pod, dict) else None)
        if uid is not None:
            state = engine.state.pods.get(uid)
            return state.pod.full_name if state else str(uid)
    return ""


# --- snapshots and damaged logs -----------------------------------------------------------


def _differs_from_snapshot(
    snapshot: StoredSnapshot | None, result: ReplayResult, position: int
) -> bool:
    """Whether the snapshot is of this position but of another state; the result then has the
    divergence."""
    if snapshot is None or snapshot.position != position:
        return False
    state = result.engine.state
    digest = state.digest()
    as_escaped = digest_of(copied(state), lambda value: escaped(canonical(value)))
    if as_escaped == snapshot.digest != digest:
        result.tolerated[Tolerance.ESCAPED_NUL] += 1
    elif digest != snapshot.digest:
        result.divergence = Divergence(
            position, "snapshot", "", "state digest", snapshot.digest, digest
        )
    return result.divergence is not None


def _corrupt(problem: CorruptLogError) -> Divergence:
    return Divergence(problem.position, "stored", "", "the row", "a record", problem.problem)
