"""The page of a pod: its headline, timeline, attempts and story, and what changed in between."""

import json
import re
import shlex
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import NARROW, WIDE, Watched
from tests.browser.hostile import HOSTILE, MARKUP, NAME
from tests.postgres.histories import ODD, TIGHT

pytestmark = pytest.mark.process
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def retried(page: Page, url: str) -> tuple[str, dict[str, Any]]:
    """The path of the pod with the most attempts in the simulation, and its story."""
    answer = page.request.get(f"{url}/api/v1/decisions?stream={TIGHT}&limit=1000").json()
    pod = max(answer["decisions"], key=lambda each: each["attempt"])
    path = f"/pods/{pod['namespace']}/{pod['pod']}"
    return path, page.request.get(f"{url}/api/v1{path}/explain?stream={TIGHT}").json()


@pytest.mark.parametrize("script", [False, True])
def test_headline_attempts_and_story(watched: Watched, url: str, *, script: bool) -> None:
    """The same with and without a script; every attempt of the timeline leads to its decision."""
    with watched.page(script=script) as page:
        path, story = retried(page, url)
        line = page.request.get(f"{url}/api/v1{path}/timeline?stream={TIGHT}").json()
        page.goto(f"{url}{path}?stream={TIGHT}")
        for sentence in line["headline"]:
            expect(page.get_by_text(sentence, exact=True)).to_be_visible()
        expect(page.locator(".history li")).to_have_count(len(line["story"]))
        expect(page.locator(".demands")).to_contain_text(
            f"cpu {line['demands']['requests']['cpu']}"
        )
        links = page.locator('.lane-bars[aria-label="attempts"] a')
        expect(links).to_have_count(len(story["attempts"]))
        last = story["attempts"][-1]["seq"]
        href = links.last.get_attribute("href")
        assert href == f"/decisions/{last}?stream={TIGHT}"
        page.get_by_role(
            "link", name=f"Attempt {story['attempts'][-1]['attempt']}", exact=True
        ).click()
        expect(page.locator("h1")).to_contain_text("Attempt ")
        assert page.url.startswith(f"{url}/decisions/{last}")


def test_why_not_a_node(watched: Watched, url: str) -> None:
    """Without a script: the remedy, and one line about a node that is not there."""
    with watched.page(script=False, size=NARROW) as page:
        found = page.request.get(
            f"{url}/api/v1/decisions?stream={TIGHT}&outcome=unschedulable&limit=1"
        ).json()["decisions"][0]
        path = f"/pods/{found['namespace']}/{found['pod']}"
        asked = f"stream={TIGHT}&node=node-00001"
        answer = page.request.get(f"{url}/api/v1{path}/why-not?{asked}").json()
        page.goto(f"{url}{path}?stream={TIGHT}")
        page.get_by_role("textbox", name="Node").fill("node-00001")
        page.get_by_role("button", name="Why not this node?").click()
        for change in answer["remedies"][0]:
            expect(page.locator(".remedies")).to_contain_text(change["text"])
        expect(page.locator("body")).to_have_attribute("data-live", "false")
        page.get_by_role("textbox", name="Node").fill("nosuch")
        page.get_by_role("button", name="Why not this node?").click()
        problem = page.request.get(f"{url}/api/v1{path}/why-not?stream={TIGHT}&node=nosuch").json()
        expect(page.locator("#why-not ~ p")).to_contain_text(problem["detail"])


