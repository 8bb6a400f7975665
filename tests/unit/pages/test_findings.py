"""The pages about findings over given answers: what they ask, show and link to."""

import json
import re
from html import unescape
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

import pytest

from eventsched.pages.page_question import PageRequest
from eventsched.pages.screen_questions import findings_question
from tests.unit.pages.given_api import MARKUP, GivenApi, client

UID = "00000000-0000-0000-0000-000000000001"
UNSEEN = {"namespace": None, "pod": None, "uid": None, "priority": None}
KINDS = ("starving", "unplaceable", "evicted again", "nominated again", "preempted for nothing")
NO_FLUSHES = {"stream": "live", "head": 9, "total": 0, "pods": [], "next": None}
EVICTORS = {"preemptions": 21, "freed_node": 19, "elsewhere": 2, "waiting": 0, "gone": 0}
NO_EVICTIONS = {
    "stream": "live", "head": 9, "evictors": dict.fromkeys(EVICTORS, 0), "preemptions": [],
    "unmatched": [], "next": None,
}  # fmt: skip


def case(
    kind: str, name: str = MARKUP, uid: str = UID, group: str | None = None, **facts: Any
) -> dict[str, Any]:
    at = "2026-11-25T10:00:00+00:00"
    pod = {"namespace": "prod", "pod": name, "uid": uid}
    return {"kind": kind, **pod, "since": at, "seq": 7, "text": f"{kind}: {MARKUP}", "facts": facts,
            "group": group}  # fmt: skip


def anomalies(*cases: dict[str, Any], more: str = "") -> dict[str, Any]:
    counts = {kind: sum(each["kind"] == kind for each in cases) for kind in KINDS}
    kinds = [
        {"kind": kind, "count": counts[kind], "total": counts[kind] + 300 * (kind == more),
         "more": kind == more, "rule": f"rule of {kind} in 1,000", "next_step": f"step for {kind}"}
        for kind in KINDS
    ]  # fmt: skip
    return {"stream": "live", "kinds": kinds, "anomalies": list(cases)}


def test_anomalies_show_thresholds_also_of_what_is_not_there() -> None:
    api = GivenApi(anomalies=anomalies(), flushed=NO_FLUSHES, evictions=NO_EVICTIONS)
    text = client(api).get("/findings?stream=live").text
    for kind in KINDS:
        assert f"rule of {kind} in 1\u202f000" in text
    assert '<section class="card"' in text
    assert text.count('<section class="card"') == 1
    asked = [(path, query) for path, query, _ in api.asked]
    assert ("/api/v1/queue/anomalies", "stream=live&limit=200") in asked
    assert ("/api/v1/queue/flushed", "limit=20&stream=live") in asked
    assert "eventsched queue --anomalies --stream live" in text


def test_examples_lead_to_their_evidence() -> None:
    starving = case("starving", group="reason:A&B/too <small>")
    wasted = case("preempted for nothing", victims=1)
    found = {
        "namespace": "prod", "pod": "late", "uid": UID, "failed": 3, "flushed": 4,
        "flushed_at": "2026-11-25T10:06:00+00:00", "placed": 5, "node": "n1", "waited_seconds": 360,
    }  # fmt: skip
    api = GivenApi(
        anomalies=anomalies(starving, wasted, more="starving"),
        flushed={**NO_FLUSHES, "total": 1, "pods": [found]},
        evictions=NO_EVICTIONS,
    )
    text = unescape(client(api).get("/findings").text)
    assert "<script>alert" not in text.partition('id="answer"')[0].replace(MARKUP, "")
    assert 'href="/pods?group=reason%3AA%26B%2Ftoo+%3Csmall%3E&sort=waiting"' in text
    assert 'href="/findings/evictions?before=8&limit=1"' in text
    for href in ("/decisions/3", "/decisions/5", f"/pods/prod/late?uid={UID}"):
        assert f'href="{href}"' in text
    assert "the longest 1 of 301" in text
    assert 'href="?limit=1000"' in text
    assert "Next step: step for starving." in text
    assert "Next step: step for unplaceable" not in text


