"""Makes a union in a database, or says which SQL would."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.eventlog.addresses import shown
from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.union import union_statements
from eventsched.eventlog.union.member_facts import read_member_facts
from eventsched.eventlog.union.union_members import UnionMember
from eventsched.eventlog.union.union_statements import Statement

_STATE = """
SELECT to_regnamespace('eventsched_log') IS NOT NULL, to_regnamespace('eventsched') IS NOT NULL,
       to_regclass('eventsched_union.member') IS NOT NULL
"""
_EXTENSIONS = """
SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'dblink'
"""
_COLUMNS = """
SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace = to_regnamespace(%s) GROUP BY 1 ORDER BY 1
"""


class UnionDatabase:
    """The database of a union, of which one is made or replaced."""

    def __init__(self, connection: psycopg.Connection[Any], address: str) -> None:
        self._connection, self._address = connection, address
        self.script: list[str] = []

    def make(self, members: Sequence[UnionMember], readers: Sequence[str]) -> None:
        """Makes the union of the members. An earlier one is replaced. ``readers`` are the roles
        that may ask it. Raises InputError and UnavailableError."""
        self._remove_earlier()
        remedy = (
            "install Postgres's contrib package on this server; a superuser creates the extensions,"
            " and may GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw to you"
        )
        with self._refusals("--database", remedy):
            self._run(sql.SQL(statement) for statement in union_statements.EXTENSIONS)
        for member in members:
            self._add_server(member)
        facts = read_member_facts(self._connection, members)
        for member in members:
            with self._refusals(f"--member {member.name}", "correct its address or its login"):
                self._run(union_statements.foreign_tables(member))
        with self._refusals("--database", "name a database of its own"):
            self._run(union_statements.union_schema(members, facts[0].schema))
            for name, columns in self._views(members):
                comment = facts[0].comments.get(name)
                self._run(union_statements.union_view(name, columns, members, comment))
            [(dblink,)] = self._connection.execute(_EXTENSIONS).fetchall()
            self._run(union_statements.union_functions(dblink, facts[0].functions))
        with self._refusals("--reader", "CREATE ROLE … LOGIN first"):
            self._run(union_statements.union_grants(readers))

    def _remove_earlier(self) -> None:
        [(is_log, has_schema, is_union)] = self._connection.execute(_STATE).fetchall()
        if is_log or (has_schema and not is_union):
            problem = "holds a log" if is_log else "has a schema eventsched"
            remedy = "name a database that is empty: CREATE DATABASE"
            raise InputError("--database", f"{shown(self._address)} {problem}", remedy)
        if is_union:
            rows = self._connection.execute("SELECT server FROM eventsched_union.member")
            with self._refusals("--database", "connect as the user who made the union"):
                self._run(union_statements.removal([name for (name,) in rows.fetchall()]))

    def _add_server(self, member: UnionMember) -> None:
        where = f"--member {member.name}"
        with self._refusals(where, "correct its URL, or remove what has its name"):
            self._run([union_statements.foreign_server(member)])
        remedy = "connect as a superuser, or write the password into the URL"
        with self._refusals(where, remedy):
            self._connection.execute(union_statements.user_mapping(member, hide=False))
        self._write_down(union_statements.user_mapping(member, hide=True))

    def _views(self, members: Sequence[UnionMember]) -> list[tuple[str, list[str]]]:
        """The views that there are, with their columns. Raises InputError if they differ."""
        views = [
            dict(self._connection.execute(_COLUMNS, [member.schema]).fetchall())
            for member in members
        ]
        for member, own in zip(members, views, strict=True):
            if {n: sorted(c) for n, c in own.items()} != {
                n: sorted(c) for n, c in views[0].items()
            }:
                problem = f"has other views than {members[0].name}"
                remedy = "drop what was added to schema eventsched by hand"
                raise InputError(f"--member {member.name}", problem, remedy)
        return sorted(views[0].items())

    def _run(self, statements: Iterable[Statement]) -> None:
        for statement in statements:
            self._connection.execute(statement)
            self._write_down(statement)

    def _write_down(self, statement: Statement) -> None:
        self.script.append(f"{statement.as_string(self._connection).strip()};\n")

    @contextmanager
    def _refusals(self, where: str, remedy: str) -> Iterator[None]:
        """What the server refuses, as an error with a remedy."""
        try:
            yield
        except psycopg.OperationalError as problem:
            raise UnavailableError(where, _message(problem), remedy) from problem
        except psycopg.Error as problem:
            raise InputError(where, _message(problem), remedy) from problem


def make_union(
    address: str, members: Sequence[UnionMember], readers: Sequence[str], *, keep: bool = True
) -> list[str]:
    """Makes the union in one transaction, which without ``keep`` is rolled back. Returns the SQL,
    without passwords. Raises InputError and UnavailableError."""
    with connect(address, "eventsched db union") as connection:
        with connection.transaction(force_rollback=not keep):
            union = UnionDatabase(connection, address)
            union.make(members, readers)
        return union.script


def _message(problem: psycopg.Error) -> str:
    primary = problem.diag.message_primary or str(problem)
    return " ".join(f"{primary}: {problem.diag.message_detail or ''}".split()).rstrip(": .")
