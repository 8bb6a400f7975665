"""The overlay ``replicas`` on two real kubelets, with Postgres in the cluster, while pods arrive:
whatever happens to the leader, its node, the API server or Postgres, no pod is bound twice, every
pod runs in the end, and the longest wait has a bound."""

import threading
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.cluster.harness.client import Object, wait_for
from tests.kubelet.harness.arrivals import Arrivals
from tests.kubelet.harness.installation import LABELS, Installation, is_ready, overlay
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster

STREAM = "eventsched"
DATABASE = "replicas"
LEASE = 15.0
"""Seconds until the Lease of a leader that has not released it expires."""
HANDOVER = 15.0
"""The longest wait of a pod, in seconds, if the leader ends as it was asked to."""
TAKEOVER = LEASE + 15.0
"""If it ends without releasing its Lease."""
AWAY = 20.0
"""Seconds that the API server or Postgres is down."""
RECOVERY = AWAY + 30.0


@pytest.fixture(scope="module")
def replicas(cluster: RealCluster, postgres: PostgresPod) -> Iterator[Installation]:
    """The overlay and its database."""
    secret = postgres.make_database(DATABASE)
    with overlay(cluster, "replicas", secret):
        installation = Installation(cluster)
        installation.wait_ready(2)
        yield installation


@pytest.fixture
def arrivals(replicas: Installation, namespace: str) -> Iterator[Arrivals]:
    """Pods that arrive while the block of a test lasts; a leader and a standby are ready."""
    replicas.wait_ready(2)
    replicas.wait_leader()
    made = Arrivals(replicas.cluster, namespace)
    yield made
    made.close()


def _nodes(replicas: Installation) -> list[str]:
    return sorted(pod["spec"]["nodeName"] for pod in replicas.wait_ready(2))


def test_replicas_are_on_different_nodes(replicas: Installation) -> None:
    assert _nodes(replicas) == ["node-a", "node-b"]


def test_a_deleted_leader_hands_over(
    replicas: Installation, postgres: PostgresPod, arrivals: Arrivals
) -> None:
    with arrivals:
        arrivals.wait_placed_after(0)
        leader = replicas.wait_leader()
        replicas.delete(leader)
        moment = time.time()
        replicas.wait_leader(other_than=leader)
        arrivals.wait_placed_after(moment)
        replicas.wait_ready(2)
    arrivals.check(postgres.url(DATABASE), STREAM, HANDOVER)


def test_a_killed_leader_is_replaced(
    replicas: Installation, postgres: PostgresPod, arrivals: Arrivals
) -> None:
    """kill -9 of the process, three times."""
    with arrivals:
        arrivals.wait_placed_after(0)
        for _ in range(3):
            leader = replicas.pod(replicas.wait_leader())
            assert leader is not None
            replicas.kill(leader)
            arrivals.wait_placed_after(time.time())
            replicas.wait_ready(2)
    arrivals.check(postgres.url(DATABASE), STREAM, TAKEOVER)


def test_a_drained_node(
    replicas: Installation, postgres: PostgresPod, arrivals: Arrivals, namespace: str
) -> None:
    """The leader's node is drained: the other replica leads, and the evicted one has no place until
    the node is back. Postgres is on the other node."""
    leader = _leader_on(replicas, "node-b")
    plane = replicas.cluster.plane
    drain = (
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        f"--pod-selector={LABELS}",
        "--timeout=50s",
    )
    with arrivals:
        arrivals.wait_placed_after(0)
        try:
            plane.kubectl("drain", "node-b", *drain)
            moment = time.time()
            assert replicas.wait_leader(other_than=leader) != leader
            arrivals.wait_placed_after(moment)
            pods = plane.admin.list("Pod", namespace)
            late = [pod for pod in pods if _created(pod) > moment + 1 and pod["spec"]["nodeName"]]
            assert {pod["spec"]["nodeName"] for pod in late} <= {"node-a"}
        finally:
            plane.kubectl("uncordon", "node-b")
        replicas.wait_ready(2)
    assert _nodes(replicas) == ["node-a", "node-b"]
    arrivals.check(postgres.url(DATABASE), STREAM, HANDOVER)


def _leader_on(replicas: Installation, node: str) -> str:
    """The leader's name, once one on that node leads."""
    for _ in range(5):
        replicas.wait_ready(2)
        name = replicas.wait_leader()
        pod = replicas.pod(name)
        if pod is not None and pod["spec"]["nodeName"] == node:
            return name
        replicas.delete(name)
        replicas.wait_leader(other_than=name)
    raise AssertionError(f"no replica on {node} leads")


def _created(pod: Object) -> float:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()


def test_the_api_server_is_unreachable(
    replicas: Installation, postgres: PostgresPod, arrivals: Arrivals
) -> None:
    """For longer than the Lease lasts. No container is started again for it."""
    apiserver = replicas.cluster.plane.apiserver
    before = _restarts(replicas)
    with arrivals:
        arrivals.wait_placed_after(0)
        apiserver.kill()
        try:
            _last(AWAY)
        finally:
            apiserver.start()
            replicas.cluster.plane.wait_ready()
        arrivals.wait_placed_after(time.time())
        replicas.wait_ready(2)
    assert _restarts(replicas) == before
    arrivals.check(postgres.url(DATABASE), STREAM, RECOVERY)


def _restarts(replicas: Installation) -> dict[str, int]:
    return {
        pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"]
        for pod in replicas.pods()
    }


def _last(seconds: float) -> None:
    """Lets a condition last: the time itself is what is tested."""
    threading.Event().wait(seconds)


def test_postgres_is_killed(
    replicas: Installation, postgres: PostgresPod, arrivals: Arrivals
) -> None:
    """kill -9; kubelet starts it again, and it recovers."""
    before = _restarts(replicas)
    with arrivals:
        arrivals.wait_placed_after(0)
        postgres.kill()
        moment = time.time()
        arrivals.wait_placed_after(moment + 5)
    postgres.wait_ready()
    assert _restarts(replicas) == before
    arrivals.check(postgres.url(DATABASE), STREAM, RECOVERY)


def test_postgres_is_down_for_a_while(
    replicas: Installation, postgres: PostgresPod, arrivals: Arrivals
) -> None:
    """Its pod is gone; another one comes with the same data. The replicas are alive, and not
    ready."""
    before = _restarts(replicas)
    with arrivals:
        arrivals.wait_placed_after(0)
        postgres.scale(0)
        wait_for(postgres.is_gone, "Postgres is gone", 60)
        moment = time.time()
        _last(AWAY)
        assert not any(map(is_ready, replicas.pods()))
        postgres.scale(1)
        wait_for(lambda: not postgres.is_gone(), "Postgres has a pod", 60)
        postgres.wait_ready()
        arrivals.wait_placed_after(moment)
        replicas.wait_ready(2)
    assert _restarts(replicas) == before
    arrivals.check(postgres.url(DATABASE), STREAM, RECOVERY)
