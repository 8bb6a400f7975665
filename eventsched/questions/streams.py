"""The streams of a database that questions are asked about."""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sqlalchemy import Engine, create_engine, event, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from eventsched.domain.errors import InputError
from eventsched.domain.units import is_virtual
from eventsched.eventlog import database
from eventsched.eventlog.addresses import sqlalchemy_url
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.schema import migrations
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.questions.answer_shapes import StreamAnswer, Streams
from eventsched.questions.rows import Rows
from eventsched.runtime.queries.kept_nodes import KeptNodes

_CONNECTIONS = 8
"""Connections for questions that read rows, and the same number for those that read records."""
_POOL_SECONDS = 5
"""Seconds that a question waits for a connection."""
_STATEMENT_SECONDS = 10
"""Seconds after which the server cancels a statement about rows."""
_NEWEST = """
SELECT CAST(b.body -> (b.count - 1) ->> 0 AS bigint) AS at
FROM eventsched_log.batch b WHERE b.stream = :s ORDER BY b.first DESC LIMIT 1
"""
_STREAMS = """
SELECT s.name, h.next, h.holder FROM eventsched_log.stream s
JOIN eventsched_log.head h ON h.stream = s.id ORDER BY s.id
"""


@dataclass(frozen=True)
class LoggedStream:
    """One stream: ``log`` reads its records, ``rows`` the tables that are derived from them."""

    name: str
    log: Reader
    rows: Rows
    nodes: KeptNodes = field(default_factory=KeptNodes, compare=False)

    def evidence(self) -> StoredEvidence:
        """What explains its pods."""
        return StoredEvidence(self.log)

    @property
    def present(self) -> int:
        """The present time (µs): the clock's, or in a simulation that of the last record; 0 for a
        stream without records. It is never before the last record."""
        row = self.rows.one(_NEWEST)
        return 0 if row is None else present_after(int(row["at"]))


def present_after(last: int) -> int:
    """The present time of a stream whose last record is of that time (µs): the clock's, unless the
    stream is a simulation."""
    return last if is_virtual(last) else max(last, time.time_ns() // 1_000)


class LoggedStreams(Protocol):
    """All streams of a log. Threads may share it."""

    def open(self, name: str | None) -> LoggedStream:
        """The stream of a name, or the only one. Raises InputError and UnavailableError."""

    def answer(self) -> Streams:
        """The streams there are. Raises UnavailableError."""


class DatabaseStreams:
    """The streams of a database. Connections are kept, and checked before they are used again."""

    def __init__(self, address: str) -> None:
        """``address`` is the URL of a session that only reads."""
        self._address = address
        self._for_rows = _engine(address, _STATEMENT_SECONDS)
        self._for_records = _engine(address, 0)
        self._is_closed = False
        for engine in (self._for_rows, self._for_records):
            event.listen(engine, "checkin", self._returned)
        self._open: dict[str, LoggedStream] = {}

    def open(self, name: str | None) -> LoggedStream:
        """See LoggedStreams."""
        chosen = _chosen([each.name for each in self.answer().streams], name)
        known = self._open.get(chosen)
        if known is None:
            reader = Reader(self._address, chosen, engine=self._for_records)
            rows = Rows(self._for_rows, self._address, reader.number)
            known = self._open[chosen] = LoggedStream(chosen, reader, rows)
        return known

    def answer(self) -> Streams:
        """See LoggedStreams."""
        try:
            with self._for_rows.connect() as connection:
                found = connection.execute(text(_STREAMS)).all()
        except OperationalError as problem:
            raise migrations.connection_error(self._address, problem) from problem
        return Streams(
            streams=[
                StreamAnswer(name=row.name, head=row.next, holder=row.holder or None)
                for row in found
            ]
        )

    def close(self) -> None:
        """Closes the connections, those in use as soon as they are returned."""
        self._is_closed = True
        for engine in (self._for_rows, self._for_records):
            engine.dispose()

    def _returned(self, _: object, record: ConnectionPoolEntry) -> None:
        if self._is_closed:
            record.close()


@contextmanager
def opened_streams(url: str | None, folder: Path | None) -> Iterator[DatabaseStreams]:
    """The streams of the database at a URL, or of the embedded one in a folder, while it is open.
    Raises InputError and UnavailableError."""
    with (
        database.reader_address(url, folder) as address,
        closing(DatabaseStreams(address)) as streams,
    ):
        streams.answer()
        yield streams


def _engine(address: str, seconds: int) -> Engine:
    # Postgres makes a plan for any values after some queries: one for few pods. With thousands it
    # took fifty times as long.
    settings = f"-c statement_timeout={seconds}s -c plan_cache_mode=force_custom_plan"
    url = sqlalchemy_url(address)
    own = url.query.get("options", "")
    own = own if isinstance(own, str) else " ".join(own)
    return create_engine(
        url.update_query_dict({"options": f"{own} {settings}".strip()}),
        poolclass=QueuePool, pool_size=_CONNECTIONS, max_overflow=0, pool_timeout=_POOL_SECONDS,
        pool_pre_ping=True, isolation_level="AUTOCOMMIT",
    )  # fmt: skip


def _chosen(names: list[str], name: str | None) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name in names:
        return name
    known = ", ".join(sorted(names)) or "none; run a scheduler on it first"
    problem = f"there is no stream {name}" if name else f"the log holds {len(names)} streams"
    raise InputError("stream", problem, f"name one: {known}")
