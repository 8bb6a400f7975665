"""Rules that select the pods that may be evicted from a node, and further conditions.

``ByPriority`` is DefaultPreemption's rule: less important pods. Upstream:
plugins/defaultpreemption/default_preemption.go SelectVictimsOnNode, PodEligibleToPreemptOthers.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.objects import Pod
from eventsched.scheduling.cycle.dry_run import DryRun

LEAVING = "not eligible due to a terminating pod on the nominated node."


class QuotaCheck(Protocol):
    """A condition besides the filters, checked while pods are put back on one node."""

    @property
    def fits(self) -> bool:
        """Whether the preemptor may use the node if all removable pods are gone."""

    def put_back(self, pod: Pod) -> bool:
        """Whether a removable pod may stay. If so, it counts as on the node from then on."""


class VictimRule(Protocol):
    """How a plugin selects victims. ``plugin`` is recorded. If ``remembered``, outcomes also hold
    for other pods of the class and priority. If ``begins_first``, the search begins with the first
    node instead of a drawn one."""

    plugin: str
    remembered: bool
    begins_first: bool

    def obstacle(self, dry_run: DryRun, row: int) -> str:
        """Why a pod that is nominated to a row's node may not preempt now; "" if it may."""

    def rows_with_removable_pods(self, rows: Rows) -> NDArray[np.bool_] | None:
        """bool[n]: rows with removable pods; None if only ``removable`` can determine them."""

    def removable(self, dry_run: DryRun, row: int) -> tuple[list[Pod], QuotaCheck | None]:
        """The pods of a row that may be evicted, and a further condition, if there is one."""


class ByPriority:
    """Pods of lower priority may be evicted."""

    plugin = ""
    remembered = True
    begins_first = False

    def obstacle(self, dry_run: DryRun, row: int) -> str:
        """LEAVING if less important pods are already leaving the node: the pod waits for them."""
        evicting = dry_run.preemptions.evicting
        for resident in dry_run.table.residents[row].values():
            if resident.priority < dry_run.pod.priority and (
                resident.uid in evicting or (resident.deleting and resident.displaced)
            ):
                return LEAVING
        return ""

    def rows_with_removable_pods(self, rows: Rows) -> NDArray[np.bool_] | None:
        """None: every row is tried."""
        return None

    def removable(self, dry_run: DryRun, row: int) -> tuple[list[Pod], QuotaCheck | None]:
        """All pods of lower priority; no further condition."""
        limit = dry_run.pod.priority
        pods = dry_run.table.residents[row].values()
        return [pod for pod in pods if pod.priority < limit], None


BY_PRIORITY = ByPriority()