def test_pods_of_one_workload_are_one_row() -> None:
    """Each is below it; one alone is its own row, and so are pods without an owner."""
    web = {"owner_kind": "ReplicaSet", "owner_name": "web", "plugin": None}
    cases = [
        *(case("unplaceable", f"web-{n}", f"w{n}", **web) for n in range(3)),
        case("unplaceable", "alone-0", "a", **{**web, "owner_name": "alone"}),
        *(case("unplaceable", f"bare-{n}", f"b{n}", plugin=None) for n in range(2)),
    ]
    again = [case("preempted for nothing", "boss", UID) for _ in range(2)]
    api = GivenApi(
        anomalies=anomalies(*cases, *again), flushed=NO_FLUSHES, evictions=NO_EVICTIONS,
        explain={"summary": {"next_step": f"tolerate {MARKUP}"}},
    )  # fmt: skip
    page = client(api).get("/findings?stream=live").text
    assert "<script>alert" not in page
    text = unescape(page)
    asked = [(path, query) for path, query, _ in api.asked if path.endswith("/explain")]
    assert asked[0] == ("/api/v1/pods/prod/web-0/explain", "uid=w0&stream=live")
    assert [path.split("/")[-2] for path, _ in asked] == ["web-0", "alone-0", "bare-0", "bare-1"]
    section = text.partition('<h2 id="unplaceable">')[2].partition("</section>")[0]
    assert section.count('scope="row">') == 4
    assert "6 in all, by workload" in section
    assert '<a href="/workloads/prod/rs/web?stream=live">prod/ReplicaSet/web</a>' in section
    assert "3 pods" in section
    below = section.partition("<details>")[2].partition("</details>")[0]
    assert [f"prod/web-{n}</a>" in below for n in range(3)] == [True] * 3
    assert section.count("<details>") == 1
    assert section.count(f"Next step: tolerate {MARKUP}.") == 4, "the pods' own"
    assert "ReplicaSet/alone" not in section
    wasted = text.partition('<h2 id="preempted-for-nothing">')[2].partition("</section>")[0]
    assert wasted.count('scope="row">') == 1
    assert "all 2" in wasted
    assert " pods</small>" not in wasted


def test_pods_after_a_flush_are_counted_to_the_end() -> None:
    """Those that are listed are the newest."""
    found = {
        "namespace": "prod", "pod": "late", "uid": UID, "failed": 3, "flushed": 4,
        "flushed_at": "2026-11-25T10:06:00+00:00", "placed": 5, "node": "n1", "waited_seconds": 360,
    }  # fmt: skip
    api = GivenApi(
        anomalies=anomalies(),
        evictions=NO_EVICTIONS,
        flushed={**NO_FLUSHES, "total": 57, "pods": [found], "next": 4},
    )
    text = client(api).get("/findings").text
    assert 'class="number">57</td>' in text
    assert "the newest 1 of 57" in text
    assert 'href="?limit=1000"' in text
    assert "eventsched queue --missed-wake-ups" in text


def test_evictions_of_a_workload_are_under_its_name() -> None:
    """Its pods have other names each time; a pod without a controller is its own. There are pages
    for the kinds of Kubernetes only."""
    web = case("evicted again", owner_kind="Ray", owner_name=f"web{MARKUP}", times=3)
    bare = case("evicted again", owner_kind="Pod", owner_name=MARKUP, times=3)
    api = GivenApi(anomalies=anomalies(web, bare), flushed=NO_FLUSHES, evictions=NO_EVICTIONS)
    page = client(api).get("/findings").text
    assert "<script>alert" not in page
    text = unescape(page)
    assert 'href="/pods?namespace=prod&owner=web' in text
    assert f"prod/Ray/web{MARKUP}" in text
    assert "prod/Pod/" not in text
    assert text.count(f"?uid={UID}") == 2


