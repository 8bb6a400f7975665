"""What every page has: navigation, colours, tokens, errors, and a policy that it keeps to."""

from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Route, expect

from tests.api.test_serve import serving
from tests.browser.conftest import NARROW, WIDE, Watched
from tests.browser.hostile import HOSTILE, NAME
from tests.postgres.histories import ODD, TIGHT
from tests.waiting import until

pytestmark = pytest.mark.process


def test_a_log_with_several_streams_asks_which(watched: Watched, url: str) -> None:
    watched.expected = "status of 400"
    with watched.page() as page:
        response = page.goto(f"{url}/", wait_until="commit")
        assert response is not None
        assert response.status == 400
        page.get_by_role("link", name=TIGHT, exact=True).first.click()
        expect(page.get_by_role("heading", name="Pods by state")).to_be_visible()
        assert page.url == f"{url}/?stream={TIGHT}"


def test_colours_follow_the_system_or_a_choice(watched: Watched, url: str) -> None:
    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = "rgb(246, 247, 248)", "rgb(16, 19, 23)"
    with watched.page(dark=True) as page:
        page.goto(f"{url}/?stream={TIGHT}")
        assert ground() == dark
        page.get_by_role("button", name="Colours: as the system").click()
        assert ground() == light
        page.reload()
        assert ground() == light
        page.get_by_role("button", name="Colours: light").click()
        page.get_by_role("button", name="Colours: dark").click()
        assert ground() == dark
        assert page.evaluate("localStorage.length") == 0


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_are_accessible(
    watched: Watched, url: str, size: tuple[int, int], dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}/?stream={ODD}")
        expect(page.locator("#nodes")).to_be_visible()
        page.get_by_text("The same answer elsewhere").click()
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_markup_in_names_is_text(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}/?stream={quote(HOSTILE)}")
        expect(page.locator("#nodes")).to_be_visible()
        expect(page.get_by_text(f"{NAME}/pod1 {NAME}").first).to_be_visible()
        assert page.locator("main img, main script, b, i").count() == 0
        assert page.title() == "Now · eventsched"


def test_pages_are_read_without_javascript(watched: Watched, url: str) -> None:
    with watched.page(script=False) as page:
        now = f"{url}/api/v1/now?stream={ODD}"  # nodes are read in the background
        until(lambda: page.request.get(now).json()["nodes"], "the nodes are read", 60)
        page.goto(f"{url}/?stream={ODD}")
        expect(page.get_by_role("row", name="cpu")).to_be_visible()
        expect(page.get_by_role("button")).to_have_text(["Go"])  # which needs no script


def test_a_server_that_stops_answering(watched: Watched, url: str) -> None:
    watched.expected = "ERR_CONNECTION_REFUSED"
    with watched.page() as page:
        page.goto(f"{url}/?stream={ODD}")
        expect(page.locator("#nodes")).to_be_visible()

        def fail(route: Route) -> None:
            route.abort("connectionrefused")

        page.route(f"{url}/?*", fail)
        expect(page.get_by_text("The server does not answer.")).to_be_visible()
        expect(page.get_by_role("heading", name="Pods by state")).to_be_visible()
        page.unroute(f"{url}/?*", fail)
        expect(page.get_by_text("The server does not answer.")).to_be_hidden()


QUICK = """
const later = setTimeout;
window.pauses = [];
window.setTimeout = (listener, pause, ...more) => {
  if (pause >= 1000) pauses.push(pause);
  return later(listener, pause >= 1000 ? 10 : pause, ...more);
};
"""
"""Notes how long a page pauses, and makes that short."""


def test_a_page_with_a_problem_asks_less_and_less_often(watched: Watched, url: str) -> None:
    """Once it is looked at again, and once the answer is none any more, as often as at first."""
    watched.expected = "status of 404"
    longest = "pauses.filter((each) => each === 60000).length >= 3"
    seconds = [2, 4, 8, 16, 32, 60, 60, 60]
    with watched.page() as page:
        page.add_init_script(QUICK)
        path = f"{url}/pods/default/nosuch?stream={TIGHT}"
        page.goto(path)
        until(lambda: page.evaluate(longest), "the page pauses", 60)
        assert page.evaluate("pauses.slice(0, 8)") == [1000 * each for each in seconds]
        page.evaluate("pauses = []; document.dispatchEvent(new Event('visibilitychange'))")
        until(lambda: page.evaluate(longest), "the page pauses", 60)
        asked = [each for each in page.evaluate("pauses") if each < 60_000]
        assert asked == [1000 * each for each in seconds[1:5]]
        page.route(
            path, lambda route: route.fulfill(response=route.fetch(url=f"{url}/?stream={TIGHT}"))
        )
        expect(page.get_by_role("heading", name="Pods by state")).to_be_visible()
        page.evaluate("pauses = []")
        until(lambda: page.evaluate("pauses.length > 3"), "the page pauses", 60)
        assert set(page.evaluate("pauses")) == {2000}


def test_a_server_with_errors_is_asked_less_and_less_often(watched: Watched, url: str) -> None:
    """The page keeps what it has."""
    watched.expected = "status of 503"
    with watched.page() as page:
        page.add_init_script(QUICK)
        page.goto(f"{url}/?stream={TIGHT}")
        expect(page.locator("#nodes")).to_be_visible()
        page.evaluate("pauses = []")
        page.route(f"{url}/?*", lambda route: route.fulfill(status=503, body="<p>down</p>"))
        until(
            lambda: page.evaluate("pauses.filter((each) => each === 30000).length >= 2"),
            "the page pauses",
            60,
        )
        asked = [each for each in page.evaluate("pauses") if 2000 < each < 30_000]
        assert asked == [4000, 8000, 16000]
        expect(page.get_by_text("The server does not answer.")).to_be_visible()
        expect(page.get_by_role("heading", name="Pods by state")).to_be_visible()


def test_a_token_stays_in_its_tab(watched: Watched, logs: str, tmp_path: Path) -> None:
    token = "a-token-that-is-long-enough"
    (tmp_path / "tokens").write_text(f"tokens: [{{name: a, token: {token}}}]")
    with (
        serving("--database", logs, "--tokens", str(tmp_path / "tokens")) as address,
        watched.page() as page,
    ):
        page.goto(f"{address.removesuffix('/api/v1')}/?stream={TIGHT}")
        assert TIGHT not in page.locator("body").inner_text()
        assert watched.accessibility(page) == []
        page.get_by_label("Token", exact=True).fill("a-wrong-token-of-that-length")
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_text("The token is unknown to this server.")).to_be_visible()
        page.get_by_label("Token", exact=True).fill(token)
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#nodes")).to_be_visible()
        assert token not in page.url
        assert page.context.cookies() == []
        assert page.evaluate("localStorage.length") == 0
        page.reload()
        expect(page.locator("#nodes")).to_be_visible()
