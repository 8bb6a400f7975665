"""A history, its server, and a browser to look at it with."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.api.test_serve import serving
from tests.browser.hostile import hostile
from tests.databases import Server, database, one_server
from tests.postgres.histories import odd_and_tight

__all__ = ["database", "one_server"]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_AXE = Path(__file__).parent / "axe.min.js"
expect.set_options(timeout=60_000)
WIDE, NARROW = (1280, 900), (390, 844)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The machine's Chromium."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium: apt-get install chromium")
    return CHROMIUM


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """A running Chromium. It ends with the module: while Playwright runs, its event loop is the
    one of the process, and tests of other folders cannot run one."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield started
        started.close()


def _prepared(url: str) -> None:
    odd_and_tight(url)
    hostile(url)


@pytest.fixture(scope="session")
def logs(one_server: Server) -> Iterator[str]:
    """A database with an odd day, a hostile stream and a simulation."""
    with one_server.fresh(_prepared) as url:
        yield url


@pytest.fixture(scope="session")
def url(chromium: str, logs: str) -> Iterator[str]:
    """The address of the pages, without a slash at its end."""
    with serving("--database", logs) as address:
        yield address.removesuffix("/api/v1")


class Watched:
    """Pages whose errors are noted: exceptions, messages on the console (also violations of the
    content policy), dialogs."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.problems: list[str] = []
        self.expected = ""
        """Part of the messages that Chromium prints because of what a test does."""

    @contextmanager
    def page(
        self, *, size: tuple[int, int] = WIDE, dark: bool = False, script: bool = True
    ) -> Iterator[Page]:
        """A page in a browser without history or storage."""
        context = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            java_script_enabled=script,
        )
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self._alarmed(dialog.message))
        try:
            yield page
        finally:
            # A page that is live asks again at any moment: an answer that a test's route is about
            # to change would fail the next test, which has the same browser.
            page.unroute_all(behavior="ignoreErrors")
            context.close()

    def _alarmed(self, message: str) -> None:
        self.problems.append(f"a dialog: {message}")

    def accessibility(self, page: Page) -> list[str]:
        """The rules of axe-core that a page breaks. The engine is put into the page by the
        debugger: the page's policy does not let it in otherwise."""
        page.evaluate(_AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """Opens pages; at the end none of them may have had an error."""
    watcher = Watched(browser)
    yield watcher
    unexpected = [
        each for each in watcher.problems if not watcher.expected or watcher.expected not in each
    ]
    assert unexpected == []
