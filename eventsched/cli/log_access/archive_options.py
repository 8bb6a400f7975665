"""The option ``--from-archive``, and the log that it names."""

import argparse
import importlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Protocol

from eventsched.eventlog import database
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import SearchableLog
from eventsched.questions.past.open_log import StreamLog


class ArchivedStreamLog(StreamLog, SearchableLog, Protocol):
    """A stream's log in an archive, or in an archive and a database."""


def add_archive_option(parser: argparse.ArgumentParser, file_help: str = "") -> None:
    """Adds --from-archive, and if there is a help for it --file, which excludes it."""
    group = parser.add_mutually_exclusive_group()
    if file_help:
        group.add_argument("--file", type=Path, metavar="FILE", help=file_help)
    group.add_argument(
        "--from-archive", type=Path, metavar="FOLDER",
        help="an archive of `db archive`; with --database or --data-dir, what is newer is read "
        "from there",
    )  # fmt: skip


def names_database(options: argparse.Namespace) -> bool:
    """Whether the options name a database. Beside --from-archive the environment is ignored, so
    that an archive can be read alone."""
    return options.database is not None or options.data_dir is not None


def require_archives() -> None:
    """Raises InputError if what archives need is not installed."""
    importlib.import_module("eventsched.eventlog.archive.parquet")


@contextmanager
def archived_log(options: argparse.Namespace) -> Iterator[tuple[ArchivedStreamLog, Reader | None]]:
    """The log that --from-archive names, and the reader of the database if the options name one.
    Raises InputError and UnavailableError."""
    from eventsched.eventlog.archive.archive_log import ArchiveLog
    from eventsched.eventlog.archive.joined_log import JoinedLog

    archive = ArchiveLog(options.from_archive, options.stream)
    if not names_database(options):
        yield archive, None
        return
    with (
        database.reader_address(options.database, options.data_dir) as address,
        closing(Reader(address, archive.stream, keeps_connection=True)) as reader,
    ):
        yield JoinedLog(archive, reader), reader
