"""Exports a stream to a file, in the file format of docs/log-format.md."""

import gzip
import json
import os
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import psycopg

from eventsched.domain.errors import InputError
from eventsched.history.verify.verified_database import DatabaseLog, one_moment, streams
from eventsched.history.verify.verified_file import FORMAT
from eventsched.history.verify.verified_log import BatchRow, Log, Packed


def export(connection: psycopg.Connection[Any], stream: str, file: Path) -> int:
    """Writes a stream as of one moment, compressed if the name ends in .gz. Equal logs give equal
    bytes. The file appears only when it is complete. Returns the number of records. The connection
    must be idle. Raises InputError for an unknown stream and for a file that cannot be written, and
    psycopg.Error."""
    with one_moment(connection):
        numbers = {name: number for number, name in streams(connection)}
        if stream not in numbers:
            known = ", ".join(numbers) or "none"
            raise InputError("--stream", f"there is no stream {stream}", f"there are: {known}")
        log = DatabaseLog(connection, numbers[stream], stream)
        if log.start is not None:
            raise InputError(
                f"stream {stream}",
                f"the records before position {log.start.position} were dropped, and an export is "
                "whole",
                "add --from-archive FOLDER",
            )
        return export_log(log, file)


def export_log(log: Log, file: Path) -> int:
    """The same for a log of whatever form. Raises DamagedError, too."""
    try:
        _write_atomically(log, file)
    except OSError as problem:
        message = f"cannot be written: {problem.strerror or problem}"
        raise InputError(str(file), message, "name a file in a folder you own") from problem
    return 0 if log.head is None else log.head.next


def _write_atomically(log: Log, file: Path) -> None:
    """Writes a temporary file in the same folder, and renames it. Raises InputError if the name is
    that of a device or a pipe, which the new file would replace."""
    if file.exists() and not file.is_file() and not file.is_dir():
        raise InputError(str(file), "is not a regular file", "name a file in a folder you own")
    temporary = file.with_name(f".{file.name}.part")
    try:
        _write(log, temporary, is_compressed=file.suffix == ".gz")
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _write(log: Log, path: Path, *, is_compressed: bool) -> None:
    with ExitStack() as stack:
        out: IO[bytes] | gzip.GzipFile = stack.enter_context(path.open("wb"))
        if is_compressed:
            # Without name and time in the header, which would differ between exports.
            compressed = gzip.GzipFile("", "wb", compresslevel=6, fileobj=out, mtime=0)
            out = stack.enter_context(compressed)
        for line in _lines(log):
            out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode())
            out.write(b"\n")


def _lines(log: Log) -> Iterator[dict[str, Any]]:
    epochs = [[epoch.epoch, epoch.token.hex(), epoch.first] for epoch in log.epochs]
    head = log.head
    yield {
        "format": FORMAT,
        "stream": log.stream,
        "epochs": epochs,
        "head": [0, ""] if head is None else [head.next, head.hash.hex()],
    }
    for batch in log.batches():
        yield _line(batch, log.details(batch.end))


def _line(batch: BatchRow, details: list[Packed]) -> dict[str, Any]:
    return {
        "batch": [
            batch.first, batch.count, batch.epoch, batch.written_at,
            batch.mark.decode(), batch.hash.hex(), batch.body.decode(),
        ],
        "details": [[seq, base, b64encode(body).decode()] for seq, base, body in details],
    }  # fmt: skip
