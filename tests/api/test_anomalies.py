"""Anomalies over HTTP and as the command prints them, and what a client of one namespace sees."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.cli.main import main
from eventsched.eventlog.postgres.reader import Reader
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.api.test_visibility import OneNamespace
from tests.databases import Server, migrate
from tests.postgres.anomalous import Diary

STREAM = "anomalous"
ASKED = f"/queue/anomalies?stream={STREAM}"


def written(address: str) -> None:
    """The diary below, as a stream."""
    migrate(address)
    anomalous().write(address, STREAM)


def anomalous() -> Diary:
    """Each namespace has each anomaly once: the workload web of ``prod`` leaves for bosses of
    ``guests``, and the other way round."""
    diary = Diary("n1", "n2")
    spaces = ("prod", "guests")
    for namespace in spaces:
        diary.arrives(f"huge-{namespace}", namespace=namespace)
        diary.is_refused(f"huge-{namespace}")
    for number in range(3):
        for namespace, other in (spaces, spaces[::-1]):
            web = diary.arrives(
                f"web-{number}-{namespace}", f"web-{namespace}", namespace=namespace
            )
            diary.is_placed(web, "n1")
            boss = f"boss-{other}"
            if not number:
                diary.arrives(boss, f"crew-{other}", priority=9, namespace=other)
            diary.preempts(boss, "n1", web)
            diary.goes(web)
        diary.minute += 5
    for namespace in spaces:
        diary.is_placed(f"boss-{namespace}", "n2")
        diary.is_placed(diary.arrives(f"late-{namespace}", namespace=namespace), "n1")
    return diary


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    with one_server.fresh(written) as url:
        yield url


def test_one_namespace_sees_its_own_anomalies_and_no_names_of_others(address: str) -> None:
    with closing(DatabaseStreams(address)) as streams:
        desk = Desk(streams, FoldedStates())
        whole = Client(application(desk, OpenGate(local_only=True))).get(ASKED)["anomalies"]
        seen = Client(application(desk, OneNamespace())).get(ASKED)["anomalies"]
    assert seen == [each for each in whole if each["namespace"] == "prod"]
    assert "guests" not in json.dumps(seen)
    assert [(each["kind"], each["pod"], each["text"]) for each in seen] == [
        ("starving", "huge-prod",
         "2 later pods of its priority or less, whatever they request, were placed, but it was "
         "refused by NodeResourcesFit: Insufficient cpu"),
        ("evicted again", "web-2-prod",
         "pods of ReplicaSet/web-prod evicted 3 times within an hour, the last one web-2-prod"),
        ("nominated again", "boss-prod",
         "nominated 3 times within an hour, without finding a node"),
        *[("preempted for nothing", "boss-prod", "1 left n1 for it, and it went to n2")] * 3,
    ]  # fmt: skip
    assert len(whole) == 2 * len(seen)
    owners = {(each["kind"], each["facts"]["owner_name"]) for each in seen}
    assert owners >= {("nominated again", "crew-prod"), ("preempted for nothing", "crew-prod")}


def test_totals_are_of_all_also_if_one_is_listed(address: str) -> None:
    """And of what a client sees."""
    with closing(DatabaseStreams(address)) as streams:
        desk = Desk(streams, FoldedStates())
        gates = (OpenGate(local_only=True), OneNamespace())
        whole, own = (
            Client(application(desk, gate)).get(f"{ASKED}&limit=1")["kinds"] for gate in gates
        )
    assert [each["total"] for each in whole] == [2, 0, 2, 2, 6]
    assert [each["total"] for each in own] == [1, 0, 1, 1, 3]
    assert [each["count"] for each in whole] == [1, 0, 1, 1, 1]
    assert [each["more"] for each in own] == [False, False, False, False, True]


def test_the_command_prints_what_the_api_answers(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(DatabaseStreams(address)) as streams:
        desk = Desk(streams, FoldedStates())
        answer = Client(application(desk, OpenGate(local_only=True))).get(ASKED)
    words = ("queue", "--anomalies", "--database", address, "--stream", STREAM)
    assert main([*words, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert main([*words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "12 findings"
    assert lines[3].split() == [
        "starving", "prod/huge-prod", "15m00s", "2", "later", "pods", "of", "its", "priority", "or",
        "less,", "whatever", "they", "request,", "were", "placed,", "but", "it", "was", "refused",
        "by", "NodeResourcesFit:", "Insufficient", "cpu",
    ]  # fmt: skip
    evicted = [line.split()[2] for line in lines if line.startswith("evicted again ")]
    assert "prod/ReplicaSet/web-prod" in evicted
    assert "starving: has waited 10 minutes" in "\n".join(lines)
    assert len([line for line in lines if line.startswith("  next step: ")]) == 4
    assert not [name for name in evicted if "web-2" in name]


def test_the_command_prints_what_the_api_answers_about_the_past(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its place in the log before it, in text."""
    at = 66
    with closing(DatabaseStreams(address)) as streams:
        desk = Desk(streams, FoldedStates())
        client = Client(application(desk, OpenGate(local_only=True)))
        past, present = client.get(f"{ASKED}&at={at}"), client.get(ASKED)
    assert past["anomalies"] not in ([], present["anomalies"])
    words = ("queue", "--anomalies", "--at", str(at), "--database", address, "--stream", STREAM)
    assert main([*words, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == past
    assert main([*words]) == 0
    place, _, count, *_ = capsys.readouterr().out.splitlines()
    assert f"position {at}" in place
    assert count == f"{len(past['anomalies'])} findings"
    assert main([*words[:3], "9999", *words[4:]]) == 2
    assert "--at: " in capsys.readouterr().err


@pytest.mark.parametrize("more", [("--queue", "active"), ("--missed-wake-ups",)])
def test_what_does_not_go_together(
    address: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("queue", "--anomalies", "--database", address, "--stream", STREAM)
    assert main([*words, *more]) == 2
    assert "--anomalies" in capsys.readouterr().err


def test_the_views_look_at_the_stream_alone_and_the_next_question_at_all(address: str) -> None:
    """The setting does not stay on a connection of the pool."""
    shown = "SELECT coalesce(current_setting('eventsched.stream', true), '') AS name"
    with closing(DatabaseStreams(address)) as streams:
        rows = streams.open(STREAM).rows
        for _ in range(4):
            assert [row["name"] for row in rows.of_views(shown)] == [STREAM]
            assert [row["name"] for row in rows.all(shown)] == [""]
    with closing(Reader(address, STREAM, keeps_connection=True)) as log:
        for _ in range(2):
            assert [row["name"] for row in log.view_rows(shown)] == [STREAM]
            assert [row["name"] for row in log.rows(shown)] == [""]


def test_an_exported_log_is_refused(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As every log that is not in a database: the anomalies are views."""
    exported = str(tmp_path / "log.jsonl")
    assert main(["log", "export", exported, "--database", address, "--stream", STREAM]) == 0
    capsys.readouterr()
    assert main(["queue", "--anomalies", "--file", exported]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "--anomalies: are views of a database" in printed.err
    assert "eventsched db restore" in printed.err


def test_later_pods_of_the_same_workload_are_said_first(one_server: Server) -> None:
    """Also at a position of the past, as of then; those of another workload are only counted."""

    def diary(address: str) -> None:
        migrate(address)
        told = Diary("n1", "n2")
        told.is_placed(told.arrives("before", "train", namespace="prod"), "n1")
        told.is_refused(told.arrives("waits", "train", namespace="prod"))
        told.is_refused(told.arrives("alone", namespace="prod"))
        told.is_placed(told.arrives("other", "web", namespace="prod"), "n1")
        told.is_placed(told.arrives("bare", namespace="prod"), "n1")
        told.is_placed(told.arrives("namesake", "train", namespace="guests"), "n1")
        told.is_placed(told.arrives("more", "train", priority=7, namespace="prod"), "n1")
        told.minute = 15
        told.is_placed(told.arrives("second", "train", namespace="prod"), "n1")
        told.is_placed(told.arrives("third", "train", namespace="prod"), "n1")
        told.write(address, STREAM)

    with one_server.fresh(diary) as url, closing(DatabaseStreams(url)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        head = client.get(f"/position?stream={STREAM}")["position"]
        third = client.get(f"/pods?stream={STREAM}&name=third")["pods"][0]["position"]
        for at, own, every in (("", 2, 5), (f"&at={head}", 2, 5), (f"&at={third}", 1, 4)):
            found = client.get(f"{ASKED}{at}")["anomalies"]
            texts = {each["pod"]: each["text"] for each in found}
            rest = f"{every} later pods of its priority or less, whatever they request, were placed"
            pods = f"{own} later pod{'s' * (own > 1)} of the same ReplicaSet; "
            assert texts["waits"].startswith(f"{pods}{rest}")
            assert texts["alone"].startswith(rest)
