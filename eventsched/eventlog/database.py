"""The database that a command uses, a URL or the embedded one of a data folder, and its address for
writers and readers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import libpq_url, rendered, sqlalchemy_url
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.postgres import reader
from eventsched.eventlog.schema import migrations

WRITER, READER, AUDITOR = "eventsched_writer", "eventsched_reader", "eventsched_auditor"
READING = AUDITOR, READER
"""The roles of commands that read, the one with more rights first: AUDITOR may read the records,
READER only the views."""
LARGE = 256 * 1024
"""Bytes of a table from which on plans need to know what is in it."""
ARCHIVER = "eventsched_archiver"
ARCHIVING = ARCHIVER, *READING
"""The roles of ``db archive``: only the first may note in the database what is archived."""

_NOT_NAMED = InputError(
    "options",
    "no database is named",
    "give --data-dir FOLDER or --database URL (or set EVENTSCHED_DATABASE)",
)


@contextmanager
def writer_address(database: str | None, data_dir: Path | None) -> Iterator[str]:
    """The address for a writer. An embedded database is created, started and migrated to this
    version's schema if necessary; a database given by URL is used as it is. Raises InputError and
    UnavailableError."""
    _require_one(database, data_dir)
    if data_dir is None:
        assert database is not None
        yield libpq_url(database)
        return
    with EmbeddedPostgres(data_dir).open(writer=True) as postgres:
        _migrate_embedded(postgres)
        yield postgres.url(WRITER)


@contextmanager
def requester_address(database: str | None, data_dir: Path | None) -> Iterator[str]:
    """The address for a user who sends requests to a running scheduler, with a writer's privileges.
    An embedded database has to exist. Raises InputError and UnavailableError."""
    _require_one(database, data_dir)
    if data_dir is None:
        assert database is not None
        yield libpq_url(database)
        return
    postgres = EmbeddedPostgres(data_dir)
    with postgres.open(create=False):
        yield postgres.url(WRITER)


@contextmanager
def reader_address(
    database: str | None,
    data_dir: Path | None,
    *,
    keep_running: bool = False,
    roles: Sequence[str] = READING,
    read_only: bool = True,
) -> Iterator[str]:
    """The address for a session that cannot change anything, with the first of ``roles`` that this
    user may take on, or else with the user's own rights. Without ``read_only`` its rights alone
    keep it from changing anything. An embedded database has to exist; it is
    started if it does not run. Raises InputError and UnavailableError."""
    _require_one(database, data_dir)
    if data_dir is None:
        assert database is not None
        yield _as_reader(database, roles, read_only=read_only)
        return
    postgres = EmbeddedPostgres(data_dir, keep_running=keep_running)
    with postgres.open(create=False):
        logins = {role for (role,) in postgres.execute(_LOGINS)}
        # An older schema may lack a role; what reads then says so.
        yield postgres.url(next((role for role in roles if role in logins), READER))


@contextmanager
def administrator_address(database: str | None, data_dir: Path | None) -> Iterator[str]:
    """The address for a user who inspects the server, with all rights of the user that is named, or
    of an embedded server's superuser. An embedded database has to exist. Raises InputError and
    UnavailableError."""
    _require_one(database, data_dir)
    if data_dir is None:
        assert database is not None
        yield libpq_url(database)
        return
    with EmbeddedPostgres(data_dir).open(create=False) as postgres:
        yield postgres.superuser_url


def analyze(folder: Path) -> None:
    """Has the embedded server of a folder look at the large tables that were just written, which it
    would do by itself minutes later: until then its plans for questions can take a hundred times as
    long. Raises UnavailableError."""
    with EmbeddedPostgres(folder).open(create=False) as postgres:
        postgres.execute(_ANALYZE.format(bytes=LARGE))


def _require_one(database: str | None, data_dir: Path | None) -> None:
    if database is None and data_dir is None:
        raise _NOT_NAMED
    if database is not None and data_dir is not None:
        raise InputError("options", "two databases are named", "give --data-dir or --database")


def _migrate_embedded(postgres: EmbeddedPostgres) -> None:
    address = postgres.superuser_url
    with reader.database_engine(address).connect() as connection:
        is_newest = migrations.is_newest(connection)
    if not is_newest:
        migrations.upgrade(address)  # raises if the schema is newer and does not serve this version
    # Checked at every start: a process may be killed between the upgrade and this statement.
    locked_out = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'eventsched%' AND NOT rolcanlogin"
    for (role,) in postgres.execute(locked_out):
        if role in (WRITER, *ARCHIVING):
            postgres.execute(f"ALTER ROLE {role} LOGIN")
    # One folder, one user: its scheduler may also drop what no archive holds.
    if not postgres.execute(f"SELECT 1 WHERE pg_has_role('{WRITER}', '{ARCHIVER}', 'MEMBER')"):
        postgres.execute(f"GRANT {ARCHIVER} TO {WRITER}")


_ANALYZE = """
DO $$
DECLARE tables text;
BEGIN
    SELECT string_agg(oid::regclass::text, ', ') INTO tables FROM pg_class
    WHERE relnamespace = 'eventsched_log'::regnamespace AND relkind = 'r'
      AND pg_relation_size(oid) > {bytes};
    IF tables IS NOT NULL THEN EXECUTE 'ANALYZE ' || tables; END IF;
