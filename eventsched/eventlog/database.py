"""Which database is meant, and the way into it: a URL, or the embedded one of a folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import libpq_url, rendered, sqlalchemy_url
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.log_errors import UnavailableError
from eventsched.eventlog.postgres import reader
from eventsched.eventlog.schema import migrations

WRITER, READER = "eventsched_writer", "eventsched_reader"

_NOT_NAMED = InputError(
    "options",
    "no database is named",
    "give --data-dir FOLDER or --database URL (or set EVENTSCHED_DATABASE)",
)


@contextmanager
def written(database: str | None, data_dir: Path | None) -> Iterator[str]:
    """The address for a writer. An embedded database is made, started and brought to this
    version's schema; a given one is used as it is. Raises InputError and UnavailableError."""
    _one_of(database, data_dir)
    if data_dir is None:
        assert database is not None
        yield libpq_url(database)
        return
    with EmbeddedPostgres(data_dir).open(writer=True) as postgres:
        _bring_up(postgres)
        yield postgres.url(WRITER)


@contextmanager
def asking(database: str | None, data_dir: Path | None) -> Iterator[str]:
    """The address for somebody who asks something of a scheduler, which goes on meanwhile. An
    embedded database has to exist. Raises InputError and UnavailableError."""
    _one_of(database, data_dir)
    if data_dir is None:
        assert database is not None
        yield libpq_url(database)
        return
    postgres = EmbeddedPostgres(data_dir)
    with postgres.open(create=False):
        yield postgres.url(WRITER)


@contextmanager
def read(
    database: str | None, data_dir: Path | None, *, keep_running: bool = False
) -> Iterator[str]:
    """The address for a reader, who can change nothing. An embedded database has to exist; it is
    started where it does not run. Raises InputError and UnavailableError."""
    _one_of(database, data_dir)
    if data_dir is None:
        assert database is not None
        yield _as_reader(database)
        return
    postgres = EmbeddedPostgres(data_dir, keep_running=keep_running)
    with postgres.open(create=False):
        yield postgres.url(READER)


def _one_of(database: str | None, data_dir: Path | None) -> None:
    if database is None and data_dir is None:
        raise _NOT_NAMED
    if database is not None and data_dir is not None:
        raise InputError("options", "two databases are named", "give --data-dir or --database")


def _bring_up(postgres: EmbeddedPostgres) -> None:
    address = postgres.superuser_url
    try:
        with reader.connected(address).connect() as connection:
            migrations.check(connection, address)
    except UnavailableError:
        migrations.upgrade(address)  # raises where the schema is newer
    # Looked at every time: a process killed right after the upgrade has not come to it.
    locked_out = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'eventsched%' AND NOT rolcanlogin"
    for (role,) in postgres.execute(locked_out):
        if role in (WRITER, READER):
            postgres.execute(f"ALTER ROLE {role} LOGIN")


_LIMITS = """
SELECT DISTINCT ON (split_part(c, '=', 1)) c
FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS c
WHERE s.setrole = CAST(:role AS regrole)
  AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND c ~ '^[a-z_]+_timeout=[0-9a-z]+$'
ORDER BY split_part(c, '=', 1), s.setdatabase DESC
"""
"""The timeouts of a role in this database. A role that is taken on (``role=``) brings none."""


def _as_reader(database: str) -> str:
    """The address, made harmless: read-only, and with the reader's role and its timeouts where
    there is one."""
    address = libpq_url(database)
    url = sqlalchemy_url(database).set(drivername="postgresql")
    options = ["-c default_transaction_read_only=on"]
    limits: list[str] = []
    try:
        with reader.connected(address).connect() as connection:
            member = connection.scalar(
                text(
                    # On a server whose other databases have roles, this one may do without them.
                    "SELECT bool_or(pg_has_role(r.oid, 'MEMBER')"
                    " AND has_schema_privilege(r.oid, n.oid, 'USAGE'))"
                    " FROM pg_roles r, pg_namespace n"
                    " WHERE r.rolname = :role AND n.nspname = 'eventsched_log'"
                ),
                {"role": READER},
            )
            if member:
                limits = list(connection.scalars(text(_LIMITS), {"role": READER}))
    except OperationalError as problem:
        raise migrations.away(database, problem) from problem
    if member:
        options.append(f"-c role={READER}")
    given = url.query.get("options", "")
    # What the address says comes later than the limits, and wins.
    before = [f"-c {limit}" for limit in limits]
    given = given if isinstance(given, str) else " ".join(given)
    joined = " ".join([*before, given, *options]).strip()
    return rendered(url.update_query_dict({"options": joined}))
