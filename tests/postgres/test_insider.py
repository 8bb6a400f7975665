"""An insider who owns the database: what he changes, and how verification finds it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.chain import Head
from eventsched.eventlog.checkpoints import Signer
from eventsched.eventlog.log_errors import DatabaseRefusedError, FencedError
from eventsched.eventlog.postgres.grants import grant
from eventsched.eventlog.postgres.housekeeping import thin
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from eventsched.eventlog.signing_keys import key_id, raw, read_public_key
from eventsched.history.verify.verification import verify_database
from eventsched.history.verify.verified_chain import batch_hash
from eventsched.history.verify.verified_schema import differences
from tests import releases
from tests.databases import Server, migrate
from tests.postgres import schema_facts
from tests.postgres.schema_facts import FILE, made
from tests.postgres.tampered_logs import TamperedLog, derive_again, edit_decision, tight
from tests.postgres.test_migrations import nothing

Capture = pytest.CaptureFixture[str]


def key_pair(folder: Path) -> tuple[Path, Path]:
    """The files of a private and a public key, as openssl makes them."""
    private, public = folder / "key.pem", folder / "key.pub"
    commands: tuple[list[str | Path], ...] = (
        ["genpkey", "-algorithm", "ed25519", "-out", private],
        ["pkey", "-in", private, "-pubout", "-out", public],
    )
    for arguments in commands:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)
    return private, public


class Anchored:
    """A log, and a checkpoint of it that is kept elsewhere."""

    def __init__(self, log: TamperedLog, folder: Path) -> None:
        self.log, self.url = log, log.url
        self.private, self.public = key_pair(folder)
        self.file = folder / "checkpoints"
        self.sign()

    def sign(self) -> None:
        """Adds a checkpoint."""
        code = main(["log", "checkpoint", "--database", self.url, "--key", str(self.private),
                     "-o", str(self.file)])  # fmt: skip
        assert code == 0

    def verify(self, *more: str) -> int:
        """The command's exit code."""
        return main(["verify", "--database", self.url, "--checkpoints", str(self.file),
                     "--public-key", str(self.public), *more])  # fmt: skip


@pytest.fixture
def anchored(one_server: Server, tmp_path: Path) -> Iterator[Anchored]:
    """A fresh copy of a log, with a checkpoint."""
    with one_server.fresh(tight) as url, closing(TamperedLog(url)) as log:
        yield Anchored(log, tmp_path)


# --- checkpoints --------------------------------------------------------------------------


def test_a_log_that_went_on(anchored: Anchored, capsys: Capture) -> None:
    """Checkpoints of several times, and records after them."""
    assert anchored.verify() == 0
    code = main(["simulate", "--generate", "nodes=2,pods=4", "--database", anchored.url,
                 "--stream", "other"])  # fmt: skip
    assert code == 0
    anchored.sign()
    assert anchored.file.read_text().count("— eventsched/") == 3
    capsys.readouterr()
    assert anchored.verify() == 0
    assert anchored.verify("--stream", "other") == 0
    assert "are what was written" in capsys.readouterr().out


def rewritten(log: TamperedLog) -> str:
    seq = log.decision("outcome = 'scheduled'", 30)
    edit_decision(log, seq, lambda record: record.update(message="a forged message"))
    log.run("DELETE FROM snapshot")
    return "rewritten after the checkpoint"


def cut_off(log: TamperedLog) -> str:
    batch = log.batch(log.rows("SELECT next - 20 FROM head")[0][0])
    log.run(f"DELETE FROM batch WHERE first >= {batch.first}")
    for table in ("detail", "decision", "pod", "node", "snapshot"):
        log.run(f"DELETE FROM {table} WHERE seq >= {batch.first}")
    log.run(
        f"UPDATE head SET next = {batch.first}, hash ="
        " (SELECT hash FROM batch ORDER BY first DESC LIMIT 1)"
    )
    derive_again(log)
    return "its end was cut off, or an older backup restored"


