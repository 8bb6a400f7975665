"""The commands of docs/how-to/restore-from-an-archive.md."""

from pathlib import Path

from tests.databases import Server
from tests.pages import Page
from tests.postgres.archives import archived, spread
from tests.postgres.histories import TIGHT


def test_the_commands(one_server: Server, four_days: str, tmp_path: Path) -> None:
    """On the archive of a stream that the page names, and a database without a schema."""
    spread(four_days, TIGHT, "eventsched")
    archived(four_days, "eventsched", tmp_path / "archive")
    with one_server.fresh(lambda url: None) as url:
        page = Page(
            "how-to/restore-from-an-archive.md",
            tmp_path,
            {"DATABASE_URL": url, "MIGRATOR_URL": url, "ARCHIVE": str(tmp_path / "archive")},
        )
        assert page.run() == 3
