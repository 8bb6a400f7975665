"""Requests to one API server over one pool of connections. Bodies are bytes.

Only aiohttp's session is used, with prepared headers and no object models: a request costs 0.2 ms
of CPU. An ``Access`` has the server's address and the client's credentials.
"""

import asyncio
import random
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from eventsched.cluster.transports import Connector, connect_failure

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

REQUEST_TIMEOUT = 10.0
"""Seconds for one request, including its answer's body."""
RETRY_SECONDS = 30.0
"""Seconds for which a request is repeated while the server sends Retry-After."""
_CONNECT_TIMEOUT = 5.0
_KEEP_ALIVE_SECONDS = 60.0
"""Seconds; less than the 90 after which an API server closes an idle connection."""
_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 30_000}
"""Seconds, seconds, probes, milliseconds."""
_CHUNK = 2**18
_RETRY_STATUSES = (429, 503)
Params = Mapping[str, str | int]
NO_HEADERS: Mapping[str, str] = {}


class HttpAnswer(NamedTuple):
    """The server's answer. ``retry_after`` is in seconds, None if the server gave none."""

    status: int
    body: bytes
    retry_after: float | None = None


class UnansweredError(Exception):
    """No answer came. If ``sent``, the outcome is unknown: the server may have carried the request
    out, or may still do so. Otherwise there was no connection, and nothing was sent."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.sent = sent


class WatchRefusedError(Exception):
    """A watch was answered with a status other than 200."""

    def __init__(self, answer: HttpAnswer) -> None:
        super().__init__(f"HTTP {answer.status}")
        self.answer = answer


class Access(Protocol):
    """The address of an API server and the client's credentials (see ``access.py``)."""

    server: str
    """Its URL, without a slash at the end."""
    authorization: str | None
    """The value of the header Authorization."""
    tls: ssl.SSLContext | None
    """None for the system's authorities (https) or no TLS (http)."""
    server_name: str | None
    """The name in the server's certificate, if it differs from the URL's."""
    proxy: str | None

    def due(self) -> bool:
        """Whether files and tokens should be read again."""

    async def refresh(self, refused: str | None = None) -> None:
        """Reads files and tokens again if they are due. ``refused`` is the authorization ("" for
        none) of a request that got 401: if it is still the current one, they are due at once. Never
        raises; if the read fails, the old values stay."""


class AnonymousAccess:
    """Access without credentials, such as to ``kubectl proxy``."""

    authorization: str | None = None
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None

    def __init__(self, server: str) -> None:
        self.server = server.rstrip("/")

    def due(self) -> bool:
        """Never."""
        return False

    async def refresh(self, refused: str | None = None) -> None:
        """Does nothing."""


def path(*segments: str) -> str:
    """``path("api", "v1", "nodes", name)`` → ``/api/v1/nodes/NAME``, quoted."""
    return "".join(f"/{quote(segment, safe=':')}" for segment in segments)


