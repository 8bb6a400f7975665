"""A log to ask about, and the API over it."""

from collections.abc import Iterator

import pytest

from eventsched.api.application import application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.gate import OpenGate
from eventsched.questions.states import FoldedStates
from eventsched.questions.streams import opened_streams
from tests.api.asking import Client
from tests.databases import Server, database, one_server
from tests.postgres.histories import odd_and_tight

__all__ = ["database", "one_server"]


@pytest.fixture(scope="session")
def logs(one_server: Server) -> Iterator[str]:
    """A database with two streams: an odd day, and a tight simulation."""
    with one_server.fresh(odd_and_tight) as url:
        yield url


@pytest.fixture(scope="session")
def client(logs: str) -> Iterator[Client]:
    """A client of the API over both."""
    with opened_streams(logs, None) as streams:
        yield Client(application(Desk(streams, FoldedStates()), OpenGate(local_only=True)))
