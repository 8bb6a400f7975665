"""What an archived file says about itself, in its metadata, and how the files are called."""

from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from eventsched.domain.errors import InputError

FORMAT = 1
KEY = b"eventsched"
"""The key of the manifest in the metadata of a Parquet file."""
BATCHES, DETAILS, DECISIONS = "batches", "details", "decisions"
CONTENTS = (DETAILS, DECISIONS, BATCHES)
"""The files of a day in the order in which they appear: a day is archived once it has batches."""
RESTORE = "restore the file from a copy, or archive into an empty folder"
_DAY_ZERO = date(1970, 1, 1)


class Manifest(msgspec.Struct, frozen=True):
    """What a file holds: records of ``stream`` from position ``first`` to before ``next``.

    ``before`` and ``after`` are the hashes (hexadecimal) of the batches that end at these two
    positions. ``epochs`` are [epoch, token, first] of those that began in the range. ``version`` is
    the version of eventsched that wrote the file. The file of batches has the ``digests`` (SHA-256)
    of the other files of its day, by content.
    """

    format: int
    content: str
    stream: str
    day: str
    first: int
    next: int
    before: str
    after: str
    version: str
    epochs: list[tuple[int, str, int]] = []
    digests: dict[str, str] = {}


def encoded(manifest: Manifest) -> bytes:
    """The manifest as it is stored."""
    return msgspec.json.encode(manifest)


def decoded(text: bytes | None, path: Path) -> Manifest:
    """The manifest of a file. Raises InputError if it is of no archive or has a later format."""
    if text is None:
        raise InputError(str(path), "is not a file of an archive", "remove it from the folder")
    try:
        number = msgspec.json.decode(text, type=_Format).format
        if number != FORMAT:
            problem = f"has format {number}, and this version reads format {FORMAT}"
            raise InputError(str(path), problem, "read it with the version that wrote it")
        manifest = msgspec.json.decode(text, type=Manifest)
        date.fromisoformat(manifest.day)
        if not len(bytes.fromhex(manifest.before)) == len(bytes.fromhex(manifest.after)) == 32:
            raise ValueError("a hash has not 32 bytes")
        return manifest
    except InputError:
        raise
    except ValueError as problem:
        raise InputError(str(path), f"has an altered manifest ({problem})", RESTORE) from problem


class _Format(msgspec.Struct):
    format: int


def stream_folder(folder: Path, stream: str) -> Path:
    """The folder of a stream's files in an archive."""
    name = quote(stream, safe=" ")
    return folder / (f"%2E{name[1:]}" if name.startswith(".") else name)


def stream_of(folder: Path) -> str:
    """The stream whose files are in a folder of an archive, by the folder's name."""
    return unquote(folder.name)


def day_file(stream_files: Path, day: str, content: str) -> Path:
    """A day's file."""
    return stream_files / f"{day}.{content}.parquet"


def day_of(at: int) -> date:
    """The day (UTC) of a time in µs since 1970."""
    return _DAY_ZERO + timedelta(days=at // 86_400_000_000)
