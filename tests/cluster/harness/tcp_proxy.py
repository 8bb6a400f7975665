"""A proxy for bytes: a test can delay, stall and cut connections, or make it unreachable."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Self

from tests.cluster.harness.faults import Gate, Loop, stopped
from tests.cluster.harness.plane import free_ports

CHUNK = 65_536
Passing = Coroutine[Any, Any, None]
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Pair:
    """A connection of a client, and that which was made for it."""

    def __init__(self, client: Ends, server: Ends) -> None:
        self.from_client, self.to_client = client
        self.from_server, self.to_server = server

    def abort(self) -> None:
        """Cuts both."""
        self.to_client.transport.abort()
        self.to_server.transport.abort()


class TcpProxy:
    """Passes bytes on to ``host`` and ``port``; a host that begins with a slash is the folder of
    Postgres' Unix socket. Controlled from any thread."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._behind = host, port
        (self.port,) = free_ports(1)
        self.connections = 0
        """How many there have been."""
        self.delay = 0.0
        """Seconds by which everything comes later, there and back each."""
        self._gate = Gate()
        self._pairs: set[Pair] = set()
        self._loop = Loop()
        self._loop.run(self._listen())

    def stall(self) -> None:
        """Connections stay open, and nothing gets through."""
        self._gate.is_open = False

    def resume(self) -> None:
        """Everything that was held up gets through."""
        self._gate.is_open = True

    def cut(self) -> None:
        """Cuts all connections that there are."""
        self._loop.run(self._cut())

    def go_down(self) -> None:
        """Stops listening and cuts all connections."""
        self._loop.run(self._stop())

    def come_back(self) -> None:
        """Listens again."""
        self._loop.run(self._listen())

    def close(self) -> None:
        """Ends everything."""
        self.resume()
        self._loop.run(self._stop())
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _there(self, pair: Pair) -> None:
        """Passes on what the client says, until it ends."""
        while said := await pair.from_client.read(CHUNK):
            await self._held_up()
            pair.to_server.write(said)
            await pair.to_server.drain()

    async def _back(self, pair: Pair) -> None:
        """Passes on what the server says, until it ends."""
        while said := await pair.from_server.read(CHUNK):
            await self._held_up()
            pair.to_client.write(said)
            await pair.to_client.drain()

    async def _held_up(self) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._gate.passed()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _stop(self) -> None:
        await stopped(self._server)
        await self._cut()

    async def _cut(self) -> None:
        for pair in list(self._pairs):
            pair.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            server = await self._connect()
        except OSError:
            writer.transport.abort()
            return
        pair = Pair((reader, writer), server)
        self._pairs.add(pair)
        ways = [
            asyncio.create_task(self._one_way(self._there(pair), pair.to_server)),
            asyncio.create_task(self._one_way(self._back(pair), pair.to_client)),
        ]
        try:
            await asyncio.gather(*ways)
        finally:
            for way in ways:
                way.cancel()
            pair.abort()
            self._pairs.discard(pair)

    async def _one_way(self, passing: Passing, to: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await passing
        to.close()  # after what was written to it

    async def _connect(self) -> Ends:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._behind}")
        return await asyncio.open_connection(self._host, self._behind)
