"""Layout of the product: sizes of packages, their docstrings, and names that mean one thing."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3] / "eventsched"
MOST_FILES = 13
"""Files in one package at most."""

LARGE_PACKAGES = {
    "plugins": "one file per plugin",
    "plugins/gallery": "one file per plugin",
    "cli": "one file per command",
    "authoring": "a package and its check, which nothing else imports",
}
NOT_NAMED_BY_US = {"__init__", "__main__"}


def modules() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def test_packages_are_small() -> None:
    files: dict[str, int] = defaultdict(int)
    for path in modules():
        if path.name != "__init__.py":
            files[path.parent.relative_to(ROOT).as_posix()] += 1
    large = {package for package, count in files.items() if count > MOST_FILES}
    assert large == set(LARGE_PACKAGES)


def test_packages_say_what_they_are_for() -> None:
    for path in ROOT.rglob("__init__.py"):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        assert len(text.splitlines()) >= 3 or path.parent == ROOT, path


def test_a_module_name_means_one_module() -> None:
    places = defaultdict(list)
    for path in modules():
        # A command's module bears the command's name, whatever that is.
        if path.stem not in NOT_NAMED_BY_US and path.parent != ROOT / "cli":
            places[path.stem].append(path.relative_to(ROOT).as_posix())
    assert not {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_means_one_class() -> None:
    places = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path.relative_to(ROOT).as_posix())
    assert not {name: found for name, found in places.items() if len(found) > 1}
