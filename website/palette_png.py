"""Pictures as PNG files with a palette of 256 colours, which are a third as large."""

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOURS = 256


def palette_png(rgb: NDArray[np.uint8]) -> bytes:
    """A picture (height, width, 3) with its 256 most frequent colours; each other one becomes the
    nearest of them."""
    height, width, _ = rgb.shape
    packed = rgb.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], dtype=np.uint32)
    colours, places, counts = np.unique(packed, return_inverse=True, return_counts=True)
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)
    palette = channels[np.argsort(-counts, kind="stable")[:_COLOURS]]
    nearest = [int(np.argmin(((palette - each) ** 2).sum(axis=1))) for each in channels]
    pixels = np.array(nearest, dtype=np.uint8)[places].reshape(height, width)
    rows = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with the filter 0: none
    rows[:, 1:] = pixels
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return _SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
