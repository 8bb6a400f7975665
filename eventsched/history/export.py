"""A stream as a file, in the file form of docs/log-format.md."""

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
from eventsched.history.verify.verified_log import BatchRow, Packed


def export(connection: psycopg.Connection[Any], stream: str, file: Path) -> int:
    """Writes a stream as it is at one moment, compressed where the name ends in .gz; the same log
    gives the same bytes. The file appears when it is whole. Returns the number of records. The
    connection must be idle. Raises InputError for an unknown stream and a file that cannot be
    written, and psycopg.Error."""
    with one_moment(connection):
        found = {name: number for number, name in streams(connection)}
        if stream not in found:
            known = ", ".join(found) or "none"
            raise InputError("--stream", f"there is no stream {stream}", f"there are: {known}")
        log = DatabaseLog(connection, found[stream], stream)
        try:
            _write_whole(log, file)
        except OSError as problem:
            said = f"cannot be written: {problem.strerror or problem}"
            raise InputError(str(file), said, "name a file in a folder you own") from problem
        return 0 if log.head is None else log.head.next


def _write_whole(log: DatabaseLog, file: Path) -> None:
    """Whole or not at all: through a file beside it."""
    beside = file.with_name(f".{file.name}.part")
    try:
        _write(log, beside, packed=file.suffix == ".gz")
        os.replace(beside, file)
    finally:
        beside.unlink(missing_ok=True)


def _write(log: DatabaseLog, path: Path, *, packed: bool) -> None:
    with ExitStack() as stack:
        out: IO[bytes] = stack.enter_context(path.open("wb"))
        if packed:
            # No name and no time in it: they would differ from one export to the next.
            packing = gzip.GzipFile("", "wb", compresslevel=6, fileobj=out, mtime=0)
            out = stack.enter_context(packing)  # type: ignore[arg-type]
        for line in _lines(log):
            out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode())
            out.write(b"\n")


def _lines(log: DatabaseLog) -> Iterator[dict[str, Any]]:
    epochs = [[each.epoch, each.token.hex(), each.first] for each in log.epochs]
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
