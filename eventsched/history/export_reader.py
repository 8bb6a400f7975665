"""Reads an exported log, with the interface of eventsched.eventlog.postgres.reader.Reader."""

import weakref
from collections.abc import Iterator
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.chain import Head
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredRecord, expand_deltas
from eventsched.eventlog.postgres.stored_batch import StoredBatch, records_from
from eventsched.history.verify.verified_file import LogFile
from eventsched.history.verify.verified_log import DamagedError


class FileLog:
    """A stream's log in a file. The file is closed when this object is collected."""

    def __init__(self, path: Path) -> None:
        """Raises InputError if the file cannot be read or is not an exported log."""
        self.path = path
        remedy = "name a file that `eventsched log export` wrote"
        try:
            self._file = LogFile(path)
        except OSError as problem:
            message = f"cannot be read: {problem.strerror or problem}"
            raise InputError(str(path), message, remedy) from problem
        except DamagedError as problem:
            raise InputError(f"{path}: {problem.where}", problem.problem, remedy) from problem
        self._is_indexed = False
        weakref.finalize(self, self._file.close)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._file.stream

    @property
    def head(self) -> Head:
        """The end of the stream when it was exported."""
        return Head(self._file.head.next, self._file.head.hash)

    def batches(self, first: int = 0) -> Iterator[StoredBatch]:
        """The batch that holds position ``first`` and all later ones, in order. Raises
        CorruptLogError."""
        end = 0
        try:
            for batch, _ in self._file.lines(first):
                end = batch.end
                if end > first:
                    yield StoredBatch(
                        batch.first, batch.count, batch.epoch, batch.written_at,
                        batch.mark.decode(), batch.hash, batch.body.decode(),
                    )  # fmt: skip
        except DamagedError as problem:
            raise CorruptLogError(end, f"{self.path}: {problem}") from problem

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The records from position ``first`` on, in order. Raises CorruptLogError."""
        return records_from(self.batches(first), first)

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, with deltas expanded; None if there are none. Raises
        CorruptLogError."""
        if not self._is_indexed:
            for _ in self.batches():  # LogFile remembers the offset of every line
                pass
            self._is_indexed = True
        try:
            return expand_deltas(position, self._stored_detail)
        except ValueError as problem:  # a delta and its base have different columns
            raise CorruptLogError(position, str(problem)) from problem

    def partial_details(self, first: int = 0) -> Iterator[tuple[int, Detail]]:
        """The partial vectors of decisions from position ``first`` on, in order, not expanded.
        Raises CorruptLogError."""
        position = first
        try:
            for _, details in self._file.lines(first):
                for position, base, body in details:
                    if position >= first and vectors.is_partial(body, base):
                        yield position, vectors.unpack(body, base)
        except (DamagedError, ValueError) as problem:
            raise CorruptLogError(position, f"{self.path}: {problem}") from problem

    def _stored_detail(self, position: int) -> Detail | None:
        packed = self._file.detail(position)
        if packed is None:
            return None
        try:
            return vectors.unpack(packed.body, packed.base)
        except ValueError as problem:
            raise CorruptLogError(position, str(problem)) from problem
