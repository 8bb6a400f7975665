"""Faults between the scheduler and its servers: nothing is lost, nothing is done twice, and it
recovers by itself."""

import os
import time
from collections.abc import Iterator

import pytest

from eventsched.domain.records import (
    BindFailed,
    BindVoided,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDecided,
    PodDeleted,
    WatchRelisted,
)
from tests.cluster.harness import load
from tests.cluster.harness.chaos import Chaos
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.faults import Fault, Hang, Hold, Lose, Refuse, Swallow
from tests.cluster.harness.kube_proxy import echoing
from tests.cluster.harness.load import Load
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.own_postgres import OwnPostgres
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.stage import Stage

OUTAGE = float(os.environ.get("EVENTSCHED_OUTAGE", "10"))
"""Seconds for which Postgres is stopped under load."""
DATABASE_FAILED = "[-]database failed"
"""The text of readiness during the outage."""
CHAOS = float(os.environ.get("EVENTSCHED_CHAOS", "20"))
"""Seconds of random faults, for each seed."""


@pytest.fixture
def stage(plane: ControlPlane, database: str, namespace: str) -> Iterator[Stage]:
    """A leading scheduler, and three nodes."""
    for name in "abc":
        plane.admin.create(node(name))
    made = Stage(plane, database, namespace)
    with made.running:
        made.scheduler.start()
        yield made


# --- one fault at a time -------------------------------------------------------------------------


@pytest.mark.row(18)
@pytest.mark.parametrize("status", [429, 503])
def test_an_api_server_that_asks_to_retry_later(stage: Stage, status: int) -> None:
    """The intent stays open, and the pod is bound."""
    rule = stage.kube.on("POST", "/binding$", Refuse(status, 1), times=3)
    stage.placed("p1", "p2")
    log = stage.settled()
    assert rule.hits == 3
    assert (log.of(BindVoided), log.of(BindFailed)) == ([], [])
    assert [each.attempt for each in log.of(PodDecided)] == [1, 1]


@pytest.mark.row(19)
@pytest.mark.parametrize("fault", [Lose(), Swallow(), Hang()], ids=["lost", "cut", "no answer"])
def test_a_bind_without_an_answer(stage: Stage, fault: Fault) -> None:
    """It is looked up, and repeated if it has not arrived."""
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
    stage.kube.go_down()
    gone = stage.pods.get("goes")["metadata"]["uid"]
    stage.pods.delete("goes")
    # Whatever is listed first: it has a node when both pods and nodes have been.
    stage.pods.create(pod("comes", nodeSelector={"kubernetes.io/hostname": "d"}))
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
    wait_for(lambda: 201 in stage.bindings(), "the proxy has the answer, too")
    before = stage.bindings()  # one may have been refused for a version that is over
    rule.release()
    assert found != decided.node
    log = stage.settled()
    assert [each.node for each in log.of(PodDecided)] == [decided.node, found]

    wait_for(lambda: stage.bindings() == [*before, 409], "the old bind is refused")


@pytest.mark.row(21)
def test_watches_that_repeat_themselves(plane: ControlPlane, database: str, namespace: str) -> None:
    """Each line comes twice, and older ones come again behind newer ones: pods that are gone, nodes
    as they were. Nothing of that is news, and nothing is decided on it."""
    for name in ("a", "spare"):
        plane.admin.create(node(name))
    plane.admin.patch("Node", "spare", {"spec": {"unschedulable": True}})
    stage = Stage(plane, database, namespace)
    with stage.running:
        for resource in ("pods", "nodes", "namespaces"):
            stage.kube.edit_watches(echoing(6), f"/{resource}\\?")
        stage.scheduler.start()
        stage.placed(*(f"p{number}" for number in range(6)))
        for name in ("p0", "p1", "p2"):
            stage.pods.delete(name)
        plane.admin.create(node("b", cpu="16"))
        stage.placed("p0", "q")  # one of a name that was there before
        plane.admin.delete("Node", "spare")
        plane.admin.patch("Node", "a", {"metadata": {"labels": {"new": "yes"}}})
        wait_for(lambda: stage.scheduler.log().of(NodeUpdated), "all of it is known")
        stage.placed("last")
        log = stage.settled()
    uids = [each.pod.uid for each in log.of(PodAdded)]
    assert len(uids) == len(set(uids)) == 9
    assert len(log.of(PodDeleted)) == 3
    assert sorted(each.node.name for each in log.of(NodeAdded)) == ["a", "b", "spare"]
    assert [each.name for each in log.of(NodeDeleted)] == ["spare"]
    assert [each.node.name for each in log.of(NodeUpdated)] == ["a"]
    assert [each.attempt for each in log.of(PodDecided)] == [1] * 9
    assert log.of(WatchRelisted) == []


