"""The page of a workload or pod group over given answers, and the ways to it."""

from typing import Any

from tests.unit.pages.given_api import MARKUP, GivenApi, client

WORKLOAD = {
    "stream": "live", "kind": "Job", "namespace": "prod", "name": "report", "owners": ["report"],
    "pods": 3, "placed": 1, "nodes": [{"node": "n1", "pods": 1}],
    "next_step": "make room for <b>prod/a</b>",
    "groups": [
        {"pods": 2, "state": "queued", "states": {"backoff": 1, "unschedulable": 1}, "tried": True,
         "plugin": "NodeResourcesFit", "code": "Unschedulable", "reason": "Insufficient cpu",
         "since": "2026-11-25T19:00:00+00:00", "deleting": 0, "examples": ["prod/a", "prod/b"],
         "helps": "another node"}
    ],
}  # fmt: skip
TIMELINE = {
    "stream": "live", "namespace": "prod", "name": "a", "uid": "u", "begin": 0, "end": 1,
    "headline": ["prod/a is bound"], "newest": None, "lanes": [], "pods": [],
    "demands": {"position": 7, "priority": 0, "requests": {}, "node_selector": {},
                "tolerations": [], "others": [], "belongs_to": ["rs/a-1"]},
    "story": [{"position": 1, "at": "2026-11-25T18:00:00+00:00", "text": "arrived"}],
}  # fmt: skip


def text_of(path: str, **more: Any) -> tuple[str, GivenApi]:
    """The text of a page over the answer with other fields, and the API that it asked."""
    api = GivenApi(explain={**WORKLOAD, **more})
    answer = client(api).get(path)
    assert answer.status_code == 200
    return " ".join(answer.text.split()), api


def test_a_workload_by_why_its_pods_wait() -> None:
    text, api = text_of("/workloads/prod/job/report?stream=live")
    assert api.asked[0][:2] == ("/api/v1/workloads/prod/job/report/explain", "stream=live")
    assert "<h1>Job prod/report</h1>" in text
    assert "3 pods: 1 on 1 node, 2 without a node." in text
    assert "Node<wbr>Resources<wbr>Fit: Insufficient cpu" in text
    assert '<a href="/pods/prod/b?stream=live">prod/b</a>' in text
    assert "eventsched explain prod/job/report --stream live" in text
    assert "Members" not in text
    assert 'data-live="false"' in text  # of a group it folds a state
    assert '<a href="?stream=live">ask again</a>' in text
    assert "Next step: make room for &lt;b&gt;<a" in text


def test_nodes_of_the_next_step_lead_to_their_pages() -> None:
    """Those that the story of its first waiting pod names."""
    story = {
        "attempts": [{"refusals": [{"examples": ["old-1"]}]}, {"refusals": [{"examples": ["n7"]}]}],
        "preemption": {"node": "n-5"},
    }
    text, api = text_of(
        "/workloads/prod/job/report?stream=live",
        next_step="label n7 a=old-1 (prod/b has left n-5, it is on n70)", **story,
    )  # fmt: skip
    assert [path for path, *_ in api.asked].count("/api/v1/pods/prod/a/explain") == 1
    _, _, step = text.partition("Next step: ")
    assert step.startswith(
        'label <a href="/nodes/n7?stream=live">n7</a> a=old-1 '
        '(<a href="/pods/prod/b?stream=live">prod/b</a> has left '
        '<a href="/nodes/n-5?stream=live">n-5</a>, it is on n70).'
    )


def test_a_workload_without_a_next_step_asks_for_no_story() -> None:
    _, api = text_of("/workloads/prod/job/report?stream=live", next_step=None)
    assert [path for path, *_ in api.asked if "/pods/" in path] == []


