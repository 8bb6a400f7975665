"""The page Pods: filters and order in the URL, groups, rows that are loaded while one scrolls."""

import json
import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import NARROW, WIDE, Watched
from tests.browser.hostile import HOSTILE, MARKUP, NAME
from tests.browser.pod_lists import EVER, FITS, ROWS, shown_names
from tests.postgres.histories import ODD, TIGHT

pytestmark = pytest.mark.process
ALL, EACH = 1_000_000, 1_000
MILLION = """(like, all, each) => {
  const ask = window.fetch;
  window.asked = [];
  window.requestAnimationFrame = (draw) => setTimeout(draw); // a frame a page would take a minute
  window.fetch = (url, options) => {
    const place = new URL(url, location.href);
    if (place.pathname !== "/api/v1/pods") return ask(url, options);
    const first = Number(place.searchParams.get("cursor") ?? 0);
    window.asked.push(first);
    const pod = (_, row) => ({ ...like, name: `pod-${first + row}` });
    const pods = Array.from({ length: each }, pod);
    const next = first + each < all ? String(first + each) : null;
    return Promise.resolve({ ok: true, json: async () => ({ head: 1, pods, next }) });
  };
}"""
"""Answers a page's requests for pods instead of the server, and notes where each began."""
SCROLLED = """async () => {
  const place = document.getElementById("window");
  const state = document.getElementById("list-state");
  let most = 0;
  const rows = () => { most = Math.max(most, place.querySelectorAll("tr[aria-rowindex]").length); };
  const watch = new MutationObserver(rows);
  watch.observe(place, { childList: true, subtree: true });
  while (!state.textContent.endsWith("in all")) {
    place.scrollTop = 1e9;
    place.dispatchEvent(new Event("scroll"));
    await new Promise((done) => setTimeout(done));
  }
  place.scrollTop = 1e9;
  watch.disconnect();
  return most;
}"""
"""Scrolls down to the last row; the most rows that were in the page at once."""
MIDDLE = """() => {
  const place = document.getElementById("window");
  place.scrollTop = (place.scrollHeight - place.clientHeight) / 2;
}"""
"""Scrolls to the middle of all rows, which the page is not tall enough for."""


def test_filters_and_order_are_in_the_url(watched: Watched, url: str) -> None:
    def answer(query: str) -> list[str]:
        pods = page.request.get(f"{url}/api/v1/pods?stream={ODD}{query}").json()["pods"]
        assert pods
        return [f"{pod['namespace']}/{pod['name']}" for pod in pods]

    with watched.page() as page:
        page.goto(f"{url}/pods?stream={ODD}")
        expect(page.locator(ROWS)).to_have_count(len(answer("")))
        page.get_by_label("Namespace").fill("prod")
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page.locator(ROWS)).to_have_count(len(answer("&namespace=prod")))
        expect(page).to_have_url(re.compile("namespace=prod"))
        page.get_by_role("link", name="Clear").click()
        page.goto(f"{url}/pods?stream={ODD}&state=bound")
        page.get_by_role("link", name="Pod", exact=False).and_(
            page.locator("thead a").first
        ).click()
        expect(page.locator("thead th").first).to_have_attribute("aria-sort", "ascending")
        wanted = answer("&state=bound&sort=position")
        expect(page.locator(f"{ROWS} th")).to_have_text(wanted)  # once they are loaded
        page.go_back()
        expect(page.locator("thead th").first).to_have_attribute("aria-sort", "descending")


