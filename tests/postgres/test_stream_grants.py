"""Grants of streams to writers that share a database."""

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.log_errors import DatabaseRefusedError, FencedError
from eventsched.eventlog.postgres.grants import grant
from eventsched.eventlog.postgres.housekeeping import thin
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.writer import PostgresEventLog
from tests.databases import Server, migrate

Capture = pytest.CaptureFixture[str]


class Writers:
    """A database, and two logins that are writers: roles are the server's, so other tests that run
    at the same time have others."""

    def __init__(self, server: Server, url: str, database: str) -> None:
        self.url, self._server, self._database = url, server, database
        mark = uuid4().hex[:12]
        self.one, self.two = f"evs_{mark}_one", f"evs_{mark}_two"

    def of(self, role: str) -> str:
        """The URL of a login."""
        return self._server.url(self._database, role)


@pytest.fixture
def writers(one_server: Server) -> Iterator[Writers]:
    """Two logins of a fresh database."""
    with one_server.fresh(migrate) as url, psycopg.connect(url, autocommit=True) as connection:
        found = Writers(one_server, url, connection.info.dbname)
        for name in (found.one, found.two):
            connection.execute(f"CREATE ROLE {name} LOGIN IN ROLE eventsched_writer".encode())
        try:
            yield found
        finally:
            for name in (found.one, found.two):
                connection.execute(f"DROP ROLE {name}".encode())


def test_a_writer_is_bound_to_its_streams(writers: Writers, capsys: Capture) -> None:
    """Without grants nothing changes; with one, no other role gets in, by any function."""
    url, of, one, two = writers.url, writers.of, writers.one, writers.two
    theirs, mine = PostgresEventLog(of(one), "theirs"), PostgresEventLog(of(two), "mine")
    mine.renew()
    assert main(["db", "grant", "--database", url]) == 0
    assert capsys.readouterr().out == "every writer, every stream\n"
    for name, stream in ((one, "theirs"), (one, "new")):
        arguments = ["--role", name, "--stream", stream]
        assert main(["db", "grant", "--database", url, *arguments]) == 0
    theirs.renew()
    mine.renew()  # two has no grants, and the stream has none
    for stream in ("theirs", "new"):
        with pytest.raises(DatabaseRefusedError, match=f"may not write stream {stream}.*db grant"):
            PostgresEventLog(of(two), stream)
    with pytest.raises(DatabaseRefusedError, match=f"role {one} may not write stream mine"):
        PostgresEventLog(of(one), "mine")
    PostgresEventLog(of(one), "new").close()
    theirs.close()
    mine.close()


def test_a_token_that_was_read_is_of_no_use(writers: Writers) -> None:
    """Writers may read all tables, the tokens of others among them."""
    url, of, one, two = writers.url, writers.of, writers.one, writers.two
    log = PostgresEventLog(of(one), "theirs")
    assert grant(url, one, "theirs")
    assert not grant(url, one, "theirs")
    with psycopg.connect(of(two), autocommit=True) as thief:
        token = "stream, epoch, token FROM eventsched_log.head"
        stolen = thief.execute(f"SELECT {token}".encode()).fetchone()
        assert stolen is not None
        for call in ("renew(%s, %s, %s)", "keep_snapshot(%s, %s, %s, 0, '', 'd', 'v', '')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not write stream"):
                thief.execute(f"SELECT eventsched_log.{call}".encode(), stolen)
    with pytest.raises(UnavailableError, match="may not write stream theirs"):
        thin(of(two), "theirs", 0.0, 0)
    log.renew()
    assert grant(url, one, "theirs", revoke=True)
    with closing(Session(of(two))) as session:  # every writer may again
        session.acquire("theirs", "two")
    with pytest.raises(FencedError):
        log.renew()
    log.close()


def test_a_grant_without_a_valid_role(database: str, capsys: Capture) -> None:
    """Bad input is named."""
    for arguments, said in (
        (["--role", "no_such_role", "--stream", "s"], "there is no role no_such_role"),
        (["--role", "eventsched_writer"], "give --role and --stream"),
    ):
        assert main(["db", "grant", "--database", database, *arguments]) == 2
        assert said in capsys.readouterr().err
