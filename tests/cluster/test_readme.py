"""The README's way to a scheduler on a cluster, run as it is written."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from tests.cluster.harness import own_postgres
from tests.cluster.harness.binaries import MissingProgramError
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.manifests import node
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import ROOT

DATA = "/var/tmp/eventsched"
"""The README's folder for the log: a test has one of its own."""
PORT = 10259


def commands(heading: str) -> list[str]:
    """The commands below a heading, each with what is typed into it."""
    text = (ROOT / "README.md").read_text()
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = []
    for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL):
        found += re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return found


class Terminal:
    """Runs commands in a folder that looks like a checkout with its environment made."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.folder = folder
        program = folder / ".venv" / "bin" / "eventsched"
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m eventsched "$@"\n')
        program.chmod(0o755)
        self.environment = {"PYTHONPATH": str(ROOT), "KUBECONFIG": str(plane.kubeconfig)}
        with suppress(MissingProgramError):
            kubectl = plane.programs.path("kubectl").parent
            self.environment["PATH"] = f"{kubectl}{os.pathsep}{os.environ['PATH']}"

    def line(self, command: str) -> list[str]:
        """The same for a shell, in the folder."""
        place = str(self.folder / "log")
        return ["bash", "-ec", f"cd {self.folder}\n{command.replace(DATA, place)}"]

    def run(self, command: str) -> str:
        """What a command prints. Raises CalledProcessError."""
        done = subprocess.run(
            self.line(command),
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def terminal(plane: ControlPlane) -> Iterator[Terminal]:
    """In a folder that the account which runs Postgres can enter."""
    with own_postgres.folder() as made:
        yield Terminal(plane, made)
        EmbeddedPostgres(made / "log").stop_unused()


def is_free() -> bool:
    with socket.socket() as tried, suppress(OSError):
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind(("127.0.0.1", PORT))
        return True
    return False


def test_the_readme_leads_to_a_scheduled_pod(plane: ControlPlane, terminal: Terminal) -> None:
    """And, after a kill, goes on from its log."""
    if shutil.which("kubectl", path=terminal.environment.get("PATH")) is None:
        pytest.skip("no kubectl")
    wait_for(is_free, f"port {PORT}, which another program has, is free", 60.0)
    make, write, start, create, *questions = commands("Run it on a cluster")
    assert make.startswith("make .venv/.ready")
    plane.admin.create(node("a"))
    terminal.run(write)
    server = plane.server("readme", terminal.line(f"exec {start}"), terminal.environment)
    server.start()
    try:
        terminal.run(create)
        pods = Pods(plane.admin, "default")
        server.until(lambda: pods.nodes() == {"web": "a"}, "it schedules", 180.0)
        explain, query = questions
        wait_for(lambda: "bound to a" in terminal.run(explain), "explain says why")
        assert re.search(r"\bweb\b.*\bscheduled\b.*\ba\b", terminal.run(query))
        server.kill()
        server.start()
        terminal.run(create.replace(" web ", " web2 "))
        server.until(lambda: pods.nodes() == {"web": "a", "web2": "a"}, "it goes on", 180.0)
        assert server.stop() == 0, server.tail()
    finally:
        plane.discard(server)
