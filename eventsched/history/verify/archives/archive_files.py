"""Reads the files of an archive, for verification and export.

Written from docs/log-format.md, like all of verification. Needs pyarrow.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from hashlib import file_digest
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from eventsched.history.verify.verified_chain import batch_hash
from eventsched.history.verify.verified_log import (
    BatchRow,
    DamagedError,
    Epoch,
    HeadRow,
    NoLogError,
    Packed,
    RowCursor,
    Tables,
)

_FORMAT = 1
_MISSHAPEN = (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError)
_UNREADABLE = (OSError, pa.ArrowException)
_BATCH = ("first", "count", "epoch", "token", "written_at", "mark", "hash", "body")
_CACHED_GROUPS = 4
_RESTORE = "restore the file from a copy, or archive into an empty folder"


class _Day(NamedTuple):
    """A day's files, by what the metadata of its batches say."""

    batches: Path
    first: int
    next: int
    before: str
    after: str
    epochs: list[Epoch]
    digests: dict[str, str]

    def other(self, content: str) -> Path:
        """Another file of the day."""
        return self.batches.with_name(self.batches.name.replace(".batches.", f".{content}."))


class ArchiveFiles:
    """A stream of an archive. See Log."""

    def __init__(self, folder: Path, stream: str) -> None:
        """Raises NoLogError if the archive has no such stream or a later format, and DamagedError
        if files are missing at the beginning or in the middle, or are of another log."""
        self._stream = stream
        self._days = _days(folder, stream)
        if not self._days:
            raise NoLogError(str(folder), f"holds no archive of stream {stream}")
        first = self._days[0]
        if first.first:
            problem = (
                f"is the first file, and begins at position {first.first}: files of the days "
                "before are missing"
            )
            raise DamagedError(str(first.batches), problem, "restore them from a copy")
        self._details = RowCursor(self._all_details())
        self._groups = lru_cache(_CACHED_GROUPS)(_detail_group)
        self._starts = lru_cache(_CACHED_GROUPS)(_detail_starts)

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._stream

    @property
    def tables(self) -> Tables | None:
        """None: an archive has no derived rows that are checked by themselves."""
        return None

    @property
    def start(self) -> None:
        """None: an archive begins with the first record."""
        return

    def hash_at(self, position: int) -> bytes | None:
        """See Log: known at the ends of days."""
        ends = (_of_hex(day.batches, day.after) for day in self._days if day.next == position)
        return next(ends, None)

    @property
    def epochs(self) -> list[Epoch]:
        """The epochs that began before the end of the archive."""
        return [epoch for day in self._days for epoch in day.epochs]

    @property
    def head(self) -> HeadRow:
        """The end of the archive, as its last file says."""
        last = self._days[-1]
        return HeadRow(last.next, _of_hex(last.batches, last.after))

    def batches(self) -> Iterator[BatchRow]:
        """See Log. Raises DamagedError, also if a hash is not that of the batch."""
        tokens = {epoch.epoch: epoch.token for epoch in self.epochs}
        for day in self._days:
            _check_digests(day)
            end, last = day.first, _of_hex(day.batches, day.before)
            for row in _rows(day.batches, _BATCH):
                first, count, epoch, token, written_at, mark, digest, body = row
                batch = BatchRow(
                    first, count, epoch, written_at, mark.encode(), digest, body.encode()
                )
                if token != tokens.get(epoch):
                    problem = f"position {first}: the token is not that of epoch {epoch}"
                    raise DamagedError(str(day.batches), problem, _RESTORE)
                check_chain(str(day.batches), batch, token, end, last)
                end, last = batch.end, batch.hash
                yield batch
            if (end, last.hex()) != (day.next, day.after):
                problem = f"its last batch ends at {end}, expected {day.next}"
                raise DamagedError(str(day.batches), problem, _RESTORE)

    def details(self, end: int) -> list[Packed]:
        """See Log. Raises DamagedError."""
        return self._details.before(end)

    def detail(self, seq: int) -> Packed | None:
        """See Log. Raises DamagedError."""
        day = next((day for day in self._days if day.first <= seq < day.next), None)
        if day is None:
            return None
        path = day.other("details")
        groups = [index for index, start in enumerate(self._starts(path)) if start <= seq]
        return self._groups(path, groups[-1]).get(seq) if groups else None

    @property
    def details_at_first(self) -> int:
        """See Log."""
        return 0

    def details_now(self) -> int:
        """See Log."""
        return 0

    def _all_details(self) -> Iterator[Packed]:
        for day in self._days:
            yield from map(Packed._make, _rows(day.other("details"), Packed._fields))


def archived_streams(folder: Path) -> list[str]:
    """The streams of an archive. Raises OSError."""
    return [
        unquote(path.name)
        for path in sorted(folder.iterdir())
        if path.is_dir() and any(path.glob("*.batches.parquet"))
    ]


