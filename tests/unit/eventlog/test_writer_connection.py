"""The meaning of a database's errors, in any language."""

from types import SimpleNamespace

import psycopg
import pytest
from psycopg import pq
from sqlalchemy.exc import DBAPIError

from eventsched.domain.errors import UnavailableError
from eventsched.eventlog.chain import Term
from eventsched.eventlog.log_errors import ConflictError, FencedError, UnknownOutcomeError
from eventsched.eventlog.postgres.writer_connection import WriterConnection
from eventsched.eventlog.schema import migrations

TERM = Term("s", 4, bytes(16))


def refuse(state: str, primary: str, message: str) -> None:
    """Handles an error with a SQLSTATE, a primary message and libpq's full message."""
    fields = {
        pq.DiagnosticField.SQLSTATE: state.encode(),
        pq.DiagnosticField.MESSAGE_PRIMARY: primary.encode("latin-1"),
    }
    error = SimpleNamespace(
        status=pq.ExecStatus.FATAL_ERROR, error_field=fields.get, error_message=message.encode()
    )
    results = iter([error, None])
    connection = WriterConnection.__new__(WriterConnection)
    connection._address = "postgresql://u@h/db"
    connection._connection = SimpleNamespace(  # type: ignore[assignment]
        pgconn=SimpleNamespace(notice_handler=None, status=pq.ConnStatus.OK)
    )
    connection._next_result = lambda _: next(results)  # type: ignore[method-assign,assignment]
    connection._await_results(TERM, 7, 0.0)


def test_a_server_that_speaks_another_language() -> None:
    """libpq's message begins with a translated severity, and may be in another encoding."""
    with pytest.raises(FencedError) as fenced:
        refuse("ES001", "5", "FEHLER:  5\n")
    assert (fenced.value.epoch, fenced.value.now) == (4, 5)
    with pytest.raises(ConflictError) as conflict:
        refuse("ES002", "9", "ERREUR:  9\nCONTEXTE : …\n")
    assert (conflict.value.expected, conflict.value.head) == (7, 9)
    with pytest.raises(UnavailableError, match="kein Speicherplatz"):
        refuse("53100", "kein Speicherplatz verfügbar", "FEHLER:  …\n")
    with pytest.raises(UnknownOutcomeError, match="server closed the connection"):
        refuse("", "", "server closed the connection unexpectedly\n")


@pytest.mark.parametrize("kind", [
    psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.AdminShutdown,
    psycopg.errors.CrashShutdown, psycopg.errors.QueryCanceled, psycopg.errors.TooManyConnections,
])  # fmt: skip
def test_a_database_that_goes_away_in_a_query(
    kind: type[psycopg.Error], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any of psycopg's errors."""

    def current(_: object) -> None:
        raise DBAPIError("SELECT", None, kind("it is over"))

    monkeypatch.setattr(migrations, "_current", current)
    monkeypatch.setattr(migrations, "create_engine", lambda *_, **__: Engine())
    with pytest.raises(UnavailableError, match="it is over"):
        migrations.require("postgresql://u@h/db")


class Engine:
    """An engine without a connection."""

    def begin(self) -> "Engine":
        """Itself."""
        return self

    def __enter__(self) -> None:
        """A connection."""

    def __exit__(self, *_: object) -> None:
        """Nothing."""

    def dispose(self) -> None:
        """Nothing."""
