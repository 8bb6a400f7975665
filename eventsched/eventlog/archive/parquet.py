"""Parquet files: written row group by row group, and read the same way. Needs pyarrow.

Importing this module raises InputError if pyarrow is not installed.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from hashlib import file_digest
from pathlib import Path
from typing import Any

from eventsched.domain.errors import InputError
from eventsched.eventlog.archive.archive_manifest import (
    BATCHES,
    DECISIONS,
    DETAILS,
    KEY,
    RESTORE,
    Manifest,
    decoded,
    encoded,
)

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise InputError(
        "archive", "the package pyarrow is missing", "install 'eventsched[archive]'"
    ) from missing

_TIME = pa.timestamp("us", tz="UTC")
_REFUSAL = pa.struct(
    [("plugin", pa.string()), ("code", pa.string()), ("reason", pa.string()), ("nodes", pa.int32())]
)
SCHEMAS = {
    BATCHES: pa.schema(
        [
            ("first", pa.int64()), ("count", pa.int32()), ("epoch", pa.int32()),
            ("token", pa.binary(16)), ("written_at", _TIME), ("mark", pa.string()),
            ("hash", pa.binary(32)), ("body", pa.string()),
        ]
    ),
    DETAILS: pa.schema([("seq", pa.int64()), ("base", pa.int64()), ("body", pa.binary())]),
    DECISIONS: pa.schema(
        [
            ("stream", pa.string()), ("seq", pa.int64()), ("at", _TIME),
            ("namespace", pa.string()), ("pod", pa.string()), ("pod_uid", pa.string()),
            ("attempt", pa.int32()), ("profile", pa.string()), ("outcome", pa.string()),
            ("node", pa.string()), ("score", pa.int64()), ("runner_up", pa.string()),
            ("runner_up_score", pa.int64()), ("feasible", pa.int32()), ("evaluated", pa.int32()),
            ("ties", pa.int32()), ("draw", pa.uint64()), ("plugin", pa.string()),
            ("message", pa.string()), ("refusals", pa.list_(_REFUSAL)),
        ]
    ),
}  # fmt: skip
"""The columns of each kind of file; docs/log-format.md describes them."""
_NOT_REPEATED = {
    "first",
    "hash",
    "body",
    "seq",
    "base",
    "written_at",
    "draw",
    "at",
    "pod_uid",
    "refusals",
}
"""Columns whose values hardly repeat, so that a dictionary of them would be as large."""
_REPEATED_IN_REFUSALS = [
    f"refusals.list.element.{n}" for n in ("plugin", "code", "reason", "nodes")
]
_ROW_GROUP_BYTES = {BATCHES: 8 << 20, DETAILS: 4 << 20, DECISIONS: 16 << 20}
"""Bytes of values, before compression, after which a row group ends: what reading a part of a file
holds in memory."""
_LEVEL = 6
"""Of zstd."""


class PartFile:
    """A file that is being written, under a temporary name in the folder of the file that it will
    become. Raises OSError wherever it writes."""

    def __init__(self, path: Path, content: str) -> None:
        self.path, self._content, self._schema = path, content, SCHEMAS[content]
        self.temporary = path.with_name(f".{path.name}.part")
        self.rows = 0
        self._ahead: list[Sequence[Any]] = []
        self._bytes_ahead = 0
        self._file = self.temporary.open("wb")
        repeated = [name for name in self._schema.names if name not in _NOT_REPEATED]
        self._writer = pq.ParquetWriter(
            self._file, self._schema, compression="zstd", compression_level=_LEVEL,
            use_dictionary=[*repeated, *_REPEATED_IN_REFUSALS], write_page_checksum=True,
            data_page_size=4 << 20,
        )  # fmt: skip

    def add(self, row: Sequence[Any], size: int) -> None:
        """Adds a row with the values of all columns, of about ``size`` bytes."""
        self._ahead.append(row)
        self._bytes_ahead += size
        if self._bytes_ahead >= _ROW_GROUP_BYTES[self._content]:
            self._write()

    def _write(self) -> None:
        columns = zip(*self._ahead, strict=True) if self._ahead else ((),) * len(self._schema)
        arrays = [pa.array(v, type=f.type) for v, f in zip(columns, self._schema, strict=True)]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(table, row_group_size=max(1, len(self._ahead)))
        self.rows += len(self._ahead)
        self._ahead.clear()
        self._bytes_ahead = 0

    def finish(self, manifest: Manifest) -> None:
        """Writes what is left and the manifest, and waits until all of it is on the disk."""
        if self._ahead:
            self._write()
        self._writer.add_key_value_metadata({KEY: encoded(manifest)})
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def publish(self) -> None:
        """Gives the file its name."""
        os.replace(self.temporary, self.path)

    def discard(self) -> None:
        """Closes and removes the temporary file, if it is still there."""
        self._writer.is_open = False  # or pyarrow would end it later, in the closed file
        self._file.close()
        self.temporary.unlink(missing_ok=True)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The open Parquet file, for reading. Raises InputError if there is none, or it is damaged."""
    try:
        with closing(_opened(path)) as file:
            yield file
    except FileNotFoundError as problem:
        raise InputError(str(path), "is missing", RESTORE) from problem
    except PermissionError as problem:
        reason = f"cannot be read: {problem.strerror}"
        raise InputError(str(path), reason, "let this user read it") from problem
    except InputError:
        raise
    except (
        OSError,
        pa.ArrowException,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
    ) as problem:
        # An altered page fails its checksum; other bytes have no form that can be decoded.
        reason = " ".join(str(problem).split())
        raise InputError(str(path), f"is damaged ({reason})", RESTORE) from problem


