"""Failed logins: which are permanent, by the server's message or, in another language, by
SQLSTATE."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from psycopg import pq

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.schema import migrations
from tests.postgres.passwords import PASSWORD, Guarded, guarded


@pytest.fixture
def server(place: Path) -> Iterator[Guarded]:
    """A server that requires passwords, with users that cannot log in."""
    with guarded(place) as server:
        server.execute(f"CREATE ROLE outcast LOGIN PASSWORD '{PASSWORD}'")
        server.execute(f"CREATE ROLE nologin PASSWORD '{PASSWORD}'")
        server.execute(f"CREATE ROLE crowd LOGIN CONNECTION LIMIT 0 PASSWORD '{PASSWORD}'")
        server.execute("REVOKE CONNECT ON DATABASE template1 FROM PUBLIC")
        yield server


@pytest.fixture(params=["message", "SQLSTATE"])
def _recognised_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recognises permanent errors by the message, or by the SQLSTATE alone."""
    if request.param == "SQLSTATE":
        if pq.version() < 180_000:
            pytest.skip("libpq before 18 cannot trace the SQLSTATE of a failed connection")
        monkeypatch.setattr(migrations, "_NO_ENTRY", re.compile(r"(?!)"))


def is_permanent(address: str) -> list[bool]:
    """Whether a migration check, a session and a tail report a permanent error."""
    with closing(Session(address)) as session, closing(Tail(address, "s")) as tail:
        results = []
        for connect in (
            lambda: migrations.require(address),
            lambda: session.acquire("s", "me"),
            tail.snapshot,
        ):
            with pytest.raises(UnavailableError) as raised:
                connect()
            assert "wr0ng" not in str(raised.value)
            results.append(isinstance(raised.value, DatabaseRefusedError))
        return results


@pytest.mark.usefixtures("_recognised_by")
def test_permanent_login_errors(server: Guarded) -> None:
    addresses = {
        "wrong password": server.url("scheduler", "wr0ng"),
        "no such user": server.url("unknown"),
        "not in pg_hba.conf": server.url("outcast"),
        "may not log in": server.url("nologin"),
        "no such database": server.url("scheduler", database="none"),
        "may not connect": server.url("scheduler", database="template1"),
    }
    results = {case: is_permanent(address) for case, address in addresses.items()}
    assert results == dict.fromkeys(addresses, [True] * 3)


@pytest.mark.usefixtures("_recognised_by")
def test_temporary_login_errors(server: Guarded) -> None:
    """The server refuses for now, or does not answer."""
    addresses = {
        "too many": server.url("crowd"),
        "no listener": "postgresql://scheduler@127.0.0.1:1/eventsched",
    }
    results = {case: is_permanent(address) for case, address in addresses.items()}
    assert results == dict.fromkeys(addresses, [False] * 3)
