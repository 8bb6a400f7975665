"""``make endurance`` on a small cluster: its samples, its verdict, and its chart."""

import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import psycopg
import pytest

from benchmarks.endurance import chart, reference, samples, verdict, year
from benchmarks.endurance.load import Year
from benchmarks.endurance.samples import STREAM, Sample
from eventsched.cli.main import main
from eventsched.domain.records import verdicts
from eventsched.eventlog.postgres.reader import Reader

SMALL = Year(nodes=10, pods=3_650)


def test_two_days_have_a_sample_of_every_series(database: str, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    reported: list[Sample] = []
    taken = year.run(database, SMALL, 2, path, reported.append)
    assert taken == reported == samples.read(path)
    assert [(sample.day, sample.process) for sample in taken] == [(1, 1), (2, 1)]
    for sample in taken:
        assert all(getattr(sample, name) > 0 for name in (*verdict.SERIES, "attempts"))
    picture = ET.fromstring(chart.svg(taken, "two days"))
    lines = picture.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [2] * len(verdict.SERIES)
    assert verdict.table(taken) == "2 days are too few for a verdict: it needs 21."


def test_a_run_is_continued_where_it_ended(database: str, tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    year.run(database, SMALL, 1, path, lambda sample: None)
    before = list(Reader(database, STREAM).read())
    taken = year.run(database, SMALL, 2, path, lambda sample: None)
    assert [(sample.day, sample.process) for sample in taken] == [(1, 1), (2, 2)]
    after = list(Reader(database, STREAM).read())
    assert after[: len(before)] == before
    assert len(after) > len(before)


def test_vectors_go_after_their_retention(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "DELTA_BLOCK", 16)
    kept = msgspec.structs.replace(SMALL.retention, detail="24h", records="0s")
    year.run(
        database, Year(10, 3_650, kept, 16), 3, tmp_path / "samples.jsonl", lambda sample: None
    )
    with psycopg.connect(database) as connection:
        [(decided, with_vectors)] = connection.execute(
            "SELECT count(*), count(t.seq) FROM eventsched_log.decision d"
            " LEFT JOIN eventsched_log.detail t ON (t.stream, t.seq) = (d.stream, d.seq)"
        ).fetchall()
    assert 0 < with_vectors < decided


def test_records_go_after_their_retention(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run is continued, replayed and verified without them."""
    monkeypatch.setattr(verdicts, "DELTA_BLOCK", 16)
    kept = msgspec.structs.replace(SMALL.retention, detail="24h", records="24h")
    small, path = Year(10, 3_650, kept, 16), tmp_path / "samples.jsonl"
    year.run(database, small, 3, path, lambda sample: None)
    begin = Reader(database, STREAM).begin
    assert begin > 0
    year.run(database, small, 5, path, lambda sample: None)
    assert Reader(database, STREAM).begin > begin
    assert main(["verify", "--thinned", "--database", database]) == 0
    assert main(["replay", "--verify", "--database", database]) == 0


def sample(day: int, **values: float) -> Sample:
    fields = {
        "attempts": 1, "cpu_ms": 1.0, "rss_mb": 100.0, "snapshot_kb": 10.0, "database_mb": 5.0,
        "restart_ms": 50.0, "reference_ms": 0.5,
        "restart_reference_ms": 0.5, "process": 1, "ended_at": 0.0, "seconds": 1.0,
    }  # fmt: skip
    return msgspec.convert({**fields, **values, "day": day}, Sample)


def test_the_verdict_compares_the_second_week_with_the_last() -> None:
    # The first week differs from the second one, and the database grows.
    taken = [
        sample(day, rss_mb=50.0 if day <= 7 else 100.0 + day / 4, database_mb=float(day))
        for day in range(1, 29)
    ]
    compared = {each.name: each for each in verdict.comparisons(taken)}
    assert list(compared) == list(verdict.SERIES)
    assert (compared["database_mb"].after_first_week, compared["database_mb"].at_the_end) == (
        11.0, 25.0,
    )  # fmt: skip
    assert {name for name, each in compared.items() if not each.is_level} == {"database_mb"}
    assert "| database, MB | 11.00 | 25.00 | 2.27 | no |" in verdict.table(taken)
    assert verdict.table(taken).endswith("| CPU of the reference work, ms | 0.50 | 0.50 | 1.00 | |")
    assert chart.svg(taken, "a < b").count("<rect") == 1 + len(verdict.SERIES)


def test_a_slower_machine_does_not_change_the_verdict() -> None:
    """Times are in terms of the reference work, which takes longer, too."""
    slow = {"cpu_ms": 3.0, "restart_ms": 150.0, "reference_ms": 1.5, "restart_reference_ms": 1.5}
    taken = [sample(day, **(slow if day > 20 else {})) for day in range(1, 29)]
    assert {each.name: each.ratio for each in verdict.comparisons(taken)} == dict.fromkeys(
        verdict.SERIES, 1.0
    )
    slower = [sample(day, **(slow | {"cpu_ms": 4.0} if day > 20 else {})) for day in range(1, 29)]
    assert [each.name for each in verdict.comparisons(slower) if not each.is_level] == ["cpu"]


def test_the_reference_work_is_always_the_same() -> None:
    assert [reference.work(number) for number in (0, 1, 0)] == [10_060, 9_713, 10_060]
    assert reference.cpu_ms() > 0
