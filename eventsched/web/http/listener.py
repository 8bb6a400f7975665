"""The listening side of every port: connections are counted when they are accepted, each stage of
one has a deadline, and beyond the limit the least useful one is dropped.

    accepted ─▶ receiving ─▶ answering ─▶ waiting ─▶ receiving ─▶ …
     (with TLS: handshake)      a whole request       kept alive

The HTTP protocol of a connection reports its stage. Connections are dropped in this order: those
that never completed a request, those that wait for another request, those that are being answered;
the oldest of each first. So an active client keeps its connection, and clients that hold silent
connections do not keep a probe out.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum

import structlog

HANDSHAKE_SECONDS = 10.0
"""Seconds for a handshake."""
TRANSFER_SECONDS = 10.0
"""Seconds for the headers of a request, for its body, and for a client to take what is written."""
_ACCEPTED_AT_ONCE = 16
"""Connections accepted at a time; the scheduler shares the event loop."""
_ACCEPT_PAUSE = 0.5
"""Seconds without accepting when the process or the machine is out of descriptors."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

logger = structlog.get_logger()


class _Rank(IntEnum):
    """Order in which connections are dropped: lowest first."""

    FRESH = 0
    KEPT = 1
    ANSWERING = 2


class Connection:
    """One accepted connection. The protocol on it calls the methods below."""

    def __init__(self, listener: "Listener", client_socket: socket.socket) -> None:
        self.rank = _Rank.FRESH
        self._listener = listener
        self._socket: socket.socket | None = client_socket
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._overdue: asyncio.TimerHandle | None = None
        self._blocked: asyncio.TimerHandle | None = None
        self._receives = False
        self._has_completed = False
        self._opening = self._loop.create_task(self._open(), name="connection")

    @property
    def is_open(self) -> bool:
        """Whether the listener still counts it."""
        return self._listener.holds(self)

    @property
    def answers(self) -> bool:
        """Whether a request is being answered."""
        return self.rank is _Rank.ANSWERING

    # --- called by the protocol ---------------------------------------------------------------

    def made(self, transport: asyncio.Transport) -> None:
        """The handshake is done; the headers of a request are expected."""
        self._transport = transport
        if self.is_open:
            self.receiving()
        else:  # dropped at the same moment
            transport.abort()

    def receiving(self) -> None:
        """A part of a request has come, or a first request is expected. The deadline runs from the
        first call, not from each part."""
        if not self._receives and self.is_open:
            self._receives = True
            self._due_in(TRANSFER_SECONDS)

    def answering(self) -> None:
        """A request is complete and is being answered, without a deadline."""
        self._receives = False
        self._due_in(None)
        self._listener.ranked(self, _Rank.ANSWERING)

    def answered(self, patience: float) -> None:
        """The next request has to begin within ``patience`` seconds. Only a complete
        request (``answering``) raises the connection above those that never sent one."""
        self._has_completed |= self.rank is _Rank.ANSWERING
        self._receives = False
        self._due_in(patience)
        self._listener.ranked(self, _Rank.KEPT if self._has_completed else _Rank.FRESH)

    def untimed(self) -> None:
        """The protocol itself sets the deadline of what comes next, a body."""
        self._due_in(None)

    def blocked(self) -> None:
        """The client does not read what is written."""
        if self._blocked is None and self.is_open:
            self._blocked = self._loop.call_later(TRANSFER_SECONDS, self.drop)

    def unblocked(self) -> None:
        """The client reads again."""
        if self._blocked is not None:
            self._blocked.cancel()
            self._blocked = None

    def lost(self) -> None:
        """The connection is closed."""
        self._due_in(None)
        self.unblocked()
        self._listener.forget(self)

    def drop(self) -> None:
        """Closes the connection at once, at any stage."""
        self.lost()
        if self._transport is not None:
            self._transport.abort()
            return
        self._opening.cancel()
        if self._socket is not None:  # the task has not begun, so the socket is still ours
            self._socket.close()

    # ------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        """Hands the socket to a transport; with TLS, waits for the handshake."""
        client_socket, self._socket = self._socket, None
        assert client_socket is not None
        tls = self._listener.tls
        patience = None if tls is None else HANDSHAKE_SECONDS
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._listener.protocol(self),
                client_socket,
                ssl=tls,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience,
            )
        except OSError as error:  # includes TLS errors and a handshake that takes too long
            logger.debug("no connection came about", reason=str(error) or type(error).__name__)
            self.lost()
        except asyncio.CancelledError:
            # The transport then closes it, even if the handshake has not begun.
            with suppress(OSError):
                client_socket.shutdown(socket.SHUT_RDWR)
            raise

    def _due_in(self, seconds: float | None) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
        if seconds is not None and self.is_open:
            self._overdue = self._loop.call_later(seconds, self.drop)


class Listener:
    """Accepts the connections of one port from ``start`` until ``close``; at most ``most`` at a
    time. ``make`` gives the protocol for a connection."""

    def __init__(
        self,
        listening_socket: socket.socket,
        tls: ssl.SSLContext | None,
        most: int,
        make: Callable[[Connection], asyncio.Protocol],
    ) -> None:
        self.tls, self.protocol = tls, make
        self._listening_socket, self._most = listening_socket, most
        self._ranked: tuple[dict[Connection, None], ...] = tuple({} for _ in _Rank)
        self._loop = asyncio.get_running_loop()
        self._resuming: asyncio.TimerHandle | None = None

    @property
    def connections(self) -> list[Connection]:
        """All connections, in the order in which they would be dropped."""
        return [connection for rank in self._ranked for connection in rank]

    def start(self) -> None:
        """Begins to accept."""
        self._listening_socket.setblocking(False)
        self._resuming = None
        self._loop.add_reader(self._listening_socket, self._accept)

    def close(self) -> None:
        """Closes the port. Connections stay."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._listening_socket)
        self._listening_socket.close()

    def drop_all(self) -> None:
        """Closes all connections."""
        for connection in self.connections:
            connection.drop()

    def ranked(self, connection: Connection, rank: _Rank) -> None:
        """Moves a connection to the end of a rank."""
        if self._ranked[connection.rank].pop(connection, self) is None:
            connection.rank = rank
            self._ranked[rank][connection] = None

    def forget(self, connection: Connection) -> None:
        """Stops counting a connection."""
        self._ranked[connection.rank].pop(connection, None)

    def holds(self, connection: Connection) -> bool:
        """Whether a connection is counted."""
        return connection in self._ranked[connection.rank]

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client_socket, _address = self._listening_socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                self._pause(error)
                return
            client_socket.setblocking(False)
            connection = Connection(self, client_socket)
            self._ranked[_Rank.FRESH][connection] = None
            if sum(map(len, self._ranked)) > self._most:
                self._first().drop()

    def _first(self) -> Connection:
        return next(connection for rank in self._ranked for connection in rank)

    def _pause(self, error: OSError) -> None:
        """Out of descriptors: drops a connection that never completed a request, and stops
        accepting for a while."""
        logger.warning(
            "no connection can be accepted", reason=error.strerror, again_in=_ACCEPT_PAUSE
        )
        if self._ranked[_Rank.FRESH]:
            self._first().drop()
        self._loop.remove_reader(self._listening_socket)
        self._resuming = self._loop.call_later(_ACCEPT_PAUSE, self.start)
