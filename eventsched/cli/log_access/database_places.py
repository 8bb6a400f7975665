"""Databases that results go to, and connections to databases.

Not a part of ``database_options``, which every command imports before it does anything: what is
imported here takes longer than many answers.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import psycopg

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog import database
from eventsched.eventlog.addresses import libpq_url, shown


def place_of_results(named: str) -> tuple[str | None, Path | None]:
    """The URL or the folder that --store-in names."""
    if "://" in named or "=" in named:
        return named, None
    return None, Path(named)


def results_address(url: str | None, folder: Path | None) -> AbstractContextManager[str]:
    """The address of the database that results are written to; an embedded one is made if there is
    none. Raises InputError and UnavailableError."""
    is_there = folder is None or (folder / "postgres").exists()
    opening = database.requester_address if is_there else database.writer_address
    return opening(url, folder)


@contextmanager
def connected(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection. Raises UnavailableError."""
    try:
        with psycopg.connect(libpq_url(address), autocommit=True) as connection:
            yield connection
    except psycopg.Error as problem:
        message = str(problem).strip().splitlines()[0]
        raise UnavailableError(
            shown(address), message, "start the database, or correct its address"
        ) from problem
