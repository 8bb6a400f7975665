"""docs/tutorial.md as it stands: its files are written, its commands run, their output compared."""

from pathlib import Path

from tests.pages import Page


def test_the_tutorial_works_as_it_stands(place: Path, tmp_path: Path) -> None:
    page = Page("tutorial.md", tmp_path, {"EVENTSCHED_DATA_DIR": str(place / "log")})
    assert page.run() == 18