def renamed(log: TamperedLog) -> str:
    log.run("UPDATE stream SET name = 'another'")
    log.run("UPDATE epoch SET first = 0")
    previous = log.rows("SELECT sha256('eventsched/1/another')")[0][0]
    token = log.rows("SELECT token FROM epoch")[0][0].bytes
    first, end = 0, log.rows("SELECT next FROM head")[0][0]
    while first < end:
        batch = log.batch(first)
        previous = batch_hash(batch, token, previous)
        log.run("UPDATE eventsched_log.batch SET hash = %s WHERE first = %s", previous, first)
        first = batch.end
    log.run("UPDATE eventsched_log.head SET hash = %s", previous)
    log.run("DELETE FROM snapshot")
    return "stream simulation: there is a checkpoint of it, but no such stream any more"


def removed(log: TamperedLog) -> str:
    for table in ("batch", "detail", "decision", "pod", "node", "snapshot", "pod_now", "verdict",
                  "scoring", "head", "epoch", "request", "stream"):  # fmt: skip
        if table != "request":
            log.run(f"DELETE FROM {table}")
    return "there is a checkpoint of it, but no such stream any more"


@pytest.mark.parametrize("change", [rewritten, cut_off, renamed, removed])
def test_what_hangs_together_is_not_what_was_signed(
    anchored: Anchored, capsys: Capture, change: Callable[[TamperedLog], str]
) -> None:
    """Without the checkpoint nothing is wrong with these."""
    said = change(anchored.log)
    with psycopg.connect(anchored.url) as connection:
        assert [r.problems for r in verify_database(connection) if r.problems] == []
    # What a superuser does to triggers meanwhile he undoes.
    capsys.readouterr()
    assert anchored.verify() == 1
    assert said in capsys.readouterr().out


def test_which_records_a_checkpoint_proves(anchored: Anchored, capsys: Capture) -> None:
    """Those before the newest checkpoint that agrees; an insider may have rewritten later ones, as
    long as none of the checkpoints is after them."""
    seq = anchored.log.decision("outcome = 'scheduled'", 30)
    [[begin]] = anchored.log.rows(f"SELECT max(first) FROM batch WHERE first <= {seq}")
    [[end]] = anchored.log.rows("SELECT next FROM head")
    [[before]] = anchored.log.rows(f"SELECT hash FROM batch WHERE first + count = {begin}")
    whole, signer = anchored.file.read_text(), Signer.read(anchored.private, "--key")
    early = signer.sign("simulation", Head(begin, before), 0)
    key = key_id(raw(read_public_key(anchored.public)))
    proved = f"1970-01-01T00:00:00Z (key {key}) proves the records before {begin}"

    def verified(text: str, code: int) -> list[str]:
        anchored.file.write_text(text)
        capsys.readouterr()
        assert anchored.verify() == code
        return capsys.readouterr().out.splitlines()

    assert verified(early + whole, 0)[-1].endswith(f"proves the records before {end}")
    rewritten(anchored.log)
    assert verified(early, 0)[-1].endswith(
        f"{proved}; the hash chain alone speaks for {end - begin} later records"
    )
    assert verified(early + whole, 1)[-1].endswith(proved)
    assert "proves" not in "".join(verified(whole, 1))
    anchored.file.write_text(early)
    assert anchored.verify("-o", "json") == 0
    [stream] = json.loads(capsys.readouterr().out)["streams"]
    assert (stream["proved_by"]["position"], stream["proved_by"]["key"]) == (begin, key)


def test_a_checkpoint_of_another_log(anchored: Anchored, capsys: Capture) -> None:
    """Of a stream of the same name, signed by the same key."""
    signer = Signer.read(anchored.private, "--key")
    anchored.file.write_text(signer.sign("simulation", Head(1, bytes(32)), 0))
    assert anchored.verify() == 1
    assert "rewritten after the checkpoint of 1970-01-01" in capsys.readouterr().out


