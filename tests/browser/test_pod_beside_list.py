"""The page Pods with a pod beside its list: the list stays usable, and Back leads to it."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, Watched
from tests.browser.pod_lists import EVER, FITS, ROWS, TOP_ROW, shown_names
from tests.postgres.histories import TIGHT

pytestmark = pytest.mark.process
LAST_ROW = """(place) => {
  const end = Math.min(place.getBoundingClientRect().bottom, innerHeight);
  const rows = [...place.querySelectorAll("tr[aria-rowindex]")];
  return rows.findLast((row) => row.getBoundingClientRect().bottom <= end).cells[0].textContent;
}"""
"""The name in the last row that is in sight."""


def test_the_story_is_beside_the_list(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}{EVER}")
        expect(page.locator(ROWS).first).to_be_visible()
        name = shown_names(page)[3]
        page.get_by_role("link", name=name).click()
        panel = page.locator("#panel")
        expect(panel).to_contain_text("Attempt 1")
        expect(panel.get_by_role("heading", level=1)).to_have_text(name)
        expect(page).to_have_url(re.compile(re.escape(f"show={quote(name, safe='')}")))
        assert watched.accessibility(page) == []
        shared = page.url
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        page.goto(shared)
        expect(panel).to_contain_text("Attempt 1")
        expect(page.locator(ROWS).nth(3)).to_be_visible()


def test_back_closes_the_pod_and_keeps_the_list(watched: Watched, url: str) -> None:
    """Forward opens it again, and a pod that is closed leaves nothing to go back over."""
    with watched.page() as page:
        page.goto(f"{url}/?stream={TIGHT}")
        first = page.url
        page.goto(f"{url}{EVER}")
        expect(page.locator("#list-state")).to_contain_text("in all")
        place, panel, whole = page.locator("#window"), page.locator("#panel"), page.url
        place.evaluate("(place) => { place.scrollTop = 29 * 20; place.mine = true; }")
        expect(page.locator("#list-state")).to_contain_text("in all")
        links = page.locator(f"{ROWS} th a")
        name = place.evaluate(TOP_ROW)
        links.get_by_text(name, exact=True).click()
        expect(panel.get_by_role("heading", level=1)).to_have_text(name)
        page.go_back()
        expect(panel).to_be_hidden()
        assert page.url == whole
        expect(links.get_by_text(name, exact=True)).to_be_focused()
        page.go_forward()
        expect(panel.get_by_role("heading", level=1)).to_have_text(name)
        other = place.evaluate(LAST_ROW)
        links.get_by_text(other, exact=True).click()
        expect(panel.get_by_role("heading", level=1)).to_have_text(other)
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        expect(page).to_have_url(whole)
        assert place.evaluate("(place) => place.mine")  # the page was not loaded again
        page.go_back()
        expect(page).to_have_url(first)


def test_the_list_is_usable_beside_a_pod(watched: Watched, url: str) -> None:
    """Plugin, reason and node stay; the list has fewer columns, and its place."""
    with watched.page() as page:
        page.goto(f"{url}{EVER}")
        expect(page.locator(ROWS).first).to_be_visible()
        place, heads = page.locator("#window"), page.locator("#pods thead th")
        expect(heads.filter(visible=True)).to_have_count(8)
        place.evaluate("(place) => { place.scrollTop = 29 * 20; }")
        expect(page.locator("#list-state")).to_contain_text("in all")
        name = place.evaluate(TOP_ROW)
        page.locator(f"{ROWS} th a").get_by_text(name, exact=True).click()
        expect(page.locator("#panel")).to_be_visible()
        expect(heads.filter(visible=True)).to_have_text(
            [re.compile(each) for each in ("Pod", "State", "Waits", "Plugin", "Reason", "Node")]
        )
        assert place.evaluate(FITS)
        assert place.evaluate(TOP_ROW) == name
        heights = page.locator(ROWS).evaluate_all("(rows) => rows.map((row) => row.offsetHeight)")
        assert set(heights) == {29}  # as without a pod beside them
        page.goto(f"{url}/pods?stream={TIGHT}&at=700&sort=-attempts&show={quote(name)}")
        expect(heads.filter(visible=True).filter(has_text="Attempts")).to_have_count(1)
        page.goto(f"{url}{EVER}&show={quote(name)}")
        expect(page.locator("#panel h1")).to_be_visible()
        page.keyboard.press("Escape")
        expect(heads.filter(visible=True)).to_have_count(8)
        assert place.evaluate(TOP_ROW) == name


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_row_of_the_chosen_pod_stays_in_sight(
    watched: Watched, url: str, size: tuple[int, int]
) -> None:
    """The list is lower on a telephone; the row of the pod is in sight all the same, also if its
    page was left by Back, and if the address is opened."""
    with watched.page(size=size) as page:
        page.goto(f"{url}{EVER}")
        expect(page.locator("#list-state")).to_contain_text("in all")
        place = page.locator("#window")
        place.evaluate("(place) => { place.scrollTop = place.scrollHeight / 2; }")
        place.scroll_into_view_if_needed()
        name = place.evaluate(LAST_ROW)
        row = page.locator(ROWS).filter(has=page.get_by_role("rowheader", name=name, exact=True))
        row.get_by_role("rowheader").get_by_role("link").click()
        expect(page.locator("#panel h1")).to_have_text(name)
        expect(row).to_be_in_viewport(ratio=0.9)
        expect(page.locator("#panel h1")).to_be_in_viewport()
        page.get_by_role("link", name="Timeline and story").click()
        expect(page.locator(".timeline")).to_be_visible()
        page.go_back()
        expect(page.locator("#panel h1")).to_have_text(name)
        expect(row).to_have_attribute("aria-current", "true")
        if size == NARROW:
            page.locator("#beside").scroll_into_view_if_needed()
            place.scroll_into_view_if_needed()
        expect(row).to_be_in_viewport(ratio=0.9)
        page.keyboard.press("Escape")
        expect(page.locator("#panel")).to_be_hidden()
        expect(row.get_by_role("rowheader").get_by_role("link")).to_be_focused()
        expect(row).to_be_in_viewport(ratio=0.9)


def test_back_leads_to_the_same_row_without_javascript(watched: Watched, url: str) -> None:
    with watched.page(script=False) as page:
        page.goto(f"{url}{EVER}")
        name = _last_name(page)
        link = page.get_by_role("link", name=name, exact=True)
        link.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(name)
        page.go_back()
        expect(link).to_be_in_viewport()


def _last_name(page: Page) -> str:
    return page.locator("#pods tbody th").all_inner_texts()[-1]