@pytest.mark.row(7)
def test_a_database_that_takes_its_time(plane: ControlPlane, database: str, namespace: str) -> None:
    """What comes meanwhile goes into the next batch; when that is full no more attempts are made
    until there is an answer."""
    plane.admin.create(node("a"))
    stage = Stage(plane, database, namespace, settings={"batch": {"records": 16}})
    with stage.running:
        stage.scheduler.start()
        stage.scheduler.wait_log(NodeAdded)  # the term's first batch is not the one that is held
        slow = stage.postgres.on("eventsched_log.append", Hold())
        stage.pods.create(pod("p0"))
        slow.wait()
        for number in range(1, 36):
            stage.pods.create(pod(f"p{number}"))

        def most_wait() -> bool:
            return stage.scheduler.metric("scheduler_pending_pods", queue="active") >= 30

        wait_for(most_wait, "attempts are not made any more")
        assert most_wait()
        assert stage.bindings() == []
        slow.release()
        log = stage.settled()
        batches = list(stage.scheduler.reader().batches())
    decided = next(each.position for each in log.stored if each.kind == "PodDecided")
    held, *later = [each.count for each in batches if each.first + each.count > decided]
    # A step is not divided.
    assert held < 16 <= max(later) < 20


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


@pytest.mark.row(3)
@pytest.mark.row(6)
@pytest.mark.parametrize("how", ["stopped", "stopped at once", "killed"])
def test_postgres_goes_down_under_load(
    plane: ControlPlane, namespace: str, postgres: OwnPostgres, how: str
) -> None:
    """Only binds that are in the log are sent; readiness says why; afterwards work resumes."""
    outage = OUTAGE if how == "stopped" else 3.0
    load.begin(plane)
    made = Stage(plane, postgres.url, namespace)
    with made.running, Load(plane, namespace, 7) as pods:
        made.scheduler.start()
        wait_for(lambda: len(made.observer.placed) > 10, "pods are placed")
        postgres.stop(how)
        wait_for(lambda: DATABASE_FAILED in made.unready(), "readiness says why")
        # Committed binds are sent at once; then there are no more.
        settled = made.no_more_bindings()
        time.sleep(outage)  # the length of the outage; no condition to wait for
        assert len(made.bindings()) == settled
        assert made.scheduler.ask("/livez")[0] == 200
        postgres.start()
        wait_for(lambda: len(made.bindings()) > settled, "it binds again", 60.0)
        wait_for(lambda: not made.unready(), "it is ready again", 60.0)
        made.calm(pods)


@pytest.mark.row(6)
def test_postgres_is_down_at_the_start(
    plane: ControlPlane, namespace: str, postgres: OwnPostgres
) -> None:
    """The scheduler waits for it; nothing is bound before."""
    plane.admin.create(node("a"))
    made = Stage(plane, postgres.url, namespace)
    with made.running:
        postgres.stop()
        made.pods.create(pod("p1"))
        made.scheduler.server.start()
        wait_for(lambda: DATABASE_FAILED in made.unready(), "readiness says why", 60.0)
        # It knows the pod by now, and keeps trying.
        tried = made.postgres.connections
        wait_for(lambda: made.postgres.connections > tried + 1, "it tries again")
        wait_for(lambda: "[+]watches ok" in made.unready(), "it watches")
        assert made.bindings() == []
        postgres.start()
        made.scheduler.leads()
        made.pods.node("p1", 60.0)
        made.settled()
