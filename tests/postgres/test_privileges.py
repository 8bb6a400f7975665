"""What each role may do, found by trying everything: each kind of statement on every table, view,
partition, sequence and function of the schemas, and what would make a role another one.

A new object fails these tests until it is in the tables below."""

import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.schema import migrations
from tests.databases import Server, migrate
from tests.postgres.histories import odd, simulated

WRITER, READER, AUDITOR = "writer", "reader", "auditor"
ARCHIVER, MIGRATOR, TENANT, STRANGER = "archiver", "migrator", "tenant", "stranger"
ROLES = WRITER, READER, AUDITOR, ARCHIVER, MIGRATOR, TENANT, STRANGER
_READ = {WRITER, READER, AUDITOR}
_RAW = {WRITER, AUDITOR}
_LOG, _PEOPLE = "eventsched_log", "eventsched"

SELECTS: dict[str, set[str]] = {
    **{f"{_LOG}.{name}": _RAW | {ARCHIVER} for name in (
        "archived", "batch", "checkpoint", "decision", "detail", "epoch", "head", "partition",
        "pod", "pruned", "verdict")},
    **{f"{_LOG}.{name}": _RAW for name in (
        "acting_stream", "chosen_stream", "comparison", "long_wait", "mention", "node",
        "pod_end", "pod_now", "preempted", "victim",
        "queue_move", "queue_stay", "record_count", "refusal", "request", "reservation", "scoring",
        "snapshot", "stream_grant", "tenant_grant")},
    f"{_LOG}.migration": _READ | {ARCHIVER, MIGRATOR},
    f"{_LOG}.stream": _READ | {ARCHIVER},
    f"{_LOG}.tenant_secret": set(),
    # Partitions are read through their tables only.
    **{f"{_LOG}.{name}_#": set() for name in (
        "batch", "comparison", "decision", "detail", "mention", "pod_end", "queue_move",
        "queue_stay", "refusal", "reservation", "victim")},
    f"{_PEOPLE}.events": _RAW,  # readers: all columns except the record
    **{f"{_PEOPLE}.{name}": _READ for name in (
        "bindings", "decisions", "evictions", "extender_calls", "extender_inquiries",
        "first_nodes", "kinds", "memory", "oldest_waiting", "ping_pongs", "pods_now",
        "preempted_for_nothing", "preemptions", "queue_moves", "queue_stays", "refusals",
        "requests", "reservations", "shadow_decisions", "starving_pods", "streams",
        "unplaceable_pods")},
}  # fmt: skip
"""The roles that may read each table or view."""
CHANGES: dict[tuple[str, str], set[str]] = {
    (f"{_LOG}.migration", kind): {MIGRATOR} for kind in (
        "INSERT", "UPDATE", "DELETE", "SELECT FOR UPDATE", "LOCK")
}  # fmt: skip
"""The roles that may do anything else: only the migrator, which stores the revision."""
CALLS: dict[str, set[str]] = {
    **{f"{_LOG}.{name}": {WRITER} for name in (
        "acquire(text,uuid,text,text)",
        "append(integer,integer,uuid,bigint,integer,bigint,json,bytea,bytea,json,bigint[],bigint[],"
        "bytea[])",
        "append_batches(integer,integer,uuid,bigint,integer[],bigint[],json[],bytea,bytea[],json[],"
        "bigint[],bigint[],bytea[])",
        "ask_to_forget(text,text,text)",
        "keep_checkpoint(text,bigint)",
        "keep_snapshot(integer,integer,uuid,bigint,bytea,text,text,bytea)",
        "make_partitions(text)", "renew(integer,integer,uuid)",
        "thin(text,timestamp with time zone)")},
    f"{_LOG}.note_archived(text,text,bigint,bigint,json)": {ARCHIVER},
    **{f"{_LOG}.{name}": {WRITER, ARCHIVER} for name in (
        "prune(text,timestamp with time zone,boolean)",
        "prune_names(text,timestamp with time zone,bigint,boolean)")},
    f"{_LOG}.prunable(text,timestamp with time zone)": _RAW | {ARCHIVER},
    **{f"{_LOG}.{name}": set() for name in (
        "attach_partition(text,integer,bigint,bigint)", "check_grant()", "deny()",
        "count_records(integer,text[])",
        "derive(integer,bigint,json,boolean)", "derive_names(integer,bigint,json)",
        "derive_outcomes(integer,bigint,json)", "derive_rows(integer,bigint,json)",
        "droppable(text,timestamp with time zone,boolean)",
        "extend_partitions(integer,bigint)", "granted_namespaces(text)", "mark_seals()",
        "make_partition(integer,bigint,bigint)", "mark_requests()",
        "move_head(integer,integer,uuid,bigint,bigint,bytea,bytea)", "opaque_id(uuid)",
        "partition_size(integer)", "partitioned_tables()", "require_grant(text)",
        "store_batch(integer,integer,uuid,bigint,integer,bigint,json,bytea,bytea,json)",
        "store_details(integer,bigint[],bigint[],bytea[])",
        "thin_unchecked(text,timestamp with time zone)")},
    # Views call these with the rights of who asks; they return typed values.
    **{f"{_LOG}.{name}": _READ for name in (
        "eviction_end(integer,bigint,bigint,text,boolean)", "excluding_plugin(text,text)",
        "excluding_reason(text,text)", "exclusion(json)", "exclusion_at(integer,bigint)",
        "pod_owner(integer,bigint)",
        "pod_uid(json)", "queue_message(integer,bigint)", "rows_in(text)", '"time"(bigint)',
        "uid(text)")},
    **{f"{_LOG}.{name}": _RAW for name in (
        "batches_of(integer,uuid)", "entries(bytea,integer)", "integer_at(bytea,integer,integer)",
        "record(integer,bigint)", "scored(integer,bigint)", "vector(integer,bigint,integer)")},
    **{f"{_PEOPLE}.{name}": _RAW for name in (
        "events_between(text,bigint,bigint)", "events_of_pod(text,text)")},
    **{f"{_PEOPLE}.{name}(text,bigint)": _READ for name in (
        "candidates", "refusals", "scores", "verdicts")},
    **{f"{_PEOPLE}.tenant_{name}": {TENANT} for name in (
        "bindings(text,text)", "decisions(text,text)", "evictions()", "neighbours(text)",
        "ping_pongs(text,text)", "pods_now(text,text)", "preempted_for_nothing(text,text)",
        "queue_moves(text,text)", "refusals(text,text)", "shadow_decisions(text,text)",
        "starving_pods(text,text)", "unplaceable_pods(text,text)", "verdicts(text,bigint)")},
}  # fmt: skip
"""The roles that may call each function."""
_RELATIONS = r"""
SELECT c.relkind::text, c.oid::regclass::text, n.nspname || '.' || CASE WHEN c.relispartition
       THEN regexp_replace(c.relname, '_\d+_\d+$', '_#') ELSE c.relname END,
       quote_ident((SELECT attname FROM pg_attribute
                    WHERE attrelid = c.oid AND attnum > 0 ORDER BY attnum DESC LIMIT 1))
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname IN ('eventsched', 'eventsched_log') AND c.relkind NOT IN ('i', 'I', 't', 'c')
ORDER BY 2
"""
_FUNCTIONS = """
SELECT p.oid::regprocedure::text, p.proretset, format('%I.%I(%s)', n.nspname, p.proname, (
    SELECT string_agg(format('NULL::%s', t::regtype), ', ' ORDER BY o)
    FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY a (t, o)))
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname IN ('eventsched', 'eventsched_log') ORDER BY 1
"""
_OTHER = {  # what no role but the owner may do, whatever the object
    "CREATE TABLE": "CREATE TABLE {schema}.mine (x integer)",
    "CREATE VIEW": "CREATE VIEW {schema}.mine AS SELECT 1 AS x",
    "CREATE FUNCTION": "CREATE FUNCTION {schema}.mine() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
    "ALTER SCHEMA": "ALTER SCHEMA {schema} OWNER TO CURRENT_USER",
    "DROP SCHEMA": "DROP SCHEMA {schema} CASCADE",
    "GRANT": "GRANT ALL ON SCHEMA {schema} TO CURRENT_USER",
    "another schema": "CREATE SCHEMA {schema}_mine",
    "session_replication_role": "SET session_replication_role = replica",
    "CREATE ROLE": "CREATE ROLE evs_mine",
    "GRANT of a role": "GRANT eventsched_owner TO CURRENT_USER",
    "ALTER ROLE": "ALTER ROLE eventsched_writer SUPERUSER",
    "ALTER SYSTEM": "ALTER SYSTEM SET fsync = off",
    "a file": "SELECT pg_read_file('PG_VERSION')",
    "a program": "COPY (SELECT 1) TO PROGRAM 'true'",
}

