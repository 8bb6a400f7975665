"""Reads an archive as a log, with the interface of eventsched.eventlog.postgres.reader.Reader."""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence, Set
from functools import lru_cache
from pathlib import Path

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.archive.archive_folder import choose_archived, manifests
from eventsched.eventlog.archive.archive_manifest import (
    BATCHES,
    DECISIONS,
    DETAILS,
    RESTORE,
    Manifest,
    day_file,
    stream_folder,
)
from eventsched.eventlog.archive.archived_batches import read_details, read_group
from eventsched.eventlog.archive.parquet import (
    column_values,
    groups_with,
    row_group,
    row_group_starts,
)
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredRecord, expand_deltas
from eventsched.eventlog.postgres.stored_batch import StoredBatch, records_from

_CACHED_GROUPS = 4
"""Row groups of one kind that are kept in memory."""
_CACHED_FILES = 256
"""Files whose row groups' first positions are kept in memory."""


class ArchiveLog:
    """A stream's log in an archive, as far as it was archived. The hash chain is recomputed as
    batches are read. All methods raise InputError if files are missing or altered."""

    def __init__(self, folder: Path, stream: str | None = None) -> None:
        """Without ``stream`` the archive has to have a single one. Raises InputError."""
        self.folder = folder
        self._stream = choose_archived(folder, stream)
        self._days = manifests(folder, self._stream)
        self._firsts = [day.first for day in self._days]
        if self._firsts[0]:
            raise InputError(
                str(self._path(self._days[0], BATCHES)),
                f"is the first file, and begins at position {self._firsts[0]}: files of the days "
                "before are missing",
                "restore them from a copy",
            )
        self._starts = lru_cache(_CACHED_FILES)(row_group_starts)
        self._groups = lru_cache(_CACHED_GROUPS)(read_group)
        self._details = lru_cache(_CACHED_GROUPS)(_detail_group)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    @property
    def head(self) -> Head:
        """The end of what is archived."""
        last = self._days[-1]
        return Head(last.next, bytes.fromhex(last.after))

    def batches(self, first: int = 0) -> Iterator[StoredBatch]:
        """The batch that holds position ``first`` and all later ones, in order."""
        for day in self._days[max(0, bisect_right(self._firsts, first) - 1) :]:
            if day.next > first:
                yield from self._batches_of(day, first)

    def _batches_of(self, day: Manifest, first: int) -> Iterator[StoredBatch]:
        path = self._path(day, BATCHES)
        starts = self._starts(path)
        begin = max(0, bisect_right(starts, first) - 1)
        end, digest = day.first, bytes.fromhex(day.before)
        for index in range(begin, len(starts)):
            previous = None if index == begin > 0 else digest
            batches = self._groups(path, day.stream, index, previous)
            if index == begin == 0 or index > begin:
                _require_position(path, end, batches[0].first)
            for batch in batches:
                end, digest = batch.first + batch.count, batch.hash
                if end > first:
                    yield batch
        _require_position(path, day.next, end)
        if digest.hex() != day.after:
            raise InputError(str(path), "was altered: its last batch has another hash", RESTORE)

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The records from position ``first`` on, in order. Raises CorruptLogError, too."""
        return records_from(self.batches(first), first)

    def batches_with(
        self, words: Sequence[str], first: int = 0, end: int = sys.maxsize
    ) -> Iterator[StoredBatch]:
        """The batches with records from position ``first`` to before ``end`` whose text has one of
        the words. What has none of them is neither decoded nor checked against the chain."""
        encoded = [word.encode() for word in words]
        for day in self._days[max(0, bisect_right(self._firsts, first) - 1) :]:
            path = self._path(day, BATCHES)
            starts = self._starts(path)
            begin = max(0, bisect_right(starts, first) - 1)
            for index in groups_with(path, encoded, begin, bisect_left(starts, end)):
                for batch in self._groups(path, day.stream, index, None):
                    is_in = batch.first < end and batch.first + batch.count > first
                    if is_in and any(word in batch.body for word in words):
                        yield batch

    def decided_pods(self, uids: Set[str]) -> dict[str, str]:
        """``namespace/name`` of pods with a decision, by uid as tables have it."""
        names: dict[str, str] = {}
        for day in self._days:
            path = self._path(day, DECISIONS)
            for uid, namespace, name in column_values(path, ("pod_uid", "namespace", "pod")):
                if uid in uids:
                    names[uid] = f"{namespace}/{name}"
            if len(names) == len(uids):
                break
        return names

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, with deltas expanded; None if there are none."""
        return expand_deltas(position, self.stored_detail)

    def stored_detail(self, position: int) -> Detail | None:
        """The vectors of a decision as they are stored, whole or as a delta; None if there are
        none."""
        index = bisect_right(self._firsts, position) - 1
        if index < 0 or position >= self._days[index].next:
            return None
        path = self._path(self._days[index], DETAILS)
        group = bisect_right(self._starts(path), position) - 1
        packed = self._details(path, group).get(position) if group >= 0 else None
        if packed is None:
            return None
        return _unpacked(path, position, *packed)

    def partial_details(self, first: int = 0) -> Iterator[tuple[int, Detail]]:
        """The partial vectors of decisions from position ``first`` on, in order, not expanded."""
        for day in self._days[max(0, bisect_right(self._firsts, first) - 1) :]:
            path = self._path(day, DETAILS)
            for seq, base, body in read_details(path):
                if seq >= first and vectors.is_partial(body, base):
                    yield seq, _unpacked(path, seq, base, body)

    def _path(self, day: Manifest, content: str) -> Path:
        return day_file(stream_folder(self.folder, self._stream), day.day, content)


def _unpacked(path: Path, position: int, base: int | None, body: bytes) -> Detail:
    try:
        return vectors.unpack(body, base)
    except ValueError as problem:
        reason = f"was altered: the vectors of position {position} ({problem})"
        raise InputError(str(path), reason, RESTORE) from problem


def _detail_group(path: Path, index: int) -> dict[int, tuple[int | None, bytes]]:
    """The details of a row group by position: base and body."""
    return {seq: (base, body) for seq, base, body in row_group(path, DETAILS, index)}


def _require_position(path: Path, expected: int, position: int) -> None:
    if position != expected:
        problem = f"was altered: it goes on at position {position}, not {expected}"
        raise InputError(str(path), problem, RESTORE)
