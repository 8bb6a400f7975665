"""The scheduler's state at any position of a log: the newest stored state before it, and the
records after that.

Only ``SchedulerState`` is needed for it, no configuration and no plugin. ``FoldedState.opening``
says which these were, for an engine that goes on from there.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeGuard

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.records import StreamStarted, TermBegan
from eventsched.domain.records.stimuli import in_force
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import StateSnapshot
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog
from eventsched.eventlog.postgres.pruning import archived_files
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import DecodedRecord
from eventsched.runtime import gc_tuning
from eventsched.runtime.log_start import last_start
from eventsched.runtime.snapshot_policy import engine_state

Opening = StreamStarted | TermBegan
"""The record that says which configuration and plugins are in force."""
_OPENINGS = (StreamStarted, TermBegan)
_UNUSABLE = (msgspec.MsgspecError, LookupError, ValueError, InputError)
"""What a snapshot raises that is damaged, or that a newer version wrote."""


class StoredState(NamedTuple):
    """A state that is stored beside a log: that before the record at a position, for
    ``Engine.restore``, and its digest."""

    position: int
    body: bytes | StateSnapshot
    digest: str


class FoldedState(NamedTuple):
    """The state before the record at ``position``. ``first`` is the position of the stored state
    that it was made from (0: none), so ``position - first`` records were applied. ``opening`` is
    None before the first record."""

    state: SchedulerState
    position: int
    first: int
    opening: Opening | None


def is_opening(record: object) -> TypeGuard[Opening]:
    """Whether a record puts a configuration in force."""
    is_term = isinstance(record, TermBegan) and record.engine != ""
    return is_term or isinstance(record, StreamStarted)


def stored_states(reader: Reader, position: int) -> Iterator[StoredState]:
    """The stored states up to a position that are of this history and in a format of this version,
    the newest first: snapshots, then the newest checkpoint."""
    before = position + 1
    while (stored := reader.snapshot(before)) is not None:
        if reader.hash_before(stored.position) == stored.hash:
            body = engine_state(stored)
            if body is not None:
                yield StoredState(stored.position, body, stored.digest)
        before = stored.position
    start = last_start(reader, position)
    if start is not None:
        yield StoredState(start.position, start.state, start.digest)


def opening_at(reader: Reader, position: int) -> Opening:
    """The record that names the configuration in force at a position, or what a seal says about it.
    Raises LookupError if neither is there."""
    for first in reader.term_starts(position):
        if first < reader.begin:
            break
        record = next(reader.read(first)).record
        if is_opening(record):
            return record
    start = last_start(reader, position)
    if start is None:
        raise LookupError(f"no term began before {position}")
    return start.opening


def state_at(log: StoredLog, reader: Reader | None, position: int, end: int) -> FoldedState:
    """The state before the record at a position of a log that ends at ``end``. ``reader`` reads the
    database that the log is in, or continues in; None if there is none. Raises InputError for a
    position after the end or in a part that was dropped, and CorruptLogError."""
    if not 0 <= position <= end:
        raise InputError("--at", f"the log ends at position {end}", f"name a position up to {end}")
    with gc_tuning.paused():
        return applied(log, _start(log, reader, position), position)


def applied(log: StoredLog, folded: FoldedState, end: int) -> FoldedState:
    """A state after the records of a log up to position ``end``; ``folded`` is used up. Raises
    CorruptLogError."""
    state, opening = folded.state, folded.opening
    apply = state.apply
    for at, _, _, record in decoded(log, folded.position, end):
        try:
            apply(record, at)
        except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
            raise CorruptLogError(state.position, f"does not fit: {problem!r}") from problem
        if type(record) in _OPENINGS and is_opening(record):
            opening = record
    if state.position != end:
        raise CorruptLogError(state.position, "is missing")
    return FoldedState(state, end, folded.first, opening)


def decoded(log: StoredLog, first: int, end: int) -> Iterable[DecodedRecord]:
    """The records of a log from position ``first`` up to ``end``, or to its own end if that comes
    before, one for each position. Raises CorruptLogError, also for a gap."""
    if first >= end:
        return ()
    return log.decoded(first, end) if isinstance(log, Reader) else _decoded(log, first, end)


def _decoded(log: StoredLog, first: int, end: int) -> Iterator[DecodedRecord]:
    for expected, stored in enumerate(log.read(first), first):
        if stored.position >= end:
            return
        if stored.position != expected:
            raise CorruptLogError(expected, f"is not there: position {stored.position} follows")
        try:
            record = stored.record
        except msgspec.MsgspecError as problem:
            raise CorruptLogError(stored.position, f"does not fit: {problem!r}") from problem
        yield DecodedRecord(stored.at, stored.cause, stored.version, record)


def _start(log: StoredLog, reader: Reader | None, position: int) -> FoldedState:
    """The newest stored state that can be used, or the empty one."""
    for stored in () if reader is None else stored_states(reader, position):
        state = SchedulerState()
        try:
            snapshot.restore(state, stored.body)
            assert reader is not None
            opening = opening_at(reader, stored.position)
        except _UNUSABLE:
            continue
        if state.in_force == in_force(opening):
            return FoldedState(state, stored.position, stored.position, opening)
    if isinstance(log, Reader) and position and log.begin:
        raise dropped_error(log, position)
    return FoldedState(SchedulerState(), 0, 0, None)


def dropped_error(reader: Reader, position: int, where: str = "--at") -> InputError:
    """The error for a position whose records are needed and were dropped. It names ``where``, and
    the files of the archive that has them."""
    files = archived_files(reader, min(position, reader.begin - 1))
    remedy = "add --from-archive FOLDER, if there is an archive"
    if files:
        shown = files[0] if len(files) == 1 else f"{files[0]} to {files[-1]}"
        remedy = f"an archive has them ({shown}): add --from-archive FOLDER"
    problem = (
        f"position {position} needs records before position {reader.begin}, which were dropped"
    )
    return InputError(where, problem, remedy)


def require_begin(log: Reader, where: str) -> None:
    """Raises InputError, naming ``where``, if the beginning of a log was dropped: it cannot be
    copied then."""
    if log.begin:
        problem = dropped_error(log, log.begin - 1)
        copied = f"copies the log up to the range; {problem.problem}"
        raise InputError(where, copied, problem.remedy)