END $$
"""
_LOGINS = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'eventsched%' AND rolcanlogin"
_TIMEOUTS = """
SELECT DISTINCT ON (split_part(c, '=', 1)) c
FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS c
WHERE s.setrole = CAST(%(role)s AS regrole)
  AND s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
  AND c ~ '^[a-z_]+_timeout=[0-9a-z]+$'
ORDER BY split_part(c, '=', 1), s.setdatabase DESC
"""
"""The timeouts of a role in this database. Postgres applies them at login only, not when a session
switches to the role (``role=``)."""


SERVERS = {"read-write": "primary", "read-only": "standby"}
"""What target_session_attrs means of a server: libpq asks whether a session may write, and ours are
read-only."""


_SWITCHABLE = """
SELECT r.rolname FROM pg_roles r, pg_namespace n
WHERE r.rolname = ANY(%(roles)s) AND n.nspname = 'eventsched_log'
  AND pg_has_role(r.oid, CASE WHEN current_setting('server_version_num')::integer < 160000
                              THEN 'MEMBER' ELSE 'SET' END)
  AND has_schema_privilege(r.oid, n.oid, 'USAGE')
ORDER BY array_position(%(roles)s, CAST(r.rolname AS text)) LIMIT 1
"""
"""The first of some roles that this user may switch to. Roles belong to the server; this database
may have been made without them. From Postgres 16 on, the user who made a role is its member and may
not switch to it."""


def _as_reader(database: str, roles: Sequence[str], *, read_only: bool) -> str:
    """The address with a read-only session if ``read_only``, and with the first of ``roles`` that
    this user is a member of, and its timeouts."""
    address = libpq_url(database)
    url = sqlalchemy_url(database).set(drivername="postgresql")
    options = ["-c default_transaction_read_only=on"] if read_only else []
    timeouts: list[str] = []
    role = ""
    try:
        # Two queries: an engine of SQLAlchemy asks the server more than that when it connects.
        with psycopg.connect(address, autocommit=True) as connection:
            for (role,) in connection.execute(_SWITCHABLE, {"roles": list(roles)}):
                timeouts = [each for (each,) in connection.execute(_TIMEOUTS, {"role": role})]
    except psycopg.OperationalError as problem:
        raise migrations.unreachable(database, str(problem).strip().splitlines()[0]) from problem
    if role:
        options.append(f"-c role={role}")
    own_options = url.query.get("options", "")
    # The address's own options come after the timeouts, so that they override them.
    timeout_options = [f"-c {timeout}" for timeout in timeouts]
    own_options = own_options if isinstance(own_options, str) else " ".join(own_options)
    changed = {"options": " ".join([*timeout_options, own_options, *options]).strip()}
    wanted = url.query.get("target_session_attrs")
    if isinstance(wanted, str) and wanted in SERVERS:
        changed["target_session_attrs"] = SERVERS[wanted]
    return rendered(url.update_query_dict(changed))
