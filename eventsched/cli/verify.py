"""``eventsched verify``: whether logs are what was written, checked with code of its own."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from eventsched.cli.answers.answer_forms import add_output_option, is_document, print_document
from eventsched.cli.log_access.archive_options import (
    add_archive_option,
    names_database,
    require_archives,
)
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import database
from eventsched.eventlog.addresses import libpq_url, shown
from eventsched.eventlog.postgres import reader
from eventsched.eventlog.schema import migrations
from eventsched.history.verify.verification import (
    Progress,
    Result,
    verify_database,
    verify_file,
)
from eventsched.history.verify.verified_checkpoints import (
    Checkpoint,
    CheckpointError,
    read_checkpoints,
    read_public_key,
)
from eventsched.history.verify.verified_log import LaterVersionError, NoLogError
from eventsched.history.verify.verified_problems import MOST_PROBLEMS
from eventsched.history.verify.verified_schema import differences
from eventsched.output.replays.record_progress import RecordProgress
from eventsched.output.terminal.tables import counted
from eventsched.process.exit_codes import DIFFERS


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="check that a log is what was written",
        description="Checks the hashes, the records, the vectors and the derived rows of a log by "
        "its documented format (docs/log-format.md), and names the first position that is wrong; "
        "of a database also its functions, views and grants. docs/verification.md says what that "
        "proves, and what checkpoints add.",
    )
    add_database_options(parser, stream=False)
    parser.add_argument("--stream", metavar="NAME", help="the stream (default: all)")
    parser.add_argument(
        "--from",
        dest="since",
        type=_position,
        default=0,
        metavar="POSITION",
        help="begin at the newest seal of records up to there, in a database",
    )
    add_archive_option(parser, file_help="an exported log, in place of a database")
    parser.add_argument(
        "--thinned",
        action="store_true",
        help="details of decisions may be missing: old ones were deleted",
    )
    parser.add_argument(
        "--checkpoints",
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="signed checkpoints from elsewhere (-: standard input): the log has to agree",
    )
    parser.add_argument(
        "--public-key",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="the key that they are signed with (PEM); may be repeated",
    )
    add_output_option(parser)
    parser.set_defaults(run=run)


def _position(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a position; write a number")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Verifies and prints what was found."""
    schema, progress = _Schema([], ""), RecordProgress("records verified")
    if options.since and (options.file is not None or options.from_archive is not None):
        problem = "begins at a seal of a database; files and archives are checked from their begin"
        raise InputError("--from", problem, "leave it out")
    try:
        if options.file is not None:
            results = _of_file(options)
        elif options.from_archive is not None:
            results, schema = _of_archive(options, progress)
        else:
            results, schema = _of_database(options, progress)
    except LaterVersionError as newer:
        where = f"position {newer.position} of the log"
        raise InputError(where, newer.problem, "use that version or a later one") from newer
    finally:
        progress.done()
    if is_document(options.output):
        print_document(_as_json(results, schema), options.output)
    else:
        for result in results:
            print(_as_text(result, has_checkpoints=options.checkpoints is not None))
        for line in (*schema.differences, *filter(None, [schema.note])):
            print(f"schema: {line}")
    return DIFFERS if schema.differences or any(result.problems for result in results) else 0


class _Schema(NamedTuple):
    """The ``differences`` of a database's schema, or a ``note`` why it was not compared."""

    differences: list[str]
    note: str


def _schema_of(address: str, connection: psycopg.Connection[Any]) -> _Schema:
    revision, newest = migrations.require(address), migrations.newest()
    if revision == newest:
        return _Schema(differences(connection), "")
    note = (
        f"the database is at revision {revision}, and this version's last one is {newest}: between "
        "the steps pre and post of an upgrade, functions and grants are not compared"
    )
    return _Schema([], note)


