"""Every row of docs/failure-matrix.md has a test that carries its number, and those that it names
are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROWS = {*range(1, 8), *range(9, 12), *range(13, 23), 26, 28}


def marked() -> dict[int, set[Path]]:
    """Row → files with a ``pytest.mark.row`` of it."""
    found: dict[int, set[Path]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for each in re.findall(r"pytest\.mark\.row\((\d+)\)", path.read_text()):
            found.setdefault(int(each), set()).add(path.relative_to(ROOT))
    return found


def described() -> dict[int, str]:
    """Row → the column of tests."""
    text = (ROOT / "docs" / "failure-matrix.md").read_text()
    lines = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", text, re.MULTILINE)
    return {int(number): tests for number, tests in lines}


def named(tests: str) -> list[tuple[Path, str]]:
    """The tests of a row: file and function."""
    found = []
    for place in tests.split("; "):
        path, *functions = re.findall(r"tests/[\w/]+\.py|test_\w+(?=`)", place)
        found += [(Path(path), each) for each in functions]
    return found


def functions(path: Path) -> set[str]:
    """The tests in a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def test_every_row_has_a_test() -> None:
    assert set(described()) == ROWS
    assert ROWS - set(marked()) == set()


def test_the_tests_that_are_named_are_there() -> None:
    rows = {number: named(tests) for number, tests in described().items()}
    assert all(rows.values())
    lacking = [
        (number, str(path), function)
        for number, tests in rows.items()
        for path, function in tests
        if function not in functions(path)
    ]
    assert lacking == []
