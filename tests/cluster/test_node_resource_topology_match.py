"""NodeResourceTopologyMatch on a real API server: what nodes' objects say decides, what is placed
counts until an object covers it, and pods wake when one does."""

from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from eventsched.domain.objects.registry import NodeResourceTopology
from eventsched.domain.records import ObjectChanged, ObjectDeleted
from eventsched.domain.state.pod_set_fingerprints import fingerprint
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.demos import DEFAULT, example
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import ROOT, Scheduler, Schedulers

KIND = "topology.node.k8s.io/v1alpha2/NodeResourceTopology"
DEFINITION = "noderesourcetopologies.topology.node.k8s.io"


@contextmanager
def defined(client: Client) -> Iterator[None]:
    """The definition, for as long as the block runs."""
    path = ROOT / "tests" / "cluster" / "harness" / "definitions" / "noderesourcetopology.yaml"
    client.create(yaml.safe_load(path.read_text()))
    try:
        wait_for(lambda: client.list(KIND) == [], "topologies are served")
        yield
    finally:
        client.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", DEFINITION)


def topology(name: str, free: str, namespace: str, *pods: str) -> Object:
    """A node's object: two zones with a number of free processors each, written for these pods."""
    amounts = {"cpu": free, "memory": "4Gi"}
    resources = [
        {"name": each, "capacity": "1Ti", "allocatable": "1Ti", "available": amount}
        for each, amount in amounts.items()
    ]
    attributes = {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "pod",
        "nodeTopologyPodsFingerprint": fingerprint((namespace, each) for each in pods),
    }
    version, _, kind = KIND.rpartition("/")
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
        "zones": [
            {"name": f"node-{number}", "type": "Node", "resources": resources} for number in (0, 1)
        ],
    }


def wanting(name: str, cpu: str) -> Object:
    """A Guaranteed pod."""
    made = pod(name, scheduler=DEFAULT, terminationGracePeriodSeconds=0)
    amounts = {"cpu": cpu, "memory": "64Mi"}
    made["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return made


def known(scheduler: Scheduler) -> list[ObjectChanged]:
    """The objects in the log."""
    changed = scheduler.log().of(ObjectChanged)
    return [each for each in changed if isinstance(each.object, NodeResourceTopology)]


def test_zones_decide_and_reports_free_what_pods_wait_for(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """Before the definition is there /readyz names it; without it again, no zone matters."""
    pods = Pods(plane.admin, namespace)
    plane.admin.create(node("only", cpu="8"))
    scheduler = schedulers.start(config=example("NodeResourceTopologyMatch"))
    missing = f"NodeResourceTopology: CustomResourceDefinition {DEFINITION} is not installed"
    status, text = scheduler.ask("/readyz")
    assert (status, missing in text) == (500, True)

    with defined(plane.admin):
        plane.admin.create(topology("only", "4", namespace))
        wait_for(lambda: len(known(scheduler)) == 1, "the object is known")
        wait_for(lambda: scheduler.ask("/readyz")[0] == 200, "the scheduler is ready")
        pods.create(wanting("three", "3"))
        assert pods.node("three") == "only"
        # Four processors are free, but it is unknown how many of them are in one zone.
        pods.create(wanting("two", "2"))
        note = pods.wait_event("two", "FailedScheduling")["note"]
        assert "1 cannot align pod" in note
        plane.admin.apply(topology("only", "2", namespace, "three"))
        assert pods.node("two") == "only"
        assert len(known(scheduler)) == 2
        pods.create(wanting("too-large", "3"))
        pods.wait_event("too-large", "FailedScheduling")
    wait_for(lambda: scheduler.log().of(ObjectDeleted), "the object is gone")
    assert pods.node("too-large") == "only"
    assert scheduler.stop() == 0
