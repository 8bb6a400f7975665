"""Reads input files, plain or compressed; whatever goes wrong is an InputError."""

import gzip
import sys
import zlib
from pathlib import Path

from eventsched.domain.errors import InputError

_GZIP = b"\x1f\x8b"
"""How gzip data begin."""


def read_text(path: Path) -> str:
    """The file's text: UTF-8, with or without a byte order mark, decompressed if its name ends
    in ``.gz``; ``-`` is standard input.

    Raises InputError, naming the file, when it is missing, unreadable, truncated, not gzip although
    named so, not UTF-8, or empty.
    """
    where = str(path)
    try:
        body = sys.stdin.buffer.read() if where == "-" else path.read_bytes()
    except OSError as error:
        raise InputError(
            where,
            f"cannot be read ({error.strerror or error})",
            "check the path and the file's permissions",
        ) from error
    if path.suffix == ".gz":
        body = _decompressed(body, where)
    return decoded_text(body, where)


def decoded_text(body: bytes, where: str) -> str:
    """UTF-8 as text, with or without a byte order mark. Raises InputError, naming ``where``, if it
    is something else or empty."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if body.startswith(_GZIP):
            remedy = "decompress it, or give it as a file whose name ends in .gz"
            raise InputError(where, "is compressed, and not named so", remedy) from error
        problem = f"is not UTF-8 text (byte {error.start})"
        raise InputError(where, problem, "write it in UTF-8") from error
    if not text.strip():
        raise InputError(where, "is empty", "check that the file was written completely")
    return text


def _decompressed(body: bytes, where: str) -> bytes:
    try:
        return gzip.decompress(body)
    except EOFError as error:
        raise InputError(
            where, "ends in the middle of the gzip data", "copy or download the file again"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(
            where,
            f"is named .gz but is not valid gzip data ({error})",
            "copy or download it again, or drop .gz from the name of an uncompressed file",
        ) from error
