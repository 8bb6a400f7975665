"""A proxy between a client and a Postgres server. It knows the statements that go by, so that one
of them can be held, lost, or carried out without an answer.

    with PostgresProxy(database) as proxy:
        log = PostgresEventLog(proxy.url, …)
        proxy.on("eventsched_log.append", Swallow(), times=1)

Statements are known by their text, also when they were prepared before.
"""

import asyncio
import re

from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import make_url

from tests.cluster.harness.faults import Delay, Fault, Hang, Hold, Lose, Rule, Rules, Swallow
from tests.cluster.harness.tcp_proxy import CHUNK, Pair, TcpProxy

_READY = b"Z\x00\x00\x00\x05"
"""ReadyForQuery ends every answer; one byte follows it."""


class PostgresProxy(TcpProxy):
    """Before the server of a database URL; ``url`` leads through the proxy. Unencrypted."""

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self._rules = Rules()
        self._unanswered: dict[Pair, Rule] = {}
        super().__init__(str(parts.get("host") or "127.0.0.1"), int(parts.get("port") or 5432))
        made = make_url(url).difference_update_query(["host", "port"])
        made = made.set(host="127.0.0.1", port=self.port)
        made = made.update_query_dict({"sslmode": "disable", "gssencmode": "disable"})
        self.url = made.render_as_string(hide_password=False)

    def on(self, statement: str, fault: Fault, times: int | None = None) -> Rule:
        """Applies a fault to statements that the regular expression is found in."""
        pattern = re.compile(statement.encode())
        return self._rules.add(Rule(fault, lambda text: bool(pattern.search(text)), times))

    def clear(self) -> None:
        """Ends all rules, and a stall."""
        self._rules.clear()
        self.resume()

    def close(self) -> None:
        """Ends everything."""
        self._rules.clear()
        super().close()

    async def _there(self, pair: Pair) -> None:
        messages = _Messages()
        while said := await pair.from_client.read(CHUNK):
            await self._held_up()
            for message, statement in messages.add(said):
                if statement is not None:
                    await self._apply(pair, statement)
                pair.to_server.write(message)
            await pair.to_server.drain()

    async def _apply(self, pair: Pair, statement: bytes) -> None:
        rule = self._rules.take(statement)
        if rule is None:
            return
        match rule.fault:
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case Hold():
                await rule.released()
            case Lose():
                pair.abort()
                raise ConnectionResetError
            case Swallow() | Hang():
                self._unanswered[pair] = rule
            case other:
                raise AssertionError(f"{other} is for an API server")

    async def _back(self, pair: Pair) -> None:
        while said := await pair.from_server.read(CHUNK):
            await self._held_up()
            if (rule := self._unanswered.get(pair)) is None:
                pair.to_client.write(said)
                await pair.to_client.drain()
            elif said[:-1].endswith(_READY):
                del self._unanswered[pair]
                if rule.fault == Hang():
                    await rule.released()
                pair.abort()


class _Messages:
    """Takes a client's bytes apart (manual, "Message Formats")."""

    def __init__(self) -> None:
        self._bytes = b""
        self._began = False
        self._prepared: dict[bytes, bytes] = {}

    def add(self, said: bytes) -> list[tuple[bytes, bytes | None]]:
        """The whole messages that there are now, each with the statement that it runs or
        prepares."""
        self._bytes += said
        found = []
        while (size := self._size()) is not None and len(self._bytes) >= size:
            message, self._bytes = self._bytes[:size], self._bytes[size:]
            found.append((message, self._statement(message) if self._began else None))
            self._began = True
        return found

    def _size(self) -> int | None:
        """Of the message that begins here; the first one has no letter before its length."""
        start = 1 if self._began else 0
        if len(self._bytes) < start + 4:
            return None
        return start + int.from_bytes(self._bytes[start : start + 4], "big")

    def _statement(self, message: bytes) -> bytes | None:
        kind, content = message[:1], message[5:]
        if kind == b"Q":
            return content
        if kind == b"P":  # a name, the text; bound and run afterwards
            name, text = content.split(b"\0", 2)[:2]
            self._prepared[name] = text
            return None
        if kind == b"B":  # a portal, a prepared statement
            return self._prepared.get(content.split(b"\0", 2)[1])
        return None
