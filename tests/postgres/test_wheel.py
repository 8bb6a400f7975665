"""What is installed: a wheel built from these sources brings up the database of release 0.1."""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from eventsched.eventlog.schema import migrations
from tests import releases
from tests.databases import ROOT, Server

SOURCES = ("eventsched", "migrations", "pyproject.toml", "setup.py", "README.md", "LICENSE")
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
    source = place / "source"
    source.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, source / name)
    run(
        *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index"),
        *("--no-build-isolation", "--wheel-dir", place / "wheels", "."),
        cwd=source,
    )
    (found,) = (place / "wheels").glob("*.whl")
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
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"{prefix}{path.relative_to(ROOT).as_posix()}"
        for folder, prefix in (("eventsched", ""), ("migrations", "eventsched/"))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert packed == expected
    assert "eventsched/migrations/env.py" in packed
    assert "eventsched/migrations/sql/0001_tables.sql" in packed


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
