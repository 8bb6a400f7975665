"""The page What-if: a configuration that is checked as it is typed, a run, new pods."""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from eventsched.pages.rendering import age
from tests.api.test_serve import serving
from tests.browser.conftest import NARROW, WIDE, Watched
from tests.postgres.histories import TIGHT
from tests.unit.runtime.what_if.histories import MOST_ALLOCATED

pytestmark = pytest.mark.process
PATH = f"/what-if?stream={TIGHT}"
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: new}\nspec: {containers: [{name: main}]}\n"


def _typed(page: Page, text: str) -> None:
    page.get_by_label("KubeSchedulerConfiguration").fill(text)


def _run(page: Page, url: str) -> Any:
    """Runs a configuration up to position 400. Returns the API's answer."""
    _typed(page, MOST_ALLOCATED)
    page.get_by_label("Until").fill("400")
    page.get_by_label("Until").press("Enter")
    expect(page.locator("#outcome")).to_be_focused()
    return page.request.post(
        f"{url}/api/v1/what-if?stream={TIGHT}&until=400&limit=1000", data=MOST_ALLOCATED
    ).json()


LOOKS = pytest.mark.parametrize(
    ("size", "dark"), [(WIDE, False), (NARROW, True)], ids=["wide-light", "narrow-dark"]
)


def _is_accessible(watched: Watched, page: Page, size: tuple[int, int]) -> None:
    assert watched.accessibility(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]


@LOOKS
def test_a_configuration_is_checked_and_run(
    watched: Watched, url: str, size: tuple[int, int], dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}{PATH}")
        check = page.locator("#check")
        _typed(page, "kind: KubeSchedulerConfiguration\nprofile: 1\n")
        expect(check).to_contain_text("apiVersion is missing")
        expect(page.locator("#configuration")).to_have_attribute("aria-invalid", "true")
        _is_accessible(watched, page, size)
        _typed(page, MOST_ALLOCATED.replace("- plugin", "- schedulerName: defualt\n  plugin", 1))
        expect(check).to_contain_text("no profile is named default-scheduler: pods with this")
        expect(check).to_contain_text("did you mean default-scheduler instead of defualt?")
        _typed(page, MOST_ALLOCATED)
        expect(check).to_contain_text("NodeResourcesFit=1")
        expect(page.locator("#configuration")).to_have_attribute("aria-invalid", "false")
        answer = _run(page, url)
        outcome = page.locator("#outcome")
        expect(page.locator("#run")).to_be_hidden()
        expect(page).to_have_url(
            re.compile(re.escape(f"{url}/what-if?until=400&stream={TIGHT}&result="))
        )
        assert answer["moved"] > 1
        expect(outcome).to_contain_text(f"{answer['moved']} pods would be on another node")
        waited = age(answer["after"]["waited"]["p99"])
        expect(outcome.get_by_role("row", name="Waiting time, p99")).to_contain_text(waited)
        expect(outcome.locator("svg")).not_to_have_count(0)
        outcome.get_by_text("What the numbers mean").click()
        expect(outcome).to_contain_text("Changes are in percentage points")
        page.get_by_text("The same answer elsewhere").click()
        expect(page.get_by_text("POST /api/v1/what-if")).to_be_visible()
        _is_accessible(watched, page, size)


@LOOKS
def test_pods_that_differ_are_sorted_and_paged(
    watched: Watched, url: str, size: tuple[int, int], dark: bool
) -> None:
    """Back and a reload keep the place, and each pod leads to its page."""
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}{PATH}")
        answer = _run(page, url)
        outcome = page.locator("#outcome")
        pods = outcome.locator(".moved-pods tbody th")
        names = [f"{each['namespace']}/{each['name']}" for each in answer["differences"]]
        expect(page.get_by_role("navigation", name="Pods that differ")).to_have_count(2)
        assert len(names) > 25
        page.get_by_label("Number of pods").fill("7")
        title = outcome.get_by_role("columnheader", name="Pod", exact=True)
        for order, wanted in (("ascending", sorted(names)), ("descending", sorted(names)[::-1])):
            title.get_by_role("link").press("Enter")
            expect(title).to_have_attribute("aria-sort", order)
            expect(pods).to_have_text(wanted[:25])
        outcome.get_by_role("link", name="Next").first.click()
        expect(pods).to_have_text(wanted[25:50])
        expect(page.locator("#differences")).to_be_focused()
        expect(page.get_by_role("heading", name="Pods that differ")).to_be_in_viewport()
        expect(page.get_by_label("Number of pods")).to_have_value("7")
        _is_accessible(watched, page, size)
        page.go_back()
        expect(pods).to_have_text(wanted[:25])
        page.reload()
        expect(pods).to_have_text(wanted[:25])
        page.goto(page.url.partition("&sort")[0])
        moved = answer["differences"][0]
        outcome.get_by_role("link", name=f"{moved['namespace']}/{moved['name']}").click()
        expect(page.locator("#timeline-title")).to_be_visible()


