"""``eventsched sql``: one query with a role that only reads, or psql."""

import argparse
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from psycopg import pq
from psycopg.adapt import AdaptersMap
from psycopg.types.json import set_json_loads
from psycopg.types.string import TextLoader

from eventsched.cli.answers.answer_forms import (
    YAML,
    add_output_option,
    is_document,
    shown_json,
    yaml_text,
)
from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog import database
from eventsched.eventlog.addresses import rendered, shown, sqlalchemy_url
from eventsched.eventlog.embedded import programs
from eventsched.eventlog.postgres.reader import Reader
from eventsched.output.terminal.tables import table

_SESSION = "-c search_path=eventsched -c timezone=UTC"
_SERVER_ERRORS = ("08", "57P", "53")
"""Beginnings of SQLSTATEs that mean that the server, not the query, is at fault."""
_WRITES_A_VIEW = "55000"
"""Postgres then hints at a trigger, which would not help."""
_SHOWN_AROUND_ERROR = 20
"""Characters of a query that are shown around the place of an error."""


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "sql",
        help="ask a log by SQL, or open psql on it",
        description="Runs one query with a role that can change nothing; without -c it "
        "opens psql. Views and functions are those of schema eventsched: docs/sql.md.",
    )
    parser.add_argument("-c", dest="query", metavar="QUERY", help="the query")
    add_output_option(parser, more=("csv",))
    add_database_options(parser, stream=False)
    parser.add_argument(
        "--stream", metavar="NAME", help="the stream that the views show (default: all)"
    )
    parser.set_defaults(run=run, ends_unread=True)


def run(options: argparse.Namespace) -> int:
    """Prints the rows, or hands over to psql and returns its exit code."""
    with database.reader_address(*database_of(options)) as address:
        if options.stream is not None:
            Reader(address, options.stream)  # raises InputError if there is no such stream
        address = _for_people(address, options.stream)
        if options.query is None:
            return _psql(address)
        _query(address, options.query, options.output)
    return 0


def _for_people(address: str, stream: str | None) -> str:
    """The address for a session with search path eventsched, times in UTC, and views of one stream,
    or of all if it is None (migrations/sql/0008_chosen_stream.sql)."""
    url = sqlalchemy_url(address)
    present = url.query.get("options", "")
    options = f"{present if isinstance(present, str) else ' '.join(present)} {_SESSION}".strip()
    if stream is not None:
        options += " -c eventsched.stream=" + re.sub(r"([\\\s])", r"\\\1", stream)
    return rendered(url.update_query_dict({"options": options}))


def _query(address: str, query: str, output: str) -> None:
    connection = _connected(address, typed=is_document(output))
    try:
        with connection, _reading_only(connection), connection.cursor() as cursor:
            names = _columns(connection, query)
            if is_document(output) and len(set(names)) < len(names):
                raise InputError("query", "two columns have one name", "give them names with AS")
            _print(output, names, cursor.stream(query))
    except psycopg.Error as problem:
        raise _reported(address, query, problem) from problem


