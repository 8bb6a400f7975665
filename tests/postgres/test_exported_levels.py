"""Exports and archives of a log that has only the best nodes of each decision: they have the same
vectors as the database, and ``replay --verify`` compares them."""

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog import vectors
from eventsched.eventlog.archive.archive_log import ArchiveLog
from eventsched.eventlog.archive.joined_log import JoinedLog
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.export_reader import FileLog
from tests.databases import Server, migrate
from tests.postgres.archives import archived

STREAM = "top"
GENERATED = "nodes=20,pods=80,shape=tight,seed=3"


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """A database with a log whose decisions have the vectors of four nodes."""
    with one_server.fresh(migrate) as url:
        simulate = ["simulate", "--generate", GENERATED, "--detail", "top:4", "--stream", STREAM]
        assert main([*simulate, "--database", url]) == 0
        yield url


def copied(address: str, folder: Path) -> tuple[Path, Path]:
    """An export and an archive of the log."""
    folder.mkdir(exist_ok=True)
    export, tomorrow = folder / "log.jsonl.gz", datetime.now(UTC).date() + timedelta(days=1)
    assert main(["log", "export", str(export), "--stream", STREAM, "--database", address]) == 0
    archived(address, STREAM, folder / "archive", tomorrow)
    return export, folder / "archive"


def test_the_vectors_are_those_of_the_database(address: str, tmp_path: Path) -> None:
    """From any position on."""
    export, folder = copied(address, tmp_path)
    with closing(Reader(address, STREAM, keeps_connection=True)) as reader:
        archive = ArchiveLog(folder)
        logs = FileLog(export), archive, JoinedLog(archive, reader)
        positions = [position for position, _ in reader.partial_details()]
        assert len(positions) > 80
        for first in (0, positions[40], positions[40] + 1, positions[-1] + 1):
            expected = [(at, vectors.pack(detail)) for at, detail in reader.partial_details(first)]
            for log in logs:
                found = [(at, vectors.pack(detail)) for at, detail in log.partial_details(first)]
                assert found == expected


def test_a_changed_vector_is_found(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No hash covers it, because it is a part of what the record's digest is of."""
    export, folder = copied(address, tmp_path / "before")
    sources = ["--file", str(export)], ["--from-archive", str(folder)]
    for source in sources:
        assert main(["replay", "--verify", *source]) == 0
        assert "every decision came out as it is written" in capsys.readouterr().out
    with psycopg.connect(address, autocommit=True) as admin:
        [(table, seq)] = admin.execute(
            "SELECT tableoid::regclass::text, seq FROM eventsched_log.detail ORDER BY seq "
            "OFFSET 40 LIMIT 1"
        ).fetchall()
        for statement in (
            f"ALTER TABLE {table} DISABLE TRIGGER USER",
            f"UPDATE {table} SET body = set_byte(body, length(body) - 1, "
            f"get_byte(body, length(body) - 1) # 1) WHERE seq = {seq}",
            f"ALTER TABLE {table} ENABLE TRIGGER USER",
        ):
            admin.execute(statement.encode())
    export, folder = copied(address, tmp_path / "after")
    sources = ["--file", str(export)], ["--from-archive", str(folder)]
    for source in (*sources, ["--stream", STREAM, "--database", address]):
        assert main(["replay", "--verify", *source]) == 1, source
        shown = capsys.readouterr().out
        assert f"DIFFERS at position {seq}" in shown
        assert "the stored vectors of the best nodes" in shown
