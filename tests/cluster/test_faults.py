"""Faults between the scheduler and what it talks to: nothing is lost, nothing is done twice, and it
recovers by itself."""

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from eventsched.domain.records import (
    BindFailed,
    BindVoided,
    NodeDeleted,
    PodBound,
    PodDecided,
    PodDeleted,
    WatchRelisted,
)
from eventsched.eventlog import migrating
from eventsched.eventlog.embedded import EmbeddedPostgres
from eventsched.eventlog.postmaster import Postmaster
from tests.cluster import load
from tests.cluster.chaos import Chaos
from tests.cluster.client import wait_for
from tests.cluster.faults import Fault, Hang, Hold, Lose, Refuse, Swallow
from tests.cluster.kube_proxy import KubeProxy
from tests.cluster.load import PROFILES, Load, strayed, turnstile
from tests.cluster.manifests import node, pod
from tests.cluster.observer import Observer
from tests.cluster.plane import ControlPlane
from tests.cluster.pods import Pods
from tests.cluster.postgres_proxy import PostgresProxy
from tests.cluster.scheduler import Log, Scheduler, Schedulers
from tests.databases import open_place

OUTAGE = float(os.environ.get("EVENTSCHED_OUTAGE", "10"))
"""Seconds for which Postgres is stopped under load."""
CHAOS = float(os.environ.get("EVENTSCHED_CHAOS", "20"))
"""Seconds of random faults, for each seed."""


class Stage:
    """A scheduler behind a proxy on each side, and who watches the pods."""

    def __init__(self, plane: ControlPlane, database: str, namespace: str) -> None:
        self.plane, self.pods, self.database = plane, Pods(plane.admin, namespace), database
        self.running = ExitStack()
        enter = self.running.enter_context
        self.kube = enter(KubeProxy(plane))
        self.postgres = enter(PostgresProxy(database))
        self.observer = enter(Observer(plane, namespace))
        schedulers = enter(Schedulers(plane, database))
        schedulers.database = self.postgres.url
        self.scheduler: Scheduler = schedulers.make(
            config={"profiles": PROFILES},
            kubeconfig=self.kube.kubeconfig(),
            arguments=[f"--plugin={turnstile(plane)}"],
        )
        self.scheduler.database = schedulers.database = database

    def placed(self, *names: str) -> None:
        """Creates pods and waits until they are on nodes."""
        for name in names:
            self.pods.create(pod(name))
        for name in names:
            self.pods.node(name, 60.0)

    def settled(self) -> Log:
        """The log, once everything has a node and is told; all of it fits together."""
        self.observer.wait_placed()

        def is_told() -> bool:
            bound = {each.uid for each in self.scheduler.log().of(PodBound)}
            return set(self.observer.pods) <= bound

        wait_for(is_told, "all binds are in the log", 60.0, 0.5)
        log = self.scheduler.log()
        self.observer.check(log)
        assert strayed(log) == {}
        return log

    def calm(self, pods: Load) -> Log:
        """The same, after a load."""
        pods.stop()
        pods.leave_room()

        def all_placed() -> bool:
            try:
                self.observer.wait_placed(5.0)
            except TimeoutError:
                pods.let_through()
                return False
            return True

        wait_for(all_placed, "the pods have nodes", 180.0, 1.0)
        return self.settled()

    def bindings(self) -> int:
        """The binds that the API server has answered."""
        return sum(each.path.endswith("/binding") for each in self.kube.passed)

    def no_more_bindings(self) -> int:
        """The same, once it does not grow any more. Raises TimeoutError."""
        counts = [-1]

        def is_over() -> bool:
            counts.append(self.bindings())
            return counts[-1] == counts[-2]

        wait_for(is_over, "no more binds", 60.0, every=1.5)
        return counts[-1]


@pytest.fixture
def stage(plane: ControlPlane, database: str, namespace: str) -> Iterator[Stage]:
    """A scheduler that leads; three nodes."""
    for name in "abc":
        plane.admin.create(node(name))
    made = Stage(plane, database, namespace)
    with made.running:
        made.scheduler.start()
        yield made


# --- one fault at a time -------------------------------------------------------------------------


