"""CapacityScheduling on a real API server: its objects are read once their definition is installed,
and a namespace reclaims what it lent."""

from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from eventsched.domain.objects.registry import ElasticQuota
from eventsched.domain.records import ObjectChanged, ObjectDeleted, PreemptionDecided
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.demos import DEFAULT, example
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import ROOT, Scheduler, Schedulers

VERSION = "scheduling.x-k8s.io/v1alpha1"
DEFINITION = "elasticquotas.scheduling.x-k8s.io"


@contextmanager
def defined(client: Client) -> Iterator[None]:
    """The definition, for as long as the block runs."""
    path = ROOT / "tests" / "cluster" / "harness" / "definitions" / "elasticquota.yaml"
    client.create(yaml.safe_load(path.read_text()))
    try:
        wait_for(lambda: client.list(f"{VERSION}/ElasticQuota") == [], "quotas are served")
        yield
    finally:
        client.delete("apiextensions.k8s.io/v1/CustomResourceDefinition", DEFINITION)


def quota(namespace: str, least: str, most: str) -> Object:
    """A guarantee and a limit of cpu."""
    return {
        "apiVersion": VERSION,
        "kind": "ElasticQuota",
        "metadata": {"name": "team", "namespace": namespace},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
    }


def wanting(name: str, cpu: str) -> Object:
    """A pod that is gone as soon as it is deleted."""
    return pod(name, cpu=cpu, scheduler=DEFAULT, terminationGracePeriodSeconds=0)


def known(scheduler: Scheduler) -> list[ObjectChanged]:
    """The quotas in the log."""
    changed = scheduler.log().of(ObjectChanged)
    return [each for each in changed if isinstance(each.object, ElasticQuota)]


def test_a_namespace_takes_back_what_it_lent(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """Before the definition is there pods are placed without it, and /readyz says so."""
    red = Pods(plane.admin, namespace)
    plane.admin.create(node("only", cpu="4"))
    with plane.namespace() as other:
        blue = Pods(plane.admin, other)
        scheduler = schedulers.start(config=example("CapacityScheduling"))
        status, text = scheduler.ask("/readyz")
        missing = f"ElasticQuota: CustomResourceDefinition {DEFINITION} is not installed"
        assert (status, missing in text) == (500, True)
        red.create(wanting("borrows-0", "2"))
        assert red.node("borrows-0") == "only"

        with defined(plane.admin):
            for each, limit in ((red, "4"), (blue, "4")):
                plane.admin.create(quota(each.namespace, "2", limit))
            wait_for(lambda: len(known(scheduler)) == 2, "both quotas are known")
            wait_for(lambda: scheduler.ask("/readyz")[0] == 200, "the scheduler is ready")
            red.create(wanting("borrows-1", "2"))
            assert red.node("borrows-1") == "only"
            red.create(wanting("too-much", "1"))
            note = red.wait_event("too-much", "FailedScheduling")["note"]
            assert f"ElasticQuota {red.namespace} is more than Max" in note

            blue.create(wanting("needs-its-own", "2"))
            assert blue.node("needs-its-own") == "only"
            (made,) = scheduler.wait_log(PreemptionDecided)
            assert made.plugin == "CapacityScheduling"
            left = {each["metadata"]["name"] for each in red.all()}
            assert "borrows-0" in left
            assert "borrows-1" not in left
        # Without the definition there are no quotas any more.
        wait_for(lambda: scheduler.log().of(ObjectDeleted), "the quotas are gone")
        wait_for(lambda: missing in scheduler.ask("/readyz")[1], "the watch has ended")
        assert scheduler.stop() == 0