def test_evictions_name_both_sides_and_hide_pods_of_others() -> None:
    at = "2026-11-25T10:00:00+00:00"
    gone = {"namespace": "prod", "pod": "web", "uid": UID, "priority": 0, "outcome": "gone",
            "gone": 9, "gone_at": at}  # fmt: skip
    hidden = {**UNSEEN, "outcome": "open", "gone": None, "gone_at": None}
    workloads = [
        {"namespace": "prod", "kind": kind, "name": name, "victims": 1, "came": came,
         "placed": placed, "gone": gone, "first": "new" if came else None, "first_node": node,
         "at_least": name in ("g", "h", "i")}
        for kind, name, came, placed, gone, node in (
            ("Job", "a", 0, 0, 0, None), ("Job", "b", 1, 1, 1, "n2"), ("Job", "c", 1, 0, 0, None),
            ("Job", "d", 3, 3, 0, "n2"), ("Job", "e", 3, 1, 1, None), ("Job", "f", 2, 0, 2, None),
            ("Job", "g", 0, 0, 0, None), ("Job", "h", 1, 1, 0, "n2"), ("Job", "i", 3, 2, 0, "n2"),
            (None, None, 0, 0, 0, None),
        )
    ]  # fmt: skip
    rows = [
        {"position": 1234, "at": at, "node": MARKUP, "namespace": "batch", "pod": "boss",
         "uid": UID, "priority": 1000, "decided": 8, "outcome": "elsewhere", "landed_on": "n2",
         "landed": 12, "victims": [gone, hidden], "workloads": workloads},
        {"position": 5, "at": at, "node": "n", **UNSEEN, "decided": None, "outcome": None,
         "landed_on": None, "landed": None, "victims": [gone], "workloads": []},
    ]  # fmt: skip
    answer = {**NO_EVICTIONS, "evictors": EVICTORS, "preemptions": rows, "next": 5}
    api = GivenApi(evictions=answer)
    text = unescape(client(api).get("/findings/evictions?namespace=prod&limit=2&token=x").text)
    words = re.sub("<[^>]*>", "", " ".join(text.split()))
    for fate in ("Job/a since then: no new pod", "Job/b since then: new on n2, gone",
                 "Job/c since then: new without a node",
                 "Job/d since then: 3 new pods, all placed",
                 "Job/e since then: 3 new pods, 1 placed, 2 not; 1 of them is gone",
                 "Job/f since then: 2 new pods, none placed; 2 of them are gone",
                 "Job/g since then: no new pod among those that were looked at",
                 "Job/h since then: at least 1 new pod, all placed",
                 "Job/i since then: at least 3 new pods, 2 placed, 1 not",
                 "1 without an owner: nothing replaces it"):  # fmt: skip
        assert fate in words
    assert 'href="/pods?namespace=prod&owner=Job%2Fe&ever=true' in text
    assert 'href="/pods?namespace=prod&owner=Job%2Fd&sort=-position' in text
    then = unescape(client(api).get("/findings/evictions?at=5").text)
    for path in ("/pods?at=5&namespace=prod&owner=Job%2Fe&sort=-position", "/pods/prod/new?at=5"):
        assert path in then
    assert "since then up to the time shown" in then
    assert api.asked[0][:2] == ("/api/v1/evictions", "namespace=prod&limit=2")
    assert f'href="/pods/batch/boss?uid={UID}"' in text
    assert 'href="/decisions/8"' in text
    assert text.count("a pod of another namespace") == 2
    assert (text.count(">priority 1000<"), text.count(">priority 0<")) == (1, 2)
    assert "still there" in text
    assert 'href="?namespace=prod&token=x&before=5"' in text
    data = json.loads(text.partition('id="answer">')[2].partition("</script>")[0])
    assert data["next"] == 5
    assert 'placed on <a href="/decisions/12">n2</a> instead' in " ".join(text.split())


def test_evictions_without_one_say_which_filter_is_the_cause() -> None:
    near = {"filter": "namespace", "value": MARKUP, "near": ["store"], "others": []}
    answer = {**NO_EVICTIONS, "unmatched": [near]}
    path = f"/findings/evictions?namespace={quote(MARKUP)}&before=7"
    page = client(GivenApi(evictions=answer)).get(path).text
    assert "<script>alert" not in page.partition('id="answer"')[0]
    text = " ".join(re.sub("<[^>]*>", "", page).split())
    assert "none of the preemptions looked at has it. Did you mean store?" in text
    assert 'href="?namespace=store"' in page


