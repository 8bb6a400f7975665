"""Claims, volumes, and pods and nodes that have to do with them, for tests; and an engine with the
four volume plugins. What is beside the point is filled in."""

from typing import Any

from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.sources.load import Source
from eventsched.domain import records
from eventsched.domain.objects import Node, NodeSelectorTerm, Pod, PodVolume, Requirement
from eventsched.domain.objects.registry import (
    ClusterObject,
    CSINode,
    NodeDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from eventsched.domain.records import (
    MemoryChanged,
    PodDecided,
    PreparationIntended,
    WriteSucceeded,
)
from eventsched.domain.records.object_writes import BindVolume, SelectNode, Write
from eventsched.plugins.node_volume_limits import NodeVolumeLimits
from eventsched.plugins.volume_binding import VolumeBinding
from eventsched.plugins.volume_restrictions import VolumeRestrictions
from eventsched.plugins.volume_zone import VolumeZone
from eventsched.scheduling.engine import Engine
from tests.builders import SECOND, added, attempted, engine_of, make_node, make_pod, observed

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


# --- what is kept, and what is asked for --------------------------------------------------


def key(kind: str, name: str, claim_name: str = "c") -> str:
    """A key of VolumeBinding's memory."""
    return f'["{kind}","{name}","default","{claim_name}","uid-{claim_name}"]'


def remembered(kept: str, *holders: str) -> MemoryChanged:
    """The event for it."""
    return MemoryChanged(plugin="VolumeBinding", key=kept, value=list(holders) or None)


def carried(*commitments: tuple[str, str, str, bool]) -> dict[str, Any]:
    """What a decision holds for PreBind: kind, name, claim, and whether objects do not show it."""
    return {"VolumeBinding": [[k, n, c, f"uid-{c}", fresh] for k, n, c, fresh in commitments]}


def promise(name: str = "v", claim_name: str = "c") -> BindVolume:
    """The change that promises a volume to a claim."""
    return BindVolume(
        volume=name, namespace="default", claim=claim_name, claim_uid=f"uid-{claim_name}"
    )


def selection(node_name: str = "n1", claim_name: str = "c") -> SelectNode:
    """The change that asks for a volume for pods on a node."""
    return SelectNode(
        namespace="default", claim=claim_name, claim_uid=f"uid-{claim_name}", node=node_name
    )


def intended(*writes: Write, uid: str = "p1", attempt: int = 1, at: int = 0) -> PreparationIntended:
    """What follows a decision for a pod whose volumes are not bound yet."""
    return PreparationIntended(
        uid=uid,
        node="n1",
        attempt=attempt,
        deadlines={"VolumeBinding": at + 600 * SECOND},
        writes={"VolumeBinding": writes} if writes else {},
    )


def written(write: Write, uid: str = "p1", attempt: int = 1) -> WriteSucceeded:
    """The cluster has made a change."""
    return WriteSucceeded(uid=uid, attempt=attempt, write=write)


# --- a load -------------------------------------------------------------------------------


def load() -> Source:
    """A stateful set's pods, one after the other, with claims that wait for them; pods with local
    volumes, of which there are too few; two pods with one claim; one with a claim that is bound
    immediately; and short ones with volumes of their own."""
    drivers = (NodeDriver(name="csi.example.com", topology_keys=("host",)),)
    objects: list[Any] = [LOCAL, WAIT, NOW, *(CSINode(name=f"n{i}", drivers=drivers) for i in "12")]
    objects += [volume("v1", "n1", phase=""), volume("v2", "n2", phase="")]
    arrivals = []
    for number in range(4):
        objects.append(claim(f"data-{number}", storage_class="wait", requested=5))
        web = pod(f"web-{number}", f"data-{number}")
        arrivals.append(TracePod(web, number * SECOND // 2, 9 * SECOND))
        objects.append(claim(f"disk-{number}", storage_class="local"))
        local = pod(f"local-{number}", f"disk-{number}", cpu=100, memory=0)
        arrivals.append(TracePod(local, number * SECOND))
        own = claim(f"own-{number}", storage_class="wait", owner_uid=f"own-{number}")
        mounts = (PodVolume(name="tmp", claim=own.name, ephemeral=True),)
        brief = make_pod(f"own-{number}", cpu=100, memory=0, volumes=mounts)
        arrivals.append(TracePod(brief, SECOND, 3 * SECOND, (own,)))
    objects += [claim("shared", storage_class="wait"), claim("now", storage_class="now")]
    arrivals += [TracePod(pod(f"both-{i}", "shared", cpu=10, memory=0), SECOND) for i in "ab"]
    arrivals.append(TracePod(pod("late", "now", cpu=10, memory=0), 0))
    return Source([node("n1"), node("n2")], arrivals, objects=objects)