@pytest.mark.row(18)
@pytest.mark.parametrize("status", [429, 503])
def test_an_api_server_that_wants_us_to_wait(stage: Stage, status: int) -> None:
    """The intent stays open, and is kept."""
    rule = stage.kube.on("POST", "/binding$", Refuse(status, 1), times=3)
    stage.placed("p1", "p2")
    log = stage.settled()
    assert rule.hits == 3
    assert (log.of(BindVoided), log.of(BindFailed)) == ([], [])
    assert [each.attempt for each in log.of(PodDecided)] == [1, 1]


@pytest.mark.row(19)
@pytest.mark.parametrize("fault", [Lose(), Swallow(), Hang()], ids=["lost", "cut", "no answer"])
def test_a_bind_without_an_answer(stage: Stage, fault: Fault) -> None:
    """It is looked up, and repeated where it has not arrived."""
    rule = stage.kube.on("POST", "/binding$", fault, times=1)
    stage.placed("p1", "p2")
    log = stage.settled()
    assert rule.hits == 1
    assert log.of(BindVoided) == []
    assert [each.attempt for each in log.of(PodDecided)] == [1, 1]


@pytest.mark.row(4)
@pytest.mark.parametrize("fault", [Lose(), Swallow(), Hang()], ids=["lost", "cut", "no answer"])
def test_an_append_without_an_answer(stage: Stage, fault: Fault) -> None:
    """The same batch is offered again, and is in the log once."""
    stage.placed("p1")
    rule = stage.postgres.on("eventsched_log.append", fault, times=1)
    stage.placed("p2", "p3")
    log = stage.settled()
    assert rule.hits == 1
    assert [each.attempt for each in log.of(PodDecided)] == [1, 1, 1]


@pytest.mark.row(20)
def test_history_that_the_api_server_has_forgotten(stage: Stage) -> None:
    """A gap in all watches: what came and went meanwhile is found by listing, and said so."""
    stage.placed("stays", "goes")
    stage.kube.go_away()
    gone = stage.pods.get("goes")["metadata"]["uid"]
    stage.pods.delete("goes")
    stage.pods.create(pod("comes"))
    stage.plane.admin.create(node("d"))
    used = set(stage.pods.nodes().values())
    spare = next(name for name in "abc" if name not in used)
    stage.plane.admin.delete("Node", spare)
    stage.plane.forget_history()
    assert stage.pods.nodes()["comes"] == ""
    stage.kube.come_back()
    stage.pods.node("comes", 90.0)
    log = stage.settled()
    relisted = {each.resource: each for each in log.of(WatchRelisted)}
    assert {"Pod", "Node"} <= set(relisted)
    assert all(0 < each.since < each.upto for each in relisted.values())
    assert [each.uid for each in log.of(PodDeleted)] == [gone]
    assert [each.name for each in log.of(NodeDeleted)] == [spare]


@pytest.mark.row(28)
def test_a_node_that_goes_while_a_bind_to_it_is_on_its_way(stage: Stage) -> None:
    """The intent is given up by a touch, so that the bind fails when it arrives; the pod goes
    elsewhere."""
    rule = stage.kube.on("POST", "/binding$", Hold(), times=1)
    stage.pods.create(pod("p1"))
    rule.wait()
    [decided] = stage.scheduler.wait_log(PodDecided)
    stage.plane.admin.delete("Node", decided.node)
    stage.scheduler.wait_log(NodeDeleted)
    # The scheduler gives up waiting for the answer, and looks.
    wait_for(lambda: stage.scheduler.log().of(BindVoided), "the intent is void", 60.0)
    found = stage.pods.node("p1", 60.0)
    rule.release()
    assert found != decided.node
    log = stage.settled()
    assert [each.node for each in log.of(PodDecided)] == [decided.node, found]

    def is_refused() -> bool:
        bindings = [each for each in stage.kube.passed if each.path.endswith("/binding")]
        return [each.status for each in bindings].count(409) == 1

    wait_for(is_refused, "the old bind is refused")


# --- many of them --------------------------------------------------------------------------------