@pytest.mark.parametrize("has_script", [True, False])
def test_usual_changes(watched: Watched, url: str, has_script: bool) -> None:
    with watched.page(script=has_script) as page:
        page.goto(f"{url}{PATH}")
        page.get_by_text("Usual changes", exact=True).click()
        expect(page.locator(".weights")).to_contain_text("ImageLocality × 1")
        page.get_by_label("Plugin", exact=True).fill("ImageLocality")
        if has_script:
            expect(page.get_by_label("Its weight")).to_have_accessible_name(
                "Its weight (in force: 1)"
            )
        page.get_by_label("Off", exact=True).check()
        page.get_by_label("Without nodes").fill("node-00000")
        page.get_by_role("button", name="Put into the configuration").click()
        expect(page.locator("#outcome")).to_contain_text("The configuration is filled in")
        typed = page.get_by_label("KubeSchedulerConfiguration")
        assert "disabled:\n      - name: ImageLocality" in typed.input_value()
        weights = page.locator("#in-force")
        expect(weights).to_contain_text("ImageLocality × 1 → off as typed")
        expect(page.get_by_label("Nodes", exact=True)).to_have_value("-node-00000")
        page.get_by_label("Until").fill("400")
        page.get_by_role("button", name="Decide again").click()
        expect(page.locator("#outcome")).to_contain_text("What would have been")


@pytest.mark.parametrize("has_script", [True, False])
def test_a_weight_in_force_leads_to_its_field(watched: Watched, url: str, has_script: bool) -> None:
    """By the keyboard alone, and with a script what is typed stays."""
    with watched.page(script=has_script) as page:
        page.goto(f"{url}{PATH}")
        page.get_by_label("Until").fill("400")
        page.get_by_role("link", name="ImageLocality × 1").press("Enter")
        expect(page.get_by_label("Plugin", exact=True)).to_have_value("ImageLocality")
        weight = page.get_by_label("Its weight (in force: 1)")
        expect(weight).to_be_visible()
        if has_script:
            expect(weight).to_be_focused()
            expect(page.get_by_label("Until")).to_have_value("400")
        page.get_by_label("Until").fill("400")
        weight.fill("7")
        weight.press("Enter")
        expect(page.locator("#outcome")).to_contain_text("What would have been")
        typed = page.get_by_label("KubeSchedulerConfiguration")
        expect(typed).to_have_value(re.compile("weight: 7"))
        expect(page.locator('[name="weight"]')).to_have_value("")


def test_a_reset_drops_what_was_typed(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}{PATH}")
        typed = page.get_by_label("KubeSchedulerConfiguration")
        there = typed.input_value()
        _typed(page, "kind: broken")
        expect(page.locator("#check")).to_contain_text("is not supported")
        page.reload()
        expect(typed).to_have_value("kind: broken")
        page.get_by_role("link", name="Reset both forms").click()
        expect(typed).to_have_value(there)
        expect(page.locator("#check")).to_be_hidden()


def test_a_change_is_seen_as_a_whole(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}{PATH}&plugin=ImageLocality&weight=10")
        page.get_by_role("button", name="Put into the configuration").click()
        typed = page.get_by_label("KubeSchedulerConfiguration")
        expect(typed).to_have_value(re.compile("weight: 10"))
        assert typed.evaluate("field => field.scrollHeight <= field.clientHeight")


