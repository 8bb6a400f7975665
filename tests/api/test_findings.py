"""Who evicted whom, which plugins refuse most, and whom only a flush brought to a node, over logs
that are written record by record."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.domain.records import MoveCause, Queue
from eventsched.questions.findings import (
    flushed_pods,
    preemption_rows,
    refusal_counts,
    victim_workloads,
)
from eventsched.questions.pods import pod_rows
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import DatabaseStreams
from tests.api.asking import Client
from tests.api.test_visibility import OneNamespace
from tests.databases import Server, migrate
from tests.postgres.anomalous import FULL, TOO_SMALL, Diary

STREAM = "findings"
OF_STREAM = f"stream={STREAM}"


def written(address: str) -> None:
    """``boss`` evicts three pods of two namespaces, and then one more, which stays; ``late`` is
    placed after a flush."""
    migrate(address)
    diary = Diary("n1", "n2")
    for name, namespace in (("a", "prod"), ("b", "guests"), ("c", "prod"), ("d", "guests")):
        diary.is_placed(diary.arrives(name, namespace=namespace), "n1")
    diary.arrives("boss", priority=9, namespace="guests")
    diary.minute = 1
    diary.preempts("boss", "n1", "a", "b", "c", leaving=("c",))
    diary.goes("a", "c")
    diary.minute = 2
    diary.preempts("boss", "n1", "d")
    diary.is_refused(diary.arrives("late", namespace="prod"), FULL, TOO_SMALL)
    diary.minute = 8
    diary.queued("late", Queue.ACTIVE, MoveCause.FLUSH)
    diary.is_placed("late", "n2")
    diary.write(address, STREAM)


@pytest.fixture(scope="module")
def desk(one_server: Server) -> Iterator[Desk]:
    with one_server.fresh(written) as url, closing(DatabaseStreams(url)) as streams:
        yield Desk(streams, FoldedStates())


@pytest.fixture(scope="module")
def whole(desk: Desk) -> Client:
    """A client that sees everything."""
    return Client(application(desk, OpenGate(local_only=True)))


@pytest.fixture(scope="module")
def prod(desk: Desk) -> Client:
    """A client that sees the namespace prod."""
    return Client(application(desk, OneNamespace()))


def decided(client: Client, pod: str) -> list[int]:
    """The positions of a pod's attempts, the first one first."""
    found = client.get(f"/decisions?{OF_STREAM}&pod={pod}&after=0")["decisions"]
    return [each["position"] for each in found]


def victims(preemption: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (each["namespace"], each["pod"], each["outcome"], each["gone_at"])
        for each in preemption["victims"]
    ]


def test_who_evicted_whom(whole: Client) -> None:
    answer = whole.get(f"/evictions?{OF_STREAM}")
    second, first = answer["preemptions"]
    assert answer["next"] is None
    for preemption in (first, second):
        assert (preemption["namespace"], preemption["pod"]) == ("guests", "boss")
        assert preemption["node"] == "n1"
    assert victims(first) == [
        ("guests", "b", "open", None),
        ("prod", "a", "gone", "1970-01-01T00:01:00+00:00"),
        ("prod", "c", "leaving", "1970-01-01T00:01:00+00:00"),
    ]
    assert victims(second) == [("guests", "d", "open", None)]
    assert [first["decided"], second["decided"]] == decided(whole, "boss")
    assert first["at"] == "1970-01-01T00:01:00+00:00"
    priorities = [each["priority"] for each in first["victims"]]
    assert (first["priority"], priorities) == (9, [0, 0, 0])  # also of those that are gone