_NOTHING_GRANTED = {"01006", "01007"}


class Tried:
    """A database, and a connection of a login of each role. ``connection`` is the one in use."""

    def __init__(self, server: Server, url: str, admin: psycopg.Connection[Any]) -> None:
        self.admin_url, self.admin = url, admin
        self.connection = admin
        name = admin.info.dbname
        run = re.sub(r"\W", "", name)[-24:]
        self._server, self._database = server, name
        self.logins = {role: f"evs_{run}_{role}" for role in ROLES}
        self._connections = {}
        self._warnings: set[str] = set()
        for role, login in self.logins.items():
            member = "" if role == STRANGER else f"IN ROLE eventsched_{role}"
            admin.execute(f"CREATE ROLE {login} LOGIN {member}".encode())
            connection = psycopg.connect(self.url(role), autocommit=True)
            connection.add_notice_handler(lambda notice: self._warnings.add(notice.sqlstate or ""))
            self._connections[role] = connection

    def drop(self) -> None:
        """Drops the logins."""
        for role, login in self.logins.items():
            self._connections[role].close()
            self.admin.execute(f"DROP ROLE {login}".encode())

    def url(self, role: str) -> str:
        """The URL of a login of the role."""
        return self._server.url(self._database, self.logins[role])

    def act_as(self, role: str) -> None:
        """From now on statements are those of a login of the role."""
        self.connection = self._connections[role]

    def may(self, statement: str) -> bool:
        """Whether a statement is not refused for lack of rights. It is rolled back. Changes of
        views count as refused, as do grants of nothing, which only lead to a warning."""
        self._warnings.clear()
        try:
            with (
                nullcontext()
                if statement.startswith("ALTER SYSTEM")  # not in a transaction
                else self.connection.transaction(force_rollback=True)
            ):
                self.connection.execute(statement.encode())
        except (
            psycopg.errors.InsufficientPrivilege,
            psycopg.errors.ObjectNotInPrerequisiteState,  # no view can be written
            psycopg.errors.WrongObjectType,  # and no view truncated
        ):
            return False
        except psycopg.Error:
            return True
        return not self._warnings & _NOTHING_GRANTED

    def rows(self, query: str) -> list[tuple[str, ...]]:
        """The rows of a query of the superuser."""
        return [tuple(map(str, row)) for row in self.admin.execute(query.encode()).fetchall()]


