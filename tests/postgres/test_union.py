"""``eventsched db union``: views over the logs of three servers."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.schema import migrations
from tests.databases import open_place
from tests.postgres.test_sql_page import QUESTIONS, asked
from tests.postgres.unions import ANALYST, NAMES, Union, reference, rows, three_servers

Capture = pytest.CaptureFixture[str]
VIEWS = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'eventsched'::regnamespace "
    "AND relkind = 'v' ORDER BY 1"
)
POD = "pod-000017"
SMALL = (
    (r"openb-pod-\d+", POD), (r"openb-node-\d+", "node-00003"),
    ("'simulation', 32685, 32689", "'east', 20, 60"),
    (r"1970-05-20 05:12:(\d\d)", r"1970-01-01 00:00:\1"),
)  # fmt: skip
"""What stands for the names and times of docs/sql.md in the logs of this test."""


@pytest.fixture(scope="module")
def union(programs: Path) -> Iterator[Union]:
    """The union of three servers."""
    place = Path(tempfile.mkdtemp(prefix="evs-", dir=open_place()))
    place.chmod(0o755)
    try:
        with three_servers(programs, place) as made:
            assert made.make("--reader", ANALYST) == 0
            yield made
    finally:
        shutil.rmtree(place)


def test_every_view_has_the_rows_of_all_servers(union: Union) -> None:
    names = [name for (name,) in rows(union.url, VIEWS)]
    assert names == sorted(
        [*(n for (n,) in rows(union.servers["east"].superuser_url, VIEWS)), "members"]
    )
    filled = set()
    for name in names:
        if name == "members":  # of the union alone
            continue
        expected = []
        for server in union.servers:
            own = rows(union.servers[server].superuser_url, f"SELECT * FROM {name}")
            expected += [repr((server, *row)) for row in own]
        assert sorted(map(repr, rows(union.reader, f"SELECT * FROM {name}"))) == sorted(expected)
        filled |= {name} if expected else set()
    assert filled >= {
        "bindings", "decisions", "events", "evictions", "kinds", "memory", "pods_now",
        "preemptions", "queue_moves", "queue_stays", "refusals", "reservations", "streams",
    }  # fmt: skip
    assert rows(union.reader, "SELECT server, schema FROM members ORDER BY 1") == [
        (name, migrations.newest()) for name in sorted(NAMES)
    ]


def test_the_questions_of_the_page_have_the_same_answers(union: Union) -> None:
    """As if all logs were in one database."""
    with reference(union) as whole:
        answered = 0
        for question, _ in QUESTIONS:
            for pattern, small in SMALL:
                question = re.sub(pattern, small, question)
            expected = asked(question, "--database", whole)
            assert sorted(asked(question, "--database", union.reader).splitlines()) == sorted(
                expected.splitlines()
            ), question
            answered += len(expected.splitlines()) > 1
        assert answered >= len(QUESTIONS) - 2


def test_functions_answer_by_server(union: Union) -> None:
    [(seq,)] = rows(union.servers["east"].superuser_url, "SELECT max(seq) FROM decisions")
    own = rows(union.servers["east"].superuser_url, f"SELECT * FROM verdicts('east', {seq})")
    assert len(own) == 9
    for call in (f"verdicts('east', {seq})", f"verdicts('east', 'east', {seq})"):
        assert rows(union.reader, f"SELECT * FROM {call}") == own
    assert rows(union.reader, f"SELECT * FROM verdicts('west', 'east', {seq})") == []
    assert rows(union.reader, f"SELECT * FROM verdicts('none', {seq})") == []
    with pytest.raises(psycopg.Error, match="there is no server south"):
        rows(union.reader, f"SELECT * FROM verdicts('south', 'east', {seq})")


def test_conditions_are_answered_by_the_servers(union: Union) -> None:
    """Each gets the condition, and has an index for it."""
    [(uid,)] = rows(
        union.servers["east"].superuser_url,
        f"SELECT pod_uid FROM decisions WHERE pod = '{POD}' LIMIT 1",
    )
    for view in ("decisions", "queue_moves", "bindings", "reservations", "pods_now"):
        query = f"SELECT * FROM {view} WHERE pod_uid = '{uid}' AND stream = 'east'"
        plan = _plan(union.reader, f"EXPLAIN (VERBOSE, COSTS OFF) {query}")
        sent = re.findall(r"Remote SQL: (.*)", plan)
        assert len(sent) == 3, plan
        assert all(f"(pod_uid = '{uid}')" in each and "stream = 'east'" in each for each in sent)
        for server, each in zip(NAMES, sent, strict=True):
            remote = _plan(union.servers[server].superuser_url, f"EXPLAIN {each}", seqscan="off")
            assert re.search(r"Index (Only )?Scan|Bitmap Index Scan", remote), remote
            assert re.search(rf"Index Cond: .*'{uid}'", remote), remote
    plan = _plan(union.reader, "EXPLAIN (VERBOSE) SELECT * FROM decisions WHERE server = 'east'")
    assert plan.count("Remote SQL") == 1


def _plan(url: str, query: str, *, seqscan: str = "on") -> str:
    with psycopg.connect(
        url, options=f"-c search_path=eventsched -c enable_seqscan={seqscan}"
    ) as connection:
        return "\n".join(line for (line,) in connection.execute(query.encode()))


def test_nothing_can_be_written(union: Union) -> None:
    with psycopg.connect(union.url, autocommit=True) as owner:
        with pytest.raises(psycopg.Error, match="does not allow inserts"):
            owner.execute("INSERT INTO member_east.requests (stream) VALUES ('east')")
        with pytest.raises(psycopg.Error, match="cannot insert into view"):
            owner.execute("INSERT INTO eventsched.requests (server) VALUES ('east')")
    with psycopg.connect(union.reader, autocommit=True) as reader:
        for statement in (
            "SELECT * FROM member_east.decisions", "SELECT * FROM eventsched_union.member",
            "SELECT eventsched_union.connection('east')",
        ):  # fmt: skip
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(statement.encode())
        assert reader.execute("SELECT umoptions FROM pg_user_mappings").fetchone() == (None,)


def test_a_server_that_is_down_is_named(union: Union, capsys: Capture) -> None:
    """Nothing is answered without it, unless the question leaves it out. When it is back, so are
    the answers, in the same session."""
    count = "SELECT count(*) FROM decisions"
    last = "(SELECT max(seq) FROM decisions WHERE server = 'east')"
    verdicts = f"SELECT count(*) FROM verdicts('east', 'east', {last})"
    [whole] = rows(union.reader, count)
    [(others,)] = rows(union.reader, f"{count} WHERE server <> 'east'")
    east = union.servers["east"]
    with psycopg.connect(
        union.reader, autocommit=True, options="-c search_path=eventsched"
    ) as kept:
        [before] = kept.execute(verdicts).fetchall()
        east.close()
        try:
            assert main(["sql", "--database", union.reader, "-c", count]) == 3
            assert 'could not connect to server "east"' in capsys.readouterr().err
            assert rows(union.reader, f"{count} WHERE server <> 'east'") == [(others,)]
            [seq] = rows(union.reader, "SELECT max(seq) FROM decisions WHERE server = 'west'")
            with pytest.raises(psycopg.Error, match='could not connect to server "east"'):
                rows(union.reader, f"SELECT * FROM verdicts('east', 'east', {seq[0]})")
        finally:
            east.open()
        assert kept.execute(verdicts).fetchall() == [before]
        assert kept.execute(count).fetchall() == [whole]


def test_the_sql_is_printed(union: Union, capsys: Capture) -> None:
    """Without the password. Nothing is changed."""
    url = union.member("east").replace("union_reader@", "union_reader:s3cret@")
    before = rows(union.url, "SELECT * FROM members")
    assert main(["db", "union", "--database", union.url, "--member", url, "--print"]) == 0
    printed = capsys.readouterr().out
    assert "s3cret" not in printed
    assert "\"password\" '********'" in printed
    assert 'CREATE VIEW eventsched."decisions" AS' in printed
    assert rows(union.url, "SELECT * FROM members") == before


def test_a_union_is_replaced(union: Union, capsys: Capture) -> None:
    password = union.member("north").replace("union_reader@", "union_reader:s3cret@")
    assert union.make("--member", password, names=("west",)) == 0
    assert "s3cret" not in capsys.readouterr().out
    try:
        found = rows(union.url, "SELECT DISTINCT server FROM decisions ORDER BY 1")
        assert found == [("north",), ("west",)]
        assert "s3cret" not in repr(rows(union.url, "SELECT * FROM members"))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            rows(union.reader, "SELECT * FROM eventsched.decisions")
    finally:
        assert union.make("--reader", ANALYST) == 0


def test_a_union_is_no_log(union: Union, capsys: Capture) -> None:
    for command in (["db", "upgrade"], ["explain", "default/x"], ["db", "stats"]):
        assert main([*command, "--database", union.url]) in (2, 3)
        assert (
            "is a union of several servers; ask it with `eventsched sql`" in capsys.readouterr().err
        )


def test_what_does_not_fit_is_refused(union: Union, capsys: Capture) -> None:
    """Nothing is changed then."""
    west, east = union.servers["west"], union.servers["east"]
    before = rows(union.url, "SELECT * FROM members")
    west.create_database("empty")
    west.create_database("older")
    owner = west.superuser_url.partition("@")[0].rpartition("/")[2]
    migrations.upgrade(west.url(owner, "older"), "0010")
    west.execute("CREATE ROLE nobody LOGIN")
    east.execute("CREATE ROLE changer LOGIN IN ROLE eventsched_writer")
    nowhere = east.url("union_reader").replace("port=5432", "port=5999")
    for member, code, problem in (
        (f"east={west.url('union_reader', 'empty')}", 2, "--member east: has no eventsched schema"),
        (f"east={west.url('union_reader', 'older')}", 2, "has schema 0010, and west has"),
        (f"east={west.url('nobody')}", 2, "permission denied"),
        (union.member("east", owner), 2, f"user {owner} may change the log"),
        (union.member("east", "changer"), 2, "user changer may change the log"),
        (f"east={nowhere}", 3, "--member east: connection to server"),
        (f"West={west.url('union_reader')}", 2, "begin with a server's name"),
        (union.member("west"), 2, "west is named twice"),
        ("east=mysql://x", 2, "--member east: names mysql"),
        ("east=postgresql://host/db", 2, "names no user"),
        ("east=postgresql://u@host/db?nonsense=1", 2, "--member east: "),
    ):  # fmt: skip
        assert union.make("--member", member, names=("west",)) == code, member
        error = capsys.readouterr().err
        assert problem in error, member
    assert (
        main(["db", "union", "--database", west.superuser_url, "--member", union.member("east")])
        == 2
    )
    assert "holds a log; name a database that is empty" in capsys.readouterr().err
    assert union.make("--reader", "stranger") == 2
    assert 'role "stranger" does not exist' in capsys.readouterr().err
    assert rows(union.url, "SELECT * FROM members") == before


def test_text_has_to_be_sorted_alike(union: Union, capsys: Capture) -> None:
    """Rows that the servers have sorted are merged."""
    west = union.servers["west"]
    owner = west.superuser_url.partition("@")[0].rpartition("/")[2]
    west.execute("CREATE DATABASE sorted_otherwise TEMPLATE template0 LOCALE 'C.UTF-8'")
    url = west.url(owner, "sorted_otherwise")
    assert main(["db", "union", "--database", url, "--member", union.member("east")]) == 2
    assert (
        "--member east: sorts text by libc C, and the union's database by libc C.UTF-8"
        in capsys.readouterr().err
    )
