"""Replicas of two versions on one database while pods arrive: up, down again, up, and post."""

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from eventsched.eventlog.schema import migrations
from tests.databases import ROOT
from tests.kube.bindable_api import BindableApi
from tests.next_version import BEHAVIOUR, KIND, OURS, POST, PRE, VERSION, NextVersion
from tests.waiting import joined, until

STREAM = "scheduler"
PAUSE = 0.05
"""Seconds between two pods."""
PER_STAGE = 20
"""Pods that have to be placed in each stage."""
WITHIN = 180.0
"""Seconds for each wait: a process alone takes 20 s to start on a busy machine."""


class Replica:
    """A process of one version."""

    def __init__(
        self, name: str, arguments: list[str], environment: dict[str, str], folder: Path
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


class Stage:
    """A cluster with pods that arrive all the time, a database, and replicas of two versions."""

    def __init__(self, database: str, folder: Path, newer: NextVersion) -> None:
        self.database, self.newer = database, newer
        self.api = BindableApi()
        self.replicas: list[Replica] = []
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

    def start(self, version: str) -> Replica:
        """Starts a replica of the ``old`` or the ``new`` version."""
        old = {**os.environ, "PYTHONPATH": str(ROOT)}
        arguments = [
            "run", f"--database={self.database}", f"--kubeconfig={self._folder / 'kubeconfig'}",
            f"--stream={STREAM}", "--secure-port=0", "--log-format=json",
        ]  # fmt: skip
        replica = Replica(
            f"{len(self.replicas)}-{version}",
            arguments,
            old if version == "old" else self.newer.environment,
            self._folder,
        )
        self.replicas.append(replica)
        return replica

    def goes_on(self) -> None:
        """Waits until as many more pods as a stage has are placed."""
        placed = len(self.api.placed()) + PER_STAGE
        until(lambda: len(self.api.placed()) >= placed, "pods are placed", WITHIN)

    def finish(self) -> None:
        """No more pods; waits until all are placed."""
        self._over.set()
        joined(self._load)
        until(lambda: len(self.api.placed()) == self._created, "all pods are placed", WITHIN)

    def upgrade(self, *options: str, code: int = 0) -> str:
        """``db upgrade`` of the new version; what it says."""
        done = self.newer.run("db", "upgrade", *options, "--database", self.database)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def kinds(self) -> Counter[str]:
        """How many records of each kind there are, whichever version knows them."""
        query = "SELECT kind, records FROM eventsched.kinds WHERE stream = %s"
        with psycopg.connect(self.database) as connection:
            return Counter(dict(connection.execute(query, (STREAM,)).fetchall()))

    def _create(self) -> None:
        while not self._over.wait(PAUSE):
            self.api.created(f"p{self._created}")
            self._created += 1


@pytest.fixture
def stage(database: str, tmp_path: Path) -> Iterator[Stage]:
    folder = tmp_path / "next"
    with Stage(database, tmp_path, NextVersion(folder)) as made:
        yield made


@pytest.mark.timeout(1200)
def test_two_versions_under_load_up_down_and_up_again(stage: Stage) -> None:
    """Nothing is lost and nothing is bound twice, whichever version leads. Before post, records
    are such as both can read."""
    first = stage.start("old").leads()
    stage.goes_on()
    assert f"{OURS} → {PRE}" in stage.upgrade("--pre")
    stage.goes_on()

    newer = stage.start("new").follows()  # old and new
    waiting = newer.wait_for("behaviours wait for `eventsched db upgrade --post`")
    assert waiting["behaviours"] == [BEHAVIOUR]
    assert first.stop() == 0
    newer.leads()  # the new one leads, beside an old standby
    stage.goes_on()
    assert migrations.require(stage.database) == PRE
    back = stage.start("old").follows()
    assert newer.stop() == 0
    back.leads()  # back to the old one, on the new one's records
    stage.goes_on()
    assert stage.kinds()[KIND] == 0
    # A down-migration beside the old one, and up again.
    down = "from eventsched.eventlog.schema import migrations as m; m.downgrade({!r}, {!r})"
    assert stage.newer.python("-c", down.format(stage.database, OURS)).returncode == 0
    stage.goes_on()
    assert f"{OURS} → {PRE}" in stage.upgrade("--pre")

    newer = stage.start("new").follows()
    refused = stage.upgrade("--post", code=3)
    assert f"schema {POST} does not serve: they follow {STREAM} (schema {OURS})" in refused
    assert back.stop() == 0
    newer.leads()
    stage.goes_on()
    assert f"{PRE} → {POST}" in stage.upgrade("--post")
    newer.wait_for("another configuration is taken up")  # by itself
    until(lambda: stage.kinds()[KIND], "records of the new kind", WITHIN, every=0.2)
    stage.finish()
    assert stage.start("old").process.wait(WITHIN) == 3
    line = stage.replicas[-1].log.read_text().splitlines()[-1]
    assert line.startswith("eventsched run: ")
    assert "does not serve it; install the version of eventsched that made it" in line
    assert newer.stop() == 0
    assert set(stage.api.binds.values()) == {1}
    stage.newer.describe_schema(stage.database)
    for command in (("verify",), ("replay", "--verify")):
        done = stage.newer.run(*command, "--database", stage.database)
        assert done.returncode == 0, done.stdout + done.stderr
    assert VERSION in stage.newer.run("--version").stdout