def test_what_became_of_the_workloads_of_victims(one_server: Server) -> None:
    """By controller: the pods that came later, also those that are gone, up to a position. What the
    client may not see is left out."""

    def diary(address: str) -> None:
        migrate(address)
        written = Diary("n1", "n2")
        for name, owner in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("alone", "")):
            written.is_placed(written.arrives(name, owner, namespace="prod"), "n1")
        written.is_placed(written.arrives("g1", "a", namespace="guests"), "n1")
        written.arrives("boss", priority=9, namespace="guests")
        written.preempts("boss", "n1", "a1", "a2", "alone", "g1")
        written.goes("a1", "alone", "g1")
        written.arrives("g2", "a", namespace="guests")
        written.is_placed(written.arrives("a3", "a", namespace="prod"), "n2")
        written.preempts("boss", "n1", "a2", "b1")
        written.is_refused(written.arrives("a4", "a", namespace="prod"), FULL)
        written.is_placed(written.arrives("b2", "b", namespace="prod"), "n2")
        written.goes("b2")
        written.goes(written.arrives("untried", "b", namespace="prod"))
        for name in ("other", "another"):
            written.is_placed(written.arrives(name, namespace="prod"), "n2")
        written.write(address, STREAM)

    def found(client: Client, more: str = "") -> list[list[tuple[Any, ...]]]:
        names = ("namespace", "name", "victims", "came", "placed", "gone", "first", "first_node")
        return [
            [tuple(workload[name] for name in names) for workload in preemption["workloads"]]
            for preemption in client.get(f"/evictions?{OF_STREAM}{more}")["preemptions"]
        ]

    with one_server.fresh(diary) as url, closing(DatabaseStreams(url)) as streams:
        desk = Desk(streams, FoldedStates())
        everyone = Client(application(desk, OpenGate(local_only=True)))
        second, first = found(everyone)
        assert sorted(second) == [
            ("prod", "a", 1, 1, 0, 0, "a4", None), ("prod", "b", 1, 1, 1, 1, "b2", "n2"),
        ]  # fmt: skip
        assert sorted(first, key=str) == [
            ("guests", "a", 1, 1, 0, 0, "g2", None), ("prod", "a", 2, 2, 1, 0, "a3", "n2"),
            ("prod", None, 1, 0, 0, 0, None, None),
        ]  # fmt: skip
        seen = found(Client(application(desk, OneNamespace())))
        assert [sorted(each, key=str) for each in seen] == [
            sorted(second), [each for each in sorted(first, key=str) if each[0] == "prod"],
        ]  # fmt: skip
        arrived = everyone.get(f"/pods?{OF_STREAM}&name=a3")["pods"][0]["position"]
        place = decided(everyone, "a3")[0]
        for at, placed in ((arrived, ()), (place, (1, 0)), (place + 1, (1, 1))):
            [then] = found(everyone, f"&at={at}")  # the second preemption is later
            of_a = [each[3:5] for each in then if each[:2] == ("prod", "a")]
            assert of_a == [placed or (0, 0)]
        place = decided(everyone, "b2")[0]
        for at, gone in ((place + 1, 0), (place + 2, 0), (99_999, 1)):
            last = everyone.get("/position?" + OF_STREAM)["position"]
            then = found(everyone, f"&at={min(at, last)}")[0]
            assert [each[3:6] for each in then if each[1] == "b"] == [(1, 1, gone)], at
        _check_lower_bounds(everyone)


def _check_lower_bounds(client: Client) -> None:
    """What is not looked at may be more. Since the first preemption came a3, a4 and g2, which
    exist, and b2, which is gone; with those of boss and two others there were 6 attempts."""
    for name, most, is_cut in (
        ("MOST_LATER", 3, True), ("MOST_LATER", 5, True), ("MOST_LATER", 6, False),
        ("MOST_READ", 1, True), ("MOST_READ", 2, False),
    ):  # fmt: skip
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(victim_workloads, name, most)
            for preemption in client.get(f"/evictions?{OF_STREAM}")["preemptions"]:
                for each in preemption["workloads"]:
                    assert each["at_least"] == (is_cut and each["name"] is not None)


