"""Replicas of two versions on one database, beside a real API server and under load: old, both,
new, old again, new, and post. The next version is made from a copy of this tree."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from eventsched.eventlog.schema import migrations
from tests.cluster.harness import load
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.load import PROFILES, Load, strayed, turnstile
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import STREAM, Scheduler
from tests.next_version import KIND, OURS, POST, PRE, NextVersion

WITHIN = 180.0
"""Seconds for each wait."""
PER_STAGE = 15
"""Pods that have to be placed in each stage."""
LEASE = {"leaseDuration": "12s", "renewDeadline": "10s", "retryPeriod": "1s"}


class TwoVersions:
    """A loaded cluster, and replicas of both versions with one Lease."""

    def __init__(
        self, plane: ControlPlane, database: str, namespace: str, newer: NextVersion,
        running: ExitStack,
    ) -> None:  # fmt: skip
        self.plane, self.database, self.newer = plane, database, newer
        self._namespace, self._running = namespace, running
        self._replicas: list[Scheduler] = []
        load.begin(plane)
        self.observer = running.enter_context(Observer(plane, namespace))
        running.callback(self._end)

    def begin(self, version: str) -> Scheduler:
        """Starts a replica of the ``old`` or the ``new`` version, without waiting for it."""
        where = {"resourceName": "eventsched", "resourceNamespace": self._namespace}
        environment = {"PYTHONPATH": str(self.newer.folder)} if version == "new" else {}
        replica = Scheduler(
            self.plane,
            self.database,
            name=f"{version}-{len(self._replicas)}",
            config={
                "profiles": PROFILES,
                "leaderElection": {"leaderElect": True, **where, **LEASE},
            },
            arguments=[f"--plugin={turnstile(self.plane)}"],
            environment=environment,
        )
        self._replicas.append(replica)
        replica.server.start()
        return replica

    def standby(self, version: str) -> Scheduler:
        """Starts one, and waits until it stands by."""
        replica = self.begin(version)
        wait_for(lambda: _is_ready(replica), "it stands by", WITHIN)
        return replica

    def goes_on(self) -> None:
        """Waits until PER_STAGE more pods are placed."""
        enough = len(self.observer.placed) + PER_STAGE
        wait_for(lambda: len(self.observer.placed) >= enough, "pods are placed", WITHIN)
        assert self.observer.wrong == []

    def upgrade(self, *options: str, code: int = 0) -> str:
        """``db upgrade`` of the new version; what it says."""
        done = self.newer.run("db", "upgrade", *options, "--database", self.database)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    def records(self, kind: str) -> int:
        """How many records of a kind there are."""
        query = "SELECT records FROM eventsched.kinds WHERE stream = %s AND kind = %s"
        with psycopg.connect(self.database) as connection:
            row = connection.execute(query, (STREAM, kind)).fetchone()
        return int(row[0]) if row else 0

    def _end(self) -> None:
        for replica in self._replicas:
            if replica.server.running:
                replica.kill()
            self.plane.discard(replica.server)


def _is_ready(replica: Scheduler) -> bool:
    try:
        return replica.ask("/readyz")[0] == 200
    except OSError:
        return False


@pytest.fixture
def two(
    plane: ControlPlane, database: str, namespace: str, tmp_path: Path
) -> Iterator[TwoVersions]:
    with ExitStack() as running:
        yield TwoVersions(plane, database, namespace, NextVersion(tmp_path), running)


def test_two_versions_under_load(two: TwoVersions, namespace: str) -> None:
    """Nothing is lost or bound twice, also after kill -9. A down-migration runs beside a leader."""
    first = two.begin("old").leads(WITHIN)
    with Load(two.plane, namespace, 5) as pods:
        two.goes_on()
        assert f"{OURS} → {PRE}" in two.upgrade("--pre")
        newer = two.standby("new")
        two.goes_on()
        first.kill()
        newer.leads(WITHIN)
        two.goes_on()
        back = two.standby("old")
        assert newer.stop() == 0
        back.leads(WITHIN)
        two.goes_on()
        down = "from eventsched.eventlog.schema import migrations as m; m.downgrade({!r}, {!r})"
        assert two.newer.python("-c", down.format(two.database, OURS)).returncode == 0
        two.goes_on()
        two.upgrade("--pre")
        newer = two.standby("new")
        assert f"schema {POST} does not serve" in two.upgrade("--post", code=3)
        back.kill()
        newer.leads(WITHIN)
        two.goes_on()
        pods.come_to_rest(two.observer, WITHIN)
    assert two.records(KIND) == 0
    assert migrations.require(two.database) == PRE
    log = newer.log()
    wait_for(lambda: not newer.metric("eventsched_reports_waiting"), "all is reported", WITHIN)
    two.observer.check(newer.log())
    assert strayed(log) == {}

    assert f"{PRE} → {POST}" in two.upgrade("--post")
    arrivals = Pods(two.plane.admin, namespace)
    number = 0
    while not two.records(KIND):
        arrivals.create(pod(f"late-{number}", cpu="1m"))
        arrivals.node(f"late-{number}", WITHIN)
        number += 1
    refused = two.begin("old")
    wait_for(lambda: not refused.server.running, "the old version ends", WITHIN)
    assert "does not serve it; install the version" in refused.server.tail()
    assert newer.stop() == 0
    assert two.observer.wrong == []
    plugin = f"--plugin={turnstile(two.plane)}"
    two.newer.describe_schema(two.database)
    for command in (("verify",), ("replay", "--verify", plugin)):
        done = two.newer.run(*command, "--database", two.database)
        assert done.returncode == 0, done.stdout + done.stderr
