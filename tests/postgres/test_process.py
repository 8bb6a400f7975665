"""``eventsched run`` as process 1 of a container is asked to end at any moment of its start."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eventsched.signals import ENDED_BY_SIGTERM

ROOT = Path(__file__).resolve().parents[2]
MOMENTS = int(os.environ.get("EVENTSCHED_TEST_MOMENTS", "8"))
"""Of both ways to begin together; each is a whole start of the process."""
LIMIT = 300.0
"""Seconds for waits that are over at once on a quiet machine."""


class Cluster(ThreadingHTTPServer):
    """An API server of an empty cluster; ``written`` are the Leases that were asked for."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.written: list[str] = []
        self.asked = threading.Event()
        self.lease: dict[str, object] | None = None
        self.lock = threading.Lock()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Cluster

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def do_GET(self) -> None:
        self.server.asked.set()
        path = self.path.partition("?")[0]
        if "watch=" in self.path:
            self._watch()
        elif path == "/version":
            self._say(200, {"gitVersion": "v1.36.0"})
        elif "/leases/" in path:
            absent = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            self._say(*((200, self.server.lease) if self.server.lease else (404, absent)))
        else:
            self._say(200, {"metadata": {"resourceVersion": "1"}, "items": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if body.get("kind") == "Lease":
            self._write(body, 201)
        else:
            self._say(201, body)

    def do_PUT(self) -> None:
        self._write(json.loads(self.rfile.read(int(self.headers["Content-Length"]))), 200)

    def _write(self, lease: dict[str, Any], status: int) -> None:
        with self.server.lock:
            self.server.written.append(str(lease["spec"].get("holderIdentity") or ""))
            lease["metadata"]["resourceVersion"] = str(len(self.server.written) + 1)
            self.server.lease = lease
        self._say(status, lease)

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.connection.settimeout(LIMIT)
        with suppress(OSError):
            self.connection.recv(1)  # until the client has gone

    def _say(self, status: int, body: object) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


@pytest.fixture(scope="module")
def namespaces() -> list[str]:
    """The command that makes a process the first one of a PID namespace."""
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if shutil.which("unshare") is None:
        pytest.skip("there is no unshare (util-linux)")
    tried = subprocess.run(
        [*command, "true"], capture_output=True, text=True, check=False, timeout=60
    )
    if tried.returncode:
        pytest.skip(f"no PID namespace can be made here: {tried.stderr.strip()}")
    return command


class Process:
    """The first process of a namespace, which runs ``eventsched``."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        with log.open("wb") as out:
            self._outer = subprocess.Popen(
                command, stdout=out, stderr=out, env={**os.environ, **environment}, cwd=log.parent
            )
        self.log = log
        self._until(lambda: self._children() != [], "it is there")
        (self.pid,) = self._children()

    def _children(self) -> list[int]:
        path = Path(f"/proc/{self._outer.pid}/task/{self._outer.pid}/children")
        return [int(word) for word in path.read_text().split()]

    def _until(self, condition: object, what: str) -> None:
        assert callable(condition)
        until = time.monotonic() + LIMIT
        while not condition():
            assert time.monotonic() < until, f"not in time: {what}\n{self.log.read_text()[-2000:]}"
            assert self._outer.poll() is None, self.log.read_text()[-2000:]
            time.sleep(0.002)

    def _catches(self) -> bool:
        """Whether SIGTERM has a handler."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        mask = int(status.partition("SigCgt:")[2].split()[0], 16)
        return bool(mask >> (signal.SIGTERM - 1) & 1)

    def wait_for_handler(self) -> None:
        """Until Python runs the first lines of eventsched: before, nothing can be done."""
        self._until(self._catches, "SIGTERM is handled")

    def wait_for(self, words: str) -> None:
        """Until the log says so."""
        self._until(lambda: words in self.log.read_text(), words)

    def ended(self, after: float) -> int:
        """Asks it to end after some seconds; the exit code."""
        time.sleep(after)
        os.kill(self.pid, signal.SIGTERM)
        return self._outer.wait(LIMIT)

    def kill(self) -> None:
        """Ends what is left of it."""
        self._outer.kill()
        self._outer.wait(LIMIT)


@pytest.fixture
def arguments(tmp_path: Path, database: str, cluster: Cluster) -> list[str]:
    """Those of ``eventsched``; with an election."""
    server = {"server": f"http://127.0.0.1:{cluster.server_address[1]}"}
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k"}}],
        "clusters": [{"name": "k", "cluster": server}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    return [
        "run", f"--database={database}", f"--kubeconfig={tmp_path / 'kubeconfig'}",
        "--secure-port=0", "--log-format=json",
    ]  # fmt: skip


ENTRIES = {
    "module": [sys.executable, "-m", "eventsched"],
    "console script": [sys.executable, "-c", "import sys; from eventsched.entry import main; "
                       "sys.exit(main())"],
}  # fmt: skip


def _run(namespaces: list[str], command: list[str], tmp_path: Path, number: int = 0) -> Process:
    environment = {"PYTHONPATH": str(ROOT)}
    return Process([*namespaces, *command], tmp_path / f"{number}.log", environment)


@pytest.mark.parametrize("entry", ENTRIES)
def test_process_1_ends_at_once_whenever_it_is_asked(
    entry: str, namespaces: list[str], arguments: list[str], cluster: Cluster, tmp_path: Path
) -> None:
    """From the moment that it handles SIGTERM until it leads, at moments that lie evenly. It never
    keeps a Lease: what was asked for is given back."""
    command = [*ENTRIES[entry], *arguments]
    whole = _run(namespaces, command, tmp_path)
    try:
        whole.wait_for_handler()
        began = time.monotonic()
        whole.wait_for('"deciding"')
        lasting = time.monotonic() - began
        assert whole.ended(0.0) == 0
    finally:
        whole.kill()
    assert cluster.written[-1] == ""
    codes = set()
    for number in range(MOMENTS // len(ENTRIES)):
        before = len(cluster.written)
        process = _run(namespaces, command, tmp_path, number + 1)
        try:
            process.wait_for_handler()
            code = process.ended(lasting * number / (MOMENTS // len(ENTRIES) - 1))
        finally:
            process.kill()
        said = process.log.read_text()
        assert code in (0, ENDED_BY_SIGTERM), said[-2000:]
        assert "Traceback" not in said, said[-2000:]
        written = cluster.written[before:]
        assert not written or written[-1] == "", written
        codes.add(code)
    assert ENDED_BY_SIGTERM in codes  # while it imported


def test_the_entry_of_the_package_is_the_one_that_is_tried() -> None:
    """``eventsched`` and ``python -m eventsched`` begin alike."""
    import tomllib

    with (ROOT / "pyproject.toml").open("rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    assert scripts["eventsched"] == "eventsched.entry:main"
