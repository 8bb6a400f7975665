"""A stream again: its state folded from the log, or every decision made anew and compared.

``fold`` applies what is stored. ``verify`` gives a fresh engine the stored stimuli only, has it
decide, and holds what it says against what is written, byte for byte; the first difference ends it
and is named down to the plugin and the node, but for those that an older version is known to have
caused (tolerances.py).
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from eventsched.domain import records
from eventsched.domain.objects import canonical
from eventsched.domain.records import AnyRecord, Stimulus
from eventsched.domain.records.logged import Logged
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.state.digest import digest_of
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import Stored, StoredLog, StoredSnapshot
from eventsched.history.replay.engine_versions import EngineOfTerm, engine_for
from eventsched.history.replay.tolerances import Tolerance, escaped, tolerance
from eventsched.history.replay.vector_differences import in_vectors
from eventsched.scheduling.engine import Engine

_STIMULI = frozenset(row.name for row in CATALOGUE if row.is_stimulus)
ABSENT = "nothing"


@dataclass(frozen=True)
class Divergence:
    """Where replay and log part: ``what`` names a field, or plugin and column; ``expected`` is what
    is written, ``came`` what was decided now."""

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
    """How far a replay came; ``engine`` holds the state there."""

    engine: Engine
    records: int = 0
    decisions: int = 0
    placed: int = 0
    answers: int = 0
    divergence: Divergence | None = None
    tolerated: Counter[Tolerance] = field(default_factory=Counter)
    """Steps that differ by a known cause."""

    def count(self, stored: Stored) -> None:
        """Takes in a record."""
        self.records += 1
        self.decisions += stored.kind == "PodDecided"
        self.placed += stored.kind == "PodBound"
        self.answers += stored.kind == "ExtenderReplied"


Progress = Callable[[ReplayResult], None]


def fold(
    engine: Engine,
    log: StoredLog,
    until: int | None = None,
    snapshot: StoredSnapshot | None = None,
    progress: Progress | None = None,
    *,
    end: int = 0,
) -> ReplayResult:
    """The state after the records before ``until`` (all, for None), by applying them to a new
    engine. A snapshot on the way is held against it. The log has to reach to ``end``."""
    done = ReplayResult(engine)
    try:
        for stored in _in_order(log, end):
            if _is_told_apart(snapshot, done, stored.position):
                return done
            if until is not None and stored.position >= until:
                return done
            _apply(engine, stored)
            done.count(stored)
            if progress is not None and not done.records % 1_000:
                progress(done)
        _is_told_apart(snapshot, done, engine.position)
    except CorruptLogError as problem:
        done.divergence = _corrupt(problem)
    return done


def verify(
    make: Callable[[], Engine],
    log: StoredLog,
    until: int | None = None,
    snapshot: StoredSnapshot | None = None,
    progress: Progress | None = None,
    *,
    end: int = 0,
    remake: EngineOfTerm | None = None,
) -> ReplayResult:
    """Decides everything again; ends at the first difference. ``make`` gives a new engine with the
    stream's configuration and plugins, ``remake`` one for a term that has others; the rest is as it
    is for ``fold``."""
    done, written = ReplayResult(make()), _Written(make, log, remake)
    try:
        for step in _steps(_in_order(log, end)):
            first = step[0].position
            if _is_told_apart(snapshot, done, first):
                return done
            if until is not None and first >= until:
                return done
            done.engine = engine_for(done.engine, step[0], remake)
            came = _again(done.engine, step[0])
            wanted = step if until is None else step[: until - first]
            if len(wanted) < len(step):
                came = came[: len(wanted)]
            index = _first_difference(wanted, came)
            known = None
            if index is not None:
                kept = [Stored.of(each) for each in came]
                known = tolerance(wanted, kept, done.engine.state, _STIMULI)
            if known is not None:
                done.tolerated[known] += 1
                if known is not Tolerance.ESCAPED_NUL:
                    done.engine = written.engine(first + len(wanted))
            elif index is not None:
                before = _engine_before(first, make, log, remake)
                done.divergence = _explained(wanted, came, index, before, log)
                return done
            for stored in wanted:
                done.count(stored)
            if len(wanted) < len(step):
                done.engine = _engine_before(first + len(wanted), make, log, remake)
                return done
            if progress is not None:
                progress(done)
        _is_told_apart(snapshot, done, done.engine.position)
    except CorruptLogError as problem:
        done.divergence = _corrupt(problem)
    return done


# --- reading ------------------------------------------------------------------------------


def _in_order(log: StoredLog, end: int) -> Iterator[Stored]:
    """The records of a log, seen to be without gaps."""
    expected = 0
    for stored in log.read():
        if stored.position != expected:
            raise CorruptLogError(expected, f"is not there: position {stored.position} follows")
        yield stored
        expected += 1
    if expected < end:
        raise CorruptLogError(expected, f"is not there: the log should reach to {end}")


def _steps(read: Iterator[Stored]) -> Iterator[list[Stored]]:
    """The records grouped by the step that made them. Where reading ends in an error, what was read
    of a step comes first: it may be wrong itself."""
    step: list[Stored] = []
    try:
        for stored in read:
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


def _apply(engine: Engine, stored: Stored) -> None:
    try:
        engine.apply(stored.logged)
    except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
        raise CorruptLogError(stored.position, f"does not fit: {problem!r}") from problem


def _again(engine: Engine, first: Stored) -> list[Logged]:
    """What the engine makes of a step's stimulus, or of its turn to schedule."""
    if first.kind not in _STIMULI:
        return engine.schedule_next()
    try:
        record: AnyRecord = first.record
        assert isinstance(record, Stimulus)
        return engine.observe(record, first.at)
    except (msgspec.MsgspecError, ValueError, LookupError, AssertionError) as problem:
        raise CorruptLogError(first.position, f"cannot be taken in: {problem}") from problem


