"""The tests that docs/guarantees.md and docs/threat-model.md name are there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLACE = re.compile(r"(tests/[\w/]+\.py)((?:[ \n]+`\w+`,?)+)")
"""A file of tests, and the names in backticks after it."""
HISTORICAL = re.compile(r"^\| .* \| `[0-9a-f]{7}`.*\|$", re.MULTILINE)
"""A row about an earlier commit, whose files of tests may have moved since."""


def names(path: Path) -> set[str]:
    """The names that a file defines at its top level; none if there is no such file."""
    if not path.is_file():
        return set()
    defined = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign):
            defined |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return defined


@pytest.mark.parametrize("page", ["guarantees.md", "threat-model.md"])
def test_the_tests_that_a_page_names_are_there(page: str) -> None:
    text = HISTORICAL.sub("", (ROOT / "docs" / page).read_text())
    named = [
        (path, name)
        for path, tests in PLACE.findall(text)
        for name in re.findall(r"`(\w+)`", tests)
    ]
    assert len(named) >= text.count("tests/") > 10, "a file is named without its test"
    missing = [(path, name) for path, name in named if name not in names(ROOT / path)]
    assert missing == []
