"""Which changes wake pods that a volume plugin refused (upstream: EventsToRegister)."""

from typing import Any

import msgspec
import numpy as np
import pytest

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod, PodVolume, Requirement
from eventsched.domain.objects.registry import (
    ClusterObject,
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from eventsched.plugins.node_volume_limits import NodeVolumeLimits
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.plugins.volume_restrictions import VolumeRestrictions
from eventsched.plugins.volume_zone import VolumeZone
from eventsched.scheduling.framework import Change, ClusterEvent, Cycle
from tests.builders import make_pod

EBS = PodVolume(name="d", source="awsElasticBlockStore", identity=("vol-1",))
CLAIM = PodVolume(name="c", claim="c")
OWN = PodVolume(name="x", claim="p1-x", ephemeral=True)
INLINE = PodVolume(name="i", driver="csi.example.com")
WAIT = StorageClass(name="wait", binding_mode="WaitForFirstConsumer")
ZONES = ((Requirement(key="zone", operator="In", values=("a",)),),)
C = PersistentVolumeClaim(name="c", namespace="default")
X = PersistentVolumeClaim(name="p1-x", namespace="default")
V = PersistentVolume(name="v")
POOL = CSIStorageCapacity(name="s", capacity=5)
NODE = CSINode(name="n1", drivers=(NodeDriver(name="csi.example.com", limit=1),))
DRIVER = CSIDriver(name="csi.example.com", capacity=True)
ATTACHED = VolumeAttachment(name="a", attacher="ebs.csi.aws.com", node="n1", volume="v")

VIEW = NodeView(NodeTable(), np.zeros(0, dtype=np.intp))


def pod(*volumes: PodVolume, **fields: Any) -> Pod:
    """The pod that waits, by default."""
    return make_pod(volumes=volumes, **fields)


def wakes(plugin: Any, waiting: Pod, old: ClusterObject | None, new: ClusterObject | None) -> bool:
    """Whether a change of an object wakes a pod."""
    assert type(new or old) in plugin.wakes_on_objects
    change = Change(ClusterEvent.OBJECT_CHANGE, VIEW, old_object=old, new_object=new)
    return bool(plugin.hint(Cycle(0, ""), waiting, change))


def wakes_after(plugin: Any, waiting: Pod, gone: Pod) -> bool:
    """Whether the end of a pod on a node wakes a pod."""
    assert ClusterEvent.ASSIGNED_POD_DELETE in plugin.wakes_on
    change = Change(ClusterEvent.ASSIGNED_POD_DELETE, VIEW, pod=gone)
    return bool(plugin.hint(Cycle(0, ""), waiting, change))


def but(thing: Any, **fields: Any) -> Any:
    """A thing with other fields."""
    return msgspec.structs.replace(thing, **fields)


BINDING = [
    (pod(CLAIM), None, C, True),
    (pod(CLAIM), C, but(C, bound=True), True),
    (pod(CLAIM), None, but(C, namespace="other"), False),
    (pod(CLAIM), None, but(C, name="d"), False),
    (pod(CLAIM), C, None, False),
    (pod(OWN), None, X, True),
    (pod(CLAIM), None, V, True),
    (pod(CLAIM), V, but(V, phase="Available"), True),
    (pod(CLAIM), V, None, False),
    (pod(CLAIM), None, WAIT, True),
    (pod(CLAIM), WAIT, but(WAIT, topologies=ZONES), True),
    (pod(CLAIM), WAIT, but(WAIT, default=True), False),
    (pod(CLAIM), None, NODE, True),
    (pod(CLAIM), NODE, but(NODE, migrated=("kubernetes.io/aws-ebs",)), True),
    (pod(CLAIM), NODE, but(NODE, drivers=()), False),
    (pod(CLAIM), None, POOL, True),
    (pod(CLAIM), POOL, but(POOL, capacity=6), True),
    (pod(CLAIM), POOL, but(POOL, largest=4), False),
    (pod(CLAIM), POOL, but(POOL, capacity=None), False),
    (pod(CLAIM), but(POOL, capacity=None), POOL, True),
    (pod(CLAIM, INLINE), DRIVER, but(DRIVER, capacity=False), True),
    (pod(CLAIM), DRIVER, but(DRIVER, capacity=False), False),
    (pod(CLAIM, INLINE), but(DRIVER, capacity=False), DRIVER, False),
    (pod(CLAIM, INLINE), None, DRIVER, False),
]
ZONE = [
    (pod(CLAIM), None, C, True),
    (pod(CLAIM), C, but(C, volume="v"), True),
    (pod(OWN), None, X, False),
    (pod(CLAIM), None, WAIT, True),
    (pod(CLAIM), None, but(WAIT, binding_mode="Immediate"), False),
    (pod(CLAIM), WAIT, but(WAIT, topologies=ZONES), False),
    (pod(CLAIM), None, V, True),
    (pod(CLAIM), V, but(V, labels={"topology.kubernetes.io/zone": "a"}), True),
    (pod(CLAIM), V, but(V, labels={"colour": "red"}), False),
    (pod(CLAIM), V, None, False),
]
RESTRICTIONS = [
    (pod(CLAIM), None, C, True),
    (pod(CLAIM), C, but(C, volume="v"), False),
    (pod(CLAIM), None, but(C, name="d"), False),
    (pod(CLAIM), C, None, False),
]
LIMITS = [
    (pod(CLAIM), None, NODE, True),
    (pod(CLAIM), NODE, but(NODE, drivers=(NodeDriver(name="csi.example.com", limit=2),)), True),
    (pod(CLAIM), NODE, but(NODE, drivers=(NodeDriver(name="csi.example.com", limit=1),)), False),
    (pod(CLAIM), NODE, but(NODE, drivers=(NodeDriver(name="csi.example.com"),)), False),
    (pod(CLAIM), NODE, None, False),
    (pod(CLAIM), None, C, True),
    (pod(OWN), None, X, True),
    (pod(CLAIM), C, but(C, volume="v"), False),
    (pod(CLAIM), ATTACHED, None, True),
    (pod(EBS), ATTACHED, None, True),
    (pod(EBS), but(ATTACHED, attacher="csi.example.com"), None, False),
    (pod(OWN), ATTACHED, None, False),
    (pod(CLAIM), None, ATTACHED, False),
]
TABLE = [
    (plugin, *row)
    for plugin, rows in (
        (VolumeBinding(), BINDING),
        (VolumeZone(), ZONE),
        (VolumeRestrictions(), RESTRICTIONS),
        (NodeVolumeLimits(), LIMITS),
    )
    for row in rows
]


@pytest.mark.parametrize(("plugin", "waiting", "old", "new", "expected"), TABLE)
def test_objects(
    plugin: Any, waiting: Pod, old: ClusterObject | None, new: ClusterObject | None, expected: bool
) -> None:
    assert wakes(plugin, waiting, old, new) is expected


def test_a_pod_is_gone() -> None:
    limits, restrictions = NodeVolumeLimits(), VolumeRestrictions()
    for volume in (CLAIM, OWN, EBS):
        assert wakes_after(limits, pod(CLAIM), pod(volume, uid="p0"))
    for volumes in ((), (INLINE,)):
        assert not wakes_after(limits, pod(CLAIM), pod(*volumes, uid="p0"))
    assert wakes_after(restrictions, pod(CLAIM), pod(CLAIM, uid="p0"))
    assert wakes_after(restrictions, pod(EBS), pod(EBS, uid="p0"))
    assert not wakes_after(restrictions, pod(CLAIM), pod(CLAIM, uid="p0", namespace="other"))
    assert not wakes_after(restrictions, pod(CLAIM), pod(EBS, uid="p0"))


@pytest.mark.parametrize("plugin", [VolumeBinding(), VolumeZone(), VolumeRestrictions()])
def test_a_node_is_new(plugin: Any) -> None:
    assert ClusterEvent.NODE_ADD in plugin.wakes_on
    assert plugin.hint(Cycle(0, ""), pod(CLAIM), Change(ClusterEvent.NODE_ADD, VIEW))
