"""Databases for logs and logs in them; where databases come from is in tests/databases.py."""

from collections.abc import Iterator

import pytest

from tests.contract.postgres_logs import admin, distant, log, name, proxy
from tests.databases import Server, each_database, each_server, migrate, one_server

__all__ = [
    "admin", "distant", "each_database", "each_server", "log", "name", "one_server", "proxy",
]  # fmt: skip


@pytest.fixture(scope="module")
def url(each_server: Server) -> Iterator[str]:
    """A database of each server for all tests of a module: they take streams of their own."""
    with each_server.fresh(migrate) as url:
        yield url