def test_what_became_of_the_evictors() -> None:
    """Of each preemption in words, and of all in numbers that lead to those that went elsewhere."""
    each = {"position": 5, "at": "2026-11-25T10:00:00+00:00", "node": "n1", "namespace": "batch",
            "pod": "boss", "uid": UID, "priority": 9, "decided": 4, "victims": [],
            "workloads": []}  # fmt: skip
    rows = [
        {**each, "outcome": outcome, "landed_on": node, "landed": landed}
        for outcome, node, landed in (
            ("freed node", "n1", 7), ("waiting", None, None), ("gone", None, None)
        )
    ]  # fmt: skip
    given = {**NO_EVICTIONS, "evictors": EVICTORS, "preemptions": rows}

    def page(query: str = "") -> str:
        text = unescape(client(GivenApi(evictions=given)).get(f"/findings/evictions{query}").text)
        return " ".join(text.partition('id="answer"')[0].split())

    text = page("?node=n1")
    assert "19 of 21 went to the node that they freed; " in text
    assert '<a href="?node=n1&outcome=elsewhere">2 placed elsewhere</a>.' in text
    for words in (
        '<a href="/decisions/7">on the freed node</a>', "still waiting</td>",
        "gone before it had a node</td>",
    ):  # fmt: skip
        assert words in text
    assert "Show all" not in text
    assert '<a href="?node=n1">Show all</a>' in page("?node=n1&outcome=elsewhere")
    assert "19 of 21" not in page("?before=5")  # it would be of a part


def test_findings_say_how_many_evictors_went_elsewhere() -> None:
    """Also if their victims left too late for a preemption for nothing."""
    given = {**NO_EVICTIONS, "evictors": EVICTORS}
    api = GivenApi(anomalies=anomalies(), flushed=NO_FLUSHES, evictions=given)
    text = unescape(client(api).get("/findings?stream=live").text)
    rows = text.partition("Preempted for nothing</th>")[2].split('<tr role="row">')
    row = rows[1].partition("</tr>")[0]
    href = "/findings/evictions?stream=live&outcome=elsewhere"
    assert f'<a href="{href}">Evictor placed elsewhere</a>' in row
    assert 'class="number">2</td>' in row
    assert "of 21 preemptions" in row


def test_refusals_lead_to_the_pods_and_the_newest_decision() -> None:
    reason = {"codes": ["Unschedulable", "Other"], "reason": "Insufficient cpu", "attempts": 3,
              "failed": 2, "first": 2, "nodes": 40, "newest": 17,
              "group": "reason:NodeResourcesFit/Insufficient cpu"}  # fmt: skip
    fit = {"plugin": "NodeResourcesFit", "attempts": 3, "failed": 2, "first": 2, "nodes": 40,
           "reasons": [reason]}  # fmt: skip
    answer = {
        "stream": "live", "head": 99, "begin": 1, "end": 50, "attempts": 4, "failed": 2, "next": 1,
        "since": "2026-11-25T10:00:00+00:00", "until": "2026-11-25T11:00:00+00:00",
        "plugins": [fit, {**fit, "plugin": None}], "unmatched": [],
    }  # fmt: skip
    text = unescape(client(GivenApi(refusals=answer)).get("/findings/refusals?namespace=a").text)
    assert 'href="/pods?plugin=NodeResourcesFit&namespace=a&sort=waiting"' in text
    wanted = "plugin=NodeResourcesFit&reason=Insufficient+cpu&namespace=a&sort=waiting"
    assert f'href="/pods?{wanted}"' in text
    first = "group=reason%3ANodeResourcesFit%2FInsufficient+cpu&namespace=a&sort=waiting"
    assert f'<a href="/pods?{first}">Insufficient cpu</a>' in text
    assert 'href="/decisions/17"' in text
    assert f'Unschedulable or Other, <a href="/pods?{wanted}">' in text
    assert 'href="?namespace=a&until=1"' in text
    above, _, table = text.partition('<table class="refusals')
    assert "one refusal is named first: one that room on nodes would lift" in above
    assert "named first" not in table.partition("</thead>")[2].replace('"Named first"', "")
    assert ">Node refusals</th>" in table


