"""Claims, volumes, and pods and nodes that have to do with them, for tests; and an engine with the
four volume plugins. What is beside the point is filled in."""

from typing import Any

from eventsched.domain import records
from eventsched.domain.objects import Node, NodeSelectorTerm, Pod, PodVolume, Requirement
from eventsched.domain.records import PodDecided
from eventsched.domain.registry import (
    ClusterObject,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from eventsched.plugins.node_volume_limits import NodeVolumeLimits
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.plugins.volume_restrictions import VolumeRestrictions
from eventsched.plugins.volume_zone import VolumeZone
from eventsched.scheduling.engine import Engine
from tests.builders import added, attempted, engine_of, make_node, make_pod, observed

LOCAL = StorageClass(
    name="local", provisioner="kubernetes.io/no-provisioner", binding_mode="WaitForFirstConsumer"
)
WAIT = StorageClass(name="wait", provisioner="csi.example.com", binding_mode="WaitForFirstConsumer")
NOW = StorageClass(name="now", provisioner="csi.example.com", binding_mode="Immediate")


def engine(*things: Node | Pod | ClusterObject) -> Engine:
    """An engine with the four plugins that knows these things."""
    made = engine_of(VolumeRestrictions(), NodeVolumeLimits(), VolumeBinding(), VolumeZone())
    for each in things:
        observed(made, *([shown(each)] if isinstance(each, ClusterObject) else added(each)))
    return made


def shown(thing: Any) -> records.ObjectChanged:
    """The stimulus that brings an object in."""
    return records.ObjectChanged(object=thing)


def on(*names: str) -> tuple[NodeSelectorTerm, ...]:
    """Terms for nodes by their label."""
    here = Requirement(key="host", operator="In", values=names)
    return (NodeSelectorTerm(expressions=(here,)),)


def node(name: str = "n1", **labels: str) -> Node:
    """A node with a label that says its name."""
    return make_node(name, labels={"host": name, **labels})


def claim(name: str = "c", **fields: Any) -> PersistentVolumeClaim:
    """A claim that waits for a pod."""
    filled = {"namespace": "default", "uid": f"uid-{name}", "storage_class": "local", **fields}
    return PersistentVolumeClaim(name=name, **filled)


def volume(name: str = "v", *hosts: str, **fields: Any) -> PersistentVolume:
    """A free local volume on some nodes."""
    filled = {"storage_class": "local", "phase": "Available", "node_terms": on(*(hosts or ("n1",)))}
    return PersistentVolume(name=name, **{**filled, **fields})


def pod(name: str = "p1", *claims: str, **fields: Any) -> Pod:
    """A pod that names claims."""
    volumes = tuple(PodVolume(name=each, claim=each) for each in claims or ("c",))
    return make_pod(name, **{"volumes": volumes, **fields})


def message(made: Engine) -> str:
    """What the next attempt says."""
    found = decided(made)
    return found.message or found.outcome


def decided(made: Engine) -> PodDecided:
    """The next attempt's record."""
    return next(each for each in attempted(made) if isinstance(each, PodDecided))