@pytest.fixture(scope="module")
def tried(one_server: Server) -> Iterator[Tried]:
    """A database with a log, and a login of each role."""
    with one_server.fresh(migrate) as url:
        odd(url)
        simulated(url)
        with psycopg.connect(url, autocommit=True) as connection:
            tried = Tried(one_server, url, connection)
            try:
                yield tried
            finally:
                tried.drop()


def _statements(relation: str, column: str, kind: str) -> Mapping[str, str]:
    if kind == "S":
        return {
            "SELECT": f"SELECT * FROM {relation}",
            "NEXTVAL": f"SELECT nextval('{relation}')",
            "SETVAL": f"SELECT setval('{relation}', 1)",
        }
    statements = {
        "SELECT": f"SELECT * FROM {relation} LIMIT 0",
        "INSERT": f"INSERT INTO {relation} DEFAULT VALUES",
        "UPDATE": f"UPDATE {relation} SET {column} = {column}",
        "DELETE": f"DELETE FROM {relation}",
        "SELECT FOR UPDATE": f"SELECT FROM {relation} FOR UPDATE",
        "TRUNCATE": f"TRUNCATE {relation} CASCADE",
        "LOCK": f"LOCK TABLE {relation} IN ACCESS EXCLUSIVE MODE",
        "GRANT": f"GRANT SELECT ON {relation} TO PUBLIC",
        "RENAME": f"ALTER TABLE {relation} RENAME COLUMN {column} TO mine",
        "COMMENT": f"COMMENT ON COLUMN {relation}.{column} IS 'mine'",
        "RULE": f"CREATE RULE mine AS ON INSERT TO {relation} DO ALSO NOTHING",
        "DROP": f"DROP {'VIEW' if kind == 'v' else 'TABLE'} {relation} CASCADE",
    }
    if kind == "v":
        return statements
    return statements | {
        "TRIGGER": f"CREATE TRIGGER mine BEFORE TRUNCATE ON {relation} EXECUTE FUNCTION "
        "eventsched_log.deny()",
        "NO TRIGGER": f"ALTER TABLE {relation} DISABLE TRIGGER ALL",
        "INDEX": f"CREATE INDEX mine ON {relation} ({column})",
        "POLICY": f"CREATE POLICY mine ON {relation} USING (true)",
        "REFERENCES": f"DO $$ BEGIN IF NOT has_table_privilege('{relation}', 'REFERENCES') THEN "
        "RAISE insufficient_privilege; END IF; END $$",
    }


