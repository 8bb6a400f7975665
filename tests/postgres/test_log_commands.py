"""``eventsched log``: records listed, followed and exported, also beside a writer at work."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventsched.cli import log
from eventsched.cli.main import main
from eventsched.domain import records
from eventsched.eventlog.database import reader_address
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.seeking import position_at
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.explain.record_text import pod_of
from eventsched.history.verify.verification import verify_file
from eventsched.output.time_format import read_moment
from tests.builders import make_node, make_pod
from tests.databases import Server, migrate
from tests.postgres.histories import ODD, TIGHT
from tests.postgres.truth import Truth
from tests.waiting import next_line


@pytest.fixture
def listed(address: str, capsys: pytest.CaptureFixture[str]) -> Any:
    """What a listing prints as JSON, and beside it."""

    def run(*options: str, stream: str = ODD) -> tuple[list[dict[str, Any]], str]:
        capsys.readouterr()
        arguments = ("--database", address, "--stream", stream, "-o", "json")
        assert main(["log", *options, *arguments]) == 0
        told = capsys.readouterr()
        return [json.loads(line) for line in told.out.splitlines()], told.err

    return run


def test_all_records_as_the_view_has_them(address: str, listed: Any) -> None:
    found, said = listed("list", "--limit", "0")
    assert said == ""
    with Reader(address, ODD).connection() as connection:
        rows = connection.exec_driver_sql(
            "SELECT seq, cause, kind, namespace, pod, pod_uid::text, record FROM eventsched.events"
            " WHERE stream = 'odd' ORDER BY seq"
        ).all()
    names = ("seq", "cause", "kind", "namespace", "pod", "pod_uid", "record")
    assert [tuple(each[name] for name in names) for each in found] == [tuple(row) for row in rows]
    assert found[0]["at"] == "1970-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        (("--from", "5", "--to", "9"), range(5, 10)),
        (("--limit", "3"), range(3)),
        (("--from", "80", "--limit", "3"), range(80, 83)),
        (("--from", "1000"), ()),
    ],
)
def test_a_part(listed: Any, options: tuple[str, ...], chosen: Any) -> None:
    found, said = listed("list", *options)
    assert [each["seq"] for each in found] == list(chosen)
    assert ("there are more" in said) == ("--limit" in options)


def test_a_time_after_the_end_is_said_with_the_end(listed: Any) -> None:
    every, _ = listed("list", "--limit", "0", stream=TIGHT)
    end = every[-1]["at"]
    assert end.startswith("1970-01-01T00:0")
    found, said = listed("list", "--since", "10h", stream=TIGHT)
    assert found == []
    until = f"{datetime.fromisoformat(end):%H:%M:%S.%f}"[:-3]
    assert said.splitlines() == [
        f"no record is at or after 10h: the log ends at {until}",
        "in a simulation a time counts from its beginning; '10m ago' from its end",
    ]
    for since in ("1s ago", "1s"):
        found, said = listed("list", "--limit", "0", "--since", since, stream=TIGHT)
        assert (found[-1]["at"], said) == (end, "")


def test_fifty_where_nothing_is_said(listed: Any) -> None:
    found, said = listed("list", stream=TIGHT)
    assert len(found) == 50
    assert "there are more: --from 50 continues" in said


def test_one_pod_or_one_kind(address: str, listed: Any) -> None:
    truth = Truth(address, TIGHT)
    found, _ = listed("list", "--kind", "PodBound", "--limit", "0", stream=TIGHT)
    assert [each["seq"] for each in found] == [at for at, *_ in truth.all(records.PodBound)]
    uid = truth.all(records.PodBound)[10][3].uid
    name = "/".join(truth.pods[uid])
    for pod in (name, name.partition("/")[2], uid):
        found, _ = listed("list", "--pod", pod, "--limit", "0", stream=TIGHT)
        mine = [at for at, _, _, r in truth.records if pod_of(r) == uid]
        assert [each["seq"] for each in found] == mine
    found, _ = listed("list", "--pod", name, "--kind", "PodBound", stream=TIGHT)
    assert len(found) == 1


def test_in_words(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--database", address, "--stream", ODD)
    assert main(["log", "list", *where, "--limit", "0"]) == 0
    said = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in said.splitlines()]
    assert lines[0] == "POSITION TIME KIND POD WHAT"
    assert "1 00:00:00.000 NodeAdded n1 joined" in lines
    assert "7 00:00:01.000 PodAdded default/a arrived" in lines
    for words in (
        "stream started by eventsched test, seed odd",
        "TaintToleration UnschedulableAndUnresolvable: node(s) had untolerated taint(s)",
        "attempt 1: unschedulable: 0/5 nodes are available",
        'FirstScheduledNode remembers default/a = {"at":',
        "bind to n5 failed: the node is unreachable",
        "allowed by Gang at Permit on behalf of default/gang-2",
        "n2 left",
        "n1 changed",
        "prod/web is gone",
    ):
        assert any(words in line for line in lines), words
    assert main(["log", "list", "--kind", "StreamStarted", *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_tail(address: str, listed: Any) -> None:
    end = Reader(address, ODD).head.next
    assert [each["seq"] for each in listed("tail", "-n", "3")[0]] == [end - 3, end - 2, end - 1]
    assert len(listed("tail")[0]) == 20
    assert len(listed("tail", "-n", "9999")[0]) == end
    assert listed("tail", "-n", "0")[0] == []


def test_the_forms_of_a_listing(
    address: str, listed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    records, _ = listed("tail", "-n", "3")
    where = ("--database", address, "--stream", ODD)
    assert main(["log", "tail", "-n", "3", "-o", "yaml", *where]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == records
    assert main(["log", "tail", "-n", "3", "-o", "wide", *where]) == 0
    header, *rows = map(str.split, capsys.readouterr().out.splitlines())
    assert header[:4] == ["POSITION", "TIME", "CAUSE", "KIND"]
    causes = [str(each["cause"]) for each in records]
    assert [
        row[row.index(each["kind"]) - 1] for row, each in zip(rows, records, strict=True)
    ] == causes


def test_the_streams(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", "streams", "--database", address, "-o", "json"]) == 0
    found = {each["stream"]: each for each in json.loads(capsys.readouterr().out)}
    assert set(found) == {ODD, TIGHT}
    reader = Reader(address, ODD)
    assert found[ODD]["records"] == reader.head.next
    assert found[ODD]["head"] == reader.head.hash.hex()
    assert main(["log", "streams", "--database", address]) == 0
    assert capsys.readouterr().out.splitlines()[0].split()[:3] == ["STREAM", "RECORDS", "BATCHES"]
    assert main(["log", "streams", "--database", address, "-o", "wide"]) == 0
    header, *rows = (line.split("   ") for line in capsys.readouterr().out.splitlines())
    assert [cell.strip() for cell in header if cell.strip()] == [
        "STREAM", "RECORDS", "BEGIN", "BATCHES", "EPOCH", "HOLDER", "CREATED", "WRITTEN", "HEAD"
    ]  # fmt: skip
    shown = {row[0].strip(): [cell.strip() for cell in row if cell.strip()] for row in rows}
    for stream, row in shown.items():
        whole = found[stream]
        times = [whole[name][:19].replace("T", " ") for name in ("created_at", "written_at")]
        assert (row[2], row[-3:-1], row[-1]) == ("0", times, whole["head"])


def test_what_comes_is_followed(one_server: Server) -> None:
    """By positions, each record once, beside the writer; from any position on."""
    with one_server.fresh(migrate) as url, closing(PostgresEventLog(url, "s", "test")) as writer:
        steps = iter(range(3))
        shown: list[int] = []

        def write() -> None:
            step = next(steps, None)
            if step is None:
                raise KeyboardInterrupt
            first = writer.head
            added = [records.NodeAdded(node=make_node(f"n{first + n}")) for n in range(step)]
            if added:
                stored = [
                    StoredRecord(first + n, 0, first + n, "NodeAdded", 1, records.encode(record))
                    for n, record in enumerate(added)
                ]
                writer.begin(Batch(stored, {}))
                writer.finish()

        with reader_address(url, None) as address, pytest.raises(KeyboardInterrupt):
            log.follow(
                Reader(address, "s"),
                0,
                lambda found: shown.extend(r.position for r in found),
                write,
            )
        assert shown == [0, 1, 2]


def test_following_as_users_do_it(one_server: Server) -> None:
    """Prints what is written meanwhile, at once, until it is interrupted."""
    with one_server.fresh(migrate) as url, closing(PostgresEventLog(url, "s", "test")) as writer:

        def append(record: Any) -> None:
            at = writer.head
            kind = type(record).__name__
            writer.begin(Batch([StoredRecord(at, 0, at, kind, 1, records.encode(record))], {}))
            writer.finish()

        append(records.NodeAdded(node=make_node("n0")))
        command = [sys.executable, "-m", "eventsched", "log", "tail", "-f", "--database", url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            next_line(process)
            assert "n0 joined" in next_line(process)
            append(records.PodAdded(pod=make_pod("late")))
            assert "default/late" in next_line(process)
            process.send_signal(2)
            assert process.wait(timeout=60) == 130


def test_an_export_is_a_log(
    address: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name in ("odd.jsonl", "odd.jsonl.gz"):
        where = ("--database", address, "--stream", ODD)
        assert main(["log", "export", str(tmp_path / name), *where]) == 0
        assert f"records of stream odd in {tmp_path / name}" in capsys.readouterr().out
        result = verify_file(tmp_path / name)
        assert not result.problems
    assert (
        gzip.decompress((tmp_path / "odd.jsonl.gz").read_bytes())
        == (tmp_path / "odd.jsonl").read_bytes()
    )


def test_an_export_does_not_replace_a_device_or_a_pipe(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert main(["log", "export", str(pipe), "--database", address, "--stream", ODD]) == 2
    assert f"{pipe}: is not a regular file; name a file" in capsys.readouterr().err
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("list", "--kind", "PodBind"), ("--kind", "PodBind", "did you mean PodBound")),
        (("list", "--pod", "hugh"), ("POD", "hugh", "default/huge")),
        (("list", "--stream", "evne"), ("--stream", "evne", "odd, tight")),
        (("export", "/nowhere/at/all.gz"), ("/nowhere/at/all.gz", "cannot be written")),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    address: str, capsys: pytest.CaptureFixture[str], options: tuple[str, ...],
    words: tuple[str, ...],
) -> None:  # fmt: skip
    stream = () if "--stream" in options else ("--stream", ODD)
    assert main(["log", *options, *stream, "--database", address]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert all(word in told.err for word in words), told.err


def test_one_of_two_streams_has_to_be_named(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", "tail", "--database", address]) == 2
    assert "name one: odd, tight" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--limit", "few"), ("--from", "-1"), ("-o", "xml")])
def test_malformed_options(capsys: pytest.CaptureFixture[str], option: tuple[str, str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["log", "list", *option])
    assert stopped.value.code == 2


def test_a_reader_that_has_seen_enough(address: str) -> None:
    """``| head``: no complaint."""
    command = f"{sys.executable} -m eventsched log list --limit 0 --stream {TIGHT} | head -n 1"
    environment = {**os.environ, "EVENTSCHED_DATABASE": address}
    done = subprocess.run(
        ["sh", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.startswith(" POSITION")
    assert done.stderr == ""


def test_times_are_looked_up_by_halving(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every time in the log and beside it; only one batch is read."""
    reader = Reader(address, TIGHT)
    truth = [(each.position, each.at) for each in reader.read()]
    times = sorted({at for _, at in truth})
    asked = [0, times[0], times[-1], times[-1] + 1, *times[:: max(1, len(times) // 20)]]
    reads: list[int] = []
    whole = Reader.batches

    def counted(self: Reader, first: int = 0) -> Iterator[Any]:
        reads.append(0)
        for batch in whole(self, first):
            reads[-1] += 1
            yield batch

    monkeypatch.setattr(Reader, "batches", counted)
    for at in asked:
        expected = next((position for position, when in truth if when >= at), len(truth))
        assert position_at(reader, at) == expected, at
    assert max(reads) <= 2


def test_a_span_of_time_kinds_and_a_pod(address: str, listed: Any) -> None:
    """Together, in list and tail; times of a simulation count from its beginning."""
    found, _ = listed("list", "--limit", "0", stream=TIGHT)

    def seconds(row: dict[str, Any]) -> float:
        at = datetime.fromisoformat(row["at"])
        return (at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()

    middle = seconds(found[len(found) // 2])
    options = ("--since", f"{middle}s", "--until", f"{middle + 30}s")
    wanted = [row for row in found if middle <= seconds(row) < middle + 30]
    assert 0 < len(wanted) < len(found)
    assert listed("list", "--limit", "0", *options, stream=TIGHT)[0] == wanted
    kinds = ("PodDecided", "PodDeleted")
    named = [option for kind in kinds for option in ("--kind", kind)]
    of_kinds = [row for row in found if row["kind"] in kinds]
    assert listed("tail", "-n", "7", *named, stream=TIGHT)[0] == of_kinds[-7:]
    pod = of_kinds[-1]
    name = f"{pod['namespace']}/{pod['pod']}"
    mine = [row for row in of_kinds if row["pod_uid"] == pod["pod_uid"]]
    assert listed("tail", "-n", "2", *named, "--pod", name, stream=TIGHT)[0] == mine[-2:]
    begin = "1970-01-01T00:00:00"
    assert listed("list", "--limit", "5", "--since", begin, stream=TIGHT)[0] == found[:5]


def test_an_update_says_what_it_changed(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--pod", "b", "--stream", ODD, "--database", address)
    assert main(["log", "list", *arguments]) == 0
    assert "changed: it is on n4" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_what_is_no_time_is_refused(
    address: str, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["log", "list", option, "soon", "--stream", ODD, "--database", address]) == 2
    said = capsys.readouterr().err
    forms = "write 00:10, 10m from start, or 10m ago"
    assert said == f"eventsched log: {option}: 'soon' is not a time; {forms}\n"


def test_relative_times_of_a_live_log_end_now() -> None:
    now = 1_800_000_000_000_000
    assert read_moment("10m", now, virtual=False) == now - 600_000_000
    assert read_moment("10m", now, virtual=True) == 600_000_000
    assert read_moment("2027-01-15T08:00:00", 0, virtual=False) == now
    assert read_moment("2027-01-15T09:00:00+01:00", 0, virtual=False) == now
