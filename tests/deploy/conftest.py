"""Fixtures for tests of what is deployed."""

from tests.databases import database, one_server

__all__ = ["database", "one_server"]