def _engine_before(
    position: int, make: Callable[[], Engine], log: StoredLog, remake: EngineOfTerm | None
) -> Engine:
    engine = make()
    for stored in log.read():
        if stored.position >= position:
            break
        engine = engine_for(engine, stored, remake)
        _apply(engine, stored)
    return engine


class _Written:
    """The state as it is written, for a replay that has decided otherwise and has to go on from
    there. It follows the log as far as it is asked, so that all of these read the log once."""

    def __init__(
        self, make: Callable[[], Engine], log: StoredLog, remake: EngineOfTerm | None
    ) -> None:
        self._make, self._remake = make, remake
        self._log = log
        self._records: Iterator[Stored] | None = None
        self._engine: Engine | None = None

    def engine(self, position: int) -> Engine:
        """A new engine with the state before a position, which is not before the last one."""
        if self._records is None or self._engine is None:
            self._records, self._engine = self._log.read(), self._make()
        while self._engine.position < position:
            stored = next(self._records)
            following = engine_for(self._engine, stored, self._remade)
            self._engine = following
            _apply(self._engine, stored)
        found = self._make()
        found.restore(self._engine.snapshot(), self._engine.position)
        return found

    @property
    def _remade(self) -> EngineOfTerm | None:
        """Remembers what makes the engines from there on."""
        remake = self._remake
        if remake is None:
            return None

        def remade(began: records.TermBegan) -> Engine:
            self._make = lambda: remake(began)
            return remake(began)

        return remade


# --- differences --------------------------------------------------------------------------


def _first_difference(step: list[Stored], came: list[Logged]) -> int | None:
    """The index of the first pair that is not equal."""
    for index in range(max(len(step), len(came))):
        if index >= min(len(step), len(came)) or Stored.of(came[index]) != step[index]:
            return index
    return None


def _explained(
    step: list[Stored],
    came: list[Logged],
    index: int,
    engine: Engine,
    log: StoredLog,
) -> Divergence:
    """``engine`` is as it was before the step."""
    stored = step[index] if index < len(step) else None
    logged = Stored.of(came[index]) if index < len(came) else None
    old, new = _fields(stored), _fields(logged)
    found = None
    if step[0].kind not in _STIMULI:
        found = in_vectors(step, engine, log)
    for name in {**old, **new}:
        if found is None and old.get(name) != new.get(name):
            found = name, _shown(old, name), _shown(new, name)
    kind = (stored or logged or step[0]).kind
    if found is None:
        found = "the record's bytes", str(stored and stored.body), str(logged and logged.body)
    return Divergence(
        step[0].position + index, kind, _pod_of([old, new], step, came, engine), *found
    )


def _fields(stored: Stored | None) -> dict[str, Any]:
    if stored is None:
        return {}
    try:
        body: dict[str, Any] = msgspec.json.decode(stored.body)
    except msgspec.MsgspecError as problem:
        raise CorruptLogError(stored.position, str(problem)) from problem
    return {"kind": stored.kind, "at": stored.at, "cause": stored.cause, **body}


def _shown(fields: dict[str, Any], name: str) -> str:
    if name not in fields:
        return ABSENT
    value = fields[name]
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _pod_of(
    fields: list[dict[str, Any]], step: list[Stored], came: list[Logged], engine: Engine
) -> str:
    """The pod that a difference is about: of the records that differ, or else of their step."""
    for each in (*fields, *map(_fields, step), *(_fields(Stored.of(each)) for each in came)):
        pod = each.get("pod")
        uid = each.get("uid") or (pod.get("uid") if isinstance(pod, dict) else None)
        if uid is not None:
            state = engine.state.pods.get(uid)
            return state.pod.full_name if state else str(uid)
    return ""


# --- what else can be wrong ---------------------------------------------------------------


def _is_told_apart(snapshot: StoredSnapshot | None, done: ReplayResult, position: int) -> bool:
    """Whether the snapshot is of this position and of another state; then that is noted."""
    if snapshot is None or snapshot.position != position:
        return False
    state = done.engine.state
    digest = state.digest()
    if digest_of(state, lambda value: escaped(canonical(value))) == snapshot.digest != digest:
        done.tolerated[Tolerance.ESCAPED_NUL] += 1
    elif digest != snapshot.digest:
        done.divergence = Divergence(
            position, "snapshot", "", "state digest", snapshot.digest, digest
        )
    return done.divergence is not None


def _corrupt(problem: CorruptLogError) -> Divergence:
    return Divergence(problem.position, "stored", "", "the row", "a record", problem.problem)
