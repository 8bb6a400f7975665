"""The log that ``eventsched serve`` and ``mcp`` answer from: a database, or an archive or an
exported log that is loaded into one."""

import argparse
import os
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from eventsched.cli.log_access.archive_options import (
    add_archive_option,
    names_database,
    require_archives,
)
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.cli.log_access.database_places import connected, place_of_results, results_address
from eventsched.cli.log_access.loaded_logs import load_log
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.history.verify.verified_database import one_moment
from eventsched.history.verify.verified_file import LogFile
from eventsched.history.verify.verified_log import DamagedError, Log
from eventsched.output.replays.record_progress import RecordProgress
from eventsched.output.terminal.tables import counted
from eventsched.questions.streams import DatabaseStreams, opened_streams


def add_served_log_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say where the log is, and --load-into."""
    add_database_options(parser, stream=False)
    add_archive_option(parser, file_help="an exported log")
    parser.add_argument(
        "--load-into", metavar="DATABASE",
        help="where the log of --file or --from-archive is loaded, and stays: a database's URL, or "
        "the folder of an embedded one (default: a temporary one, which is removed at the end)",
    )  # fmt: skip


@contextmanager
def served_streams(options: argparse.Namespace) -> Iterator[DatabaseStreams]:
    """The streams that the options name. Those of an archive or an exported log are as they were
    when they were loaded. Raises InputError and UnavailableError."""
    if options.file is None and options.from_archive is None:
        if options.load_into is not None:
            remedy = "add --from-archive FOLDER or --file FILE"
            raise InputError("--load-into", "is about an archive or an exported log", remedy)
        with opened_streams(*database_of(options)) as streams:
            yield streams
        return
    if options.file is not None and names_database(options):
        remedy = "remove --database and --data-dir"
        raise InputError("options", "--file names a whole log", remedy)
    with _place(options.load_into) as place, results_address(*place) as address:
        with closing(_logs(options)) as logs:
            for log, where in logs:
                _load(address, log, where)
        if place[1] is not None:
            database.analyze(place[1])
        with opened_streams(*place) as streams:
            yield streams


@contextmanager
def _place(load_into: str | None) -> Iterator[tuple[str | None, Path | None]]:
    """The URL or the folder of the database that logs are loaded into."""
    if load_into is not None:
        yield place_of_results(load_into)
        return
    with tempfile.TemporaryDirectory(prefix="eventsched-log-") as folder:
        if os.geteuid() == 0:  # the server is another user's, and the data in it are closed
            os.chmod(folder, 0o711)
        yield None, Path(folder)


def _load(address: str, log: Log, where: str) -> None:
    print(f"loading stream {log.stream} of {where}", file=sys.stderr)
    progress = RecordProgress("records loaded")
    try:
        records = load_log(address, log, where, progress)
    finally:
        progress.done()
    print(f"stream {log.stream}: {counted(records, 'record')} loaded", file=sys.stderr)


def _logs(options: argparse.Namespace) -> Generator[tuple[Log, str]]:
    """The logs that the options name, one after the other, and what messages call each."""
    try:
        if options.file is not None:
            with closing(_opened(options.file)) as file:
                yield file, str(options.file)
        else:
            for log in _archived(options):
                yield log, str(options.from_archive)
    except DamagedError as problem:
        remedy = "`eventsched verify` says more; restore the file from a copy"
        raise InputError(problem.where, problem.problem, remedy) from problem


def _opened(path: Path) -> LogFile:
    try:
        return LogFile(path)
    except OSError as problem:
        message = f"cannot be read: {problem.strerror or problem}"
        remedy = "name a file that `eventsched log export` wrote"
        raise InputError(str(path), message, remedy) from problem


def _archived(options: argparse.Namespace) -> Iterator[Log]:
    """The streams of an archive, with what the database has after each if the options name one."""
    require_archives()
    from eventsched.eventlog.archive.archive_folder import (
        archived_streams,
        choose_archived,
        manifests,
        verify_digests,
    )
    from eventsched.history.verify.archives.archive_files import ArchiveFiles
    from eventsched.history.verify.archives.verified_archive import continued

    folder = options.from_archive
    for stream in archived_streams(folder) or [choose_archived(folder, None)]:
        for day in manifests(folder, stream):
            verify_digests(folder, day)
        files = ArchiveFiles(folder, stream)
        if not names_database(options):
            yield files
            continue
        with (
            database.reader_address(options.database, options.data_dir) as address,
            connected(address) as connection,
            one_moment(connection),
        ):
            yield continued(files, connection)
