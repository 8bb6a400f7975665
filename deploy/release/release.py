"""Makes the files of a release in ``dist/``: wheel, sdist, chart, and their checksums.

    python deploy/release/release.py            # the version of pyproject.toml; publishes nothing
    python deploy/release/release.py --tag v0.1.0   # also: the tag is of that version

Two runs on the same commit make equal files: all times in them are that of the commit, or
SOURCE_DATE_EPOCH. Needs uv. The image is built by its own Dockerfile (docs/releasing.md).
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm"


class ReleaseError(Exception):
    """The tree cannot be released as it is; the text says what to change."""


def version(root: Path, tag: str | None) -> str:
    """The version to release. Raises ReleaseError where two places disagree about it."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = str(project["version"])
    chart = yaml.safe_load((root / "deploy/helm/Chart.yaml").read_text())
    package = (root / "eventsched/__init__.py").read_text()
    places = {
        "deploy/helm/Chart.yaml: version": chart["version"],
        "deploy/helm/Chart.yaml: appVersion": chart["appVersion"],
        "eventsched/__init__.py: __version__": _found(r'__version__ = "(.+)"', package),
        "deploy/Dockerfile: VERSION": _found(
            r"ARG VERSION=(.+)", (root / "deploy/Dockerfile").read_text()
        ),
    }
    if tag is not None:
        places["the tag"] = tag.removeprefix("v") if tag.startswith("v") else tag
    for place, given in places.items():
        if str(given) != wanted:
            raise ReleaseError(f"{place} is {given}, pyproject.toml has {wanted}; make them equal")
    notes(root, wanted)
    return wanted


def notes(root: Path, wanted: str) -> str:
    """The changelog's section of a version. Raises ReleaseError if there is none, or nothing in
    it."""
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    for section in sections[1:]:
        title, _, text = section.partition("\n")
        if title.split()[0] == wanted:
            if not text.strip():
                break
            return text.strip() + "\n"
    raise ReleaseError(f"CHANGELOG.md has no section {wanted} with text; write one")


def pack_chart(chart: Path, target: Path, at: int) -> None:
    """The chart as Helm packs it, with all times ``at`` (s since 1970) and without an owner."""
    name = yaml.safe_load((chart / "Chart.yaml").read_text())["name"]
    paths = [path for path in chart.rglob("*") if path.is_file()]
    files = {f"{name}/{path.relative_to(chart).as_posix()}": path.read_bytes() for path in paths}
    _pack(files, target, at)


def repack(archive: Path, at: int) -> None:
    """Gives an sdist the same times and owners in every build, which setuptools does not."""
    files: dict[str, bytes] = {}
    with tarfile.open(archive) as packed:
        for member in packed:
            content = packed.extractfile(member) if member.isfile() else None
            if content is not None:
                files[member.name] = content.read()
    _pack(files, archive, at)


def _pack(files: dict[str, bytes], target: Path, at: int) -> None:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as packed:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), at, 0o644
            packed.addfile(member, io.BytesIO(content))
    with target.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=at) as zipped:
        zipped.write(raw.getvalue())


def checksums(folder: Path) -> str:
    """The lines of SHA256SUMS, as ``sha256sum --check`` reads them."""
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
        if path.name != "SHA256SUMS"
    )


def build(root: Path, folder: Path, tag: str | None = None) -> list[Path]:
    """All files, in an empty folder. Raises ReleaseError, and CalledProcessError by uv."""
    wanted = version(root, tag)
    at = _source_date(root)
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(at)}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = ["uv", "build", "--quiet", "--out-dir", str(folder), str(root)]
    subprocess.run(command, check=True, env=environ, timeout=600)
    (folder / ".gitignore").unlink(missing_ok=True)  # uv's
    for sdist in folder.glob("*.tar.gz"):
        repack(sdist, at)
    pack_chart(root / "deploy/helm", folder / f"eventsched-chart-{wanted}.tgz", at)
    (folder / "NOTES.md").write_text(notes(root, wanted))
    (folder / "SHA256SUMS").write_text(checksums(folder))
    return sorted(folder.iterdir())


def _source_date(root: Path) -> int:
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


def _found(pattern: str, text: str) -> str:
    match = re.search(f"^{pattern}$", text, re.MULTILINE)
    return match[1] if match else "missing"


def main() -> int:
    """Exit code 2 for a tree that cannot be released."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--tag", help="the tag of the release, such as v0.1.0")
    options.add_argument("--folder", type=Path, default=ROOT / "dist")
    given = options.parse_args()
    try:
        for path in build(ROOT, given.folder, given.tag):
            print(path)
    except ReleaseError as problem:
        print(f"release: {problem}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
