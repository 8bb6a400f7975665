"""Which pods of a node may have to leave it for a pod, and what else has to hold then.

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
    """What a rule says of one node beyond its filters, while pods are put back there."""

    @property
    def fits(self) -> bool:
        """Whether the pod may come to the node once all that may have to leave are gone."""

    def put_back(self, pod: Pod) -> bool:
        """Whether one of them may stay; from then on it counts as being there."""


class VictimRule(Protocol):
    """How a plugin chooses victims. ``plugin`` stands in the record; ``remembered`` says that
    trials hold for other pods of the class and priority; ``begins_first`` that trials
    begin with the first node, and not with a drawn one."""

    plugin: str
    remembered: bool
    begins_first: bool

    def obstacle(self, trials: DryRun, row: int) -> str:
        """Why a pod that is nominated to a row's node may not preempt now; "" if it may."""

    def narrowed(self, rows: Rows) -> NDArray[np.bool_] | None:
        """bool[n]: rows with pods that may have to leave; None if that is found row by row."""

    def removable(self, trials: DryRun, row: int) -> tuple[list[Pod], QuotaCheck | None]:
        """The pods of a row that may have to leave, and what is checked besides."""


class ByPriority:
    """Less important pods may have to leave."""

    plugin = ""
    remembered = True
    begins_first = False

    def obstacle(self, trials: DryRun, row: int) -> str:
        """Pods that are on their way already have to be waited for."""
        evicting = trials.preemptions.evicting
        for each in trials.table.residents[row].values():
            if each.priority < trials.pod.priority and (
                each.uid in evicting or (each.deleting and each.displaced)
            ):
                return LEAVING
        return ""

    def narrowed(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Every row is looked at."""
        return None

    def removable(self, trials: DryRun, row: int) -> tuple[list[Pod], QuotaCheck | None]:
        """All of lower priority."""
        limit = trials.pod.priority
        pods = trials.table.residents[row].values()
        return [pod for pod in pods if pod.priority < limit], None


BY_PRIORITY = ByPriority()
