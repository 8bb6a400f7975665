"""The dashboards on a real Prometheus, if one is installed (tests/monitoring.py): it scrapes the
metrics of a leader and of a standby as the product exports them, and answers every query."""

import json
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eventsched.web.metrics import Metrics
from tests import monitoring
from tests.cluster.harness.plane import free_ports
from tests.deploy.boards import BY_PROMETHEUS, promql, with_values
from tests.waiting import joined
from tests.web.facts import Facts
from tests.web.test_metrics import everything

pytestmark = [*monitoring.needs(monitoring.PROMETHEUS), pytest.mark.process]
SILENT = (
    'queue=~"active|backoff"',
    'scheduler_schedule_attempts_total{job=~"$job",result="error"}',
    "eventsched_extender_calls_total",
    "eventsched_samples_total",
    "changes(eventsched_log_epoch",
)
"""Parts of queries without an answer here: no pod waits in these queues, no attempt and no
call has failed, and no term begins."""
DEADLINE = 60.0


@pytest.fixture(scope="module")
def replicas() -> Iterator[list[str]]:
    """Addresses of a leader and a standby."""
    standby = Metrics()
    standby.attach(Facts(lease="eventsched", epoch=3, log_head=100, log_lag=5))
    leader = everything()
    for number in (1, 2):
        leader.batch_committed(0.01 * number, 10, 1000)
    metrics = {"/leader": leader, "/standby": standby}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body, kind = metrics[self.path].exposition()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield [f"127.0.0.1:{server.server_port}{path}" for path in metrics]
    server.shutdown()
    joined(thread)
    server.server_close()


@pytest.fixture(scope="module")
def address(replicas: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the Prometheus listens."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    (port,) = free_ports(1)
    jobs = [
        {
            "job_name": path,
            "metrics_path": f"/{path}",
            "static_configs": [{"targets": [host], "labels": {"instance": path}}],
            "relabel_configs": [{"target_label": "job", "replacement": "eventsched"}],
        }
        for host, path in (replica.split("/") for replica in replicas)
    ]
    with (folder / "output").open("wb") as output:
        command = monitoring.command(folder, port, jobs)
        server = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(timeout=30)


def asked(address: str, query: str) -> list[Any]:
    """The series of an answer; none while Prometheus starts. Raises AssertionError for a query
    that it does not understand."""
    form = urllib.parse.urlencode({"query": with_values(query)}).encode()
    try:
        with urllib.request.urlopen(f"{address}/api/v1/query", form, timeout=DEADLINE) as response:
            answer = json.load(response)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise AssertionError(query, error.read()) from error
        return []
    except urllib.error.URLError:
        return []
    found: list[Any] = answer["data"]["result"]
    return found


@pytest.mark.parametrize("board", BY_PROMETHEUS)
def test_every_query_has_an_answer(address: str, board: str) -> None:
    """Rates need two scrapes; a query that can only be answered after an error has none."""
    waiting = {query for _, query in promql(board)}
    silent = {query for query in waiting if any(part in query for part in SILENT)}
    ends = time.monotonic() + DEADLINE
    while waiting > silent and time.monotonic() < ends:
        waiting = {query for query in waiting if not asked(address, query)}
        time.sleep(0.2)
    assert waiting == silent


def test_the_numbers_are_those_of_the_replicas(address: str) -> None:
    """One leader; the lag of the standby, not of the leader; queues are counted once."""
    by_title = dict(promql("overview")) | {f"log: {title}": query for title, query in promql("log")}
    expected = {
        "Leaders": "1",
        "Best standby's lag": "5",
        "Waiting pods": "10",
        "log: Records": "100",
        "log: Database": "4096",
    }
    found: dict[str, list[str]] = {}
    ends = time.monotonic() + DEADLINE
    while found != {title: [value] for title, value in expected.items()}:
        assert time.monotonic() < ends, found  # A late scrape makes series stale for a moment.
        found = {
            title: [each["value"][1] for each in asked(address, query)]
            for title, query in by_title.items()
            if title in expected
        }
        time.sleep(0.2)