def test_a_reason_that_is_never_named_first_leads_only_to_all_pods_refused_so() -> None:
    reason = {"codes": ["Unschedulable"], "reason": "full", "attempts": 3, "failed": 2,
              "first": 0, "nodes": 40, "newest": 17, "group": "reason:A/full"}  # fmt: skip
    fit = {"plugin": "A", "attempts": 3, "failed": 2, "first": 0, "nodes": 40,
           "reasons": [reason]}  # fmt: skip
    answer = {
        "stream": "live", "head": 99, "begin": 1, "end": 50, "attempts": 4, "failed": 2, "next": 1,
        "since": "2026-11-25T10:00:00+00:00", "until": "2026-11-25T11:00:00+00:00",
        "plugins": [fit], "unmatched": [],
    }  # fmt: skip
    text = unescape(client(GivenApi(refusals=answer)).get("/findings/refusals").text)
    assert "group=" not in text
    assert 'href="/pods?plugin=A&reason=full&sort=waiting"' in text


def refusing(**values: Any) -> str:
    """The page of the nodes with a refusal, without markup except for links."""
    reason = {"codes": ["Unschedulable"], "reason": MARKUP, "attempts": 3, "failed": 2, "first": 0,
              "nodes": 40, "newest": 17, "group": "g"}  # fmt: skip
    counts = {"attempts": 3, "failed": 2, "first": 0, "nodes": 40}
    answer = {
        "stream": "live", "head": 99, "begin": 1, "end": 50, **counts, "next": None,
        "since": "2026-11-25T10:00:00+00:00", "until": "2026-11-25T11:00:00+00:00",
        "plugins": [{"plugin": "A", **counts, "reasons": [reason, {**reason, "reason": "b"}]}],
        "unmatched": [],
    }  # fmt: skip
    found = {
        "plugin": "A", "reason": MARKUP, "attempts": 9, "known": 7, "count": 2, "always": 1,
        "since": "2026-11-25T10:00:00+00:00", "until": "2026-11-25T11:00:00+00:00",
        "nodes": [{"node": MARKUP, "attempts": 7, "evaluated": 7, "newest": 17},
                  {"node": "n2", "attempts": 1, "evaluated": 3, "newest": 12}], **values,
    }  # fmt: skip
    api = GivenApi(refusals=answer, nodes=found)
    query = urlencode({"namespace": "a", "plugin": "A", "reason": MARKUP, "until": "50"})
    page = client(api).get(f"/findings/refusals?{query}").text
    asked = {path: parse_qs(asked) for path, asked, _ in api.asked}["/api/v1/refusals/nodes"]
    assert asked == {
        "plugin": ["A"], "reason": [MARKUP], "namespace": ["a"], "until": ["50"], "limit": ["100"]
    }  # fmt: skip
    assert "<script>alert" not in page
    return " ".join(unescape(re.sub("<(?!a )[^>]*>", "", page.partition('id="answer"')[0])).split())


def test_the_nodes_that_refuse_most() -> None:
    """A reason leads to them, and a plugin with several; the filters stay."""
    text = refusing()
    assert f"Nodes that A refuses most: {MARKUP}" in text
    assert "In the newest 7 attempts that had this refusal, 2 nodes were refused so; 1 of" in text
    assert "of 2 more attempts the log has no verdicts of single nodes" in text
    for href in ("/nodes/n2", "/decisions/12", "?namespace=a&until=50"):
        assert f'<a href="{href}">' in text or f'<a class="end" href="{href}">' in text
    assert "7 of 7 attempts 1 " in text
    assert '1 of 7 attempts 1 <a href="/nodes/n2">n2 of 3' in text
    assert '<a href="?namespace=a&plugin=A&reason=b&until=50#nodes">nodes' in text
    assert '<a href="?namespace=a&plugin=A&until=50#nodes">nodes' in text
    few = refusing(attempts=1, known=1, count=1, always=1)
    assert "In the newest attempt that had this refusal, 1 node was refused so." in few
    assert "; each of them every time" in refusing(always=2)
    none = {"nodes": [], "known": 0, "count": 0, "always": 0}
    assert "no verdicts of single nodes of these attempts" in refusing(**none)
    assert "None of the attempts looked at had this refusal" in refusing(**none, attempts=0)


