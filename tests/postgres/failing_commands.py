"""Commands that have to fail, and a simulation for them."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.eventlog.addresses import libpq_url
from tests.databases import migrate
from tests.postgres.simulations import (
    complaints,
)

LOAD = "nodes=3,pods=40,shape=tight,seed=2"
LONG = "nodes=8,pods=120,shape=tight,seed=1"
SIMULATE = ("simulate", "--generate", LOAD)
Says = Callable[..., str]


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Says:
    """Runs a command that has to end with an exit code and one line, and nothing else; the line."""

    def run(code: int, *arguments: object) -> str:
        capsys.readouterr()
        assert main([str(each) for each in arguments]) == code
        found = capsys.readouterr()
        (line,) = complaints(found.err)
        assert found.out == ""
        assert line.startswith(f"eventsched {arguments[0]}: ")
        return line

    return run


def written(url: str) -> None:
    """Prepares a database with a log."""
    migrate(url)
    assert main([*SIMULATE, "--database", url]) == 0


def execute(url: str, *statements: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def content(url: str) -> list[Any]:
    """All that a log holds."""
    return [
        execute(url, f"SELECT * FROM eventsched_log.{table} ORDER BY 1, 2")
        for table in ("stream", "head", "epoch", "batch", "detail", "snapshot", "decision", "pod")
    ]