@contextmanager
def _reading_only(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """A read-only transaction that is rolled back. No statement inside can end it or make it
    writable."""
    connection.execute("BEGIN READ ONLY")
    connection.execute("SELECT 1")  # from the first snapshot on it cannot become READ WRITE
    try:
        yield
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")


def _columns(connection: psycopg.Connection[Any], query: str) -> list[str]:
    """The names of a query's columns. Raises InputError if the query returns no rows, and
    psycopg.Error if the server refuses it."""
    server = connection.pgconn
    for answer in (server.prepare(b"", query.encode()), server.describe_prepared(b"")):
        if answer.status != pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(answer, connection.info.encoding)
    if not answer.nfields:
        if query.strip():
            connection.execute(query, prepare=True)  # the server says why it refuses to write
        raise InputError("query", "returns no rows", "write a SELECT")
    return [(answer.fname(place) or b"").decode() for place in range(answer.nfields)]


def _connected(address: str, *, typed: bool) -> psycopg.Connection[Any]:
    """A connection. ``typed``: values arrive as Python objects instead of the server's text."""
    context = None
    if not typed:
        context = AdaptersMap(types=psycopg.adapters.types)
        context.register_loader(0, TextLoader)
        context.register_dumper(str, psycopg.types.string.StrDumper)
    try:
        connection = psycopg.connect(address, autocommit=True, connect_timeout=10, context=context)
    except psycopg.OperationalError as problem:
        raise _unreachable(address, str(problem).strip().splitlines()[0]) from problem
    if typed:
        set_json_loads(lambda text: msgspec.Raw(text), connection)
    return connection


def _print(output: str, names: list[str], rows: Iterator[Any]) -> None:
    if output == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    elif is_document(output):
        encoder = msgspec.json.Encoder(decimal_format="number", enc_hook=str)
        out = sys.stdout
        if output == YAML:
            _print_yaml(names, rows, encoder)
            return
        separator = "["
        for row in rows:
            values = dict(zip(names, map(_plain, row), strict=True))
            out.write(separator + shown_json(encoder.encode(values).decode()))
            separator = ",\n"
        out.write("]\n" if separator != "[" else "[]\n")
    else:
        print(table((), [["" if v is None else v for v in row] for row in rows], names))


def _print_yaml(names: list[str], rows: Iterator[Any], encoder: msgspec.json.Encoder) -> None:
    """Rows as one list of YAML, an item at a time."""
    is_empty = True
    for row in rows:
        values = encoder.encode(dict(zip(names, map(_plain, row), strict=True)))
        sys.stdout.write(yaml_text([msgspec.json.decode(values)]))
        is_empty = False
    if is_empty:
        print("[]")


def _plain(value: Any) -> Any:
    """A value for JSON: bytes in hexadecimal, the rest as msgspec encodes it."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _reported(address: str, query: str, problem: psycopg.Error) -> Exception:
    """A server's error as one of this program: the server is unreachable, or the query is wrong."""
    state = problem.sqlstate or ""
    message = problem.diag.message_primary or str(problem).strip().splitlines()[0]
    if isinstance(problem, psycopg.OperationalError) and (
        not state or state.startswith(_SERVER_ERRORS)
    ):
        return _unreachable(address, message)
    where = "query"
    if problem.diag.statement_position:
        at = int(problem.diag.statement_position)
        near = " ".join(query[at - 1 : at - 1 + _SHOWN_AROUND_ERROR].split())
        where += f", character {at} (at {near!r})"
    remedy = problem.diag.message_hint or "docs/sql.md lists the views and functions"
    if "multiple commands" in message:
        message, remedy = "has more than one statement", "pass one, or open psql without -c"
    if state in ("25006", "42501", _WRITES_A_VIEW):
        remedy = "the log is read-only; to read records, GRANT eventsched_auditor to this user"
    return InputError(where, message, remedy.rstrip("."))


def _unreachable(address: str, message: str) -> UnavailableError:
    where = sqlalchemy_url(address).difference_update_query(["options"])
    return UnavailableError(
        shown(where),
        message,
        "start the database, or correct its address",
    )


def _psql(address: str) -> int:
    """Runs psql as a child, because the embedded server stops with this process; its exit code."""
    program = shutil.which("psql")
    if program is None:
        try:
            program = str(programs.wheel() / "psql")
        except InputError:
            program = ""
    if not Path(program).is_file():
        raise UnavailableError(
            "psql", "is not on PATH and not among the embedded programs",
            "install postgresql-client or 'eventsched[embedded]', or pass a query with -c",
        )  # fmt: skip
    url = sqlalchemy_url(address)
    if "sslpassword" in url.query:
        raise InputError("--database", "has an sslpassword, which psql would show", "use -c")
    environment = dict(os.environ)
    if isinstance(url.password, str):  # the list of processes shows arguments to all users
        environment["PGPASSWORD"] = url.password
        url = url._replace(password=None)
    before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for psql
    try:
        command = [program, "--dbname", rendered(url)]
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
