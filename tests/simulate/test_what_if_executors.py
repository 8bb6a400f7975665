"""A grid of ``replay --what-if`` on each executor. Those of Dask and Ray run on a real cluster of
this machine if their packages are there: ``make test-executors`` installs them."""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from eventsched.cli.main import main
from eventsched.cli.what_if_runs.what_if import GridTask, grid_result
from eventsched.domain.errors import InputError
from eventsched.runtime.queries.logged_assembly import assembled
from eventsched.runtime.queries.what_if.node_changes import NodeChanges
from tests.cluster.harness.plane import free_ports
from tests.databases import ROOT
from tests.waiting import until

# Ray does not wait for the processes that it ends.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")

LOG = ROOT / "tests" / "histories" / "0.1-generated.jsonl.gz"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {disabled: [{name: "*"}], enabled: [{name: ImageLocality}]}}
"""
KILLER = """
import os, signal

class Killer:
    name = "Killer"

    def filter_node(self, pod, node):
        os.kill(os.getpid(), signal.SIGKILL)
"""
GRID = ("replay", "--what-if", "--what-if", "other.yaml", "-o", "json", "--from", "150")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of files are relative: a worker may have another folder."""
    monkeypatch.chdir(tmp_path)
    Path("other.yaml").write_text(CONFIG)
    Path("log.jsonl.gz").symlink_to(LOG)


@contextmanager
def _process(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a cluster, which finds this project."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", *command], env=environment, cwd="/",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # and what it has started


def _answers(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _dask_cluster(port: int) -> Iterator[None]:
    address = f"127.0.0.1:{port}"
    with (
        _process(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port),
            "--no-dashboard",
        ) as scheduler,
        _process(
            "distributed.cli.dask_worker", f"tcp://{address}", "--nthreads", "1",
            "--nworkers", "2", "--no-dashboard",
        ),
    ):  # fmt: skip
        until(lambda: _answers(port), "listening", of=scheduler)
        yield


@contextmanager
def _ray_cluster(port: int) -> Iterator[None]:
    # Its sockets are in the folder, and a socket's path has at most 107 bytes.
    with (
        TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder,
        _process(
            "ray.scripts.scripts", "start", "--head", "--block", "--num-cpus", "2", "--port", "0",
            "--ray-client-server-port", str(port), "--include-dashboard", "false",
            "--temp-dir", folder, "--object-store-memory", str(2**28),
        ) as head,
    ):  # fmt: skip
        until(lambda: _answers(port), "listening", of=head)
        yield


@pytest.mark.process
@pytest.mark.parametrize("kind", ["dask", "ray"])
def test_a_cluster_gives_what_processes_give(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    package = {"dask": "distributed", "ray": "ray"}[kind]
    if find_spec(package) is None:
        pytest.skip(f"the package {package} is missing: make test-executors installs it")
    assert main([*GRID, "--file", "log.jsonl.gz"]) == 0
    expected = capsys.readouterr().out
    assert main([*GRID, "--file", "log.jsonl.gz", "--executor", kind]) == 0
    assert capsys.readouterr().out == expected
    [port] = free_ports(1)
    with {"dask": _dask_cluster, "ray": _ray_cluster}[kind](port):
        where = f"{kind}://127.0.0.1:{port}"
        assert main([*GRID, "--file", "log.jsonl.gz", "--executor", where]) == 0
    assert capsys.readouterr().out == expected
    gc.collect()  # what Ray leaves, while the warning is ignored


@pytest.mark.process
@pytest.mark.parametrize("output", ["json", "table"])
def test_a_configuration_whose_worker_is_killed(
    output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one has its result."""
    Path("killer.py").write_text(KILLER)
    killer = "multiPoint: {enabled: [{name: Killer}]}, score:"
    Path("other.yaml").write_text(CONFIG.replace("score:", killer))
    words = ["replay", "--file", "log.jsonl.gz", "--what-if", "other.yaml", "--what-if"]
    assert main([*words, "-o", output, "--plugin", "killer.py", "--from", "150"]) == 2
    captured = capsys.readouterr()
    problem = (
        "--what-if other.yaml: the worker was killed at every try; "
        "give it more memory, or a shorter range"
    )
    assert captured.err.splitlines()[-1] == f"eventsched replay: {problem}"
    if output == "json":
        killed, same = json.loads(captured.out)["configurations"]
        assert killed == {"rules": "other.yaml", "error": problem}
        assert (same["rules"], same["differences"]) == ("recorded", [])
    else:
        rows = captured.out.splitlines()
        assert [row.split()[0] for row in rows[3:]] == ["(was)", "recorded", "failed:"]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("slurm", "--executor slurm: is not known; write processes, dask, dask://HOST:PORT, ray"),
        ("dask://", "--executor dask://: does not name a host and a port; write processes"),
        ("ray://head:x", "--executor ray://head:x: does not name a host and a port"),
        (
            "dask://localhost:1",
            "--executor dask://localhost:1: does not answer (Connection refused",
        ),
        ("ray://[::1]:1", "--executor ray://[::1]:1: does not answer ("),
        ("dask", "--executor dask: the package distributed is missing; install 'eventsched[dask]'"),
        ("ray", "--executor ray: the package ray is missing; install 'eventsched[ray]'"),
    ],
)
def test_bad_names(
    name: str, error: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("dask", "distributed", "ray"):
        monkeypatch.setitem(sys.modules, module, None)
        monkeypatch.delitem(
            sys.modules, f"eventsched.runtime.executors.{module}_executor", raising=False
        )
    assert main([*GRID, "--file", "log.jsonl.gz", "--executor", name]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"eventsched replay: {error}")
    assert len(captured.err.splitlines()) == 1


def test_one_configuration_needs_no_executor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "--file", "log.jsonl.gz", "--what-if", "--executor", "dask"]) == 2
    error = "--executor: runs several configurations; name more of them by --what-if"
    assert error in capsys.readouterr().err
    assert main(["replay", "--file", "log.jsonl.gz", "--executor", "dask"]) == 2
    assert "--executor: is about a run under other rules" in capsys.readouterr().err


def test_a_worker_of_another_version_refuses() -> None:
    task = GridTask(
        Namespace(), "other.yaml", NodeChanges(), assembled, "", frozenset(), version="0.0"
    )
    with pytest.raises(InputError, match=r"has workers with eventsched .*, and this is 0\.0"):
        grid_result(task)
