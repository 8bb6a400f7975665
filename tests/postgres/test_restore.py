"""``eventsched db restore``: a database that has lost its log gets it back from the archive."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pyarrow.parquet as pq
import pytest

from eventsched.cli.main import main
from eventsched.domain.records import HistoryLost, PartitionSealed, StreamStarted
from eventsched.eventlog.archive import restoring
from eventsched.eventlog.archive.archive_folder import manifests
from eventsched.eventlog.archive.archive_manifest import BATCHES, CONTENTS, DETAILS, KEY, day_file
from eventsched.eventlog.postgres.reader import Reader
from eventsched.runtime.live.log_housekeeping import Retention
from tests.databases import Server, make_partitions_small, migrate
from tests.live.stage import pods, until
from tests.postgres import replicas
from tests.postgres.archives import DAYS, OWN, STREAM, archived
from tests.postgres.replicas import Scene, play

SAME = {
    "batch": "first, count, epoch, written_at, mark::text, hash, body::text",
    "detail": "seq, base, body",
    "decision": "*",
    "epoch": "epoch, first, token",
    "head": "epoch, token, next, hash",
    "pod": "*",
    "queue_move": "*",
    "refusal": "*",
}
"""What a restored stream has as it was, by table."""


def rows(database: str, query: str) -> list[Any]:
    with psycopg.connect(database) as admin:
        return admin.execute(query.encode()).fetchall()


def of_stream(database: str, table: str) -> list[str]:
    """The rows of the stream, as text, without its number."""
    query = (
        f"SELECT (to_jsonb(t) - 'stream')::text FROM (SELECT {SAME[table]} "
        f"FROM eventsched_log.{table} WHERE stream = "
        f"(SELECT id FROM eventsched_log.stream WHERE name = '{STREAM}')) t ORDER BY 1"
    )
    return [row for (row,) in rows(database, query)]


def restore(database: str, folder: Path, *more: str) -> int:
    return main(["db", "restore", "--from-archive", str(folder), "--database", database, *more])


class Steps:
    """What a terminal is shown: the unit, and the last number of the total."""

    shown: ClassVar[dict[str, tuple[int, int]]] = {}

    def __init__(self, unit: str) -> None:
        self._unit = unit

    def __call__(self, done: int, total: int) -> None:
        assert done > self.shown.get(self._unit, (0, 0))[0]
        self.shown[self._unit] = done, total

    def done(self) -> None:
        pass


def test_a_terminal_shows_the_progress(
    four_days: str, whole_archive: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of loading and of verification, with a database, an archive and both."""
    for module in ("database_commands.db_restore", "verify"):
        monkeypatch.setattr(f"eventsched.cli.{module}.RecordProgress", Steps)
    count = Reader(four_days, STREAM).head.next
    monkeypatch.setattr(Steps, "shown", {})
    assert restore(database, whole_archive) == 0
    assert Steps.shown == dict.fromkeys(("records loaded", "records verified"), (count, count))
    archive, live = ["--from-archive", str(whole_archive)], ["--database", database]
    for where in (live, archive, [*archive, *live]):
        monkeypatch.setattr(Steps, "shown", {})
        assert main(["verify", "--stream", STREAM, *where]) == 0
        assert Steps.shown == {"records verified": (count, count)}


