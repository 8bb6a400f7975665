"""VolumeBinding: nodes that reach the pod's bound volumes and can bind its other claims.

Upstream: plugins/volumebinding/volume_binding.go, binder.go. Scoring needs the feature gate
StorageCapacityScoring, which is off by default in v1.36, so PreScore skips.
"""

from collections.abc import Hashable

import numpy as np

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Registry,
    StorageClass,
)
from eventsched.scheduling.config.pluginargs import VolumeBindingArgs
from eventsched.scheduling.framework import (
    Awaiting,
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Preparation,
    Status,
)
from eventsched.scheduling.rules.volumes.assumptions import Assumptions, assume, give_up, sweep
from eventsched.scheduling.rules.volumes.claims import claims_of, is_missing, not_owned, uses
from eventsched.scheduling.rules.volumes.commitments import (
    BrokenError,
    Commitment,
    CommitmentCheck,
    chosen,
)
from eventsched.scheduling.rules.volumes.provisioning import limit_of
from eventsched.scheduling.rules.volumes.volume_plan import (
    BROKEN,
    NO_ROOM,
    NO_VOLUME,
    UNMATCHED,
    UNREACHABLE,
    Assumed,
    Claims,
    VolumePlan,
    VolumeStock,
    sorted_out,
)

_REASONS = {
    UNREACHABLE: "node(s) didn't match PersistentVolume's node affinity",
    UNMATCHED: "node(s) didn't find available persistent volumes to bind",
    NO_ROOM: "node(s) did not have enough free storage",
    NO_VOLUME: "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


class _Attempt:
    """The data that one attempt shares between extension points: the claims, and the plan once
    Filter has made it."""

    def __init__(self, claims: Claims, stock: VolumeStock, assumptions: Assumptions) -> None:
        self.claims = claims
        self.stock = stock
        self.assumptions = assumptions
        self._plan: VolumePlan | None = None

    def plan(self, cycle: Cycle) -> VolumePlan:
        """The plan, computed once: its inputs do not change within an attempt."""
        if self._plan is None:
            assumed = self.assumptions.now(cycle) if self.claims.waiting else Assumed({}, {})
            self._plan = self.stock.plan(self.claims, assumed)
        return self._plan


class VolumeBinding:
    """PreFilter checks the claims, Filter the nodes. Reserve keeps the chosen volumes: in the
    memory for the pods that follow, and in the decision for PreBind, which binds them and waits."""

    name = "VolumeBinding"
    overdue = "binding volumes: context deadline exceeded"
    depends_on = DependsOn.NODE
    wakes_on = (
        ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL, ClusterEvent.ASSIGNED_POD_DELETE,
    )  # fmt: skip
    wakes_on_objects = (
        StorageClass, PersistentVolumeClaim, PersistentVolume, CSINode, CSIDriver,
        CSIStorageCapacity,
    )  # fmt: skip
    Args = VolumeBindingArgs

    def __init__(self, args: VolumeBindingArgs | None = None) -> None:
        self.bind_timeout_seconds = (args or VolumeBindingArgs()).bind_timeout_seconds
        """Seconds that PreBind may wait for volumes."""
        self._cached: tuple[VolumeStock, Assumptions] | None = None

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods without claims; None for pods with claims."""
        return None if pod.volumes and claims_of(pod) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Refuses a pod with an unusable claim, or with an unbound claim of immediate binding."""
        if not claims_of(pod):
            return Status.skip()
        problem = _problem(pod, cycle.registry)
        if problem:
            return Status.unresolvable(problem)
        try:
            claims = sorted_out(pod, cycle.registry)
        except ValueError as incomplete:
            return Status.error(str(incomplete))
        if claims.late:
            return Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")
        derived = self._cached_rules(nodes.table, cycle.registry)
        cycle.scratch[self.name] = _Attempt(claims, *derived)
        return None

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """The bits and errors of volume_plan."""
        attempt: _Attempt | None = cycle.scratch.get(self.name)
        return None if attempt is None else attempt.plan(cycle).codes[nodes.rows]

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words, in its order."""
        if code >= BROKEN:
            attempt: _Attempt = cycle.scratch[self.name]
            return Status.error(attempt.plan(cycle).errors[code - BROKEN])
        return Status.unresolvable(*(text for bit, text in _REASONS.items() if code & bit))

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status:
        """Nothing to score while StorageCapacityScoring is off."""
        return Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """0: PreScore skips it."""
        return np.zeros(len(nodes), dtype=np.int64)

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        """Keeps the pod's chosen volumes, and the node for claims that need a new volume."""
        attempt: _Attempt | None = cycle.scratch.get(self.name)
        if attempt is None or not attempt.claims.waiting:
            return None
        commitments = chosen(attempt.plan(cycle), attempt.stock.table.rows[node], node)
        sweep(cycle, attempt.assumptions.stale)
        for commitment in commitments:
            if commitment.fresh:
                assume(cycle, commitment.key(pod.namespace), pod.uid)
        cycle.data[self.name] = [list(commitment) for commitment in commitments]
        return None

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Gives up what Reserve kept, unless another pod keeps it too."""
        for commitment in self._commitments(cycle):
            give_up(cycle, commitment.key(pod.namespace), pod.uid)

    def pre_bind(self, cycle: Cycle, pod: Pod, node: str) -> Preparation | None:
        """Binds or provisions the chosen volumes."""
        commitments = self._commitments(cycle)
        if not commitments:
            return None
        writes = tuple(
            commitment.write(pod.namespace) for commitment in commitments if commitment.fresh
        )
        return Preparation(writes, self.bind_timeout_seconds)

    def prepared(
        self, cycle: Cycle, pod: Pod, node: str, nodes: NodeView
    ) -> Status | Awaiting | None:
        """None if the pod's claims are bound; else what is awaited, or why binding failed."""
        if not len(nodes):
            return Status.error(
                f'binding volumes: failed to get node "{node}": node "{node}" not found'
            )
        stock, _ = self._cached_rules(nodes.table, cycle.registry)
        check = CommitmentCheck(stock, pod.namespace, node, int(nodes.rows[0]))
        try:
            check.all(self._commitments(cycle))
        except BrokenError as broken:
            return Status.error(f"binding volumes: {broken}")
        return None if check.done else Awaiting(frozenset(check.objects))

    def _commitments(self, cycle: Cycle) -> list[Commitment]:
        return [Commitment(*fields) for fields in cycle.data.get(self.name, ())]

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True for new and changed objects that may help the pod; a deletion never helps. A pod
        that leaves its node before it was bound also gives up its volumes."""
        if change.event is ClusterEvent.ASSIGNED_POD_DELETE:
            deleted = change.pod
            return deleted is not None and not deleted.node_name and bool(claims_of(deleted))
        old, new = change.old_object, change.new_object
        match new:
            case None:
                return change.event is not ClusterEvent.OBJECT_CHANGE
            case StorageClass():
                return not isinstance(old, StorageClass) or old.topologies != new.topologies
            case PersistentVolumeClaim():
                return uses(pod, new.namespace, new.name)
            case PersistentVolume():
                return True
            case CSINode():
                return not isinstance(old, CSINode) or set(old.migrated) != set(new.migrated)
            case CSIDriver():
                return isinstance(old, CSIDriver) and _stops_counting(old, new, pod)
            case CSIStorageCapacity():
                return not isinstance(old, CSIStorageCapacity) or _has_more_room(old, new)
        return False

    def _cached_rules(
        self, table: NodeTable, registry: Registry
    ) -> tuple[VolumeStock, Assumptions]:
        cached = self._cached
        if cached is None or cached[0].table is not table or cached[0].registry is not registry:
            cached = self._cached = VolumeStock(table, registry), Assumptions(registry)
        return cached


def _problem(pod: Pod, registry: Registry) -> str:
    """Why one of the pod's claims is unusable, or "" (upstream: podHasPVCs)."""
    for name, ephemeral in claims_of(pod):
        claim = registry.get(PersistentVolumeClaim, name, pod.namespace)
        if claim is None:
            if ephemeral:
                wait = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
                return f'{wait} "{name}"'
            return is_missing(name)
        if claim.phase == "Lost":
            return (
                f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume '
                f'"{claim.volume}"'
            )
        if claim.deleting:
            return f'persistentvolumeclaim "{name}" is being deleted'
        problem = not_owned(pod, claim) if ephemeral else ""
        if problem:
            return problem
    return ""


def _stops_counting(old: CSIDriver, new: CSIDriver, pod: Pod) -> bool:
    """Whether the driver of one of the pod's inline volumes no longer publishes its capacity."""
    return old.capacity and not new.capacity and any(v.driver == new.name for v in pod.volumes)


def _has_more_room(old: CSIStorageCapacity, new: CSIStorageCapacity) -> bool:
    """Whether a pool can hold larger volumes than before."""
    before, after = limit_of(old), limit_of(new)
    return after is not None and (before is None or after > before)
