"""Unpacks, expands and hashes the vectors of decisions for verification, by docs/log-format.md.

The newest whole vectors of each chain of deltas stay in memory and are changed in place, so that a
decision costs only its changes and the hashing of the changed columns.
"""

import struct
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.history.verify.verified_log import Packed

EXCLUDED, NOT_EVALUATED, GONE = 65_533, 65_534, 65_535
CACHE_BYTES = 512 * 1024 * 1024
"""The memory for whole vectors, in bytes; vectors beyond it are read again when needed."""
_HEAD = struct.Struct("<BBIBB")
_CONSTANT, _BYTES, _BITMAP = 16, 32, 64
_BITS_OF_WHOLE = 63
_BITS_OF_DELTA = 127
_WIDTHS: dict[int, np.dtype[Any]] = {
    1: np.dtype("<i1"),
    2: np.dtype("<i2"),
    4: np.dtype("<i4"),
    8: np.dtype("<i8"),
}
_CODES, _UNSIGNED = np.dtype("<u2"), np.dtype("u1")

Vector = NDArray[Any]


class VectorError(Exception):
    """A detail is wrong; the message says why."""


class LostError(Exception):
    """A detail that is needed is missing; the message says which."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        super().__init__(f"it is a delta to the vectors of position {seq}, which are not there")


class Column(NamedTuple):
    """The values of one column: an array, or one value for all rows. ``rows`` are the rows of a
    delta; None in a whole record, which has all rows."""

    rows: Vector | None
    values: Any
    is_bytes: bool


class Unpacked(NamedTuple):
    """A detail, not expanded. A column is None if a delta does not change it, or if a whole record
    does not have it. A partial record is whole, but has only some rows."""

    base: int | None
    size: int
    columns: list[Column | None]
    scores: int
    is_partial: bool


class Census(NamedTuple):
    """The counts of a decision's codes. ``codes`` are all codes that occur."""

    feasible: int
    evaluated: int
    counts: list[list[int]]
    gone: int
    codes: frozenset[int]


class Whole:
    """The vectors of one decision: codes, scores, then normalised columns or None. Of a partial
    record, the codes of rows that it does not have are GONE and the others 0."""

    __slots__ = (
        "_census", "_counts", "_digests", "bytes", "columns", "is_partial", "scores", "size",
    )  # fmt: skip

    def __init__(self, record: Unpacked) -> None:
        """Raises VectorError if the record lacks a required column."""
        self.size, self.scores, self.is_partial = record.size, record.scores, record.is_partial
        self.columns: list[Vector | None] = []
        for place, column in enumerate(record.columns):
            if column is None:
                if place <= record.scores:
                    raise VectorError(f"column {place} is missing in a whole record")
                self.columns.append(None)
                continue
            vector = np.zeros(self.size, _dtype(place, column))
            if record.is_partial and not place:
                vector[:] = GONE
            vector[slice(None) if column.rows is None else column.rows] = column.values
            self.columns.append(vector)
        self._digests: list[bytes | None] = [None] * len(self.columns)
        codes, numbers = np.unique(self.codes, return_counts=True)
        self._counts: dict[int, int] = dict(zip(codes.tolist(), numbers.tolist(), strict=True))
        self._census: Census | None = None
        self.bytes = self._measured()

    @property
    def codes(self) -> Vector:
        """uint16[size]."""
        codes = self.columns[0]
        assert codes is not None
        return codes

    @property
    def census(self) -> Census:
        """The counts of its codes."""
        if self._census is None:
            counts = {code: number for code, number in sorted(self._counts.items()) if number}
            gone = counts.get(GONE, 0)
            self._census = Census(
                counts.get(0, 0),
                self.size - gone - counts.get(EXCLUDED, 0) - counts.get(NOT_EVALUATED, 0),
                [[code, number] for code, number in counts.items() if code not in (0, GONE)],
                gone,
                frozenset(counts),
            )
        return self._census

    def change(self, delta: Unpacked) -> None:
        """Applies a delta. Raises VectorError; this object is unusable then."""
        number = len(delta.columns)
        if self.is_partial:
            raise VectorError("a delta to vectors that are partial")
        if delta.scores and delta.scores != self.scores:
            raise VectorError(f"{delta.scores} score columns, but its base has {self.scores}")
        if delta.size < self.size:
            raise VectorError(f"{delta.size} rows, but its base has {self.size}")
        self.scores = delta.scores
        if number < len(self.columns) or delta.size > self.size:
            del self.columns[number:], self._digests[number:]
            self._lengthen(delta.size)
        for place, column in enumerate(delta.columns):
            if column is not None:
                self._put(place, column)

    def digest(self) -> str:
        """The digest that the decision should have."""
        parts = []
        for place, column in enumerate(self.columns):
            if column is not None:
                digest = self._digests[place]
                if digest is None:
                    digest = self._digests[place] = blake2b(column.data, digest_size=16).digest()
                parts.append(digest)
        return blake2b(b"".join(parts), digest_size=16).hexdigest()

    def _put(self, place: int, column: Column) -> None:
        vector, rows = self.columns[place], column.rows
        assert vector is not None
        assert rows is not None
        if vector.dtype != _dtype(place, column):
            raise VectorError(f"column {place} is of another type than in its base")
        old = vector[rows]
        differs = old != column.values
        if not np.count_nonzero(differs):
            return
        vector[rows] = column.values
        self._digests[place] = None
        if place == 0:
            counts = self._counts
            for code in old[differs].tolist():
                counts[code] -= 1
            for code in vector[rows[differs]].tolist():
                counts[code] = counts.get(code, 0) + 1
            self._census = None

    def _lengthen(self, size: int) -> None:
        more = size - self.size
        for place, column in enumerate(self.columns):
            if more and column is not None:
                self.columns[place] = np.concatenate((column, np.zeros(more, column.dtype)))
                self._digests[place] = None
        self._counts[0] = self._counts.get(0, 0) + more
        self._census = None
        self.size = size
        self.bytes = self._measured()

    def _measured(self) -> int:
        return sum(column.nbytes for column in self.columns if column is not None)


