"""The page What-if over an API whose answers are given: its forms, and events with progress."""

import json
import re
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

import pytest
from starlette.types import Message, Receive, Scope, Send

from eventsched.pages.screen_questions.what_if_question import difference_page
from tests.unit.pages.given_api import MARKUP, GivenApi, Page, Pages

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
EVENTS = {**FORM, "Accept": "text/event-stream"}
CONFIGURATION = {
    "stream": "live", "head": 90, "begin": 0, "first": 70, "configuration": MARKUP, "plugins": [],
    "profiles": {MARKUP: {"filter": ["NodeAffinity"], "score": ["NodeAffinity=2", f"{MARKUP}=1"]}},
    "known_plugins": ["NodeAffinity", "NodeResourcesFit"],
    "answers_what_ifs": True, "stores_results": False,
}  # fmt: skip
SIDE = {
    "decisions": 5, "placed": 4, "pending": 1,
    "waited": {"p50": 1.0, "p99": 2.0, "mean": 1.0, "max": 2.0}, "preemptions": 2, "evicted": 0,
    "utilization": {MARKUP: {"mean": 0.5, "peak": 0.9}}, "fragmentation": {MARKUP: 0.25},
    "spread": {}, "empty_nodes": [], "unused_nodes": [],
    "samples": [{"seconds": 1.0, "requested": {MARKUP: 0.5}, "waiting": 3}],
}  # fmt: skip
LIFE = {"node": MARKUP, "waited": 1.0, "evicted": False}
RESULT: dict[str, Any] = {
    "stream": "live", "rules": "configuration 0", "loop": "closed", "first": 70, "end": 90,
    "moved": 1, "differing": 2, "before": SIDE, "after": {**SIDE, "pending": 0, "placed": 5},
    "differences": [{
        "namespace": "a", "name": f"b{MARKUP}", "priority": 0, "before": LIFE,
        "after": {"node": "", "waited": None, "evicted": True},
        "reason": {"plugin": "Fit", "text": MARKUP, "position": 71},
    }],
    "causes": {"score": 1, "verdict": 0, "draw": 0, "other": 1}, "warnings": [MARKUP],
    "stored": None,
}  # fmt: skip
TRIAL = {
    "stream": "live", "position": 90, "placed": 1, "pending": 1, "waiting_besides": 2,
    "waiting_placed": 1, "warnings": [], "refusals": [MARKUP], "pods": [
        {"namespace": "a", "name": MARKUP, "node": "n", "evicts": [MARKUP], "message": "",
         "score": 7, "runner_up": MARKUP, "runner_up_score": 6, "feasible": 2, "evaluated": 3,
         "ties": 1},
        {"namespace": "a", "name": "c", "node": "", "evicts": [], "message": MARKUP},
    ],
    "nodes_to_add": [
        {"like": MARKUP, "number": 1, "there_are": 2, "in_its_zone": 1, "allocatable": {}},
    ],
    "no_node_helps": [f"a/{MARKUP}"], "missing_labels": [f"disk={MARKUP}"],
}  # fmt: skip
WRONG = {
    "title": "Bad Request", "status": 400, "detail": "is 3", "where": "from", "remedy": "say 4",
}  # fmt: skip


def _api(**answers: Any) -> GivenApi:
    return GivenApi(**{"configuration": CONFIGURATION, "what-if": RESULT, "try": TRIAL, **answers})


def _post(
    api: GivenApi,
    headers: dict[str, str] = FORM,
    /,
    at: str = "/what-if?stream=live",
    **fields: str,
) -> Page:
    """The page that a browser shows after a form was sent."""
    pages = Pages(api)
    page = pages.get(at, headers, "POST", urlencode(fields).encode())
    if page.status_code != 303:
        return page
    asked = (list(api.asked), list(api.bodies))
    assert page.headers["location"].endswith("#outcome")
    page = pages.get(f"/what-if{page.headers['location'].partition('#')[0]}")
    api.asked, api.bodies = asked  # what the form asked
    return page