@pytest.fixture
def crowded(plane: ControlPlane, database: str, namespace: str) -> Iterator[Stage]:
    """A cluster that is to be put under load; the scheduler has not started yet."""
    load.begin(plane)
    made = Stage(plane, database, namespace)
    with made.running:
        yield made


@pytest.mark.row(4)
@pytest.mark.row(18)
@pytest.mark.row(19)
@pytest.mark.row(21)
@pytest.mark.parametrize("seed", [1, 2])
def test_faults_on_both_ways_under_load(crowded: Stage, seed: int) -> None:
    """They delay, cut, swallow, refuse and stall for a while; then all is as it should be."""
    crowded.scheduler.start()
    with Load(crowded.plane, crowded.pods.namespace, seed) as pods:
        with Chaos(crowded.kube, crowded.postgres, seed) as chaos:
            time.sleep(CHAOS)  # that long it lasts; nothing is waited for
        before = len(crowded.observer.placed)
        log = crowded.calm(pods)
    assert len(chaos.happened) > CHAOS / 6
    assert len(crowded.observer.placed) > before > 0
    print(f"{len(chaos.happened)} faults, {pods.created} pods, {len(log.records)} records")


# --- Postgres, stopped and killed ----------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[tuple[str, Postmaster]]:
    """The address of a server of the test's own, and the server, to be stopped and started."""
    place = Path(tempfile.mkdtemp(prefix="evs-", dir=open_place()))
    place.chmod(0o755)
    with EmbeddedPostgres(place / "server").open() as postgres:
        migrating.upgrade(postgres.superuser_url)
        yield postgres.superuser_url, Postmaster(place / "server")
    EmbeddedPostgres(place / "server").stop_unused()
    shutil.rmtree(place)


def stop(server: Postmaster, how: str) -> None:
    """Ends a Postgres server: as it should be, at once, or by kill -9."""
    running = server.running()
    assert running is not None
    if how == "killed":
        os.kill(running.pid, signal.SIGKILL)
        wait_for(lambda: server.running() is None, "Postgres has gone")
    else:
        server.stop(at_once=how == "stopped at once")


@pytest.mark.row(3)
@pytest.mark.row(6)
@pytest.mark.parametrize("how", ["stopped", "stopped at once", "killed"])
def test_postgres_goes_away_under_load(
    plane: ControlPlane, namespace: str, server: tuple[str, Postmaster], how: str
) -> None:
    """No bind leaves that is not in the log; readiness says why; afterwards work goes on."""
    address, postmaster = server
    outage = OUTAGE if how == "stopped" else 3.0
    load.begin(plane)
    made = Stage(plane, address, namespace)
    with made.running, Load(plane, namespace, 7) as pods:
        made.scheduler.start()
        wait_for(lambda: len(made.observer.placed) > 10, "pods are placed")
        stop(postmaster, how)
        wait_for(lambda: "database" in unready(made.scheduler), "readiness says why")
        # Binds of what had been committed are done after a moment; then there are no more.
        settled = made.no_more_bindings()
        time.sleep(outage)  # so long it is away; nothing is waited for
        assert made.bindings() == settled
        assert made.scheduler.ask("/livez")[0] == 200
        postmaster.start()
        wait_for(lambda: made.bindings() > settled, "it binds again", 60.0)
        wait_for(lambda: not unready(made.scheduler), "it is ready again", 60.0)
        made.calm(pods)


@pytest.mark.row(6)
def test_postgres_is_away_at_the_start(
    plane: ControlPlane, namespace: str, server: tuple[str, Postmaster]
) -> None:
    """It is waited for; nothing is bound before."""
    address, postmaster = server
    plane.admin.create(node("a"))
    made = Stage(plane, address, namespace)
    with made.running:
        stop(postmaster, "stopped")
        made.scheduler.server.start()
        made.pods.create(pod("p1"))
        wait_for(lambda: "database" in unready(made.scheduler), "readiness says why", 60.0)
        assert made.bindings() == 0
        postmaster.start()
        made.scheduler.leads()
        made.pods.node("p1", 60.0)
        made.settled()


def unready(scheduler: Scheduler) -> str:
    """What readiness complains of, "" where it does not."""
    status, text = scheduler.ask("/readyz")
    return "" if status == 200 else text
