"""The page of a decision: counts and tables without a script, and the heat map."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, Watched
from tests.browser.hostile import HOSTILE, MARKUP, NAME
from tests.postgres.histories import ODD, TIGHT

pytestmark = pytest.mark.process


def decided(page: Page, url: str, stream: str, **more: str) -> dict[str, Any]:
    """The newest decision of a stream."""
    path = f"{url}/api/v1/decisions"
    answer = page.request.get(path, params={"stream": stream, "limit": "1", **more}).json()
    found: dict[str, Any] = answer["decisions"][0]
    return found


def opened(page: Page, url: str, position: int, stream: str, more: str = "") -> None:
    """Opens a decision and waits until its heat map is drawn."""
    page.goto(f"{url}/decisions/{position}?stream={stream}{more}")
    expect(page.locator("[data-drawn]")).to_be_visible()


def test_the_tables_without_a_script(watched: Watched, url: str) -> None:
    with watched.page(script=False) as page:
        decision = decided(page, url, TIGHT, outcome="scheduled")
        position = decision["position"]
        page.goto(f"{url}/decisions/{position}?stream={TIGHT}")
        detail = page.request.get(f"{url}/api/v1/decisions/{position}?stream={TIGHT}").json()
        for each in detail["refusals"]:
            row = page.get_by_role("row").filter(has_text=each["reason"]).first
            expect(row).to_contain_text(str(each["nodes"]))
        expect(
            page.get_by_text(f"Chose {decision['node']} with a total of {decision['score']}")
        ).to_be_visible()
        chosen = page.get_by_role("row", name=f"{decision['node']} feasible, rank 1")
        expect(chosen).to_contain_text(str(decision["score"]))
        expect(page.locator("body")).to_have_attribute("data-live", "false")


def test_a_cell_by_keyboard_and_its_numbers(watched: Watched, url: str) -> None:
    with watched.page() as page:
        decision = decided(page, url, TIGHT, outcome="scheduled")
        node, position = decision["node"], decision["position"]
        opened(page, url, position, TIGHT, f"&node={node}")
        path = f"{url}/api/v1/decisions/{position}/verdicts?stream={TIGHT}"
        verdict = page.request.get(path).json()["verdicts"][0]
        assert verdict["node"] == node
        panel = page.locator(".heat-panel")
        expect(panel).to_contain_text("Feasible, rank 1 of ")
        for score in verdict["scores"]:
            row = panel.get_by_role("row", name=score["plugin"])
            weight = score["weighted"] // score["normalized"] if score["normalized"] else None
            expect(row).to_contain_text(str(score["raw"]))
            expect(row).to_contain_text(str(score["weighted"]) if weight is None else f"× {weight}")
        page.locator(".heat-scroller").press("ArrowRight")
        first = panel.get_by_role("row").nth(1).get_by_role("rowheader").inner_text()
        expect(page.locator(".heat-tools ~ .unseen")).to_contain_text(f"{node}, {first}: ")


def test_weighted_scores_add_up(watched: Watched, url: str) -> None:
    """In the table without a script, and in that of the heat map."""
    path = f"{url}/decisions/{{position}}?stream={TIGHT}"
    with watched.page(script=False) as page:
        decision = decided(page, url, TIGHT, outcome="scheduled")
        page.goto(path.format(position=decision["position"]))
        cells = page.get_by_role("row", name=f"{decision['node']} feasible").locator(".number")
        *scores, total = map(int, cells.all_inner_texts())
        assert sum(scores) == total == decision["score"]
        titles = page.locator("#nodes-title ~ div thead .number").all_inner_texts()
        assert all(title.partition(" ×")[2].isdigit() for title in titles[:-1])
    with watched.page() as page:
        opened(page, url, decision["position"], TIGHT)
        page.get_by_role("button", name="Show as a table").click()
        row = page.locator(".heat-table").get_by_role("row", name=f"{decision['node']} (chosen)")
        expect(page.get_by_role("button", name="Next")).to_have_count(0)
        texts = row.get_by_role("cell").all_inner_texts()
        scores = [int(text.partition(" (")[0]) for text in texts if "×" in text]
        assert sum(scores) == decision["score"]


def test_a_node_as_it_was_then(watched: Watched, url: str) -> None:
    """Its free resources and labels before the decision; open for the next node, too."""
    with watched.page() as page:
        decision = decided(page, url, TIGHT, outcome="scheduled")
        node, position = decision["node"], decision["position"]
        opened(page, url, position, TIGHT, f"&node={node}")
        asked = {"stream": TIGHT, "node": node, "at": str(position)}
        state = page.request.get(f"{url}/api/v1/state", params=asked).json()["node"]
        page.get_by_text("Free resources, labels and taints then").click()
        panel = page.locator(".node-then")
        free = state["allocatable"]["pods"] - state["requested"]["pods"]
        pods = panel.get_by_role("row", name="pods")
        expect(pods.get_by_role("cell").first).to_have_text(str(free))
        for key, value in state["labels"].items():
            expect(panel).to_contain_text(f"{key}={value}")
        assert watched.accessibility(page) == []
        names = page.request.get(f"{url}/api/v1/decisions/{position}/columns?stream={TIGHT}")
        other = next(name for name in names.json()["names"] if name != node)
        page.get_by_label("Find a node").fill(other)
        expect(page.locator(".heat-scroller")).to_have_attribute("data-rows", "2")
        page.locator(".heat-scroller").press("End")
        page.locator(".heat-scroller").press("Enter")
        expect(page.locator(".heat-panel h3")).to_have_text(other)
        expect(panel.get_by_role("row", name="pods")).to_be_visible()


def test_groups_open_and_close(watched: Watched, url: str) -> None:
    """The largest group of refusals is open if no node was feasible. A search shows its nodes."""
    with watched.page() as page:
        decision = decided(page, url, TIGHT, outcome="unschedulable")
        opened(page, url, decision["position"], TIGHT)
        scroller = page.locator(".heat-scroller")
        path = f"{url}/api/v1/decisions/{decision['position']}/columns?stream={TIGHT}"
        columns = page.request.get(path).json()
        counts = sorted((each["nodes"] for each in columns["refusals"]), reverse=True)
        expect(scroller).to_have_attribute("data-rows", str(len(counts) + counts[0]))
        scroller.press("Enter")
        expect(scroller).to_have_attribute("data-rows", str(len(counts)))
        scroller.press("Enter")
        expect(scroller).to_have_attribute("data-rows", str(len(counts) + counts[0]))
        page.get_by_label("Find a node").fill(columns["names"][0])
        expect(scroller).to_have_attribute("data-rows", "2")


def test_the_table_says_what_the_picture_shows(watched: Watched, url: str) -> None:
    with watched.page() as page:
        decision = decided(page, url, TIGHT, outcome="unschedulable")
        opened(page, url, decision["position"], TIGHT)
        page.get_by_role("button", name="Show as a table").click()
        path = f"{url}/api/v1/decisions/{decision['position']}/columns?stream={TIGHT}"
        columns = page.request.get(path).json()
        table = page.locator(".heat-table")
        for node, number in zip(columns["names"], columns["verdicts"], strict=True):
            refusal = columns["refusals"][number]
            row = table.get_by_role("row", name=node)
            expect(row).to_contain_text(f"{refusal['code']}: {refusal['reason']}")
        order = columns["filters"]
        plugins = {each["plugin"] for each in columns["refusals"]}
        last = max(plugins, key=order.index)
        early = [each for each in columns["refusals"] if each["plugin"] != last]
        if early:
            node = columns["names"][columns["verdicts"].index(columns["refusals"].index(early[0]))]
            expect(table.get_by_role("row", name=node)).to_contain_text("not evaluated")


def test_why_not_gives_the_remedy(watched: Watched, url: str) -> None:
    with watched.page() as page:
        decision = decided(page, url, TIGHT, reason="Insufficient cpu", outcome="unschedulable")
        path = f"{url}/api/v1/decisions/{decision['position']}/columns?stream={TIGHT}"
        columns = page.request.get(path).json()
        number = [each["reason"] for each in columns["refusals"]].index("Insufficient cpu")
        node = columns["names"][columns["verdicts"].index(number)]
        opened(page, url, decision["position"], TIGHT, f"&node={node}")
        page.get_by_role("button", name=f"Why not {node}?").click()
        pod = f"{url}/api/v1/pods/{decision['namespace']}/{decision['pod']}"
        asked = {"stream": TIGHT, "node": node, "attempt": str(decision["attempt"])}
        answer = page.request.get(f"{pod}/why-not", params=asked).json()
        for change in answer["remedies"][0]:
            expect(page.locator(".heat-panel")).to_contain_text(change["text"])
        items = page.locator(".heat-panel .why-not > ul > li")
        expect(items).to_have_count(len(answer["remedies"]) if answer["remedies"][1:] else
                                    len(answer["remedies"][0]))  # fmt: skip
        assert items.first.evaluate("item => getComputedStyle(item).listStyleType") == "disc"
        expect(page.locator(".heat-panel")).to_contain_text(
            "do one of these:" if answer["remedies"][1:] else "It lands there if you"
        )
        expect(page.locator(".heat-panel .lead")).to_contain_text(
            f"{node} is refused by NodeResourcesFit: Insufficient cpu"
        )
        expect(page.locator(".heat-panel")).to_contain_text("Decided again")


def test_why_not_says_how_many_points_a_node_is_short_of(watched: Watched, url: str) -> None:
    with watched.page() as page:
        path = f"{url}/api/v1/decisions?stream={TIGHT}&outcome=scheduled&limit=100"
        decisions = page.request.get(path).json()["decisions"]
        decision = next(
            each
            for each in decisions
            if each["runner_up"] and each["runner_up_score"] < each["score"]
        )
        node, best = decision["runner_up"], decision["node"]
        opened(page, url, decision["position"], TIGHT, f"&node={node}")
        page.get_by_role("button", name=f"Why not {node}?").click()
        points = decision["score"] - decision["runner_up_score"]
        plural = "" if points == 1 else "s"
        expect(page.locator(".heat-panel .lead")).to_contain_text(
            f"{node} is {points} point{plural} short of {best} in the total: "
        )


def test_a_remedy_by_a_weight_leads_to_a_what_if_with_it(watched: Watched, url: str) -> None:
    with watched.page() as page:
        path = f"{url}/api/v1/decisions?stream={TIGHT}&outcome=scheduled&limit=100"
        for each in page.request.get(path).json()["decisions"]:
            pod = f"{url}/api/v1/pods/{each['namespace']}/{each['pod']}/why-not?stream={TIGHT}"
            asked = f"{pod}&attempt={each['attempt']}&node={each['runner_up']}"
            found = page.request.get(asked).json() if each["runner_up"] else {"remedies": []}
            changes = [change for remedy in found["remedies"] for change in remedy]
            weights = [change for change in changes if change["kind"] == "WeightChanged"]
            if weights:
                break
        opened(page, url, each["position"], TIGHT, f"&node={each['runner_up']}")
        page.get_by_role("button", name=f"Why not {each['runner_up']}?").click()
        page.get_by_role("link", name="what else would it move?").click()
        weight = weights[0]["weight"]
        typed = page.get_by_label("KubeSchedulerConfiguration")
        expect(typed).to_have_value(re.compile(f"weight: {weight}\n"))
        plugin = page.locator("#in-force li", has_text=re.compile(weights[0]["plugin"]))
        expect(plugin).to_contain_text(f"→ ×\u00a0{weight} as typed")
        assert watched.accessibility(page) == []
        page.get_by_label("Until").fill("400")
        page.get_by_role("button", name="Decide again").click()
        expect(page.locator("#outcome")).to_contain_text("What would have been")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_why_not_a_node_by_its_name(watched: Watched, url: str, *, script: bool) -> None:
    """With a script on the page of the decision, which offers its nodes; else on the pod's page."""
    watched.expected = "400 (Bad Request)"  # the API says which nodes there were
    with watched.page(script=script) as page:
        decision = decided(page, url, TIGHT, reason="Insufficient cpu", outcome="unschedulable")
        position, node = decision["position"], "node-00001"
        pod = f"{url}/api/v1/pods/{decision['namespace']}/{decision['pod']}"
        asked = f"stream={TIGHT}&node={node}&attempt={decision['attempt']}"
        answer = page.request.get(f"{pod}/why-not?{asked}").json()
        page.goto(f"{url}/decisions/{position}?stream={TIGHT}")
        if script:
            expect(page.locator("[data-drawn]")).to_be_visible()
        field = page.get_by_label("Node", exact=True)
        field.fill(node)
        if script:
            expect(page.locator(f'datalist option[value="{node}"]')).to_have_count(1)
        page.get_by_role("button", name="Why not this node?").click()
        place = page.locator(".heat-panel" if script else ".remedies")
        for change in answer["remedies"][0]:
            expect(place).to_contain_text(change["text"])
        if not script:
            expect(place).to_contain_text(f"Attempt {decision['attempt']} was decided again")
            return
        assert watched.accessibility(page) == []
        field.fill("nosuch")
        page.get_by_role("button", name="Why not this node?").click()
        expect(place).to_have_text(
            "nosuch was not there at this decision. "
            "There are, among others: node-00000, node-00001, node-00002"
        )
        place.get_by_role("button", name="node-00002", exact=True).click()
        expect(place.get_by_role("heading", level=3)).to_have_text("node-00002")
        field.fill(node.upper())
        page.get_by_role("button", name="Why not this node?").click()
        place.get_by_role("button", name=node, exact=True).click()
        expect(place).to_contain_text(answer["remedies"][0][0]["text"])


