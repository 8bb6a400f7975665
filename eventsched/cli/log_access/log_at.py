"""Which log a command reads, and at which position: for commands about a state of the past."""

import argparse
from collections.abc import Iterator
from contextlib import closing, contextmanager

from eventsched.cli.log_access.archive_options import add_archive_option, archived_log
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.export_reader import FileLog
from eventsched.questions.past.open_log import OpenLog

AT_HELP = (
    "a position, as `log list` shows them: before the record there; or a time: 2026-11-21T15:00, "
    "or 10m, 2h, 1d ago (in a simulation: after its beginning)"
)


def add_log_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where the log is: a database, an archive or an exported file."""
    add_database_options(parser)
    add_archive_option(parser, file_help="an exported log")


@contextmanager
def opened_log(options: argparse.Namespace) -> Iterator[OpenLog]:
    """The log that the options name. Raises InputError and UnavailableError."""
    if options.file is not None:
        if not options.database is options.data_dir is options.stream is None:
            raise InputError(
                "options", "--file names a whole log", "remove --database, --data-dir and --stream"
            )
        yield OpenLog(FileLog(options.file), None)
        return
    if options.from_archive is not None:
        with archived_log(options) as (archived, reader):
            yield OpenLog(archived, reader)
        return
    with (
        database.reader_address(*database_of(options)) as address,
        closing(Reader(address, options.stream, keeps_connection=True)) as reader,
    ):
        yield OpenLog(reader, reader)
