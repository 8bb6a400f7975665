"""``eventsched db archive``: the days of a stream that are over, as Parquet files."""

import argparse
import sys
import time
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_answer
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.postgres import reader as reading
from eventsched.eventlog.postgres.reader import Reader
from eventsched.output.terminal.tables import counted
from eventsched.output.time_format import read_moment


def add_action(actions: Any) -> None:
    """Adds the action to the parser of ``eventsched db``."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "archive",
        help="write the days of a stream that are over to Parquet files",
        description="Writes the days of a stream that are over (UTC) to Parquet files, which "
        "--from-archive of other commands and DuckDB read. Days that the folder has already are "
        "left out. Nothing is deleted from the database, but retention may delete there what is "
        "archived. Needs the extra `archive`.",
    )
    parser.add_argument(
        "--to", type=Path, required=True, metavar="FOLDER", help="the folder of the archive"
    )
    until = parser.add_mutually_exclusive_group()
    until.add_argument(
        "--before", metavar="TIME",
        help="only days that ended by then: 2026-11-21, 2026-11-21T15:00, or 12h, 2d ago",
    )  # fmt: skip
    until.add_argument(
        "--days", type=_days, default=0, metavar="N",
        help="only days that ended N days ago or earlier (default: 0)",
    )  # fmt: skip
    add_output_option(parser, "text", pages=False)
    parser.set_defaults(run=_archive)
    add_database_options(parser)


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days; write 0 or more")
    return int(text)


def _archive(options: argparse.Namespace) -> int:
    from eventsched.eventlog.archive.archive_folder import manifests
    from eventsched.eventlog.archive.archive_manifest import day_of
    from eventsched.eventlog.archive.archive_notes import note_archived
    from eventsched.eventlog.archive.archiver import archive, first_unarchived_day

    now = time.time_ns() // 1_000
    today = day_of(now)
    before = _before(options, now, today)
    with database.reader_address(
        *database_of(options), roles=database.ARCHIVING, read_only=False
    ) as address:
        stream = reading.choose_stream(address, options.stream)
        with closing(Reader(address, stream, keeps_connection=True)) as reader:
            days = []
            for manifest in archive(reader, options.to, before, today):
                last, records = manifest.next - 1, manifest.next - manifest.first
                days.append(
                    {
                        "day": str(manifest.day),
                        "records": records,
                        "first": manifest.first,
                        "last": last,
                    }
                )
                if not is_document(options.output):
                    text = f"{manifest.day}: {counted(records, 'record')}, positions "
                    print(f"{text}{manifest.first} to {last}", flush=True)
            reason = None
            if not days:
                day = first_unarchived_day(reader, options.to, today)
                reason = _why_none(day, today, options)
    with database.administrator_address(*database_of(options)) as address:
        remedy = note_archived(address, options.to, stream, manifests(options.to, stream))
    text = f"{counted(len(days), 'day')} of stream {stream} archived in {options.to}"
    document = {"stream": stream, "folder": str(options.to), "days": days, "reason": reason}
    print_answer(document, f"{text}: {reason}" if reason else text, options.output)
    if remedy:
        print(
            "This user may not note that in the database, so retention keeps these records there: "
            f"{remedy}",
            file=sys.stderr,
        )
    return 0


def _why_none(day: date | None, today: date, options: argparse.Namespace) -> str:
    """Why no day was archived. ``day`` is the first one that is not; None if all records are."""
    if day is None:
        return "all records of the stream are archived"
    if day >= today:
        return f"{day} is not over, it ends at {day + timedelta(days=1)}T00:00Z"
    option = f"--days {options.days}" if options.before is None else f"--before {options.before}"
    return f"{option} leaves out {day} and what comes after"


def _before(options: argparse.Namespace, now: int, today: date) -> date:
    """The first day that is not archived. Raises InputError."""
    from eventsched.eventlog.archive.archive_manifest import day_of

    if options.before is None:
        return today - timedelta(days=options.days)
    try:
        return min(today, day_of(read_moment(options.before, now, virtual=False)))
    except (ValueError, OverflowError):
        raise InputError(
            "--before",
            f"{options.before!r} is not a time",
            "write 2026-11-21, or a length such as 2d",
        ) from None