def test_nodes_are_offered_as_one_types(watched: Watched, url: str) -> None:
    """The first 50 of 5,000, asked for once, when the field is used; without an answer it takes any
    text."""
    names = [f"node-{number:04}" for number in range(5_000)]
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.abort()
        else:
            route.fulfill(body=json.dumps({"names": [*names, MARKUP]}))

    watched.expected = "ERR_FAILED"
    with watched.page() as page:
        path, story = retried(page, url)
        page.route("**/columns?*", answer)
        page.goto(f"{url}{path}?stream={TIGHT}")
        field, options = page.get_by_label("Node", exact=True), page.locator("datalist option")
        expect(page.locator("#zoom button")).to_have_count(3)
        assert asked == []
        field.focus()
        expect(page.locator("datalist")).to_have_count(1)
        expect(options).to_have_count(0)
        field.fill("node-00")
        expect(options).to_have_count(50)
        assert options.first.get_attribute("value") == "node-0000"
        field.fill("E-4999")
        expect(options).to_have_count(1)
        assert options.get_attribute("value") == "node-4999"
        field.fill("alert")
        expect(options).to_have_count(1)
        assert options.get_attribute("value") == MARKUP
        last = story["attempts"][-1]["seq"]
        call = f"{url}/api/v1/decisions/{last}/columns?stream={TIGHT}"
        assert asked == [call, call]
        assert watched.accessibility(page) == []


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_the_command_of_the_next_step(watched: Watched, url: str, *, script: bool) -> None:
    """It is a link to the page that answers it, also with markup in names; with a script, it can be
    copied."""
    pod, node = f"{NAME}/pod1 {NAME}", f"node {MARKUP}"
    command = shlex.join(["eventsched", "explain", pod, "--why-not", node])
    with watched.page(script=script) as page:
        page.add_init_script(
            "navigator.clipboard.writeText = async (text) => { window.copied = text; }"
        )
        path = "/".join(quote(part, safe="") for part in pod.split("/"))
        page.goto(f"{url}/pods/{path}?stream={quote(HOSTILE, safe='')}")
        code = page.locator(".next-step code")
        expect(code).to_have_text(command)
        copy = page.locator(".next-step").get_by_role("button", name="Copy")
        if script:
            copy.click()
            expect(copy).to_have_text("Copied")
            assert page.evaluate("window.copied") == command
            expect(copy).to_have_text("Copy")
            assert watched.accessibility(page) == []
        else:
            expect(copy).to_be_hidden()
        code.click()
        expect(page.get_by_label("Node", exact=True)).to_have_value(node)
        assert page.locator("main img, main script, main b, main i").count() == 0


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_the_group_of_a_pod(
    watched: Watched, url: str, size: tuple[int, int], *, script: bool
) -> None:
    """The page of a member leads to its group, which says what holds it and who its members are;
    each of them leads to its page."""
    stream, path = quote(HOSTILE, safe=""), quote(NAME, safe="")
    with watched.page(size=size, script=script) as page:
        call = f"{url}/api/v1/workloads/{path}/group/{path}/explain?stream={stream}"
        group = page.request.get(call).json()
        page.goto(f"{url}/pods/{path}/pod2%20{path}?stream={stream}")
        page.get_by_role("link", name=f"group/{NAME}").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(f"Pod group {NAME}/{NAME}")
        expect(page.locator(".lead")).to_contain_text(group["why"])
        assert "no profile has the plugin Coscheduling" in group["why"]
        members = page.locator('section[aria-labelledby="members"] li')
        expect(members).to_have_count(len(group["members"]))
        for member in group["members"]:
            row = members.filter(has_text=member["pod"])
            expect(row).to_contain_text(member["node"] or "without a node")
        assert page.locator("main img, main script, main b, main i").count() == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        if script:
            assert watched.accessibility(page) == []
        page.get_by_role("link", name=group["members"][0]["pod"]).last.click()
        expect(page.get_by_role("heading", level=1)).to_have_text(group["members"][0]["pod"])


