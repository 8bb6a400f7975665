"""The pods that a pod may displace under ElasticQuotas.

The rule of sigs.k8s.io/scheduler-plugins, pkg/capacityscheduling/capacity_scheduling.go
SelectVictimsOnNode and PodEligibleToPreemptOthers: a pod whose namespace would use more than it is
guaranteed displaces less important pods of its namespace; one within the guarantee displaces pods
of namespaces that borrow, also more important ones, the least important first, as long as they
borrow; pods without a quota displace each other by priority. Two faults of that plugin are not
copied: there, a victim that a filter and a quota both refuse ends the dry run of its node, and one
that only the quota refuses does not count as breaking a disruption budget.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.objects import Pod, Resources
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.preemptions import Preemptions
from eventsched.domain.state.quota_usage import HypotheticalUsage, Quotas, request
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.preemption.victim_rules import LEAVING, QuotaCheck
from eventsched.scheduling.preemption.victims import importance


class Demand(NamedTuple):
    """What a pod asks for: itself; with the pods of its namespace that are nominated to nodes and
    at least as important; with pods of other namespaces as well that are nominated and do not
    borrow (upstream: PreFilterState)."""

    own: Resources
    in_namespace: Resources
    in_all: Resources


def demand(quotas: Quotas, preemptions: Preemptions, pod: Pod) -> Demand:
    """The demand of a pod whose namespace has a quota."""
    own, usage = request(pod.spec), quotas.usage()
    in_namespace, in_all = dict(own), dict(own)
    borrows: dict[str, bool] = {}
    for node in preemptions.nodes():
        for uid, each in preemptions.on(node).items():
            namespace = each.namespace
            if uid == pod.uid or quotas.of(namespace) is None:
                continue
            if namespace == pod.namespace:
                if each.priority >= pod.priority:
                    _add(in_namespace, request(each.spec))
                    _add(in_all, request(each.spec))
                continue
            if namespace not in borrows:
                borrows[namespace] = usage.is_over_min(namespace)
            if not borrows[namespace]:
                _add(in_all, request(each.spec))
    return Demand(own, in_namespace, in_all)


def _add(total: Resources, more: Resources) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


class ByQuota:
    """The rule for one attempt of one pod; ``wanted`` is None if its namespace has no quota."""

    remembered = False
    begins_first = True

    def __init__(self, plugin: str, quotas: Quotas, pod: Pod, wanted: Demand | None) -> None:
        self.plugin = plugin
        self._quotas, self._pod, self._wanted = quotas, pod, wanted
        self.borrows = wanted is not None and quotas.usage().is_over_min_with(
            pod.namespace, wanted.in_namespace
        )
        """Whether the namespace would use more than it is guaranteed."""
        self._by_row: dict[int, list[PodState]] | None = None

    def obstacle(self, dry_run: DryRun, row: int) -> str:
        """A pod that is leaving the node, of those that this one may displace."""
        evicting = dry_run.preemptions.evicting
        leaving = (
            each
            for each in dry_run.table.residents[row].values()
            if each.deleting or each.uid in evicting
        )
        return LEAVING if any(self._may_displace(each) for each in leaving) else ""

    def narrowed(self, rows: Rows) -> NDArray[np.bool_] | None:
        """The rows of the namespaces that come into question."""
        if self._wanted is None:
            return None
        return np.isin(rows, np.array(list(self._rows()), dtype=np.intp))

    def removable(self, dry_run: DryRun, row: int) -> tuple[list[Pod], QuotaCheck | None]:
        """Of a namespace that borrows only so many that it does not borrow any more."""
        if self._wanted is None:
            pods = dry_run.table.residents[row].values()
            return [pod for pod in pods if self._may_displace(pod)], None
        usage = self._quotas.usage()
        found = []
        for state in self._rows().get(row, ()):
            if self.borrows or usage.is_over_min(state.pod.namespace):
                usage.take(state.pod)
                found.append(state.pod)
        found.reverse()  # among equals the one that came first is put back first
        return found, _Check(usage, self._pod.namespace, self._wanted, own_leave=self.borrows)

    def _may_displace(self, other: Pod) -> bool:
        quota = self._quotas.of(other.namespace)
        is_less = other.priority < self._pod.priority
        if self._wanted is None or quota is None:
            return self._wanted is None and quota is None and is_less
        if other.namespace == self._pod.namespace:
            # Upstream waits for such a pod on the nominated node also within the guarantee.
            return is_less
        return not self.borrows and self._quotas.usage().is_over_min(other.namespace)

    def _rows(self) -> dict[int, list[PodState]]:
        """The pods that may have to leave by row, the least important first."""
        if self._by_row is None:
            self._by_row = {}
            for state in self._candidates():
                if state.row >= 0:
                    self._by_row.setdefault(state.row, []).append(state)
            for states in self._by_row.values():
                states.sort(
                    key=lambda each: (*importance(each.pod), each.booking_order), reverse=True
                )
        return self._by_row

    def _candidates(self) -> list[PodState]:
        own, limit = self._pod.namespace, self._pod.priority
        if self.borrows:
            space = self._quotas.space(own)
            if min(space.priorities, default=limit) >= limit:
                return []
            return [each for each in space.members.values() if each.pod.priority < limit]
        usage = self._quotas.usage()
        return [
            state
            for namespace in self._quotas.namespaces()
            if namespace != own and usage.is_over_min(namespace)
            for state in self._quotas.space(namespace).members.values()
        ]


class _Check:
    """The quotas while pods of one node are put back."""

    def __init__(
        self, usage: HypotheticalUsage, namespace: str, wanted: Demand, *, own_leave: bool
    ) -> None:
        self._usage, self._namespace, self._wanted = usage, namespace, wanted
        self._own_leave = own_leave
        """Whether the pods are of the namespace itself: those of others do not change what it
        uses."""
        self._is_over_max: bool | None = None

    @property
    def fits(self) -> bool:
        own = self._wanted.own
        return not (
            self._usage.is_over_max_with(self._namespace, own) or self._usage.is_over_all_with(own)
        )

    def put_back(self, pod: Pod) -> bool:
        wanted = self._wanted
        self._usage.take(pod, -1)
        if self._own_leave or self._is_over_max is None:
            self._is_over_max = self._usage.is_over_max_with(self._namespace, wanted.in_namespace)
        if self._is_over_max or self._usage.is_over_all_with(wanted.in_all):
            self._usage.take(pod)
            return False
        return True