def test_refusals_without_an_attempt_say_why() -> None:
    """The filters that are the cause, with names to take instead; the range; or both filters."""
    near = {"filter": "namespace", "value": MARKUP, "near": ["prod", "pro"], "others": []}
    other = {"filter": "profile", "value": "x", "near": [], "others": ["one", "two"]}

    def page(query: str, *unmatched: dict[str, Any]) -> str:
        answer = {"attempts": 0, "plugins": [], "next": None, "unmatched": unmatched}
        text = client(GivenApi(refusals=answer)).get(f"/findings/refusals{query}").text
        assert "<script>alert" not in text
        return " ".join(re.sub("<[^>]*>", "", text).split())

    text = page(f"?namespace={quote(MARKUP)}&profile=x", near, other)
    assert "none of the attempts looked at has it. Did you mean prod or pro?" in text
    assert (
        "Profile x: none of the attempts looked at has it. There are, among others, one, two."
        in (text)
    )
    assert "There was no attempt from 3 before 5." in page("?from=3&until=5")
    assert "No attempt is of namespace a and of profile b" in page("?namespace=a&profile=b")


@pytest.mark.parametrize("path", ["/findings", "/findings/evictions", "/findings/refusals"])
def test_the_navigation_knows_where_one_is(path: str) -> None:
    answers = {
        "anomalies": anomalies(), "flushed": NO_FLUSHES,
        "evictions": NO_EVICTIONS,
        "refusals": {"attempts": 0, "plugins": [], "next": None, "unmatched": []},
    }  # fmt: skip
    text = client(GivenApi(**answers)).get(path).text
    current = "page" if path == "/findings" else "true"
    assert f'<a href="/findings" aria-current="{current}">Findings</a>' in text
    assert f'<a class="button" href="{path}" aria-current="true">' in text


def test_the_time_shown_is_kept() -> None:
    """Evictions and refusals end there, unless the form says otherwise; the navigation keeps it."""
    answers = {
        "anomalies": anomalies(), "flushed": NO_FLUSHES, "now": {"status": 404},
        "evictions": NO_EVICTIONS,
        "refusals": {"attempts": 0, "plugins": [], "next": None, "unmatched": []},
    }  # fmt: skip
    for path, asked in (
        ("/findings?at=5", "limit=200&at=5"), ("/findings/evictions?at=5", "at=5"),
        ("/findings/refusals?at=5", "until=5"), ("/findings/refusals?at=5&until=3", "until=3"),
    ):  # fmt: skip
        api = GivenApi(**answers)
        text = unescape(client(api).get(path).text)
        assert api.asked[0][1] == asked
        for place in ("/", "/pods", "/findings", "/what-if", "/findings/evictions"):
            assert f'href="{place}?at=5"' in text
        assert 'data-live="false"' in text
        assert "as of 5." not in text
        if "until=3" not in path:
            assert "</time>, position 9" in text
        present = "Anomalies as of" if path == "/findings?at=5" else "Back to the present"
        assert present in text
        assert ("who evicted whom until then" in text) == (path == "/findings?at=5")


def test_help_needs_no_log() -> None:
    text = client(GivenApi()).get("/help").text
    assert 'href="/api/openapi.json"' in text
    assert "UnschedulableAndUnresolvable" in text
    assert 'id="elsewhere"' not in text


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ({"node": "a'b"}, "\nWHERE node = 'a''b' ORDER"),
        ({"stream": "a"}, "evictions ORDER"),
    ],
)
def test_the_same_in_sql(query: dict[str, str], condition: str) -> None:
    question = findings_question.evictions(PageRequest({}, query))
    assert condition in question.sql
    assert question.cli.startswith("eventsched sql ")


def test_positions_of_preemptions_are_not_in_the_view() -> None:
    question = findings_question.evictions(PageRequest({}, {"before": "7"}))
    assert (question.sql, question.cli) == ("", "")
