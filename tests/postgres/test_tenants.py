"""Tenants see the decisions about the pods of their namespaces, and nothing of others."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import msgspec
import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.runtime.simulation.simulation import Simulation
from tests.builders import SECOND
from tests.databases import Server, migrate
from tests.displacing import crowded
from tests.postgres.test_preemptions import assembly

Row = tuple[Any, ...]
SHOP, BANK = "shop", "bank"
ROWS = ("pods_now", "decisions", "queue_moves", "bindings", "refusals")
"""Functions tenant_NAME that return the rows of view NAME."""


def _fill(url: str, stream: str, seed: int) -> None:
    """A run with preemptions, in which every other pod is of another namespace."""
    source = crowded(seed, nodes=4, pods=40)
    arrivals = [
        replace(
            arrival, pod=msgspec.structs.replace(arrival.pod, namespace=(SHOP, BANK)[number % 2])
        )
        for number, arrival in enumerate(source.arrivals)
    ]
    cluster = InMemoryCluster(source.nodes, arrivals, source.bound, objects=source.objects)
    with closing(PostgresEventLog(url, stream, holder="test")) as log:
        Simulation(assembly(), cluster, log, batch_size=7).run(40 * SECOND)


class Tenants:
    """A database with two streams, and logins: of a tenant of SHOP, of one of SHOP in stream one
    only, of one without grants, and of a pool that may take on the first."""

    def __init__(self, server: Server, url: str) -> None:
        self.url, self._server = url, server
        with psycopg.connect(url, autocommit=True) as admin:
            self.name = admin.info.dbname
            run = f"evs_{re.sub(r'[^a-z0-9]', '', self.name)[-24:]}"
            self.shop, self.one, self.none, self.pool = (
                f"{run}_{role}" for role in ("shop", "one", "none", "pool")
            )
            for role in (self.shop, self.one, self.none):
                admin.execute(f"CREATE ROLE {role} LOGIN IN ROLE eventsched_tenant".encode())
            admin.execute(f"CREATE ROLE {self.pool} LOGIN NOINHERIT IN ROLE {self.shop}".encode())

    def drop(self) -> None:
        """Drops the logins."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            for role in (self.pool, self.shop, self.one, self.none):
                admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())

    def of(self, role: str) -> str:
        """The URL of a login."""
        return self._server.url(self.name, role)

    def ask(self, role: str, query: str, *values: object) -> list[Row]:
        """The rows of a query of a login."""
        with psycopg.connect(self.of(role), autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()

    def all(self, query: str, *values: object) -> list[Row]:
        """The rows of a query of the superuser."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(query.encode(), values).fetchall()


@pytest.fixture(scope="module")
def tenants(one_server: Server) -> Iterator[Tenants]:
    with one_server.fresh(migrate) as url:
        _fill(url, "one", 3)
        _fill(url, "two", 4)
        tenants = Tenants(one_server, url)
        try:
            for arguments in (
                ("--role", tenants.shop, "--namespace", SHOP),
                ("--role", tenants.one, "--namespace", SHOP, "--stream", "one"),
            ):
                assert main(["db", "grant", "--database", url, *arguments]) == 0
            with psycopg.connect(url, autocommit=True) as admin:
                admin.execute("ANALYZE")
            yield tenants
        finally:
            tenants.drop()


@pytest.mark.parametrize("view", ROWS)
def test_rows_of_the_own_namespaces(tenants: Tenants, view: str) -> None:
    """The columns and rows of the view, of the granted namespaces and streams and no others; of one
    pod if it is named."""
    expected = f"SELECT * FROM eventsched.{view} v WHERE namespace = '{SHOP}' ORDER BY v::text"
    whole = tenants.all(expected)
    asked = f"SELECT * FROM eventsched.tenant_{view}({{}}) v ORDER BY v::text"
    assert whole
    assert tenants.ask(tenants.shop, asked.format("")) == whole
    assert tenants.ask(tenants.one, asked.format("")) == [row for row in whole if row[0] == "one"]
    assert {row[0] for row in whole} == {"one", "two"}
    assert tenants.ask(tenants.none, asked.format("")) == []
    assert tenants.ask(tenants.shop, asked.format(f"'{BANK}'")) == []
    [(pod,)] = tenants.all(f"SELECT min(pod) FROM eventsched.{view} WHERE namespace = '{SHOP}'")
    column = next(
        place for place, value in enumerate(whole[0]) if value in {row[0] for row in _pods(tenants)}
    )
    named = tenants.ask(tenants.shop, asked.format(f"'{SHOP}', %s"), pod)
    assert named == [row for row in whole if row[column] == pod]
    assert tenants.ask(tenants.shop, asked.format("p_pod => %s"), pod) == named


def _pods(tenants: Tenants) -> list[Row]:
    return tenants.all("SELECT name FROM eventsched_log.pod")


def test_a_pool_takes_a_tenant_on(tenants: Tenants) -> None:
    """SET ROLE counts, and what is not inherited does not."""
    count = "SELECT count(*) FROM eventsched.tenant_decisions()"
    [(expected,)] = tenants.ask(tenants.shop, count)
    with psycopg.connect(tenants.of(tenants.pool), autocommit=True) as connection:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(count)
        connection.execute(f"SET ROLE {tenants.shop}".encode())
        assert connection.execute(count).fetchone() == (expected,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SET ROLE {tenants.one}".encode())


def test_verdicts(tenants: Tenants) -> None:
    """Of decisions about own pods, in granted streams."""
    query = "SELECT seq FROM eventsched.decisions WHERE stream = %s AND namespace = %s LIMIT 1"
    call = "SELECT * FROM eventsched.tenant_verdicts(%s, %s)"
    for stream in ("one", "two"):
        [(own,)], [(foreign,)] = (tenants.all(query, stream, space) for space in (SHOP, BANK))
        verdicts = tenants.all("SELECT * FROM eventsched.verdicts(%s, %s)", stream, own)
        assert len(verdicts) == 4
        assert tenants.ask(tenants.shop, call, stream, own) == verdicts
        assert tenants.ask(tenants.shop, call, stream, foreign) == []
        expected = verdicts if stream == "one" else []
        assert tenants.ask(tenants.one, call, stream, own) == expected
        assert tenants.ask(tenants.none, call, stream, own) == []


def test_neighbours_have_opaque_ids(tenants: Tenants) -> None:
    """One for each pod, the same for every tenant and in every answer."""
    query = "SELECT * FROM eventsched.tenant_neighbours(%s) ORDER BY stream, bound_at, pod"
    ids: dict[str, set[str]] = {}
    for node in ("n0", "n1", "n2", "n3"):
        bindings = tenants.all(
            "SELECT stream, bound_at, namespace, pod FROM eventsched.bindings WHERE node = %s", node
        )
        rows = tenants.ask(tenants.shop, query, node)
        assert len(rows) == len(bindings)
        assert {row[4] for row in rows} == {row[1] for row in bindings}
        own = {(row[0], row[3]) for row in bindings if row[2] == SHOP}
        assert {(row[0], row[3]) for row in rows if row[2] == SHOP} == own
        foreign = [row for row in rows if row[2] != SHOP]
        assert foreign
        assert all(row[2] is None and re.fullmatch("pod-[0-9a-f]{20}", row[3]) for row in foreign)
        for stream, bound_at, space, pod in bindings:
            if space != SHOP:
                found = {row[3] for row in foreign if (row[0], row[4]) == (stream, bound_at)}
                ids[pod] = ids.get(pod, found) & found
        narrow = tenants.ask(tenants.one, query, node)
        assert narrow == [row for row in rows if row[0] == "one"]
        assert tenants.ask(tenants.none, query, node) == []
    assert all(len(found) == 1 for found in ids.values()), ids
    assert len(set.union(*ids.values())) == len(ids)


def test_evictions(tenants: Tenants) -> None:
    """Those of own pods and for own pods; the other party by the id that it has as a neighbour."""
    rows = tenants.ask(tenants.shop, "SELECT * FROM eventsched.tenant_evictions()")
    evictions = tenants.all("SELECT stream, namespace, pod, preemptor FROM eventsched.evictions")
    ours = [e for e in evictions if e[1] == SHOP or e[3].startswith(f"{SHOP}/")]
    assert sorted((r[0], r[2]) for r in rows if r[1] is not None) == sorted(
        (e[0], e[2]) for e in ours if e[1] == SHOP
    )
    assert sorted((r[0], f"{r[4]}/{r[5]}") for r in rows if r[4] is not None) == sorted(
        (e[0], e[3]) for e in ours if e[3].startswith(f"{SHOP}/")
    )
    assert 0 < len(rows) == len(ours) < len(evictions)
    ids = tenants.all("SELECT name, eventsched_log.opaque_id(uid) FROM eventsched_log.pod")
    name_of = {opaque: name for name, opaque in ids}
    foreign = sorted((r[0], name_of[r[2]]) for r in rows if r[1] is None)
    assert foreign
    assert foreign == sorted((e[0], e[2]) for e in ours if e[1] != SHOP)


LEAKS: dict[str, Callable[[str], str]] = {
    "a view": lambda pod: f"SELECT * FROM eventsched.decisions WHERE pod = '{pod}'",
    "a table": lambda pod: f"SELECT ctid, * FROM eventsched_log.pod WHERE name = '{pod}'",
    "a partition": lambda pod: "SELECT * FROM eventsched_log.decision_1_0",
    "the secret": lambda pod: "SELECT * FROM eventsched_log.tenant_secret",
    "the grants": lambda pod: "SELECT * FROM eventsched_log.tenant_grant",
    "the id of a uid": lambda pod: "SELECT eventsched_log.opaque_id(gen_random_uuid())",
    "namespaces": lambda pod: "SELECT * FROM eventsched_log.granted_namespaces(NULL)",
    "records": lambda pod: f"SELECT * FROM eventsched.events_of_pod('one', '{pod}')",
    "verdicts of others": lambda pod: "SELECT * FROM eventsched.verdicts('one', 20)",
    "statistics": lambda pod: "SELECT * FROM pg_statistic",
    "a lock": lambda pod: "BEGIN; LOCK TABLE eventsched_log.pod IN ACCESS SHARE MODE",
    "another role": lambda pod: "SET ROLE eventsched_reader",
    "a file": lambda pod: "SELECT pg_read_file('PG_VERSION')",
}


@pytest.mark.parametrize("what", LEAKS)
def test_what_is_denied(tenants: Tenants, what: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        tenants.ask(tenants.shop, LEAKS[what]("p-1"))


def test_no_column_statistics(tenants: Tenants) -> None:
    """Postgres shows them to those who may read the column."""
    query = "SELECT count(*) FROM pg_stats WHERE schemaname = 'eventsched_log'"
    assert tenants.all(query) != [(0,)]
    assert tenants.ask(tenants.shop, query) == [(0,)]


def test_a_function_in_a_condition_sees_own_rows_only(tenants: Tenants) -> None:
    """One that is cheap, so that Postgres would call it first, and that prints what it is given."""
    told: list[str] = []
    with psycopg.connect(tenants.of(tenants.shop), autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
        connection.execute(
            "CREATE FUNCTION pg_temp.spy(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001"
            " AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$"
        )
        for view in ROWS:
            connection.execute(
                f"SELECT FROM eventsched.tenant_{view}() v WHERE pg_temp.spy(v::text)".encode()
            ).fetchall()
        connection.execute(
            "SELECT FROM eventsched.tenant_neighbours('n1') v WHERE pg_temp.spy(v::text)"
        ).fetchall()
        with pytest.raises(psycopg.Error) as failed:
            connection.execute(
                "SELECT (namespace || pod)::integer FROM eventsched.tenant_decisions()"
            )
    assert len(told) > 100
    said = " ".join([*told, str(failed.value)])
    assert BANK not in said
    foreign = tenants.all(
        "SELECT name, uid::text FROM eventsched_log.pod WHERE namespace = %s", BANK
    )
    assert not [word for row in foreign for word in row if re.search(rf"\b{word}\b", said)]


def test_a_view_or_a_function_of_a_tenant_is_no_way_in(tenants: Tenants) -> None:
    """What another user calls through it answers for that user, not for its author; and a tenant
    who calls what the superuser made gets its own rows."""
    count = "SELECT count(*) FROM eventsched.tenant_decisions()"
    [(own,)] = tenants.ask(tenants.one, count)
    [(more,)] = tenants.ask(tenants.shop, count)
    assert own < more
    with psycopg.connect(tenants.url, autocommit=True) as admin:
        admin.execute(f"CREATE VIEW public.through AS {count}".encode())
        admin.execute("GRANT SELECT ON public.through TO PUBLIC")
        admin.execute(
            "CREATE FUNCTION public.through_function() RETURNS bigint LANGUAGE sql"
            f" SECURITY DEFINER AS '{count}'".encode()
        )
        for query in ("SELECT * FROM public.through", "SELECT public.through_function()"):
            assert tenants.ask(tenants.one, query) == [(own,)]
        admin.execute("DROP VIEW public.through; DROP FUNCTION public.through_function")


def test_plans_say_nothing_about_others(tenants: Tenants) -> None:
    """The same estimates for a pod that exists elsewhere and for one that does not, in EXPLAIN and
    in the plans that a session can have printed."""

    def plans(pod: str) -> str:
        told: list[str] = []
        with psycopg.connect(tenants.of(tenants.shop), autocommit=True) as connection:
            connection.add_notice_handler(lambda notice: told.append(str(notice.message_detail)))
            connection.execute("SET debug_print_plan = on; SET client_min_messages = debug5")
            call = f"SELECT * FROM eventsched.tenant_decisions('{SHOP}', '{pod}')"
            rows = connection.execute(f"EXPLAIN (VERBOSE, COSTS) {call}".encode()).fetchall()
            assert connection.execute(call.encode()).fetchall() == []
            assert any("PLANNEDSTMT" in text for text in told)  # it does print plans
        text = f"{rows} {told}".replace(pod, "POD")
        assert "granted_namespaces" not in text  # of the query, not of what the function does
        return re.sub(r":(location|stmt_location|stmt_len|constvalue) [^\n]*", "", text)

    [(common,)] = tenants.all(
        "SELECT name FROM eventsched_log.pod WHERE namespace = %s LIMIT 1", BANK
    )
    assert plans(common) == plans("x" * len(common))


def test_one_pod_by_index(tenants: Tenants) -> None:
    """The plans of the queries inside, with costs that forbid scans of whole tables."""
    with psycopg.connect(tenants.url) as connection:
        connection.execute("LOAD 'auto_explain'")
        plans: list[str] = []
        connection.add_notice_handler(lambda notice: plans.append(str(notice.message_primary)))
        connection.execute(
            "SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on;"
            "SET auto_explain.log_level = 'warning'; SET enable_seqscan = off"
        )
        for view in ROWS:
            connection.execute(
                f"SELECT * FROM eventsched.tenant_{view}('{SHOP}', 'p-2')".encode()
            ).fetchall()
    plan = "\n".join(plans)
    assert "pod_name" in plan
    scanned = re.findall(r"Seq Scan on (\w+)", plan)
    assert {re.sub(r"_\d+_\d+$", "", table) for table in scanned} <= {"pg_authid"}, plan


# --- the command --------------------------------------------------------------------------------


def test_grants(tenants: Tenants, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["db", "grant", "--database", tenants.url]
    space = ["--role", tenants.none, "--namespace", BANK]
    count = "SELECT count(*) FROM eventsched.tenant_decisions()"

    def says(*more: str, code: int = 0) -> str:
        assert main([*arguments, *more]) == code
        told = capsys.readouterr()
        return (told.out if code == 0 else told.err).strip()

    assert says(*space) == f"role {tenants.none} sees namespace bank in all streams"
    assert says(*space).endswith("(as before)")
    assert tenants.ask(tenants.none, count) == tenants.all(
        "SELECT count(*) FROM eventsched.decisions WHERE namespace = %s", BANK
    )
    listing = [line.split() for line in says().splitlines()]
    assert listing[0] == ["every", "writer,", "every", "stream"]
    assert [tenants.none, "bank", "all", "streams"] in listing
    assert [tenants.one, "shop", "stream", "one"] in listing
    assert says(*space, "--revoke") == (
        f"role {tenants.none} no longer sees namespace bank in all streams"
    )
    assert tenants.ask(tenants.none, count) == [(0,)]
    for role, problem in (
        (tenants.pool, f"role {tenants.pool} is not a member of eventsched_tenant"),
        ("no_such_role", "there is no role no_such_role"),
    ):
        assert problem in says("--role", role, "--namespace", BANK, code=2)
    assert "a role and a namespace" in says("--namespace", BANK, code=2)
    assert "a role and a namespace" in says("--role", tenants.none, code=2)


def test_a_tenant_asks_by_the_command(tenants: Tenants, capsys: pytest.CaptureFixture[str]) -> None:
    address = ["--database", tenants.of(tenants.shop)]
    query = "SELECT pod FROM tenant_pods_now() LIMIT 1"
    assert main(["sql", *address, "-c", query]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("p-")
    assert main(["sql", *address, "-c", "SELECT * FROM decisions"]) == 2
    assert "permission denied for view decisions" in capsys.readouterr().err


def test_a_tenant_needs_roles(one_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    with one_server.fresh(lambda url: None) as url:
        assert main(["db", "upgrade", "--one-user", "--database", url]) == 0
        assert main(["db", "grant", "--database", url, "--role", "postgres",
                     "--namespace", SHOP]) == 2  # fmt: skip
        assert "was made with --one-user" in capsys.readouterr().err
