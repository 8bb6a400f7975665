"""etcd is put back to an earlier state, as from a backup: what was bound since is on no node."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from eventsched.domain.records import PodDeleted, TermBegan
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers


@contextmanager
def stopped(plane: ControlPlane) -> Iterator[None]:
    """The API server and etcd are down during the block."""
    plane.apiserver.kill()
    plane.etcd.kill()
    yield
    plane.etcd.start()
    plane.apiserver.start()
    plane.wait_ready()


@pytest.mark.row(30)
@pytest.mark.parametrize("goes_on", [True, False], ids=["in the term", "at the next one"])
def test_pods_that_lost_their_nodes_are_placed_again(
    own_plane: ControlPlane, database: str, goes_on: bool
) -> None:
    """By a leader that continues, once its watches detect the restore, or by the next one. The log
    records it and is valid."""
    plane, data = own_plane, own_plane.folder / "etcd"
    with plane.namespace() as namespace, Schedulers(plane, database) as schedulers:
        pods = Pods(plane.admin, namespace)
        plane.admin.create(node("a", cpu="2"))
        p1 = pods.create(pod("p1"))["metadata"]["uid"]
        with stopped(plane):
            shutil.copytree(data, plane.folder / "backup")
        scheduler = schedulers.start()
        pods.node("p1")
        for number in range(10):  # revisions that are given out a second time
            pods.create(pod(f"q{number}", cpu="10m"))
            pods.node(f"q{number}")
        if not goes_on:
            scheduler.kill()
        with stopped(plane):
            shutil.rmtree(data)
            shutil.copytree(plane.folder / "backup", data)
        if not goes_on:
            assert pods.nodes() == {"p1": ""}
        pods.create(pod("p2"))
        if not goes_on:
            scheduler.start()
        for name in ("p1", "p2"):
            pods.node(name, 300.0)
        wait_for(lambda: len(scheduler.log().of(TermBegan)) == 2, "a second term has begun")
        log = scheduler.log()
        assert p1 in [each.uid for each in log.of(PodDeleted)]
        assert len(log.decisions(p1)) == 2
