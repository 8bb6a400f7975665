"""What people ask of a stream's scheduler: written beside the log, answered by a record in it.

Needs the writer role, or the right to call ``eventsched_log.ask_to_forget``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from eventsched.eventlog.addresses import shown
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.postgres.writer_connection import connected
from eventsched.eventlog.schema import migrations


class Inbox:
    """Where one hands requests in, and asks what became of them."""

    def __init__(self, connection: psycopg.Connection, stream: str) -> None:
        self._connection, self._stream = connection, stream

    def ask_to_forget(self, plugin: str, key: str) -> int:
        """Asks for a plugin to forget a key; the number of the request. One that is open is not
        made twice."""
        query = "SELECT eventsched_log.ask_to_forget(%s, %s, %s)"
        row = self._connection.execute(query, (self._stream, plugin, key)).fetchone()
        assert row is not None
        return int(row[0])

    def answer(self, request: int) -> int | None:
        """The position of the record that answers a request; None while there is none."""
        query = "SELECT seq FROM eventsched_log.request WHERE id = %s"
        row = self._connection.execute(query, (request,)).fetchone()
        return None if row is None else row[0]


@contextmanager
def inbox(address: str, stream: str) -> Iterator[Inbox]:
    """The inbox of a stream. Raises UnavailableError where the database is away or its schema is
    another one, as RefusedError where this user may not ask."""
    migrations.require(address)
    connection = connected(address, f"eventsched asks {stream}")
    try:
        yield Inbox(connection, stream)
    except psycopg.errors.InsufficientPrivilege as problem:
        raise DatabaseRefusedError(
            shown(address),
            str(problem).split("\n")[0],
            "GRANT eventsched_writer to this user, or EXECUTE ON FUNCTION "
            "eventsched_log.ask_to_forget(text, text, text) and eventsched_reader",
        ) from problem
    except psycopg.Error as problem:
        raise migrations.unreachable(address, str(problem).split("\n")[0]) from problem
    finally:
        connection.close()
