"""A proxy to a database that drops messages on request."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from tests.waiting import joined

_READY = 6
"""Bytes of ReadyForQuery, which ends every answer."""
_GOODBYE = b"X"
"""First byte of Terminate. A reader that has closed its connection may send it late."""


class Loss(Enum):
    """What is lost, together with the connection, at the client's next message."""

    REQUEST = "the client's message"
    ANSWER = "all of the server's answer"
    READY = "the end of the answer: the server's message that it is ready again"


class Proxy:
    """Forwards bytes. Each connection has two threads."""

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self._host, self._port = str(parts["host"]), int(parts.get("port") or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        made = make_url(url).difference_update_query(["host", "port"])
        port = self._listener.getsockname()[1]
        made = made.set(host="127.0.0.1", port=port).update_query_dict({"sslmode": "disable"})
        self.url = made.render_as_string(hide_password=False)
        self.unreachable = False
        """Whether new connections are closed at once."""
        self.connections = 0
        """Number of connections so far."""
        self.lost = threading.Event()
        """Set when the loss has happened."""
        self._loss: Loss | None = None
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def lose(self, loss: Loss) -> None:
        """Loses a message and its connection at the next one."""
        self.lost.clear()
        self._loss = loss

    def cut(self) -> None:
        """Ends all open connections."""
        for pair in self._pairs:
            _end(*pair)

    def close(self) -> None:
        """Ends everything."""
        _end(self._listener)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            joined(thread)
        for pair in self._pairs:
            for connection in pair:
                connection.close()

    def _start(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                if self.unreachable:
                    client.close()
                    continue
                server = self._connect()
                self._pairs.append((client, server))
                self._start(self._requests, client, server)
                self._start(self._answers, client, server)

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port), timeout=60)
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while message := client.recv(65_536):
                if self._loss is Loss.REQUEST and not message.startswith(_GOODBYE):
                    self._lose()
                    break
                server.sendall(message)
        _end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while message := server.recv(65_536):
                if self._loss in (Loss.ANSWER, Loss.READY):
                    if self._loss is Loss.READY:
                        client.sendall(message[:-_READY])
                    self._lose()
                    break
                client.sendall(message)
        _end(client, server)

    def _lose(self) -> None:
        self._loss = None
        self.lost.set()


def _end(*sockets: socket.socket) -> None:
    for connection in sockets:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def between(url: str) -> Iterator[Proxy]:
    """A proxy before a database."""
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
