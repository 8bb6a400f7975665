"""The locked packages of the image: those that pyproject.toml asks for, each with its hashes."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from .rendering import DEPLOY

ROOT = DEPLOY.parent
FILES = sorted((DEPLOY / "image" / "requirements").glob("*.txt"))
PACKAGE = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+?)(?: ;[^\\]*)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


def locked(path: Path) -> dict[str, Version]:
    """The versions by package. Fails on a line that is neither a package with hashes nor a hash."""
    versions: dict[str, Version] = {}
    hashes = 1
    for line in path.read_text().splitlines():
        if package := PACKAGE.match(line):
            assert hashes, f"no hash before {line}"
            versions[package[1]], hashes = Version(package[2]), 0
        else:
            assert HASH.match(line), line
            hashes += 1
    assert hashes
    return versions


def wanted(extras: set[str]) -> list[Requirement]:
    """What pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = list(project["dependencies"])
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    nested = [Requirement(line) for line in lines]
    found: list[Requirement] = []
    for requirement in nested:
        if requirement.name == project["name"]:
            found += wanted(set(requirement.extras))
        else:
            found.append(requirement)
    return found


def test_there_is_a_lock_for_each_image() -> None:
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    makefile = (ROOT / "Makefile").read_text()
    names = {path.stem for path in FILES}
    assert names == set(re.findall(r"EXTRAS=([\w,-]+)", dockerfile))
    (listed,) = re.findall(r"^LOCKED := (.+)$", makefile, re.MULTILINE)
    assert names == set(listed.split())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_lock_has_what_is_asked_for(path: Path) -> None:
    """In a version that pyproject.toml allows: if this fails, `make requirements`."""
    versions = locked(path)
    for requirement in wanted(set(path.stem.split(","))):
        version = versions[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, requirement
