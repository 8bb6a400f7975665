"""Where a command finds its log: options, then the environment, then the file that it names."""

import argparse
from pathlib import Path

import pytest

from eventsched.cli.log_access.database_options import add_database_options, database_of
from eventsched.domain.errors import InputError

URL = "postgresql://scheduler@db/eventsched"


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_database_options(parser)
    return parser.parse_args(arguments)


@pytest.fixture(autouse=True)
def mounted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file, as a Secret is mounted in the scheduler's pod."""
    for name in ("EVENTSCHED_DATABASE", "EVENTSCHED_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    monkeypatch.setenv("EVENTSCHED_DATABASE_FILE", str(file))
    return file


def test_the_file_is_the_default() -> None:
    assert database_of(parsed()) == (URL, None)


def test_options_and_the_environment_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert database_of(parsed("--data-dir", "log")) == (None, Path("log"))
    assert database_of(parsed("--database", "postgresql://x/y")) == ("postgresql://x/y", None)
    monkeypatch.setenv("EVENTSCHED_DATA_DIR", "folder")
    assert database_of(parsed()) == (None, Path("folder"))
    monkeypatch.setenv("EVENTSCHED_DATABASE", "postgresql://e/d")
    assert database_of(parsed()) == ("postgresql://e/d", Path("folder"))


def test_a_simulation_does_not_write_into_the_log_of_a_live_scheduler() -> None:
    assert database_of(parsed(), by_file=False) == (None, None)


@pytest.mark.parametrize("content", [None, b"", b"\xff"])
def test_a_file_that_cannot_be_used(mounted: Path, content: bytes | None) -> None:
    """The message names the variable, the file and what to do."""
    mounted.unlink()
    if content is not None:
        mounted.write_bytes(content)
    with pytest.raises(InputError, match=r"\$EVENTSCHED_DATABASE_FILE: .*url.*; give --database"):
        database_of(parsed())
