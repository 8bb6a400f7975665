"""Volumes, claims and disks that are odd: a clear answer for the pod that has them, no other."""

from typing import Any

import msgspec
import pytest

from eventsched.domain.objects import NodeSelectorTerm, PodVolume, Requirement
from eventsched.domain.objects.registry import CSINode, NodeDriver, StorageClass
from eventsched.domain.records import Outcome
from tests.builders import make_pod
from tests.volumes import LOCAL, NOW, WAIT, claim, engine, message, node, pod, volume

SELECTOR = (Requirement(key="kind", operator="Near", values=("x",)),)
ODD: dict[str, tuple[Any, ...]] = {
    "no claim": (
        [], pod(),
        '0/1 nodes are available: persistentvolumeclaim "c" not found.',
    ),
    "a claim of another namespace": (
        [claim(namespace="other")], pod(),
        '0/1 nodes are available: persistentvolumeclaim "c" not found.',
    ),
    "no name": (
        [], make_pod(volumes=(PodVolume(name="x", source="persistentVolumeClaim"),)),
        '0/1 nodes are available: persistentvolumeclaim "" not found.',
    ),
    "somebody else's claim": (
        [claim("p1-x", owner_uid="p2")],
        make_pod(volumes=(PodVolume(name="x", claim="p1-x", ephemeral=True),)),
        "0/1 nodes are available: PVC default/p1-x was not created for pod default/p1 (pod is not "
        "owner).",
    ),
    "a claim that is yet to be made": (
        [], make_pod(volumes=(PodVolume(name="x", claim="p1-x", ephemeral=True),)),
        "0/1 nodes are available: waiting for ephemeral volume controller to create the "
        'persistentvolumeclaim "p1-x".',
    ),
    "lost": (
        [claim(phase="Lost", volume="v")], pod(),
        '0/1 nodes are available: persistentvolumeclaim "c" bound to non-existent persistentvolume '
        '"v".',
    ),
    "being deleted": (
        [claim(deleting=True)], pod(),
        '0/1 nodes are available: persistentvolumeclaim "c" is being deleted.',
    ),
    "no such class": (
        [claim(storage_class="none")], pod(),
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    ),
    "immediate": (
        [NOW, claim(storage_class="now")], pod(),
        "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    ),
    "a class that does not say": (
        [StorageClass(name="odd", binding_mode=""), claim(storage_class="odd")], pod(),
        'VolumeBindingMode not set for StorageClass "odd"',
    ),
    "bound to nothing": (
        [claim(volume="v", bound=True)], pod(),
        '0/1 nodes are available: persistentvolume "v" not found.',
    ),
    "a selector that is malformed": (
        [LOCAL, volume(), claim(selector=SELECTOR)], pod(),
        "plugin VolumeBinding failed in filter: error creating internal label selector for claim: "
        'default/c: "Near" is not a valid label selector operator',
    ),
    "a class without a provisioner": (
        [msgspec.structs.replace(WAIT, provisioner=""), claim(storage_class="wait")], pod(),
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
    ),
    "topologies that are malformed": (
        [
            msgspec.structs.replace(
                WAIT, topologies=((Requirement(key="a b", operator="In", values=("x",)),),)
            ),
            claim(storage_class="wait"),
        ],
        pod(),
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
    ),
    "terms that are malformed": (
        [
            LOCAL,
            claim(),
            volume(
                node_terms=(
                    NodeSelectorTerm(expressions=(Requirement(key="host", operator="Is"),)),
                )
            ),
        ],
        pod(),
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.",
    ),
    "a disk that cannot be translated": (
        [CSINode(name="n1")],
        make_pod(
            volumes=(
                PodVolume(name="x", source="awsElasticBlockStore", identity=("aws://zone/disk",)),
            )
        ),
        "plugin NodeVolumeLimits failed in filter: converting volume(x) from inline to csi: failed "
        "to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume "
        "(aws://zone/disk)",
    ),
    "a volume that cannot be translated": (
        [
            CSINode(name="n1", migrated=("kubernetes.io/azure-disk",)),
            claim(volume="v", bound=True),
            volume(source="azureDisk", identity=("/d", "Shared")),
        ],
        pod(),
        "plugin VolumeBinding failed in filter: could not translate pv: kind(Shared) is not "
        "supported in csi migration",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_odd_input_concerns_one_pod_only(name: str) -> None:
    things, odd, expected = ODD[name]
    made = engine(node(), *things, odd, make_pod("p9"))
    assert message(made) == expected
    assert message(made) == Outcome.SCHEDULED


def test_a_pod_that_cannot_be_counted_stands_in_the_way_of_others() -> None:
    """As upstream: on a node with limits an error ends the attempt of a pod with volumes."""
    limited = CSINode(name="n1", drivers=(NodeDriver(name="csi.example.com", limit=9),))
    odd = make_pod("p0", node_name="n1", volumes=(PodVolume(claim="p0-x", ephemeral=True),))
    things = [WAIT, claim("p0-x", owner_uid="p7"), claim(storage_class="wait"), limited]
    made = engine(node(), *things, odd, pod(), make_pod("p9"))
    assert message(made) == (
        "plugin NodeVolumeLimits failed in filter: PVC default/p0-x was not created for pod "
        "default/p0 (pod is not owner)"
    )
    assert message(made) == Outcome.SCHEDULED