@pytest.mark.parametrize("script", [True, False])
def test_a_part_of_a_name_is_enough(watched: Watched, url: str, script: bool) -> None:
    with watched.page(script=script) as page:
        pod = page.request.get(f"{url}/api/v1/pods?stream={ODD}").json()["pods"][-1]
        whole = f"{pod['namespace']}/{pod['name']}"
        for part in (pod["name"][1:], whole):
            page.goto(f"{url}/pods?stream={ODD}")
            page.get_by_label("Name contains").fill(part)
            page.get_by_role("button", name="Filter", exact=True).click()
            expect(page).to_have_url(re.compile("name="))
            others = page.locator("#pods tbody th").filter(has_not_text=part)
            expect(others).to_have_count(0)
            expect(page.get_by_role("link", name=whole, exact=True)).to_be_visible()
        page.goto(f"{url}/pods?stream={ODD}&name=nosuch")
        expect(page.locator("#pods .empty")).to_contain_text("No pods match name with nosuch.")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_typo_in_a_filter_keeps_the_form(
    watched: Watched, url: str, size: tuple[int, int], script: bool
) -> None:
    """With what was typed; the field has the focus, and can be corrected."""
    watched.expected = "status of 400"
    with watched.page(script=script, size=size, dark=size == NARROW) as page:
        page.goto(f"{url}/pods?stream={ODD}")
        if script and size == NARROW:
            page.get_by_role("button", name="All filters").click()
        page.get_by_label("Namespace").fill("prod")
        field = page.get_by_label("Last attempt from")
        field.fill("yesterdy")
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page.locator("#problem-text")).to_contain_text(
            "Last attempt from: 'yesterdy' is neither a position nor a time; write a number"
        )
        expect(field).to_have_value("yesterdy")
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(re.compile("write a number"))
        expect(page.get_by_label("Namespace")).to_have_value("prod")
        if script:
            assert watched.accessibility(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        field.fill("0")
        field.press("Enter")
        expect(page.locator("#pods tbody th").first).to_contain_text("prod/")
        expect(page.locator("#problem-text")).to_have_count(0)


def test_a_typo_in_the_time_is_marked_there(watched: Watched, url: str) -> None:
    watched.expected = "status of 400"
    with watched.page() as page:
        for path in ("/", "/pods"):
            page.goto(f"{url}{path}?stream={ODD}")
            time = page.get_by_label("Go to")
            time.fill("25:99")
            time.press("Enter")
            expect(page.locator("#problem-text")).to_contain_text("Go to: '25:99'")
            expect(time).to_be_focused()
            expect(time).to_have_value("25:99")
            assert watched.accessibility(page) == []
            page.get_by_role("link", name="As it is now").click()
            expect(page.locator("#problem-text")).to_have_count(0)
        page.goto(f"{url}/findings?stream={ODD}&limit=x")
        expect(page.get_by_label("limit")).to_have_accessible_description(re.compile("digits"))
        assert watched.accessibility(page) == []


def test_a_group_by_holds_at_once(watched: Watched, url: str) -> None:
    """With what else is typed; without a script the button is there for it."""
    with watched.page() as page:
        page.goto(f"{url}/pods?stream={ODD}")
        page.get_by_label("Namespace").fill("prod")
        chosen = page.get_by_label("Group by")
        chosen.select_option("owner")
        expect(page.locator("#groups-title")).to_have_text("Pods by owner")
        expect(page).to_have_url(re.compile("namespace=prod.*by=owner"))
        expect(chosen).to_be_focused()
        chosen.select_option("nothing")
        expect(page.locator(ROWS).first).to_be_visible()
    with watched.page(script=False) as page:
        page.goto(f"{url}/pods?stream={ODD}")
        page.get_by_label("Group by").select_option("reason")
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page.locator("#groups-title")).to_have_text("Pods by reason")


def test_no_pods_match(watched: Watched, url: str) -> None:
    """It says so, and a link removes the filters; gone ones, too, have no other order."""
    with watched.page() as page:
        page.goto(f"{url}/pods?stream={ODD}&namespace=nosuch&state=bound&ever=true&sort=waiting")
        empty = page.locator("#pods .empty")
        expect(empty).to_contain_text("No pods match namespace nosuch, state bound.")
        expect(page.locator("#pods thead a")).to_have_count(0)
        expect(page.get_by_text("there is no other order")).to_be_visible()
        assert watched.accessibility(page) == []
        empty.get_by_role("link", name="Remove the filters").click()
        expect(page.locator(ROWS).first).to_be_visible()
        expect(page).to_have_url(f"{url}/pods?stream={ODD}")
    with watched.page(script=False) as page:
        page.goto(f"{url}/pods?stream={ODD}&namespace=nosuch")
        expect(page.locator("#pods .empty")).to_contain_text("No pods match namespace nosuch.")
        page.get_by_role("link", name="Also look for pods that are gone").click()
        expect(page).to_have_url(re.compile("ever=true"))


def test_an_owner_leads_to_its_workload(watched: Watched, url: str) -> None:
    """If it is of a kind that has a page."""

    def owned(route: Route) -> None:
        answer = route.fetch().json()
        for pod, kind in zip(answer["pods"], ("Job", "Queue"), strict=False):
            pod |= {"owner_kind": kind, "owner_name": "a b"}
        route.fulfill(json=answer)

    with watched.page() as page:
        page.route(re.compile("/api/v1/pods"), owned)
        page.goto(f"{url}/pods?stream={ODD}")
        owners = page.locator("#pods td.owner")
        expect(owners.nth(1)).to_have_text("a b")
        name = page.locator(f"{ROWS} th").first.inner_text()
        expect(owners.first.get_by_role("link")).to_have_attribute(
            "href", f"/workloads/{name.split('/')[0]}/Job/a%20b?stream={ODD}"
        )
        expect(owners.nth(1).get_by_role("link")).to_have_count(0)


