"""Full partitions are sealed by a record of the log, and dropped whole when they are old."""

import asyncio
import json
import re
import zlib
from contextlib import closing
from dataclasses import replace
from datetime import date
from hashlib import sha256
from pathlib import Path

import numpy as np
import psycopg
import pytest
from sqlalchemy import RowMapping

from eventsched import __version__
from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.main import main
from eventsched.cli.recomputed_vectors import VectorRecomputation
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.errors import InputError
from eventsched.domain.records import PartitionSealed, StreamStarted
from eventsched.eventlog.archive.archive_notes import note_archived
from eventsched.eventlog.archive.archiver import archive
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.postgres.reader import Reader
from eventsched.plugins import IN_TREE
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from eventsched.runtime.assembly import assemble_text
from eventsched.runtime.live.log_housekeeping import Retention
from eventsched.runtime.log_start import first_start, last_start
from tests.api.asking import Client
from tests.databases import make_partitions_small
from tests.live.stage import pods, until
from tests.postgres.replicas import STREAM, Scene, play

RECORDS = 32
"""Of a partition."""
KEEPS = Retention()
SEALS = Retention(records_age=1e9, needs_archive=False)
DROPS = Retention(records_age=0.001, needs_archive=False)


@pytest.fixture
def small(database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with small partitions, and housekeeping all the time."""
    make_partitions_small(database, RECORDS, monkeypatch)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._AFTER", 0.0)
    monkeypatch.setattr("eventsched.runtime.live.log_housekeeping._EVERY", 0.01)
    return database


def rows(database: str, query: str) -> list[tuple]:  # type: ignore[type-arg]
    with psycopg.connect(database) as admin:
        return admin.execute(query.encode()).fetchall()


def begin(database: str) -> int:
    """The first position of a batch."""
    return int(rows(database, "SELECT min(first) FROM eventsched_log.batch")[0][0])


def seals(database: str) -> list[PartitionSealed]:
    """The seals in the log."""
    return [
        record
        for stored in Reader(database, STREAM).read()
        if isinstance(record := stored.record, PartitionSealed)
    ]


def fill(
    database: str, retention: Retention, *, drops: bool = False, sealed: int = 0, later: int = 0
) -> None:
    """Runs a replica with 30 pods, until the log begins later (``drops``) and ``sealed`` partitions
    have a seal; then with some ``later`` ones."""

    async def story(scene: Scene, _: "asyncio.Task[None]") -> None:
        assembly = assemble_text("", [], STREAM, IN_TREE)
        opening = StreamStarted(
            format=1, engine=__version__, seed="s", inputs={"configuration": assembly.digest},
            flags=CURRENT, plugins=assembly.sources,
        )  # fmt: skip
        scene.replica.plan = replace(
            scene.replica.plan, make_engine=assembly.engine, opening=opening
        )
        scene.cluster.put(*pods(30))
        await until(lambda: scene.bound == 30 and scene.settled)
        await until(lambda: begin(database) > 0 or not drops)
        count = "SELECT count(*) FROM eventsched_log.partition WHERE seal IS NOT NULL"
        await until(lambda: rows(database, count)[0][0] >= sealed)
        await until(lambda: scene.settled)
        if later:
            scene.cluster.put(*pods(later, "later"))
            await until(lambda: scene.bound == 30 + later and scene.settled)

    play(database, story, retention=retention)


def damage(database: str, position: int) -> None:
    """Alters the mark of the batch that has a position."""
    batch = f"first <= {position} ORDER BY first DESC LIMIT 1"
    [(table, first)] = rows(
        database, f"SELECT tableoid::regclass::text, first FROM eventsched_log.batch WHERE {batch}"
    )
    with psycopg.connect(database) as admin:
        for statement in (
            f"ALTER TABLE {table} DISABLE TRIGGER append_only",
            f"UPDATE {table} SET mark = '\"altered\"' WHERE first = {first}",
            f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER append_only",
        ):
            admin.execute(statement.encode())


def archive_all(database: str, folder: Path) -> str:
    """Archives everything. By a clock that is so slow all of it is of one day, also if midnight has
    come meanwhile. Returns the day."""
    today = date(2020, 1, 1)
    reader = Reader(database, STREAM)
    [day] = archive(reader, folder, today, today)
    assert not note_archived(database, folder, STREAM, [day])
    return day.day


def test_a_full_partition_is_sealed_and_dropped(small: str) -> None:
    """The seal says what was in it, and that is what the chain says."""
    fill(small, DROPS, drops=True)
    first = begin(small)
    [dropped, *_] = rows(
        small, "SELECT first, next, seal, hash FROM eventsched_log.pruned ORDER BY 1"
    )
    by_partition = {seal.partition: seal for seal in seals(small)}
    assert by_partition
    for seal in by_partition.values():
        checkpoint = rows(
            small, f"SELECT body FROM eventsched_log.checkpoint WHERE seq = {seal.checkpoint}"
        )
        assert seal.checkpoint >= seal.next
        if checkpoint:
            assert sha256(checkpoint[0][0]).hexdigest() == seal.digest
            assert zlib.decompress(checkpoint[0][0]).startswith(b"{")
        assert seal.opening.engine
        assert seal.archived == {}
    assert dropped[0] == 0
    # The replica may have ended while it dropped the next one, which is noted before.
    assert (first,) in rows(small, "SELECT next FROM eventsched_log.pruned")
    assert rows(small, f"SELECT min(seq) >= {first} FROM eventsched_log.checkpoint")[0][0]


@pytest.mark.parametrize("restarts", [0, 2])
def test_a_log_without_its_first_records_is_verified_and_replayed(
    small: str, capsys: pytest.CaptureFixture[str], restarts: int
) -> None:
    """From its first checkpoint on; before it, the hashes are checked."""
    fill(small, DROPS, drops=True)
    for _ in range(restarts):
        fill(small, DROPS, drops=True)
    assert main(["verify", "--database", small]) == 0
    said = capsys.readouterr().out
    assert f"the records before {begin(small)} were dropped, and the seal at position" in said
    assert main(["replay", "--verify", "--database", small]) == 0
    assert "every decision came out as it is written" in capsys.readouterr().out
    assert main(["replay", "--database", small]) == 0
    capsys.readouterr()
    assert main(["log", "list", "--since", "1d", "--limit", "1", "--database", small]) == 0
    assert f"\n{begin(small):>9}  " in capsys.readouterr().out


def test_verify_and_replay_begin_at_any_seal(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is before the seal is not read, so damage there is not found; all after it is."""
    fill(small, SEALS, sealed=3)
    with closing(Reader(small, STREAM)) as reader:
        records, checkpoint = reader.head.next, last_start(reader, reader.head.next)
    seal = seals(small)[1]
    assert checkpoint is not None
    options = ["--database", small, "--from"]
    assert main(["verify", *options, str(seal.next)]) == 0
    said = capsys.readouterr().out
    assert f"the records before {seal.next} are not checked, and the seal at position" in said
    assert f": {records - seal.next} records in " in said
    assert main(["verify", *options, str(seal.next - 1)]) == 0
    assert f"the records before {seals(small)[0].next} are not checked" in capsys.readouterr().out
    assert main(["verify", *options, "1"]) == 0  # there is no seal before
    assert f": {records} records in " in capsys.readouterr().out
    assert main(["replay", "--verify", *options, str(records)]) == 0
    said = capsys.readouterr().out
    assert f"the records before position {checkpoint.position} are left out" in said
    assert f": {records - checkpoint.position} records decided again" in said

    damage(small, seal.next - 1)
    assert main(["verify", *options, str(seal.next)]) == 0
    assert main(["verify", "--database", small]) == 1
    damage(small, records - 1)
    assert main(["verify", *options, str(seal.next)]) == 1
    capsys.readouterr()


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_a_file_has_no_seal_to_begin_at(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for source in ("--file", "--from-archive"):
        assert main([command, source, str(tmp_path), "--from", "7"]) == 2
        assert "--from: begins at a " in capsys.readouterr().err


def test_vectors_are_recomputed_from_a_checkpoint(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what is before it they cannot be."""
    fill(small, DROPS, drops=True, later=3)
    with psycopg.connect(small) as admin:
        admin.execute("DELETE FROM eventsched_log.snapshot")
    reader = Reader(small, STREAM)
    decisions = [stored for stored in reader.read() if stored.kind == "PodDecided"]
    start = first_start(reader)
    assert start is not None
    last = decisions[-1].position
    assert start.position <= last
    made, expected = VectorRecomputation(reader, reader, []).detail(last), reader.detail(last)
    assert expected is not None
    assert np.array_equal(made.codes, expected.codes)  # type: ignore[arg-type]
    assert "applied from position 0" not in capsys.readouterr().err
    early = next((each.position for each in decisions if each.position < start.position), None)
    if early is not None:
        with pytest.raises(InputError, match=r"were dropped; add --from-archive"):
            VectorRecomputation(reader, reader, []).detail(early)


def test_a_start_asks_no_more_the_older_a_log_is(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream has a row for each partition that was ever dropped."""
    fill(small, DROPS, drops=True)
    asked: list[str] = []
    real = Reader.rows

    def rows_of(reader: Reader, query: str, **values: object) -> list[RowMapping]:
        asked.append(query)
        return real(reader, query, **values)

    monkeypatch.setattr(Reader, "rows", rows_of)
    with closing(Reader(small, STREAM)) as reader:
        start = first_start(reader)
        few = len(asked)
        with psycopg.connect(small) as admin:
            admin.execute(
                "INSERT INTO eventsched_log.pruned (stream, first, next, seal, hash)"
                " SELECT %s, -n, 1 - n, -1, '' FROM generate_series(1, 50) n",
                (reader.number,),
            )
        assert first_start(reader) == start is not None
    assert few == len(asked) - few


def test_a_prune_that_is_interrupted_goes_on(small: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each of its steps the log that is left is read and verified, and goes on."""
    fill(small, SEALS, sealed=2)
    before = "now() + interval '1 day'"
    steps = 0
    with psycopg.connect(small, autocommit=True) as admin:
        while True:
            admin.execute(f"SELECT eventsched_log.prune_names('{STREAM}', {before}, 0)".encode())
            [(table,)] = admin.execute(
                f"SELECT eventsched_log.prune('{STREAM}', {before})".encode()
            ).fetchall()
            if table is None:
                break
            steps += 1
            assert main(["verify", "--database", small]) == 0, table
            assert main(["db", "doctor", "--database", small]) in (0, 1)
            if steps in (1, 5, 9, 10):
                assert main(["replay", "--verify", "--database", small]) == 0, table
    assert steps >= 10
    fill(small, DROPS, drops=True)
    assert main(["verify", "--database", small]) == 0


def test_only_what_an_archive_holds_is_sealed(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless the configuration says otherwise. With the archive nothing is lost."""
    of_database = ["--database", small]
    both = ["--from-archive", str(tmp_path), *of_database]
    prune = ["db", "prune", "--before", "2099-01-01", "--archive", str(tmp_path), *of_database]
    fill(small, KEEPS)
    assert seals(small) == []
    assert main(prune) == 0
    assert "is not sealed: run `eventsched db archive`" in capsys.readouterr().out
    day = archive_all(small, tmp_path)
    whole = Reader(small, STREAM).head.next
    fill(small, KEEPS, sealed=2)
    found = seals(small)
    assert {frozenset(seal.archived) for seal in found} == {
        frozenset(f"{day}.{content}.parquet" for content in ("batches", "details", "decisions"))
    }
    assert max(seal.next for seal in found) <= whole

    file = tmp_path / STREAM / f"{day}.decisions.parquet"
    kept = file.read_bytes()
    file.write_bytes(kept + b"x")
    capsys.readouterr()
    assert main(prune) == 2
    assert "is not the file that was archived" in capsys.readouterr().err
    file.unlink()
    assert main(prune) == 2
    assert begin(small) == 0
    file.write_bytes(kept)
    capsys.readouterr()
    assert main(["db", "stats", "--keep", "2099-01-01", "-o", "json", *of_database]) == 0
    [old] = json.loads(capsys.readouterr().out)["old"]
    assert (old["stream"], old["sealed"]) == (
        STREAM,
        len({seal.partition for seal in seals(small)}),
    )
    assert 0 < old["vector_bytes"] < old["bytes"]
    assert main(prune) == 0
    assert "positions 0 to " in capsys.readouterr().out
    assert begin(small) > 0

    export = ["log", "export", str(tmp_path / "log.jsonl")]
    assert main([*export, *of_database]) == 2
    assert "add --from-archive FOLDER" in capsys.readouterr().err
    assert main([*export, *both]) == 0
    for command in (["verify"], ["replay", "--verify"], ["explain", "default/p0"]):
        assert main([*command, *both]) == 0, capsys.readouterr()
    assert main(["verify", "--file", str(tmp_path / "log.jsonl")]) == 0
    assert main(["db", "archive", "--to", str(tmp_path), *of_database]) == 0
    assert main(["db", "stats", *of_database]) == 0


def test_a_log_whose_checkpoint_is_gone_is_refused(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By verify, replay and a replica, each with the reason."""
    fill(small, DROPS, drops=True)
    with psycopg.connect(small, autocommit=True) as admin:
        admin.execute("DELETE FROM eventsched_log.checkpoint")
        admin.execute("DELETE FROM eventsched_log.snapshot")
    assert main(["verify", "--database", small]) == 1
    assert "the checkpoint of the seal at position" in capsys.readouterr().out
    assert main(["replay", "--database", small]) == 3

    async def refused(_: Scene, running: "asyncio.Task[None]") -> None:
        with pytest.raises(CorruptLogError, match="no snapshot or checkpoint after it can be used"):
            await running

    play(small, refused)


def test_a_start_without_snapshots_begins_at_a_checkpoint(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """So an upgrade that cannot read them does not need the records that were dropped."""
    fill(small, DROPS, drops=True)
    with psycopg.connect(small, autocommit=True) as admin:
        admin.execute("DELETE FROM eventsched_log.snapshot")
    newest = rows(small, "SELECT max(seq) FROM eventsched_log.checkpoint")[0][0]
    capsys.readouterr()
    fill(small, KEEPS)
    assert re.search(rf"begun with a snapshot +seq={newest}\b", capsys.readouterr().out)
    assert main(["verify", "--database", small]) == 0


def test_a_seal_that_does_not_say_what_the_chain_says_is_found(
    small: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also if the table of what was dropped was changed."""
    fill(small, DROPS, drops=True)
    with psycopg.connect(small, autocommit=True) as admin:
        admin.execute("UPDATE eventsched_log.pruned SET seal = seal + 1")
    assert main(["verify", "--database", small]) == 1
    assert "no seal at position" in capsys.readouterr().out


def test_the_state_of_a_dropped_part_is_in_the_archive(
    small: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names its files; with the archive, and after the first checkpoint without, there is
    an answer."""
    fill(small, KEEPS)
    day = archive_all(small, tmp_path)
    fill(small, DROPS, drops=True)
    with closing(Reader(small, STREAM)) as reader:
        end, first = reader.head.next, reader.begin
        start = first_start(reader)
    assert start is not None
    for words in (("--at", "1"), ("--at", str(start.position - 1)), ("--at", "2000-01-01")):
        capsys.readouterr()
        assert main(["state", *words, "--database", small]) == 2
        message = capsys.readouterr().err
        assert f"needs records before position {first}, which were dropped" in message
        assert f"{day}.batches.parquet" in message or words[1] != "1"
        assert "--from-archive FOLDER" in message
    missed = ["queue", "--missed-wake-ups", "--from", "1"]
    for command in (["testcase", "1"], ["log", "list", "--from", "1"], missed):
        assert main([*command, "--database", small]) == (0 if command[0] == "log" else 2)
        assert f"an archive has them ({day}.batches.parquet)" in capsys.readouterr().err
    with closing(DatabaseStreams(small)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        for path in (
            "/decisions/1", "/decisions/1/verdicts", "/decisions?until=1", "/state?at=1",
            "/activity?at=1", "/queue/flushed?at=1",
        ):  # fmt: skip
            assert f"an archive has them ({day}.batches.parquet)" in client.problem(path, 400)
    for position in (start.position, end):
        assert main(["state", "--at", str(position), "--database", small]) == 0
    archive = ["--database", small, "--from-archive", str(tmp_path)]
    assert main(["state", "--at", "1", *archive]) == 0
    assert "before position 1," in capsys.readouterr().out
    for what_if in (["--from", "1"], ["--store", "other"], ["--open-loop", "--from", "1"]):
        command = ["replay", "--what-if", *what_if, "--stream", STREAM]
        assert main([*command, "--database", small]) == 2
        message = capsys.readouterr().err
        assert "were dropped; an archive has them (" in message
        assert f"{day}.batches.parquet): add --from-archive FOLDER" in message
        assert main([*command, *archive]) == 0


def test_commands_answer_from_what_is_left(small: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also about a pod whose first records were dropped."""
    fill(small, DROPS, drops=True)
    capsys.readouterr()
    of_database = ["--database", small]
    for command in (
        ["explain", "default/p0"], ["explain", "default/p0", "-o", "json"],
        ["explain", "default/p29"],
        ["log", "list"], ["log", "list", "--pod", "default/p0"], ["log", "list", "--since", "90d"],
        ["log", "tail"], ["log", "streams"], ["db", "stats"], ["sticky", "list"],
        ["sql", "-c", "SELECT count(*) FROM decisions"],
    ):  # fmt: skip
        code = main([*command, *of_database])
        said = capsys.readouterr()
        assert code == 0, (command, said.out, said.err)
        if command == ["explain", "default/p0"]:
            assert said.out.startswith("default/p0 has been on n")
            assert f"its records before position {begin(small)} were dropped" in said.out