def test_tables_views_partitions_and_sequences(tried: Tried) -> None:
    relations = tried.rows(_RELATIONS)
    names = {name for kind, _, name, _ in relations if kind != "S"}
    assert names == SELECTS.keys()
    wrong = []
    for role in ROLES:
        tried.act_as(role)
        for kind, relation, name, column in relations:
            for what, statement in _statements(relation, column, kind).items():
                if what == "SELECT":
                    allowed = kind != "S" and role in SELECTS[name]
                else:
                    allowed = role in CHANGES.get((name, what), ())
                if tried.may(statement) != allowed:
                    wrong.append(f"{role} {'may not' if allowed else 'may'}: {statement}")
    assert not wrong, "\n".join(wrong)


def test_functions(tried: Tried) -> None:
    functions = tried.rows(_FUNCTIONS)
    assert {name for name, _, _ in functions} == CALLS.keys()
    wrong = []
    for role in ROLES:
        tried.act_as(role)
        for name, _, call in functions:
            if tried.may(f"SELECT {call}") != (role in CALLS[name]):
                wrong.append(f"{role} {'may not' if role in CALLS[name] else 'may'}: {call}")
    assert not wrong, "\n".join(wrong)


def test_readers_read_everything_but_the_records(tried: Tried) -> None:
    """Every view with rows in it, as its functions run too; of events, all columns except one."""
    tried.act_as(READER)
    for name, readers in SELECTS.items():
        if name.startswith("eventsched.") and READER in readers:
            tried.connection.execute(f"SELECT * FROM {name}".encode()).fetchall()
    rows = tried.connection.execute(
        "SELECT stream, seq, at, cause, kind, namespace, pod, pod_uid, epoch, written_at"
        " FROM eventsched.events"
    ).fetchall()
    assert len(rows) > 100
    [(message,)] = tried.connection.execute(
        "SELECT message FROM eventsched.queue_moves WHERE message IS NOT NULL LIMIT 1"
    ).fetchall()
    assert message
    [(decision,)] = tried.connection.execute(
        "SELECT seq FROM eventsched.decisions WHERE stream = 'odd' AND feasible > 0 LIMIT 1"
    ).fetchall()
    for function in ("verdicts", "scores"):
        call = f"SELECT * FROM eventsched.{function}('odd', %s)"
        assert tried.connection.execute(call.encode(), (decision,)).fetchall()
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tried.connection.execute("SELECT record FROM eventsched.events")


