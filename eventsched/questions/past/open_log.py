"""A stream's log in whatever form, and what a position or a time in a question means there."""

import time
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.domain.units import is_virtual
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredLog
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.seeking import PositionedLog, position_at
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.output.time_format import moment, read_moment
from eventsched.runtime.queries.state_at import FoldedState, dropped_error, state_at


class StreamLog(StoredLog, Protocol):
    """A stream's log in whatever form."""

    @property
    def stream(self) -> str:
        """The stream's name."""

    def batches(self, first: int = 0) -> Iterator[StoredBatch]:
        """The batch that holds position ``first`` and all later ones, in order."""

    def partial_details(self, first: int = 0) -> Iterator[tuple[int, Detail]]:
        """The partial vectors of decisions from position ``first`` on, in order, not expanded."""

    @property
    def head(self) -> Head:
        """The end of the log."""


class OpenLog(NamedTuple):
    """A stream's log in whatever form, and the reader of the database if it is or goes on in
    one."""

    log: StreamLog
    reader: Reader | None

    def state(
        self, text: str | None, option: str = "--at", *, whole_steps: bool = False
    ) -> FoldedState:
        """The state at a position or time; without one, at the log's end. With ``whole_steps`` a
        position within a step means its beginning. Raises InputError."""
        end = self.end
        position = end if text is None else self.position(text, option)
        if whole_steps and position < end:
            position = min(position, next(self.log.read(position)).cause)
        try:
            return state_at(self.log, self.reader, position, end)
        except InputError as problem:
            where = option if problem.where == "--at" else problem.where
            raise InputError(where, problem.problem, problem.remedy) from None

    @property
    def end(self) -> int:
        """The position of the log's end. Raises InputError for an empty log."""
        end = self.log.head.next
        if not end:
            remedy = "run a scheduler on it first"
            raise InputError(f"stream {self.log.stream}", "holds no record yet", remedy)
        return end

    def position(self, text: str, option: str) -> int:
        """The position that a text means, for ``option``; a time means after its last record.
        Raises InputError."""
        end = self.end
        if text.isascii() and text.isdigit():
            return int(text)
        at, latest = _read_time(self.log, text, option, or_position=True)
        if at > latest:
            problem = f"{text} is after {'the end' if is_virtual(latest) else 'now'}"
            raise InputError(
                option, f"{problem}: {moment(latest)}", f"the log ends at position {end}"
            )
        return self._position_after(at, text, option)

    def _position_after(self, at: int, text: str, option: str) -> int:
        """The position after the last record of a time or before."""
        position = position_at(self.log, at + 1)
        begin = self.log.begin if isinstance(self.log, Reader) else 0
        if position > begin:
            return position
        if isinstance(self.log, Reader) and begin:
            raise dropped_error(self.log, begin - 1)
        first = next(self.log.read()).at
        raise InputError(
            option, f"{text} is before the first record", f"the log begins at {moment(first)}"
        )


def first_position(log: PositionedLog, text: str, where: str, *, or_position: bool) -> int:
    """The position of the first record at a time or later; with ``or_position`` a number is a
    position. Errors name ``where``. Raises InputError."""
    if or_position and text.isascii() and text.isdigit():
        return int(text)
    return position_at(log, _read_time(log, text, where, or_position=or_position)[0])


def _read_time(log: PositionedLog, text: str, where: str, *, or_position: bool) -> tuple[int, int]:
    """The time (µs) that a text means, and the latest one of the log: its end in a simulation, or
    else now. Raises InputError."""
    end, now = log.head.next, time.time_ns() // 1_000
    newest = next(log.batches(end - 1)).records[-1].at if end else now
    try:
        virtual = is_virtual(newest)
        at = read_moment(text, newest if virtual else now, virtual=virtual)
    except (ValueError, OverflowError):
        problem = "is neither a position nor a time" if or_position else "is not a time"
        number = "a number, " if or_position else ""
        forms = (
            "00:10, 10m from start, or 10m ago"
            if is_virtual(newest)
            else ("2026-11-21T15:00, 15:00, or a length such as 10m")
        )
        remedy = f"write {number}{forms}"
        raise InputError(where, f"{text!r} {problem}", remedy) from None
    return at, newest if is_virtual(newest) else max(now, newest)