def _of_file(options: argparse.Namespace) -> list[Result]:
    if not options.database is options.data_dir is options.stream is None:
        raise InputError(
            "options", "--file names a whole log", "remove --database, --data-dir and --stream"
        )
    remedy = "name a file that `eventsched log export` wrote"
    try:
        checkpoints = _checkpoints(options)
        return [verify_file(options.file, thinned=options.thinned, checkpoints=checkpoints)]
    except OSError as problem:
        reason = f"cannot be read: {problem.strerror or problem}"
        raise InputError(str(options.file), reason, remedy) from problem
    except NoLogError as problem:
        raise InputError(f"{options.file}: {problem.where}", problem.problem, remedy) from problem


def _of_archive(options: argparse.Namespace, progress: Progress) -> tuple[list[Result], _Schema]:
    """The results of the archive's streams, with the database's if the options name one, and what
    is to be said about its schema."""
    require_archives()
    from eventsched.history.verify.archives.archive_files import archived_streams
    from eventsched.history.verify.archives.verified_archive import verify_archive

    checkpoints, folder = _checkpoints(options), options.from_archive
    try:
        known = archived_streams(folder)
    except OSError as problem:
        reason = f"cannot be read: {problem.strerror or problem}"
        raise InputError(str(folder), reason, "name the folder of an archive") from problem
    if not known:
        raise InputError(str(folder), "holds no archive", "name the folder of `db archive --to`")
    if options.stream is not None and options.stream not in known:
        problem_text = f"the archive {folder} has no stream {options.stream}"
        raise InputError("--stream", problem_text, f"there are: {', '.join(known)}")

    def verified(connection: psycopg.Connection[Any] | None) -> list[Result]:
        names = known if options.stream is None else [options.stream]
        return [
            verify_archive(
                folder,
                name,
                connection,
                thinned=options.thinned,
                checkpoints=checkpoints,
                progress=progress,
            )
            for name in names
        ]

    try:
        if not names_database(options):
            return verified(None), _Schema([], "")
        with (
            database.reader_address(options.database, options.data_dir) as address,
            _connected(address) as connection,
        ):
            return verified(connection), _schema_of(address, connection)
    except NoLogError as problem:
        remedy = "name an archive of this version, and the database that continues it"
        raise InputError(problem.where, problem.problem, remedy) from problem


def _checkpoints(options: argparse.Namespace) -> list[Checkpoint]:
    """The checkpoints that were named. Raises InputError."""
    if options.checkpoints is None:
        if options.public_key:
            raise InputError("--public-key", "there is no --checkpoints", "name a file of them")
        return []
    if not options.public_key:
        problem = "--checkpoints needs the public key of the signatures"
        raise InputError("options", problem, "add --public-key FILE")
    try:
        keys = [read_public_key(path) for path in options.public_key]
        return read_checkpoints(options.checkpoints, keys)
    except CheckpointError as error:
        remedy = "name a file of `eventsched log checkpoint`, and its public key"
        raise InputError(error.where, error.problem, remedy) from error


def _of_database(options: argparse.Namespace, progress: Progress) -> tuple[list[Result], _Schema]:
    """The results of the streams, and what is to be said about the schema."""
    checkpoints = _checkpoints(options)
    with database.reader_address(*database_of(options)) as address:
        known = reader.streams(address)
        pinned = {checkpoint.stream for checkpoint in checkpoints}
        if options.stream is not None and options.stream not in (*known, *pinned):
            existing = f"there are: {', '.join(known) or 'none'}"
            raise InputError("--stream", f"there is no stream {options.stream}", existing)
        if options.since and options.stream is None and len(known) > 1:
            problem = f"is a position of one stream, and there are {len(known)}"
            raise InputError("--from", problem, "add --stream NAME")
        if not known and not pinned:
            reader.choose_stream(address, None)  # raises: there are no streams
        names = None if options.stream is None else [options.stream]
        with _connected(address) as connection:
            schema = _schema_of(address, connection)
            results = verify_database(
                connection,
                names,
                thinned=options.thinned,
                checkpoints=checkpoints,
                since=options.since,
                progress=progress,
            )
            return results, schema


