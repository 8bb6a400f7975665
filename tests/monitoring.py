"""A real Prometheus for a test, and exporters that say what the test wants.

The programs are the Debian packages prometheus and prometheus-node-exporter; if they are not on
the path, tests are skipped (``needs_prometheus``)."""

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from tests.waiting import joined

PROMETHEUS = "prometheus"
NODE_EXPORTER = "prometheus-node-exporter"
DEVICE = "ens192"
"""The network device that the exporters speak of."""
Counter = Callable[[], float | None]
"""What a node has received by now; None where its exporter does not say."""


def needs(*programs: str) -> list[pytest.MarkDecorator]:
    """Marks that skip the tests of a module without the programs, or without the client."""
    missing = [name for name in programs if shutil.which(name) is None]
    pytest.importorskip("prometheus_api_client", reason="prometheus-api-client is not installed")
    return [pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")]


class Exporters:
    """One exporter for each node, as node exporters are seen by Prometheus: what the device has
    received, and which node that is. A scrape asks the node's counter."""

    def __init__(self, **counters: Counter) -> None:
        self.counters = counters
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(counters))
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )

    def jobs(self) -> list[dict[str, Any]]:
        """What Prometheus' configuration says about them."""
        target = f"127.0.0.1:{self._server.server_port}"
        return [
            {
                "job_name": name,
                "metrics_path": f"/{name}",
                "static_configs": [{"targets": [target], "labels": {"instance": name}}],
            }
            for name in self.counters
        ]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        joined(self._thread)
        self._server.server_close()


def _handler(counters: Mapping[str, Counter]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            value = counters[name]()
            lines = [f'node_uname_info{{nodename="{name}"}} 1']
            if value is not None:
                lines.append(f'node_network_receive_bytes_total{{device="{DEVICE}"}} {value}')
            body = "\n".join([*lines, ""]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def command(
    folder: Path, port: int, jobs: Sequence[Mapping[str, Any]], interval: str = "200ms"
) -> list[str]:
    """The command line of a Prometheus on loopback that scrapes so often; its files are in the
    folder."""
    folder.mkdir(parents=True, exist_ok=True)
    times = {"scrape_interval": interval, "scrape_timeout": interval}
    config = {"global": times, "scrape_configs": list(jobs)}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    return [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
