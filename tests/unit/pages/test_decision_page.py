"""The page of a decision over given answers: a preemption in words, without a script."""

from typing import Any

from tests.unit.pages.given_api import GivenApi, client

DECISION = {
    "position": 7, "at": "2026-11-25T19:00:00+00:00", "namespace": "prod", "pod": "web",
    "uid": "u1", "attempt": 2, "profile": "default-scheduler", "outcome": "unschedulable",
    "node": None, "score": None, "runner_up": None, "runner_up_score": None, "feasible": 0,
    "evaluated": 2, "ties": 0, "plugin": "NodeResourcesFit", "code": "Unschedulable",
    "reason": "Insufficient cpu",
}  # fmt: skip
DETAIL = {
    "stream": "live", "decision": DECISION, "cause": 7, "message": "", "draw": "0",
    "nominated": False, "refusals": [], "waits_until": {}, "vectors": "all", "previous": None,
    "following": None,
}  # fmt: skip
VERDICTS = {"vectors": "all", "columns": [], "nodes": 0, "verdicts": [], "next": None}


def preemption(*victims: str) -> dict[str, Any]:
    """The story of the attempt, with a preemption between equal candidates."""
    rooms = [
        {"node": node, "chosen": node == "n1", "victims": list(victims), "violations": 0,
         "highest": 5, "total": 5, "start": "2026-11-25T18:30:00+00:00"}
        for node in ("n1", "n2")
    ]  # fmt: skip
    return {
        "seq": 8, "node": "n1", "criterion": "first", "nodes": 2, "looked": 2, "candidates": 2,
        "why": "the first of several equal candidates", "compared": rooms, "landed": None,
        "outcome": "waiting",
        "victims": [{"pod": name, "outcome": "is asked to go"} for name in victims],
    }  # fmt: skip


def page(*victims: str, **changed: Any) -> str:
    """The text of the page."""
    story = {"preemption": {**preemption(*victims), **changed}}
    api = GivenApi(**{"7": DETAIL, "verdicts": VERDICTS, "explain": story})
    answer = client(api).get("/decisions/7")
    assert answer.status_code == 200
    return " ".join(answer.text.split())


def test_a_preemption_in_words() -> None:
    """What decided is said, not only named; and the decision is of the past."""
    text = page("prod/low")
    assert "Why n1: the first of several equal candidates." in text
    assert "Among equals it is the first in the order of the search." in text
    low = '<a href="/pods/prod/low">prod/low</a>'
    assert f"So {low} was chosen to leave n1 for it." in text
    assert "to leave n1" not in text.replace("was chosen to leave n1", "")
    assert "The pod has not been placed since." in text
    assert f'>{low}</td><td role="cell" data-label="started"><time' in text
    assert "prod/b</a> were chosen to leave n1" in page("prod/a", "prod/b")


def test_what_became_of_the_pod_after_a_preemption() -> None:
    for outcome, landed, words in (
        ("freed node", "n1", "The pod was placed there afterwards."),
        ("elsewhere", "n2", "The pod was placed on n2 instead: it did not use the node"),
        ("gone", None, "The pod was deleted before it had a node."),
    ):
        assert words in page("prod/low", outcome=outcome, landed=landed)


def test_a_node_is_asked_about_without_a_script() -> None:
    """The form leads to the page of the pod, at this attempt; the names of nodes are not in it."""
    text = page("prod/low")
    form = text.partition('<form class="row why-not"')[2].partition("</form>")[0]
    assert 'action="/pods/prod/web#why-not"' in form
    for name, value in (("uid", "u1"), ("attempt", "2")):
        assert f'<input type="hidden" name="{name}" value="{value}">' in form
    assert 'data-nodes="/decisions/7/columns"' in form
    assert "<option" not in form


def test_the_last_decision_has_the_pods_next_step() -> None:
    """Its lead begins with the refusal that lists name; the step may be about another one."""
    summary: dict[str, Any] = {
        "attempts": 2, "closed_by": "TaintToleration", "next_step": "tolerate <it>",
    }  # fmt: skip
    story: dict[str, Any] = {"preemption": None, "summary": summary}
    api = GivenApi(**{"7": DETAIL, "verdicts": VERDICTS, "explain": story})
    text = " ".join(client(api).get("/decisions/7").text.split())
    closed = "<strong>TaintToleration</strong> alone refuses nodes that are large enough."
    assert f"Insufficient cpu (even without other pods); {closed}" in text
    assert "Next step: tolerate &lt;it&gt;." in text
    summary["attempts"] = 3
    text = client(api).get("/decisions/7").text
    assert "Next step" not in text, "it is about a later attempt"
    assert closed not in text