def test_the_list_says_how_many_pods_there_are(watched: Watched, url: str) -> None:
    """Though only the first ones are loaded."""
    with watched.page() as page:
        path = f"/pods?stream={ODD}"
        total = len(page.request.get(f"{url}/api/v1{path}&limit=1000").json()["pods"])

        def first_two(route: Route) -> None:
            if "cursor=" in route.request.url:
                return  # the others are never there
            shorter = route.request.url.replace("limit=200", "limit=2")
            route.fulfill(response=route.fetch(url=shorter))

        page.route(re.compile("/api/v1/pods"), first_two)
        page.goto(f"{url}{path}&sort=node")
        expect(page.locator("#list-state")).to_have_text(f"{total} in all")
        expect(page.locator("#pods")).to_have_attribute("aria-rowcount", str(total + 1))


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_cards_on_a_narrow_screen(watched: Watched, url: str, *, script: bool) -> None:
    """A card has what the row has, and is still a row for screen readers; nothing is cut off."""
    with watched.page(size=NARROW, script=script) as page:
        asked = f"stream={quote(HOSTILE)}&plugin=NodeResourcesFit"
        [pod] = page.request.get(f"{url}/api/v1/pods?{asked}").json()["pods"]
        page.goto(f"{url}/pods?{asked}")
        name = f"{pod['namespace']}/{pod['name']}"
        card = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name)).first
        expect(card).to_be_visible()
        why = card.get_by_role("cell").get_by_text(pod["reason"], exact=True)
        expect(why).to_be_visible()
        assert why.evaluate("(cell) => getComputedStyle(cell, '::before').content") == (
            f'"{pod["plugin"]}: "'
        )
        expect(card.get_by_role("cell").get_by_text(pod["state"], exact=True)).to_be_visible()
        assert page.locator("#window").evaluate(FITS)
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW[0]
        expect(page.get_by_role("link", name="Waits")).to_be_visible()


def test_a_million_rows_are_never_all_in_the_page(watched: Watched, url: str) -> None:
    """All of them are scrolled through. The answers are made in the page, 1,000 rows each, which is
    the most that the API gives; the rows in the page and in memory stay few."""
    with watched.page() as page:
        like = page.request.get(f"{url}/api/v1{EVER}&limit=1").json()["pods"][0]
        page.add_init_script(f"({MILLION})({json.dumps(like)}, {ALL}, {EACH})")
        page.goto(f"{url}{EVER}")
        expect(page.get_by_text("default/pod-0", exact=True)).to_be_visible()
        most = page.evaluate(SCROLLED)
        expect(page.locator("#list-state")).to_have_text(f"{ALL:,} in all".replace(",", "\u202f"))
        expect(page.get_by_text(f"default/pod-{ALL - 1}", exact=True)).to_be_visible()
        assert 0 < most < 200
        assert _memory(page, "Nodes") < 20_000
        assert _memory(page, "JSHeapUsedSize") < 50 * 2**20  # 5 MiB, and 139 with all rows
        assert page.evaluate("window.asked.length") == ALL // EACH
        page.evaluate(MIDDLE)
        expect(page.get_by_text("default/pod-500000", exact=True)).to_be_visible()
        page.evaluate("document.getElementById('window').scrollTop = 0")
        expect(page.get_by_text("default/pod-0", exact=True)).to_be_visible()
        asked = page.evaluate("window.asked")
        assert asked.count(0) == asked.count(500_000) == 2  # they had left the memory