def _days(folder: Path, stream: str) -> list[_Day]:
    own = [path for path in folder.iterdir() if path.is_dir() and unquote(path.name) == stream]
    days: list[_Day] = []
    for path in sorted(file for place in own for file in place.glob("[0-9]*.batches.parquet")):
        day = _day(path, stream)
        before = days[-1] if days else None
        if before is not None and (day.first, day.before) != (before.next, before.after):
            problem = (
                f"begins at position {day.first} after hash {day.before}, expected {before.next} "
                f"after {before.after}: files are missing, or of another log"
            )
            raise DamagedError(str(path), problem, "restore the days between from a copy")
        days.append(day)
    return days


def _day(path: Path, stream: str) -> _Day:
    try:
        metadata = pq.read_metadata(path).metadata or {}
        text = metadata[b"eventsched"]
    except (*_UNREADABLE, *_MISSHAPEN) as problem:
        raise DamagedError(
            str(path), f"is not a file of an archive ({problem!r})", _RESTORE
        ) from problem
    try:
        fields = json.loads(text)
        if fields["format"] != _FORMAT:
            raise NoLogError(str(path), f"format {fields['format']!r}, not {_FORMAT}")
        name = f"{fields['day']}.{fields['content']}.parquet"
        if (fields["content"], name) != ("batches", path.name) or fields["stream"] != stream:
            raise DamagedError(str(path), f"is {name} of stream {fields['stream']}", _RESTORE)
        epochs = [
            Epoch(number, bytes.fromhex(token), first) for number, token, first in fields["epochs"]
        ]
        return _Day(
            path, fields["first"], fields["next"], fields["before"], fields["after"], epochs,
            dict(fields["digests"]),
        )  # fmt: skip
    except _MISSHAPEN as problem:
        raise DamagedError(str(path), f"has no manifest ({problem!r})", _RESTORE) from problem


def check_chain(
    where: str, batch: BatchRow, token: bytes, end: int, last: bytes, remedy: str = _RESTORE
) -> None:
    """Checks that a batch follows the one that ends at ``end`` with the hash ``last``. Raises
    DamagedError, with the remedy."""
    if batch.first != end:
        raise DamagedError(where, f"a batch begins at {batch.first}, expected {end}", remedy)
    expected = batch_hash(batch, token, last)
    if batch.hash != expected:
        problem = (
            f"position {batch.first}: hash of the batch is {batch.hash.hex()}, expected "
            f"{expected.hex()}: it was changed, or what comes before is of another log"
        )
        raise DamagedError(where, problem, remedy)


def _check_digests(day: _Day) -> None:
    for content in ("details", "decisions"):
        path = day.other(content)
        try:
            with path.open("rb") as file:
                digest = file_digest(file, "sha256").hexdigest()
        except OSError as problem:
            reason = f"cannot be read: {problem.strerror or problem}"
            raise DamagedError(str(path), reason, _RESTORE) from problem
        if digest != day.digests.get(content):
            problem_text = f"its SHA-256 is {digest}, expected {day.digests.get(content)}"
            raise DamagedError(str(path), problem_text, _RESTORE)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """The columns of all rows, one row group at a time. Times are in µs."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for index in range(file.metadata.num_row_groups):
                yield from _group(file, index, columns)
    except (*_UNREADABLE, *_MISSHAPEN) as problem:
        raise DamagedError(str(path), f"cannot be read ({problem})", _RESTORE) from problem


def _group(file: Any, index: int, columns: tuple[str, ...]) -> list[tuple[Any, ...]]:
    table = file.read_row_group(index, columns=list(columns), use_threads=False)
    values = []
    for name in columns:
        column = table.column(name)
        is_time = pa.types.is_timestamp(column.type)
        values.append((column.cast(pa.int64()) if is_time else column).to_pylist())
    return list(zip(*values, strict=True))


def _detail_starts(path: Path) -> list[int]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = file.metadata
            groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
            return [int(group.column(0).statistics.min) for group in groups]
    except (*_UNREADABLE, *_MISSHAPEN) as problem:
        raise DamagedError(str(path), f"cannot be read ({problem})", _RESTORE) from problem


def _detail_group(path: Path, index: int) -> dict[int, Packed]:
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            return {row[0]: Packed._make(row) for row in _group(file, index, Packed._fields)}
    except (*_UNREADABLE, *_MISSHAPEN) as problem:
        raise DamagedError(str(path), f"cannot be read ({problem})", _RESTORE) from problem


def _of_hex(path: Path, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except (ValueError, TypeError) as problem:
        raise DamagedError(str(path), f"has no manifest ({problem!r})", _RESTORE) from problem