def test_another_configuration() -> None:
    api = _api()
    headers = {**FORM, "Sec-Fetch-Site": "same-origin"}
    page = _post(api, headers, ask="what-if", configuration="a: 1\r\n", nodes=" +2xn ", until=" ")
    path, query, passed_on = api.asked[-1]
    assert (path, query) == ("/api/v1/what-if", "stream=live&nodes=%2B2xn&limit=1000")
    assert api.bodies[-1] == b"a: 1\n"
    assert passed_on[b"sec-fetch-site"] == b"same-origin"
    assert (page.status_code, page.headers["cache-control"]) == (200, "no-cache")
    assert "1 pod would be on another node; 1 differs otherwise." in page.text
    assert "1 by a score" in page.text
    assert "<textarea" in page.text
    assert "a: 1\n</textarea>" in page.text
    assert "/pods/a/b%3C%2Fscript" in page.text
    assert "/decisions/71?stream=live" in page.text
    assert "POST /api/v1/what-if?stream=live&amp;nodes=%2B2xn" in page.text
    assert (
        "eventsched replay --what-if config.yaml --from=70 --nodes=+2xn --stream live" in page.text
    )
    assert "alert(1)" in page.text
    assert "<script>alert" not in page.text


def test_an_emptied_configuration_stays_empty() -> None:
    api = _api()
    page = _post(api, ask="what-if", configuration="", nodes="-n")
    assert api.bodies[-1] == b""
    assert "replay --what-if --from=70 --nodes=-n" in page.text
    assert 'describedby="configuration-note check">\n</textarea>' in page.text


CHECKED = {
    "problems": [], "warnings": [MARKUP], "profiles": {"default-scheduler": {"score": [MARKUP]}},
}  # fmt: skip
PROBLEM = {"where": "profiles[0]", "problem": MARKUP, "remedy": "say 4"}


def test_usual_changes_fill_the_form_and_are_checked() -> None:
    api = _api(check=CHECKED)
    fields: dict[str, Any] = {"plugin": "NodeAffinity", "weight": "7"}
    fields |= {"like": MARKUP, "without": "n2"}
    page = _post(api, ask="change", configuration="kind: a\r\n", until="80", **fields)
    assert api.asked[-1][:2] == ("/api/v1/configuration/check", "")
    assert b"weight: 7" in api.bodies[-1]
    assert "The configuration is filled in" in page.text
    assert "name: NodeAffinity\n        weight: 7\n</textarea>" in page.text
    assert 'name="until" value="80"' in page.text
    assert "|-n2" in page.text
    assert "<script>alert" not in page.text
    wrong = {**CHECKED, "problems": [PROBLEM], "profiles": {}}
    page = _post(_api(check=wrong), ask="change", configuration="", **fields)
    assert "<strong>profiles[0]:</strong> " in page.text
    assert "<script>alert" not in page.text


def test_usual_changes_that_are_typed_are_decided_with() -> None:
    """Else the answer would be about another configuration than the fields say."""
    api = _api(**{"what-if": {**PROBLEM, "status": 400, "title": "Bad Request", "detail": "no"}})
    fields = {"plugin": "NodeAffinity", "weight": "7", "without": "n2"}
    page = _post(api, ask="what-if", configuration="kind: a", until="80", **fields)
    path, query, _ = api.asked[-1]
    assert (path, parse_qs(query)["nodes"]) == ("/api/v1/what-if", ["-n2"])
    assert b"weight: 7" in api.bodies[-1]
    assert "weight: 7\n</textarea>" in page.text
    page = _post(_api(), ask="what-if", plugin="Nothing", weight="7", configuration="")
    assert "Nothing is not known" in page.text
    assert 'name="plugin" value="Nothing"' in page.text


def test_an_unknown_plugin_is_refused_at_its_field() -> None:
    """It is not written into the configuration, so that the next try is about the right one."""
    api = _api(check=CHECKED)
    fields = {"ask": "change", "configuration": "kind: a\n", "weight": "7", "like": "n1"}
    page = _post(api, plugin="NodeResourceFit", **fields)
    assert page.status_code == 400
    assert "/api/v1/configuration/check" not in [path for path, _, _ in api.asked]
    assert page.text.count("NodeResourceFit is not known") == 1
    field = page.text.partition('name="plugin"')[2].partition("</label>")[0]
    assert "NodeResourceFit is not known; did you mean NodeResourcesFit?</small>" in field
    [marked] = [each for each in page.text.split("<") if 'aria-invalid="true"' in each]
    assert marked.startswith('input name="plugin" value="NodeResourceFit"')
    assert "kind: a\n</textarea>" in page.text
    for typed in ('name="weight" value="7"', 'name="like" value="n1"'):
        assert typed in page.text
    page = _post(api, plugin="NodeResourcesFit", **fields)
    assert b"name: NodeResourcesFit" in api.bodies[-1]
    assert "The configuration is filled in" in page.text


