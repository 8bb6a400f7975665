"""What is installed: a wheel built from these sources brings up the database of release 0.1."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventsched.eventlog.schema import migrations
from tests import releases
from tests.databases import ROOT, Server

SOURCES = (
    "eventsched", "migrations", "deploy/wheel", "pyproject.toml", "setup.py", "MANIFEST.in",
    "README.md", "LICENSE",
)  # fmt: skip
MAN_PAGES = ".data/data/share/man/man1/"
IMPORT = "import sys; sys.path.insert(0, 'deploy/wheel'); import wheel_backend"
LIMIT = 300
"""Seconds for each program."""


def run(*command: str | Path, cwd: Path) -> str:
    """What a program prints, without this checkout in its way."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources without a package index."""
    for module in ("setuptools", "pip"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"a wheel cannot be built here: there is no {module} (extra dev has it)")
    place = tmp_path_factory.mktemp("wheel")
    copy_sources(place / "source")
    return built(place / "source", place / "wheels")


def copy_sources(source: Path) -> None:
    source.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)


def built(source: Path, wheels: Path, *settings: str) -> Path:
    """The wheel of some sources."""
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"),
        *("--no-build-isolation", "--wheel-dir", str(wheels), *settings, "."),
        cwd=source,
    )
    (found,) = wheels.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of programs of a fresh environment with the wheel. What it depends on is found
    where these tests have it; their own eventsched is not, as it is installed by an import hook."""
    place = tmp_path_factory.mktemp("installed")
    venv.create(place, with_pip=False, symlinks=True)
    programs = place / "bin"
    run(
        *(sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"),
        *("--no-deps", "--no-index", wheel),
        cwd=place,
    )
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = Path(run(programs / "python", "-c", _WHERE, cwd=programs).strip())
    assert where.is_relative_to(place)
    yield programs
    shutil.rmtree(place)


def test_the_wheel_has_every_file(wheel: Path) -> None:
    """All that lies under eventsched and migrations, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        packed = {
            name
            for name in archive.namelist()
            if ".dist-info/" not in name and MAN_PAGES not in name
        }
    expected = {
        f"{prefix}{path.relative_to(ROOT).as_posix()}"
        for folder, prefix in (("eventsched", ""), ("migrations", "eventsched/"))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == expected
    assert "eventsched/migrations/env.py" in packed
    assert "eventsched/migrations/sql/0001_tables.sql" in packed


def test_an_installed_wheel_has_man_pages(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where ``man`` looks for pages of programs in the PATH, and as the checkout makes them."""
    run(sys.executable, "-m", "eventsched", "man", "--to", tmp_path, cwd=ROOT)
    pages = installed.parent / "share" / "man" / "man1"
    made = {page.name: page.read_bytes() for page in (tmp_path / "man1").iterdir()}
    assert {page.name: page.read_bytes() for page in pages.iterdir()} == made != {}
    if shutil.which("man") is None:
        pytest.skip("man is not installed: apt-get install man-db")
    monkeypatch.setenv("PATH", f"{installed}:{os.environ['PATH']}")
    monkeypatch.delenv("MANPATH", raising=False)
    shown = run("man", "-P", "cat", "eventsched-explain", cwd=tmp_path)
    assert "EVENTSCHED-EXPLAIN(1)" in shown
    assert "--why-not NODE" in shown
    assert "--why-not NODE" in run(
        "man", "-P", "cat", "-l", pages / "eventsched-explain.1", cwd=tmp_path
    )


def test_the_image_builds_a_wheel_without_man_pages(wheel: Path, tmp_path: Path) -> None:
    """And without the packages that these need, which it installs by their hashes alone."""
    setting = "--config-settings manual=no"
    assert setting in (ROOT / "deploy/Dockerfile").read_text()
    copy_sources(tmp_path / "source")
    with zipfile.ZipFile(wheel) as whole:
        names = {name for name in whole.namelist() if MAN_PAGES not in name}
        assert len(names) < len(whole.namelist())
    with zipfile.ZipFile(built(tmp_path / "source", tmp_path, *setting.split())) as archive:
        assert set(archive.namelist()) == names
    for settings, needs in (("None", True), ("{'manual': 'no'}", False)):
        asked = f"print(wheel_backend.get_requires_for_build_wheel({settings}))"
        needed = run(sys.executable, "-c", f"{IMPORT}; {asked}", cwd=tmp_path / "source")
        assert ("numpy" in needed) == needs


def test_an_sdist_can_be_built_from(wheel: Path, tmp_path: Path) -> None:
    copy_sources(tmp_path / "source")
    make = f"{IMPORT}; wheel_backend.build_sdist('..')"
    run(sys.executable, "-c", make, cwd=tmp_path / "source")
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as packed:
        packed.extractall(tmp_path / "sdist", filter="data")
    (folder,) = (tmp_path / "sdist").iterdir()
    with (
        zipfile.ZipFile(wheel) as whole,
        zipfile.ZipFile(built(folder, tmp_path / "wheels")) as again,
    ):
        assert set(again.namelist()) == set(whole.namelist())


def test_the_wheel_upgrades_a_database_of_0_1(installed: Path, one_server: Server) -> None:
    """The schema comes up to the newest revision; the log in it reads and verifies as before."""
    with one_server.fresh(releases.restore) as url:
        assert _schema(url) == "0004"
        run(installed / "eventsched", "db", "upgrade", "--database", url, cwd=installed)
        assert _schema(url) == migrations.newest()
        assert migrations.drift(url) == []
        told = run(installed / "eventsched", "verify", "--database", url, cwd=installed)
        assert "records" in told
        run(installed / "eventsched", "replay", "--verify", "--database", url, cwd=installed)


_WHERE = "import eventsched; print(eventsched.__file__)"


def _schema(url: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT version_num FROM eventsched_log.migration").fetchone()
    assert row is not None
    return str(row[0])
