"""Pods counted by owner, or by the refusal that is named first; and by when they were tried."""

from typing import Any
from urllib.parse import quote

import pytest

from eventsched.api.application import ROOT
from eventsched.output.queues.group_keys import (
    LONGEST_REASON,
    OwnerGroup,
    key_of_refusal,
    read_group,
    reason_group,
)
from eventsched.pages.page_question import PageRequest
from eventsched.pages.screen_questions import pods_question
from eventsched.questions.pods.pod_rows import QUEUES
from tests.api.asking import Client
from tests.api.test_dominant_refusals import NAMED, asking, fenced
from tests.api.test_pods import rows_of
from tests.postgres.histories import ODD, TIGHT

__all__ = ["asking", "fenced"]


def groups_of(client: Client, query: str) -> list[dict[str, Any]]:
    path = f"/pods/groups?{query}&limit=2"
    return [each for page in client.pages(path, "groups", "offset") for each in page]


@pytest.mark.parametrize("by", ["owner", "reason"])
@pytest.mark.parametrize(
    "query", [f"stream={ODD}", f"stream={TIGHT}&at=700", f"stream={ODD}&at=33"]
)
def test_a_group_leads_to_its_pods(client: Client, by: str, query: str) -> None:
    """To all that it counts and to no others, also with another filter."""
    every = client.get(f"/pods?{query}&limit=1000")["pods"]
    for more in ("", f"&state={every[0]['state']}"):
        groups = groups_of(client, f"{query}&by={by}{more}")
        found = []
        for group in groups:
            path = f"/pods?{query}&limit=1000{more}&group={quote(group['key'], safe='')}"
            pods = client.get(path)["pods"]
            assert len(pods) == group["pods"]
            waits = [pod["wait_seconds"] for pod in pods if pod["waiting_since"] is not None]
            assert len(waits) == group["waiting"]
            # Of a simulation in the present the clock stands still.
            if waits and "at" in query:
                assert group["oldest_seconds"] == pytest.approx(max(waits))
            assert (group["oldest_seconds"] is None) == (not waits)
            if by == "owner":
                owner = (group["namespace"], group["owner_kind"], group["owner_name"])
                names = ("namespace", "owner_kind", "owner_name")
                assert all(tuple(pod[name] for name in names) == owner for pod in pods)
            found += [pod["uid"] for pod in pods]
        wanted = [pod["uid"] for pod in every if not more or pod["state"] == every[0]["state"]]
        assert sorted(found) == sorted(wanted)
        assert [each["pods"] for each in groups] == sorted(
            (each["pods"] for each in groups), reverse=True
        )