def test_the_difference_of_two_attempts(watched: Watched, url: str) -> None:
    with watched.page() as page:
        path, story = retried(page, url)
        first, last = story["attempts"][0]["seq"], story["attempts"][-1]["seq"]
        page.goto(f"{url}{path}?stream={TIGHT}&diff={first}..{last}")
        call = f"{url}/api/v1/decisions/{first}/changes/{last}?stream={TIGHT}"
        found = page.request.get(call).json()
        assert found["nodes"]
        changes = page.locator('section[aria-labelledby="changes"]')
        expect(changes.locator("p").first).to_have_text(found["conclusion"])
        for fold in changes.locator("summary").all():
            fold.click()
        for node in found["nodes"]:
            row = page.locator(".differences").get_by_role("row", name=node["node"])
            expect(row).to_contain_text(node["before"] or "not there")
            expect(row).to_contain_text(node["after"] or "not there")
        shown = page.locator('section[aria-labelledby="changes"] .history li')
        expect(shown).to_have_count(len(found["between"]))
        expect(page.locator("body")).to_have_attribute("data-live", "false")
        page.get_by_role("link", name="close").click()
        expect(page.get_by_role("heading", name="What changed")).to_have_count(0)
        expect(page.locator("body")).to_have_attribute("data-live", "true")


@pytest.mark.parametrize("script", [False, True])
def test_what_does_not_matter_is_folded(watched: Watched, url: str, *, script: bool) -> None:
    """Ten lines of what happened in between are shown, the others only when asked for."""
    with watched.page(script=script) as page:
        path, story = retried(page, url)
        first, last = story["attempts"][0]["seq"], story["attempts"][-1]["seq"]
        call = f"{url}/api/v1/decisions/{first}/changes/{last}?stream={TIGHT}"
        found = page.request.get(call).json()
        page.goto(f"{url}{path}?stream={TIGHT}&diff={first}..{last}")
        changes = page.locator('section[aria-labelledby="changes"]')
        lines = changes.locator(".history li")
        expect(lines).to_have_count(len(found["between"]))
        assert len(found["between"]) > 10
        expect(lines.locator("visible=true")).to_have_count(10)
        fold = changes.locator("summary", has_text="more")
        expect(fold).to_have_text(f"{len(found['between']) - 10} more")
        fold.click()
        expect(lines.locator("visible=true")).to_have_count(len(found["between"]))


def test_a_difference_of_nonsense_is_one_line(watched: Watched, url: str) -> None:
    with watched.page() as page:
        path, _ = retried(page, url)
        page.goto(f"{url}{path}?stream={TIGHT}&diff=one..two")
        changes = page.locator('section[aria-labelledby="changes"]')
        expect(changes).to_contain_text("'one' is not a number")


def test_several_lives_of_one_name(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}/pods/prod/web?stream={ODD}")
        older = page.get_by_role("link", name="from position")
        expect(older).to_have_count(2)
        older.first.click()
        expect(page.get_by_text("the newest of this name")).to_be_visible()
        expect(page.locator(".lead")).to_contain_text("has been gone")


def test_lines_of_the_story_lead_on(watched: Watched, url: str) -> None:
    """To the decision of an attempt, else to the pod as it was then; and from there, why not a
    node."""
    with watched.page(script=False) as page:
        path, story = retried(page, url)
        page.goto(f"{url}{path}?stream={TIGHT}")
        first = story["attempts"][0]["seq"]
        decided = page.locator(f"#p{first} a").first
        assert decided.get_attribute("href") == f"/decisions/{first}?stream={TIGHT}"
        positions = page.locator(".history li > .quiet a")
        expect(positions).to_have_count(page.locator(".history li").count())
        page.goto(f"{url}{path}?stream={TIGHT}&at={first + 1}")
        page.get_by_label("Node", exact=True).fill("node-00001")
        page.get_by_role("button", name="Why not this node?").click()
        asked = f"stream={TIGHT}&node=node-00001&attempt=1"
        answer = page.request.get(f"{url}/api/v1{path}/why-not?{asked}").json()
        expect(page.locator(".remedies")).to_contain_text("Attempt 1 was decided again")
        for changes in answer["remedies"]:
            for change in changes:
                expect(page.locator(".remedies")).to_contain_text(change["text"])
        assert f"at={first + 1}" in page.url


