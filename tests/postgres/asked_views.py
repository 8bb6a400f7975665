"""Two histories in one database, and an auditor who asks its views."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.databases import Server, migrate
from tests.postgres.histories import ODD, TIGHT, odd, simulated
from tests.postgres.truth import Row, Truth


@pytest.fixture(scope="module")
def address(one_server: Server) -> Iterator[str]:
    """The URL of a database with both histories."""
    with one_server.fresh(migrate) as url:
        odd(url)
        simulated(url)
        yield url


@pytest.fixture(scope="module", params=[ODD, TIGHT])
def truth(request: pytest.FixtureRequest, address: str) -> Truth:
    """Each of the histories."""
    return Truth(address, request.param)


@pytest.fixture
def ask(address: str) -> Iterator[Callable[..., list[Row]]]:
    """Asks the database."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = eventsched; SET ROLE eventsched_auditor")
        yield lambda query, *values: connection.execute(query, values).fetchall()


Ask = Callable[..., list[Row]]
