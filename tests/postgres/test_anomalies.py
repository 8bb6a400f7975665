"""Anomalies: constructed histories in which exactly the right pods are found, and calm ones."""

import re
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from eventsched.domain import records
from eventsched.domain.records import Queue
from eventsched.eventlog.schema import migrations
from tests.builders import make_node
from tests.databases import Server, migrate
from tests.postgres.anomalous import (
    FULL,
    TOO_SMALL,
    Diary,
    evicted_again,
    nominated_again,
    starving,
)

PAGE = Path(__file__).parents[2] / "docs/sql.md"
VIEWS = "starving_pods", "unplaceable_pods", "ping_pongs", "preempted_for_nothing"
CALM: dict[str, list[str]] = {view: [] for view in VIEWS}


def rows(address: str, view: str, columns: str) -> list[Any]:
    """What a reader sees."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET ROLE eventsched_reader")
        query = f"SELECT {columns} FROM eventsched.{view} ORDER BY stream, seq"
        return connection.execute(query.encode()).fetchall()


def found(address: str) -> dict[str, list[str]]:
    """The pods of each anomaly."""
    return {view: [pod for (pod,) in rows(address, view, "pod")] for view in VIEWS}


def test_a_pod_starves_once_it_has_waited_ten_minutes(database: str) -> None:
    diary = starving()
    diary.write(database, "young")
    assert found(database) == CALM
    diary.minute = 10  # since huge came
    diary.arrives("now")
    diary.is_refused("now")
    diary.write(database, "old")
    assert rows(database, "starving_pods", "stream, pod, overtaken_by, attempts, state") == [
        ("old", "huge", 2, 1, "unschedulable")
    ]
    diary.minute = 19  # since the gates were open
    diary.arrives("later")
    diary.is_placed("later", "n1")
    diary.write(database, "older")
    expected = [("huge", 3), ("gated", 1), ("last", 1)]
    seen = rows(database, "starving_pods", "pod, overtaken_by, stream")
    assert [row[:2] for row in seen if row[2] == "older"] == expected
    diary.is_placed("huge", "n2")
    diary.goes("gated", "later")
    diary.write(database, "over")
    seen = rows(database, "starving_pods", "pod, overtaken_by, stream")
    assert [row[:2] for row in seen if row[2] == "over"] == []


def test_a_pod_that_no_node_would_take_does_not_starve(database: str) -> None:
    """Until a node could take it, at its last attempt."""
    diary = Diary("n1", "n2")
    diary.arrives("selects nothing")
    diary.arrives("lacks a claim")
    diary.minute = 9
    diary.is_placed(diary.arrives("later"), "n1")
    diary.is_refused("selects nothing", TOO_SMALL)
    diary.is_refused("lacks a claim", by_all=False)
    diary.write(database, "young")
    diary.minute = 10
    diary.is_refused("selects nothing", TOO_SMALL)
    diary.write(database, "old")
    assert rows(database, "starving_pods", "pod") == []
    assert rows(database, "unplaceable_pods", "stream, pod, attempts, plugin, reason") == [
        ("old", "selects nothing", 2, "NodeResourcesFit", "Insufficient cpu"),
        ("old", "lacks a claim", 1, None, None),
    ]
    diary.is_refused("selects nothing", TOO_SMALL, FULL)
    diary.write(database, "fits")
    assert rows(database, "starving_pods", "stream, pod, overtaken_by") == [
        ("fits", "selects nothing", 1)
    ]


def test_pods_are_judged_by_their_own_refusals(database: str) -> None:
    """Also if their last attempts are far apart, and among other attempts."""
    diary = Diary("n1", "n2")
    waiting = {"hopeless": (TOO_SMALL,), "full": (TOO_SMALL, FULL), "unreserved": (TOO_SMALL,)}
    for name, verdicts in waiting.items():
        diary.arrives(name)
        diary.is_refused(name, *verdicts, feasible=int(name == "unreserved"))
        diary.is_placed(diary.arrives(f"beside {name}"), "n1")
        for _ in range(2):  # of pods that are gone
            diary.is_refused(diary.arrives("gone"), FULL)
            diary.goes("gone")
            diary.note(*[records.NodeUpdated(node=make_node("n1"))] * 10_000)
    diary.minute = 10
    diary.is_placed(diary.arrives("last"), "n1")
    diary.write(database, "far", batch=5_000)
    assert rows(database, "unplaceable_pods", "pod") == [("hopeless",)]
    assert rows(database, "starving_pods", "pod") == [("full",), ("unreserved",)]


@pytest.mark.parametrize(
    ("rounds", "pause", "times"), [(2, 1, None), (3, 31, None), (3, 29, 3), (5, 29, 3), (5, 1, 5)]
)
def test_a_workload_that_is_evicted_again_and_again(
    database: str, rounds: int, pause: float, times: int | None
) -> None:
    """Three times within an hour, not twice, and not more seldom."""
    evicted_again(rounds, pause).write(database, "s")
    expected = [] if times is None else [("evicted", f"web-{rounds - 1}", "web", times)]
    assert rows(database, "ping_pongs", "kind, pod, owner_name, times") == expected
    assert not rows(database, "starving_pods", "pod")
    assert not rows(database, "preempted_for_nothing", "pod")


def test_older_logs_get_their_rows(database: str) -> None:
    """Of the preemptions and comparisons that they have already."""
    evicted_again(5, 29).write(database, "s")
    compared_once().write(database, "shadow")
    queries = [
        f"SELECT t::text FROM eventsched_log.{table} t ORDER BY stream, seq, t::text".encode()
        for table in ("victim", "comparison")
    ]
    with psycopg.connect(database, autocommit=True) as admin:
        before = [admin.execute(query).fetchall() for query in queries]
        migrations.downgrade(database, "0019")
        migrations.upgrade(database)
        assert [admin.execute(query).fetchall() for query in queries] == before
    assert [len(rows_of) for rows_of in before] == [5, 1]


def compared_once() -> Diary:
    """The log of a shadow that found no node for a pod."""
    shadow = Diary("n1")
    shadow.is_refused(shadow.arrives("other"))
    shadow.note(
        records.PlacementCompared(
            uid="other", outcome=records.PlacementMatch.ONLY_THERE, node="n1", attempt=1,
            plugin="NodeResourcesFit", reasons=("Insufficient cpu",),
        )
    )  # fmt: skip
    return shadow


def test_replicas_that_are_evicted_at_once_do_not_go_back_and_forth(database: str) -> None:
    diary = Diary("n1")
    for number in range(4):
        diary.is_placed(diary.arrives(f"web-{number}", "web"), "n1")
    for number in range(4):
        boss = diary.arrives(f"boss-{number}", priority=9)
        diary.preempts(boss, "n1", f"web-{number}")
        diary.goes(f"web-{number}")
        diary.is_placed(boss, "n1")
    diary.write(database, "s")
    assert found(database) == CALM


@pytest.mark.parametrize(
    ("times", "pause", "expected"), [(2, 1, None), (3, 31, None), (3, 30, 3), (6, 1, 6)]
)
def test_a_pod_that_is_nominated_again_and_again(
    database: str, times: int, pause: float, expected: int | None
) -> None:
    nominated_again(times, pause).write(database, "s")
    names = [] if expected is None else [("nominated", "boss", expected)]
    assert rows(database, "ping_pongs", "kind, pod, times") == names


def test_a_pod_that_found_a_node_between_its_nominations(database: str) -> None:
    diary = nominated_again(2, 1)
    diary.is_placed("boss", "n1")
    diary.note(records.PodUnreserved(uid="boss", node="n1"))
    diary.queued("boss", Queue.ACTIVE, "BindFailed")
    diary.is_placed(diary.arrives("more"), "n1")
    diary.preempts("boss", "n1", "more")
    diary.write(database, "s")
    assert rows(database, "ping_pongs", "pod") == []


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("lands", []), ("waits", []), ("elsewhere", [("boss", "n1", 1, "elsewhere", "n2")]),
        ("goes", [("boss", "n1", 1, "gone", None)]), ("all stay", []),
    ],
)  # fmt: skip
def test_preempted_for_nothing(database: str, outcome: str, expected: list[Any]) -> None:
    """Only pods count that had to leave and did: one was going anyway, one stays."""
    diary = Diary("n1", "n2")
    for name in ("left", "going", "stays"):
        diary.is_placed(diary.arrives(name), "n1")
    boss = diary.arrives("boss", priority=9)
    diary.preempts(boss, "n1", "left", "going", "stays", leaving=("going",))
    diary.goes("going", *(("left",) if outcome != "all stay" else ()))
    if outcome == "goes":
        diary.goes(boss)
    elif outcome != "waits":
        diary.is_placed(boss, "n1" if outcome == "lands" else "n2")
    diary.goes("stays")
    diary.write(database, "s")
    columns = "pod, node, victims, outcome, landed_on"
    assert rows(database, "preempted_for_nothing", columns) == expected


def test_a_shadow_evicts_no_pod(database: str) -> None:
    """The victims of its decisions leave for the other scheduler, if at all."""
    diary = nominated_again(3, 1)
    match = records.PlacementMatch.ONLY_THERE
    diary.goes("web-0")
    diary.note(records.PlacementCompared(uid="boss", outcome=match, node="n2", attempt=3))
    diary.write(database, "s")
    assert found(database) == CALM
    columns = "pod, outcome, node, chosen, attempt, feasible"
    assert rows(database, "shadow_decisions", columns) == [
        ("boss", "only_there", "n2", None, 3, False)
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_calm_history_has_none(one_server: Server, seed: int) -> None:
    """Pods find a node at once, or soon after those before them; victims make room for a
    pod that lands there."""
    draw, diary = Random(seed), Diary("n1", "n2", "n3")
    waiting: list[str] = []
    placed: list[str] = []
    for number in range(60):
        diary.minute += draw.random() * 3
        name = diary.arrives(f"p{number}", draw.choice(["", "web", "batch"]))
        if draw.random() < 0.3:
            diary.is_refused(name)
            waiting.append(name)
            continue
        for earlier in (*waiting, name):  # in the order in which they came
            node = draw.choice(["n1", "n2", "n3"])
            if placed and draw.random() < 0.05:
                victim = placed.pop(draw.randrange(len(placed)))
                diary.preempts(earlier, node, victim)
                diary.goes(victim)
            diary.is_placed(earlier, node)
            placed.append(earlier)
        waiting.clear()
    with one_server.fresh(migrate) as address:
        diary.write(address, "calm")
        assert found(address) == CALM


def test_the_questions_of_the_page(database: str) -> None:
    """Those about anomalies and shadows can be asked, and find something."""
    text = PAGE.read_text().partition("\n## What goes wrong?")[2]
    questions = re.findall(r"    SELECT .*?;\n", text, re.DOTALL)
    assert len(questions) == 6
    diary = starving()
    diary.minute = 10
    diary.is_refused("huge")
    diary.write(database, "starving")
    evicted_again(3, 5).write(database, "evicted")
    wasted = nominated_again(3, 5)
    wasted.goes("web-0", "web-1", "web-2", "boss")
    wasted.write(database, "wasted")
    compared_once().write(database, "shadow")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("SET search_path = eventsched; SET ROLE eventsched_reader")
        for question in questions:
            assert connection.execute(question.encode()).fetchall(), question
