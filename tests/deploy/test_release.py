"""The files of a release: of one version, and equal in every build."""

import runpy
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from .rendering import DEPLOY

ROOT = DEPLOY.parent
RELEASE: dict[str, Any] = runpy.run_path(str(DEPLOY / "release" / "release.py"))
ReleaseError = RELEASE["ReleaseError"]
PLACES = (
    "pyproject.toml", "eventsched/__init__.py", "deploy/helm/Chart.yaml", "deploy/Dockerfile",
    "CHANGELOG.md",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The files that name the version."""
    for name in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    return tmp_path


def test_all_places_name_one_version() -> None:
    wanted = RELEASE["version"](ROOT, None)
    assert RELEASE["version"](ROOT, f"v{wanted}") == wanted


@pytest.mark.parametrize(
    ("place", "old", "new", "problem"),
    [
        ("eventsched/__init__.py", '__version__ = "', '__version__ = "9', "__version__ is 9"),
        ("deploy/helm/Chart.yaml", "appVersion: ", "appVersion: 9", "appVersion is 9"),
        ("deploy/Dockerfile", "ARG VERSION=", "ARG VERSION=9", "VERSION is 9"),
        ("CHANGELOG.md", "## 0.", "## 9.", "has no section"),
    ],
)
def test_a_place_that_disagrees_is_named(
    tree: Path, place: str, old: str, new: str, problem: str
) -> None:
    text = (tree / place).read_text()
    assert old in text
    (tree / place).write_text(text.replace(old, new))
    with pytest.raises(ReleaseError, match=problem):
        RELEASE["version"](tree, None)


def test_the_tag_is_of_the_version(tree: Path) -> None:
    with pytest.raises(ReleaseError, match=r"the tag is 9\.9\.9"):
        RELEASE["version"](tree, "v9.9.9")


def test_the_chart_is_packed_alike(tmp_path: Path) -> None:
    one, other = tmp_path / "one.tgz", tmp_path / "other.tgz"
    for target in (one, other):
        RELEASE["pack_chart"](DEPLOY / "helm", target, 1_700_000_000)
    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as packed:
        names = set(packed.getnames())
        assert {member.mtime for member in packed} == {1_700_000_000}
    assert {"eventsched/Chart.yaml", "eventsched/values.yaml"} <= names


def test_an_sdist_is_equal_after_repacking(tmp_path: Path) -> None:
    made = []
    for number, at in enumerate((1, 2)):
        archive = tmp_path / f"{number}.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            member = tarfile.TarInfo("a/b.txt")
            member.mtime = at
            packed.addfile(member)
        RELEASE["repack"](archive, 7)
        made.append(archive.read_bytes())
    assert made[0] == made[1]


def test_checksums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    (tmp_path / "SHA256SUMS").write_text(RELEASE["checksums"](tmp_path))
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
