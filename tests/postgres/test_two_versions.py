"""This version and the next one on one schema: what each step of an upgrade allows, and what it
refuses."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain import behaviours
from eventsched.eventlog.schema import migration_files, migrations
from eventsched.history.verify import verified_log
from tests import releases
from tests.databases import Server
from tests.next_version import BEHAVIOUR, OURS, POST, PRE, NextVersion
from tests.postgres.test_migrations import nothing, ours, use

LINE = "is newer than this version of eventsched knows, and does not serve it"
Says = Callable[..., str]


@pytest.fixture(scope="session")
def next_version(tmp_path_factory: pytest.TempPathFactory) -> NextVersion:
    """The version after this one."""
    return NextVersion(tmp_path_factory.mktemp("next"))


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Says:
    """Runs a command of this version that has to end with a code; returns the only line."""

    def run(code: int, *arguments: object) -> str:
        capsys.readouterr()
        assert main([str(word) for word in arguments]) == code
        printed = capsys.readouterr()
        (line,) = (printed.err or printed.out).splitlines()
        return line

    return run


def output(done: "subprocess.CompletedProcess[str]") -> str:
    """What a command of the next version prints; it has to succeed."""
    assert done.returncode == 0, done.stderr
    return done.stdout


def line(done: "subprocess.CompletedProcess[str]", code: int = 3) -> str:
    """The only line with which it refuses."""
    assert done.returncode == code, done.stderr
    (only,) = done.stderr.splitlines()
    return only


@pytest.fixture
def replica(database: str) -> Iterator[Callable[[str], "psycopg.Connection"]]:
    """Makes sessions such as those with which replicas follow."""
    sessions = []

    def connected(name: str) -> psycopg.Connection:
        sessions.append(psycopg.connect(database, application_name=name))
        return sessions[-1]

    yield connected
    for session in sessions:
        session.close()


# --- the schema -----------------------------------------------------------------------------------


def test_up_in_steps_and_down_again(database: str, next_version: NextVersion, says: Says) -> None:
    """After pre both versions work, after post only the next one; down again both do."""
    whole = ours(database)
    upgrade = ("db", "upgrade", "--database", database)
    printed = output(next_version.run(*upgrade, "--pre"))
    assert f"schema {OURS} → {PRE}; `eventsched db upgrade --post` does the rest" in printed
    assert f"is at {PRE} already" in output(next_version.run(*upgrade, "--pre"))
    assert migrations.require(database) == PRE
    use(database)
    for step in ((), ("--pre",), ("--post",)):
        assert f"schema {PRE} is newer than this version ({OURS}), and serves it" in says(
            0, *upgrade, *step
        )

    assert f"{PRE} → {POST}" in output(next_version.run(*upgrade, "--post"))
    for command in (upgrade, ("log", "streams", "--database", database)):
        refused = says(3, *command)
        assert LINE in refused
        assert refused.endswith("install the version of eventsched that made it, or a newer one")

    down = "from eventsched.eventlog.schema import migrations as m; m.downgrade({!r}, {!r})"
    output(next_version.python("-c", down.format(database, PRE)))
    assert migrations.require(database) == PRE
    output(next_version.python("-c", down.format(database, OURS)))
    assert migrations.require(database) == OURS
    assert ours(database) == whole
    assert migrations.drift(database) == []


def test_an_empty_database_gets_everything(
    one_server: Server, next_version: NextVersion, says: Says
) -> None:
    """There is no older version to wait for."""
    for step in ("--pre", "--post"):
        with one_server.fresh(nothing) as url:
            assert f"empty → {OURS}" in says(0, "db", "upgrade", step, "--database", url)
            assert migrations.drift(url) == []
        with one_server.fresh(nothing) as url:
            command = ("db", "upgrade", step, "--database", url)
            assert f"empty → {POST}" in output(next_version.run(*command))


def test_verify_between_the_steps(
    database: str, next_version: NextVersion, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither version can compare the schema, and both say so; nothing is wrong with the log."""
    simulate = ["simulate", "--generate", "nodes=3,pods=5", "--database", database]
    assert main(simulate) == 0
    verify = ["verify", "--database", database]
    output(next_version.run("db", "upgrade", "--pre", "--database", database))
    capsys.readouterr()
    assert main(verify) == 0
    printed = capsys.readouterr().out.splitlines()
    theirs = output(next_version.run(*verify)).splitlines()
    for (log, schema), last in ((printed, OURS), (theirs, POST)):
        assert "are what was written" in log
        assert schema == (
            f"schema: the database is at revision {PRE}, and this version's last one is {last}: "
            "between the steps pre and post of an upgrade, functions and grants are not compared"
        )
    assert main([*verify, "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["schema"]) == (True, [])
    assert PRE in answer["schema_note"]


def test_post_comes_after_pre(database: str, next_version: NextVersion) -> None:
    refused = line(next_version.run("db", "upgrade", "--post", "--database", database))
    assert f"has schema {OURS}, and this version needs {PRE} before its step post" in refused
    assert migrations.require(database) == OURS


def test_a_step_that_would_end_replicas_is_refused(
    database: str, next_version: NextVersion, replica: Callable[[str], psycopg.Connection]
) -> None:
    """Those of this version may run during pre, but not during post."""
    upgrade = ("db", "upgrade", "--database", database)
    old = replica(migrations.replica_session("s"))
    output(next_version.run(*upgrade, "--pre"))
    refused = line(next_version.run(*upgrade, "--post"))
    assert f"schema {POST} does not serve: they follow s (schema {OURS})" in refused
    assert migrations.require(database) == PRE
    old.close()
    replica(f"eventsched {POST} follows s")
    assert f"{PRE} → {POST}" in output(next_version.run(*upgrade, "--post"))


def test_from_0_1_only_without_replicas(one_server: Server, says: Says) -> None:
    """0.1 does not know what a schema serves: it has to end before this version's first step."""
    with one_server.fresh(releases.restore) as url:
        upgrade = ("db", "upgrade", "--pre", "--database", url)
        with closing(psycopg.connect(url, application_name="eventsched follows scheduler")):
            refused = says(3, *upgrade)
            assert refused.endswith(
                "they follow scheduler; replace them by this version, or stop them, first"
            )
        assert f"schema 0004 → {OURS}" in says(0, *upgrade)


def test_an_upgrade_that_skips_a_version(
    database: str, tmp_path: Path, says: Says, replica: Callable[[str], psycopg.Connection]
) -> None:
    """Pre of the version after the next one has the next one's post before it: no replica of this
    version may run any more."""
    later = NextVersion(tmp_path)
    last = f"{int(POST) + 1:04d}"
    versions = tmp_path / "migrations/versions"
    text = (versions / f"m{PRE}_pre_ahead.py").read_text()
    text = text.replace(f'"{PRE}"', f'"{last}"').replace(f'"{OURS}"', f'"{POST}"')
    (versions / f"m{last}_pre_more.py").write_text(text.replace("make_ahead", "make_more"))
    upgrade = ("db", "upgrade", "--pre", "--database", database)
    old = replica(migrations.replica_session("s"))
    assert f"schema {POST} does not serve: they follow s" in line(later.run(*upgrade))
    old.close()
    assert f"{OURS} → {last}" in output(later.run(*upgrade))
    assert LINE in says(3, "log", "streams", "--database", database)


# --- behaviours and records -----------------------------------------------------------------------


def test_what_this_version_needs_is_declared() -> None:
    """Each behaviour after the ninth waits for a migration of step post."""
    later = set(behaviours.CURRENT) - set(range(1, 10))
    assert {int(number) for number in behaviours.SWITCHED_ON_BY} == later
    posts = {each.revision for each in migration_files.migrations() if each.step == "post"}
    assert set(behaviours.SWITCHED_ON_BY.values()) <= posts
    assert behaviours.allowed(OURS) == behaviours.CURRENT


def test_verification_knows_the_same_behaviours() -> None:
    assert max(behaviours.Behaviour) == verified_log.NEWEST_FLAG


@pytest.fixture
def newer_file(next_version: NextVersion, one_server: Server, tmp_path: Path) -> Path:
    """An exported log of the next version."""
    file = tmp_path / "newer.jsonl.gz"
    with one_server.fresh(nothing) as url:
        output(next_version.run("db", "upgrade", "--database", url))
        output(
            next_version.run("simulate", "--generate", "nodes=3,pods=5", "--database", url,
                             "--stream", "s")
        )  # fmt: skip
        output(next_version.run("log", "export", file, "--database", url))
        output(next_version.run("verify", "--file", file))
        output(next_version.run("replay", "--verify", "--file", file))
    return file


def test_a_file_of_a_newer_version_is_refused(newer_file: Path, says: Says) -> None:
    """With one line that says so."""
    told = f"was written by a newer version: this one does not know its flags {BEHAVIOUR}"
    for command in (("replay",), ("replay", "--verify"), ("verify",), ("explain", "pod-000001")):
        refused = says(2, *command, "--file", newer_file)
        assert f"{told}; use that version or a later one" in refused
