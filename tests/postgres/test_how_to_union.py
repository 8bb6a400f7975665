"""docs/how-to/several-servers.md: its commands."""

from pathlib import Path

from tests.databases import complete_programs
from tests.pages import Page
from tests.postgres.unions import READER, three_servers


def test_the_commands(programs: Path, place: Path, tmp_path: Path) -> None:
    """The page makes the database and its reader; ``east`` is down for its last questions."""
    with three_servers(programs, place, with_union=False) as union:
        east = union.servers["east"]

        def before(command: str) -> bool:
            if "count(*) FROM decisions" in command:
                east.close()
            return True

        owner = union.url.replace("/several", "/postgres")
        values = {
            "WEST": union.servers["west"].url(READER),
            "EAST": east.url(READER),
            "ADMIN": owner,
            "UNION_OWNER": union.url,
            "UNION": union.reader,
        }
        path = (complete_programs(programs, place),)
        assert (
            Page("how-to/several-servers.md", tmp_path, values, path=path, before=before).run() == 6
        )
