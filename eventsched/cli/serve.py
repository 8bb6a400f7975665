"""``eventsched serve``: the HTTP API over a log."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from eventsched.cli.log_access.database_places import place_of_results, results_address
from eventsched.cli.log_access.served_log import add_served_log_options, served_streams
from eventsched.domain.errors import InputError
from eventsched.runtime import plugin_files


def add_to(commands: Any) -> None:
    """Adds the command to the parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "serve",
        help="answer questions about a log over HTTP",
        description="Serves the HTTP API (docs/api.md) over the log of a database, an archive or "
        "an exported file: what happens now, decisions with every node's verdict, pods and why "
        "they wait, states of the past. "
        "The log is not written to. It listens on this machine only, unless --bind-address says "
        "otherwise.",
    )
    _add_port_options(parser.add_argument_group("the port"))
    _add_client_options(parser.add_argument_group("the clients"))
    parser.add_argument(
        "--plugin", type=Path, action="append", default=[], metavar="FILE.py",
        help="a file with plugins that the stream was written with; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--store-in", metavar="DATABASE",
        help="where the results of what-ifs may be stored, each as a new stream: a database's URL, "
        "or the folder of an embedded one (default: nowhere)",
    )  # fmt: skip
    add_served_log_options(parser)
    parser.set_defaults(run=run)


def _add_port_options(where: argparse._ArgumentGroup) -> None:
    where.add_argument(
        "--bind-address", metavar="ADDRESS", default="127.0.0.1",
        help="where to listen (default: 127.0.0.1)",
    )  # fmt: skip
    where.add_argument(
        "--port", type=int, metavar="PORT", default=8787, help="default: 8787; 0 for a free one"
    )
    where.add_argument(
        "--tls-cert-file", type=Path, metavar="FILE",
        help="the certificate for HTTPS, as PEM; read again when it changes",
    )  # fmt: skip
    where.add_argument("--tls-private-key-file", type=Path, metavar="FILE", help="its key")
    where.add_argument(
        "--plain", action="store_true",
        help="HTTP also on an address that other machines reach; the default there is HTTPS with a "
        "self-signed certificate",
    )  # fmt: skip


def _add_client_options(who: argparse._ArgumentGroup) -> None:
    who.add_argument(
        "--authorization", choices=("delegated", "request-headers"),
        help="clients see the namespaces in which they may list pods; delegated: they need a "
        "bearer token of the cluster; request-headers: a proxy in front names the user in "
        "X-Remote-User and X-Remote-Group",
    )  # fmt: skip
    who.add_argument(
        "--kubeconfig", type=Path, metavar="FILE",
        help="with --authorization: the API server to ask (default: $KUBECONFIG, the service "
        "account of the pod, ~/.kube/config)",
    )  # fmt: skip
    who.add_argument("--context", metavar="NAME", help="a context of the kubeconfig")
    who.add_argument(
        "--client-ca-file", type=Path, metavar="FILE",
        help="with request-headers: the authority of the proxy's client certificate, as PEM; "
        "other clients are not served",
    )  # fmt: skip
    who.add_argument(
        "--trust-all-clients", action="store_true",
        help="with request-headers: take the headers of every client; for a port that only the "
        "proxy reaches",
    )  # fmt: skip
    who.add_argument(
        "--tokens", type=Path, metavar="FILE",
        help="clients need a bearer token of this file; read again when it changes",
    )  # fmt: skip
    who.add_argument(
        "--no-tokens", action="store_true",
        help="serve clients without a token on an address that other machines reach",
    )  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Serves until it is stopped."""
    try:
        from eventsched.api import server
        from eventsched.api.desk.asked import Desk
        from eventsched.process_log import output
        from eventsched.questions.states import FoldedStates
    except ModuleNotFoundError as missing:
        raise InputError(
            "this command",
            f"needs the package {missing.name}",
            "install it: pip install 'eventsched[cluster]'",
        ) from missing
    wanted = server.ApiOptions(
        options.bind_address, options.port, options.tls_cert_file, options.tls_private_key_file,
        options.plain, options.tokens, options.no_tokens, options.authorization, options.kubeconfig,
        options.context, options.client_ca_file, options.trust_all_clients,
    )  # fmt: skip
    gate, place = server.gate_of(wanted), server.place_of(wanted)
    for path in options.plugin:
        plugin_files.imported(path)  # so that no question finds that the file is not there
    with served_streams(options) as streams, _results(options) as store_in:
        output.configure()  # structlog's own tracebacks show local variables, tokens among them
        desk = Desk(streams, FoldedStates(), tuple(options.plugin), store_in)
        return server.serve(desk, gate, place, _announce)


@contextmanager
def _results(options: argparse.Namespace) -> Iterator[str]:
    """The address of the database for results, "" without one. Raises InputError and
    UnavailableError, also if its user may not write there."""
    if options.store_in is None:
        yield ""
        return
    from eventsched.eventlog.whole_stream import require_new
    from eventsched.questions.what_ifs.what_if_answer import HOLDER, STORED_PREFIX

    url, folder = place_of_results(options.store_in)
    with results_address(url, folder) as address:
        require_new(address, STORED_PREFIX, HOLDER)
        yield address


def _announce(url: str) -> None:
    print(f"serving {url}", flush=True)
    print(f"pages: {url.removesuffix('/api/v1')}/", flush=True)
    from eventsched.web.http.https_server import is_loopback

    place = urlsplit(url)
    if place.scheme == "http" and not is_loopback(place.hostname or ""):
        print("warning: tokens and answers are not encrypted", file=sys.stderr)
