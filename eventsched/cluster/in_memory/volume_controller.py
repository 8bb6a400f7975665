"""Volumes in a simulated cluster: how the API server answers a write, and how the volume controller
and the provisioners react to it. Pure.

Upstream: pkg/controller/volume/persistentvolume, and external provisioners. Provisioning takes time
but never fails.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from eventsched.domain.objects import Node, NodeSelectorTerm, Requirement
from eventsched.domain.objects.registry import (
    AnyObject,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
    StorageClass,
)
from eventsched.domain.objects.selectors import selects
from eventsched.domain.records.object_writes import BindVolume, SelectNode, Write
from eventsched.scheduling.rules.volumes.claims import WAITS, belongs_to, class_of, is_bound
from eventsched.scheduling.rules.volumes.provisioning import NO_PROVISIONER

CLAIM_BINDING_DELAY = 100_000
"""Microseconds that the volume controller takes to bind a claim to a volume."""
PROVISIONING_DELAY = 2_000_000
"""Microseconds that it takes to provision a volume."""

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}
_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


class Reaction(NamedTuple):
    """What follows from a write. ``now`` are the objects that change at once, ``later`` those that
    change ``delay`` microseconds later. ``problem`` is why the write was refused, or ""."""

    now: Sequence[AnyObject] = ()
    problem: str = ""
    delay: int = 0
    later: Sequence[AnyObject] = ()


class VolumeController:
    """The claims and volumes of the cluster. The later changes of a ``Reaction`` are included at
    once."""

    def __init__(self, objects: Iterable[AnyObject], nodes: Iterable[Node]) -> None:
        self._registry = Registry()
        self._labels = {node.name: node.labels for node in nodes}
        self._changed: dict[str, AnyObject] = {}
        for obj in objects:
            self._registry.put(obj)

    def begin(self) -> Reaction:
        """What the controller does at the start: new volumes become available, and claims that do
        not wait for a pod are bound to an existing or a provisioned volume."""
        now = [
            self._update(msgspec.structs.replace(volume, phase="Available"))
            for volume in list(self._registry.all(PersistentVolume).values())
            if not volume.phase and volume.claim is None
        ]
        later: list[AnyObject] = []
        for claim in list(self._registry.all(PersistentVolumeClaim).values()):
            if not is_bound(claim) and not claim.deleting and claim.phase != "Lost":
                later += self._bind_at_once(claim)
        return Reaction(now, "", PROVISIONING_DELAY, later)

    def add(self, claim: PersistentVolumeClaim) -> Reaction:
        """Creates a claim, for a pod."""
        self._update(claim)
        return Reaction([claim], "", PROVISIONING_DELAY, self._bind_at_once(claim))

    def write(self, write: Write) -> Reaction:
        """Executes a write. The reaction is empty if the object has the written value already."""
        return self._bind(write) if isinstance(write, BindVolume) else self._select(write)

    def release(self, claim: PersistentVolumeClaim) -> tuple[PersistentVolume | None, bool]:
        """The released volume of a claim that is deleted (None if it had none), and whether the
        volume is deleted too."""
        current = self._claim(claim.namespace, claim.name, claim.uid)
        volume = current and self._registry.get(PersistentVolume, current.volume)
        if not volume:
            return None, False
        return msgspec.structs.replace(volume, phase="Released"), volume.name == _provisioned_name(
            claim
        )

    def snapshot(self) -> list[AnyObject]:
        """The objects that changed since the start, for ``restore``."""
        return list(self._changed.values())

    def restore(self, snapshot: Iterable[AnyObject]) -> None:
        """Continues from a snapshot."""
        for obj in snapshot:
            self._update(obj)

    # --- writes ---------------------------------------------------------------------------

    def _bind(self, write: BindVolume) -> Reaction:
        volume = self._registry.get(PersistentVolume, write.volume)
        if volume is None:
            return Reaction(problem=f'persistentvolumes "{write.volume}" not found')
        claim_ref = (write.namespace, write.claim, write.claim_uid)
        if volume.claim == claim_ref:
            return Reaction()
        if volume.claim not in (None, (write.namespace, write.claim, "")):
            return Reaction(problem=_conflict("persistentvolumes", write.volume))
        annotations = {**volume.annotations, **(_BY_CONTROLLER if volume.claim is None else {})}
        prebound = msgspec.structs.replace(volume, claim=claim_ref, annotations=annotations)
        self._update(prebound)
        claim = self._claim(*claim_ref)
        later = self._bind_pair(claim, prebound) if claim is not None else []
        return Reaction([prebound], "", CLAIM_BINDING_DELAY, later)

    def _select(self, write: SelectNode) -> Reaction:
        claim = self._claim(write.namespace, write.claim, write.claim_uid)
        if claim is None:
            return Reaction(problem=f'persistentvolumeclaims "{write.claim}" not found')
        if claim.selected_node == write.node:
            return Reaction()
        if claim.selected_node:
            return Reaction(problem=_conflict("persistentvolumeclaims", write.claim))
        annotations = {**claim.annotations, _SELECTED_NODE: write.node}
        selected = msgspec.structs.replace(claim, selected_node=write.node, annotations=annotations)
        self._update(selected)
        later = [] if selected.volume else self._provision(selected)
        return Reaction([selected], "", PROVISIONING_DELAY, later)

    # --- the controllers ------------------------------------------------------------------

    def _bind_at_once(self, claim: PersistentVolumeClaim) -> list[AnyObject]:
        """Binds a claim that does not wait for a pod: it names a volume, a volume is pre-bound to
        it, or its class binds immediately. The changed objects; none if the claim waits."""
        volumes = self._registry.all(PersistentVolume).values()
        own = [v for v in volumes if v.name == claim.volume or belongs_to(v, claim)]
        if own:
            return self._bind_pair(claim, own[0])
        storage_class = self._registry.get(StorageClass, class_of(claim))
        if claim.volume or (storage_class is not None and storage_class.binding_mode == WAITS):
            return []
        fitting = [volume for volume in volumes if _fits(volume, claim)]
        if fitting:
            smallest = min(fitting, key=lambda volume: (volume.capacity, volume.name))
            return self._bind_pair(claim, smallest)
        return self._provision(claim)

    def _provision(self, claim: PersistentVolumeClaim) -> list[AnyObject]:
        """A new volume, bound to its claim; nothing if the class has no provisioner."""
        storage_class = self._registry.get(StorageClass, class_of(claim))
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            return []
        name = _provisioned_name(claim)
        return self._bind_pair(
            claim,
            PersistentVolume(
                name=name,
                storage_class=storage_class.name,
                capacity=claim.requested,
                access_modes=claim.access_modes,
                volume_mode=claim.volume_mode,
                node_terms=self._node_terms(storage_class, claim.selected_node),
                driver=storage_class.provisioner,
                handle=name,
                attributes_class=claim.attributes_class,
            ),
        )

    def _node_terms(
        self, storage_class: StorageClass, node: str
    ) -> tuple[NodeSelectorTerm, ...] | None:
        """The nodes that can use a new volume: the selected node's segment of the driver's
        topology, else the topologies of the class. None means every node."""
        csi_node = self._registry.get(CSINode, node)
        drivers = {driver.name: driver for driver in csi_node.drivers} if csi_node else {}
        labels, driver = self._labels.get(node, {}), drivers.get(storage_class.provisioner)
        keys = [key for key in driver.topology_keys if key in labels] if driver else []
        if keys:
            segment = (Requirement(key=key, operator="In", values=(labels[key],)) for key in keys)
            return (NodeSelectorTerm(expressions=tuple(segment)),)
        topologies = storage_class.topologies
        return tuple(NodeSelectorTerm(expressions=topology) for topology in topologies) or None

    def _bind_pair(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> list[AnyObject]:
        """Completes a binding; the changed volume and the changed claim."""
        claim_ref = (claim.namespace, claim.name, claim.uid)
        return [
            self._update(msgspec.structs.replace(volume, phase="Bound", claim=claim_ref)),
            self._update(
                msgspec.structs.replace(
                    claim,
                    volume=volume.name,
                    bound=True,
                    phase="Bound",
                    annotations={**claim.annotations, **_COMPLETED},
                )
            ),
        ]

    def _claim(self, namespace: str, name: str, uid: str) -> PersistentVolumeClaim | None:
        claim = self._registry.get(PersistentVolumeClaim, name, namespace)
        return claim if claim is not None and claim.uid == uid else None

    def _update(self, obj: AnyObject) -> AnyObject:
        self._registry.put(obj)
        self._changed[obj.title] = obj
        return obj


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is free and satisfies the claim (upstream: FindMatchingVolume)."""
    return (
        volume.phase == "Available"
        and volume.claim is None
        and not volume.deleting
        and volume.capacity >= claim.requested
        and volume.volume_mode == claim.volume_mode
        and volume.attributes_class == claim.attributes_class
        and class_of(volume) == class_of(claim)
        and set(claim.access_modes) <= set(volume.access_modes)
        and selects(claim.selector, volume.labels)
    )


def _provisioned_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.uid}"


def _conflict(resource: str, name: str) -> str:
    """The API server's message."""
    return (
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