def test_checkpoints_from_standard_input(
    anchored: Anchored, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl prints the annotation of the Lease, without a line end after it, or nothing if
    there is none."""
    verify = ["verify", "--database", anchored.url, "--checkpoints", "-",
              "--public-key", str(anchored.public)]  # fmt: skip
    note = anchored.file.read_bytes().rstrip(b"\n")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(note)))
    assert main(verify) == 0
    assert " proves the records before " in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO()))
    assert main(verify) == 2
    assert "standard input: holds no checkpoint" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"\xff")))
    assert main(verify) == 2
    assert "standard input: cannot be read: is not UTF-8 text" in capsys.readouterr().err


def test_checkpoints_that_are_none(anchored: Anchored, capsys: Capture) -> None:
    """Bad input, named by file and line."""
    whole = anchored.file.read_text()
    anchored.file.write_text(whole + whole.replace("at 20", "at 19"))
    assert anchored.verify() == 2
    assert f"{anchored.file}, line 7: the signature is wrong" in capsys.readouterr().err
    for options, problem in (
        (["--checkpoints", str(anchored.file)], "add --public-key"),
        (["--public-key", str(anchored.public)], "there is no --checkpoints"),
        (["--checkpoints", str(anchored.file), "--public-key", "none"], "none: cannot be read"),
    ):
        assert main(["verify", "--database", anchored.url, *options]) == 2
        assert problem in capsys.readouterr().err
    code = main(["log", "checkpoint", "--database", anchored.url, "--key", str(anchored.public)])
    assert code == 2
    assert "--key" in capsys.readouterr().err


def test_an_empty_stream(database: str, tmp_path: Path, capsys: Capture) -> None:
    """Its checkpoint says that nothing was before it, and later records agree with that."""
    private, public = key_pair(tmp_path)
    PostgresEventLog(database, "new").close()
    assert main(["log", "checkpoint", "--database", database, "--key", str(private)]) == 0
    (tmp_path / "checkpoints").write_text(capsys.readouterr().out)
    verify = ["verify", "--database", database, "--checkpoints", str(tmp_path / "checkpoints"),
              "--public-key", str(public)]  # fmt: skip
    assert main(verify) == 0
    options = ["--generate", "nodes=2,pods=4", "--database", database, "--stream", "new"]
    assert main(["simulate", *options]) == 0
    assert main(verify) == 0


def test_a_stream_without_a_checkpoint_is_named(anchored: Anchored, capsys: Capture) -> None:
    """It must not look as proved as the others."""
    PostgresEventLog(anchored.url, "another").close()
    capsys.readouterr()
    assert anchored.verify() == 0
    shown = capsys.readouterr().out
    assert shown.count("proves the records before") == 1
    assert (
        "\nstream another: no checkpoint proves its 0 records; the hash chain alone speaks for them"
    ) in shown


# --- the schema ---------------------------------------------------------------------------


def test_the_file_is_what_the_migrations_make() -> None:
    """After a new migration: make schema-facts."""
    known, found = json.loads(FILE.read_text()), made()
    servers = {name.rpartition(" on ")[2] for name in found["facts"] if name.startswith("view ")}
    kept = {
        name: digest for name, digest in known["facts"].items()
        if not name.startswith(("view ", "index ", "constraint ", "trigger "))
        or name.rpartition(" on ")[2] in servers
    }  # fmt: skip
    assert {"revision": known["revision"], "facts": kept} == found, "run `make schema-facts`"


def test_facts_of_a_version_that_is_not_here_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file stays as it is, and the command says what to install."""
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"facts": {"view a on 15": "0", "view a on 18": "0"}}))
    before = file.read_text()
    monkeypatch.setattr(schema_facts, "FILE", file)
    monkeypatch.setattr(schema_facts, "made", lambda: {"facts": {"view a on 18": "1"}})
    assert "there is no Postgres 15 here" in schema_facts.write()
    assert file.read_text() == before
    file.write_text(json.dumps({"facts": {"view a on 18": "0"}}))
    assert schema_facts.write() == ""
    assert json.loads(file.read_text())["facts"] == {"view a on 18": "1"}