def test_the_weights_in_force_are_there_without_knowing_them() -> None:
    page = Pages(_api()).get("/what-if").text
    assert ">Node<wbr>Affinity <strong>×&nbsp;2</strong></a></li>" in page
    assert "/what-if?stream=live&amp;plugin=NodeAffinity#usual-changes" in page
    assert "1 plugin filters nodes: NodeAffinity." in page
    assert '<option value="NodeAffinity" label="2">' in page
    assert '<option value="NodeResourcesFit" label="does not run">' in page
    assert "<script>alert" not in page
    unknown = Pages(_api(configuration={**CONFIGURATION, "profiles": {}})).get("/what-if").text
    assert "in force</summary>" not in unknown
    assert '<option value="NodeAffinity"></option>' in unknown


def test_an_address_fills_in_a_usual_change() -> None:
    """In the configuration, too, so that it can be decided with at once."""
    at = f"/what-if?stream=live&plugin=NodeAffinity&weight=7&like={quote(MARKUP)}"
    page = Pages(_api(configuration={**CONFIGURATION, "configuration": ""})).get(at).text
    assert '<details id="usual-changes" open>' in page
    assert 'name="plugin" value="NodeAffinity"' in page
    assert '(in force: 2)</span></span><input name="weight" value="7"' in page
    assert "the weight 7 of NodeAffinity: “Decide again” shows what that would change" in page
    assert "weight: 7\n</textarea>" in page
    assert "<script>alert" not in page
    for unknown in ("/what-if?plugin=Nothing&weight=7", "/what-if?plugin=NodeAffinity"):
        assert "Filled with the one in force. " in Pages(_api()).get(unknown).text
    fields = {"configuration": "kind: a", "plugin": "NodeAffinity", "weight": "7"}
    made = _post(_api(check=CHECKED), at=at, ask="change", **fields).text
    assert 'name="plugin" value=""' in made
    assert "weight: 7\n</textarea>" in made


def test_what_the_text_is_filled_with_is_said_until_it_is_another() -> None:
    assert "Filled with the one in force" in Pages(_api()).get("/what-if").text
    assert "Filled with" in _post(_api(), ask="what-if", configuration=MARKUP).text
    assert "Filled with" not in _post(_api(), ask="what-if", configuration="a: 1").text


@pytest.mark.parametrize("fields", [{"ask": "what-if", "configuration": ""}, {"ask": "try"}])
def test_a_result_says_how_long_it_is_kept(fields: dict[str, str]) -> None:
    words = "has the result only while this server keeps it"
    assert words in _post(_api(), **fields).text
    assert words not in Pages(_api()).get("/what-if").text


def _differing(number: int) -> list[dict[str, Any]]:
    """Pods that differ; their priorities count down."""
    [pod] = RESULT["differences"]
    return [{**pod, "name": f"p{place:03}", "priority": -place} for place in range(number)]


def test_pods_that_differ_have_pages_with_addresses() -> None:
    """Without a script, too: the address has the result, the order and the page."""
    pages = Pages(_api(**{"what-if": {**RESULT, "differences": _differing(120), "differing": 120}}))
    sent = urlencode({"ask": "what-if", "configuration": "a: 1", "until": "80"}).encode()
    address = pages.get("/what-if?stream=live", FORM, "POST", sent).headers["location"]

    def names(at: str) -> list[str]:
        return re.findall(r">a/(p\d+)</a></th>", pages.get(f"/what-if{at}").text)

    first = address.removesuffix("#outcome")
    everything = [f"p{place:03}" for place in range(120)]
    assert names(first) == everything[:25]
    for offset, sort, wanted in (
        (50, "", everything[50:75]), (100, "", everything[100:]),
        (0, "-name", everything[:-26:-1]),
        (100, "priority", everything[19::-1]), (0, "-priority", everything[:25]),
        (120, "", everything[:25]), (0, "-nothing", everything[:25]),
    ):  # fmt: skip
        assert names(f"{first}&sort={sort}&offset={offset}") == wanted
    page = pages.get(f"/what-if{first}&sort=priority&offset=50").text
    assert "<span>51 to 75 of 120</span>" in page
    linked = first.replace("&", "&amp;")
    for link in ("priority&amp;offset=25", "priority&amp;offset=75", "-priority", "name"):
        assert f'href="{linked}&amp;sort={link}#differences"' in page
    assert page.count('aria-sort="ascending"') == 1
    assert "are listed" not in page