def _opened(path: Path) -> Any:
    return pq.ParquetFile(path, page_checksum_verification=True)


def read_manifest(path: Path) -> Manifest:
    """The manifest of a file. Raises InputError."""
    with opened(path) as file:
        return decoded((file.metadata.metadata or {}).get(KEY), path)


def row_group_starts(path: Path) -> list[int]:
    """The first position in each row group. Raises InputError."""
    with opened(path) as file:
        names = file.schema_arrow.names
        column = names.index("first" if "first" in names else "seq")
        metadata = file.metadata
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        return [int(group.column(column).statistics.min) for group in groups]


def row_group(path: Path, content: str, index: int) -> list[tuple[Any, ...]]:
    """The rows of a row group. Times are in µs since 1970. Raises InputError."""
    with opened(path) as file:
        if file.schema_arrow.remove_metadata() != SCHEMAS[content]:
            raise InputError(str(path), f"has not the columns of {content}", RESTORE)
        table = file.read_row_group(index, use_threads=False)
    columns = []
    for column in table.columns:
        is_time = column.type == _TIME
        columns.append((column.cast(pa.int64()) if is_time else column).to_pylist())
    return list(zip(*columns, strict=True))


def groups_with(path: Path, words: Sequence[bytes], begin: int, end: int) -> Iterator[int]:
    """The row groups from ``begin`` to before ``end`` with one of the words anywhere in the bodies
    of their batches. Reads that column alone, and decodes no record. Raises InputError."""
    with opened(path) as file:
        for index in range(begin, end):
            bodies = file.read_row_group(index, columns=["body"], use_threads=False).column(0)
            texts = (chunk.buffers()[-1].to_pybytes() for chunk in bodies.chunks)
            if any(word in text for text in texts for word in words):
                yield index


def column_values(path: Path, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The values of some columns, row by row. Raises InputError."""
    with opened(path) as file:
        for index in range(file.metadata.num_row_groups):
            table = file.read_row_group(index, columns=list(names), use_threads=False)
            yield from zip(*(table.column(name).to_pylist() for name in names), strict=True)


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