def test_the_weights_in_force_have_the_typed_ones_beside_them(watched: Watched, url: str) -> None:
    with watched.page() as page:
        page.goto(f"{url}{PATH}&plugin=ImageLocality&weight=10")
        typed = page.get_by_label("KubeSchedulerConfiguration")
        weights = page.locator("#in-force li", has_text="ImageLocality")
        expect(weights).to_have_text("ImageLocality × 1 → × 10 as typed")
        _typed(page, typed.input_value().replace("weight: 10", "weight: 20"))
        expect(weights).to_have_text("ImageLocality × 1 → × 20 as typed")
        _typed(page, "")
        expect(weights).to_have_text("ImageLocality × 1")
        _typed(page, MOST_ALLOCATED)
        expect(page.locator("#in-force .typed")).to_have_text(["→ off as typed"])


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
def test_a_wrong_field_says_what_is_accepted(watched: Watched, url: str, has_script: bool) -> None:
    watched.expected = "status of 400"
    with watched.page(script=has_script) as page:
        page.goto(f"{url}{PATH}")
        field = page.get_by_label("From position or time")
        field.fill("yesterdy")
        page.get_by_role("button", name="Decide again").click()
        expect(page.locator("#outcome")).to_contain_text("Nothing was decided")
        expect(field).to_be_focused()
        expect(field).to_be_in_viewport()
        expect(page.get_by_text("is neither a position nor a time")).to_have_count(1)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_have_accessible_description(
            re.compile("'yesterdy' is neither a position nor a time; write a number")
        )
        if has_script:
            assert watched.accessibility(page) == []
        field.fill("0")
        page.get_by_label("Until").fill("400")
        page.get_by_role("button", name="Decide again").click()
        expect(page.locator("#outcome")).to_contain_text("What would have been")
        expect(page.locator(".field-problem")).to_have_count(0)
        expect(field).not_to_have_attribute("aria-invalid", "true")


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
def test_back_and_a_reload_have_the_result_and_what_was_typed(
    watched: Watched, url: str, has_script: bool
) -> None:
    """Also another reader who is sent the address."""
    typed = f"{MOST_ALLOCATED}# mine\n"
    with watched.page(script=has_script) as page:
        page.goto(f"{url}{PATH}")
        if has_script:
            page.get_by_label("Pods, Jobs, Deployments or StatefulSets").fill(POD)
        _typed(page, typed)
        page.get_by_label("Until").fill("400")
        page.get_by_role("button", name="Decide again").click()
        outcome = page.locator("#outcome")
        expect(outcome).to_contain_text("would be on another node")
        address = page.url
        outcome.locator(".moved-pods tbody th a").first.click()
        expect(page.locator("#timeline-title")).to_be_visible()
        for come in (page.go_back, page.reload):
            come()
            expect(outcome).to_contain_text("would be on another node")
            expect(page.locator("#configuration")).to_have_value(typed)
            expect(page.get_by_label("Until")).to_have_value("400")
            if has_script:
                expect(page.locator("#new")).to_have_value(POD)
    with watched.page() as page:
        page.goto(address)
        expect(page.locator("#outcome")).to_contain_text("would be on another node")
        expect(page.locator("#configuration")).to_have_value(typed)
        assert watched.accessibility(page) == []


def test_each_result_is_an_entry_of_the_history(watched: Watched, url: str) -> None:
    """With what was typed for it; before the first one is the form alone."""
    with watched.page() as page:
        page.goto(f"{url}{PATH}")
        outcome, count = page.locator("#outcome"), page.get_by_label("Number of pods")
        page.get_by_label("Pods, Jobs, Deployments or StatefulSets").fill(POD)
        for number in ("2", "3"):
            count.fill(number)
            page.get_by_role("button", name="Try").click()
            expect(outcome).to_contain_text(f"{number} of {number} would be placed.")
        page.go_back()
        expect(outcome).to_contain_text("2 of 2 would be placed.")
        page.go_back()
        expect(outcome).to_be_hidden()
        expect(count).to_have_value("2")
        expect(page.locator("#new")).to_have_value(POD)
        page.go_forward()
        page.go_forward()
        expect(outcome).to_contain_text("3 of 3 would be placed.")
        expect(count).to_have_value("3")


def test_what_is_typed_outlives_a_result_that_is_lost(watched: Watched, url: str) -> None:
    watched.expected = "status of 404"
    with watched.page() as page:
        page.goto(f"{url}{PATH}&result=0123")
        expect(page.locator("#outcome")).to_contain_text("This result is no longer kept")
        _typed(page, MOST_ALLOCATED)
        page.reload()
        expect(page.locator("#configuration")).to_have_value(MOST_ALLOCATED)
        expect(page.locator("#check")).to_contain_text("NodeResourcesFit=1")