def test_a_bar_leads_to_its_line_of_the_story(watched: Watched, url: str) -> None:
    """The page stays: only the place in it changes."""
    with watched.page() as page:
        path, _ = retried(page, url)
        page.goto(f"{url}{path}?stream={TIGHT}")
        expect(page.locator("#zoom button")).to_have_count(3)
        bar = page.locator('.lane-bars[aria-label="queues"] a').first
        place = bar.get_attribute("href")
        main = page.locator("main").element_handle()
        with page.expect_event("framenavigated"):
            bar.press("Enter")
        assert page.url == f"{url}{path}?stream={TIGHT}{place}"
        expect(page.locator(f".history li{place}:target")).to_be_visible()
        page.go_back()
        page.wait_for_function("!location.hash")
        assert main.evaluate("main => main.isConnected")


@pytest.mark.parametrize("script", [False, True])
def test_the_colours_of_the_timeline_have_a_legend(
    watched: Watched, url: str, *, script: bool
) -> None:
    with watched.page(script=script) as page:
        path, _ = retried(page, url)
        line = page.request.get(f"{url}/api/v1{path}/timeline?stream={TIGHT}").json()
        page.goto(f"{url}{path}?stream={TIGHT}")
        states = [bar["state"] for lane in line["lanes"] for bar in lane["bars"]]
        assert len(set(states)) > 1
        entries = page.locator(".states li").all_inner_texts()
        shown = [state for entry in entries for state in entry.strip().split(", ")]
        assert sorted(shown) == sorted(set(states))


def test_zoom(watched: Watched, url: str) -> None:
    with watched.page() as page:
        path, _ = retried(page, url)
        page.goto(f"{url}{path}?stream={TIGHT}")
        bar = page.locator('.lane-bars[aria-label="queues"] rect').first
        before = float((bar.get_attribute("width") or "").removesuffix("%"))
        axis, timeline = page.locator(".timeline .axis p"), page.locator(".timeline")
        whole = axis.inner_text()
        assert "in all" in whole
        page.get_by_role("button", name="Zoom in at the start").click()
        after = float((bar.get_attribute("width") or "").removesuffix("%"))
        assert after == pytest.approx(min(100, 2 * before), rel=0.01) or before <= 0.15
        begin, end = (int(timeline.get_attribute(f"data-{each}") or 0) for each in ("begin", "end"))
        shown = [(_EPOCH + timedelta(microseconds=at)) for at in (begin, (begin + end) // 2)]
        wanted = [re.compile(f"^{at:%H:%M:%S}") for at in shown]
        expect(axis.locator("span")).to_have_text(wanted)
        page.get_by_role("button", name="Show all of it").click()
        assert axis.inner_text() == whole
        assert float((bar.get_attribute("width") or "").removesuffix("%")) == pytest.approx(
            before, abs=0.001
        )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_accessible_and_not_too_wide(
    watched: Watched, url: str, size: tuple[int, int], *, dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        path, story = retried(page, url)
        first, last = story["attempts"][0]["seq"], story["attempts"][-1]["seq"]
        page.goto(f"{url}{path}?stream={TIGHT}&diff={first}..{last}")
        expect(page.locator("#zoom button")).to_have_count(3)
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_what_is_open_stays_open(watched: Watched, url: str) -> None:
    """Also the middle of a story, which a long one has folded, when the log has grown."""
    lines = ["line 1"]

    def growing(route: Route) -> None:
        response = route.fetch()
        folded = f"<details><summary>more lines</summary><p>{lines[-1]}</p></details>"
        body = response.text().replace('<h2 id="story">', f'{folded}<h2 id="story">')
        headers = {**response.headers, "etag": f'"{len(lines)}"'}
        route.fulfill(response=response, body=body, headers=headers)

    with watched.page() as page:
        path, _ = retried(page, url)
        page.route(f"{url}{path}?stream={TIGHT}", growing)
        page.goto(f"{url}{path}?stream={TIGHT}")
        page.get_by_text("more lines").click()
        for number in (1, 2, 3):
            expect(page.get_by_text(f"line {number}", exact=True)).to_be_visible()
            lines.append(f"line {number + 1}")