def test_the_refusal_that_is_named_first(asking: Client) -> None:
    """Not that of most nodes; pods that were placed are a group without a refusal."""
    groups = asking.get("/pods/groups?by=reason")
    assert (groups["count"], groups["pods"], groups["next"]) == (3, 6, None)
    assert {(each["plugin"], each["reason"]): each["pods"] for each in groups["groups"]} == {
        NAMED["lacks"]: 2, NAMED["labelled"]: 1, (None, None): 3,
    }  # fmt: skip
    key = quote("reason:NodeResourcesFit/Insufficient cpu")
    found = asking.get(f"/pods?group={key}")["pods"]
    assert sorted(each["name"] for each in found) == ["lacks", "large"]
    by_owner = asking.get("/pods/groups?by=owner")["groups"]
    assert [(each["owner_name"], each["pods"]) for each in by_owner] == [
        (None, 4), ("web-7f9c8", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("is_past", [False, True])
def test_pods_by_owner(asking: Client, is_past: bool) -> None:
    """Both ways, over pages; those without an owner come last. A name that no pod has leads to the
    names of controllers."""
    when = f"&at={asking.get('/position')['position']}" if is_past else ""
    for sign in ("", "-"):
        path = f"/pods?sort={sign}owner&limit=1{when}"
        found = [each for page in asking.pages(path, "pods", "cursor") for each in page]
        assert [each["owner_name"] for each in found] == ["web-7f9c8"] * 2 + [None] * 4
        for pods in (found[:2], found[2:]):
            places = [each["position"] for each in pods]
            assert places == sorted(places, reverse=sign == "-")
    [unmatched] = asking.get(f"/pods?name_contains=wep-7f9{when}")["unmatched"]
    assert (unmatched["filter"], unmatched["near"]) == ("name_contains", ["web-7f9c8"])


@pytest.mark.parametrize("is_past", [False, True])
def test_a_reason_that_no_pod_has(asking: Client, is_past: bool) -> None:
    """A slip in it, or in one word of it; a plugin in another case."""
    when = f"&at={asking.get('/position')['position']}" if is_past else ""
    path = f"/pods?limit=1{when}&reason="
    for text, near in (("Insuficient cpu", "Insufficient cpu"), ("selectr", "selector")):
        [unmatched] = asking.get(f"{path}{text}")["unmatched"]
        assert (unmatched["filter"], unmatched["value"]) == ("reason", text)
        assert near in unmatched["near"]
        assert asking.get(f"{path}{near}")["pods"]
    assert asking.get(f"{path}insufficient&state=gated")["unmatched"] == []
    [plugin] = asking.get(f"/pods?plugin=noderesourcesfit{when}")["unmatched"]
    assert plugin["near"] == ["NodeResourcesFit"]


@pytest.mark.parametrize("kind", ["deploy", "Deployment", "deployments", "DEPLOYMENT.apps"])
def test_the_kind_of_a_workload_is_as_kubectl_takes_it(asking: Client, kind: str) -> None:
    path = "/workloads/{}/{}/web/explain"
    [namespace] = {each["namespace"] for each in asking.get("/pods?owner=deploy/web")["pods"]}
    found = asking.get(path.format(namespace, kind))
    assert (found["kind"], found["name"], found["pods"]) == ("Deployment", "web", 2)
    words = asking.ask(f"{ROOT}{path.format(namespace, kind)}", accept="text/plain")
    assert (words.status, b"Deployment" in words.body) == (200, True)
    assert asking.problem(path.format(namespace, f"{kind}x"), 400) == (
        f"kind; '{kind}x' is unknown; take one of deploy, job, rs, sts, ds, group"
    )


def test_the_pods_of_a_group_are_counted(asking: Client) -> None:
    for group in asking.get("/pods/groups?by=reason")["groups"]:
        path = f"/pods?group={quote(group['key'])}&limit=1&count=true"
        assert asking.get(path)["total"] == group["pods"]


@pytest.mark.parametrize("is_past", [False, True])
def test_an_owner_with_its_kind(asking: Client, is_past: bool) -> None:
    """As a pod's page writes it; a Deployment has the pods of its ReplicaSets, also by its name
    alone. Names that begin as the wrong one are offered first."""
    when = f"&at={asking.get('/position')['position']}" if is_past else ""

    def answer(owner: str) -> Any:
        return asking.get(f"/pods?owner={owner}{when}")

    named = ("web-7f9c8", "rs/web-7f9c8", "ReplicaSet/web-7f9c8", "replicasets.apps/web-7f9c8")
    for owner in (*named, "web", "deploy/web", "Deployment/web"):
        assert sorted(each["name"] for each in answer(owner)["pods"]) == ["lacks", "large"], owner
    for owner, near in {
        "we": ["web-7f9c8"], "WEB-7": ["web-7f9c8"], "deploy/wep": ["deploy/web"],
        "sts/web-7f9c8": ["rs/web-7f9c8"],
    }.items():  # fmt: skip
        found = answer(owner)
        [unmatched] = found["unmatched"]
        assert (found["pods"], unmatched["filter"], unmatched["value"]) == ([], "owner", owner)
        assert unmatched["near"][:1] == near
    for wrong in ("group/a", "a/b/c", "sts/"):
        assert asking.problem(f"/pods?owner={wrong}{when}", 400) == (
            f"owner; {wrong!r} is not a controller; take its name, or KIND/NAME: deploy/web, "
            "sts/db, job/report"
        )


def test_a_reason_of_now_leads_to_its_pods(asking: Client, client: Client) -> None:
    """To as many as it counts, though others were refused so on a few nodes."""
    pasts = [(client, f"stream={ODD}&at=33"), (client, f"stream={TIGHT}&at=500")]
    for asked, query in ((asking, "stream=fenced"), *pasts):
        reasons = asked.get(f"/now?nodes=false&{query}")["reasons"]
        known = [each for each in reasons if each["plugin"] or each["reason"]]
        assert known
        assert [each for each in reasons if each["group"]] == known
        for each in known:
            path = f"/pods?{query}&limit=1000&group={quote(each['group'], safe='')}"
            pods = [pod for pod in asked.get(path)["pods"] if pod["state"] in QUEUES]
            assert len(pods) == each["pods"]
            assert {(pod["plugin"], pod["reason"]) for pod in pods} == {
                (each["plugin"], each["reason"])
            }


def test_without_a_refusal_there_is_no_group_to_lead_to() -> None:
    """It would be that of pods on nodes."""
    assert key_of_refusal(None, None) is None
    assert key_of_refusal("", "") is None
    assert key_of_refusal(None, "too few") == "reason:/too few"


@pytest.mark.parametrize("when", ["", "&at=1000000"])
def test_the_last_attempt_is_in_a_range(client: Client, when: str) -> None:
    """Also of pods on nodes, at a position, and of those that are gone."""
    query = f"stream={ODD}{when.replace('1000000', '83')}"
    every = client.get(f"/pods?{query}&limit=1000")["pods"]
    tried = sorted(each["decided"] for each in every if each["decided"] is not None)
    low, high = tried[1], tried[-1]
    expected = [seq for seq in tried if low <= seq < high]
    assert 0 < len(expected) < len(tried)
    found = client.get(f"/pods?{query}&from={low}&until={high}&limit=1000")["pods"]
    assert sorted(each["decided"] for each in found) == expected
    groups = client.get(f"/pods/groups?{query}&by=owner&from={low}&until={high}")
    assert groups["pods"] == len(expected)
    if not when:
        path = f"/pods?{query}&ever=true&limit=3"
        gone = [e["decided"] for page in client.pages(path, "pods", "cursor") for e in page]
        low, high = gone[-2], gone[0]
        path = f"{path}&from={low}&until={high}"
        some = [e["decided"] for page in client.pages(path, "pods", "cursor") for e in page]
        assert some == [seq for seq in gone if low <= seq < high] != []


def test_the_page_shows_the_same_in_sql(asking: Client, fenced: str) -> None:
    query = {"by": "owner", "state": "unschedulable", "from": "1", "stream": "fenced"}
    asked = pods_question.question(PageRequest({}, query))
    groups = asking.get(asked.call)["groups"]
    names = ("namespace", "owner_kind", "owner_name", "pods")
    rows = rows_of(fenced, asked.sql)
    assert [{name: row[name] for name in names} for row in rows] == [
        {name: each[name] for name in names} for each in groups
    ] != []  # fmt: skip
    owned = pods_question.question(PageRequest({}, {"owner": "web", "stream": "fenced"}))
    places = {each["position"] for each in asking.get(owned.call)["pods"]}
    assert {row["seq"] for row in rows_of(fenced, owned.sql)} == places != set()
    assert pods_question.question(PageRequest({}, {**query, "from": "10m"})).sql == ""
    assert pods_question.question(PageRequest({}, {**query, "by": "reason"})).sql == ""


def test_what_is_refused(client: Client) -> None:
    own = f"stream={ODD}"
    assert client.problem(f"/pods/groups?{own}", 400).startswith("by; ")
    assert client.problem(f"/pods/groups?{own}&by=node", 400).startswith("by; ")
    for name in ("web", "owner:a/b", "reason:", "kind:a/b"):
        assert "is not the name of a group" in client.problem(f"/pods?{own}&group={name}", 400)
    problem = client.problem(f"/pods?{own}&ever=true&group=owner:prod//", 400)
    assert problem.startswith("group; goes with pods that exist")


@pytest.mark.parametrize(
    "group",
    [
        OwnerGroup("prod", "ReplicaSet", "web"), OwnerGroup("a/b%2F", "%", "c/d"),
        reason_group("Fit", "a/b: c%2F"), reason_group(None, None),
    ],
)  # fmt: skip
def test_names_of_groups(group: Any) -> None:
    assert read_group(group.key) == group


def test_long_reasons_fit_a_request() -> None:
    assert len(reason_group("Fit", 999 * "x").key) < LONGEST_REASON + 20
