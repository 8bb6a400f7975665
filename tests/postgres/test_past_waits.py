"""The waits of the past in a database's rows are those in its records, and are found by index."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.records import PodQueued
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.evidence import uid_key
from eventsched.history.past_state import past_waits
from eventsched.history.past_state.past_waits import scanned_waits, stored_waits
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, odd

CONTENDED = "contended"
LOAD = "nodes=10,pods=300,shape=tight,seed=2,rate=3,runtime=100,waves=100"


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """A database with a history in which pods wait, and one in which nearly everything happens."""
    with one_server.fresh(migrate) as url:
        odd(url)
        main(["simulate", "--generate", LOAD, "--database", url, "--stream", CONTENDED])
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ANALYZE")
        yield url


@pytest.mark.parametrize("stream", [ODD, CONTENDED])
def test_the_rows_say_what_the_records_say(address: str, stream: str) -> None:
    """At the end and on the way, for every set of plugins that refused a pod."""
    with closing(Reader(address, stream, keeps_connection=True)) as reader:
        log = list(reader.read())
        moves = [each.record for each in log if isinstance(each.record, PodQueued)]
        asked = {move.rejectors for move in moves}
        uids = {uid_key(move.uid) for move in moves}
        for position in (len(log), len(log) // 2, len(log) // 3):
            now = log[position - 1].at
            scanned = scanned_waits(iter(log), position, now)
            stored = stored_waits(reader, position, now, asked, uids)
            assert {key: sorted(waits) for key, waits in stored.lengths.items()} == {
                key: sorted(waits) for key, waits in scanned.lengths.items()
            }
            assert stored.began == scanned.began


def test_many_waits_are_thinned_evenly(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Reader(address, CONTENDED)) as reader:
        end = reader.head.next
        whole = stored_waits(reader, end, 10**12, {()}, ())
        monkeypatch.setattr(past_waits, "_MOST", 100)
        thinned = stored_waits(reader, end, 10**12, {()}, ())
    assert len(whole.lengths[()]) == 300
    assert len(thinned.lengths[()]) == 100
    assert set(thinned.lengths[()]) <= set(whole.lengths[()])


def test_only_the_newest_records_are_read_and_pods_are_found_by_index(address: str) -> None:
    with closing(Reader(address, CONTENDED)) as reader:
        values = {"begin": 2_000, "position": 2_100, "reasons": [""], "most": 100}
        plan = "\n".join(
            row["QUERY PLAN"] for row in reader.rows(f"EXPLAIN {past_waits._STORED}", **values)
        )
        assert reader.rows(past_waits._STORED, **values)
    assert "reservation_pod" in plan or "stream_pod_idx" in plan, plan
    assert "pod_end" in plan


def test_the_command_says_the_same_of_a_database_and_of_its_export(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With estimates that rest on enough waits."""
    exported = tmp_path / "log.jsonl"
    where = ("--database", address, "--stream", CONTENDED)
    assert main(["log", "export", str(exported), *where]) == 0
    capsys.readouterr()
    found = []
    for log in (where, ("--file", str(exported))):
        assert main(["queue", "--at", "3000", "-o", "json", *log]) == 0
        found.append(json.loads(capsys.readouterr().out)["pods"])
    assert found[0] == found[1]
    rests = [pod["estimated_rest"] for pod in found[0]]
    known = [rest for rest in rests if rest is not None]
    assert known
    assert all(rest["waits"] >= 20 for rest in known)
    assert main(["queue", "--at", "3000", *where]) == 0
    text = capsys.readouterr().out
    assert "ESTIMATED REST" in text
    assert "ATTEMPTS" not in text
    assert main(["queue", "--at", "3000", "-o", "wide", "--full", *where]) == 0
    ends = {tuple(line.split()[-2:]) for line in capsys.readouterr().out.splitlines()}
    assert {(str(pod["attempts"]), pod["uid"]) for pod in found[0]} <= ends
    assert f"of {known[0]['waits']} waits)" in text
