"""The vectors of a decision as bytes that SQL can read: docs/log-format.md has the layout.

Little-endian, no compression (the database compresses large values), widths as small as the values
allow. ``unpack`` gives back what ``pack`` was given, dtypes included.
"""

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.verdicts import Detail

FORMAT = 1
_HEAD = struct.Struct("<BBIIBB")
_CONSTANT, _NARROW = 16, 32
_SIGNED: dict[int, np.dtype[Any]] = {width: np.dtype(f"<i{width}") for width in (1, 2, 4, 8)}
_LIMITS = [(1, 128), (2, 32_768), (4, 2_147_483_648)]

Vector = NDArray[Any]


def pack(detail: Detail) -> bytes:
    """The detail's bytes; its ``base`` is kept beside them."""
    codes = None if detail.codes is None else detail.codes.view(np.int16)
    columns: list[Vector | None] = [codes, *detail.scores, *detail.normalized]
    if detail.rows is None:
        wide, rows, count = 0, b"", detail.size
    else:
        wide = 2 if detail.size <= 65_536 else 4
        rows = detail.rows.astype("<u2" if wide == 2 else "<u4").tobytes()
        count = len(detail.rows)
    scores = len(detail.scores)
    parts = [_HEAD.pack(FORMAT, wide, detail.size, count, len(columns), scores), rows]
    for column in columns:
        parts += (b"\0",) if column is None else _packed(column)
    return b"".join(parts)


def unpack(body: bytes, base: int | None) -> Detail:
    """A detail from its bytes. Raises ValueError where they are not of this layout."""
    try:
        version, wide, size, count, columns, scores = _HEAD.unpack_from(body)
    except struct.error as problem:
        raise ValueError(str(problem)) from problem
    if version != FORMAT or wide not in (0, 2, 4):
        raise ValueError(f"vectors of format {version} with rows of width {wide}")
    if columns not in (1 + scores, 1 + 2 * scores):
        raise ValueError(f"{columns} columns, {scores} of them scores")
    if count > size or (not wide and count != size):
        raise ValueError(f"{count} of {size} rows")
    at = _HEAD.size
    rows = None
    if wide:
        rows = np.frombuffer(body, f"<u{wide}", count, at).astype(np.int32)
        at += wide * count
    found: list[Vector | None] = []
    for _ in range(columns):
        column, at = _unpacked(body, at, count)
        found.append(column)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes after the last column")
    codes = None if found[0] is None else found[0].astype(np.int16).view(np.uint16)
    return Detail(size, base, rows, codes, tuple(found[1 : 1 + scores]), tuple(found[1 + scores :]))


def _packed(column: Vector) -> tuple[bytes, bytes]:
    narrow = _NARROW if column.dtype == np.uint8 else 0
    if not len(column):
        return bytes([1 | narrow]), b""
    if len(column) == 1:
        least = most = int(column[0])
    else:
        least, most = int(column.min()), int(column.max())
    reach = max(most, -least - 1)
    width = next((width for width, limit in _LIMITS if reach < limit), 8)
    if least == most:
        return bytes([width | narrow | _CONSTANT]), least.to_bytes(width, "little", signed=True)
    return bytes([width | narrow]), column.astype(_SIGNED[width]).tobytes()


def _unpacked(body: bytes, at: int, count: int) -> tuple[Vector | None, int]:
    if at >= len(body):
        raise ValueError("a column is missing")
    kind = body[at]
    at += 1
    if not kind:
        return None, at
    width = kind & 15
    if width not in _SIGNED or kind & ~63:
        raise ValueError(f"a column of kind {kind}")
    number = 1 if kind & _CONSTANT else count
    values = np.frombuffer(body, _SIGNED[width], number, at)
    dtype: Any = np.uint8 if kind & _NARROW else np.int64
    column: Vector
    if kind & _CONSTANT:
        column = np.full(count, values[0], dtype=dtype)
    else:
        column = values.astype(dtype)
    return column, at + width * number
