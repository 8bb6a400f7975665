"""Serves the API and the pages until a signal comes: what ``eventsched serve`` runs."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import structlog

from eventsched import signals
from eventsched.api.application import ROOT, application
from eventsched.api.desk.asked import Desk
from eventsched.api.gates.delegated_gate import delegated_gate
from eventsched.api.gates.gate import Gate, OpenGate
from eventsched.api.gates.static_tokens import StaticTokens
from eventsched.cluster.kube.http.access import require_known
from eventsched.domain.errors import InputError
from eventsched.pages.site import site
from eventsched.runtime import gc_tuning
from eventsched.web.http.certificates import Certificates, Files, SelfMade, own_names
from eventsched.web.http.https_server import Place, is_loopback, serving_at

DELEGATED, REQUEST_HEADERS = "delegated", "request-headers"
"""Values of ``authorization``."""

logger = structlog.stdlib.get_logger(__name__)


@dataclass(frozen=True)
class ApiOptions:
    """Where to listen, and which clients are served. Without files for certificate and key, the
    port is plain HTTP on a loopback address, or with ``plain``; otherwise it has a self-signed
    certificate.
    ``no_tokens`` serves clients without a token on an address that other machines reach.
    With ``authorization`` the API server decides what a user may see: that of ``kubeconfig`` and
    its ``context``, None as in ``connect``. With DELEGATED it also says whose a token is; with
    REQUEST_HEADERS a proxy names the user, which has a certificate of ``client_ca_file``, or is
    every client with ``trust_all_clients``."""

    address: str = "127.0.0.1"
    port: int = 8787
    cert_file: Path | None = None
    key_file: Path | None = None
    plain: bool = False
    tokens_file: Path | None = None
    no_tokens: bool = False
    authorization: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    client_ca_file: Path | None = None
    trust_all_clients: bool = False


Gates = AbstractAsyncContextManager[Gate]
"""Gives the gate of a server, and closes what it holds."""


def gate_of(options: ApiOptions) -> Gates:
    """The gate that the options describe. Raises InputError."""
    if options.authorization is not None:
        return _reviewing(options)
    for name, value in (("--kubeconfig", options.kubeconfig), ("--context", options.context)):
        if value is not None:
            remedy = "add --authorization delegated"
            raise InputError(name, "names the API server to ask about tokens", remedy)
    _require_no_proxy(options)
    if options.tokens_file is not None:
        if options.no_tokens:
            raise InputError("--no-tokens", "excludes --tokens", "leave one of them out")
        return nullcontext(StaticTokens(options.tokens_file))
    if not is_loopback(options.address) and not options.no_tokens:
        problem = f"other machines reach {options.address}, and no client needs a token"
        remedy = "give --authorization delegated, --tokens FILE, or --no-tokens"
        raise InputError("--bind-address", problem, remedy)
    return open_gate(options.address)


def open_gate(address: str) -> Gates:
    """The gate of a port at an address whose clients need no token."""
    return nullcontext(OpenGate(local_only=is_loopback(address)))


def _reviewing(options: ApiOptions) -> Gates:
    for name, is_given in (
        ("--tokens", options.tokens_file is not None), ("--no-tokens", options.no_tokens),
    ):  # fmt: skip
        if is_given:
            problem = f"excludes --authorization {options.authorization}"
            raise InputError(name, problem, "leave one of them out")
    by_proxy = options.authorization == REQUEST_HEADERS
    if by_proxy:
        _require_proxy(options)
    else:
        _require_no_proxy(options)
    require_known(options.kubeconfig, os.environ, options.context)
    return delegated_gate(options.kubeconfig, options.context, by_proxy=by_proxy)


def _require_proxy(options: ApiOptions) -> None:
    """Raises InputError unless it is said which clients may name a user."""
    if options.client_ca_file is None and not options.trust_all_clients:
        problem = "every client could name any user"
        remedy = (
            "give --client-ca-file FILE with the authority of the proxy's certificate, or "
            "--trust-all-clients if only the proxy reaches the port"
        )
        raise InputError(f"--authorization {REQUEST_HEADERS}", problem, remedy)
    if options.client_ca_file is not None and options.trust_all_clients:
        raise InputError(
            "--trust-all-clients", "excludes --client-ca-file", "leave one of them out"
        )


def _require_no_proxy(options: ApiOptions) -> None:
    for name, is_given in (
        ("--client-ca-file", options.client_ca_file is not None),
        ("--trust-all-clients", options.trust_all_clients),
    ):
        if is_given:
            remedy = f"add --authorization {REQUEST_HEADERS}"
            raise InputError(name, "says which clients may name a user", remedy)


def place_of(options: ApiOptions) -> Place:
    """Where to listen. Raises InputError for certificates that cannot be used."""
    return Place(options.address, options.port, "--port", _certificates(options))


def _certificates(options: ApiOptions) -> Certificates | None:
    given, missing = "--tls-cert-file", "--tls-private-key-file"
    if options.cert_file is None and options.key_file is not None:
        given, missing = missing, given
    if (options.cert_file is None) != (options.key_file is None):
        raise InputError(given, f"is given without {missing}", "give both, or neither")
    clients = options.client_ca_file
    if options.plain:
        for name, file in (("--tls-cert-file", options.cert_file), ("--client-ca-file", clients)):
            if file is not None:
                raise InputError("--plain", f"excludes {name}", "leave one of them out")
        return None
    if options.cert_file is not None and options.key_file is not None:
        return Certificates(Files(options.cert_file, options.key_file), clients)
    if is_loopback(options.address) and clients is None:
        return None
    return Certificates(SelfMade(own_names(options.address)), clients)


def serve(
    desk: Desk,
    gates: Gates,
    place: Place,
    announced: Callable[[str], None],
    *,
    has_pages: bool = True,
    lifeline: int | None = None,
) -> int:
    """Serves until SIGINT or SIGTERM, or until the other end of the pipe ``lifeline`` is closed.
    Returns the exit code. ``announced`` is called with the address. Raises InputError and
    UnavailableError for the port."""
    return asyncio.run(_serve(desk, gates, place, announced, has_pages, lifeline))


async def _serve(
    desk: Desk,
    gates: Gates,
    place: Place,
    announced: Callable[[str], None],
    has_pages: bool,
    lifeline: int | None,
) -> int:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if lifeline is not None:
        loop.add_reader(lifeline, ended.set)
    if signals.asked_to_end():
        return 0
    async with gates as gate:
        api = application(desk, gate)
        app = site(api, what_ifs=desk.what_ifs) if has_pages else api
        gc_tuning.freeze(collect=False)  # else answers wait for collections of all that is kept
        async with serving_at(place, app) as url:
            announced(f"{url}{ROOT}")
            await ended.wait()
            api.end()
    return 0
