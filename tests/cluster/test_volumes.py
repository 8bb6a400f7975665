"""Pods whose volumes are bound, or made, when they have a node: with the volume controller of a
real control plane, and a provisioner that the test plays."""

import re
from collections.abc import Callable

import pytest

from eventsched.domain.records import BindIntended, PodUnreserved, PreparationIntended
from tests.cluster.harness.client import MERGE, Object, wait_for
from tests.cluster.harness.manifests import (
    claim,
    mounted,
    node,
    pod,
    stateful_set,
    storage_class,
    volume,
)
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import EVENT, Pods
from tests.cluster.harness.scheduler import Schedulers, run

SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Storage:
    """Two nodes, and claims and volumes in a namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.pods = Pods(plane.admin, namespace)
        self.client, self.namespace = plane.admin, namespace
        for name in ("a", "b"):
            self.client.create(node(name))

    def claim(self, name: str) -> Object:
        """A claim as it is."""
        return self.client.get("PersistentVolumeClaim", name, self.namespace)

    def bound(self, name: str) -> Object:
        """A claim once it is bound, which the controller says after it has named the volume. Raises
        TimeoutError."""
        is_bound = f"{name} is bound"
        wait_for(lambda: self.claim(name)["status"]["phase"] == "Bound", is_bound)
        return self.claim(name)

    def selected_node(self, name: str) -> str:
        """The node that was selected for a claim, "" for none."""
        return str(self.claim(name)["metadata"].get("annotations", {}).get(SELECTED_NODE, ""))

    def wait_selected(self, name: str) -> str:
        """The same, once there is one. Raises TimeoutError."""
        return wait_for(lambda: self.selected_node(name), f"a node is selected for {name}")

    def provision(self, name: str) -> None:
        """Makes the volume that a claim asks for, where its node reaches it."""
        metadata = self.claim(name)["metadata"]
        made = volume(f"pvc-{metadata['uid']}", "made", node=self.selected_node(name))
        made["spec"]["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            **{key: metadata[key] for key in ("namespace", "name", "uid")},
        }
        self.client.create(made)

    def refuse(self, name: str) -> None:
        """Says that it cannot be made there, as provisioners do."""
        patch = {"metadata": {"annotations": {SELECTED_NODE: None}}}
        self.client.patch("PersistentVolumeClaim", name, patch, self.namespace, content_type=MERGE)


@pytest.fixture
def storage(controllers: ControlPlane, namespace: str) -> Storage:
    """With a class of local volumes and one whose volumes have to be made."""
    found = Storage(controllers, namespace)
    found.client.create(storage_class("local"))
    found.client.create(storage_class("made", provisioner="example.org/test"))
    return found


def test_a_stateful_set_with_local_volumes(storage: Storage, schedulers: Schedulers) -> None:
    """Every pod goes to a node with a volume for its claim, and ``explain`` reports it."""
    for name in ("a", "b"):
        storage.client.create(volume(f"disk-{name}", "local", node=name))
    scheduler = schedulers.start()
    storage.pods.create(stateful_set("db", 2, claims=[claim("data", "local")]))
    storage.pods.wait_running(2)
    for number in range(2):
        held = storage.bound(f"data-db-{number}")
        assert held["spec"]["volumeName"] == f"disk-{storage.pods.node(f'db-{number}')}"
        disk = storage.client.get("PersistentVolume", held["spec"]["volumeName"])
        assert disk["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] == "yes"
    options = (f"--database={scheduler.database}", f"--stream={scheduler.stream}")
    told = run("explain", f"{storage.namespace}/db-0", *options)
    # It may be seen before its claim and the volumes are, and is refused then.
    assert re.search(r"What its bind waited for at attempt \d+:", told)
    assert f"for PersistentVolumeClaim {storage.namespace}/data-db-0" in told


def wait_failed(pods: Pods, name: str, words: str) -> None:
    """Waits for an Event that says why a pod was not scheduled."""

    def found() -> bool:
        events = pods.client.list(EVENT, pods.namespace)
        return any(
            each["reason"] == "FailedScheduling" and words in each.get("note", "")
            for each in events
        )

    wait_for(found, f"{name} failed: {words}")


def test_a_volume_is_made_and_a_scheduler_killed_meanwhile(
    storage: Storage, schedulers: Schedulers
) -> None:
    """The wait is resumed: one decision, and one bind to the node of the new volume."""
    scheduler = schedulers.start()
    storage.client.create(claim("data", "made"), storage.namespace)
    storage.pods.create(pod("web", volumes=mounted("data")))
    selected = storage.wait_selected("data")
    scheduler.kill()
    assert "nodeName" not in storage.pods.get("web")["spec"]
    storage.provision("data")
    scheduler.start()
    assert storage.pods.node("web") == selected
    scheduler.wait_log(BindIntended)
    log = scheduler.log()
    # The pod may be seen before its claim is, and is refused once then: claims and pods are
    # watched apart.
    placed = log.decisions(storage.pods.get("web")["metadata"]["uid"])
    assert [each.node for each in placed if each.node] == [selected]
    [intended] = log.of(PreparationIntended)
    assert intended.node == selected


def test_a_provisioner_that_refuses_has_the_pod_tried_again(
    storage: Storage, schedulers: Schedulers
) -> None:
    """With upstream's words, and another attempt that succeeds."""
    scheduler = schedulers.start()
    storage.client.create(claim("data", "made"), storage.namespace)
    # Some annotation of its own, as there always is one of a provisioner's.
    notes = {"metadata": {"annotations": {"example.org/note": "x"}}}
    storage.client.patch("PersistentVolumeClaim", "data", notes, storage.namespace)
    storage.pods.create(pod("web", volumes=mounted("data")))
    storage.wait_selected("data")
    wait_for(lambda: scheduler.log().of(PreparationIntended), "the wait is in the log")
    storage.refuse("data")
    wait_failed(storage.pods, "web", 'provisioning failed for PVC "data"')
    storage.wait_selected("data")
    storage.provision("data")
    selected = storage.selected_node("data")
    assert storage.pods.node("web") == selected
    [given_up] = scheduler.log().of(PodUnreserved)
    assert (given_up.plugin, given_up.message) == (
        "VolumeBinding",
        'binding volumes: provisioning failed for PVC "data"',
    )


