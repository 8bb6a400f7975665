"""The rights to drop records, and to note that an archive holds them: a login that writes the log
can drop only what another one has archived."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from eventsched.cli.main import main
from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.postgres import grants
from eventsched.eventlog.postgres.pruning import prune
from eventsched.runtime.live.log_housekeeping import Retention
from tests.databases import make_partitions_small
from tests.live.stage import pods, until
from tests.postgres import archives
from tests.postgres.replicas import STREAM, Scene, play

NOW = 4_000_000_000_000_000
"""A time (µs) at which everything is old."""


def run(database: str, query: str) -> list[tuple]:  # type: ignore[type-arg]
    with psycopg.connect(database, autocommit=True) as admin:
        done = admin.execute(query.encode())
        return done.fetchall() if done.description else []


def partitions(database: str, condition: str = "true") -> int:
    query = f"SELECT count(*) FROM eventsched_log.partition WHERE {condition}"
    return int(run(database, query)[0][0])


@pytest.fixture
def sealed(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A log with two sealed partitions that no archive holds: requireArchive was off."""
    make_partitions_small(database, 32, monkeypatch)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._AFTER", 0.0)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._EVERY", 0.01)

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(30))
        await until(lambda: scene.bound == 30 and scene.settled)
        await until(lambda: partitions(database, "seal IS NOT NULL") >= 2)
        await until(lambda: scene.settled)

    play(database, story, retention=Retention(records_age=1e9, needs_archive=False))
    return database


@contextmanager
def login(database: str, *roles: str) -> Iterator[str]:
    """The URL of a new login with some roles."""
    name = f"{make_url(database).database}_{'_'.join(roles)}"[-60:]
    members = ", ".join(f"eventsched_{role}" for role in roles)
    run(database, f'CREATE ROLE "{name}" LOGIN IN ROLE {members}')
    try:
        yield make_url(database).set(username=name).render_as_string(hide_password=False)
    finally:
        run(database, f'DROP ROLE "{name}"')


def archived(database: str, folder: Path, *more: str) -> int:
    """Archives all days before the present one; the files of today are made before."""
    archives.archived(database, STREAM, folder, datetime.now(UTC).date() + timedelta(days=1))
    return main(["db", "archive", "--to", str(folder), "--database", database, *more])


def test_a_writer_drops_what_another_login_has_archived(sealed: str, tmp_path: Path) -> None:
    """Whatever date it names. It cannot note an archive itself."""
    with login(sealed, "writer") as writer, login(sealed, "archiver") as archiver:
        with pytest.raises(UnavailableError, match="which no archive holds") as refused:
            prune(writer, STREAM, 0, NOW)
        assert "run `eventsched db archive`, or GRANT eventsched_archiver TO" in str(refused.value)
        assert archived(writer, tmp_path) == 0
        assert run(sealed, "SELECT count(*) FROM eventsched_log.archived") == [(0,)]
        assert prune(writer, STREAM, 0, NOW, needs_archive=True) == []
        assert partitions(sealed, "first = 0") == 1

        assert archived(archiver, tmp_path) == 0
        assert len(prune(writer, STREAM, 0, NOW, needs_archive=True)) >= 2
    assert partitions(sealed, "first = 0") == 0
    assert main(["verify", "--database", sealed]) == 0


def test_a_part_of_an_archive_is_not_enough(sealed: str, tmp_path: Path) -> None:
    """The partition's last record has to be there, too."""
    end = run(sealed, "SELECT next FROM eventsched_log.partition WHERE first = 0")[0][0]
    for first, following in ((0, end - 1), (1, end + 99)):
        note = f"note_archived('{STREAM}', '2026-01-01', {first}, {following}, '{{}}')"
        run(sealed, f"SELECT eventsched_log.{note}")
        with login(sealed, "writer") as writer:
            assert prune(writer, STREAM, 0, NOW, needs_archive=True) == []
        with psycopg.connect(sealed, autocommit=True) as admin:
            admin.execute("DELETE FROM eventsched_log.archived")
    assert partitions(sealed, "first = 0") == 1


def test_partitions_that_were_sealed_before_an_archive_was_required(
    sealed: str, tmp_path: Path
) -> None:
    """A leader waits for the archive, even one that may drop without it; an archiver who asks for
    it drops them."""
    with login(sealed, "writer", "archiver") as leader:
        assert prune(leader, STREAM, 0, NOW, needs_archive=True) == []
        assert partitions(sealed, "first = 0") == 1
        assert len(prune(leader, STREAM, 0, NOW)) >= 2
    assert partitions(sealed, "first = 0") == 0


def test_an_archiver_needs_the_grant_of_a_stream(
    sealed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the stream has grants: to note an archive as well as to drop."""
    grants.grant(sealed, str(make_url(sealed).username), STREAM)
    with login(sealed, "archiver") as archiver:
        capsys.readouterr()
        assert archived(archiver, tmp_path) == 0
        assert f"db grant --role {make_url(archiver).username}" in capsys.readouterr().err
        assert run(sealed, "SELECT count(*) FROM eventsched_log.archived") == [(0,)]
        with pytest.raises(UnavailableError, match="may not write stream"):
            prune(archiver, STREAM, 0, NOW)
        grants.grant(sealed, str(make_url(archiver).username), STREAM)
        assert archived(archiver, tmp_path) == 0
        assert run(sealed, "SELECT count(*) FROM eventsched_log.archived") == [(1,)]
        assert len(prune(archiver, STREAM, 0, NOW)) >= 2
