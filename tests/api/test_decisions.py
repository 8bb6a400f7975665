"""Decisions and their verdicts, compared with the records of the log and with the SQL functions."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from eventsched.domain.records import PodDecided
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.dominant_refusal import refusal_rank
from eventsched.questions import decisions
from tests.api.asking import Client
from tests.postgres.histories import ODD, TIGHT

STREAMS = [ODD, TIGHT]
FIELDS = ("attempt", "profile", "node", "runner_up", "feasible", "evaluated", "ties")


def decided(logs: str, stream: str) -> Iterator[tuple[int, PodDecided]]:
    with closing(Reader(logs, stream, keeps_connection=True)) as reader:
        for stored in reader.read():
            if isinstance(stored.record, PodDecided):
                yield stored.position, stored.record


def refusals(logs: str, stream: str) -> dict[int, list[dict[str, Any]]]:
    """What SQL says about every decision's refusals, by position."""
    found: dict[int, list[dict[str, Any]]] = {}
    with psycopg.connect(logs) as connection:
        query = "SELECT seq, plugin, code, reason, nodes FROM eventsched.refusals WHERE stream = %s"
        for seq, plugin, code, reason, nodes in connection.execute(query, (stream,)):
            refused = {"plugin": plugin, "code": code, "reason": reason, "nodes": nodes}
            found.setdefault(seq, []).append(refused)
    return found


def positions(client: Client, path: str, turn: str = "before") -> list[int]:
    pages = client.pages(path, "decisions", turn)
    return [each["position"] for page in pages for each in page]


@pytest.mark.parametrize("stream", STREAMS)
def test_pages_have_every_decision_once(client: Client, logs: str, stream: str) -> None:
    """In both directions, as the records say."""
    records = dict(decided(logs, stream))
    assert len(records) > 8
    path = f"/decisions?stream={stream}&limit=7"
    assert positions(client, path) == sorted(records, reverse=True)
    assert positions(client, f"{path}&after=0", "after") == sorted(records)
    for page in client.pages(path, "decisions"):
        for each in page:
            record = records[each["position"]]
            assert each["outcome"] == record.outcome.value
            for name in FIELDS:
                assert each[name] == (getattr(record, name) or None if name in ("node", "runner_up")
                                      else getattr(record, name))  # fmt: skip
            assert each["score"] == (record.score if record.node else None)