@pytest.mark.parametrize("prepare", [Storage.provision, None], ids=["made", "local"])
def test_a_pod_with_a_volume_of_its_own(
    storage: Storage, schedulers: Schedulers, prepare: Callable[[Storage, str], None] | None
) -> None:
    """The claim is made by the controller for ephemeral volumes."""
    name = "made" if prepare else "local"
    schedulers.start()
    if prepare is None:
        storage.client.create(volume("disk-b", "local", node="b"))
    template = {"spec": claim("x", name)["spec"]}
    volumes = [{"name": "tmp", "ephemeral": {"volumeClaimTemplate": template}}]
    storage.pods.create(pod("web", volumes=volumes))
    if prepare is not None:
        storage.wait_selected("web-tmp")
        prepare(storage, "web-tmp")
    found = storage.pods.node("web")
    assert found == (storage.selected_node("web-tmp") or "b")


def test_a_pod_that_is_deleted_while_it_waits(storage: Storage, schedulers: Schedulers) -> None:
    """What was written stays; the next pod with the claim goes to the same node."""
    scheduler = schedulers.start()
    storage.client.create(claim("data", "made"), storage.namespace)
    storage.pods.create(pod("web", volumes=mounted("data")))
    selected = storage.wait_selected("data")
    storage.pods.delete("web")
    storage.pods.create(pod("next", volumes=mounted("data")))
    wait_for(lambda: len(scheduler.log().of(PreparationIntended)) == 2, "the next one waits")
    storage.provision("data")
    assert storage.pods.node("next") == selected
