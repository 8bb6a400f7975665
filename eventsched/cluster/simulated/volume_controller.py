"""Volumes in a simulated cluster: what the API server says to a write, and what the volume
controller and the provisioners then do. Pure.

Upstream: pkg/controller/volume/persistentvolume, and external provisioners. Every volume can be
made; it takes a while.
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

BINDING = 100_000
"""Microseconds that the volume controller takes to bind a claim to a volume."""
PROVISIONING = 2_000_000
"""Microseconds that a volume takes to be made."""

_SELECTED_NODE = {"volume.kubernetes.io/selected-node": ""}
_BY_CONTROLLER = {"pv.kubernetes.io/bound-by-controller": "yes"}
_COMPLETED = {"pv.kubernetes.io/bind-completed": "yes"}


class Reaction(NamedTuple):
    """What follows from a write: objects as they are at once, ``problem`` (why the write was
    refused, "" if it was not), and objects as they are ``delay`` microseconds later."""

    now: Sequence[AnyObject] = ()
    problem: str = ""
    delay: int = 0
    later: Sequence[AnyObject] = ()


class VolumeController:
    """Claims and volumes as the cluster has them, with the later results of a write already in
    them."""

    def __init__(self, objects: Iterable[AnyObject], nodes: Iterable[Node]) -> None:
        self._registry = Registry()
        self._labels = {node.name: node.labels for node in nodes}
        self._changed: dict[str, AnyObject] = {}
        for each in objects:
            self._registry.put(each)

    def begin(self) -> Reaction:
        """What the controller does of itself: new volumes become available, and claims that do not
        wait for pods are bound, or get a volume made."""
        now = [
            self._keep(msgspec.structs.replace(volume, phase="Available"))
            for volume in list(self._registry.all(PersistentVolume).values())
            if not volume.phase and volume.claim is None
        ]
        later: list[AnyObject] = []
        for claim in list(self._registry.all(PersistentVolumeClaim).values()):
            if not is_bound(claim) and not claim.deleting and claim.phase != "Lost":
                later += self._bound_at_once(claim)
        return Reaction(now, "", PROVISIONING, later)

    def add(self, claim: PersistentVolumeClaim) -> Reaction:
        """A claim is made, for a pod."""
        self._keep(claim)
        return Reaction([claim], "", PROVISIONING, self._bound_at_once(claim))

    def write(self, write: Write) -> Reaction:
        """Carries out a write. What an object shows already changes nothing."""
        return self._bind(write) if isinstance(write, BindVolume) else self._select(write)

    def release(self, claim: PersistentVolumeClaim) -> tuple[PersistentVolume | None, bool]:
        """The volume that a claim had when it goes, as it is then; whether it goes as well."""
        found = self._claim(claim.namespace, claim.name, claim.uid)
        volume = found and self._registry.get(PersistentVolume, found.volume)
        if not volume:
            return None, False
        return msgspec.structs.replace(volume, phase="Released"), volume.name == _made_for(claim)

    def snapshot(self) -> list[AnyObject]:
        """The objects that are no longer as they were, for ``restore``."""
        return list(self._changed.values())

    def restore(self, kept: Iterable[AnyObject]) -> None:
        """Continues from a snapshot."""
        for each in kept:
            self._keep(each)

    # --- writes ---------------------------------------------------------------------------

    def _bind(self, write: BindVolume) -> Reaction:
        volume = self._registry.get(PersistentVolume, write.volume)
        if volume is None:
            return Reaction(problem=f'persistentvolumes "{write.volume}" not found')
        wanted = (write.namespace, write.claim, write.claim_uid)
        if volume.claim == wanted:
            return Reaction()
        if volume.claim not in (None, (write.namespace, write.claim, "")):
            return Reaction(problem=_conflict("persistentvolumes", write.volume))
        notes = {**volume.annotations, **(_BY_CONTROLLER if volume.claim is None else {})}
        promised = msgspec.structs.replace(volume, claim=wanted, annotations=notes)
        self._keep(promised)
        claim = self._claim(*wanted)
        later = self._together(claim, promised) if claim is not None else []
        return Reaction([promised], "", BINDING, later)

    def _select(self, write: SelectNode) -> Reaction:
        claim = self._claim(write.namespace, write.claim, write.claim_uid)
        if claim is None:
            return Reaction(problem=f'persistentvolumeclaims "{write.claim}" not found')
        if claim.selected_node == write.node:
            return Reaction()
        if claim.selected_node:
            return Reaction(problem=_conflict("persistentvolumeclaims", write.claim))
        notes = {**claim.annotations, **dict.fromkeys(_SELECTED_NODE, write.node)}
        selected = msgspec.structs.replace(claim, selected_node=write.node, annotations=notes)
        self._keep(selected)
        later = [] if selected.volume else self._made(selected)
        return Reaction([selected], "", PROVISIONING, later)

    # --- the controller's own -------------------------------------------------------------

    def _bound_at_once(self, claim: PersistentVolumeClaim) -> list[AnyObject]:
        """What happens to a claim that needs no pod: it names a volume, a volume is promised to it,
        or its class does not wait."""
        volumes = self._registry.all(PersistentVolume).values()
        own = [v for v in volumes if v.name == claim.volume or belongs_to(v, claim)]
        if own:
            return self._together(claim, own[0])
        found = self._registry.get(StorageClass, class_of(claim))
        if claim.volume or (found is not None and found.binding_mode == WAITS):
            return []
        fitting = [volume for volume in volumes if _fits(volume, claim)]
        if fitting:
            smallest = min(fitting, key=lambda volume: (volume.capacity, volume.name))
            return self._together(claim, smallest)
        return self._made(claim)

    def _made(self, claim: PersistentVolumeClaim) -> list[AnyObject]:
        """A new volume, bound to its claim; nothing where the class makes none."""
        found = self._registry.get(StorageClass, class_of(claim))
        if found is None or found.provisioner in ("", NO_PROVISIONER):
            return []
        name = _made_for(claim)
        return self._together(
            claim,
            PersistentVolume(
                name=name,
                storage_class=found.name,
                capacity=claim.requested,
                access_modes=claim.access_modes,
                volume_mode=claim.volume_mode,
                node_terms=self._reach(found, claim.selected_node),
                driver=found.provisioner,
                handle=name,
                attributes_class=claim.attributes_class,
            ),
        )

    def _reach(self, found: StorageClass, node: str) -> tuple[NodeSelectorTerm, ...] | None:
        """From where a new volume can be reached: the selected node's own part of the driver's
        topology, or else wherever the class allows."""
        kept = self._registry.get(CSINode, node)
        drivers = {each.name: each for each in kept.drivers} if kept is not None else {}
        labels, driver = self._labels.get(node, {}), drivers.get(found.provisioner)
        keys = [key for key in driver.topology_keys if key in labels] if driver else []
        if keys:
            here = (Requirement(key=key, operator="In", values=(labels[key],)) for key in keys)
            return (NodeSelectorTerm(expressions=tuple(here)),)
        return tuple(NodeSelectorTerm(expressions=each) for each in found.topologies) or None

    def _together(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> list[AnyObject]:
        """Both ends of a binding, completed."""
        ours = (claim.namespace, claim.name, claim.uid)
        return [
            self._keep(msgspec.structs.replace(volume, phase="Bound", claim=ours)),
            self._keep(
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
        found = self._registry.get(PersistentVolumeClaim, name, namespace)
        return found if found is not None and found.uid == uid else None

    def _keep(self, kept: AnyObject) -> AnyObject:
        self._registry.put(kept)
        self._changed[kept.title] = kept
        return kept


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that is free will do (upstream: FindMatchingVolume)."""
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


def _made_for(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.uid}"


def _conflict(resource: str, name: str) -> str:
    """The API server's words."""
    return (
        f'Operation cannot be fulfilled on {resource} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