def test_feasible_nodes_come_first(watched: Watched, url: str) -> None:
    """In a table always; in the picture with one click, the refused ones stay in groups."""
    with watched.page() as page:
        opened_large(page, url)
        scroller, said = page.locator(".heat-scroller"), page.locator(".heat-tools ~ .unseen")
        scroller.press("Home")
        expect(said).to_contain_text("NodeResourcesFit: Insufficient cpu, closed")
        page.get_by_label("feasible nodes first").check()
        scroller.press("Home")
        expect(said).to_contain_text(f"{FEASIBLE} nodes, feasible, by total, open")
        scroller.press("ArrowDown")
        expect(said).to_contain_text("node-0000, total 300")
        scroller.press("End")
        expect(said).to_contain_text("TaintToleration: untolerated taint, closed")
        page.get_by_label("feasible nodes first").uncheck()
        page.get_by_role("button", name="Show as a table").click()
        first = page.locator(".heat-table tbody tr").first
        expect(first.locator("th")).to_have_text("node-0000")
        expect(page.get_by_label("feasible nodes first")).to_be_hidden()
        page.get_by_role("button", name="Show as a heat map").click()
        expect(page.locator(".heat-table")).to_be_hidden()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_accessible_and_not_too_wide(
    watched: Watched, url: str, size: tuple[int, int], *, dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        decision = decided(page, url, TIGHT, outcome="unschedulable")
        opened(page, url, decision["position"], TIGHT)
        assert watched.accessibility(page) == []
        page.get_by_role("button", name="Show as a table").click()
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_markup_in_names_stays_text(watched: Watched, url: str) -> None:
    with watched.page() as page:
        stream = HOSTILE.replace("/", "%2F")
        decision = decided(page, url, HOSTILE, outcome="unschedulable")
        opened(page, url, decision["position"], stream)
        expect(page.locator("h1")).to_contain_text(NAME)
        scroller = page.locator(".heat-scroller")
        for key in ("Home", "ArrowDown", "Enter"):
            scroller.press(key)
        expect(page.locator(".heat-panel h3")).to_contain_text(MARKUP)
        page.get_by_role("button", name="Show as a table").click()
        expect(page.locator(".heat-table")).to_contain_text(MARKUP)
        assert page.locator("main img").count() == 0


def test_a_decision_is_asked_for_once(watched: Watched, url: str) -> None:
    """What was decided stays so. A pod's page asks again."""
    with watched.page() as page:
        decision = decided(page, url, TIGHT)
        page.clock.install()
        opened(page, url, decision["position"], TIGHT)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.clock.run_for(60_000)
        assert asked == []
        pod = f"{url}/pods/{decision['namespace']}/{decision['pod']}?stream={TIGHT}"
        page.goto(pod)
        with page.expect_request(pod):
            page.clock.run_for(60_000)


def test_few_answers_are_kept_and_none_that_failed(watched: Watched, url: str) -> None:
    """Those of other decisions would stay in memory as long as the tab."""
    with watched.page() as page:
        opened(page, url, decided(page, url, TIGHT)["position"], TIGHT)
        asked = page.evaluate(_COLUMNS_ASKED_FOR)
        assert [call.rpartition("/")[2] for call in asked] == ["a", "b", "c", "a", "bad", "bad"]


_COLUMNS_ASKED_FOR = """async () => {
  const { src } = document.querySelector("script[src$='/decision.js']");
  const { columnsOf } = await import(new URL("node_names.js", src));
  const asked = [];
  window.fetch = async (call) => {
    asked.push(call);
    if (call.endsWith("bad")) throw new Error("no answer");
    return new Response("{}");
  };
  for (const call of ["/a", "/b", "/a", "/b", "/c", "/c", "/b", "/a"]) await columnsOf(call);
  for (const call of ["/bad", "/bad"]) await columnsOf(call).catch(() => {});
  return asked;
}"""


def test_a_position_that_is_no_decision(watched: Watched, url: str) -> None:
    watched.expected = "400 (Bad Request)"
    with watched.page() as page:
        page.goto(f"{url}/decisions/0?stream={ODD}")
        expect(page.locator("main")).to_contain_text("not a decision")


# --- 5,000 nodes ------------------------------------------------------------------------------

NODES, FEASIBLE = 5_000, 2_100
SCORES = ("TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread")
FILTERS = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",
    "NodeResourcesFit", "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone",
    "PodTopologySpread", "InterPodAffinity",
)  # fmt: skip


