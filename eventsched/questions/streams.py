"""The streams of a log that questions are asked about: of a database, an archive or an exported
file."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import QueuePool

from eventsched.cli.archive_options import StreamLog
from eventsched.domain.errors import InputError
from eventsched.eventlog.addresses import sqlalchemy_url
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.schema import migrations
from eventsched.history.explain.evidence import Evidence
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.questions.answer_shapes import StreamAnswer, Streams
from eventsched.questions.rows import Rows

_CONNECTIONS = 8
"""Connections for questions that read rows, and the same number for those that read records."""
_POOL_SECONDS = 5
"""Seconds that a question waits for a connection."""
_STATEMENT_SECONDS = 10
"""Seconds after which the server cancels a statement about rows."""
_STREAMS = """
SELECT s.name, h.next, h.holder FROM eventsched_log.stream s
JOIN eventsched_log.head h ON h.stream = s.id ORDER BY s.id
"""


@dataclass(frozen=True)
class LoggedStream:
    """One stream: its records, its rows, and what explains its pods. ``reader`` is that of the
    database, None without one."""

    name: str
    log: StreamLog
    reader: Reader | None
    rows: Rows
    evidence: Callable[[], Evidence]


class LoggedStreams(Protocol):
    """All streams of a log. Threads may share it."""

    def open(self, name: str | None) -> LoggedStream:
        """The stream of a name, or the only one. Raises InputError and UnavailableError."""

    def answer(self) -> Streams:
        """The streams there are. Raises UnavailableError."""


class DatabaseStreams:
    """The streams of a database. Its address is asked for at each question, and a new one is used
    for the next question, so a rotated password needs no restart. Connections are kept, and checked
    before they are used again."""

    def __init__(self, address: Callable[[], str]) -> None:
        """``address`` gives the URL with a session that only reads, and is called often."""
        self._address = address
        self._lock = Lock()
        self._used = ""
        self._engines: tuple[Engine, Engine] | None = None
        self._open: dict[str, LoggedStream] = {}

    def open(self, name: str | None) -> LoggedStream:
        """See LoggedStreams."""
        address, (rows, records) = self._current()
        chosen = _chosen([each.name for each in self.answer().streams], name)
        known = self._open.get(chosen)
        if known is not None and known.reader is not None and known.reader.address == address:
            return known
        reader = Reader(address, chosen, engine=records)
        opened = LoggedStream(
            chosen, reader, reader, Rows(rows, address, reader.number),
            lambda: StoredEvidence(reader),
        )  # fmt: skip
        self._open[chosen] = opened
        return opened

    def answer(self) -> Streams:
        """See LoggedStreams."""
        address, (engine, _) = self._current()
        try:
            with engine.connect() as connection:
                found = connection.execute(text(_STREAMS)).all()
        except OperationalError as problem:
            raise migrations.connection_error(address, problem) from problem
        return Streams(
            streams=[
                StreamAnswer(name=row.name, head=row.next, holder=row.holder or None)
                for row in found
            ]
        )

    def close(self) -> None:
        """Closes the connections."""
        with self._lock:
            for engine in self._engines or ():
                engine.dispose()

    def _current(self) -> tuple[str, tuple[Engine, Engine]]:
        """The address that is in force, and the engines for rows and for records."""
        address = self._address()
        with self._lock:
            if address != self._used or self._engines is None:
                for engine in self._engines or ():
                    engine.dispose()
                self._engines = _engine(address, _STATEMENT_SECONDS), _engine(address, 0)
                self._used, self._open = address, {}
            return address, self._engines


def _engine(address: str, seconds: int) -> Engine:
    timeout = f"-c statement_timeout={seconds}s"
    url = sqlalchemy_url(address)
    own = url.query.get("options", "")
    own = own if isinstance(own, str) else " ".join(own)
    return create_engine(
        url.update_query_dict({"options": f"{own} {timeout}".strip()}),
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
