"""``eventsched verify``: whether logs are what was written, checked with code of its own."""

import argparse
import json
from pathlib import Path
from typing import Any

import psycopg

from eventsched.cli.exits import DIFFERS
from eventsched.cli.places import add_database_options, database_of
from eventsched.cli.tables import counted
from eventsched.domain.errors import InputError
from eventsched.eventlog import database, reading
from eventsched.eventlog.addresses import libpq_url, shown
from eventsched.eventlog.errors import UnavailableError
from eventsched.history.verification import (
    MOST_PROBLEMS,
    Result,
    verify_database,
    verify_file,
)
from eventsched.history.verified_log import NoLogError


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "verify",
        help="check that a log is what was written",
        description="Checks the hashes, the records, the vectors and the derived rows of a log by "
        "its documented format (docs/log-format.md), and names the first position that is wrong.",
    )
    add_database_options(parser, stream=False)
    parser.add_argument("--stream", metavar="NAME", help="the stream (default: all)")
    parser.add_argument(
        "--file", type=Path, metavar="FILE", help="an exported log, in place of a database"
    )
    parser.add_argument(
        "--thinned",
        action="store_true",
        help="details of decisions may be missing: old ones were deleted",
    )
    parser.add_argument("-o", dest="output", choices=("table", "json"), default="table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Verifies and prints what was found."""
    results = _of_file(options) if options.file is not None else _of_database(options)
    if options.output == "json":
        print(json.dumps(_as_json(results)))
    else:
        for result in results:
            print(_as_text(result))
    return DIFFERS if any(result.problems for result in results) else 0


def _of_file(options: argparse.Namespace) -> list[Result]:
    if not options.database is options.data_dir is options.stream is None:
        raise InputError("options", "--file names a whole log", "leave the other places out")
    remedy = "name a file that `eventsched log export` wrote"
    try:
        return [verify_file(options.file, thinned=options.thinned)]
    except OSError as problem:
        said = f"cannot be read: {problem.strerror or problem}"
        raise InputError(str(options.file), said, remedy) from problem
    except NoLogError as problem:
        raise InputError(f"{options.file}: {problem.where}", problem.problem, remedy) from problem


def _of_database(options: argparse.Namespace) -> list[Result]:
    with database.read(*database_of(options)) as address:
        known = reading.streams(address)
        if options.stream is not None and options.stream not in known:
            there = f"there are: {', '.join(known) or 'none'}"
            raise InputError("--stream", f"there is no stream {options.stream}", there)
        if not known:
            reading.chosen(address, None)  # says that there is none
        names = None if options.stream is None else [options.stream]
        try:
            with psycopg.connect(libpq_url(address), autocommit=True) as connection:
                return verify_database(connection, names, thinned=options.thinned)
        except psycopg.errors.InsufficientPrivilege as problem:
            remedy = "GRANT eventsched_reader to this user"
            raise UnavailableError(shown(address), _first_line(problem), remedy) from problem
        except psycopg.OperationalError as problem:
            remedy = "start the database, or mend its address"
            raise UnavailableError(shown(address), _first_line(problem), remedy) from problem


def _first_line(problem: psycopg.Error) -> str:
    return str(problem).strip().splitlines()[0]


def _as_text(result: Result) -> str:
    if not result.problems:
        thinned = f" ({result.thinned} without vectors)" if result.thinned else ""
        return (
            f"stream {result.stream}: {counted(result.records, 'record')} in "
            f"{counted(result.batches, 'batch')} and {counted(result.decisions, 'decision')}"
            f"{thinned} are what was written; checked in {result.seconds:.2f} s"
        )
    lines = [
        f"stream {result.stream}: "
        + (f"position {position}: " if position is not None else "")
        + text
        for position, text in result.problems
    ]
    if not result.is_whole:
        lines.append(f"stream {result.stream}: no more than {MOST_PROBLEMS} problems are shown")
    return "\n".join(lines)


def _as_json(results: list[Result]) -> dict[str, Any]:
    streams = [
        {
            "stream": each.stream,
            "records": each.records,
            "batches": each.batches,
            "decisions": each.decisions,
            "details": each.details,
            "thinned": each.thinned,
            "first": each.first.position if each.first else None,
            "problems": [problem._asdict() for problem in each.problems],
            "whole": each.is_whole,
            "seconds": round(each.seconds, 3),
        }
        for each in results
    ]
    return {"ok": not any(each.problems for each in results), "streams": streams}
