"""Operators' requests to a stream's scheduler: rows of table ``request``, answered by records.

Needs the writer role, or EXECUTE on ``eventsched_log.ask_to_forget``.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from eventsched.eventlog.addresses import shown
from eventsched.eventlog.log_errors import DatabaseRefusedError
from eventsched.eventlog.postgres.writer_connection import connect
from eventsched.eventlog.schema import migrations


class RequestTable:
    """Stores requests, and finds those that have been answered."""

    def __init__(self, connection: psycopg.Connection, stream: str) -> None:
        self._connection, self._stream = connection, stream

    def ask_to_forget(self, plugin: str, key: str) -> int:
        """Requests that a plugin forgets a key of its memory. Returns the request's number, that of
        the open request if there is one for this key."""
        query = "SELECT eventsched_log.ask_to_forget(%s, %s, %s)"
        row = self._connection.execute(query, (self._stream, plugin, key)).fetchone()
        assert row is not None
        return int(row[0])

    def answer(self, request: int) -> int | None:
        """The position of the record that answers a request; None until there is one."""
        query = "SELECT seq FROM eventsched_log.request WHERE id = %s"
        row = self._connection.execute(query, (request,)).fetchone()
        return None if row is None else row[0]


@contextmanager
def open_requests(address: str, stream: str) -> Iterator[RequestTable]:
    """The requests to a stream. Raises UnavailableError if the database is unreachable or its
    schema is not this version's, and DatabaseRefusedError if the user lacks the privilege."""
    migrations.require(address)
    connection = connect(address, f"eventsched asks {stream}")
    try:
        yield RequestTable(connection, stream)
    except psycopg.errors.InsufficientPrivilege as problem:
        raise DatabaseRefusedError(
            shown(address),
            str(problem).split("\n")[0],
            "GRANT eventsched_writer to this user, or EXECUTE ON FUNCTION "
            "eventsched_log.ask_to_forget(text, text, text) and eventsched_auditor",
        ) from problem
    except psycopg.Error as problem:
        raise migrations.unreachable(address, str(problem).split("\n")[0]) from problem
    finally:
        connection.close()