def test_the_time_shown_is_kept_and_the_page_says_that_it_is_about_the_present() -> None:
    text, api = text_of("/workloads/prod/job/report?stream=live&at=5")
    assert "at=" not in api.asked[0][1]
    assert "This page shows the present, not 5:" in text
    kept = "/pods?stream=live&amp;at=5&amp;namespace=prod&amp;owner=report&amp;by=reason"
    assert f'<a href="{kept}">why pods of report waited</a>' in text
    assert '<a href="?stream=live">Back to the present</a>' in text
    text, _ = text_of("/workloads/prod/job/report?stream=live")
    assert "the present, not" not in text
    more = {"kind": "PodGroup", "minimum": 3, "members": [], "why": "it is complete"}
    text, _ = text_of("/workloads/-/group/gang?at=5", **more)
    assert '<a href="/pods?at=5&amp;namespace=prod&amp;by=reason">why pods of prod waited' in text


def test_a_pod_group_with_its_members() -> None:
    members = [{"pod": "prod/a", "node": None}, {"pod": "prod/c", "node": MARKUP}]
    more = {"kind": "PodGroup", "minimum": 3, "members": members, "next_step": "add a node"}
    text, _ = text_of("/workloads/-/group/gang", why=f"its pod {MARKUP} holds it", **more)
    assert "<h1>Pod group prod/report</h1>" in text
    assert "it needs 3 at once" in text
    assert "Next step: add a node." in text
    assert '<li><a href="/pods/prod/a">prod/a</a> <span class="quiet">without a node' in text
    assert MARKUP not in text
    assert "eventsched explain group/gang" in text
    text, _ = text_of("/workloads/-/group/gang", why="it is complete", **{**more, "groups": []})
    assert "All of them are on nodes." in text


def test_the_ways_to_a_group() -> None:
    """By its name alone, with its namespace, and from the page of a pod that is not there."""
    problem = {"status": 400, "title": "Bad Request", "detail": "there is no pod prod/gang"}
    pages = client(GivenApi(timeline=problem, explain={}))
    for path, place in (
        ("/groups/gang", "/workloads/-/group/gang"),
        ("/groups/prod/gang?stream=live", "/workloads/prod/group/gang?stream=live"),
        ("/groups/a%2520b", "/workloads/-/group/a%2520b"),
    ):
        answer = pages.get(path)
        assert (answer.status_code, answer.headers["location"]) == (308, place)
    assert 'href="/workloads/prod/group/gang?stream=live&amp;at=5"' in (
        pages.get("/pods/prod/gang?stream=live&at=5").text
    )
    for at, kept in (("", ""), ("&at=5", "&amp;at=5")):
        page = client(GivenApi(timeline=TIMELINE, explain={"older": [], "attempts": []}))
        text = page.get(f"/pods/prod/a?stream=live{at}").text
        assert f'<a href="/workloads/prod/rs/a-1?stream=live{kept}">rs/a-1</a>' in text
    misspelt = client(GivenApi(timeline=problem, explain=problem)).get("/pods/prod/gang")
    assert "pod group" not in misspelt.text


def test_a_workload_without_pods_now_leads_to_those_of_then() -> None:
    """What the page does not show is in the list of pods; its links keep time and stream."""
    problem = {"status": 404, "title": "Not Found", "detail": "there is no pod", "where": "POD"}
    pages = client(GivenApi(explain=problem))
    text = pages.get("/workloads/prod/rs/app-1?stream=live&at=5").text
    then = "/pods?stream=live&amp;at=5&amp;namespace=prod&amp;owner=rs%2Fapp-1"
    assert f'shows the present, not 5: see <a href="{then}">its pods of then</a>' in text
    assert "As it is now" not in text
    assert '<a href="/?stream=live&amp;at=5">Start page</a>' in text
    text = pages.get("/workloads/prod/rs/app-1").text
    gone = "/pods?ever=true&amp;namespace=prod&amp;owner=rs%2Fapp-1"
    assert f'<a href="{gone}">its pods, also gone ones</a>' in text
    assert "its pods" not in pages.get("/workloads/-/group/gang?at=5").text
    assert '<a href="/?stream=live&amp;at=5">Start page</a>' in (
        pages.get("/nothing?stream=live&at=5").text
    )
