"""NodeVolumeLimits: a node takes as many volumes of a CSI driver as its CSINode object says.

Upstream: plugins/nodevolumelimits/csi.go. VolumeLimitScaling is off by default in v1.36: a driver
that a node does not have at all is no reason.
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
"""Code of a node without room; from 2 on a code is the number of a status in the scratch."""


class NodeVolumeLimits:
    """Filter by the number of volumes attached, per driver."""

    name = "NodeVolumeLimits"
    depends_on = DependsOn.NODE | DependsOn.USAGE
    wakes_on = (ClusterEvent.ASSIGNED_POD_DELETE,)
    wakes_on_objects = (CSINode, PersistentVolumeClaim, VolumeAttachment)

    def __init__(self) -> None:
        self._kept: Attachments | None = None

    def sign(self, pod: Pod) -> Hashable:
        """Nothing for a pod without such volumes; with them the answer is its own."""
        return None if any(_concerns(each) for each in pod.volumes) else ()

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Nothing to do for a pod without volumes of CSI drivers."""
        return None if any(_concerns(each) for each in pod.volumes) else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 where a driver's limit would be exceeded; other codes where volumes cannot be counted:
        the pod's own, or those of the pods on the node."""
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
                codes[rows] = _numbered(Status.unresolvable(str(missing)), statuses)
                continue
            except UncountableError as problem:
                codes[rows] = _numbered(Status.error(str(problem)), statuses)
                continue
            if csi and volumes:
                limited = attachments.limited[nodes.rows]
                found = self._exceeding(attachments, volumes, nodes, statuses)
                codes[limited] = found[limited]
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words."""
        if code == _FULL:
            return Status.unschedulable("node(s) exceed max volume count")
        status: Status = cycle.scratch[self.name][code - _FULL - 1]
        return status

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Limits that are new or higher; the pod's claim is there now; a pod with volumes is gone;
        a volume is no longer attached."""
        old, new = change.old_object, change.new_object
        match new or old:
            case CSINode() if isinstance(new, CSINode):
                return not isinstance(old, CSINode) or _raised(old, new)
            case PersistentVolumeClaim(namespace=namespace, name=name):
                return old is None and uses(pod, namespace, name)
            case VolumeAttachment(attacher=attacher):
                return new is None and any(_may_free(each, attacher) for each in pod.volumes)
        if change.event is ClusterEvent.ASSIGNED_POD_DELETE:
            return change.pod is None or any(_concerns(each) for each in change.pod.volumes)
        return False

    def _attachments(self, table: NodeTable, registry: Registry) -> Attachments:
        kept = self._kept
        if kept is None or kept.table is not table or kept.registry is not registry:
            kept = self._kept = Attachments(table, registry)
        kept.refresh()
        return kept

    def _exceeding(
        self, attachments: Attachments, volumes: Mapping[Unique, None], nodes: NodeView,
        statuses: list[Status],
    ) -> Int64s:  # fmt: skip
        """int64[n]: codes of the rows by the pod's volumes and the limits."""
        new: dict[str, list[Unique]] = {}
        for volume in volumes:
            new.setdefault(volume[0], []).append(volume)
        codes = np.zeros(nodes.table.size, dtype=np.int64)
        for driver, own in new.items():
            limit = attachments.limit(driver)
            if not (limit < UNLIMITED).any():
                continue
            more = np.full(len(codes), len(own), dtype=np.int64)
            for volume in own:
                more[list(attachments.holders(volume))] -= 1
            codes[(more > 0) & (attachments.attached(driver) + more > limit)] = _FULL
        for row in sorted(attachments.problems):  # the first row's is what the pod is told
            codes[row] = _numbered(Status.error(attachments.problems[row]), statuses)
        found = codes[nodes.rows]
        if isinstance(nodes, TrialView):
            for position, pods in _changed(nodes).items():
                row = int(nodes.rows[position])
                if attachments.limited[row]:
                    count = attachments.count(row, pods)
                    found[position] = self._of_count(attachments, row, count, new, statuses)
        return found

    def _of_count(
        self, attachments: Attachments, row: int, count: Count, new: Mapping[str, list[Unique]],
        statuses: list[Status],
    ) -> int:  # fmt: skip
        """The code of one row as it would be."""
        if count.problem:
            return _numbered(Status.error(count.problem), statuses)
        for driver, own in new.items():
            more = sum(volume not in count.volumes for volume in own)
            limit = int(attachments.limit(driver)[row])
            if more and count.attached.get(driver, 0) + more > limit:
                return _FULL
        return 0


def _numbered(status: Status, statuses: list[Status]) -> int:
    """The code that stands for a status."""
    if status not in statuses:
        statuses.append(status)
    return _FULL + 1 + statuses.index(status)


def _concerns(volume: PodVolume) -> bool:
    return bool(volume.claim) or volume.source == NAMELESS or volume.source in TRANSLATABLE


def _may_free(volume: PodVolume, attacher: str) -> bool:
    """Whether the end of an attachment may help a pod with this volume."""
    if volume.claim and not volume.ephemeral:
        return True
    migration = MIGRATIONS.get(volume.source)
    return migration is not None and migration.driver == attacher


def _raised(old: CSINode, new: CSINode) -> bool:
    """Whether the limit of any driver is higher; upstream takes none for 0."""
    before = {each.name: each.limit or 0 for each in old.drivers}
    return any((each.limit or 0) > before.get(each.name, 0) for each in new.drivers)


def _changed(nodes: TrialView) -> dict[int, list[Pod]]:
    """Position → its pods with volumes, where the trial changes them."""
    found: dict[int, dict[str, Any]] = {}
    for position, pod, sign in nodes.steps:
        if not pod.volumes:
            continue
        if position not in found:
            here = nodes.table.volumes.mounting(int(nodes.rows[position]))
            found[position] = {each.uid: each for each in here}
        if sign > 0:
            found[position][pod.uid] = pod
        else:
            found[position].pop(pod.uid, None)
    return {position: list(pods.values()) for position, pods in found.items()}
