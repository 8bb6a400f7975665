"""Whether a log is what was written: the chain, the records, the vectors, the derived rows.

Written from docs/log-format.md alone, and from nothing of the scheduler: numpy, psycopg and the
standard library. ``verify_database`` and ``verify_file`` are what to call.
"""

import gc
import json
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from eventsched.history.verify import verified_database
from eventsched.history.verify.verified_chain import ChainCheck
from eventsched.history.verify.verified_checkpoints import Checkpoint, CheckpointCheck
from eventsched.history.verify.verified_database import DatabaseLog
from eventsched.history.verify.verified_decisions import DecisionCheck, Facts
from eventsched.history.verify.verified_file import LogFile
from eventsched.history.verify.verified_log import BatchRow, DamagedError, Log, NoLogError, Packed
from eventsched.history.verify.verified_pods import KINDS, PodNowCheck
from eventsched.history.verify.verified_preemptions import LivePods, PreemptionCheck
from eventsched.history.verify.verified_rows import RowCheck


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


MOST_PROBLEMS = 20
"""Where the search ends."""
_json = json.JSONDecoder(parse_constant=_refuse)
_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError)
"""What reading a record of another shape raises."""


class Problem(NamedTuple):
    """Something that is not as it should be: at a position, or (None) nowhere in particular."""

    position: int | None
    text: str


@dataclass
class Result:
    """What was found in a stream. ``problems`` are in order of position, the first bad position
    first; ``details`` counts decisions whose vectors were checked, ``thinned`` those whose vectors
    are not there (any more), ``thinned_meanwhile`` those of them that were there when it began."""

    stream: str
    records: int = 0
    batches: int = 0
    decisions: int = 0
    details: int = 0
    thinned: int = 0
    thinned_meanwhile: int = 0
    problems: list[Problem] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def first(self) -> Problem | None:
        """The first problem; None where all is well."""
        return self.problems[0] if self.problems else None

    @property
    def is_whole(self) -> bool:
        """Whether the search went to the end of the log."""
        return len(self.problems) < MOST_PROBLEMS


def verify_database(
    connection: psycopg.Connection[Any],
    streams: Collection[str] | None = None,
    *,
    thinned: bool = False,
    checkpoints: Collection[Checkpoint] = (),
) -> list[Result]:
    """Checks streams of a database, all where none are named, each as it is when its turn comes;
    what is appended meanwhile is not looked at. The connection must be idle; nothing is changed,
    and no transaction lasts longer than a page takes. ``thinned`` says that details may be missing.
    Each stream has to agree with its ``checkpoints``, and has to be there if it has one.
    Raises psycopg.Error."""
    results = []
    for number, name in verified_database.streams(connection):
        if streams is None or name in streams:
            log = DatabaseLog(connection, number, name, counts_details=not thinned)
            results.append(verify(log, thinned=thinned, checkpoints=checkpoints))
    there = {result.stream for result in results}
    for lost in sorted({each.stream for each in checkpoints} - there):
        if streams is None or lost in streams:
            problem = Problem(None, "there is a checkpoint of it, but no such stream any more")
            results.append(Result(lost, problems=[problem]))
    for number in verified_database.nameless(connection) if streams is None else ():
        problem = Problem(None, "there are rows of it, but no row in table stream")
        results.append(Result(f"number {number}", problems=[problem]))
    return results


def verify_file(
    path: Path, *, thinned: bool = False, checkpoints: Collection[Checkpoint] = ()
) -> Result:
    """Checks an exported file. Raises OSError where it cannot be read, NoLogError where it is none
    (which is for the caller to say: there is nothing to be checked)."""
    started = time.perf_counter()
    try:
        with closing(LogFile(path)) as log:
            return verify(log, thinned=thinned, checkpoints=checkpoints)
    except NoLogError:
        raise
    except DamagedError as damage:  # in its first line
        seconds = time.perf_counter() - started
        return Result(str(path), problems=[Problem(None, str(damage))], seconds=seconds)


def verify(log: Log, *, thinned: bool = False, checkpoints: Collection[Checkpoint] = ()) -> Result:
    """Checks one stream, also against those checkpoints that are its own."""
    started = time.perf_counter()
    check = _Verification(log, thinned=thinned, checkpoints=checkpoints)
    with suppress(_EnoughError), _uncollected():
        check.run()
    result = check.result
    result.problems = sorted(result.problems, key=attrgetter("position"))[:MOST_PROBLEMS]
    result.seconds = time.perf_counter() - started
    return result


