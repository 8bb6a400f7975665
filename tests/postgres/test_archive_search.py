"""What is found in an archive without reading all of it: explanations, and lists of records."""

from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.records import PodAdded, StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.archive import archive_log, parquet
from eventsched.eventlog.archive.archive_log import ArchiveLog
from eventsched.eventlog.archive.archive_manifest import BATCHES, DECISIONS, DETAILS
from eventsched.eventlog.archive.archived_batches import read_group
from eventsched.eventlog.archive.joined_log import JoinedLog
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import StoredBatch
from eventsched.history.explain.evidence import ScannedEvidence, SearchedEvidence, uid_key
from eventsched.history.explain.explanation import NoPodError, explain
from eventsched.history.explain.stored_evidence import StoredEvidence
from tests.builders import make_pod
from tests.postgres.archives import FIRST_DAY, LATER, STREAM, archived, spread, write
from tests.postgres.histories import ODD, TIGHT
from tests.postgres.test_archive_reading import half, printed, row_groups

__all__ = ["half", "row_groups"]


@pytest.mark.usefixtures("row_groups")
@pytest.mark.parametrize("days", [2, 4])
@pytest.mark.parametrize("source", [TIGHT, ODD])
def test_pods_are_explained_as_from_the_database(
    four_days: str, tmp_path: Path, days: int, source: str, request: pytest.FixtureRequest
) -> None:
    """By its uid, as the log and as views have it, and by its name: from an archive of all days
    alone, and from one of two days with the database."""
    stream = STREAM
    if source == ODD:
        stream = request.node.name
        spread(four_days, source, stream)
    archived(four_days, stream, tmp_path, before=date(2024, 2, 29) if days == 2 else LATER)
    with closing(Reader(four_days, stream, keeps_connection=True)) as reader:
        archive = ArchiveLog(tmp_path)
        searched = SearchedEvidence(JoinedLog(archive, reader) if days == 2 else archive)
        stored, scanned = StoredEvidence(reader), ScannedEvidence(reader, stream)
        pods = [record.record.pod for record in reader.read() if record.kind == "PodAdded"]
        assert len(pods) > 10
        for pod in pods[:: len(pods) // 8]:
            found = explain(searched, pod.uid)
            assert found == explain(stored, pod.uid)
            for name in (uid_key(pod.uid), pod.name, f"{pod.namespace}/{pod.name}"):
                assert searched.pods(name) == scanned.pods(name)
        uids = [pod.uid for pod in pods]
        assert searched.names([*uids, "none"]) == scanned.names(uids)
        with pytest.raises(NoPodError, match=r"did you mean|there are, among others"):
            explain(searched, "default/none")


def test_only_the_parts_with_the_pod_are_decoded(
    four_days: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a batch in each part."""
    smallest = dict.fromkeys((BATCHES, DETAILS, DECISIONS), 1)
    monkeypatch.setattr(parquet, "_ROW_GROUP_BYTES", smallest)
    archived(four_days, STREAM, tmp_path)
    batches = list(ArchiveLog(tmp_path).batches())
    decoded: set[int] = set()

    def counted(path: Path, stream: str, index: int, previous: bytes | None) -> list[StoredBatch]:
        found = read_group(path, stream, index, previous)
        decoded.update(batch.first for batch in found)
        return found

    monkeypatch.setattr(archive_log, "read_group", counted)
    log = ArchiveLog(tmp_path)
    evidence = SearchedEvidence(log)
    terms = ('"kind":"StreamStarted"', '"kind":"TermBegan"')
    assert decoded == {b.first for b in batches if any(term in b.body for term in terms)}
    decoded.clear()
    [pod] = evidence.pods("pod-000055")
    assert decoded == {batch.first for batch in batches if '"pod-000055"' in batch.body}
    decoded.clear()
    assert len(list(evidence.records(pod))) > 3
    assert decoded <= {batch.first for batch in batches if f'"{pod.uid}"' in batch.body}
    assert len(decoded) < len(batches) / 4


def test_lists_are_the_same(four_days: str, whole_archive: Path, half: Path, capsys: Any) -> None:
    """``log list`` and ``log tail``: of the database, of an archive alone, and of both."""
    archive = ("--from-archive", str(whole_archive))
    logs = [
        ("--database", four_days, "--stream", STREAM),
        archive,
        ("--from-archive", str(half), "--database", four_days),
    ]
    for words in (
        ("list",), ("list", "--limit", "0"), ("list", "--from", "300", "-o", "json"),
        ("list", "--pod", "default/pod-000030"), ("list", "--kind", "PodBound", "--limit", "7"),
        ("list", "--since", "1m", "--until", "3m"), ("list", "--since", "90d"), ("tail",),
        ("tail", "-n", "3", "--kind", "NodeAdded"), ("tail", "--pod", "pod-000003", "-o", "json"),
        ("tail", "--until", "2m"),
    ):  # fmt: skip
        told = [printed(capsys, "log", *words, *log) for log in logs]
        assert told[0] == told[1] == told[2], words
    assert main(["log", "tail", "-f", *archive]) == 2
    assert "-f: an archive does not grow; add --database" in capsys.readouterr().err
    assert main(["log", "list", "--pod", "default/pod-none", *archive]) == 2
    assert "there is no pod default/pod-none" in capsys.readouterr().err


def test_a_log_of_a_newer_version_is_refused(
    database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, as on a database, though the search needs none of the records that say so."""
    started = StreamStarted(format=1, engine="99", seed="s", flags=(*CURRENT, 999))
    records = [
        StoredRecord.of(LogEntry(0, 0, 0, started)),
        StoredRecord.of(LogEntry(1, 1, 1, PodAdded(pod=make_pod("new")))),
    ]
    for step in records:  # each in a batch of its own
        write(database, STREAM, FIRST_DAY, [[step]], {})
    archived(database, STREAM, tmp_path)
    source = ["--from-archive", str(tmp_path)]
    for more in ([], ["--database", database]):
        assert main(["explain", "default/new", *source, *more]) == 2
        shown = capsys.readouterr().err
        assert "position 0 of the log: was written by a newer version" in shown
        assert shown.count("\n") == 1
