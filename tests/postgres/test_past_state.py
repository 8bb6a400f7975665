"""``eventsched state`` and ``diff`` at any position: from a database, an archive, both, a file, and
a log without its first records."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from eventsched.cli.main import main
from eventsched.cluster.sources import load
from eventsched.domain.records import Queue
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.archive.archive_log import ArchiveLog
from eventsched.eventlog.archive.joined_log import JoinedLog
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.export_reader import FileLog
from eventsched.runtime.queries.state_at import state_at, stored_states
from tests.databases import Server
from tests.postgres.archives import LATER, STREAM, archived
from tests.postgres.histories import ODD, TIGHT, odd_and_tight


@pytest.fixture(scope="module")
def logs(each_server: Server) -> Iterator[str]:
    """A database with two streams."""
    with each_server.fresh(odd_and_tight) as url:
        yield url


def folded(log: Any, position: int) -> SchedulerState:
    """The state before a position, from the first record."""
    state = SchedulerState()
    for stored in log.read():
        if stored.position >= position:
            break
        state.apply(stored.record, stored.at)
    return state


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([*map(str, words)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([*map(str, words)]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    return found.err


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_the_state_at_every_position(logs: str, stream: str) -> None:
    """From whatever is stored before it, it is that of the records alone."""
    with closing(Reader(logs, stream, keeps_connection=True)) as reader:
        end = reader.head.next
        for position in {*range(0, end, 7), 1, end - 1, end}:
            found = state_at(reader, reader, position, end)
            assert found.position == found.state.position == position
            assert found.state.digest() == folded(reader, position).digest()
        firsts = {state_at(reader, reader, position, end).first for position in (1, end)}
        assert firsts == {0, *([end] if list(stored_states(reader, end)) else [])}


def test_the_same_from_a_file_an_archive_and_both(
    four_days: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "log.jsonl.gz"
    place = ("--database", four_days, "--stream", STREAM)
    assert main(["log", "export", str(file), *place]) == 0
    archived(four_days, STREAM, tmp_path / "whole", before=LATER)
    archived(four_days, STREAM, tmp_path / "half", before=date(2024, 2, 29))
    with closing(Reader(four_days, STREAM, keeps_connection=True)) as reader:
        end = reader.head.next
        half, whole = ArchiveLog(tmp_path / "half"), ArchiveLog(tmp_path / "whole")
        forms: list[tuple[Any, Any]] = [
            (FileLog(file), None),
            (whole, None),
            (JoinedLog(half, reader), reader),
        ]
        for position in (0, 1, half.head.next, end // 2, end):
            digest = state_at(reader, reader, position, end).state.digest()
            for log, own_reader in forms:
                assert state_at(log, own_reader, position, end).state.digest() == digest
    place_of = str(end // 2)
    expected = printed(capsys, "state", "--at", place_of, "-o", "json", *place)
    for words in (
        ("--file", str(file)),
        ("--from-archive", str(tmp_path / "whole"), "--stream", STREAM),
        ("--from-archive", str(tmp_path / "half"), *place),
    ):
        assert printed(capsys, "state", "--at", place_of, "-o", "json", *words) == expected


def test_what_is_shown(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--database", logs, "--stream", ODD)
    with closing(Reader(logs, ODD, keeps_connection=True)) as reader:
        end = reader.head.next
    text = printed(capsys, "state", *place)
    assert text.startswith(f"stream {ODD} before position {end}, 00:00:24.000\n6 nodes; ")
    assert "cpu" in text
    pod = json.loads(printed(capsys, "state", "--pod", "test/web", "-o", "json", *place))["pod"]
    assert (pod["state"], pod["node"] != "", pod["attempts"]) == ("binding", True, 1)
    node = json.loads(printed(capsys, "state", "--node", pod["node"], "-o", "json", *place))
    assert "test/web" in node["node"]["pods"]
    assert "test/web" in [f"{each['namespace']}/{each['name']}" for each in node["pods"]]
    waiting = printed(capsys, "state", "--at", "4s", "--queue", *place)
    assert "huge" in waiting
    assert "unschedulable" in waiting
    assert "no pod waits" in printed(capsys, "state", "--at", "4s", "--queue", "gated", *place)
    import yaml

    for options in ((), ("--pod", "huge")):
        words = ("state", "--at", "6s", *options, *place)
        as_json = json.loads(printed(capsys, *words, "-o", "json"))
        assert yaml.safe_load(printed(capsys, *words, "-o", "yaml")) == as_json
    assert "huge" in printed(capsys, "state", "--at", "6s", "--pod", "huge", *place)


def test_a_difference_is_told(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--database", logs, "--stream", ODD)
    text = printed(capsys, "diff", "--from", "5s", "--to", "10s", *place)
    for line in ("+ Node n6", "- Pod default/huge  unschedulable", "~ Node n1",
                 "    labels: {} -> {'zone': 'b'}"):  # fmt: skip
        assert line in text
    assert "no difference" in printed(capsys, "diff", "--from", "7", "--to", "7", *place)
    told = json.loads(printed(capsys, "diff", "--from", "5s", "--to", "10s", "-o", "json", *place))
    assert told["from"] < told["to"]
    assert {"kind": "Node", "name": "n6", "change": "added", "fields": []} in told["differences"]


def test_bad_input(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--database", logs, "--stream", ODD)
    for words, expected in (
        (("--at", "100000"), "--at: the log ends at position"),
        (("--at", "soon"), "--at: 'soon' is neither a position nor a time; write a number"),
        (("--at", "3d"), "--at: 3d is after the end: 00:00:24.000"),
        (
            ("--pod", "hugo"),
            "--pod hugo: was not there at that position; did you mean default/huge",
        ),
        (("--pod", "web"), "--pod web: is the name of 2 pods; name one: prod/web, test/web"),
        (("--node", "n9"), "--node n9: was not there at that position; did you mean n"),
        (("--pod", "web", "-o", "manifests"), "-o manifests: writes the whole state; leave --pod"),
        (("--file", "there-is-none"), "options: --file names a whole log"),
    ):
        if words[0] == "--pod" and words[1] == "hugo":
            words = (*words, "--at", "6s")
        assert expected in refused(capsys, "state", *words, *place)
    text = refused(capsys, "diff", "--from", "10s", "--to", "5s", *place)
    assert "--from: is position" in text
    assert "--to: 'x'" in refused(capsys, "diff", "--from", "1", "--to", "x", *place)


def test_the_manifests_of_a_state_are_a_cluster(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``simulate`` and ``evaluate`` take them; ``load`` finds the same nodes and pods."""
    place = ("--database", logs, "--stream", TIGHT)
    file = tmp_path / "state.json"
    with closing(Reader(logs, TIGHT, keeps_connection=True)) as reader:
        end = reader.head.next
        state = state_at(reader, reader, end // 2, end).state
    file.write_text(printed(capsys, "state", "--at", end // 2, "-o", "manifests", *place))
    source = load.read(nodes=None, pods=None, objects=[file], generate=None)
    assert list(source.nodes) == [node for node in state.nodes.nodes if node is not None]
    assert {pod.uid: pod.node_name for pod in source.bound} == {
        uid: pod_state.booked_node for uid, pod_state in state.pods.items() if pod_state.booked_node
    }
    waiting = [each.pod for each in source.arrivals]
    assert waiting
    assert {pod.uid for pod in waiting} == state.pods.keys() - {pod.uid for pod in source.bound}
    output = json.loads(
        printed(capsys, "simulate", "--manifests", file, "--in-memory", "-o", "json")
    )
    assert output["pods"] == len(waiting)
    capsys.readouterr()
    assert main(["evaluate", str(file), "--pod", waiting[0].full_name]) in (0, 1)
    assert waiting[0].full_name in capsys.readouterr().out


def test_pods_are_tried_on_a_log(
    logs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At its end and in the past; nothing is written."""
    place = ("--database", logs, "--stream", TIGHT)
    file = tmp_path / "pod.yaml"
    file.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}\n"
    )
    with closing(Reader(logs, TIGHT, keeps_connection=True)) as reader:
        head = reader.head
        seq = next(stored.position for stored in reader.read(head.next // 2) if stored.cause != 0)
        inside = next(s for s in reader.read(seq) if s.position != s.cause)
    told = json.loads(printed(capsys, "try", "-f", file, "-o", "json", *place))
    assert (told["stream"], told["position"], told["placed"]) == (TIGHT, head.next, 1)
    capsys.readouterr()
    words = ["try", "-f", str(file), "--at", str(inside.position), "-o", "json", *place]
    assert main(words) in (0, 1)
    assert json.loads(capsys.readouterr().out)["position"] == inside.cause
    assert "stream tight: has not begun" in refused(capsys, "try", "-f", file, "--at", 0, *place)
    with closing(Reader(logs, TIGHT, keeps_connection=True)) as reader:
        assert reader.head == head


def test_the_queue(logs: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = ("--database", logs, "--stream", TIGHT)
    with closing(Reader(logs, TIGHT, keeps_connection=True)) as reader:
        middle = reader.head.next // 2
        state = folded(reader, middle)
    lengths = {
        str(queue): sum(each.queue is queue for each in state.pods.values()) for queue in Queue
    }
    told = json.loads(printed(capsys, "queue", "--at", middle, "-o", "json", *place))
    for queue, length in lengths.items():
        numbers = [pod["position"] for pod in told["pods"] if pod["queue"] == queue]
        assert numbers == list(range(1, length + 1))
        words = ("queue", "--at", middle, "--queue", queue, "-o", "json", *place)
        assert len(json.loads(printed(capsys, *words))["pods"]) == length
    assert lengths["unschedulable"] > 0
    text = printed(capsys, "queue", "--at", middle, *place)
    assert f"unschedulable: {lengths['unschedulable']} pod" in text
    assert "NodeResourcesFit" in text
    assert "no pod waits" in printed(capsys, "queue", "--at", 1, *place)
    assert "has not begun" in refused(capsys, "queue", "--at", 0, *place)
