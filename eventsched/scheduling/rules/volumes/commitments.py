"""The volumes that a placement commits to: they are bound or provisioned before the pod is bound.

Upstream: plugins/volumebinding/binder.go bindAPIUpdate, checkBindings.
"""

from collections.abc import Iterable
from typing import NamedTuple

from eventsched.domain.objects import canonical
from eventsched.domain.objects.registry import PersistentVolume, PersistentVolumeClaim
from eventsched.domain.records.object_writes import BindVolume, SelectNode, Write
from eventsched.scheduling.framework.wait_results import ObjectKey, key_of
from eventsched.scheduling.rules.volumes.assumptions import NODE, VOLUME
from eventsched.scheduling.rules.volumes.claims import belongs_to, is_bound
from eventsched.scheduling.rules.volumes.csi_migration import TranslationError
from eventsched.scheduling.rules.volumes.volume_plan import VolumePlan, VolumeStock
from eventsched.scheduling.rules.volumes.volumes_by_class import NONE


class Commitment(NamedTuple):
    """A volume (``kind`` VOLUME), or a new one on a node (NODE), for a claim in the pod's
    namespace. ``fresh`` means that the objects do not show it yet. Stored with the decision."""

    kind: str
    name: str
    claim: str
    uid: str
    fresh: bool

    def key(self, namespace: str) -> str:
        """VolumeBinding's memory key for it."""
        return canonical([self.kind, self.name, namespace, self.claim, self.uid]).decode()

    def write(self, namespace: str) -> Write:
        """The write that makes the objects show it."""
        if self.kind == VOLUME:
            return BindVolume(
                volume=self.name, namespace=namespace, claim=self.claim, claim_uid=self.uid
            )
        return SelectNode(namespace=namespace, claim=self.claim, claim_uid=self.uid, node=self.name)


def chosen(plan: VolumePlan, row: int, node: str) -> list[Commitment]:
    """The commitments of a plan on a row."""
    commitments = []
    for claim, shelf, numbers in plan.matches:
        number = int(numbers[row])
        if number == NONE:
            continue
        volume = shelf.volumes[number]
        fresh = not belongs_to(volume, claim) or (volume.claim is not None and not volume.claim[2])
        commitments.append(Commitment(VOLUME, volume.name, claim.name, claim.uid, fresh))
    for claim, rows in plan.made:
        if rows[row]:
            fresh = not claim.selected_node
            commitments.append(Commitment(NODE, node, claim.name, claim.uid, fresh))
    return commitments


class BrokenError(Exception):
    """A commitment can no longer come true; the message is upstream's."""


class CommitmentCheck:
    """Whether a pod's commitments have come true, on the row of its node."""

    def __init__(self, stock: VolumeStock, namespace: str, node: str, row: int) -> None:
        self._stock, self._registry = stock, stock.registry
        self._namespace, self._node, self._row = namespace, node, row
        self.done = True
        """Whether all commitments have come true."""
        self.objects: set[ObjectKey] = {("CSINode", "", node)}
        """The objects that this depends on, also those of commitments that have come true: they may
        still be undone while others are pending."""

    def all(self, commitments: Iterable[Commitment]) -> None:
        """Checks all commitments. Raises BrokenError if one can never come true."""
        for commitment in commitments:
            self._check(commitment)

    def _check(self, commitment: Commitment) -> None:
        kind, name, claim_name, uid, _ = commitment
        failed = "failed to check " + ("binding" if kind == VOLUME else "provisioning pvc")
        claim = self._registry.get(PersistentVolumeClaim, claim_name, self._namespace)
        if claim is None or claim.uid != uid:
            lost = f'persistentvolumeclaims "{self._namespace}/{claim_name}"'
            raise BrokenError(f"{failed}: {lost} not found")
        if kind == NODE:
            self._check_selection(claim)
        self.objects.add(key_of(claim))
        volume_name = name if kind == VOLUME else claim.volume
        self.objects |= {("PersistentVolume", "", volume_name)} if volume_name else set()
        volume = self._registry.get(PersistentVolume, volume_name)
        if volume is not None:
            self._check_reach(volume)
        if kind == VOLUME:
            if volume is None:
                raise BrokenError(f'{failed}: persistentvolumes "{name}" not found')
            if volume.claim is None or volume.claim[2] != uid:
                raise BrokenError(f'ClaimRef got reset for pv "{name}"')
        self.done = self.done and volume is not None and is_bound(claim)

    def _check_selection(self, claim: PersistentVolumeClaim) -> None:
        """A provisioner that fails removes the annotation, so that the pod is placed elsewhere."""
        if not claim.annotations and not claim.selected_node:
            raise BrokenError(f'selectedNode annotation reset for PVC "{claim.name}"')
        if claim.selected_node != self._node:
            raise BrokenError(f'provisioning failed for PVC "{claim.name}"')

    def _check_reach(self, volume: PersistentVolume) -> None:
        try:
            reached = self._stock.reaches(volume, self._row)
        except TranslationError as problem:
            raise BrokenError(f"failed to translate pv to csi: {problem}") from None
        if not reached:
            raise BrokenError(
                f'pv "{volume.name}" node affinity doesn\'t match node "{self._node}": '
                "no matching NodeSelectorTerms"
            )
