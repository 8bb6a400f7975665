"""The page Now."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW, Watched
from tests.postgres.histories import ODD

pytestmark = pytest.mark.process


def test_what_waits_and_why(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}/?stream={ODD}")
        figures = page.locator(".figures")
        expect(figures).to_contain_text("Waiting pods")
        answer = page.request.get(f"{url}/api/v1/now?stream={ODD}").json()
        for state in answer["states"]:
            row = page.get_by_role("row", name=state["state"])
            expect(row.first).to_contain_text(str(state["pods"]))
        page.get_by_text("The same answer elsewhere").click()
        expect(page.get_by_text(f"GET /api/v1/now?stream={ODD}")).to_be_visible()


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
