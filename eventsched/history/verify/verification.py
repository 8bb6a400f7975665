"""Verifies that a log is what was written: the chain, the records, the vectors, the derived rows.

Written from docs/log-format.md alone. It shares no code with the scheduler and uses only numpy,
psycopg and the standard library. Call ``verify_database`` or ``verify_file``.
"""

import gc
import json
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import psycopg

from eventsched.history.verify import verified_database, verified_log
from eventsched.history.verify.tables.verified_pods import KINDS, PodNowCheck
from eventsched.history.verify.tables.verified_rows import RowCheck
from eventsched.history.verify.tables.verified_typed_rows import TypedRowCheck
from eventsched.history.verify.verified_chain import ChainCheck
from eventsched.history.verify.verified_checkpoints import Checkpoint, CheckpointCheck
from eventsched.history.verify.verified_database import DatabaseLog
from eventsched.history.verify.verified_decisions import DecisionCheck, Facts
from eventsched.history.verify.verified_file import LogFile
from eventsched.history.verify.verified_log import (
    BatchRow,
    DamagedError,
    KeptStart,
    Log,
    NoLogError,
    Packed,
)
from eventsched.history.verify.verified_preemptions import LivePods, PreemptionCheck
from eventsched.history.verify.verified_problems import MOST_PROBLEMS, MissingDetails, Problem
from eventsched.history.verify.verified_start import SealCheck, checkpoint_state, start_hash


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_json = json.JSONDecoder(parse_constant=_refuse)
_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What reading a record of a wrong shape raises."""
Progress = Callable[[int, int], None]
"""Called after each batch with the position that is checked, and the log's end."""


@dataclass
class Result:
    """The result for one stream. ``problems`` are in order of position. ``details`` counts the
    decisions whose vectors were checked, ``partial`` those among them that have only the vectors
    of the best nodes, ``thinned`` those whose vectors are missing, and
    ``thinned_meanwhile`` those among them whose vectors were deleted during verification.
    ``proved_by`` is the newest checkpoint before the first problem: the records before its position
    are those that were signed; the hash chain alone speaks for later ones."""

    stream: str
    records: int = 0
    batches: int = 0
    decisions: int = 0
    details: int = 0
    partial: int = 0
    thinned: int = 0
    thinned_meanwhile: int = 0
    problems: list[Problem] = field(default_factory=list)
    proved_by: Checkpoint | None = None
    start: KeptStart | None = None
    checked_from: int = 0
    seconds: float = 0.0

    @property
    def first(self) -> Problem | None:
        """The first problem; None if there is none."""
        return self.problems[0] if self.problems else None

    @property
    def is_whole(self) -> bool:
        """Whether verification reached the end of the log."""
        return len(self.problems) < MOST_PROBLEMS


def verify_database(
    connection: psycopg.Connection[Any],
    streams: Collection[str] | None = None,
    *,
    thinned: bool = False,
    checkpoints: Collection[Checkpoint] = (),
    since: int = 0,
    progress: Progress = lambda checked, end: None,
) -> list[Result]:
    """Checks the named streams of a database, or all of them, each as of the time when its check
    begins. Batches appended later are not read. The connection must be idle. Nothing is changed,
    and no transaction lasts longer than one page. A stream is checked again if problems were found
    and records were dropped meanwhile. ``thinned`` allows details to be missing. Each
    stream has to agree with its ``checkpoints``, and has to exist if it has one. Records before the
    newest seal of records up to position ``since`` are left out. Raises psycopg.Error."""
    results = []
    for number, name in verified_database.streams(connection):
        if streams is None or name in streams:
            while True:
                log = DatabaseLog(connection, number, name, counts_details=not thinned, since=since)
                result = verify(log, thinned=thinned, checkpoints=checkpoints, progress=progress)
                if not result.problems or not log.was_pruned():
                    break
            results.append(result)
    existing = {result.stream for result in results}
    for name in sorted({checkpoint.stream for checkpoint in checkpoints} - existing):
        if streams is None or name in streams:
            problem = Problem(None, "there is a checkpoint of it, but no such stream any more")
            results.append(Result(name, problems=[problem]))
    for number in verified_database.nameless(connection) if streams is None else ():
        problem = Problem(None, "there are rows of it, but no row in table stream")
        results.append(Result(f"number {number}", problems=[problem]))
    return results


def verify_file(
    path: Path, *, thinned: bool = False, checkpoints: Collection[Checkpoint] = ()
) -> Result:
    """Checks an exported file. Raises OSError if it cannot be read, and NoLogError if it is not an
    exported log."""
    started = time.perf_counter()
    try:
        with closing(LogFile(path)) as log:
            return verify(log, thinned=thinned, checkpoints=checkpoints)
    except NoLogError:
        raise
    except DamagedError as damage:  # in its first line
        seconds = time.perf_counter() - started
        return Result(str(path), problems=[Problem(None, str(damage))], seconds=seconds)


