"""A database that does not let us in: whether to wait for it is told by SQLSTATE where its words
are in another language."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg import pq

from eventsched.eventlog.log_errors import DatabaseRefusedError, UnavailableError
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.schema import migrations
from tests.postgres.passwords import PASSWORD, Guarded, guarded


@pytest.fixture
def server(place: Path) -> Iterator[Guarded]:
    """A server that asks for passwords, with users who do not get in."""
    with guarded(place) as server:
        server.execute(f"CREATE ROLE outcast LOGIN PASSWORD '{PASSWORD}'")
        server.execute(f"CREATE ROLE nologin PASSWORD '{PASSWORD}'")
        server.execute(f"CREATE ROLE crowd LOGIN CONNECTION LIMIT 0 PASSWORD '{PASSWORD}'")
        server.execute("REVOKE CONNECT ON DATABASE template1 FROM PUBLIC")
        yield server


@pytest.fixture(params=["its words", "the SQLSTATE"])
def told_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the server is understood by."""
    if request.param == "the SQLSTATE":
        if pq.version() < 180_000:
            pytest.skip(
                "libpq before 18 shows no SQLSTATE of a connection that does not come about"
            )
        monkeypatch.setattr(migrations, "_NO_ENTRY", re.compile(r"(?!)"))
    found: str = request.param
    return found


def is_refused(address: str) -> list[bool]:
    """Whether waiting would not help, as each says who connects."""
    with closing(Session(address)) as session, closing(Tail(address, "s")) as tail:
        found = []
        for connect in (
            lambda: migrations.require(address),
            lambda: session.acquire("s", "me"),
            tail.snapshot,
        ):
            with pytest.raises(UnavailableError) as told:
                connect()
            assert "wr0ng" not in str(told.value)
            found.append(isinstance(told.value, DatabaseRefusedError))
        return found


@pytest.mark.usefixtures("told_by")
def test_who_will_never_get_in_is_not_kept_waiting(server: Guarded) -> None:
    addresses = {
        "wrong password": server.url("scheduler", "wr0ng"),
        "no such user": server.url("nobody"),
        "not in pg_hba.conf": server.url("outcast"),
        "may not log in": server.url("nologin"),
        "no such database": server.url("scheduler", database="none"),
        "may not connect": server.url("scheduler", database="template1"),
    }
    found = {what: is_refused(address) for what, address in addresses.items()}
    assert found == dict.fromkeys(addresses, [True] * 3)


@pytest.mark.usefixtures("told_by")
def test_what_is_over_some_time_is_waited_for(server: Guarded) -> None:
    """It answers, and will let us in later; or does not answer."""
    addresses = {
        "too many": server.url("crowd"),
        "nobody listens": "postgresql://scheduler@127.0.0.1:1/eventsched",
    }
    found = {what: is_refused(address) for what, address in addresses.items()}
    assert found == dict.fromkeys(addresses, [False] * 3)
