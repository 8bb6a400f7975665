"""Writes the files of one day, reads them back, and then gives them their names."""

import os
from collections.abc import Sequence
from datetime import date
from hashlib import sha256
from pathlib import Path

from eventsched import __version__
from eventsched.domain.errors import InputError
from eventsched.eventlog.archive.archive_manifest import (
    BATCHES,
    CONTENTS,
    DECISIONS,
    DETAILS,
    FORMAT,
    Manifest,
    day_file,
    stream_folder,
)
from eventsched.eventlog.archive.archived_batches import read_batches, read_details
from eventsched.eventlog.archive.decision_rows import DecisionRows
from eventsched.eventlog.archive.parquet import PartFile, digest_of, row_group, row_group_starts
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import StoredBatch

_RECORDS_AT_ONCE = 8_192
"""Records whose details and decisions are read together."""
_DETAILS_AT_ONCE = 512
_DETAILS = f"""
SELECT seq, base, body FROM eventsched_log.detail
WHERE stream = :s AND seq >= :begin AND seq < :end ORDER BY seq LIMIT {_DETAILS_AT_ONCE}
"""
_DECISION_BYTES = 400
"""About what the values of a decision's row take in memory."""


class DayWriter:
    """The files of a day while they are written. Raises OSError wherever it writes."""

    def __init__(self, reader: Reader, folder: Path, day: date, begin: Head) -> None:
        """``begin`` is the position of the day's first record, and the hash before."""
        self.day = day
        self._reader, self._begin, self._head = reader, begin, begin
        self._folder = stream_folder(folder, reader.stream)
        self._decisions = DecisionRows(reader)
        self._details_digest = sha256()
        self._ahead: list[StoredRecord] = []
        self._parts: dict[str, PartFile] = {}
        try:
            for content in CONTENTS:
                path = day_file(self._folder, day.isoformat(), content)
                self._parts[content] = PartFile(path, content)
        except BaseException:
            self.discard()
            raise

    def add(self, batch: StoredBatch, token: bytes) -> Head:
        """Adds the day's next batch, which was written with the token. Returns the end so far."""
        row = (
            batch.first, batch.count, batch.epoch, token, batch.written_at, batch.mark, batch.hash,
            batch.body,
        )  # fmt: skip
        self._parts[BATCHES].add(row, len(batch.body) + 200)
        self._head = Head(batch.first + batch.count, batch.hash)
        self._ahead += batch.records
        if len(self._ahead) >= _RECORDS_AT_ONCE:
            self._add_derived()
        return self._head

    def _add_derived(self) -> None:
        """Adds the details and the decisions of the batches that were added."""
        for decision in self._decisions.of(self._ahead):
            self._parts[DECISIONS].add(decision, _DECISION_BYTES)
        begin, end = self._ahead[0].position, self._head.next
        while rows := self._reader.rows(_DETAILS, begin=begin, end=end):
            for row in rows:
                detail = (row["seq"], row["base"], bytes(row["body"]))
                self._details_digest.update(_hashed(detail))
                self._parts[DETAILS].add(detail, len(detail[2]) + 16)
            begin = rows[-1]["seq"] + 1
        self._ahead.clear()

    def finish(self, epochs: Sequence[tuple[int, bytes, int]]) -> Manifest:
        """Writes what is left, reads all of it back, and gives the files their names. ``epochs``
        are the stream's: number, token, first position. Raises InputError if what is read back is
        not what was written."""
        try:
            if self._ahead:
                self._add_derived()
            manifests = {}
            digests: dict[str, str] = {}
            for content in CONTENTS:  # the batches, which have the digests of the others, come last
                part = self._parts[content]
                manifests[content] = self._manifest(content, epochs, digests)
                part.finish(manifests[content])
                if content != BATCHES:
                    digests[content] = digest_of(part.temporary)
            self._read_back(manifests[BATCHES])
            for content in CONTENTS:
                self._parts[content].publish()
                _sync(self._folder)
            return manifests[BATCHES]
        finally:
            self.discard()

    def _manifest(
        self, content: str, epochs: Sequence[tuple[int, bytes, int]], digests: dict[str, str]
    ) -> Manifest:
        begin, end = self._begin, self._head
        own = [(n, token.hex(), at) for n, token, at in epochs if begin.next <= at < end.next]
        is_batches = content == BATCHES
        return Manifest(
            format=FORMAT, content=content, stream=self._reader.stream, day=self.day.isoformat(),
            first=begin.next, next=end.next, before=begin.hash.hex(), after=end.hash.hex(),
            version=__version__, epochs=own if is_batches else [],
            digests=dict(digests) if is_batches else {},
        )  # fmt: skip

    def _read_back(self, manifest: Manifest) -> None:
        parts = {content: self._parts[content].temporary for content in CONTENTS}
        rows = sum(1 for _ in read_batches(parts[BATCHES], manifest))
        digest, details = sha256(), 0
        for detail in read_details(parts[DETAILS]):
            digest.update(_hashed(detail))
            details += 1
        decisions = sum(
            len(row_group(parts[DECISIONS], DECISIONS, index))
            for index in range(len(row_group_starts(parts[DECISIONS])))
        )
        counts = {BATCHES: rows, DETAILS: details, DECISIONS: decisions}
        for content, count in counts.items():
            is_same = content != DETAILS or digest.digest() == self._details_digest.digest()
            if count != self._parts[content].rows or not is_same:
                problem = "is not what was written when it is read back"
                raise InputError(str(parts[content]), problem, "check the disk; archive again")

    def discard(self) -> None:
        """Removes what has no name yet."""
        for part in self._parts.values():
            part.discard()


def _hashed(detail: tuple[int, int | None, bytes]) -> bytes:
    seq, base, body = detail
    return b"%d,%d,%d," % (seq, -1 if base is None else base, len(body)) + body


def _sync(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