class ApiClient:
    """A client of one API server. It must be created and closed in the same running event loop."""

    def __init__(
        self,
        access: Access,
        *,
        user_agent: str = "eventsched",
        timeout: float = REQUEST_TIMEOUT,
        patience: float = RETRY_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """``timeout`` and ``patience`` (seconds) are the defaults of ``call``. ``draw`` gives
        random numbers in [0, 1), which spread repeated requests."""
        self.access = access
        self._timeout = timeout
        self._patience = patience
        self._sleep = sleep
        self._clock = clock
        self._draw = draw
        # Otherwise bodies would be compressed, which costs more CPU here than it saves.
        self._fixed = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": user_agent}
        self._headers: dict[str, str] = {}
        self._shown: str | None = None
        self._session = aiohttp.ClientSession(
            connector=Connector(
                limit=0,
                socket_factory=_socket,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                ttl_dns_cache=30,
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=_CHUNK,
        )

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        headers: Mapping[str, str] = NO_HEADERS,
        timeout: float | None = None,
        patience: float | None = None,
    ) -> HttpAnswer:
        """Sends a request (``path`` must be quoted) and returns the answer, whatever its status.
        ``headers`` come beside the client's own, or replace them.

        If the server answers 429 or 503 with Retry-After, the request is repeated for up to
        ``patience`` seconds (0 for never); then the last answer is returned. After a 401 the
        credentials are read again, and the request is repeated once if they have changed. Raises
        UnansweredError.

        aiohttp itself repeats a GET, PUT or DELETE if the idle connection that it used turns out to
        be closed. So a PUT needs a resourceVersion and a DELETE a precondition, or it could be
        carried out twice.
        """
        limit = aiohttp.ClientTimeout(
            total=self._timeout if timeout is None else timeout, connect=_CONNECT_TIMEOUT
        )
        until = self._clock() + (self._patience if patience is None else patience)
        renewed = False
        while True:
            async with self._sent(
                method, path, params, body, content_type, limit, headers
            ) as response:
                answer = await self._answer(response)
                shown = response.request_info.headers.get("Authorization")
            if answer.status == 401 and not renewed and self.access.authorization != shown:
                renewed = True
                continue
            if answer.status not in _RETRY_STATUSES or answer.retry_after is None:
                return answer
            # As client-go, but up to a tenth longer, so that clients do not return all at once.
            wait = answer.retry_after * (1 + self._draw() / 10)
            if self._clock() + wait >= until:
                return answer
            await self._sleep(wait)

    async def lines(
        self,
        path: str,
        params: Params,
        *,
        stall: float,
        opened: Callable[[], None] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch until the server ends it. ``opened`` is called when the server has
        accepted it. Wrap the iterator in ``aclosing`` if it may be left early.

        Raises WatchRefusedError for a status other than 200, and UnansweredError if the connection
        breaks or nothing comes for ``stall`` seconds.
        """
        limit = aiohttp.ClientTimeout(connect=_CONNECT_TIMEOUT, sock_read=stall)
        async with self._sent("GET", path, params, None, JSON, limit) as response:
            if response.status != 200:
                raise WatchRefusedError(await self._answer(response))
            if opened is not None:
                opened()
            lines = Lines()
            async for chunk in response.content.iter_any():
                for line in lines.feed(chunk):
                    yield line
            if rest := lines.rest:
                yield rest

    async def _answer(self, response: aiohttp.ClientResponse) -> HttpAnswer:
        """The answer; after 401 the credentials are read again first."""
        answer = HttpAnswer(response.status, await response.read(), _retry_after(response.headers))
        if answer.status == 401:
            await self.access.refresh(response.request_info.headers.get("Authorization", ""))
        return answer

    async def close(self) -> None:
        """Closes all connections."""
        await self._session.close()

    @asynccontextmanager
    async def _sent(
        self,
        method: str,
        path: str,
        params: Params | None,
        body: bytes | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
        more: Mapping[str, str] = NO_HEADERS,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        access = self.access
        if access.due():
            await access.refresh()
        if not self._headers or access.authorization != self._shown:
            self._authorize()
        target = f"{access.server}{path}?{urlencode(params)}" if params else access.server + path
        headers = self._headers
        if body is not None:
            headers = {**headers, "Content-Type": content_type}
        if more:
            headers = {**headers, **more}
        try:
            async with self._session.request(
                method,
                URL(target, encoded=True),
                data=body,
                headers=headers,
                timeout=limit,
                allow_redirects=False,
                ssl=True if access.tls is None else access.tls,
                server_hostname=access.server_name,
                proxy=access.proxy,
            ) as response:
                yield response
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise UnansweredError(f"no connection: {_words(error)}", sent=False) from error
        except TimeoutError as error:
            raise UnansweredError("no answer in time", sent=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise UnansweredError(f"connection broken: {_words(error)}", sent=True) from error

    def _authorize(self) -> None:
        self._shown = self.access.authorization
        self._headers = dict(self._fixed)
        if self._shown is not None:
            self._headers["Authorization"] = self._shown


class ReadingClient(ApiClient):
    """A client that has no way to write."""

    async def call(self, method: str, path: str, **options: Any) -> HttpAnswer:
        """Sends a GET. Raises TypeError for any other method, which would be a defect."""
        if method != "GET":
            raise TypeError(f"{method} {path}: this client only reads")
        return await super().call(method, path, **options)


class Lines:
    """Splits chunks into lines. A line of some MB comes in about a hundred chunks, so each chunk is
    scanned only once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without line ends and without empty lines."""
        *ended, rest = chunk.split(b"\n")
        if ended:
            ended[0] = b"".join((*self._parts, ended[0]))
            self._parts.clear()
        self._parts.append(rest)
        return [line for line in ended if line]

    @property
    def rest(self) -> bytes:
        """The start of a line whose end has not come yet."""
        return b"".join(self._parts)


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within half a minute that the peer is gone. Without keepalive a watch
    would never notice, because the client sends nothing."""
    tcp_socket = socket.socket(*address[:3])
    tcp_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if option := getattr(socket, name, None):  # by platform
            tcp_socket.setsockopt(socket.IPPROTO_TCP, option, value)
    return tcp_socket


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; None if the header is missing. An API server never sends a date."""
    try:
        return max(0.0, float(headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


def _words(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port}: {connect_failure(error)}"
    return str(error) or type(error).__name__