def test_an_owner_has_pods_that_are_gone(
    one_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are found page by page, however few records of arrivals one reads."""

    def diary(address: str) -> None:
        migrate(address)
        written = Diary("n1", "n2")
        written.is_placed(written.arrives("other", "webs", namespace="guests"), "n1")
        for number in range(6):
            name = written.arrives(f"p{number}", "web" if number % 2 else "db", namespace="prod")
            written.is_placed(name, "n1")
        written.goes("p1", "p2", "p3")
        written.is_placed(written.arrives("bare", namespace="prod"), "n2")
        written.goes("bare")
        written.write(address, STREAM)

    with one_server.fresh(diary) as url, closing(DatabaseStreams(url)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        path = f"/pods?{OF_STREAM}&ever=true"
        every = client.get(path)["pods"]
        owners = [(each["name"], each["state"], each["owner_name"]) for each in every]
        assert owners[:3] == [("bare", "gone", None), ("p5", "bound", "web"), ("p4", "bound", "db")]
        wanted = [each for each in every if each["owner_name"] == "web"]
        assert [each["name"] for each in wanted] == ["p5", "p3", "p1"]
        for most in (2_000, 2, 1):
            monkeypatch.setattr(pod_rows, "MOST_READ", most)
            for limit in (1, 2, 100):
                pages = client.pages(f"{path}&owner=web&limit={limit}", "pods", "cursor")
                assert [each for page in pages for each in page] == wanted
        assert client.get(f"{path}&owner=rs/db&state=gone")["pods"][0]["name"] == "p2"
        assert client.get(f"{path}&owner=sts/db")["pods"] == []
        for namespace, near in (("&namespace=prod", ["web"]), ("", ["web", "webs"])):
            [unmatched] = client.get(f"/pods?{OF_STREAM}&owner=we{namespace}")["unmatched"]
            assert unmatched["near"] == near  # of the namespace that is asked for


def test_what_became_of_the_evictor(one_server: Server) -> None:
    """Of those that the client sees, up to the log's end; a page can have one outcome alone."""

    def diary(address: str) -> None:
        migrate(address)
        written = Diary("n1", "n2")
        for name in ("there", "elsewhere", "waits", "gone"):
            victim = f"{name}-victim"
            written.is_placed(written.arrives(victim, namespace="prod"), "n1")
            written.arrives(name, priority=9, namespace="guests" if name == "gone" else "prod")
            written.preempts(name, "n1", victim)
        written.goes("there-victim")
        written.is_refused("there", FULL)
        written.is_placed("there", "n1")
        written.is_placed("elsewhere", "n2")
        written.goes("gone")
        written.write(address, STREAM)

    with one_server.fresh(diary) as url, closing(DatabaseStreams(url)) as streams:
        desk = Desk(streams, FoldedStates())
        everyone = Client(application(desk, OpenGate(local_only=True)))
        answer = everyone.get(f"/evictions?{OF_STREAM}")
        found = {each["pod"]: each for each in answer["preemptions"]}
        assert {pod: (each["outcome"], each["landed_on"]) for pod, each in found.items()} == {
            "there": ("freed node", "n1"), "elsewhere": ("elsewhere", "n2"),
            "waits": ("waiting", None), "gone": ("gone", None),
        }  # fmt: skip
        for pod in ("there", "elsewhere"):
            assert found[pod]["landed"] == decided(everyone, pod)[-1]
            story = everyone.get(f"/pods/prod/{pod}/explain?{OF_STREAM}&attempt=1")
            assert story["preemption"]["outcome"] == found[pod]["outcome"]
            story = everyone.get(f"/pods/prod/{pod}/timeline?{OF_STREAM}")
            unused = "; prod/elsewhere-victim had to leave n1 for it, but it did not use that node"
            assert story["headline"][0].endswith(unused) == (pod == "elsewhere")
        assert answer["evictors"] == {
            "preemptions": 4, "freed_node": 1, "elsewhere": 1, "waiting": 1, "gone": 1
        }  # fmt: skip
        for pod, each in found.items():
            asked = everyone.get(f"/evictions?{OF_STREAM}&outcome={quote(each['outcome'])}")
            assert [one["pod"] for one in asked["preemptions"]] == [pod]
            assert asked["evictors"] == answer["evictors"]
        for pod in ("there", "elsewhere"):
            before, after = (
                everyone.get(f"/evictions?{OF_STREAM}&at={found[pod]['landed'] + later}")
                for later in (0, 1)
            )
            for answer_then, outcome in ((before, "waiting"), (after, found[pod]["outcome"])):
                [then] = [each for each in answer_then["preemptions"] if each["pod"] == pod]
                assert then["outcome"] == outcome
            assert before["evictors"]["waiting"] == after["evictors"]["waiting"] + 1
        own = Client(application(desk, OneNamespace()))
        seen = own.get(f"/evictions?{OF_STREAM}")
        assert seen["evictors"] == {**answer["evictors"], "preemptions": 3, "gone": 0}
        assert len(seen["preemptions"]) == 4
        assert own.get(f"/evictions?{OF_STREAM}&outcome=gone")["preemptions"] == []


def test_evictions_page_by_page(whole: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The victims of one preemption are on one page, however few are looked at."""
    [second, first] = whole.get(f"/evictions?{OF_STREAM}")["preemptions"]
    path = f"/evictions?{OF_STREAM}&limit=1"
    assert list(whole.pages(path, "preemptions")) == [[second], [first]]
    monkeypatch.setattr(preemption_rows, "LOOKED_AT", 1)
    pages = whole.pages(f"/evictions?{OF_STREAM}&namespace=prod", "preemptions")
    assert list(pages) == [[], [first], []]


@pytest.mark.parametrize(
    ("words", "pages"),
    [
        ("namespace=prod", [1]), ("namespace=guests", [2, 1]), ("node=n1", [2, 1]),
        ("node=n2", []), ("from={second}", [2]), ("until={second}", [1]),
        ("until=1970-01-01T00:02:00", [1]), ("before={second}&until=100000", [1]),
    ],
)  # fmt: skip
def test_filters_of_evictions(whole: Client, words: str, pages: list[int]) -> None:
    [second, first] = whole.get(f"/evictions?{OF_STREAM}")["preemptions"]
    wanted = [{1: first, 2: second}[number] for number in pages]
    asked = words.format(second=second["position"])
    assert whole.get(f"/evictions?{OF_STREAM}&{asked}")["preemptions"] == wanted


def test_a_filter_that_no_preemption_passes(whole: Client, prod: Client) -> None:
    """Is named, with names that the client may see."""

    def unmatched(client: Client, query: str) -> Any:
        answer = client.get(f"/evictions?{OF_STREAM}&{query}")
        assert answer["preemptions"] == []
        return answer["unmatched"]

    typo = {"filter": "namespace", "value": "gusets", "near": ["guests"], "others": []}
    assert unmatched(whole, "namespace=gusets") == [typo]
    node = {"filter": "node", "value": "n2", "near": ["n1"], "others": []}
    assert unmatched(whole, "namespace=gusets&node=n2") == [typo, node]
    assert unmatched(prod, "node=n2") == [node]
    assert unmatched(whole, "namespace=guests&outcome=elsewhere") == []
    assert whole.get(f"/evictions?{OF_STREAM}&namespace=guests")["unmatched"] == []


def test_a_client_sees_evictions_with_pods_of_its_own(whole: Client, prod: Client) -> None:
    """And of the others that there were some."""
    [_, first] = whole.get(f"/evictions?{OF_STREAM}")["preemptions"]
    [seen] = prod.get(f"/evictions?{OF_STREAM}")["preemptions"]
    hidden = {"namespace": None, "pod": None, "uid": None, "priority": None}
    own = {"position": first["position"], "at": first["at"], "node": "n1"}
    assert seen == {
        **hidden, **own, "decided": None, "outcome": None, "landed_on": None, "landed": None,
        "victims": [{**first["victims"][0], **hidden}, *first["victims"][1:]],
        "workloads": [each for each in first["workloads"] if each["namespace"] == "prod"],
    }  # fmt: skip
    assert "not yours" in prod.problem(f"/evictions?{OF_STREAM}&namespace=guests", 403)


def test_headlines_name_who_evicted_whom(whole: Client, prod: Client) -> None:
    """On both sides; a victim that was leaving already was not evicted."""

    def timeline(client: Client, pod: str) -> Any:
        return client.get(f"/pods/{pod}/timeline?{OF_STREAM}")

    gone = timeline(whole, "prod/a")
    assert gone["headline"][0].endswith("; it was on n1; guests/boss evicted it")
    assert gone["pods"] == ["guests/b", "guests/boss", "prod/c"]
    assert "evict" not in timeline(whole, "prod/c")["headline"][0]
    assert timeline(whole, "guests/d")["headline"][0].endswith("; guests/boss evicts it")
    step = timeline(whole, "guests/boss")["headline"][1]
    assert step.startswith("Next step: wait until guests/d has left n1")
    hidden = timeline(prod, "prod/a")
    assert hidden["headline"][0].endswith("; a pod of another namespace evicted it")
    assert hidden["pods"] == ["prod/c"]
    summary = whole.get(f"/pods/prod/a/explain?{OF_STREAM}")["summary"]
    assert summary["evicted_by"] == "guests/boss"


def test_which_plugin_refuses_most(whole: Client) -> None:
    """A reason that came with two codes is there once, and an attempt counts once for it."""
    answer = whole.get(f"/refusals?{OF_STREAM}")
    [attempt, _] = decided(whole, "late")
    assert (answer["attempts"], answer["failed"], answer["next"]) == (8, 3, None)
    assert answer["plugins"] == [
        {
            "plugin": "NodeResourcesFit", "attempts": 3, "failed": 3, "first": 3,
            "nodes": 4,
            "reasons": [
                {"codes": ["Unschedulable", "UnschedulableAndUnresolvable"],
                 "reason": "Insufficient cpu", "attempts": 3, "failed": 3, "first": 3, "nodes": 4,
                 "newest": attempt, "group": "reason:NodeResourcesFit/Insufficient cpu"},
            ],
        }
    ]  # fmt: skip
    assert answer["since"] == "1970-01-01T00:00:00+00:00"
    assert answer["until"] == "1970-01-01T00:08:00+00:00"


def test_refusals_of_a_part(whole: Client, prod: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a namespace, of what a client may see, and of a range that is looked at in parts."""
    for answer in (
        prod.get(f"/refusals?{OF_STREAM}"), whole.get(f"/refusals?{OF_STREAM}&namespace=prod")
    ):  # fmt: skip
        assert (answer["attempts"], answer["failed"]) == (4, 1)
        assert [each["nodes"] for each in answer["plugins"]] == [2]
    assert "not yours" in prod.problem(f"/refusals?{OF_STREAM}&namespace=guests", 403)
    assert whole.get(f"/refusals?{OF_STREAM}&profile=other")["attempts"] == 0
    monkeypatch.setattr(refusal_counts, "LOOKED_AT", 3)
    parts = [whole.get(f"/refusals?{OF_STREAM}")]
    while parts[-1]["next"] is not None:
        parts.append(whole.get(f"/refusals?{OF_STREAM}&until={parts[-1]['next']}"))
    assert [each["attempts"] for each in parts] == [3, 3, 2]
    assert [each["failed"] for each in parts] == [2, 1, 0]


def test_a_filter_that_no_attempt_passes(whole: Client, prod: Client) -> None:
    """Is named, with names that the client may see; not one that only together with another one
    matches nothing."""

    def unmatched(client: Client, query: str) -> Any:
        answer = client.get(f"/refusals?{OF_STREAM}&{query}")
        assert answer["attempts"] == 0
        return answer["unmatched"]

    typo = {"filter": "namespace", "value": "guest", "near": ["guests"], "others": []}
    assert unmatched(whole, "namespace=guest") == [typo]
    other = {"filter": "profile", "value": "zzz", "near": [], "others": ["default-scheduler"]}
    assert unmatched(whole, "namespace=guest&profile=zzz") == [typo, other]
    assert unmatched(whole, "namespace=guests&profile=zzz") == [other]
    assert unmatched(prod, "namespace=prod&profile=zzz") == [other]
    assert unmatched(whole, "namespace=guest&until=1") == []
    assert whole.get(f"/refusals?{OF_STREAM}&namespace=guests")["unmatched"] == []


def test_whom_only_a_flush_brought_to_a_node(
    whole: Client, prod: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    [failed, placed] = decided(whole, "late")
    [found] = whole.get(f"/queue/flushed?{OF_STREAM}")["pods"]
    assert (found["namespace"], found["pod"], found["node"]) == ("prod", "late", "n2")
    assert (found["failed"], found["placed"], found["waited_seconds"]) == (failed, placed, 360)
    assert failed < found["flushed"] < placed
    assert prod.get(f"/queue/flushed?{OF_STREAM}")["pods"] == [found]
    assert whole.get(f"/queue/flushed?{OF_STREAM}")["total"] == 1
    assert whole.get(f"/queue/flushed?{OF_STREAM}&before=1")["total"] == 0
    monkeypatch.setattr(flushed_pods, "LOOKED_AT", 1)
    pages = whole.pages(f"/queue/flushed?{OF_STREAM}", "pods")
    assert [each for page in pages for each in page] == [found]


def test_pods_of_flushes_page_by_page(one_server: Server) -> None:
    """The newest flush first; the last page says that it is the last."""

    def diary(address: str) -> None:
        migrate(address)
        written = Diary("n1")
        for name in ("a", "b", "c"):
            written.is_refused(written.arrives(name))
            written.queued(name, Queue.ACTIVE, MoveCause.FLUSH)
            written.is_placed(name, "n1")
        written.write(address, STREAM)

    with one_server.fresh(diary) as url, closing(DatabaseStreams(url)) as streams:
        client = Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
        for limit, pages in ((1, ["c", "b", "a"]), (2, ["cb", "a"]), (3, ["cba"])):
            found = client.pages(f"/queue/flushed?{OF_STREAM}&limit={limit}", "pods")
            assert ["".join(each["pod"] for each in page) for page in found] == pages
        assert client.get(f"/queue/flushed?{OF_STREAM}&limit=1")["total"] == 3


def test_a_log_without_any(whole: Client) -> None:
    """Before its first attempt."""
    assert whole.get(f"/evictions?{OF_STREAM}&until=1")["preemptions"] == []
    assert whole.get(f"/refusals?{OF_STREAM}&until=1")["plugins"] == []
    assert whole.get(f"/queue/flushed?{OF_STREAM}&before=1")["pods"] == []