def verify(
    log: Log,
    *,
    thinned: bool = False,
    checkpoints: Collection[Checkpoint] = (),
    progress: Progress = lambda checked, end: None,
) -> Result:
    """Checks one stream, also against its own checkpoints."""
    started = time.perf_counter()
    check = _Verification(log, thinned=thinned, checkpoints=checkpoints, progress=progress)
    with suppress(_EnoughError), _without_gc():
        check.run()
    result = check.result
    result.problems = sorted(result.problems, key=attrgetter("position"))[:MOST_PROBLEMS]
    result.proved_by = check.newest_checkpoint
    result.seconds = time.perf_counter() - started
    return result


@contextmanager
def _without_gc() -> Iterator[None]:
    """Switches the cyclic garbage collector off: there are no cycles, and many objects to scan."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _EnoughError(Exception):
    """MOST_PROBLEMS problems were found; verification ends."""


class _Verification:
    """One pass over a stream, batch by batch."""

    def __init__(
        self, log: Log, *, thinned: bool, checkpoints: Collection[Checkpoint], progress: Progress
    ) -> None:
        self._log, self._progress = log, progress
        self._end = log.head.next if log.head is not None else 0
        self.result = Result(log.stream)
        self._in_batch: list[Problem] = []
        """Problems of the present batch."""
        start = self.result.start = log.start
        self._state = None if start is None else checkpoint_state(start, self._report)
        self._facts = Facts() if self._state is None else self._state.facts
        self._missing = MissingDetails(log)
        self._decisions = DecisionCheck(
            self._facts, log.detail, self._report, self._missing.add, thinned=thinned
        )
        self._pods = LivePods() if self._state is None else self._state.live_pods
        self._preemptions = PreemptionCheck(
            self._facts, self._pods, log.detail, self._report, self._missing.add, thinned=thinned
        )
        tables = log.tables
        self._rows = None if tables is None else RowCheck(tables, self._report)
        self._pods_now = None if tables is None else PodNowCheck(tables, self._report)
        self._typed_rows = None if tables is None else TypedRowCheck(tables, self._report)
        snapshots = [] if tables is None else tables.snapshots()
        begin = None if start is None else (start.position, start_hash(start, self._report))
        self._chain = ChainCheck(log.stream, log.epochs, snapshots, self._report, begin)
        self._seals = SealCheck(log, self._report)
        own = [checkpoint for checkpoint in checkpoints if checkpoint.stream == log.stream]
        self._checkpoints = CheckpointCheck(own, self._report, self._chain.next)
        self._step, self._now = -1, -(2**63)
        self._lost = start is not None
        """Whether records are missing; later records cannot be checked then."""
        self._begin_state()

    def run(self) -> None:
        """Checks everything. Raises _EnoughError."""
        self._checkpoints.end_of_batch(self._chain.next, self._chain.hash)  # of an empty stream
        try:
            for batch in self._log.batches():
                self._batch(batch)
        except DamagedError as damage:
            self._report(self._chain.next, damage.advice)
            self._flush()
            return
        self._check_end()
        self._flush()

    @property
    def newest_checkpoint(self) -> Checkpoint | None:
        """The newest checkpoint that agrees with the chain and lies before every problem."""
        positions = (problem.position for problem in self.result.problems)
        sound = min((at for at in positions if at is not None), default=self._chain.next)
        agreeing = (found for found in self._checkpoints.matched if found.position <= sound)
        return max(agreeing, key=attrgetter("position"), default=None)

    def _begin_state(self) -> None:
        """At the position of the checkpoint, if the first records were dropped: from there on
        records can be checked."""
        state = self._state
        if state is None or state.position != self._chain.next:
            return
        self._state, self._lost = None, False
        self.result.checked_from = state.position
        if self._rows is not None and self._typed_rows is not None:
            self._rows.begin(state.position, state.verdicts, state.columns)
            self._typed_rows.begin(state.position, state.pods)
        if self._pods_now is not None:
            self._pods_now.begin(state.pods)

    def _report(self, position: int, text: str) -> None:
        self._in_batch.append(Problem(position, text))

    def _flush(self) -> None:
        """Moves the problems of a batch to the result. Raises _EnoughError."""
        result = self.result
        result.details = self._decisions.checked + self._preemptions.checked
        result.partial = self._decisions.partial + self._preemptions.partial
        result.thinned = self._decisions.thinned + self._preemptions.thinned
        self._in_batch += self._missing.known()
        if self._in_batch:
            result.problems += self._in_batch
            self._in_batch.clear()
            if len(result.problems) >= MOST_PROBLEMS:
                raise _EnoughError

    def _batch(self, batch: BatchRow) -> None:
        if not self._chain.link(batch):
            self._lost = True
        self._checkpoints.end_of_batch(self._chain.next, self._chain.hash)
        details = self._log.details(batch.end)
        self._missing.seen += len(details)
        items = self._items(batch)
        if not self._lost:
            self._records(batch, items, details)
        elif self._rows is not None and self._typed_rows is not None:
            self._rows.pass_over(batch.end)
            self._typed_rows.pass_over(batch.end)
        self._begin_state()
        self.result.batches += 1
        self.result.records += len(items)
        self._flush()
        self._progress(batch.end, self._end)

    def _check_end(self) -> None:
        self._chain.finish(self._log.head)
        self._checkpoints.finish(self._chain.next)
        if not self._lost:
            self._seals.finish(self.result.checked_from)
        if self._rows is not None and not self._lost:
            self._rows.finish(self._chain.next)
        if self._typed_rows is not None and not self._lost:
            self._typed_rows.finish(self._chain.next)
        if self._pods_now is not None and not self._lost:
            self._pods_now.finish(self._chain.next)
        for detail in self._log.details(2**63)[:1]:
            self._report(detail.seq, "a detail row for a position after the end of the log")
        self._in_batch += self._missing.left()
        vanished = self._decisions.vanished + self._preemptions.vanished
        self.result.thinned_meanwhile = self._missing.thinned + vanished

    # --- the records ----------------------------------------------------------------------

    def _items(self, batch: BatchRow) -> list[Any]:
        """The batch's records; none if the body is malformed, which is reported."""
        try:
            _json.decode(batch.mark.decode())
            items = _json.decode(batch.body.decode())
        except (ValueError, RecursionError) as problem:
            self._report(batch.first, f"body or mark is not JSON ({problem}), expected some")
            self._lost = True
            return []
        if not isinstance(items, list) or len(items) != batch.count or not items:
            content = f"{len(items)} items" if isinstance(items, list) else "no array"
            self._report(batch.first, f"the body has {content}, expected {batch.count} (count)")
            self._lost = True
            return []
        return items

    def _records(self, batch: BatchRow, items: list[Any], details: list[Packed]) -> None:
        vectors = {packed.seq: packed for packed in details}
        position = batch.first - 1
        for item in items:
            position += 1
            try:
                at, cause, version, record = item
                kind = record["kind"]
                if not (type(at) is type(cause) is type(version) is int and type(kind) is str):
                    raise TypeError("time, cause and version are integers, kind is text")
                if kind in _BEGINNINGS:
                    verified_log.require_known(position, record.get("flags", ()))
                if (
                    at < self._now
                    or cause not in (self._step, position)
                    or version < 1
                    or (position == 0) != (kind == "StreamStarted")
                ):
                    self._report_place(position, at, cause, version, kind)
                self._now = at
                if cause != self._step:
                    self._step = position
                self._take(position, at, cause, record)
                if kind == "PartitionSealed":
                    self._seals.check(position, record)
                if kind in _JUDGED:
                    self._judge(position, at, record, vectors)
            except _MISSHAPEN as problem:
                self._report(position, f"the record is not of its shape: {problem!r}")
            except verified_log.LaterVersionError as problem:
                if not (self.result.problems or self._in_batch):
                    raise
                self._report(position, problem.problem)
        for seq in vectors:
            self._report(seq, "a detail row, but there is no decision at its position")
        if self._rows is not None and self._typed_rows is not None:
            self._rows.compare(batch.end)
            self._typed_rows.compare(batch.first, batch.end, self._rows.known)

    def _take(self, position: int, at: int, cause: int, record: dict[str, Any]) -> None:
        """Applies a record to the rows of pods."""
        if self._pods_now is None or self._typed_rows is None:
            return
        kind = record["kind"]
        uid = record["pod"]["uid"] if kind in ("PodAdded", "PodUpdated") else record.get("uid", "")
        before = self._pods_now.row(uid)
        if kind in KINDS:
            self._pods_now.take(position, at, record)
        after = self._pods_now.row(uid)
        self._typed_rows.expect(position, at, cause, record, before, after)

    def _report_place(self, position: int, at: int, cause: int, version: int, kind: str) -> None:
        if at < self._now:
            self._report(position, f"time {at}, expected {self._now} or later")
        if cause not in (self._step, position):
            self._report(position, f"cause {cause}, expected {self._step} or {position}")
        if version < 1:
            self._report(position, f"version {version}, expected 1 or more")
        if (kind == "StreamStarted") != (position == 0):
            expected = "StreamStarted" if position == 0 else "it at position 0 only"
            self._report(position, f"a record {kind}, expected {expected}")

    def _judge(
        self, position: int, at: int, record: dict[str, Any], vectors: dict[int, Packed]
    ) -> None:
        if self._rows is not None:
            self._rows.expect(position, at, record, len(self._facts.names))
        if record["kind"] == "PodDecided":
            self.result.decisions += 1
            self._decisions.check(position, record, vectors.pop(position, None))
            return
        if record["kind"] == "PreemptionDecided":
            self._preemptions.check(position, record, vectors.pop(position, None))
            return
        if record["kind"] in _OF_PODS:
            self._pods.take(position, record)
        problem = self._facts.take(record)
        if problem:
            self._report(position, problem)


_BEGINNINGS = frozenset(("StreamStarted", "TermBegan"))
_OF_PODS = frozenset(("PodAdded", "PodUpdated", "PodDeleted"))
_JUDGED = _OF_PODS | frozenset(
    ("PodDecided", "NodeAdded", "NodeDeleted", "VerdictDefined", "ScoringDefined",
     "PreemptionDecided")
)  # fmt: skip
