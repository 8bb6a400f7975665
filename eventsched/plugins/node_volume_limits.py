"""NodeVolumeLimits: the CSINode object limits the volumes of each CSI driver on a node.

Upstream: plugins/nodevolumelimits/csi.go. VolumeLimitScaling is off by default in v1.36: a driver
that the node lacks does not refuse the pod.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import TrialView
from eventsched.domain.objects import Pod, PodVolume
from eventsched.domain.objects.registry import (
    CSINode,
    PersistentVolumeClaim,
    Registry,
    VolumeAttachment,
)
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Status,
)
from eventsched.scheduling.rules.volumes.attachments import UNLIMITED, Attachments, Count
from eventsched.scheduling.rules.volumes.claims import NAMELESS, uses
from eventsched.scheduling.rules.volumes.csi_migration import MIGRATIONS, TRANSLATABLE
from eventsched.scheduling.rules.volumes.csi_volumes import (
    MissingClaimError,
    UncountableError,
    Unique,
    VolumeReader,
)

Int64s = NDArray[np.int64]

_FULL = 1
"""The code if a limit is exceeded. Codes from 2 on are indices of statuses in the scratch."""


class NodeVolumeLimits:
    """Filter by the number of attached volumes of each driver."""

    name = "NodeVolumeLimits"
    depends_on = DependsOn.NODE | DependsOn.USAGE
    wakes_on = (ClusterEvent.ASSIGNED_POD_DELETE,)
    wakes_on_objects = (CSINode, PersistentVolumeClaim, VolumeAttachment)

    def __init__(self) -> None:
        self._cached: Attachments | None = None

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods without such volumes; None for pods with them."""
        return None if any(_may_be_csi(volume) for volume in pod.volumes) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips a pod without volumes of CSI drivers."""
        return None if any(_may_be_csi(volume) for volume in pod.volumes) else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 if a driver's limit would be exceeded. Other codes if volumes cannot be counted: the
        pod's own, or those of the pods on the node."""
        statuses: list[Status] = cycle.scratch.setdefault(self.name, [])
        attachments = self._attachments(nodes.table, cycle.registry)
        known = attachments.known[nodes.rows]
        codes = np.zeros(len(nodes), dtype=np.int64)
        for csi in (True, False):
            rows = known if csi else ~known
            if not rows.any():
                continue
            try:
                volumes = VolumeReader(cycle.registry, csi=csi).volumes(pod, new=True)
            except MissingClaimError as missing:
                codes[rows] = _code_of(Status.unresolvable(str(missing)), statuses)
                continue
            except UncountableError as problem:
                codes[rows] = _code_of(Status.error(str(problem)), statuses)
                continue
            if csi and volumes:
                limited = attachments.limited[nodes.rows]
                exceeded = self._exceeded_limits(attachments, volumes, nodes, statuses)
                codes[limited] = exceeded[limited]
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        if code == _FULL:
            return Status.unschedulable("node(s) exceed max volume count")
        status: Status = cycle.scratch[self.name][code - _FULL - 1]
        return status

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True for a new or higher limit, the pod's new claim, a deleted pod with volumes, or a
        detached volume."""
        old, new = change.old_object, change.new_object
        match new or old:
            case CSINode() if isinstance(new, CSINode):
                return not isinstance(old, CSINode) or _has_higher_limit(old, new)
            case PersistentVolumeClaim(namespace=namespace, name=name):
                return old is None and uses(pod, namespace, name)
            case VolumeAttachment(attacher=attacher):
                return new is None and any(_may_free(volume, attacher) for volume in pod.volumes)
        if change.event is ClusterEvent.ASSIGNED_POD_DELETE:
            return change.pod is None or any(_may_be_csi(volume) for volume in change.pod.volumes)
        return False

    def _attachments(self, table: NodeTable, registry: Registry) -> Attachments:
        cached = self._cached
        if cached is None or cached.table is not table or cached.registry is not registry:
            cached = self._cached = Attachments(table, registry)
        cached.refresh()
        return cached

    def _exceeded_limits(
        self, attachments: Attachments, volumes: Mapping[Unique, None], nodes: NodeView,
        statuses: list[Status],
    ) -> Int64s:  # fmt: skip
        """int64[n]: the codes of the rows for the pod's volumes."""
        new: dict[str, list[Unique]] = {}
        for volume in volumes:
            new.setdefault(volume[0], []).append(volume)
        codes = np.zeros(nodes.table.size, dtype=np.int64)
        for driver, own_volumes in new.items():
            limit = attachments.limit(driver)
            if not (limit < UNLIMITED).any():
                continue
            added = np.full(len(codes), len(own_volumes), dtype=np.int64)
            for volume in own_volumes:
                added[list(attachments.holders(volume))] -= 1
            codes[(added > 0) & (attachments.attached(driver) + added > limit)] = _FULL
        for row in sorted(attachments.problems):  # the message shows the first row's
            codes[row] = _code_of(Status.error(attachments.problems[row]), statuses)
        view_codes = codes[nodes.rows]
        if isinstance(nodes, TrialView):
            for position, pods in _changed_rows(nodes).items():
                row = int(nodes.rows[position])
                if attachments.limited[row]:
                    count = attachments.count(row, pods)
                    view_codes[position] = self._trial_code(attachments, row, count, new, statuses)
        return view_codes

    def _trial_code(
        self, attachments: Attachments, row: int, count: Count, new: Mapping[str, list[Unique]],
        statuses: list[Status],
    ) -> int:  # fmt: skip
        """The code of one row of a trial."""
        if count.problem:
            return _code_of(Status.error(count.problem), statuses)
        for driver, own_volumes in new.items():
            added = sum(volume not in count.volumes for volume in own_volumes)
            limit = int(attachments.limit(driver)[row])
            if added and count.attached.get(driver, 0) + added > limit:
                return _FULL
        return 0


def _code_of(status: Status, statuses: list[Status]) -> int:
    """The code of a status."""
    if status not in statuses:
        statuses.append(status)
    return _FULL + 1 + statuses.index(status)


def _may_be_csi(volume: PodVolume) -> bool:
    return bool(volume.claim) or volume.source == NAMELESS or volume.source in TRANSLATABLE


def _may_free(volume: PodVolume, attacher: str) -> bool:
    """Whether a detachment may help a pod with this volume."""
    if volume.claim and not volume.ephemeral:
        return True
    migration = MIGRATIONS.get(volume.source)
    return migration is not None and migration.driver == attacher


def _has_higher_limit(old: CSINode, new: CSINode) -> bool:
    """Whether a driver's limit has grown. As upstream, no limit counts as 0."""
    before = {driver.name: driver.limit or 0 for driver in old.drivers}
    return any((driver.limit or 0) > before.get(driver.name, 0) for driver in new.drivers)


def _changed_rows(nodes: TrialView) -> dict[int, list[Pod]]:
    """Position → the pods with volumes, for the rows where the trial changes them."""
    pods_at: dict[int, dict[str, Any]] = {}
    for position, pod, sign in nodes.steps:
        if not pod.volumes:
            continue
        if position not in pods_at:
            here = nodes.table.volumes.mounting(int(nodes.rows[position]))
            pods_at[position] = {other.uid: other for other in here}
        if sign > 0:
            pods_at[position][pod.uid] = pod
        else:
            pods_at[position].pop(pod.uid, None)
    return {position: list(pods.values()) for position, pods in pods_at.items()}
