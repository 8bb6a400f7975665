"""Databases for logs; where they come from is in tests/databases.py."""

from collections.abc import Iterator

import pytest

from tests.databases import Server, each_database, each_server, migrate, one_server

__all__ = ["each_database", "each_server", "one_server"]


@pytest.fixture(scope="module")
def url(each_server: Server) -> Iterator[str]:
    """A database of each server for all tests of a module: they take streams of their own."""
    with each_server.fresh(migrate) as url:
        yield url