@contextmanager
def _uncollected() -> Iterator[None]:
    """No search for cycles meanwhile: there are none, and many objects to be searched."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _EnoughError(Exception):
    """So many problems were found that more would not help."""


class _MissingDetails:
    """Details that are not there though nobody said that they may be missing. Those that were
    there when verification began were thinned meanwhile, which is no problem: a count tells. While
    the log has as many details as at first, none of these is missing by thinning."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._found: list[Problem] = []
        self._number = 0
        self._is_thinned = False
        self.seen = 0
        """How many details there were in the batches so far."""
        self.thinned = 0
        """How many were thinned meanwhile; known at the end."""

    def take(self, position: int, text: str) -> None:
        """One that is missing."""
        self._number += 1
        if len(self._found) < MOST_PROBLEMS:
            self._found.append(Problem(position, text))

    def known(self) -> list[Problem]:
        """Those that were missing from the first; none as long as that cannot be told."""
        if self._found and not self._is_thinned:
            self._is_thinned = self._log.details_now() < self._log.details_at_first
            if not self._is_thinned:
                found, self._found = self._found, []
                return found
        return []

    def left(self) -> list[Problem]:
        """At the end of the log: all that are left, unless the log had as many as it should."""
        if not self._is_thinned:
            return []
        if self.seen + self._number <= self._log.details_at_first:
            self.thinned = self._number
            return []
        why = "the log was thinned meanwhile, but not all of it: verify with --thinned"
        return [Problem(at, f"{text} ({why})") for at, text in self._found]


class _Verification:
    """One pass over a stream, batch by batch."""

    def __init__(self, log: Log, *, thinned: bool, checkpoints: Collection[Checkpoint]) -> None:
        self._log = log
        self.result = Result(log.stream)
        self._found: list[Problem] = []
        self._facts = Facts()
        self._missing = _MissingDetails(log)
        self._decisions = DecisionCheck(
            self._facts, log.detail, self._report, self._missing.take, thinned=thinned
        )
        self._pods = LivePods()
        self._preemptions = PreemptionCheck(
            self._facts, self._pods, log.detail, self._report, self._missing.take, thinned=thinned
        )
        tables = log.tables
        self._rows = None if tables is None else RowCheck(tables, self._report)
        self._pods_now = None if tables is None else PodNowCheck(tables, self._report)
        snapshots = [] if tables is None else tables.snapshots()
        self._chain = ChainCheck(log.stream, log.epochs, snapshots, self._report)
        own = [each for each in checkpoints if each.stream == log.stream]
        self._anchors = CheckpointCheck(own, self._report)
        self._step, self._now = -1, -(2**63)
        self._lost = False
        """Whether records are missing, so that what later ones say cannot be judged."""

    def run(self) -> None:
        """Everything. Raises _EnoughError."""
        try:
            for batch in self._log.batches():
                self._batch(batch)
        except DamagedError as damage:
            self._report(self._chain.next, str(damage))
            self._flush()
            return
        self._check_end()
        self._flush()

    def _report(self, position: int, text: str) -> None:
        self._found.append(Problem(position, text))

    def _flush(self) -> None:
        """Keeps what was found in a batch. Raises _EnoughError."""
        result = self.result
        result.details = self._decisions.checked + self._preemptions.checked
        result.thinned = self._decisions.thinned + self._preemptions.thinned
        self._found += self._missing.known()
        if self._found:
            result.problems += self._found
            self._found.clear()
            if len(result.problems) >= MOST_PROBLEMS:
                raise _EnoughError

    def _batch(self, batch: BatchRow) -> None:
        if not self._chain.link(batch):
            self._lost = True
        self._anchors.passed(self._chain.next, self._chain.hash)
        details = self._log.details(batch.end)
        self._missing.seen += len(details)
        items = self._items(batch)
        if not self._lost:
            self._records(batch, items, details)
        elif self._rows is not None:
            self._rows.pass_over(batch.end)
        self.result.batches += 1
        self.result.records += len(items)
        self._flush()

    def _check_end(self) -> None:
        self._chain.finish(self._log.head)
        self._anchors.finish(self._chain.next)
        if self._rows is not None and not self._lost:
            self._rows.finish(self._chain.next)
        if self._pods_now is not None and not self._lost:
            self._pods_now.finish(self._chain.next)
        for detail in self._log.details(2**63)[:1]:
            self._report(detail.seq, "a detail row for a position after the end of the log")
        self._found += self._missing.left()
        vanished = self._decisions.vanished + self._preemptions.vanished
        self.result.thinned_meanwhile = self._missing.thinned + vanished

    # --- the records ----------------------------------------------------------------------

    def _items(self, batch: BatchRow) -> list[Any]:
        """The batch's records; none, reported, where the body is not what it should be."""
        try:
            _json.decode(batch.mark.decode())
            items = _json.decode(batch.body.decode())
        except (ValueError, RecursionError) as problem:
            self._report(batch.first, f"body or mark is no JSON ({problem}), expected some")
            self._lost = True
            return []
        if not isinstance(items, list) or len(items) != batch.count or not items:
            found = f"{len(items)} items" if isinstance(items, list) else "no array"
            self._report(batch.first, f"the body has {found}, expected {batch.count} (count)")
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
                if kind in KINDS and self._pods_now is not None:
                    self._pods_now.take(position, at, record)
                if kind in _JUDGED:
                    self._judge(position, at, record, vectors)
            except _MISSHAPEN as problem:
                self._report(position, f"the record is not of its shape: {problem!r}")
        for seq in vectors:
            self._report(seq, "a detail row, but there is no decision at its position")
        if self._rows is not None:
            self._rows.compare(batch.end)

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


_OF_PODS = frozenset(("PodAdded", "PodUpdated", "PodDeleted"))
_JUDGED = _OF_PODS | frozenset(
    ("PodDecided", "NodeAdded", "NodeDeleted", "VerdictDefined", "ScoringDefined",
     "PreemptionDecided")
)  # fmt: skip
