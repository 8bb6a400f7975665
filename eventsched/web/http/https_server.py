"""The HTTP servers of the process: HTTPS, and if configured plain HTTP for probes. They run in the
scheduler's event loop. They neither handle signals nor end the process.

    async with serving(options, pages.application(…), pages.public(status)) as at: …
"""

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from eventsched.domain.errors import InputError, UnavailableError
from eventsched.web.http import posts
from eventsched.web.http.certificates import Certificates, Files, SelfMade, own_names
from eventsched.web.http.connections import Pages
from eventsched.web.http.descriptors import MAX_CONNECTIONS
from eventsched.web.http.listener import Listener
from eventsched.web.http.posts import Handle

_END_SECONDS = 5
"""Seconds that requests under way get when serving ends (upstream: cmd/kube-scheduler/app
server.go, shutdownTimeout)."""
_BACKLOG = 128
_PORT, _PLAIN_PORT = "serving.port", "serving.plainHealthPort"


@dataclass(frozen=True)
class Options:
    """Where to listen: ``port`` for HTTPS, ``plain_health_port`` for HTTP. None: not at all; 0: any
    free port. Without files for certificate and key, a self-signed certificate is made."""

    bind_address: str = "127.0.0.1"
    port: int | None = 10259
    cert_file: Path | None = None
    key_file: Path | None = None
    plain_health_port: int | None = None
    client_ca_file: Path | None = None
    """Clients over HTTPS need a certificate of one of these authorities; None: they need none."""
    most: int = MAX_CONNECTIONS
    """Connections of each port at a time."""


@dataclass(frozen=True)
class Addresses:
    """Where the server listens, as URLs; "" for a port that is not used."""

    secure: str
    plain: str


class _Server(uvicorn.Server):
    """A uvicorn server that leaves the process's signals alone. A ``Listener`` accepts its
    connections."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Installs no handlers: the scheduler handles the signals."""
        yield


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def require_free(options: Options) -> None:
    """Checks the address and the ports before anything else is started. Raises what ``serving``
    would raise for them."""
    for port, field in ((options.port, _PORT), (options.plain_health_port, _PLAIN_PORT)):
        if port is not None:
            _listening_socket(options.bind_address, port, field).close()


@asynccontextmanager
async def serving(options: Options, app: ASGIApp, public: ASGIApp) -> AsyncIterator[Addresses]:
    """Serves while the block runs: ``app`` over HTTPS and, on the plain port, ``public``. Raises
    InputError for an address or a certificate that cannot be used, UnavailableError for a port that
    is taken."""
    context = _certificates(options).context
    ports = (
        ("https", options.port, _PORT, app, context),
        ("http", options.plain_health_port, _PLAIN_PORT, public, None),
    )
    urls = {"https": "", "http": ""}
    async with AsyncExitStack() as running:
        for scheme, port, field, served_app, tls in ports:
            if port is not None:
                listening_socket = _listening_socket(options.bind_address, port, field)
                running.callback(listening_socket.close)
                urls[scheme] = _url(scheme, listening_socket)
                await running.enter_async_context(
                    _run(served_app, listening_socket, tls, options.most)
                )
        yield Addresses(urls["https"], urls["http"])


@asynccontextmanager
async def answering(options: Options, handle: Handle) -> AsyncIterator[str]:
    """Answers requests with ``handle`` while the block runs: over HTTPS on ``port``, or over HTTP
    on the plain port if ``port`` is None. Yields the URL. Raises what ``serving`` raises."""
    tls = None if options.port is None else _certificates(options).context
    port = options.plain_health_port if options.port is None else options.port
    with closing(
        _listening_socket(options.bind_address, port or 0, "extender.port")
    ) as listening_socket:
        async with posts.serve(listening_socket, tls, handle, options.most):
            yield _url("https" if tls else "http", listening_socket)


@dataclass(frozen=True)
class Place:
    """An address and a port to listen on (0: any free one), over HTTPS if there are
    ``certificates``. ``field`` is what errors call the port."""

    address: str
    port: int
    field: str
    certificates: Certificates | None = None


def require_place_free(place: Place) -> None:
    """Checks that a place can be listened on. Raises what ``serving_at`` would raise for it."""
    _listening_socket(place.address, place.port, place.field).close()


@asynccontextmanager
async def serving_at(place: Place, app: ASGIApp) -> AsyncIterator[str]:
    """Serves an application on one port while the block runs, and yields its URL. Raises InputError
    and UnavailableError if the port cannot be listened on."""
    tls = None if place.certificates is None else place.certificates.context
    with closing(_listening_socket(place.address, place.port, place.field)) as listening_socket:
        async with _run(app, listening_socket, tls, MAX_CONNECTIONS):
            yield _url("http" if tls is None else "https", listening_socket)


@asynccontextmanager
async def _run(
    app: ASGIApp, listening_socket: socket.socket, tls: ssl.SSLContext | None, most: int
) -> AsyncIterator[None]:
    config = uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_END_SECONDS,
    )
    server = _Server(config)
    port_listener = Listener(
        listening_socket,
        tls,
        most,
        lambda connection: Pages(config, server.server_state, connection),
    )
    task = asyncio.create_task(server.serve([]), name="web")
    try:
        while not server.started and not task.done():
            await asyncio.sleep(0)
        port_listener.start()
        yield
    finally:
        port_listener.close()
        server.should_exit = True
        await task
        port_listener.drop_all()


def _certificates(options: Options) -> Certificates:
    if (options.cert_file is None) != (options.key_file is None):
        raise InputError("serving", "names only one of certFile and keyFile", "name both or none")
    if options.cert_file is None or options.key_file is None:
        source = SelfMade(own_names(options.bind_address))
        return Certificates(source, options.client_ca_file)
    return Certificates(Files(options.cert_file, options.key_file), options.client_ca_file)


def _listening_socket(address: str, port: int, field: str) -> socket.socket:
    """A listening socket. Errors name the field of the configuration."""
    if not 0 <= port < 2**16:
        raise InputError(field, f"{port} is not a port", "choose one up to 65535")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        listening_socket = socket.create_server(
            (address, port), family=family, backlog=_BACKLOG, dualstack_ipv6=address == "::"
        )
        # Connections inherit it. asyncio sets it only if the socket's protocol is IPPROTO_TCP, and
        # here it is 0. Without it a response in two parts waits 40 ms for a delayed
        # acknowledgement.
        listening_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening_socket
    except OSError as error:
        place = f"{field} {port} on {address}"
        if error.errno == errno.EADDRINUSE:
            option = " (--secure-port)" if field == _PORT else ""
            remedy = f"choose another one{option}, or stop what listens there"
            raise UnavailableError(place, "is taken", remedy) from error
        number = error.errno or 0  # below 0: an error of getaddrinfo
        reason = os.strerror(number) if number > 0 else error.strerror
        remedy = "choose an address of this machine and a port above 1023"
        raise InputError(place, f"cannot be listened on ({reason})", remedy) from error


def _url(scheme: str, listening_socket: socket.socket) -> str:
    host, port = listening_socket.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
