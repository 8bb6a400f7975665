"""The page Now."""

import json

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.browser.conftest import NARROW, WIDE, Watched
from tests.postgres.histories import ODD, TIGHT

pytestmark = pytest.mark.process


UNNAMED = """() => {
  const map = document.getElementById("nodes");
  const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
  const drawn = new Set();
  for (let at = 0; at < data.length; at += 4) {
    if (data[at + 3] === 255) drawn.add(`rgb(${data[at]}, ${data[at + 1]}, ${data[at + 2]})`);
  }
  const known = [...document.querySelectorAll("#node-legend .fill")]
    .map((each) => getComputedStyle(each).backgroundColor);
  if (!drawn.size) throw new Error("nothing is drawn");
  return [...drawn].filter((colour) => !known.includes(colour));
}"""
"""The colours of the map that the legend does not have."""


def test_what_waits_and_why(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}/?stream={ODD}")
        figures = page.locator(".figures")
        expect(figures).to_contain_text("Pending pods")
        answer = page.request.get(f"{url}/api/v1/now?stream={ODD}").json()
        expect(figures).to_contain_text(f"of {answer['pods']} pods")
        expect(figures).to_contain_text(f"last {answer['waits']['pods']} placed")
        for state in answer["states"]:
            row = page.get_by_role("row", name=state["state"])
            expect(row.first).to_contain_text(str(state["pods"]))
        page.get_by_text("The same answer elsewhere").click()
        expect(page.get_by_text(f"GET /api/v1/now?stream={ODD}")).to_be_visible()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_the_pending_pods_are_as_many_as_their_list(
    watched: Watched, url: str, script: bool
) -> None:
    with watched.page(script=script) as page:
        for shown in (f"{TIGHT}&at=500", f"{TIGHT}&at=900"):
            page.goto(f"{url}/?stream={shown}")
            number = page.locator(".figures div").first.get_by_role("link")
            count = int(number.inner_text())
            assert count > 0
            number.click()
            expect(page.locator('#filters [name="state"]')).to_have_value("pending")
            expect(page.locator("#pods tbody th")).to_have_count(count)


def test_states_and_reasons_are_cards_on_a_narrow_screen(watched: Watched, url: str) -> None:
    with watched.page(size=NARROW) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=500")
        for name in ("Pods by state, table", "Why pods wait, table"):
            place = page.get_by_role("region", name=name)
            assert place.evaluate("(place) => place.scrollWidth <= place.clientWidth")
            expect(place.get_by_role("row")).not_to_have_count(0)
        assert watched.accessibility(page) == []


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_reason_leads_to_the_pods_that_it_counts(
    watched: Watched, url: str, script: bool
) -> None:
    with watched.page(script=script) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=500")
        row = page.locator('[data-part="reasons"] tbody tr').first
        count = int(row.locator("td").nth(2).inner_text())
        reason = row.get_by_role("link")
        words = reason.inner_text()
        reason.click()
        expect(page.locator(".chip .name")).to_contain_text(words)
        expect(page.locator("#pods tbody th")).to_have_count(count)


def counts_of(page: Page) -> Locator:
    return page.locator('[data-part="activity"] tbody td:nth-child(2)')


@pytest.mark.parametrize(
    ("size", "dark"), [(WIDE, False), (NARROW, True)], ids=["wide, light", "narrow, dark"]
)
def test_charts(watched: Watched, url: str, size: tuple[int, int], dark: bool) -> None:
    """Drawn from the table, which is what a screen reader has; in other colours drawn again."""
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=700")
        charts = page.locator(".charts .uplot canvas")
        expect(charts).to_have_count(2)
        ink = (
            "() => [...document.querySelectorAll('.charts canvas')].map((each) => each"
            ".getContext('2d').getImageData(0, 0, each.width, each.height).data"
            ".reduce((all, part, place) => (place % 4 === 3 ? all : (all * 31 + part) % 1e9), 7))"
        )
        before = page.evaluate(ink)
        page.locator("#theme-button").click()
        page.locator("#theme-button").click()  # light, then dark
        if dark:
            page.locator("#theme-button").click()
            page.locator("#theme-button").click()  # the system's, then light
        expect(charts).to_have_count(2)
        assert all(old != new for old, new in zip(before, page.evaluate(ink), strict=True))
        page.get_by_text("Decisions and waiting times as a table").click()
        answer = page.request.get(f"{url}/api/v1/activity?stream={TIGHT}&at=700").json()
        expect(counts_of(page)).to_have_text(
            [str(each["decisions"]) for each in answer["steps"][::-1]]
        )
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    with watched.page(script=False) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=700")
        expect(page.locator(".charts")).to_be_hidden()
        page.get_by_text("Decisions and waiting times as a table").click()
        expect(counts_of(page).first).to_be_visible()