def _memory(page: Page, name: str) -> float:
    """A measure of Chromium's, of what is left after the garbage is collected."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == name))


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
@pytest.mark.parametrize("by", ["owner", "reason"])
def test_groups(watched: Watched, url: str, by: str, script: bool) -> None:
    """Counted, opened and followed to their pods; each step is in the address."""
    with watched.page(script=script) as page:
        page.goto(f"{url}/pods?stream={ODD}")
        page.get_by_label("Group by").select_option(by)
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page).to_have_url(re.compile(f"by={by}"))
        api = f"{url}/api/v1/pods"
        groups = page.request.get(f"{api}/groups?stream={ODD}&by={by}").json()["groups"]
        counts = page.locator(".groups tbody tr:not(.opened) td:nth-child(3)")
        expect(counts).to_have_text([str(each["pods"]) for each in groups])
        first = groups[0]
        page.locator(".groups .toggle").first.click()
        expect(page).to_have_url(re.compile("open="))
        pods = page.request.get(f"{api}?stream={ODD}&group={quote(first['key'])}").json()["pods"]
        opened = page.locator(".opened li")
        expect(opened).to_have_count(min(10, len(pods)))
        if script:
            expect(page.locator(".groups .toggle").first).to_be_focused()
            assert watched.accessibility(page) == []
        page.locator(".groups .toggle").first.click()
        expect(opened).to_have_count(0)
        page.locator(".groups tbody th a:not(.toggle)").first.click()
        expect(page).to_have_url(re.compile("group="))
        expect(page.locator("#pods tbody tr th")).to_have_count(len(pods))
        page.get_by_role("link", name="Remove the group").click()
        expect(page).not_to_have_url(re.compile("group="))
        expect(page.locator("#pods tbody tr th").first).to_be_visible()


def test_pods_by_the_time_of_their_last_attempt(watched: Watched, url: str) -> None:
    """A simulation has no clock: its last hour ends where its log does."""
    with watched.page() as page:
        page.goto(f"{url}/pods?stream={TIGHT}&ever=true")
        expect(page.locator(ROWS).first).to_be_visible()
        tried = page.request.get(f"{url}/api/v1{EVER}&limit=1000").json()["pods"]
        low = tried[2]["decided"]
        page.get_by_label("Last attempt from").fill(str(low))
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page.locator(ROWS)).to_have_count(3)
        page.get_by_role("link", name="5m", exact=True).click()
        expect(page).to_have_url(re.compile(r"from=\d{4}-\d\d-\d\dT"))
        expect(page.get_by_role("link", name="5m", exact=True)).to_have_attribute(
            "aria-current", "true"
        )
        page.get_by_role("link", name="any time").click()
        expect(page).not_to_have_url(re.compile("from="))


def test_markup_in_pods_is_text(watched: Watched, url: str) -> None:
    watched.expected = "status of 400"  # a name with / is not one of a controller
    with watched.page() as page:
        show = quote(f"{NAME}/pod1 {NAME}", safe="")
        page.goto(f"{url}/pods?stream={quote(HOSTILE)}&show={show}")
        expect(page.locator(ROWS).first).to_be_visible()
        assert f"{NAME}/pod1 {NAME}" in shown_names(page)
        expect(page.locator("#panel .runs")).to_contain_text("untolerated taint")
        assert page.locator("main img, main script, main b, main i").count() == 0
        page.goto(f"{url}/pods?stream={quote(HOSTILE)}&by=owner")
        expect(page.locator(".groups")).to_contain_text(MARKUP)
        assert page.locator("main img, main script, main b, main i").count() == 0
        page.goto(f"{url}/pods?stream={quote(HOSTILE)}&owner={quote(MARKUP)}")
        expect(page.get_by_label("Owner", exact=True)).to_have_value(MARKUP)
        expect(page.locator("#problem-text")).to_contain_text("is not a controller")
        assert page.locator("main img, main script, main b, main i").count() == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_narrow_and_without_javascript(watched: Watched, url: str, dark: bool) -> None:
    with watched.page(size=NARROW, dark=dark) as page:
        page.goto(f"{url}{EVER}")
        expect(page.locator(ROWS).first).to_be_visible()
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == NARROW[0]
        expect(page.get_by_label("Plugin", exact=True)).to_be_hidden()
        expect(page.get_by_label("Name contains")).to_be_visible()
        page.get_by_role("button", name="All filters").click()
        expect(page.get_by_label("Plugin", exact=True)).to_be_visible()
        for by in ("reason", "owner"):
            page.goto(f"{url}/pods?stream={ODD}&by={by}")
            page.locator("a.toggle").first.click()
            expect(page.locator(".opened li").first).to_be_visible()
            assert watched.accessibility(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") == NARROW[0]
            groups = page.get_by_role("region", name="Groups, table")
            assert groups.evaluate("(place) => place.scrollWidth <= place.clientWidth")
    with watched.page(script=False) as page:
        page.goto(f"{url}{EVER}&limit=10")
        first = page.locator("#pods tbody th").all_inner_texts()
        assert len(first) == 10
        page.get_by_role("link", name="Next page").click()
        second = page.locator("#pods tbody th").all_inner_texts()
        assert len(second) == 10
        assert not set(first) & set(second)
        page.get_by_role("link", name=second[0]).click()
        expect(page.get_by_role("heading", level=1)).to_have_text(second[0])