@contextmanager
def _connected(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection for verification. Raises UnavailableError."""
    try:
        with psycopg.connect(libpq_url(address), autocommit=True) as connection:
            yield connection
    except psycopg.errors.InsufficientPrivilege as problem:
        remedy = "GRANT eventsched_auditor to this user"
        raise UnavailableError(shown(address), _first_line(problem), remedy) from problem
    except psycopg.OperationalError as problem:
        remedy = "start the database, or correct its address"
        raise UnavailableError(shown(address), _first_line(problem), remedy) from problem


def _first_line(problem: psycopg.Error) -> str:
    return str(problem).strip().splitlines()[0]


def _as_text(result: Result, *, has_checkpoints: bool) -> str:
    proof = _proof(result)
    if has_checkpoints and not proof and not result.problems:
        records = counted(result.records, "record")
        proof = (
            f"\nstream {result.stream}: no checkpoint proves its {records}; the hash chain alone "
            "speaks for them"
        )
    if not result.problems:
        lacking = _lacking(result)
        return (
            f"stream {result.stream}: {counted(result.records, 'record')} in "
            f"{counted(result.batches, 'batch')} and {counted(result.decisions, 'decision')}"
            f"{lacking} are what was written; checked in {result.seconds:.2f} s"
            f"{_start(result)}{proof}"
        )
    lines = [
        f"stream {result.stream}: "
        + (f"position {position}: " if position is not None else "")
        + text
        for position, text in result.problems
    ]
    if not result.is_whole:
        lines.append(f"stream {result.stream}: only the first {MOST_PROBLEMS} problems are shown")
    return "\n".join(lines) + proof


def _start(result: Result) -> str:
    """A line about the records that were dropped or left out, and about what that leaves unchecked;
    "" if none were."""
    if result.start is None:
        return ""
    begin, seal = result.start.position, result.start.seal
    hashes = f"; of those before {result.checked_from} only the hashes are checked"
    missing = "are not checked" if result.start.is_chosen else "were dropped"
    return (
        f"\nstream {result.stream}: the records before {begin} {missing}, and the seal at "
        f"position {seal} says with which hash they ended"
        f"{hashes if result.checked_from > begin else ''}"
    )


def _proof(result: Result) -> str:
    """A line that says which records a checkpoint proves, and what speaks for the others; "" if no
    checkpoint of the stream agrees with it."""
    if result.proved_by is None:
        return ""
    stream, position, _, at, key = result.proved_by
    later = 0 if result.problems else result.records - position
    others = f"; the hash chain alone speaks for {counted(later, 'later record')}" if later else ""
    when = f" of {at}" if at else ""
    return (
        f"\nstream {stream}: the checkpoint{when} (key {key}) proves the records before "
        f"{position}{others}"
    )


def _lacking(result: Result) -> str:
    """How many decisions have no vectors, and since when, or only those of the best nodes."""
    parts = []
    if result.partial:
        parts.append(f"{result.partial} with the vectors of the best nodes")
    if result.thinned:
        parts.append(f"{result.thinned} without vectors")
    if result.thinned_meanwhile:
        parts.append(f"{result.thinned_meanwhile} of which were thinned while this ran")
    return f" ({', '.join(parts)})" if parts else ""


def _as_json(results: list[Result], schema: _Schema) -> dict[str, Any]:
    streams = [
        {
            "stream": result.stream,
            "records": result.records,
            "batches": result.batches,
            "decisions": result.decisions,
            "details": result.details,
            "partial": result.partial,
            "thinned": result.thinned,
            "thinned_meanwhile": result.thinned_meanwhile,
            "first": result.first.position if result.first else None,
            "problems": [problem._asdict() for problem in result.problems],
            "whole": result.is_whole,
            "begin": result.start.position if result.start else 0,
            "seal": result.start.seal if result.start else None,
            "checked_from": result.checked_from,
            "proved_by": result.proved_by._asdict() if result.proved_by else None,
            "seconds": round(result.seconds, 3),
        }
        for result in results
    ]
    is_fine = not schema.differences and not any(result.problems for result in results)
    return {
        "ok": is_fine,
        "streams": streams,
        "schema": schema.differences,
        "schema_note": schema.note or None,
    }