def test_a_run_without_a_result(watched: Watched, url: str) -> None:
    """One that is cancelled, and one whose client has lost its rights meanwhile."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    watched.expected = "ERR_"
    with watched.page() as page:
        page.goto(f"{url}{PATH}")
        page.route(lambda address: address.endswith(PATH), hold)
        page.get_by_role("button", name="Decide again").press("Enter")
        expect(page.locator("#run")).to_contain_text("Reading the state at the beginning")
        assert watched.accessibility(page) == []
        page.get_by_role("button", name="Cancel").press("Enter")
        expect(page.locator("#run")).to_be_hidden()
        expect(page.get_by_role("button", name="Decide again")).to_be_focused()
        expect(page.locator("#outcome")).to_be_hidden()
        assert len(held) == 1
        page.unroute_all()
        lost = '<section data-problem="403"><p>is not yours</p></section>'
        page.route(
            lambda address: address.endswith(PATH),
            lambda route: route.fulfill(body=lost, content_type="text/html"),
        )
        page.get_by_role("button", name="Decide again").press("Enter")
        expect(page.get_by_text("There is no result: is not yours")).to_be_visible()
        expect(page.locator("#run")).to_be_hidden()


@pytest.mark.parametrize("script", [True, False], ids=["script", "no-script"])
def test_new_pods_and_what_is_wrong(watched: Watched, url: str, script: bool) -> None:
    watched.expected = "status of 400"
    with watched.page(script=script) as page:
        page.goto(f"{url}{PATH}")
        page.get_by_label("Pods, Jobs, Deployments or StatefulSets").fill(POD)
        page.get_by_label("Number of pods").fill("2")
        page.get_by_role("button", name="Try").click()
        outcome = page.locator("#outcome")
        expect(outcome).to_contain_text("2 of 2 would be placed.")
        if script:
            assert watched.accessibility(page) == []
        page.get_by_label("From position or time").fill("99999999")
        page.get_by_role("button", name="Decide again").click()
        expect(page.locator(".field-problem")).to_contain_text("not before the end of the log")
        expect(page.get_by_label("From position or time")).to_have_value("99999999")
        pods = page.get_by_label("Pods, Jobs, Deployments or StatefulSets")
        pods.fill(POD.replace("{name: main}", "{name: main, resources: {reqests: {cpu: 1}}}"))
        page.get_by_role("button", name="Try").click()
        expect(pods).to_be_focused()
        wrong = page.locator("main").get_by_text("reqests: ResourceRequirements has no such field")
        expect(wrong).to_have_count(1)
        expect(wrong).to_be_in_viewport()
        expect(wrong).to_contain_text("did you mean requests?")
        expect(wrong).not_to_contain_text("body")


def test_without_a_script_the_page_has_the_result(watched: Watched, url: str) -> None:
    with watched.page(script=False) as page:
        page.goto(f"{url}{PATH}&until=400")
        _typed(page, MOST_ALLOCATED)
        page.get_by_role("button", name="Decide again").click()
        expect(page.locator("#outcome")).to_contain_text("would be on another node")
        expect(page.get_by_role("row", name="Preemptions")).to_be_visible()
        expect(page.locator("#configuration")).to_have_value(MOST_ALLOCATED)
        expect(page.get_by_label("Until")).to_have_value("400")


def test_forms_are_sent_with_the_token(watched: Watched, logs: str, tmp_path: Path) -> None:
    token = "a-token-that-is-long-enough"
    (tmp_path / "tokens").write_text(f"tokens: [{{name: a, token: {token}}}]")
    with (
        serving("--database", logs, "--tokens", str(tmp_path / "tokens")) as address,
        watched.page() as page,
    ):
        page.goto(f"{address.removesuffix('/api/v1')}{PATH}")
        page.get_by_label("Token", exact=True).fill(token)
        page.get_by_role("button", name="Use it").click()
        page.get_by_label("Pods, Jobs, Deployments or StatefulSets").fill(POD)
        page.get_by_role("button", name="Try").click()
        expect(page.locator("#outcome")).to_contain_text("1 of 1 would be placed.")
        _typed(page, "kind: a")
        expect(page.locator("#check")).to_contain_text("is not supported")
