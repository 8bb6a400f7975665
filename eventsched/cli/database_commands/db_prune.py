"""``eventsched db prune``: old records are dropped, by whole partitions."""

import argparse
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, print_answer
from eventsched.cli.log_access.archive_options import require_archives
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.domain.records import PartitionSealed
from eventsched.domain.units import is_virtual
from eventsched.eventlog import database
from eventsched.eventlog.postgres import reader as reading
from eventsched.eventlog.postgres.pruning import prune
from eventsched.eventlog.postgres.reader import Reader
from eventsched.output.terminal.tables import counted
from eventsched.output.time_format import read_moment

_SEALED = """
SELECT p.seal FROM eventsched_log.partition p
WHERE p.stream = :s AND p.seal IS NOT NULL ORDER BY p.first
"""
_OLDEST = """
SELECT p.first, p.next, p.seal IS NOT NULL AS is_sealed, p.next <= h.next AS is_full
FROM eventsched_log.partition p JOIN eventsched_log.head h ON h.stream = p.stream
WHERE p.stream = :s ORDER BY p.first LIMIT 1
"""


def add_action(actions: Any) -> None:
    """Adds the action to the parser of ``eventsched db``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "prune",
        help="drop old records of a stream, by whole partitions",
        description="Drops the oldest partitions of a stream, with all of their records, decisions "
        "and vectors. Only sealed partitions go: a running scheduler seals a full one once an "
        "archive holds it, or without an archive if its configuration has "
        "retention.requireArchive: false. It may be interrupted and run again.",
    )
    parser.add_argument(
        "--before", required=True, metavar="TIME",
        help="what was written before: 2026-11-21, 2026-11-21T15:00, or 12h, 90d ago",
    )  # fmt: skip
    parser.add_argument(
        "--archive", type=Path, metavar="FOLDER",
        help="first check that this archive has the files that the seals name",
    )  # fmt: skip
    add_output_option(parser, "text", pages=False)
    parser.set_defaults(run=_prune)
    add_database_options(parser)


def _prune(options: argparse.Namespace) -> int:
    with database.administrator_address(*database_of(options)) as address:
        stream = reading.choose_stream(address, options.stream)
        with closing(Reader(address, stream, keeps_connection=True)) as reader:
            before = _before(options.before, reader)
            if options.archive is not None:
                _require_archived(options.archive, reader)
            dropped = prune(address, stream, 0, before)
            reason = None if dropped else _reason(reader)
    ranges = [{"first": pruned.first, "last": pruned.next - 1} for pruned in dropped]
    lines = [f"positions {each['first']} to {each['last']} are dropped" for each in ranges]
    lines.append(f"{counted(len(dropped), 'partition')} of stream {stream} dropped")
    text = "\n".join((*lines, reason) if reason else lines)
    document = {"stream": stream, "dropped": ranges, "reason": reason}
    print_answer(document, text, options.output)
    return 0


def _before(text: str, reader: Reader) -> int:
    """The time (µs) of --before. Raises InputError."""
    newest = reader.last_batch()
    virtual = newest is not None and is_virtual(newest.written_at)
    now = newest.written_at if newest is not None and virtual else time.time_ns() // 1_000
    try:
        return read_moment(text, now, virtual=virtual)
    except (ValueError, OverflowError):
        raise InputError(
            "--before", f"{text!r} is not a time", "write 2026-11-21, or a length such as 90d"
        ) from None


def _require_archived(folder: Path, reader: Reader) -> None:
    """Requires that an archive has the files that the seals name. Raises InputError."""
    require_archives()
    from eventsched.eventlog.archive.archive_manifest import RESTORE, stream_folder
    from eventsched.eventlog.archive.parquet import digest_of

    for row in reader.rows(_SEALED):
        seal = next(reader.read(row["seal"])).record
        assert isinstance(seal, PartitionSealed)
        if not seal.archived:
            raise InputError(
                "--archive",
                f"the records from {seal.first} to {seal.next - 1} were sealed without an archive",
                "leave --archive out if they may be lost",
            )
        for name, digest in seal.archived.items():
            path = stream_folder(folder, reader.stream) / name
            try:
                found = digest_of(path)
            except OSError as problem:
                reason = f"cannot be read: {problem.strerror or problem}"
                raise InputError(str(path), reason, RESTORE) from problem
            if found != digest:
                raise InputError(str(path), "is not the file that was archived", RESTORE)


def _reason(reader: Reader) -> str:
    """Why the oldest partition was not dropped."""
    rows = reader.rows(_OLDEST)
    if not rows or not rows[0]["is_full"]:
        return "its oldest partition is not full yet"
    first, last = rows[0]["first"], rows[0]["next"] - 1
    if not rows[0]["is_sealed"]:
        return (
            f"its oldest partition (positions {first} to {last}) is not sealed: run `eventsched db "
            "archive`; the running scheduler then seals it within minutes"
        )
    return (
        f"its oldest partition (positions {first} to {last}) has newer records, or a query on it "
        "is running"
    )
