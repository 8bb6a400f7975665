"""docs/sql.md: every answer on it is what its query gives over the openb trace.

``python -m tests.postgres.test_sql_page DATA_DIR`` rewrites the answers.
"""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from eventsched.cli.main import main
from tests.databases import Server, migrate

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
FILES = ("openb_node_list_all_node.csv.gz", "openb_pod_list_default.csv.gz")
_QUESTION = re.compile(r"(?<=```sql\n)(.*?)(?=```)(```\n\n```text\n)(.*?)(?=```)", re.DOTALL)
QUESTIONS = [(found[1], found[3]) for found in _QUESTION.finditer(PAGE.read_text())]


def asked(query: str, *where: str) -> str:
    """What ``eventsched sql`` prints."""
    with redirect_stdout(StringIO()) as out:
        assert main(["sql", *where, "-c", query]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database that the trace was simulated on."""
    folder = os.environ.get("EVENTSCHED_TRACES")
    if not folder:
        pytest.skip("EVENTSCHED_TRACES does not name the folder of the openb trace")
    nodes, pods = (str(Path(folder) / name) for name in FILES)
    with one_server.fresh(migrate) as url:
        assert main(["simulate", "--nodes", nodes, "--pods", pods, "--database", url]) == 0
        yield url


def test_there_are_enough_of_them() -> None:
    assert len(QUESTIONS) >= 15
    assert PAGE.read_text().count("```sql") == len(QUESTIONS)
    assert all(name in PAGE.read_text() for name in FILES)


@pytest.mark.trace
@pytest.mark.parametrize(("query", "answer"), QUESTIONS)
def test_the_answer_is_what_the_page_says(address: str, query: str, answer: str) -> None:
    assert asked(query, "--database", address) == answer


def rewritten(text: str, ask: Callable[[str], str]) -> str:
    """The page with fresh answers."""
    return _QUESTION.sub(lambda found: found[1] + found[2] + ask(found[1]), text)


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text(), lambda q: asked(q, "--data-dir", sys.argv[1])))
