"""An exported log, to be read as one in a database is: see
eventsched.eventlog.postgres.reader.Reader."""

import weakref
from collections.abc import Iterator
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.chain import Head
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import Stored, expand_deltas
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.history.verify.verified_file import LogFile
from eventsched.history.verify.verified_log import DamagedError


class FileLog:
    """A stream's log in a file. What it holds open is let go with it."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where it cannot be read or is no exported log."""
        self.path = path
        remedy = "name a file that `eventsched log export` wrote"
        try:
            self._file = LogFile(path)
        except OSError as problem:
            said = f"cannot be read: {problem.strerror or problem}"
            raise InputError(str(path), said, remedy) from problem
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
        """Where the stream ended when it was exported."""
        return Head(self._file.head.next, self._file.head.hash)

    def batches(self, first: int = 0) -> Iterator[StoredBatch]:
        """The batches that hold the position, or come after it, in order. Raises
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

    def read(self, first: int = 0) -> Iterator[Stored]:
        """The records from a position on, in order. Raises CorruptLogError."""
        for batch in self.batches(first):
            for record in batch.records:
                if record.position >= first:
                    yield record

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, whole; None where there are none. Raises CorruptLogError."""
        if not self._is_indexed:
            for _ in self.batches():  # now the place of every line is known
                pass
            self._is_indexed = True
        return expand_deltas(position, self._part)

    def _part(self, position: int) -> Detail | None:
        packed = self._file.detail(position)
        if packed is None:
            return None
        try:
            return vectors.unpack(packed.body, packed.base)
        except ValueError as problem:
            raise CorruptLogError(position, str(problem)) from problem