def large(stream: str, position: int) -> dict[str, Any]:
    """The columns of a decision on 5,000 nodes; of the refused ones two in three are full."""
    totals = [300 * (FEASIBLE - number) // FEASIBLE for number in range(FEASIBLE)]
    values = [100 * (FEASIBLE - number) // FEASIBLE for number in range(FEASIBLE)]
    refused = [0 if number % 3 else 1 for number in range(NODES - FEASIBLE)]
    return {
        "stream": stream, "position": position, "vectors": "all", "filters": list(FILTERS),
        "names": [f"node-{number:04}" for number in range(NODES)], "feasible": FEASIBLE,
        "totals": totals, "ranks": list(range(1, FEASIBLE + 1)),
        "scores": [
            {"plugin": name, "weight": 1, "raw": values, "normalized": values} for name in SCORES
        ],
        "refusals": [
            {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reason": "Insufficient cpu",
             "nodes": refused.count(0)},
            {"plugin": "TaintToleration", "code": "UnschedulableAndUnresolvable",
             "reason": "untolerated taint", "nodes": refused.count(1)},
        ],
        "verdicts": refused,
    }  # fmt: skip


def opened_large(page: Page, url: str) -> None:
    """Opens a decision, as if it were one on 5,000 nodes."""
    position = decided(page, url, TIGHT)["position"]
    body = json.dumps(large(TIGHT, position))
    page.route("**/columns?*", lambda route: route.fulfill(
        body=body, content_type="application/json"
    ))  # fmt: skip
    opened(page, url, position, TIGHT)


def test_five_thousand_nodes(
    watched: Watched, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the rows in view are drawn, wherever it is scrolled to. Prints how long that takes."""
    with watched.page() as page:
        opened_large(page, url)
        page.get_by_label("every plugin").check()
        timed = page.evaluate(_SCROLLED)
        assert timed["columns"] == len(FILTERS)
        assert timed["rows"] == FEASIBLE + 3
        assert timed["most"] < 60
        assert timed["last"] == timed["rows"]
        scroller = page.locator(".heat-scroller")
        scroller.press("Home")
        scroller.press("Enter")
        full = round((NODES - FEASIBLE) * 2 / 3)
        expect(scroller).to_have_attribute("data-rows", str(FEASIBLE + 3 + full))
        drawn = page.locator("[data-drawn]").get_attribute("data-drawn")
    with capsys.disabled():
        print(f"\n5,000 nodes x 12 plugins: shown after {drawn} ms; {timed['frames']} frames while "
              f"scrolling, drawn in {timed['median']:.1f} ms each, {timed['slow']:.1f} ms for one "
              "in twenty")  # fmt: skip


_SCROLLED = """async () => {
  const scroller = document.querySelector(".heat-scroller"), { map, rows } = scroller.heat;
  const times = [];
  let most = 0;
  for (let top = 0; top < scroller.scrollHeight; top += scroller.scrollHeight / 100) {
    scroller.scrollTop = top;
    map.draw();
    times.push(map.drawn.milliseconds);
    most = Math.max(most, map.drawn.last - map.drawn.first);
  }
  scroller.scrollTop = scroller.scrollHeight;
  map.draw();
  times.sort((one, other) => one - other);
  return {
    columns: rows.columns.length, rows: rows.rows.length, most, last: map.drawn.last,
    frames: times.length, median: times[times.length >> 1],
    slow: times[Math.floor(times.length * 0.95)],
  };
}"""