def test_no_table_scrolls_sideways_on_a_narrow_screen(watched: Watched, url: str) -> None:
    """Neither that of the charts nor that of the nodes, with what they say."""
    with watched.page(size=NARROW) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=300")
        page.get_by_text("Decisions and waiting times as a table").click()
        for name in ("Decisions and waiting times, table", "Node totals, table"):
            table = page.get_by_role("region", name=name)
            expect(table).to_be_visible()
            assert table.evaluate("(place) => place.scrollWidth <= place.clientWidth")
            rows = table.get_by_role("row").filter(has=page.get_by_role("rowheader"))
            expect(rows).not_to_have_count(0)
        cpu = page.get_by_role("region", name="Node totals, table").get_by_role("row", name="cpu")
        shown = cpu.get_by_role("cell").filter(visible=True).all_inner_texts()
        assert shown[0].endswith("%")
        assert all(int(each) for each in shown[1:])  # ranges without a node are left out
        assert watched.accessibility(page) == []


def test_nodes_by_keyboard(watched: Watched, url: str) -> None:
    with watched.page(size=NARROW) as page:
        page.goto(f"{url}/?stream={ODD}")
        nodes = page.locator("#nodes")
        expect(nodes).to_be_visible()
        names = page.request.get(f"{url}/api/v1/now?stream={ODD}").json()["nodes"]["names"]
        nodes.focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#node-hint")).to_contain_text(f"{names[0]}: cpu ")
        page.keyboard.press("ArrowRight")
        expect(page.locator("#node-hint")).to_contain_text(f"{names[1]}: cpu ")
        page.get_by_role("button", name="memory").click()
        expect(page.get_by_role("button", name="memory")).to_have_attribute("aria-pressed", "true")
        assert watched.accessibility(page) == []


@pytest.mark.parametrize(
    ("size", "dark"), [(WIDE, True), (NARROW, False)], ids=["wide, dark", "narrow, light"]
)
def test_the_map_of_nodes_has_a_legend(
    watched: Watched, url: str, size: tuple[int, int], *, dark: bool
) -> None:
    """It names what a cell and its colour are, in the colours of the map, also at a past
    position; and the map has a name that says what it shows."""
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=300")
        names = page.request.get(f"{url}/api/v1/now?stream={TIGHT}&at=300").json()["nodes"]["names"]
        of_cpu = page.get_by_role("application", name=f"Map of {len(names)} nodes by requested cpu")
        expect(of_cpu).to_be_visible()
        legend = page.locator("#node-legend")
        expect(legend).to_contain_text("A cell is a node as it was at 00:")
        expect(legend).to_contain_text("how much of its cpu its pods request")
        page.get_by_role("button", name="memory").click()
        expect(legend).to_contain_text("how much of its memory its pods request")
        expect(
            page.get_by_role("application", name=f"Map of {len(names)} nodes by requested memory")
        ).to_be_visible()
        assert page.evaluate(UNNAMED) == []
        assert watched.accessibility(page) == []
        page.get_by_role("link", name="Live").click()
        expect(legend).to_contain_text("A cell is a node. The colour")


def test_nodes_that_are_being_read_come_without_a_reload(watched: Watched, url: str) -> None:
    """The first answer after a start lacks them: here the page is changed to that."""
    waiting = '<p role="status" data-awaited>Reading the state: the nodes follow.</p>'

    def without_nodes(route: Route) -> None:
        text = route.fetch().text()
        begin = text.index('<div data-part="node-totals">')
        answer = json.loads(text.partition('id="answer">')[2].partition("</script>")[0])
        early = json.dumps({**answer, "nodes": None, "reads_nodes": True}).replace("<", "\\u003c")
        body = f"""{text[:begin]}<div data-part="node-totals">{waiting}</div></section></main>
<script type="application/json" id="answer">{early}</script></body></html>"""
        route.fulfill(body=body, content_type="text/html")

    with watched.page() as page:
        page.route(f"{url}/?stream={TIGHT}", without_nodes)
        page.goto(f"{url}/?stream={TIGHT}")
        expect(page.get_by_role("status").filter(has_text="Reading the state")).to_be_visible()
        page.unroute_all(behavior="wait")
        expect(page.locator("#node-map")).to_be_visible()
        expect(page.locator("#node-totals tbody tr")).not_to_have_count(0)
        expect(page.locator("[data-awaited]")).to_have_count(0)
