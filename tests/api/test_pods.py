"""Pods, and what is said about one: compared with the views and with what commands print."""

import json
from collections import Counter
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.questions.pods import pod_rows
from tests.api.asking import Client
from tests.postgres.histories import ODD, TIGHT

SORTS = {
    "position": "seq", "since": "since", "waiting": "waiting_since", "attempts": "attempts",
    "node": "node",
}  # fmt: skip
SAME = {
    "position": "seq", "namespace": "namespace", "name": "pod", "state": "state",
    "attempts": "attempts", "plugin": "plugin", "code": "code", "reason": "reason",
    "message": "message", "node": "node", "nominated": "nominated", "owner_kind": "owner_kind",
    "owner_name": "owner_name", "priority": "priority", "profile": "scheduler_name",
    "deleting": "deleting", "decided": "decided_seq",
}  # fmt: skip


def rows_of(logs: str, query: str, *values: object) -> list[dict[str, Any]]:
    with psycopg.connect(logs, row_factory=psycopg.rows.dict_row) as connection:
        return connection.execute(query.encode(), values).fetchall()


def printed(capsys: pytest.CaptureFixture[str], logs: str, *words: str) -> Any:
    capsys.readouterr()
    assert main([*words, "--database", logs]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_pods_that_exist_are_those_of_the_view(client: Client, logs: str) -> None:
    """Field by field; the reason is a failed attempt's."""
    view = rows_of(logs, "SELECT * FROM eventsched.pods_now WHERE stream = %s ORDER BY seq", ODD)
    assert {row["state"] for row in view} >= {"bound"}
    found = [e for page in client.pages(f"/pods?stream={ODD}&sort=position&limit=2", "pods",
                                        "cursor") for e in page]  # fmt: skip
    assert [{name: each[name] for name in SAME} for each in found] == [
        {name: row[column] for name, column in SAME.items()} for row in view
    ]


@pytest.mark.parametrize(("stream", "when"), [(ODD, ""), (ODD, "&at=83"), (TIGHT, "&at=700")])
@pytest.mark.parametrize("sort", SORTS)
def test_orders(client: Client, logs: str, sort: str, stream: str, when: str) -> None:
    """Both ways, over pages; pods that do not wait, or have no node or owner, come last."""
    view = rows_of(logs, "SELECT * FROM eventsched.pods_now WHERE stream = %s", stream)
    if when:
        every = client.get(f"/pods?stream={stream}&limit=1000{when}")["pods"]
        view = [{**each, "seq": each["position"]} for each in every]
    column = SORTS[sort]
    assert any(row[column] for row in view)

    def key(row: dict[str, Any]) -> Any:
        return (row[column], row["seq"])

    for sign in ("", "-"):
        path = f"/pods?stream={stream}&sort={sign}{sort}&limit=2{when}"
        found = [e["position"] for page in client.pages(path, "pods", "cursor") for e in page]
        having = [row for row in view if row[column] is not None]
        left = [row for row in view if row[column] is None]
        ordered = sorted(having, key=key, reverse=sign == "-")
        ordered += sorted(left, key=lambda row: int(row["seq"]), reverse=sign == "-")
        assert found == [row["seq"] for row in ordered]


def test_a_cursor_of_another_order(client: Client) -> None:
    for sort, cursor in (("attempts", "node-1.4"), ("-node", "a"), ("owner", "a.b"), ("", "1.2.3")):
        path = f"/pods?stream={ODD}&sort={sort or '-position'}&cursor={cursor}"
        problem = client.problem(path, 400)
        assert problem.startswith(f"cursor; '{cursor}' is not a place to go on from")


@pytest.mark.parametrize("more", ["", "&state=bound", "&at=83"])
def test_how_many_pods_there_are(client: Client, more: str) -> None:
    """On all pages, if it is asked for; of pods that are gone it is not known."""
    path = f"/pods?stream={ODD}{more}"
    total = len(client.get(f"{path}&limit=1000")["pods"])
    assert total
    assert client.get(f"{path}&limit=1&count=true")["total"] == total
    assert client.get(f"{path}&limit=1")["total"] is None
    assert client.get(f"/pods?stream={ODD}&ever=true&count=true")["total"] is None


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_the_pods_that_were_ever_tried(
    client: Client, logs: str, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row each, by the last attempt, in pages that look at a few attempts only."""
    monkeypatch.setattr(pod_rows, "LOOKED_AT", 40)
    last = rows_of(
        logs, "SELECT DISTINCT ON (pod_uid) pod_uid, seq, outcome FROM eventsched.decisions "
        "WHERE stream = %s ORDER BY pod_uid, seq DESC", stream,
    )  # fmt: skip
    path = f"/pods?stream={stream}&ever=true&limit=9"
    found = [e for page in client.pages(path, "pods", "cursor") for e in page]
    expected = sorted(last, key=lambda row: row["seq"], reverse=True)
    assert [(e["uid"], e["decided"], e["outcome"]) for e in found] == [
        (str(row["pod_uid"]), row["seq"], row["outcome"]) for row in expected
    ]
    exist = rows_of(logs, "SELECT pod_uid FROM eventsched.pods_now WHERE stream = %s", stream)
    there = {str(row["pod_uid"]) for row in exist}
    assert all((each["state"] == "gone") == (each["uid"] not in there) for each in found)


def test_how_long_pods_waited(client: Client, logs: str) -> None:
    """From the first queue to the decision that placed them."""
    expected = rows_of(
        logs, "SELECT d.seq, d.at - min(m.at) AS waited FROM eventsched.decisions d "
        "JOIN eventsched.queue_moves m USING (stream, pod_uid) "
        "WHERE stream = %s AND d.outcome = 'scheduled' GROUP BY d.seq, d.at", TIGHT,
    )  # fmt: skip
    seconds = {row["seq"]: row["waited"].total_seconds() for row in expected}
    found = client.get(f"/pods?stream={TIGHT}&ever=true&limit=1000")["pods"]
    waited = {e["decided"]: e["wait_seconds"] for e in found if e["outcome"] == "scheduled"}
    assert waited == {seq: pytest.approx(seconds[seq]) for seq in waited} != {}


def test_filters(client: Client) -> None:
    every = client.get(f"/pods?stream={ODD}&limit=1000")["pods"]
    for name in ("namespace", "name", "state", "node", "profile", "plugin"):
        for value in {each[name] for each in every} - {None}:
            found = client.get(f"/pods?stream={ODD}&limit=1000&{name}={value}")["pods"]
            assert found == [each for each in every if each[name] == value], (name, value)


@pytest.mark.parametrize("when", ["", "&at=83"])
def test_a_filter_that_no_pod_passes(client: Client, when: str) -> None:
    """Is named, with names like it; not one that only together with another one matches nothing."""
    every = client.get(f"/pods?stream={ODD}&limit=1000{when}")["pods"]
    node = next(each["node"] for each in every if each["node"])
    others = {"namespace": every[0]["namespace"], "node": node, "profile": every[0]["profile"]}
    for name, value in others.items():
        for path in ("/pods?", "/pods/groups?by=owner&"):
            answer = client.get(f"{path}stream={ODD}{when}&{name}={value}x")
            [unmatched] = answer["unmatched"]
            assert (unmatched["filter"], unmatched["value"]) == (name, f"{value}x")
            assert value in unmatched["near"]
            assert client.get(f"{path}stream={ODD}{when}&{name}={value}")["unmatched"] == []
    both = client.get(f"/pods?stream={ODD}{when}&node={node}&state=gated")
    assert (both["pods"], both["unmatched"]) == ([], [])
    plugins = client.get(f"/pods?stream={ODD}{when}&plugin=noderesourcefit")["unmatched"]
    assert [each["filter"] for each in plugins] == ["plugin"]
    other = client.get(f"/pods?stream={ODD}{when}&ever={str(not when).lower()}&namespace=zzz")
    assert [each["filter"] for each in other["unmatched"]] == ["namespace"]


@pytest.mark.parametrize("when", ["", "&at=83", "&ever=true"])
def test_a_part_of_a_name_that_no_pod_has(client: Client, when: str) -> None:
    """Names that some pod has are offered."""
    pod = client.get(f"/pods?stream={ODD}&limit=1{when}")["pods"][0]
    for prefix in ("", f"{pod['namespace']}/"):
        path = f"/pods?stream={ODD}{when}&name_contains={prefix}"
        [unmatched] = client.get(f"{path}{pod['name']}zz")["unmatched"]
        assert unmatched["filter"] == "name_contains"
        assert unmatched["near"]
        for near in unmatched["near"]:
            assert near.startswith(prefix)
            assert client.get(f"/pods?stream={ODD}{when}&name_contains={near}")["pods"]
        assert client.get(f"{path}{pod['name'][:3]}&state=gated")["unmatched"] == []


@pytest.mark.parametrize("name", ["namespace", "node", "profile"])
def test_a_name_in_another_case(client: Client, name: str) -> None:
    pods = client.get(f"/pods?stream={ODD}&limit=1000")["pods"]
    value = next(each[name] for each in pods if each[name])
    [unmatched] = client.get(f"/pods?stream={ODD}&{name}={value.upper()}")["unmatched"]
    assert unmatched["near"] == [value]


@pytest.mark.parametrize(
    "path", ["/pods?", "/pods/groups?by=owner&", "/decisions?", "/evictions?", "/refusals?"]
)
def test_a_range_that_ends_before_it_begins(client: Client, path: str) -> None:
    problem = client.problem(f"{path}stream={ODD}&from=30&until=20", 400)
    assert problem == "from; '30' is after the end of the range ('20'); exchange them"
    assert client.get(f"{path}stream={ODD}&from=20&until=20")


@pytest.mark.parametrize("more", ["", "&ever=true"])
def test_parts_of_names(client: Client, more: str) -> None:
    """In any case, and with a / of namespace/name; no character stands for others."""
    every = client.get(f"/pods?stream={ODD}&limit=1000{more}")["pods"]
    names = [f"{each['namespace']}/{each['name']}" for each in every]
    part = every[0]["name"][1:-1]
    whole = names[0][1:].upper()
    for text, wanted in (
        (part, [name for name in names if part in name.split("/")[1]]),
        (whole, [name for name in names if whole.lower() in name]),
        (every[0]["namespace"] + "/", [n for n in names if n.startswith(every[0]["namespace"])]),
        ("%25", []), ("_", [name for name in names if "_" in name]),
    ):  # fmt: skip
        found = client.get(f"/pods?stream={ODD}&limit=1000{more}&name_contains={text}")["pods"]
        assert [f"{each['namespace']}/{each['name']}" for each in found] == wanted, text


@pytest.mark.parametrize("stream", [ODD, TIGHT])
def test_explain_is_what_the_command_prints(
    client: Client, logs: str, stream: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pods_of = client.get(f"/pods?stream={stream}&ever=true&limit=5")["pods"]
    for pod in pods_of:
        name = f"{pod['namespace']}/{pod['name']}"
        path = f"/pods/{name}/explain?stream={stream}"
        words = ("explain", "--stream", stream, "-o", "json")
        assert client.get(path) == printed(capsys, logs, *words, name)
        of_one = client.get(f"{path}&uid={pod['uid']}&attempt=1")
        assert of_one == printed(capsys, logs, *words, pod["uid"], "--attempt", "1")


def test_why_not_is_what_the_command_prints(
    client: Client, logs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = client.get(f"/decisions?stream={TIGHT}&outcome=unschedulable&limit=1")
    [failed] = page["decisions"]
    name = f"{failed['namespace']}/{failed['pod']}"
    words = ("explain", name, "--stream", TIGHT, "-o", "json", "--why-not", "node-00003")
    attempt = str(failed["attempt"])
    found = client.get(
        f"/pods/{name}/why-not?stream={TIGHT}&node=node-00003&attempt={attempt}"
    )  # fmt: skip
    assert found == printed(capsys, logs, *words, "--attempt", attempt)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("state?node=node-00003", ("state", "--node", "node-00003")),
        ("state?queue=all", ("state", "--queue")),
        ("queue?", ("queue",)),
        ("queue?queue=unschedulable", ("queue", "--queue", "unschedulable")),
    ],
)
def test_states_are_what_the_commands_print(
    client: Client,
    logs: str,
    capsys: pytest.CaptureFixture[str],
    asked: str,
    words: tuple[str, ...],
) -> None:
    found = client.get(f"/{asked}&at=700&limit=1000&stream={TIGHT}")
    assert found.pop("next", None) is None
    counts = found.pop("counts", None)
    if counts is not None:
        assert counts == Counter(each["queue"] for each in found["pods"])
    whole = printed(capsys, logs, *words, "--at", "700", "--stream", TIGHT, "-o", "json")
    assert found == whole


def test_a_whole_state_is_what_the_command_prints(
    client: Client, logs: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its numbers, and its lists in parts."""
    whole = printed(capsys, logs, "state", "--at", "700", "--stream", TIGHT, "-o", "json")
    path = f"/state?stream={TIGHT}&at=700&limit=1000"
    for part in ("nodes", "pods"):
        assert client.get(f"{path}&part={part}")[part] == whole[part]
    counts = {part: len(whole[part]) for part in ("nodes", "pods")}
    assert client.get(path) == whole | counts


def test_the_state_in_pages(client: Client) -> None:
    path = f"/state?stream={TIGHT}&at=700&part=pods&limit=7"
    pods_of = [e["uid"] for page in client.pages(path, "pods", "offset") for e in page]
    whole = client.get(f"/state?stream={TIGHT}&at=700&part=pods&limit=1000")
    assert pods_of == [each["uid"] for each in whole["pods"]]
    assert len(set(pods_of)) == len(pods_of) > 14
    queued = [e for page in client.pages(f"/queue?stream={TIGHT}&at=700&limit=3", "pods", "offset")
              for e in page]  # fmt: skip
    assert queued == client.get(f"/queue?stream={TIGHT}&at=700&limit=1000")["pods"]


def test_what_cannot_be_asked(client: Client) -> None:
    """Unknown pods (with the nearest names), nodes, positions."""
    assert client.problem(f"/pods/default/pod-0/explain?stream={TIGHT}", 404).startswith(
        f"POD; there is no pod default/pod-0 in stream {TIGHT}; did you mean default/pod-0"
    )
    assert client.problem(f"/pods/prod/web/explain?stream={ODD}&attempt=7", 400) == (
        "attempt; there was no attempt 7 for prod/web; there is 1"
    )
    assert client.problem(f"/pods/prod/web/explain?stream={ODD}&uid=a", 400) == (
        "uid; is not one of prod/web; take one of its `older`"
    )
    assert client.problem(f"/state?stream={TIGHT}&at=99999", 400).startswith(
        "at; the log ends at position"
    )
    assert client.problem(f"/state?stream={TIGHT}&at=300&node=node-3", 400).startswith(
        "node; node-3 was not there at that position; did you mean node-000"
    )
    assert client.problem(f"/state?stream={TIGHT}&node=a&pod=b", 400) == (
        "pod; excludes node; leave one of them out"
    )
    assert client.problem(f"/pods?stream={ODD}&cursor=1.x", 400) == (
        "cursor; '1.x' is not a place to go on from; take next of the page before, with the same "
        "sort"
    )
    assert client.problem(f"/pods?stream={ODD}&ever=true&sort=since", 400) == (
        "sort; goes with pods that exist; leave sort out: with ever the pods of the newest "
        "attempts come first"
    )
