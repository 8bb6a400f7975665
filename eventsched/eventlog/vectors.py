"""The vectors of a decision as bytes that SQL can read; docs/log-format.md describes the layout.

Little-endian, without compression (the database compresses large values), in the smallest width
that fits the values. ``unpack`` restores what ``pack`` encoded, dtypes included.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.records.verdicts import (
    STORED_NO_NODE,
    Codes,
    DeltaPart,
    Detail,
    Vector,
)

FORMAT = 1
PARTIAL = 2
"""The format of a partial detail: the columns are as in a delta, and rows that ``codes`` does not
list are not kept."""
MOST_ROWS = 2**22
"""The largest number of rows that is read: a damaged detail must not exhaust the memory."""
_HEAD, _COUNT = struct.Struct("<BBIBB"), struct.Struct("<I")
_CONSTANT, _NARROW, _BITMAP = 16, 32, 64
_SIGNED: dict[int, np.dtype[Any]] = {width: np.dtype(f"<i{width}") for width in (1, 2, 4, 8)}
_LIMITS = [(1, 128), (2, 32_768), (4, 2_147_483_648)]


def pack(detail: Detail) -> bytes:
    """The detail's bytes. ``base`` is not part of them; it is stored in a column of its own. A
    partial detail must not be expanded."""
    size, scores, codes = detail.size, len(detail.scores), detail.codes
    is_whole = detail.base is None and not detail.is_partial
    if detail.is_partial and isinstance(codes, np.ndarray):
        kept = np.flatnonzero(codes != STORED_NO_NODE)
        codes = DeltaPart(kept.astype(np.int32), codes[kept])
    columns = [_as_signed(codes), *detail.scores, *detail.normalized]
    wide = 0 if is_whole else 2 if size <= 65_536 else 4
    version = PARTIAL if detail.is_partial else FORMAT
    parts = [_HEAD.pack(version, wide, size, len(columns), scores)]
    packed_rows: NDArray[np.int32] | None = None  # several columns often share their rows
    for column in columns:
        if column is None:
            parts.append(b"\0")
        elif isinstance(column, DeltaPart):
            if column.rows is not packed_rows:
                packed_rows = column.rows
                flag, rows = _packed_rows(packed_rows, wide, size)
            kind, values = _packed(column.values)
            parts += (bytes((kind | flag,)), _COUNT.pack(len(packed_rows)), rows, values)
        else:
            kind, values = _packed(column)
            parts += (bytes((kind,)), values)
    return b"".join(parts)


def is_partial(body: bytes, base: int | None) -> bool:
    """Whether the bytes are those of a partial detail."""
    return base is None and body[:1] == bytes([PARTIAL])


def unpack(body: bytes, base: int | None) -> Detail:
    """A detail from its bytes. Raises ValueError if they do not have this layout."""
    try:
        version, wide, size, columns, scores = _HEAD.unpack_from(body)
    except struct.error as problem:
        raise ValueError(str(problem)) from problem
    is_partial = version == PARTIAL and base is None
    widths = (2, 4) if is_partial or base is not None else (0,)
    if wide not in widths or version != (PARTIAL if is_partial else FORMAT):
        raise ValueError(f"vectors of format {version} with rows of width {wide}, base {base}")
    if size > MOST_ROWS:
        raise ValueError(f"{size} rows, more than {MOST_ROWS}")
    if columns != 1 + scores and (base is not None or columns != 1 + 2 * scores):
        raise ValueError(f"{columns} columns, {scores} of them scores")
    at = _HEAD.size
    unpacked: list[Any] = []
    for _ in range(columns):
        column, at = _unpacked(body, at, wide, size)
        unpacked.append(column)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes after the last column")
    codes = _as_codes(unpacked[0])
    raw, normalized = unpacked[1 : 1 + scores], unpacked[1 + scores :]
    if base is None and any(column is None for column in (codes, *raw)):
        raise ValueError("a column is missing that only a delta may leave out")
    if is_partial and isinstance(codes, DeltaPart):
        listed, codes = codes, np.full(size, STORED_NO_NODE, dtype=np.uint16)
        codes[listed.rows] = listed.values
    return Detail(size, base, codes, tuple(raw), tuple(normalized), is_partial)


def _as_signed(codes: Codes | DeltaPart | None) -> Vector | DeltaPart | None:
    if isinstance(codes, DeltaPart):
        return DeltaPart(codes.rows, codes.values.view(np.int16))
    return None if codes is None else codes.view(np.int16)


def _as_codes(column: Vector | DeltaPart | None) -> Codes | DeltaPart | None:
    if isinstance(column, DeltaPart):
        return DeltaPart(column.rows, column.values.astype(np.int16).view(np.uint16))
    return None if column is None else column.astype(np.int16).view(np.uint16)


def _packed(column: Vector) -> tuple[int, bytes]:
    """The kind byte and the bytes of the values."""
    narrow = _NARROW if column.itemsize == 1 else 0
    if not len(column):
        return 1 | narrow, b""
    if len(column) == 1:
        least = most = column.item()
    else:  # as column.min() and .max(), which take twice as long for some rows
        least, most = int(np.minimum.reduce(column)), int(np.maximum.reduce(column))
    reach = max(most, -least - 1)
    width = next((width for width, limit in _LIMITS if reach < limit), 8)
    if least == most:
        return width | narrow | _CONSTANT, least.to_bytes(width, "little", signed=True)
    return width | narrow, column.astype(_SIGNED[width]).tobytes()


def _packed_rows(rows: NDArray[np.int32], wide: int, size: int) -> tuple[int, bytes]:
    """A flag for the kind byte, and the rows: as a list, or as a bitmap if that is smaller."""
    if len(rows) == 1 and wide <= (size + 7) // 8:
        return 0, rows.item().to_bytes(wide, "little")
    if wide * len(rows) <= (size + 7) // 8:
        return 0, rows.astype("<u2" if wide == 2 else "<u4").tobytes()
    is_listed = np.zeros(size, dtype=bool)
    is_listed[rows] = True
    return _BITMAP, np.packbits(is_listed, bitorder="little").tobytes()


def _unpacked(body: bytes, at: int, wide: int, size: int) -> tuple[Vector | DeltaPart | None, int]:
    """A column, and the offset of the next one."""
    if at >= len(body):
        raise ValueError("a column is missing")
    kind = body[at]
    at += 1
    if not kind:
        return None, at
    known = _CONSTANT | _NARROW | 15 | (_BITMAP if wide else 0)
    if kind & 15 not in _SIGNED or kind & ~known:
        raise ValueError(f"a column of kind {kind}")
    if not wide:
        return _values(body, at, kind, size)
    rows, at = _unpacked_rows(body, at, wide, size, is_bitmap=bool(kind & _BITMAP))
    values, at = _values(body, at, kind, len(rows))
    return DeltaPart(rows, values), at


def _unpacked_rows(
    body: bytes, at: int, wide: int, size: int, *, is_bitmap: bool
) -> tuple[NDArray[np.int32], int]:
    try:
        (count,) = _COUNT.unpack_from(body, at)
    except struct.error as problem:
        raise ValueError(str(problem)) from problem
    at += _COUNT.size
    length = (size + 7) // 8 if is_bitmap else wide * count
    if is_bitmap:
        bits = np.unpackbits(np.frombuffer(body, np.uint8, length, at), bitorder="little")
        rows = np.flatnonzero(bits).astype(np.int32)
    else:
        rows = np.frombuffer(body, f"<u{wide}", count, at).astype(np.int32)
    if len(rows) != count or (count and not 0 <= rows.min() <= rows.max() < size):
        raise ValueError(f"rows that are not {count} of {size}")
    return rows, at + length


def _values(body: bytes, at: int, kind: int, count: int) -> tuple[Vector, int]:
    width = kind & 15
    number = 1 if kind & _CONSTANT else count
    values = np.frombuffer(body, _SIGNED[width], number, at)
    dtype: Any = np.uint8 if kind & _NARROW else np.int64
    if kind & _CONSTANT:
        return np.full(count, values[0], dtype=dtype), at + width
    return values.astype(dtype), at + width * number
