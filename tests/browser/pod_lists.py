"""The list of the page Pods: its address, its rows, and which names it shows."""

from playwright.sync_api import Page

from tests.postgres.histories import TIGHT

EVER = f"/pods?stream={TIGHT}&ever=true"
ROWS = "#pods tbody tr[aria-rowindex]"
FITS = "(place) => place.scrollWidth <= place.clientWidth"
TOP_ROW = """(place) => {
  const head = place.querySelector("thead").getBoundingClientRect().bottom;
  const rows = [...place.querySelectorAll("tr[aria-rowindex]")];
  return rows.find((row) => row.getBoundingClientRect().bottom > head + 1).cells[0].textContent;
}"""
"""The name in the first row in sight."""


def shown_names(page: Page) -> list[str]:
    return page.locator(f"{ROWS} th").all_inner_texts()