COMMANDS = {
    "explain": ("explain", "pod-000005", "--stream", "tight"),
    "log list": ("log", "list", "--stream", "tight"),
    "replay": ("replay", "--stream", "tight"),
    "sticky list": ("sticky", "list", "--stream", "odd"),
    "verify": ("verify",),
    "db stats": ("db", "stats"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_that_read_records(
    tried: Tried, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Auditors may run them; the error of readers names the grant, in one line."""
    assert main([*COMMANDS[command], "--database", tried.url(AUDITOR)]) == 0
    capsys.readouterr()
    assert main([*COMMANDS[command], "--database", tried.url(READER)]) == 3
    line = capsys.readouterr().err.strip()
    assert "permission denied for table" in line
    assert re.search("GRANT .*eventsched_auditor.* to this user$", line)
    assert "\n" not in line


def test_the_archiver_archives_and_prunes(
    tried: Tried, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The auditor archives as well, and cannot note it."""
    pytest.importorskip("pyarrow")
    from tests.postgres import archives

    archives.spread(tried.admin_url, "tight", archives.STREAM)
    arguments = ["db", "archive", "--stream", archives.STREAM, "--to", str(tmp_path / "archive")]
    assert main([*arguments, "--database", tried.url(READER)]) == 3
    capsys.readouterr()
    assert main([*arguments, "--database", tried.url(AUDITOR)]) == 0
    assert "GRANT eventsched_archiver to the user" in capsys.readouterr().err
    noted = "SELECT count(*) FROM eventsched_log.archived"
    assert tried.rows(noted) == [("0",)]
    assert main([*arguments, "--database", tried.url(ARCHIVER)]) == 0
    assert tried.rows(noted) == [("4",)]
    assert main(["db", "prune", "--stream", archives.STREAM, "--before", "1970-01-02",
                 "--database", tried.url(ARCHIVER)]) == 0  # fmt: skip


def test_nobody_becomes_another(tried: Tried) -> None:
    """Except who upgrades: the owner, and only by saying so."""
    others = [*(login for login in tried.logins.values()), "postgres", "pg_read_all_data"]
    ours = [f"eventsched_{role}" for role in (*ROLES[:-1], "owner")]
    for role in ROLES:
        tried.act_as(role)
        become = {other for other in (*others, *ours) if tried.may(f"SET ROLE {other}")}
        expected = {tried.logins[role], f"eventsched_{role}"}
        if role == MIGRATOR:
            expected.add("eventsched_owner")
        if role == STRANGER:
            expected.remove("eventsched_stranger")
        assert become == expected
        assert not tried.may("SET SESSION AUTHORIZATION postgres")


def test_nobody_makes_or_rules_anything(tried: Tried) -> None:
    for role in ROLES:
        tried.act_as(role)
        found = {
            what
            for what, statement in _OTHER.items()
            for schema in ("eventsched", "eventsched_log")
            if tried.may(statement.format(schema=schema))
        }
        assert found == set(), role


def test_the_owner_is_refused_by_the_triggers(tried: Tried) -> None:
    """The owner may switch them off; not by a setting of the session."""
    tried.act_as(MIGRATOR)
    tried.connection.execute("SET ROLE eventsched_owner")
    for statement in (
        "DELETE FROM eventsched_log.batch",
        "TRUNCATE eventsched_log.batch",
        "TRUNCATE eventsched_log.batch_1_0",
        "UPDATE eventsched_log.decision_1_0 SET score = 0",
    ):
        with pytest.raises(psycopg.Error, match="the log is append-only"):
            tried.connection.execute(statement.encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tried.connection.execute("SET session_replication_role = replica")
    tried.connection.execute("RESET ROLE")


def test_upgrades_need_the_migrator_only(one_server: Server) -> None:
    """A login without any other right, once the roles are there."""
    with (
        one_server.fresh(migrate) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        name = connection.info.dbname
        login = f"evs_{re.sub(r'[^a-z0-9]', '', name)[-24:]}_upgrades"
        migrations.downgrade(url, "0013")
        connection.execute(f"CREATE ROLE {login} LOGIN IN ROLE eventsched_migrator".encode())
        try:
            # The grants of the revision that makes the role went with it.
            connection.execute(
                "GRANT USAGE ON SCHEMA eventsched_log TO eventsched_migrator; "
                "GRANT ALL ON eventsched_log.migration TO eventsched_migrator"
            )
            address = one_server.url(name, login)
            migrations.upgrade(address)
            migrations.require(address)
            assert migrations.drift(url) == []
        finally:
            connection.execute(f"DROP ROLE {login}".encode())
