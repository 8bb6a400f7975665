"""The queries of docs/runbooks.md are valid, and their sample outputs have the right columns."""

import re

import pytest

from eventsched.cli.main import main
from tests.databases import ROOT

PAGE = (ROOT / "docs" / "runbooks.md").read_text()
QUERY = re.compile(r'^\$ eventsched sql -c "(.+)"\n(.*)$', re.MULTILINE)
"""A command, and the first line of its output."""


@pytest.mark.parametrize(("query", "heading"), QUERY.findall(PAGE))
def test_a_query(
    database: str, capsys: pytest.CaptureFixture[str], query: str, heading: str
) -> None:
    assert main(["sql", "--database", database, "-c", query]) == 0
    assert capsys.readouterr().out.split("\n")[0].split() == heading.split()


def test_no_query_is_left_out() -> None:
    assert len(QUERY.findall(PAGE)) == PAGE.count("eventsched sql -c") >= 10
