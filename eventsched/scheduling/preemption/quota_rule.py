"""The pods that a pod may displace under ElasticQuotas.

The rule of sigs.k8s.io/scheduler-plugins, pkg/capacityscheduling/capacity_scheduling.go
SelectVictimsOnNode and PodEligibleToPreemptOthers:

- If the pod's namespace would use more than its guarantee, the pod displaces less important pods of
  its own namespace.
- Within the guarantee, it displaces pods of namespaces that borrow, also more important ones. The
  least important go first, and only as long as their namespace borrows.
- Pods without a quota displace each other by priority.

Two faults of that plugin are not copied: there, a victim that a filter and a quota both refuse ends
the dry run of its node, and one that only the quota refuses does not count as breaking a disruption
budget.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.objects import Pod, Resources
from eventsched.domain.state.parts.preemptions import Preemptions
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.quota_usage import HypotheticalUsage, Quotas, request
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.preemption.victim_rules import LEAVING, QuotaCheck
from eventsched.scheduling.preemption.victims import importance


class Demand(NamedTuple):
    """A pod's requests (upstream: PreFilterState). ``own`` is the pod alone. ``in_namespace`` adds
    the nominated pods of its namespace that are at least as important. ``in_all`` also adds the
    nominated pods of other namespaces that do not borrow."""

    own: Resources
    in_namespace: Resources
    in_all: Resources


def demand(quotas: Quotas, preemptions: Preemptions, pod: Pod) -> Demand:
    """The demand of a pod whose namespace has a quota."""
    own, usage = request(pod.spec), quotas.usage()
    in_namespace, in_all = dict(own), dict(own)
    borrows: dict[str, bool] = {}
    for node in preemptions.nodes():
        for uid, nominated in preemptions.on(node).items():
            namespace = nominated.namespace
            if uid == pod.uid or quotas.of(namespace) is None:
                continue
            if namespace == pod.namespace:
                if nominated.priority >= pod.priority:
                    _add(in_namespace, request(nominated.spec))
                    _add(in_all, request(nominated.spec))
                continue
            if namespace not in borrows:
                borrows[namespace] = usage.is_over_min(namespace)
            if not borrows[namespace]:
                _add(in_all, request(nominated.spec))
    return Demand(own, in_namespace, in_all)


def _add(total: Resources, more: Resources) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


class ByQuota:
    """The rule for one attempt of a pod. ``wanted`` is None if its namespace has no quota."""

    remembered = False
    begins_first = True

    def __init__(self, plugin: str, quotas: Quotas, pod: Pod, wanted: Demand | None) -> None:
        self.plugin = plugin
        self._quotas, self._pod, self._wanted = quotas, pod, wanted
        self.borrows = wanted is not None and quotas.usage().is_over_min_with(
            pod.namespace, wanted.in_namespace
        )
        """Whether the namespace would use more than its guarantee."""
        self._by_row: dict[int, list[PodState]] | None = None

    def obstacle(self, dry_run: DryRun, row: int) -> str:
        """LEAVING if a pod that this one may displace is already leaving the node."""
        evicting = dry_run.preemptions.evicting
        leaving = (
            resident
            for resident in dry_run.table.residents[row].values()
            if resident.deleting or resident.uid in evicting
        )
        return LEAVING if any(self._may_displace(resident) for resident in leaving) else ""

    def rows_with_removable_pods(self, rows: Rows) -> NDArray[np.bool_] | None:
        """The rows with pods that may be displaced; None if the pod has no quota."""
        if self._wanted is None:
            return None
        return np.isin(rows, np.array(list(self._states_by_row()), dtype=np.intp))

    def removable(self, dry_run: DryRun, row: int) -> tuple[list[Pod], QuotaCheck | None]:
        """The pods to evict, with the check of the quotas. A namespace that borrows loses pods only
        until it no longer borrows."""
        if self._wanted is None:
            pods = dry_run.table.residents[row].values()
            return [pod for pod in pods if self._may_displace(pod)], None
        usage = self._quotas.usage()
        removable = []
        for state in self._states_by_row().get(row, ()):
            if self.borrows or usage.is_over_min(state.pod.namespace):
                usage.remove(state.pod)
                removable.append(state.pod)
        # Oldest booking first: the sort by importance keeps that order among equal pods, and the
        # first pod is reprieved first.
        removable.reverse()
        check = _Check(usage, self._pod.namespace, self._wanted, own_leave=self.borrows)
        return removable, check

    def _may_displace(self, other: Pod) -> bool:
        quota = self._quotas.of(other.namespace)
        is_less = other.priority < self._pod.priority
        if self._wanted is None or quota is None:
            return self._wanted is None and quota is None and is_less
        if other.namespace == self._pod.namespace:
            # As upstream, this holds even if the namespace stays within its guarantee.
            return is_less
        return not self.borrows and self._quotas.usage().is_over_min(other.namespace)

    def _states_by_row(self) -> dict[int, list[PodState]]:
        """Row → the pods that may be displaced, the least important first."""
        if self._by_row is None:
            self._by_row = {}
            for state in self._candidates():
                if state.row >= 0:
                    self._by_row.setdefault(state.row, []).append(state)
            for states in self._by_row.values():
                states.sort(
                    key=lambda state: (*importance(state.pod), state.booking_order), reverse=True
                )
        return self._by_row

    def _candidates(self) -> list[PodState]:
        own, limit = self._pod.namespace, self._pod.priority
        if self.borrows:
            namespace_usage = self._quotas.usage_of(own)
            if min(namespace_usage.priorities, default=limit) >= limit:
                return []
            return [
                state for state in namespace_usage.members.values() if state.pod.priority < limit
            ]
        usage = self._quotas.usage()
        return [
            state
            for namespace in self._quotas.namespaces()
            if namespace != own and usage.is_over_min(namespace)
            for state in self._quotas.usage_of(namespace).members.values()
        ]


class _Check:
    """Checks the quotas while the pods of one node are put back."""

    def __init__(
        self, usage: HypotheticalUsage, namespace: str, wanted: Demand, *, own_leave: bool
    ) -> None:
        self._usage, self._namespace, self._wanted = usage, namespace, wanted
        self._own_leave = own_leave
        """Whether the removable pods belong to the preemptor's namespace. Pods of other namespaces
        do not change its usage."""
        self._is_over_max: bool | None = None

    @property
    def fits(self) -> bool:
        own = self._wanted.own
        return not (
            self._usage.is_over_max_with(self._namespace, own) or self._usage.is_over_all_with(own)
        )

    def put_back(self, pod: Pod) -> bool:
        wanted = self._wanted
        self._usage.put_back(pod)
        if self._own_leave or self._is_over_max is None:
            self._is_over_max = self._usage.is_over_max_with(self._namespace, wanted.in_namespace)
        if self._is_over_max or self._usage.is_over_all_with(wanted.in_all):
            self._usage.remove(pod)
            return False
        return True