class Expander:
    """Expands details in order of position. ``find`` reads an earlier detail again."""

    def __init__(
        self, find: Callable[[int], Packed | None], cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._find, self._cache_limit = find, cache_bytes
        self._cache: OrderedDict[int, Whole] = OrderedDict()
        self._bytes = 0

    def expand(self, packed: Packed, size: int) -> Whole:
        """The whole vectors of a detail, for ``size`` rows. They are valid until the next call.
        Raises VectorError, and LostError if a base is missing."""
        record = unpack(packed, size)
        if record.size != size:
            raise VectorError(f"{record.size} rows, expected {size} (one for each NodeAdded)")
        if record.base is None:
            whole = Whole(record)
        else:
            whole = self._base(record.base, size)
            whole.change(record)
        if not whole.is_partial:
            self._keep(packed.seq, whole)
        return whole

    def forget(self, seq: int) -> None:
        """Drops vectors that are wrong."""
        whole = self._cache.pop(seq, None)
        if whole is not None:
            self._bytes -= whole.bytes

    def _base(self, seq: int, size: int) -> Whole:
        deltas: list[Unpacked] = []
        while (whole := self._cache.get(seq)) is None:
            packed = self._find(seq)
            if packed is None:
                raise LostError(seq)
            record = unpack(packed, size)
            if record.base is None:
                whole = Whole(record)
                break
            deltas.append(record)
            seq = record.base
        self.forget(seq)
        while deltas:
            whole.change(deltas.pop())
        return whole

    def _keep(self, seq: int, whole: Whole) -> None:
        self._cache[seq] = whole
        self._bytes += whole.bytes
        while self._bytes > self._cache_limit and len(self._cache) > 1:
            _, oldest = self._cache.popitem(last=False)
            self._bytes -= oldest.bytes


def unpack(packed: Packed, most: int) -> Unpacked:
    """The parts of a detail. ``most`` is the largest number of rows. Raises VectorError if the
    detail has another layout."""
    seq, base, body = packed
    if base is not None and not 0 <= base < seq:
        raise VectorError(f"base {base} is not an earlier position")
    if len(body) < _HEAD.size:
        raise VectorError(f"{len(body)} bytes, less than a header")
    version, width, size, columns, scores = _HEAD.unpack_from(body)
    is_partial = version == 2
    if version not in (1, 2):
        raise VectorError(f"format {version}, expected 1 or 2")
    if is_partial and base is not None:
        raise VectorError("a partial record with a base")
    if width not in ((2, 4) if is_partial or base is not None else (0,)):
        form = "a partial record" if is_partial else "a whole record" if base is None else "a delta"
        raise VectorError(f"row numbers of {width} bytes in {form}")
    if size > most:
        raise VectorError(f"{size} rows, but only {most} exist")
    if columns != 1 + scores and (base is not None or columns != 1 + 2 * scores):
        raise VectorError(f"{columns} columns, {scores} of them scores")
    at = _HEAD.size
    unpacked: list[Column | None] = []
    for place in range(columns):
        column, at = _column(body, at, width, size, place)
        if column is not None and column.is_bytes and not 0 < place <= scores:
            raise VectorError(f"column {place} cannot be of bytes")
        unpacked.append(column)
    if at != len(body):
        raise VectorError(f"{len(body)} bytes, expected {at}")
    return Unpacked(base, size, unpacked, scores, is_partial)


def _column(
    body: bytes, at: int, row_width: int, size: int, place: int
) -> tuple[Column | None, int]:
    """A column, and the offset of the next one."""
    kind = body[at] if at < len(body) else -1
    at += 1
    if kind == 0:
        return None, at
    known = _BITS_OF_DELTA if row_width else _BITS_OF_WHOLE
    if kind < 0 or kind & ~known or kind & 15 not in _WIDTHS:
        raise VectorError(f"column {place} is of kind {kind}")
    if not row_width:
        return _values(body, at, kind, None, size, place)
    if at + 4 > len(body):
        raise VectorError(f"{len(body)} bytes, too few for column {place}")
    count = int.from_bytes(body[at : at + 4], "little")
    at += 4
    end = at + ((size + 7) // 8 if kind & _BITMAP else row_width * count)
    if end > len(body):
        raise VectorError(f"{len(body)} bytes, too few for {count} rows of column {place}")
    rows = _marked(body[at:end]) if kind & _BITMAP else _listed(body[at:end], row_width)
    if len(rows) != count:
        raise VectorError(f"{len(rows)} rows in the bitmap of column {place}, expected {count}")
    if count and rows[-1] >= size:
        raise VectorError(f"row numbers of column {place} that are not below {size}")
    return _values(body, end, kind, rows, count, place)


def _listed(numbers: bytes, width: int) -> Vector:
    rows = np.frombuffer(numbers, "<u2" if width == 2 else "<u4")
    if len(rows) > 1 and np.count_nonzero(rows[1:] > rows[:-1]) != len(rows) - 1:
        raise VectorError("row numbers that do not ascend")
    return rows.astype(np.intp)


def _marked(bitmap: bytes) -> Vector:
    return np.flatnonzero(np.unpackbits(np.frombuffer(bitmap, _UNSIGNED), bitorder="little"))


def _values(
    body: bytes, at: int, kind: int, rows: Vector | None, count: int, place: int
) -> tuple[Column, int]:
    width = kind & 15
    end = at + (width if kind & _CONSTANT else width * count)
    if end > len(body):
        raise VectorError(f"{len(body)} bytes, too few for column {place}")
    is_bytes = bool(kind & _BYTES)
    values: Any
    if kind & _CONSTANT:
        values = int.from_bytes(body[at:end], "little", signed=True)
        fits = 0 <= values < 256
        if place == 0:
            values &= 65_535
    else:
        array: Vector = np.frombuffer(body, _WIDTHS[width], count, at)
        if not is_bytes:
            fits = True
        elif width == 1:
            fits, array = body[at:end].isascii(), array.view(_UNSIGNED)  # all below 128
        else:
            fits = not count or bool(array.min() >= 0 and array.max() < 256)
        values = array if place else array.astype("<i2").view(_CODES)
    if is_bytes and not fits:
        raise VectorError(f"column {place} has values that are not unsigned bytes")
    return Column(rows, values, is_bytes), end


def _dtype(place: int, column: Column) -> Any:
    if place == 0:
        return _CODES
    return _UNSIGNED if column.is_bytes else _WIDTHS[8]