def test_pages_of_a_result_that_has_just_come_lead_to_its_address() -> None:
    """The script shows the page that came with the events, which is of another address."""
    result = {**RESULT, "differences": _differing(120), "differing": 1200}
    answer = _post(EventfulApi("result", result), EVENTS, ask="what-if", configuration="")
    page = json.loads(answer.text.partition("event: page\ndata: ")[2])
    address = re.search(r'data-address="([^"]+)"', page)
    assert address is not None
    assert f'href="{address[1]}&amp;offset=25#differences"' in page
    assert "120 of 1\u202f200 are listed, in the order of arrival" in page


def test_a_page_of_pods_that_differ_is_asked_for_with_any_text() -> None:
    pods = _differing(60)
    for offset in ("x", "-1", "60", "9" * 12, "٣"):
        assert difference_page(pods, {"offset": offset}).first == 1
    assert difference_page(pods, {"sort": "why"}).rows == pods[:25]


def test_the_order_of_the_pods_that_differ() -> None:
    api = _api()
    page = _post(api, ask="what-if", configuration="", sort="waited")
    assert api.asked[-1][1] == "stream=live&sort=waited&limit=1000"
    assert '<option value="waited" selected>' in page.text


def test_new_pods() -> None:
    api = _api()
    page = _post(api, ask="try", pods="kind: Pod\r\n", count="2")
    assert api.asked[-1][:2] == ("/api/v1/try", "stream=live&count=2")
    assert api.bodies[-1] == b"kind: Pod\n"
    assert "1 of 2 would be placed." in page.text
    assert "eventsched try -f pods.yaml --count=2 --stream live" in page.text
    assert "<script>alert" not in page.text


def test_a_problem_is_on_the_page() -> None:
    page = _post(_api(**{"what-if": WRONG}), ask="what-if", until="3")
    assert page.status_code == 400
    assert page.text.count("is 3") == 1
    assert "What is wrong is beside the field “From position or time”." in page.text
    assert "Bad Request" not in page.text
    field = page.text.partition('name="from"')[2].partition("</label>")[0]
    assert '<small class="field-problem" id="problem-text">is 3; say 4.</small>' in field
    marked = [each for each in page.text.split("<") if 'aria-invalid="true"' in each]
    assert [each.partition(" value")[0] for each in marked] == ['input name="from"']
    assert 'name="until" value="3"' in page.text


@pytest.mark.parametrize(
    ("ask", "api", "where", "field"),
    [
        ("what-if", "what-if", "configuration: profiles[0]", 'textarea id="configuration"'),
        ("try", "try", "body: Pod default/a: spec", 'textarea id="new"'),
        ("try", "try", "body", 'textarea id="new"'),
        ("try", "try", "count", 'input name="count"'),
    ],
)
def test_a_problem_is_beside_its_field(ask: str, api: str, where: str, field: str) -> None:
    """Once, without the API's name of the field, and with the focus."""
    problem = {**WRONG, "where": where, "detail": f"has {MARKUP}"}
    page = _post(_api(**{api: problem}), ask=ask, configuration="a: 1", pods="b", count="x")
    [marked] = [each for each in page.text.split("<") if 'aria-invalid="true"' in each]
    assert marked.startswith(field)
    assert "problem-text" in marked.partition("aria-describedby=")[2]
    beside = page.text.partition(marked)[2].partition("</small>")[0]
    said = beside.partition('id="problem-text">')[2]
    place = where.partition(": ")[2]
    assert said.startswith(f"{place}: has &lt;" if place else "has &lt;")
    assert said.endswith("; say 4.")
    assert "autofocus" in marked
    assert page.text.count("say 4") == page.text.count("autofocus") == 1


