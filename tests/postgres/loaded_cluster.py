"""A cluster with pods that arrive all the time, a database, and ``eventsched run`` on both."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

from tests.databases import ROOT
from tests.kube.bindable_api import BindableApi
from tests.waiting import joined, until

STREAM = "scheduler"
PAUSE = 0.05
"""Seconds between two pods."""
PER_STAGE = 20
"""Pods that have to arrive and be placed in each stage."""
WITHIN = 180.0
"""Seconds for each wait: a process alone takes 20 s to start on a busy machine."""


class ReplicaProcess:
    """A process of ``eventsched run``."""

    def __init__(
        self, name: str, arguments: list[str], environment: Mapping[str, str], folder: Path
    ) -> None:
        self.log = folder / f"{name}.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "eventsched", *arguments],
                stdout=out, stderr=out, env=environment, cwd=folder,
            )  # fmt: skip

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Its log lines of that name."""
        found = []
        for line in self.log.read_text().splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        return [each for each in found if each["event"] == event]

    def wait_for(self, event: str) -> dict[str, Any]:
        """Waits until it has logged that."""
        until(lambda: self.lines(event), f"{event}: {self.log}", WITHIN, of=self.process)
        return self.lines(event)[-1]

    def follows(self) -> Self:
        """Waits until it has caught up."""
        self.wait_for("caught up with the log")
        return self

    def leads(self) -> Self:
        """Waits until it decides."""
        self.wait_for("deciding")
        return self

    def stop(self) -> int:
        """Asks it to end; the exit code."""
        self.process.terminate()
        return self.process.wait(WITHIN)


class LoadedCluster:
    """Five nodes, pods that arrive from the start of the block, and the replicas of a database."""

    def __init__(self, database: str, folder: Path) -> None:
        self.database = database
        self.api = BindableApi()
        self.replicas: list[ReplicaProcess] = []
        self._folder = folder
        self._over = threading.Event()
        self._load = threading.Thread(target=self._create, name="load", daemon=True)
        self._created = 0

    def __enter__(self) -> Self:
        with ExitStack() as begun:
            begun.enter_context(self.api)
            self.api.created_nodes(5)
            kubeconfig = {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k"}}],
                "clusters": [{"name": "k", "cluster": {"server": self.api.url}}],
            }
            (self._folder / "kubeconfig").write_text(json.dumps(kubeconfig))
            self._load.start()
            self._running = begun.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        joined(self._load)
        for replica in self.replicas:
            if replica.process.poll() is None:
                replica.process.kill()
                replica.process.wait(WITHIN)
        self._running.close()

    def begin(self, name: str, environment: Mapping[str, str] | None = None) -> ReplicaProcess:
        """Starts a replica, without waiting for it; by default of this version."""
        arguments = [
            "run", f"--database={self.database}", f"--kubeconfig={self._folder / 'kubeconfig'}",
            f"--stream={STREAM}", "--secure-port=0", "--log-format=json",
        ]  # fmt: skip
        replica = ReplicaProcess(
            f"{len(self.replicas)}-{name}",
            arguments,
            environment or {**os.environ, "PYTHONPATH": str(ROOT)},
            self._folder,
        )
        self.replicas.append(replica)
        return replica

    def goes_on(self) -> None:
        """Waits until as many pods as a stage has are placed beyond those that there are: pods that
        wait already may all be placed in one batch."""
        placed = self._created + PER_STAGE
        until(lambda: len(self.api.placed()) >= placed, "pods are placed", WITHIN)

    def finish(self) -> None:
        """No more pods; waits until all are placed."""
        self._over.set()
        joined(self._load)
        until(lambda: len(self.api.placed()) == self._created, "all pods are placed", WITHIN)

    def _create(self) -> None:
        while not self._over.wait(PAUSE):
            self.api.created(f"p{self._created}")
            self._created += 1
