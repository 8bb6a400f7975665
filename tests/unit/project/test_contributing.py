"""CONTRIBUTING.md names files, make targets and groups of tests that there are."""

import re
import tomllib

from tests.databases import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CODE = re.findall(r"`([^`\n]+)`", TEXT)
PATH = re.compile(r"[\w.-]+(?:/[\w.*-]+)+|\w+\.(?:py|md|toml)")
ADDED = re.compile(r"NAME|NNNN|nodes\.yaml|pods\.yaml|__init__")


def test_paths_are_there() -> None:
    """NAME and NNNN stand for what a contributor adds."""
    found = [each for each in CODE if PATH.fullmatch(each) and not ADDED.search(each)]
    assert len(found) > 50
    assert [each for each in found if not any(ROOT.glob(each))] == []


def test_names_are_there() -> None:
    """Of functions, classes, attributes, tests, options: each is a word of some source file."""
    folders = ("eventsched", "tests", "migrations")
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    words = {word for path in files for word in re.findall(r"\w+", path.read_text("utf-8"))}
    wanted = {name for text in CODE for name in re.findall(r"^(\w+)(?:\(.*\))?$", text)}
    assert len(wanted) > 100
    assert sorted(wanted - words - {"COMMENT", "GROUP", "NAME", "PYTHON", "WAKES"}) == []


def test_make_targets_are_there() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = {found[1] for each in CODE if (found := re.match(r"make ([a-z-]+)", each))}
    assert {"unit", "check"} <= wanted
    assert [name for name in wanted if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_groups_are_the_markers() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    known = {line.partition(":")[0] for line in options["markers"]}
    section = TEXT.partition("## Groups of tests")[2].partition("\n## ")[0]
    groups = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    assert groups == known - {"row(number)", "trace"}
