"""Every row of docs/failure-matrix.md names tests that are there and carry its number, and where a
control plane is needed one of them has it."""

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
ROWS = {*range(1, 8), *range(9, 12), *range(13, 23), 26, 28, 30, 31, 32}
CLUSTER = Path("tests/cluster")
"""Where tests run against a real kube-apiserver: every row has one there."""


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


def module(path: Path) -> ModuleType:
    """A file of tests."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(".".join(path.with_suffix("").parts))


def marks(function: Any) -> Iterator[pytest.Mark]:
    """A test's marks, and those of its parameters."""
    for mark in getattr(function, "pytestmark", ()):
        yield mark
        if mark.name == "parametrize":
            for each in mark.args[1]:
                yield from getattr(each, "marks", ())


def rows(path: Path, function: str) -> set[int] | None:
    """The rows whose numbers a test carries; None if there is no such test."""
    found = getattr(module(path), function, None)
    if found is None:
        return None
    return {number for mark in marks(found) if mark.name == "row" for number in mark.args}


def test_the_tests_that_are_named_carry_the_rows_number() -> None:
    assert set(described()) == ROWS
    wrong = [
        (number, str(path), function, carried)
        for number, tests in described().items()
        for path, function in named(tests)
        if number not in ((carried := rows(path, function)) or ())
    ]
    assert wrong == []


def test_every_row_is_proved_against_a_real_control_plane() -> None:
    places = {
        number: {path.parent for path, _ in named(tests)} for number, tests in described().items()
    }
    assert sorted(number for number, found in places.items() if CLUSTER not in found) == []
