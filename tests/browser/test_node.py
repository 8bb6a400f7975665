"""The page of a node, and the names that lead there."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW, WIDE, Watched
from tests.postgres.histories import ODD, TIGHT

pytestmark = pytest.mark.process


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_node_in_the_list_of_pods_leads_to_its_page(
    watched: Watched, url: str, *, script: bool
) -> None:
    """As of the time shown there."""
    with watched.page(script=script) as page:
        kept = f"stream={TIGHT}&at=700"
        pods = page.request.get(f"{url}/api/v1/pods?{kept}&sort=node&limit=1").json()["pods"]
        node = pods[0]["node"]
        page.goto(f"{url}/pods?{kept}&sort=node")
        page.locator("#pods tbody").get_by_role("link", name=node, exact=True).first.click()
        expect(page.locator("h1")).to_have_text(node)
        expect(page).to_have_url(f"{url}/nodes/{node}?{kept}")
        state = page.request.get(f"{url}/api/v1/state?{kept}&node={node}").json()
        rows = page.get_by_role("region", name="Its pods, table").locator("tbody tr")
        expect(rows).to_have_count(len(state["pods"]))
        free = state["node"]["allocatable"]["pods"] - state["node"]["requested"]["pods"]
        resources = page.get_by_role("region", name="Resources, table")
        expect(resources.get_by_role("row", name="pods").locator("td").first).to_have_text(
            str(free)
        )
        found = page.request.get(f"{url}/api/v1/nodes/{node}/verdicts?{kept}").json()
        refusals = page.get_by_role("region", name="Refusals here, table").locator("tbody tr")
        expect(refusals).to_have_count(len(found["refusals"]))
        refusals.first.get_by_role("link").click()
        newest = found["refusals"][0]["newest"]["position"]
        expect(page).to_have_url(re.compile(f"/decisions/{newest}\\?"))


def test_a_cell_of_the_map_leads_to_the_page_of_a_node(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}/?stream={ODD}")
        expect(page.locator("#nodes")).to_be_visible()  # by then the server has read them
        names = page.request.get(f"{url}/api/v1/now?stream={ODD}").json()["nodes"]["names"]
        page.locator("#nodes").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text(names[0])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_accessible_and_not_too_wide(
    watched: Watched, url: str, size: tuple[int, int], *, dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}/nodes/node-00003?stream={TIGHT}&at=700")
        expect(page.locator("h1")).to_be_visible()
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
