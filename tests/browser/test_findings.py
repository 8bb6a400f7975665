"""The pages about findings and the help page, over logs with evictions and anomalies."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.api import test_anomalies, test_findings
from tests.api.test_serve import serving
from tests.browser.conftest import NARROW, WIDE, Watched
from tests.databases import Server
from tests.postgres.histories import TIGHT

pytestmark = pytest.mark.process

ANOMALOUS, EVICTIONS = test_anomalies.STREAM, test_findings.STREAM
PAGES = (
    f"/findings?stream={ANOMALOUS}", f"/findings/evictions?stream={ANOMALOUS}",
    f"/findings/refusals?stream={EVICTIONS}", "/help",
)  # fmt: skip


def _prepared(address: str) -> None:
    test_anomalies.written(address)
    test_findings.written(address)


@pytest.fixture(scope="module")
def findings(chromium: str, one_server: Server) -> Iterator[str]:
    """The address of pages over both logs."""
    with one_server.fresh(_prepared) as log, serving("--database", log) as address:
        yield address.removesuffix("/api/v1")


@pytest.mark.parametrize("script", [False, True])
def test_anomalies_lead_to_who_evicted_whom(
    watched: Watched, findings: str, *, script: bool
) -> None:
    with watched.page(script=script) as page:
        page.goto(f"{findings}/?stream={ANOMALOUS}")
        page.get_by_role("link", name="Findings", exact=True).click()
        row = page.get_by_role("row", name="Evicted again and again")
        expect(row).to_contain_text("3 times within 60 minutes")
        page.get_by_role("link", name="preemption").first.click()
        expect(page.locator(".evictions tbody tr")).to_have_count(1)
        expect(page.locator(".evictions tbody")).to_contain_text("gone ")
        page.get_by_role("link", name="its decision").click()
        expect(page.locator("h1")).to_contain_text("/boss-")


@pytest.mark.parametrize("script", [False, True])
def test_a_row_is_a_workload_and_opens(watched: Watched, findings: str, *, script: bool) -> None:
    with watched.page(script=script) as page:
        page.goto(f"{findings}/findings?stream={ANOMALOUS}")
        wasted = page.get_by_role("region", name="Preempted for nothing, table")
        expect(wasted.locator("tbody tr")).to_have_count(2)
        row = wasted.get_by_role("row", name="prod/ReplicaSet/crew-prod")
        expect(row.locator("li")).to_have_count(3)
        expect(row.locator("li").first).to_be_hidden()
        row.get_by_text("all 3").click()
        expect(row.get_by_role("link", name="prod/boss-prod")).to_have_count(4)
        expect(page.get_by_text("Next step: none if it is rare")).to_be_visible()
        row.get_by_role("link", name="prod/ReplicaSet/crew-prod").click()
        expect(page).to_have_url(f"{findings}/workloads/prod/rs/crew-prod?stream={ANOMALOUS}")
        expect(page.locator("h1")).to_contain_text("crew-prod")


def test_refusals_filter_the_pods(watched: Watched, findings: str) -> None:
    with watched.page() as page:
        page.goto(f"{findings}/findings/refusals?stream={EVICTIONS}")
        expect(page.locator(".refusals .plugin")).to_contain_text("NodeResourcesFit")
        page.get_by_role("link", name="Insufficient cpu").first.click()
        expect(page.locator("#pods tbody")).to_contain_text("guests/boss")
        page.go_back()
        page.get_by_role("link", name="all pods", exact=True).first.click()
        expect(page.get_by_label("Plugin", exact=True)).to_have_value("NodeResourcesFit")
        expect(page.locator("#pods tbody")).to_contain_text("guests/boss")


def test_evictions_of_a_namespace(watched: Watched, findings: str) -> None:
    with watched.page() as page:
        page.goto(f"{findings}/findings/evictions?stream={EVICTIONS}")
        expect(page.locator(".evictions tbody tr")).to_have_count(2)
        expect(page.locator(".evictions tbody tr").first).to_contain_text("guests/boss priority 9")
        page.get_by_label("Namespace, either side").fill("prod")
        page.get_by_role("button", name="Filter").click()
        expect(page.locator(".evictions tbody tr")).to_have_count(1)
        page.locator("#elsewhere summary").click()
        expect(page.locator("#elsewhere")).to_contain_text("namespace = 'prod'")


@pytest.mark.parametrize("script", [False, True])
def test_a_filter_without_a_match_offers_names(
    watched: Watched, findings: str, *, script: bool
) -> None:
    with watched.page(script=script) as page:
        page.goto(f"{findings}/findings/refusals?stream={EVICTIONS}")
        page.get_by_label("Namespace").fill("guest")
        page.get_by_role("button", name="Filter").click()
        answer = page.get_by_role("region", name="By plugin and reason")
        expect(answer).to_contain_text("Namespace guest: none of the attempts looked at has it.")
        answer.get_by_role("link", name="guests").click()
        expect(page.locator(".refusals .plugin")).to_contain_text("NodeResourcesFit")
        expect(page.get_by_label("Namespace")).to_have_value("guests")


@pytest.mark.parametrize(
    ("size", "dark"), [(WIDE, False), (NARROW, True)], ids=["wide, light", "narrow, dark"]
)
def test_a_refusal_leads_to_the_nodes_that_refuse_most(
    watched: Watched, url: str, size: tuple[int, int], dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        page.goto(f"{url}/findings/refusals?stream={TIGHT}")
        page.locator(".refusals .reason").first.get_by_role("link", name="nodes").click()
        query = page.url.partition("?")[2].partition("#")[0]
        answer = page.request.get(f"{url}/api/v1/refusals/nodes?{query}").json()
        section = page.get_by_role("region", name="Nodes that NodeResourcesFit refuses most")
        headers = section.get_by_role("rowheader")
        counts = sorted({each["attempts"] for each in answer["nodes"]}, reverse=True)
        words = [f"{count} of {answer['known']} attempts" for count in counts]
        expect(headers).to_have_text(words)
        assert watched.accessibility(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == size[0]
        section.get_by_role("link", name=answer["nodes"][0]["node"], exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(answer["nodes"][0]["node"])


def test_tables_are_cards_on_a_narrow_screen(watched: Watched, findings: str) -> None:
    """Nothing is cut off, and they are still tables for screen readers."""
    with watched.page(size=NARROW) as page:
        paths = [
            f"{findings}/findings/{name}?stream={EVICTIONS}" for name in ("refusals", "evictions")
        ]
        page.goto(paths[1])
        paths.append(
            page.get_by_role("link", name="its decision").first.get_attribute("href") or ""
        )
        paths.append(f"{findings}/findings?stream={ANOMALOUS}")
        for path in paths:
            page.goto(path if "://" in path else f"{findings}{path}")
            tables = page.locator(".scroll:has(.stack)")
            expect(tables).not_to_have_count(0)
            for table in tables.all():
                assert table.evaluate("(place) => place.scrollWidth <= place.clientWidth")
            rows = tables.first.get_by_role("row").filter(has=page.get_by_role("rowheader"))
            expect(rows).not_to_have_count(0)
            assert watched.accessibility(page) == []


def test_what_was_found_is_a_jump_away_on_a_narrow_screen(watched: Watched, findings: str) -> None:
    with watched.page(size=NARROW) as page:
        page.goto(f"{findings}/findings?stream={ANOMALOUS}")
        jumps = page.get_by_role("navigation", name="Found").get_by_role("link")
        kinds = page.request.get(f"{findings}/api/v1/queue/anomalies?stream={ANOMALOUS}").json()
        found = [each["kind"] for each in kinds["kinds"] if each["count"]]
        expect(jumps).to_have_count(len(found))
        last = page.locator(f"#{found[-1].replace(' ', '-')}")
        expect(last).not_to_be_in_viewport()
        jumps.last.click()
        expect(last).to_be_in_viewport()


@pytest.mark.parametrize("script", [False, True])
def test_anomalies_of_the_past(watched: Watched, findings: str, *, script: bool) -> None:
    """The bosses starve before the workloads are evicted for a third time."""
    with watched.page(script=script) as page:
        page.goto(f"{findings}/findings?stream={ANOMALOUS}&at=52")
        expect(page.get_by_role("row", name="Starving")).to_contain_text("4")
        expect(page.locator("#evicted-again")).to_have_count(0)
        if script:
            assert watched.accessibility(page) == []
        page.get_by_role("link", name="who evicted whom until then").click()
        expect(page.locator(".kept-time")).to_contain_text("position 52. Links")
        page.get_by_role("link", name="Anomalies", exact=True).click()
        page.get_by_role("link", name="Live", exact=True).click()
        expect(page.get_by_role("row", name="Evicted again and again")).to_contain_text("2")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_accessible_and_not_too_wide(
    watched: Watched, findings: str, size: tuple[int, int], *, dark: bool
) -> None:
    with watched.page(size=size, dark=dark) as page:
        for path in PAGES:
            page.goto(f"{findings}{path}")
            expect(page.locator("h1")).to_have_count(1)
            assert watched.accessibility(page) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