def test_a_problem_of_no_field_is_in_the_outcome() -> None:
    page = _post(_api(**{"what-if": {**WRONG, "where": "the range"}}), ask="what-if", until="3")
    outcome = page.text.partition('id="outcome"')[2]
    assert "autofocus" in outcome.partition(">")[0]
    assert "<strong>the range:</strong> is 3" in outcome


def test_results_are_kept_only_where_the_server_keeps_them() -> None:
    assert 'name="store"' not in Pages(_api()).get("/what-if").text
    keeps = {**CONFIGURATION, "stores_results": True}
    assert 'name="store"' in Pages(_api(configuration=keeps)).get("/what-if").text
    stored = {"stream": "what-if-a", "records": 90, "origin": "x"}
    answers = {"configuration": keeps, "what-if": {**RESULT, "stored": stored}}
    page = _post(_api(**answers), ask="what-if", configuration="", store="what-if-a")
    assert "/pods?stream=what-if-a&amp;ever=true" in page.text
    assert "WHERE stream IN (&#39;live&#39;, &#39;what-if-a&#39;)" in page.text


def test_beside_a_scheduler_there_is_no_form_for_it() -> None:
    beside = {**CONFIGURATION, "answers_what_ifs": False}
    text = Pages(_api(configuration=beside)).get("/what-if").text
    assert 'data-ask="what-if"' not in text
    assert 'data-ask="try"' in text


def test_who_may_not_see_the_configuration_asks_nothing() -> None:
    refused = {"title": "Forbidden", "status": 403, "detail": "no"}
    api = _api(configuration=refused)
    assert _post(api, ask="what-if").status_code == 403
    assert "/api/v1/what-if" not in [path for path, _, _ in api.asked]


@pytest.mark.parametrize(("headers", "body", "status"), [
    ({"Content-Type": "text/plain"}, b"ask=try", 415),
    (FORM, b"ask=%ff", 400), (FORM, "ask=ä".encode(), 400), (FORM, b"&a=1" * 33, 400),
    (FORM, b"x" * ((1 << 20) + 1), 413),
])  # fmt: skip
def test_other_bodies_are_refused(headers: dict[str, str], body: bytes, status: int) -> None:
    api = _api()
    assert Pages(api).get("/what-if", headers, "POST", body).status_code == status
    assert {path for path, _, _ in api.asked} <= {"/api/v1/configuration", "/api/v1/streams"}


class EventfulApi(GivenApi):
    """An API whose what-ifs come as events, in pieces."""

    def __init__(self, kind: str, last: dict[str, Any]) -> None:
        super().__init__(configuration=CONFIGURATION)
        self.pieces = [
            b'event: progress\ndata: {"done":0,"total":0}\n\nevent: prog',
            b'ress\ndata: {"done":1,"total":2}\n\n',
            f"event: {kind}\ndata: {json.dumps(last)}\n\n".encode(),
        ]
        self.left = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["path"].endswith("what-if"):
            await super().__call__(scope, receive, send)
            return
        assert (b"accept", b"text/event-stream") in scope["headers"]
        await receive()
        kind = (b"content-type", b"text/event-stream; charset=utf-8")
        await send({"type": "http.response.start", "status": 200, "headers": [kind]})
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        message: Message = await receive()
        self.left = message["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.mark.parametrize(("kind", "last", "words"), [
    ("result", RESULT, "1 pod would be on another node"), ("problem", WRONG, "is 3"),
])  # fmt: skip
def test_progress_comes_before_the_page(kind: str, last: dict[str, Any], words: str) -> None:
    api = EventfulApi(kind, last)
    answer = _post(api, EVENTS, ask="what-if", configuration="")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-security-policy" in answer.headers
    *progress, page, rest = answer.text.split("\n\n")
    numbers = ((0, 0), (1, 2))
    assert progress == [
        f'event: progress\ndata: {{"done":{done},"total":{total}}}' for done, total in numbers
    ]
    assert page.startswith("event: page\ndata: ")
    assert words in json.loads(page.partition("data: ")[2])
    assert rest == ""
    assert api.left  # the API learns that the client leaves


def test_an_answer_without_events_is_a_page() -> None:
    busy = {"title": "Service Unavailable", "status": 503, "detail": "too many"}
    answer = _post(_api(**{"what-if": busy}), EVENTS, ask="what-if", configuration="")
    assert (answer.status_code, answer.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "too many" in answer.text