def test_everything_is_as_it_was(
    four_days: str, whole_archive: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Batches, terms and vectors are the same, and the rows that are derived from them; commands
    print the same of both."""
    assert restore(database, whole_archive) == 0
    count = Reader(four_days, STREAM).head.next
    assert f"stream {STREAM}: {count} records and " in capsys.readouterr().out
    for table in SAME:
        expected = of_stream(four_days, table)
        assert expected
        assert of_stream(database, table) == expected, table
    [(namespace, name)] = rows(
        database, "SELECT namespace, pod FROM eventsched.decisions WHERE outcome = 'scheduled' "
        "ORDER BY seq LIMIT 1"
    )  # fmt: skip
    for command in (["explain", f"{namespace}/{name}"], ["log", "list", "-o", "json"]):
        printed = []
        for url in (four_days, database):
            assert main([*command, "--stream", STREAM, "--database", url]) == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]
    assert main(["verify", "--stream", STREAM, "--database", database]) == 0
    both = ["verify", "--from-archive", str(whole_archive), "--database", database]
    assert main(both) == 0


@pytest.mark.parametrize("batches", [0, 7])
def test_an_interrupted_restore_leaves_nothing(
    whole_archive: Path, database: str, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """The session is ended while it loads. Run again, it restores everything."""
    append, done = restoring._Restoration._append, 0

    def ended(self: restoring._Restoration, *arguments: Any) -> None:
        nonlocal done
        if done == batches:
            pid = self._connection.info.backend_pid
            rows(database, f"SELECT pg_terminate_backend({pid}, 10000)")
        done += 1
        append(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(restoring._Restoration, "_append", ended)
        assert restore(database, whole_archive) == 3
    assert rows(database, "SELECT name FROM eventsched_log.stream") == []
    assert rows(database, "SELECT count(*) FROM eventsched_log.partition") == [(0,)]
    assert restore(database, whole_archive) == 0


def altered_term(path: Path) -> None:
    """Writes the file of batches again, with another token in its manifest."""
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata or {})
    manifest = json.loads(pq.read_metadata(path).metadata[KEY])
    manifest["epochs"][0][1] = "00" * 16
    metadata[KEY] = json.dumps(manifest).encode()
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)


def newer_format(path: Path) -> None:
    """Writes the file of batches again, as of a later version."""
    table = pq.read_table(path)
    manifest = json.loads(pq.read_metadata(path).metadata[KEY])
    manifest["format"] += 1
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({KEY: json.dumps(manifest).encode()})


def lacking_day(path: Path) -> None:
    """Removes all files of a day."""
    for content in CONTENTS:
        path.with_name(f"{path.name.split('.')[0]}.{content}.parquet").unlink()


def altered_details(path: Path) -> None:
    """Changes a byte of the vectors."""
    own = path.with_name(path.name.replace(BATCHES, DETAILS))
    content = bytearray(own.read_bytes())
    content[300] ^= 1
    own.write_bytes(content)


@pytest.mark.parametrize(
    ("day", "damage", "message"),
    [
        (0, lacking_day, "does not begin at position 0"),
        (1, lacking_day, "files of the days between are missing"),
        (3, altered_details, "was altered: its SHA-256 is another one"),
        (2, altered_term, "was altered: "),
        (3, newer_format, "has format 2, and this version reads format 1"),
    ],
)
def test_a_damaged_archive(
    own_archive: Path, database: str, capsys: pytest.CaptureFixture[str],
    day: int, damage: Any, message: str,
) -> None:  # fmt: skip
    """It is refused in one line, and nothing is restored."""
    damage(day_file(own_archive / OWN, DAYS[day], BATCHES))
    assert restore(database, own_archive) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert rows(database, "SELECT name FROM eventsched_log.stream") == []


def test_a_stream_that_exists(
    four_days: str, whole_archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert restore(four_days, whole_archive) == 2
    assert f"stream {STREAM} is in the database; name an empty database" in capsys.readouterr().err


def test_a_user_who_may_not_write(
    whole_archive: Path, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    as_reader = f"{database}&options=-c%20role%3Deventsched_auditor"
    assert restore(as_reader, whole_archive) == 3
    assert "GRANT eventsched_writer" in capsys.readouterr().err


@pytest.fixture
def sealed(
    one_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, int, int]:
    """The archive of a log of a live replica with 32 records in a partition and a seal; the numbers
    of its records and seals."""
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._AFTER", 0.0)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._EVERY", 0.01)
    with one_server.fresh(migrate) as url:
        make_partitions_small(url, 32, monkeypatch)

        async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
            scene.cluster.put(*pods(30))
            await until(lambda: scene.bound == 30 and scene.settled)
            query = "SELECT count(*) FROM eventsched_log.partition WHERE seal IS NOT NULL"
            await until(lambda: rows(url, query)[0][0] >= 2)
            await until(lambda: scene.settled)

        play(url, story, retention=Retention(records_age=1e9, needs_archive=False))
        tomorrow = datetime.now(UTC).date() + timedelta(days=1)
        archived(url, replicas.STREAM, tmp_path / "archive", tomorrow)
        log = list(Reader(url, replicas.STREAM).read())
    seals = sum(isinstance(stored.record, PartitionSealed) for stored in log)
    return tmp_path / "archive", len(log), seals


def test_a_scheduler_goes_on_with_a_restored_log(
    sealed: tuple[Path, int, int], database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It logs that history was lost, as after any restore; seals are those of the partitions, and
    the archive is continued."""
    folder, records, seals = sealed
    make_partitions_small(database, 32, monkeypatch)
    assert restore(database, folder) == 0
    count = "SELECT count(*) FROM eventsched_log.partition WHERE seal IS NOT NULL"
    assert rows(database, count) == [(seals,)]

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        scene.cluster.put(*pods(5))
        await until(lambda: scene.bound == 5 and scene.settled)

    play(database, story)
    later = [stored.record for stored in Reader(database, replicas.STREAM).read(records)]
    assert sum(isinstance(record, HistoryLost) for record in later) == 1
    assert not any(isinstance(record, StreamStarted) for record in later)
    assert main(["verify", "--database", database]) == 0
    archived(database, replicas.STREAM, folder, datetime.now(UTC).date() + timedelta(days=2))
    [*_, last] = manifests(folder, replicas.STREAM)
    assert last.next == records + len(later)


def test_partitions_of_another_size(
    sealed: tuple[Path, int, int], database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A seal would stand for records that it does not name, and retention would drop them."""
    folder, _, _ = sealed
    assert restore(database, folder) == 2
    assert "eventsched.partition_records" in capsys.readouterr().err
    assert rows(database, "SELECT name FROM eventsched_log.stream") == []
