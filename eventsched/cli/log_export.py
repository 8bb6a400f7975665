"""``eventsched log export``: a stream as a file, from a database, an archive, or both."""

import argparse

from eventsched.cli.answers.answer_forms import print_answer
from eventsched.cli.log_access.archive_options import names_database, require_archives
from eventsched.cli.log_access.database_options import database_of
from eventsched.cli.log_access.database_places import connected
from eventsched.domain.errors import InputError
from eventsched.eventlog import database
from eventsched.eventlog.postgres import reader as reading
from eventsched.history.export import export, export_log
from eventsched.history.verify.verified_database import one_moment
from eventsched.history.verify.verified_log import DamagedError
from eventsched.output.terminal.tables import counted


def run(options: argparse.Namespace) -> int:
    """Writes the file."""
    if options.from_archive is not None:
        stream, written = _of_archive(options)
    else:
        with database.reader_address(*database_of(options)) as address:
            stream = reading.choose_stream(address, options.stream)
            with connected(address) as connection:
                written = export(connection, stream, options.file)
    document = {"stream": stream, "records": written, "file": str(options.file)}
    text = f"{counted(written, 'record')} of stream {stream} in {options.file}"
    print_answer(document, text, options.output)
    return 0


def _of_archive(options: argparse.Namespace) -> tuple[str, int]:
    """Exports an archive, with what the database has after it if the options name one. Returns the
    stream and the number of records."""
    require_archives()
    from eventsched.eventlog.archive.archive_folder import choose_archived
    from eventsched.history.verify.archives.archive_files import ArchiveFiles
    from eventsched.history.verify.archives.verified_archive import continued

    stream = choose_archived(options.from_archive, options.stream)
    try:
        files = ArchiveFiles(options.from_archive, stream)
        if not names_database(options):
            return stream, export_log(files, options.file)
        with (
            database.reader_address(options.database, options.data_dir) as address,
            connected(address) as connection,
            one_moment(connection),
        ):
            return stream, export_log(continued(files, connection), options.file)
    except DamagedError as problem:
        remedy = "`eventsched verify --from-archive` says more; restore the file from a copy"
        raise InputError(problem.where, problem.problem, remedy) from problem
