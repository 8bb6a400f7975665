"""A synchronous standby that does not confirm: a batch may be in the log of the primary, and yet be
lost by a failover. Nothing that it says is done before it is confirmed."""

import threading
from collections.abc import Iterator

import pytest

from eventsched.domain.records import PodDecided
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.faults import Hold
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.own_postgres import OwnPostgres
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.stage import Stage
from tests.waiting import joined

WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE '%{}%'"
PROBE = "SELECT pg_logical_emit_message(true, 'probe', '')"
"""It commits something, and changes nothing."""


class Standby:
    """The standby that is waited for, and does not exist."""

    def __init__(self, postgres: OwnPostgres) -> None:
        self._postgres = postgres
        self._over = threading.Event()
        self._probing = threading.Thread(target=self._probe, daemon=True)

    def wanted(self) -> None:
        """From now on commits wait for it. The server reloads its configuration at a time of its
        own, so a commit is tried until one waits."""
        self._postgres.execute("ALTER SYSTEM SET synchronous_standby_names = 'missing'")
        self._postgres.execute("SELECT pg_reload_conf()")
        self._probing.start()
        wait_for(lambda: self._waiting("emit_message"), "commits wait")

    def forgotten(self) -> None:
        """Commits no longer wait for it."""
        self._over.set()
        self._postgres.execute("ALTER SYSTEM RESET synchronous_standby_names")
        self._postgres.execute("SELECT pg_reload_conf()")
        joined(self._probing)

    def _probe(self) -> None:
        while not self._over.is_set():
            self._postgres.execute(PROBE)

    def _waiting(self, statement: str) -> list[int]:
        return [int(pid) for (pid,) in self._postgres.execute(WAITING.format(statement))]

    def awaited(self) -> list[int]:
        """The backends that wait for it with a batch."""
        return self._waiting("append")

    def interrupted(self, how: str) -> None:
        """Interrupts the backends that wait: the batch is then stored but not confirmed. Returns
        when the batch was offered again and waits again."""
        before = self.awaited()
        for pid in before:
            self._postgres.execute(f"SELECT {how}({pid})")
        wait_for(lambda: set(self.awaited()) - set(before), "it is offered again, and waits")


@pytest.fixture
def stage(plane: ControlPlane, postgres: OwnPostgres, namespace: str) -> Iterator[Stage]:
    """A scheduler that leads; one node."""
    plane.admin.create(node("a"))
    made = Stage(plane, postgres.url, namespace)
    with made.running:
        made.scheduler.start()
        yield made


@pytest.mark.row(5)
@pytest.mark.parametrize("how", ["", "pg_cancel_backend", "pg_terminate_backend"])
def test_no_bind_leaves_before_its_batch_is_confirmed(
    stage: Stage, postgres: OwnPostgres, how: str
) -> None:
    """Readiness says that the database does not answer. Once commits no longer wait for the
    standby, the pod is bound by its one decision."""
    standby = Standby(postgres)
    batch = stage.postgres.on("eventsched_log.append", Hold(), times=1)
    stage.pods.create(pod("web"))
    batch.wait()
    standby.wanted()
    batch.release()
    wait_for(standby.awaited, "the batch waits")
    if how:
        standby.interrupted(how)
    wait_for(lambda: "[-]database failed" in stage.unready(), "readiness says why")
    assert stage.pods.nodes() == {"web": ""}
    assert stage.bindings() == []
    standby.forgotten()
    stage.pods.node("web", 60.0)
    log = stage.settled()
    assert [each.attempt for each in log.of(PodDecided)] == [1]
    assert stage.bindings() == [201]
