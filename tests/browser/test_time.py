"""The slider over time: pages as of a position, and back to what happens now."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import NARROW, WIDE, Watched
from tests.postgres.histories import ODD, TIGHT

pytestmark = pytest.mark.process
ROWS = "#pods tbody tr[aria-rowindex]"


def _bound(page: Page) -> str:
    return page.get_by_role("row", name="bound").locator("td").first.inner_text()


def test_the_slider_by_keyboard(watched: Watched, url: str) -> None:
    """It keeps the focus while pages come; its end is the present."""
    with watched.page() as page:
        page.goto(f"{url}/?stream={TIGHT}")
        slider = page.get_by_label("Time", exact=True)
        expect(page.get_by_role("link", name="Live")).to_have_attribute("aria-current", "true")
        expect(slider).to_have_attribute("aria-valuetext", "now")
        slider.focus()
        page.keyboard.press("Home")
        for _ in range(40):
            page.keyboard.press("ArrowRight")
        expect(page.locator("body")).not_to_have_attribute("aria-busy", "true")
        expect(page.get_by_role("link", name="Live")).not_to_have_attribute("aria-current", "true")
        query = page.url.partition("?")[2]
        answer = page.request.get(f"{url}/api/v1/now?{query}").json()
        states = {each["state"]: each["pods"] for each in answer["states"]}
        assert _bound(page) == str(states["bound"])
        expect(page.locator("#moment-text")).to_have_text(answer["now"][11:19])
        assert page.evaluate("document.activeElement.id") == "moment-range"
        assert page.locator("body").get_attribute("data-live") == "false"
        page.keyboard.press("End")
        expect(page.locator("body")).not_to_have_attribute("aria-busy", "true")
        assert page.url == f"{url}/?stream={TIGHT}"
        expect(page.locator("body")).to_have_attribute("data-live", "true")


CHANGED = 'id="moment-text" data-answer="{}"'


def _changing(page: Page) -> list[str]:
    """Makes each answer that the script loads another one; returns the addresses as they come."""
    asked: list[str] = []

    def answer(route: Route) -> None:
        if "text/html" not in route.request.headers.get("accept", ""):
            route.continue_()
            return
        response = route.fetch()
        asked.append(route.request.url)
        body = response.text().replace('id="moment-text"', CHANGED.format(len(asked)))
        headers = {**response.headers, "etag": f'"{len(asked)}"'}
        route.fulfill(response=response, body=body, headers=headers)

    page.route(re.compile(r"/(pods)?\?"), answer)
    return asked


@pytest.mark.parametrize("path", ["/", "/pods"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_slider_is_dragged_from_the_present(
    watched: Watched, url: str, path: str, size: tuple[int, int]
) -> None:
    """It follows the pointer, also over a refresh; the page is loaded once it is let go."""
    with watched.page(size=size) as page:
        page.goto(f"{url}{path}?stream={TIGHT}")
        asked = _changing(page)
        live = page.url
        slider = page.get_by_label("Time", exact=True)
        box = slider.bounding_box()
        assert box is not None
        end, middle = box["x"] + box["width"] - 8, box["y"] + box["height"] / 2
        page.mouse.move(end, middle)
        page.mouse.down()
        values = []
        for step in range(1, 9):
            page.mouse.move(end - step * box["width"] / 16, middle)
            values.append(int(slider.input_value()))
            if step == 4:
                with page.expect_response(live):
                    pass
        assert values == sorted(set(values), reverse=True)
        assert values[-1] < 0.6 * int(slider.get_attribute("max") or 0)
        expect(page.locator("#moment-text")).to_have_text(re.compile("^00:0[234]:"))
        assert page.locator("#moment-text").get_attribute("data-answer") is None
        page.wait_for_timeout(500)  # longer than a page waits for a further move
        assert (page.url, set(asked)) == (live, {live})
        page.mouse.up()
        expect(page).to_have_url(re.compile("at=1970-01-01T00%3A0[234]"))
        expect(page.locator("body")).not_to_have_attribute("aria-busy", "true")
        expect(page.locator("#moment-text")).to_have_attribute("data-answer", re.compile("."))
        assert int(slider.input_value()) == pytest.approx(values[-1], abs=10_000)


@pytest.mark.parametrize(
    ("size", "dark"), [(WIDE, False), (NARROW, True)], ids=["wide, light", "narrow, dark"]
)
def test_the_time_is_above_the_thumb(
    watched: Watched, url: str, size: tuple[int, int], dark: bool
) -> None:
    """While it is dragged, and with the keyboard as long as the slider has the focus."""
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}/?stream={TIGHT}")
        mark, slider = page.locator("#moment-mark"), page.get_by_label("Time", exact=True)
        box = slider.bounding_box()
        assert box is not None
        expect(mark).to_be_hidden()
        begin, middle = box["x"] + 8, box["y"] + box["height"] / 2
        page.mouse.move(begin + box["width"] - 16, middle)
        page.mouse.down()
        for share in (0.9, 0.5, 0.0):
            page.mouse.move(begin + share * (box["width"] - 16), middle)
            expect(mark).to_have_text(page.locator("#moment-text").inner_text())
            place, box = mark.bounding_box(), slider.bounding_box()
            assert place is not None
            assert box is not None
            part = int(slider.input_value()) / int(slider.get_attribute("max") or 0)
            thumb = box["x"] + 8 + part * (box["width"] - 16)
            assert box["x"] - 1 <= place["x"] < thumb < place["x"] + place["width"]
            assert place["x"] + place["width"] <= box["x"] + box["width"] + 1
            assert place["y"] + place["height"] <= middle
            if share == 0.5:
                assert place["x"] + place["width"] / 2 == pytest.approx(thumb, abs=2)
                assert watched.accessibility(page) == []
        page.mouse.up()
        expect(page).to_have_url(re.compile("at="))
        expect(mark).to_be_hidden()
        slider.press("ArrowRight")
        expect(mark).to_be_visible()
        expect(page.locator("body")).not_to_have_attribute("aria-busy", "true")
        expect(mark).to_have_text(page.locator("#moment-text").inner_text())
        page.keyboard.press("Tab")
        expect(mark).to_be_hidden()


def test_links_keep_the_time(watched: Watched, url: str) -> None:
    """Over all screens: the list, a story, a pod and a decision, as they were then."""
    with watched.page() as page:
        page.goto(f"{url}/?stream={ODD}&at=25")
        page.get_by_role("navigation").get_by_role("link", name="Pods").click()
        expect(page.locator(ROWS)).to_have_count(5)
        page.get_by_role("link", name="default/huge").click()
        page.locator("#panel").get_by_role("link", name="Timeline and story").click()
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()
        assert "at=25" in page.url
        later = page.locator("#story ~ ol li").last
        assert int(later.get_attribute("id").removeprefix("p")) < 25
        page.get_by_role("link", name="Attempt 1", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Attempt 1 for default/huge")
        assert "at=25" in page.url
        expect(page.get_by_role("link", name="next attempt")).to_have_count(0)
        page.get_by_role("link", name="Live").click()
        expect(page.get_by_role("link", name="next attempt")).to_be_visible()


def test_a_decision_leads_to_its_time(watched: Watched, url: str) -> None:
    """Its page is about one moment: no bar says that it is live."""
    with watched.page() as page:
        decided = page.request.get(f"{url}/api/v1/decisions?stream={TIGHT}").json()["decisions"]
        position = decided[-1]["position"]
        page.goto(f"{url}/decisions/{position}?stream={TIGHT}")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Attempt")
        expect(page.locator(".moment")).to_have_count(0)
        page.locator("main time").first.click()
        expect(page).to_have_url(f"{url}/?stream={TIGHT}&at={position}")
        expect(page.locator(".moment.past .place")).to_contain_text(f"position {position} of")


def test_blanks_and_lengths_before_the_end(watched: Watched, url: str) -> None:
    """What is typed into "Go to" of a simulation; then the field has the time that is shown."""
    with watched.page() as page:
        for typed in (" 2m ", "2m ago ", " 00:02"):
            asked = f"{url}/api/v1/position?stream={TIGHT}&at={quote(typed.strip())}"
            position = page.request.get(asked).json()
            page.goto(f"{url}/?stream={TIGHT}")
            page.get_by_label("Go to").fill(typed)
            page.get_by_role("button", name="Go", exact=True).click()
            expect(page).to_have_url(f"{url}/?stream={TIGHT}&at={position['position']}")
            expect(page.get_by_label("Go to")).to_have_value(position["time"][11:19])
            assert (position["time"][11:19] <= "00:02:00") == ("ago" not in typed)


def test_a_time_before_a_pod_came(watched: Watched, url: str) -> None:
    watched.expected = "404"
    with watched.page() as page:
        page.goto(f"{url}/pods/prod/web?stream={ODD}&at=16")
        expect(page.get_by_text("prod/web came only at position")).to_be_visible()
        page.get_by_role("link", name="As it is now").click()
        expect(page.get_by_role("heading", name="Timeline")).to_be_visible()


def test_the_bar_is_low_on_a_narrow_screen(watched: Watched, url: str) -> None:
    with watched.page(size=NARROW) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=300")
        bar = page.locator(".moment").bounding_box()
        assert bar is not None
        assert bar["height"] < 84  # two rows
        for name in ("Live", "1 hour earlier", "1 hour later"):
            expect(page.get_by_role("link", name=name)).to_be_visible()
        page.get_by_label("Go to").fill("500")
        page.get_by_role("button", name="Go", exact=True).click()
        expect(page).to_have_url(re.compile("at=500"))


def test_without_javascript(watched: Watched, url: str) -> None:
    with watched.page(script=False) as page:
        page.goto(f"{url}/pods?stream={ODD}&sort=position")
        expect(page.get_by_label("Time", exact=True)).to_be_hidden()
        page.get_by_label("Go to").fill("25")
        page.get_by_role("button", name="Go", exact=True).click()
        assert "at=25" in page.url
        assert "sort=position" in page.url
        expect(page.locator("#pods tbody tr")).to_have_count(5)
        page.get_by_role("link", name="1 minute earlier").click()
        expect(page.locator("#pods tbody th")).to_have_text(["default/there"])
        page.get_by_role("link", name="1 hour later").click()
        expect(page.get_by_role("link", name="Live")).to_have_attribute("aria-current", "true")


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_a_length_of_time_is_read_once(watched: Watched, url: str, script: bool) -> None:
    """Then all calls of the page, and its links, are about one position."""
    with watched.page(script=script) as page:
        position = page.request.get(f"{url}/api/v1/position?stream={TIGHT}&at=2m").json()
        page.goto(f"{url}/?stream={TIGHT}")
        page.get_by_label("Go to").fill("2m")
        page.get_by_role("button", name="Go", exact=True).click()
        place = f"{url}/?stream={TIGHT}&at={position['position']}"
        page.wait_for_url(place)
        page.get_by_role("navigation").get_by_role("link", name="Pods").click()
        page.wait_for_url(place.replace("/?", "/pods?"))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_past_is_accessible(
    watched: Watched, url: str, size: tuple[int, int], dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}/?stream={TIGHT}&at=300")
        expect(page.locator("#nodes")).to_be_visible()
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
