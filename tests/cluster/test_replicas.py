"""Two replicas on one log: a replaced leader writes and binds nothing more. The log alone enforces
it."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from typing import Any

import pytest

from eventsched.domain.records import PodDecided, TermBegan
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.faults import Hold
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.postgres_proxy import PostgresProxy
from tests.cluster.harness.scheduler import Scheduler, Schedulers

SHORT = {"leaseDuration": "12s", "renewDeadline": "10s", "retryPeriod": "1s"}
SHORTER = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
LONG = {"leaseDuration": "120s", "renewDeadline": "80s", "retryPeriod": "1s"}


class Stage:
    """A first replica behind proxies on both sides, and a second one without."""

    def __init__(
        self, plane: ControlPlane, database: str, namespace: str, running: ExitStack
    ) -> None:
        self.plane, self.pods = plane, Pods(plane.admin, namespace)
        for name in "abc":
            plane.admin.create(node(name))
        self.kube = running.enter_context(KubeProxy(plane))
        self.postgres = running.enter_context(PostgresProxy(database))
        self.observer = running.enter_context(Observer(plane, namespace))
        # They end before what they speak through.
        self._schedulers = running.enter_context(Schedulers(plane, database))

    def first(self, **election: str) -> Scheduler:
        """The first replica, leading."""
        token = {"token": self.plane.token(ADMIN)}
        kubeconfig = self.plane.write_kubeconfig("first", token, self.kube.url)
        direct, self._schedulers.database = self._schedulers.database, self.postgres.url
        made = self._schedulers.make(config=self._config(**election), kubeconfig=kubeconfig)
        made.database = self._schedulers.database = direct
        return made.start()

    def second(self, **election: str) -> Scheduler:
        """The second one, not started yet."""
        return self._schedulers.make(config=self._config(**election))

    def placed(self, *names: str) -> None:
        """Creates pods and waits until they are on nodes."""
        for name in names:
            self.pods.create(pod(name))
        for name in names:
            self.pods.node(name, 60.0)

    def bindings(self) -> list[str]:
        """The binds that the first one has sent and the API server has answered."""
        return [each.path for each in self.kube.passed if each.path.endswith("/binding")]

    def since(self, name: str, begin: float) -> float:
        """Seconds from then until a pod was seen on a node."""
        uid = self.pods.get(name)["metadata"]["uid"]
        wait_for(lambda: uid in self.observer.placed, f"{name} is seen on a node")
        return self.observer.placed[uid].at - begin

    def lease(self, name: str = "eventsched") -> Object:
        """What a Lease says."""
        found: Object = self.plane.admin.get("Lease", name, self.pods.namespace)["spec"]
        return found

    def _config(self, lease: str = "eventsched", **times: Any) -> Object:
        where = {"resourceName": lease, "resourceNamespace": self.pods.namespace}
        return {"leaderElection": {"leaderElect": True, **where, **times}}


@pytest.fixture
def stage(plane: ControlPlane, database: str, namespace: str) -> Iterator[Stage]:
    """A stage without a running scheduler."""
    with ExitStack() as running:
        yield Stage(plane, database, namespace, running)


def stands_by(scheduler: Scheduler) -> bool:
    """Whether it is ready but does not lead."""
    is_ready = scheduler.ask("/readyz")[0] == 200
    return is_ready and scheduler.metric("leader_election_master_status") == 0


def said(scheduler: Scheduler, *events: str) -> list[Object]:
    """Lines with one of these names."""
    return [each for each in scheduler.lines() if each["event"] in events]


@pytest.mark.row(13)
def test_a_leader_that_stands_still_past_its_lease(stage: Stage) -> None:
    """One of its batches is on the way when it is replaced: it is refused, and its pods are decided
    again. When the old leader resumes it binds nothing and becomes a standby."""
    first = stage.first(**SHORT)
    second = stage.second(**SHORT)
    second.server.start()
    stage.placed("p1")
    wait_for(lambda: stands_by(second), "the second one stands by", 60.0)
    late = stage.postgres.on("eventsched_log.append", Hold(), times=1)
    stage.pods.create(pod("p2"))
    late.wait()
    first.server.pause()
    free = datetime.fromisoformat(stage.lease()["renewTime"]).timestamp() + 12
    second.leads(90.0)
    stage.pods.node("p2", 60.0)
    print(f"bound {stage.since('p2', free):.1f} s after the lease was over")
    late.release()
    before = stage.bindings()
    first.server.go_on()
    stage.placed("p3", "p4")
    wait_for(lambda: stands_by(first), "the first one stands by", 60.0)
    assert said(first, "deposed", "no longer the leader")
    assert stage.bindings() == before
    log = second.log()
    assert [each.epoch for each in log.of(TermBegan)] == [1, 2]
    # p2 was decided in the second term alone.
    assert [each.attempt for each in log.of(PodDecided)] == [1, 1, 1, 1]
    stage.observer.check(log)


@pytest.mark.row(13)
def test_an_append_of_a_leader_that_was_replaced_is_refused(stage: Stage) -> None:
    """Each holds its own lease because of a wrong configuration: only the log knows the leader."""
    first = stage.first(lease="one", **LONG)
    stage.placed("p1")
    # As often as it is offered again, until the second one leads.
    late = stage.postgres.on("eventsched_log.append", Hold())
    stage.pods.create(pod("p2"))
    late.wait()
    before = stage.bindings()
    second = stage.second(lease="two", **LONG).start()
    stage.pods.node("p2", 60.0)
    late.release()
    # It leads again at once, for its lease is still its own, and may be replaced a second time.
    wait_for(lambda: first.metric("eventsched_log_fenced_appends_total"), "it is refused", 60.0)
    wait_for(lambda: said(first, "deposed"), "it says so")
    first.kill()
    assert stage.bindings() == before
    stage.placed("p3")
    stage.observer.check(second.log())


@pytest.mark.row(13)
def test_a_leader_without_work_learns_that_it_was_replaced(stage: Stage) -> None:
    """By its heartbeat on the log."""
    first = stage.first(lease="one", **LONG)
    stage.placed("p1")
    second = stage.second(lease="two", **LONG).start()
    began = time.monotonic()
    wait_for(lambda: said(first, "deposed"), "it is deposed")
    print(f"it knew {time.monotonic() - began:.1f} s after the other one led")
    first.kill()
    stage.placed("p2")
    stage.observer.check(second.log())


def test_a_leader_that_ends_lets_another_lead_at_once(stage: Stage) -> None:
    """Its lease would have lasted for two minutes."""
    first, second = stage.first(**LONG), stage.second(**LONG)
    second.server.start()
    stage.placed(*(f"p{number}" for number in range(5)))
    wait_for(lambda: stands_by(second), "the second one stands by", 60.0)
    assert first.stop() == 0
    ended = time.time()
    stage.placed("late")
    print(f"bound {stage.since('late', ended):.1f} s after the first one's end")
    assert [each.epoch for each in second.log().of(TermBegan)] == [1, 2]
    stage.observer.check(second.log())


@pytest.mark.row(7)
def test_a_slow_database_costs_no_leader_its_term(stage: Stage) -> None:
    """Every answer takes five seconds, which is longer than a renewal of the Lease may take."""
    first, second = stage.first(**SHORTER), stage.second(**SHORTER)
    second.server.start()
    stage.placed("p1")
    wait_for(lambda: stands_by(second), "the second one stands by", 60.0)
    stage.postgres.delay = 2.5
    for turn in range(3):
        stage.placed(*(f"p{turn}-{number}" for number in range(10)))
    stage.postgres.delay = 0.0
    assert stands_by(second)
    wait_for(lambda: first.metric("eventsched_open_binds") == 0, "all binds are done")
    log = first.log()
    assert [each.epoch for each in log.of(TermBegan)] == [1]
    stage.observer.check(log)
