"""The pages of what is installed: a wheel in an environment of its own."""

from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.api.test_serve import serving
from tests.browser.conftest import Watched
from tests.postgres.histories import TIGHT
from tests.postgres.test_wheel import installed, wheel

__all__ = ["installed", "wheel"]

pytestmark = pytest.mark.process


def test_the_pages_of_an_installed_wheel(watched: Watched, logs: str, installed: Path) -> None:
    """From Now by links to a pod and a decision of it, with every script and style; then a
    what-if, whose process is of the same environment."""
    with (
        serving("--database", logs, python=installed / "python") as address,
        watched.page() as page,
    ):
        missing: list[str] = []
        page.on("response", lambda got: missing.append(got.url) if got.status >= 400 else None)
        api = page.request
        pod = api.get(f"{address}/decisions?stream={TIGHT}&limit=1").json()["decisions"][0]
        page.goto(f"{address.removesuffix('/api/v1')}/?stream={TIGHT}")
        expect(page.locator("#nodes")).to_be_visible()
        page.get_by_role("link", name="Pods", exact=True).click()
        page.get_by_label("Name contains").fill(pod["pod"])
        page.get_by_label("also gone ones").check()
        page.get_by_role("button", name="Filter").click()
        page.get_by_role("link", name=f"{pod['namespace']}/{pod['pod']}").click()
        panel = page.locator("#panel")
        expect(panel).to_contain_text("Attempt 1")
        page.goto(page.url.partition("/pods")[0] + f"/decisions/{pod['position']}?stream={TIGHT}")
        expect(page.locator("[data-drawn]")).to_be_visible()
        assert missing == []
        answer = api.post(f"{address}/what-if?stream={TIGHT}&until=400", timeout=120_000)
        assert (answer.status, answer.json()["differing"]) == (200, 0)