@pytest.mark.parametrize("stream", STREAMS)
def test_filters(client: Client, logs: str, stream: str) -> None:
    """Each gives exactly the decisions that have it."""
    every = [
        each
        for page in client.pages(f"/decisions?stream={stream}&limit=1000", "decisions")
        for each in page
    ]
    refused = refusals(logs, stream)
    for name in ("namespace", "pod", "node", "profile", "outcome"):
        for value in {each[name] for each in every} - {None}:
            found = positions(client, f"/decisions?stream={stream}&{name}={value}&limit=50")
            assert found == [each["position"] for each in every if each[name] == value]
    plugins = {each["plugin"] for some in refused.values() for each in some} - {None}
    assert plugins
    for plugin in plugins:
        found = positions(client, f"/decisions?stream={stream}&plugin={plugin}")
        with_it = {seq for seq, some in refused.items() if any(r["plugin"] == plugin for r in some)}
        assert found == sorted(with_it, reverse=True)
    found = positions(client, f"/decisions?stream={stream}&reason=insufficient%20CPU")
    with_it = {s for s, some in refused.items() if any("cient cpu" in r["reason"] for r in some)}
    assert found == sorted(with_it, reverse=True) != []
    middle = every[len(every) // 2]["position"]
    assert positions(client, f"/decisions?stream={stream}&from={middle}&limit=9") == [
        each["position"] for each in every if each["position"] >= middle
    ]
    assert positions(client, f"/decisions?stream={stream}&until={middle}&limit=9") == [
        each["position"] for each in every if each["position"] < middle
    ]


def test_the_dominant_refusal_is_of_the_lowest_rank_and_most_nodes(
    client: Client, logs: str
) -> None:
    refused = refusals(logs, TIGHT)
    failed = client.get(f"/decisions?stream={TIGHT}&outcome=unschedulable")["decisions"]
    assert failed
    for each in failed:
        ranked = [
            (refusal_rank(r["plugin"], r["code"]), -r["nodes"], r["reason"])
            for r in refused[each["position"]]
        ]
        first = min(ranked)[:2]
        assert each["reason"] in {reason for *rank, reason in ranked if tuple(rank) == first}


def test_a_page_looks_at_a_bounded_number(
    client: Client, logs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of a rare filter are short, and lead to all of it."""
    monkeypatch.setattr(decisions, "LOOKED_AT", 5)
    records = dict(decided(logs, TIGHT))
    failed = sorted((p for p, r in records.items() if not r.node), reverse=True)
    path = f"/decisions?stream={TIGHT}&outcome=unschedulable"
    pages = list(client.pages(path, "decisions"))
    assert len(pages) >= len(records) // 5
    assert [each["position"] for page in pages for each in page] == failed


@pytest.mark.parametrize("order", ["before", "after"])
def test_pages_of_one_pod_look_at_its_attempts(
    client: Client, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """Those of other pods do not count, also with a filter that none of its attempts passes."""
    every = [e for p in client.pages(f"/decisions?stream={TIGHT}", "decisions") for e in p]
    attempts: dict[str, list[dict[str, Any]]] = {}
    for each in every:
        attempts.setdefault(each["pod"], []).append(each)
    name, own = max(attempts.items(), key=lambda item: len(item[1]))
    assert len(own) >= 3
    monkeypatch.setattr(decisions, "LOOKED_AT", 2)
    first = "&after=0" if order == "after" else ""
    in_order = own[::-1] if order == "after" else own
    failed = [each for each in in_order if each["plugin"] is not None]
    for words, wanted in (
        ("", in_order),
        (f"plugin={failed[0]['plugin']}&outcome=unschedulable", failed),
        ("plugin=NodeName", []),
    ):
        path = f"/decisions?stream={TIGHT}&pod={name}&{words}{first}"
        pages = list(client.pages(path, "decisions", order))
        assert len(pages) in (len(own) // 2, len(own) // 2 + 1)
        assert [each for page in pages for each in page] == wanted


@pytest.mark.parametrize("stream", STREAMS)
def test_one_decision(client: Client, logs: str, stream: str) -> None:
    refused = refusals(logs, stream)
    records = dict(decided(logs, stream))
    for position, record in records.items():
        detail = client.get(f"/decisions/{position}?stream={stream}")
        of_pod = [p for p, r in records.items() if r.uid == record.uid]
        number = of_pod.index(position)
        assert detail["message"] == (record.message or None)
        assert detail["draw"] == str(record.draw)
        assert detail["previous"] == (of_pod[number - 1] if number else None)
        assert detail["following"] == ([*of_pod[number + 1 :], None])[0]
        key = lambda each: (-each["nodes"], each["reason"])  # noqa: E731
        assert sorted(detail["refusals"], key=key) == sorted(refused.get(position, []), key=key)


@pytest.mark.parametrize("stream", STREAMS)
def test_verdicts_are_those_of_the_sql_functions(client: Client, logs: str, stream: str) -> None:
    """Statuses, reasons, and every score of each plugin, page by page."""
    with psycopg.connect(logs) as connection:
        for position, record in decided(logs, stream):
            if not record.digest:
                continue
            path = f"/decisions/{position}/verdicts?stream={stream}&limit=5"
            rows = [each for page in client.pages(path, "verdicts", "offset") for each in page]
            verdicts = connection.execute(
                "SELECT node, coalesce(code, 'Success'), nullif(plugin, ''), reason "
                "FROM eventsched.verdicts(%s, %s)", (stream, position),
            ).fetchall()  # fmt: skip
            assert sorted((e["node"], e["status"], e["plugin"], e["reason"]) for e in rows) == (
                sorted((node, code, plugin, reason or None) for node, code, plugin, reason in
                       verdicts)
            )  # fmt: skip
            scores = connection.execute(
                "SELECT node, plugin, raw, normalized, weighted, rank "
                "FROM eventsched.scores(%s, %s)", (stream, position),
            ).fetchall()  # fmt: skip
            assert sorted(
                (e["node"], s["plugin"], s["raw"], s["normalized"], s["weighted"], e["rank"])
                for e in rows
                for s in e["scores"]
            ) == sorted(scores)
            ranked = [each["rank"] for each in rows if each["rank"] is not None]
            assert ranked == sorted(ranked)
            assert [each["rank"] for each in rows][: len(ranked)] == ranked


def test_what_cannot_be_asked(client: Client, logs: str) -> None:
    """Each in one line that says what to do."""
    head = client.get(f"/decisions?stream={TIGHT}")["head"]
    path = f"?stream={TIGHT}"
    assert client.problem(f"/decisions/{head}{path}", 400) == (
        f"position {head}; the log ends at position {head}; name one before that"
    )
    assert client.problem(f"/decisions/0{path}", 400) == (
        "position 0; is a StreamStarted, not a decision; a pod's page has those of its attempts, "
        "GET /api/v1/decisions has all"
    )
    assert client.problem("/decisions", 400) == (
        f"stream; the log holds 2 streams; name one: {ODD}, {TIGHT}"
    )
    assert client.problem(f"/decisions{path}&before=9&after=3", 400) == (
        "after; excludes before; leave one of them out"
    )
    assert client.problem(f"/decisions{path}&limit=1001", 400) == (
        "limit; 1001 is out of range; give one from 1 to 1000"
    )
    assert client.problem(f"/decisions{path}&from=yesterday", 400) == (
        "from; 'yesterday' is neither a position nor a time; write a number, 00:10, "
        "10m from start, or 10m ago"
    )
    assert client.problem(f"/decisions{path}&pods=a", 400) == (
        "pods; is no parameter of this path; did you mean pod?"
    )
    assert client.problem(f"/decisions{path}&node=a%00b", 400) == (
        "node; has control characters; leave them out"
    )
    assert client.problem("/decisions?stream=a&stream=b", 400) == (
        "stream; is given twice; give it once"
    )