@pytest.fixture
def owned(each_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A database of every version, at the hands of its owner."""
    with psycopg.connect(each_database, autocommit=True) as connection:
        yield connection


def test_no_false_alarms(each_server: Server) -> None:
    """Made by migrations, upgraded from 0.1, without roles, and after down and up."""
    with each_server.fresh(nothing) as url:
        releases.restore(url)
        migrations.upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            assert differences(connection) == []
        assert main(["verify", "--database", url]) == 0
        migrations.downgrade(url, "0004")
        migrations.upgrade(url)
        with psycopg.connect(url, autocommit=True) as connection:
            assert differences(connection) == []
    with each_server.fresh(nothing) as url:
        migrations.upgrade(url, one_user=True)
        with psycopg.connect(url, autocommit=True) as connection:
            assert differences(connection) == []


_L = "eventsched_log"
CHANGES = [
    (
        f"CREATE OR REPLACE FUNCTION {_L}.deny() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN NEW; END $$",
        ["function eventsched_log.deny() was changed"],
    ),
    (
        "CREATE OR REPLACE VIEW eventsched.requests AS SELECT s.name AS stream, r.id AS request,"
        " r.asked_at, 'nobody'::text AS asked_by, r.plugin, r.key, r.seq FROM"
        " eventsched_log.request r JOIN eventsched_log.stream s ON s.id = r.stream",
        ["view eventsched.requests was changed"],
    ),
    (f"DROP TRIGGER append_only ON {_L}.batch",
     ["trigger eventsched_log.batch.append_only is missing"]),
    (f"ALTER TABLE {_L}.batch DISABLE TRIGGER append_only",
     ["trigger eventsched_log.batch.append_only was changed"]),
    (f"CREATE TRIGGER mine AFTER INSERT ON {_L}.batch EXECUTE FUNCTION {_L}.deny()",
     ["trigger eventsched_log.batch.mine is not of the migrations"]),
    (f"CREATE RULE mine AS ON UPDATE TO {_L}.batch DO INSTEAD NOTHING",
     ["rule eventsched_log.batch.mine is not of the migrations"]),
    (f"ALTER TABLE {_L}.head DROP CONSTRAINT head_hash_check",
     ["constraint eventsched_log.head.head_hash_check is missing"]),
    (f"ALTER TABLE {_L}.head ADD extra integer", ["table eventsched_log.head was changed"]),
    (f"GRANT UPDATE ON {_L}.batch TO eventsched_writer",
     ["grants on eventsched_log.batch to eventsched_writer was changed"]),
    (f"GRANT EXECUTE ON FUNCTION {_L}.deny() TO PUBLIC",
     ["grants on function eventsched_log.deny() to PUBLIC is not of the migrations"]),
    (f"GRANT SELECT (hash) ON {_L}.head TO PUBLIC",
     ["grants on eventsched_log.head.hash to PUBLIC is not of the migrations"]),
    (f"ALTER FUNCTION {_L}.renew(integer, integer, uuid) SECURITY INVOKER",
     ["function eventsched_log.renew(integer,integer,uuid) was changed"]),
    (f"CREATE FUNCTION {_L}.back_door() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
     ["function eventsched_log.back_door() is not of the migrations",
      "grants on function eventsched_log.back_door() to PUBLIC is not of the migrations",
      "grants on function eventsched_log.back_door() to postgres is not of the migrations"]),
    (f"ALTER VIEW eventsched.events OWNER TO current_user",  # noqa: F541
     ["view eventsched.events was changed"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_changed_schema_is_named(
    owned: psycopg.Connection[Any], change: str, said: list[str]
) -> None:
    owned.execute(change.encode())
    found = differences(owned)
    assert said[0] in found
    assert set(found) - set(said) <= {each for each in found if each.startswith("grants on")}


def test_the_command_says_so(database: str, capsys: Capture) -> None:
    """In words, in JSON and by the exit code, with the reader's rights."""
    log = PostgresEventLog(database, "used")
    log.close()
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(CHANGES[0][0].encode())
    assert main(["verify", "--database", database, "-o", "json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["schema"]) == (False, CHANGES[0][1])
    assert main(["verify", "--database", database]) == 1
    assert f"schema: {CHANGES[0][1][0]}" in capsys.readouterr().out


# --- who may write which stream -----------------------------------------------------------


class Writers:
    """A database, and two logins that are writers: roles are the server's, so other tests that run
    at the same time have others."""

    def __init__(self, server: Server, url: str, database: str) -> None:
        self.url, self._server, self._database = url, server, database
        mark = uuid4().hex[:12]
        self.one, self.two = f"evs_{mark}_one", f"evs_{mark}_two"

    def of(self, role: str) -> str:
        """The URL of a login."""
        return self._server.url(self._database, role)


@pytest.fixture
def writers(one_server: Server) -> Iterator[Writers]:
    """Two logins of a fresh database."""
    with one_server.fresh(migrate) as url, psycopg.connect(url, autocommit=True) as connection:
        found = Writers(one_server, url, connection.info.dbname)
        for name in (found.one, found.two):
            connection.execute(f"CREATE ROLE {name} LOGIN IN ROLE eventsched_writer".encode())
        try:
            yield found
        finally:
            for name in (found.one, found.two):
                connection.execute(f"DROP ROLE {name}".encode())


def test_a_writer_is_bound_to_its_streams(writers: Writers, capsys: Capture) -> None:
    """Without grants nothing changes; with one, no other role gets in, by any function."""
    url, of, one, two = writers.url, writers.of, writers.one, writers.two
    theirs, mine = PostgresEventLog(of(one), "theirs"), PostgresEventLog(of(two), "mine")
    mine.renew()
    assert main(["db", "grant", "--database", url]) == 0
    assert capsys.readouterr().out == "every writer, every stream\n"
    for name, stream in ((one, "theirs"), (one, "new")):
        arguments = ["--role", name, "--stream", stream]
        assert main(["db", "grant", "--database", url, *arguments]) == 0
    theirs.renew()
    mine.renew()  # two has no grants, and the stream has none
    for stream in ("theirs", "new"):
        with pytest.raises(DatabaseRefusedError, match=f"may not write stream {stream}.*db grant"):
            PostgresEventLog(of(two), stream)
    with pytest.raises(DatabaseRefusedError, match=f"role {one} may not write stream mine"):
        PostgresEventLog(of(one), "mine")
    PostgresEventLog(of(one), "new").close()
    theirs.close()
    mine.close()


def test_a_token_that_was_read_is_of_no_use(writers: Writers) -> None:
    """Writers may read all tables, the tokens of others among them."""
    url, of, one, two = writers.url, writers.of, writers.one, writers.two
    log = PostgresEventLog(of(one), "theirs")
    assert grant(url, one, "theirs")
    assert not grant(url, one, "theirs")
    with psycopg.connect(of(two), autocommit=True) as thief:
        token = "stream, epoch, token FROM eventsched_log.head"
        stolen = thief.execute(f"SELECT {token}".encode()).fetchone()
        assert stolen is not None
        for call in ("renew(%s, %s, %s)", "keep_snapshot(%s, %s, %s, 0, '', 'd', 'v', '')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not write stream"):
                thief.execute(f"SELECT eventsched_log.{call}".encode(), stolen)
    with pytest.raises(UnavailableError, match="may not write stream theirs"):
        thin(of(two), "theirs", 0.0, 0)
    log.renew()
    assert grant(url, one, "theirs", revoke=True)
    with closing(Session(of(two))) as session:  # every writer may again
        session.acquire("theirs", "two")
    with pytest.raises(FencedError):
        log.renew()
    log.close()


def test_a_grant_without_a_valid_role(database: str, capsys: Capture) -> None:
    """Bad input is named."""
    for arguments, said in (
        (["--role", "no_such_role", "--stream", "s"], "there is no role no_such_role"),
        (["--role", "eventsched_writer"], "give --role and --stream"),
    ):
        assert main(["db", "grant", "--database", database, *arguments]) == 2
        assert said in capsys.readouterr().err
