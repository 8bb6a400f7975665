"""A snapshot that gets lost says nothing about the database, and nor does one that is stored."""

import asyncio
import zlib
from typing import Any, cast

import pytest

from eventsched.cluster.messages import Unknown
from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.chain import Head, Term
from eventsched.eventlog.log_errors import UnknownOutcomeError
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.session import Session
from eventsched.runtime.leader.leader_messages import Renew, Renewed, StoreSnapshot
from eventsched.runtime.live.database_client import DatabaseClient
from eventsched.runtime.live.worker import Worker

TERM = Term("main", 1, bytes(16))
STORE = StoreSnapshot(TERM, StoredSnapshot(3, bytes(32), "d", "2/x", b"{}"))


class SilentSession:
    """A session of a database that is down; it hides that a snapshot was not stored."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.is_down = True
        self.problem = problem
        self.bodies: list[bytes] = []

    def renew(self, _: Term) -> None:
        if self.is_down:
            raise UnavailableError("postgres", "down", "start it")

    def store_snapshot(self, _: Term, snapshot: StoredSnapshot) -> None:
        self.bodies.append(snapshot.body)
        if self.problem is not None:
            raise self.problem


def client(session: SilentSession) -> DatabaseClient:
    """One whose term has begun."""

    async def nothing_to_apply(_: Head) -> float:
        return 0.0

    return DatabaseClient(
        cast("Session", session), Worker("test"), cast("Any", None), stream="main", holder="a",
        catch_up=nothing_to_apply, allows=lambda _: True,
    )  # fmt: skip


@pytest.mark.parametrize("problem", [None, UnknownOutcomeError("broken")])
def test_a_snapshot_does_not_end_an_outage(problem: Exception | None) -> None:
    """Otherwise a leader would take longer to give its lease back."""
    session = SilentSession(problem)
    database = client(session)

    async def run() -> None:
        renew = Renew(TERM)
        assert await database.answer(renew) == Unknown(renew)
        before = database.health.problem
        assert "down" in before
        assert await database.answer(STORE) is None
        assert database.health.problem, "an outage goes on"
        session.is_down = False
        assert await database.answer(renew) == Renewed()
        assert await database.answer(STORE) is None
        assert database.health.problem == ""

    asyncio.run(run())
    assert [zlib.decompress(body) for body in session.bodies] == [b"{}"] * 2
