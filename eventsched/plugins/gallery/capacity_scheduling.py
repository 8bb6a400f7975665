"""CapacityScheduling: guarantees resources to namespaces, which lend what they do not use.

An ElasticQuota (scheduling.x-k8s.io/v1alpha1) guarantees ``min`` to its namespace and allows up to
``max``, as long as all namespaces with quotas together use at most the sum of their ``min``. A
namespace that needs what it has lent preempts pods of the borrowers. The rules are those of
sigs.k8s.io/scheduler-plugins, pkg/capacityscheduling. The usage is read from the state
(domain/state/quota_usage.py), which counts reservations, so the plugin keeps no state.
"""

from collections.abc import Hashable

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import ElasticQuota
from eventsched.domain.state.quota_usage import request
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    NodeView,
    PostFilterResult,
    Status,
)
from eventsched.scheduling.preemption.evaluator import preempt
from eventsched.scheduling.preemption.quota_rule import ByQuota, Demand, demand

_PERCENTAGE, _ABSOLUTE = 10, 100
"""Preemption candidates to compare: a percentage of all nodes, and a minimum."""


class CapacityScheduling:
    """PreFilter refuses pods beyond their quota; PostFilter chooses victims by quota. A reservation
    counts as usage, so Reserve does nothing."""

    name = "CapacityScheduling"
    reads_objects = (ElasticQuota,)
    wakes_on = (
        ClusterEvent.ASSIGNED_POD_DELETE,
        ClusterEvent.ASSIGNED_POD_UPDATE,
        ClusterEvent.POD_UPDATE,
    )
    wakes_on_objects = (ElasticQuota,)
    replaces = "DefaultPreemption"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """The reason, in upstream's words."""
        reason = self._refusal(cycle, pod, self._demand(cycle, pod))
        return Status.unschedulable(reason) if reason else None

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Judgement) -> PostFilterResult:
        """The node and its victims, or why there are none. Compares as many candidates as
        DefaultPreemption does by default, starting at the first node. Raises PluginError if a
        filter fails."""
        rule = ByQuota(self.name, cycle.quotas, pod, self._demand(cycle, pod))
        return preempt(refused, _PERCENTAGE, _ABSOLUTE, rule)

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Does nothing: the state already counts the reservation."""

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Whether the pod passes now, or may preempt others now. (Upstream wakes it for every
        deleted pod.)"""
        if change.event is ClusterEvent.POD_UPDATE:
            return change.old_pod is None or request(change.old_pod.spec) != request(pod.spec)
        if change.event is ClusterEvent.ASSIGNED_POD_UPDATE and not _is_resized(change):
            return False
        demanded = self._demand(cycle, pod)
        if not self._refusal(cycle, pod, demanded):
            return True
        changed = change.pod or change.new_object or change.old_object
        if changed is None or changed.namespace == pod.namespace:
            return True
        return not ByQuota(self.name, cycle.quotas, pod, demanded).borrows

    def hint_sign(self, pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.namespace, pod.priority, pod.spec.key

    def _demand(self, cycle: Cycle, pod: Pod) -> Demand | None:
        if cycle.quotas.of(pod.namespace) is None:
            return None
        return demand(cycle.quotas, cycle.preemptions, pod)

    def _refusal(self, cycle: Cycle, pod: Pod, demanded: Demand | None) -> str:
        """Why the quotas do not allow the pod, "" if they do."""
        if demanded is None:
            return ""
        usage = cycle.quotas.usage()
        where = f"Pod {pod.full_name} is rejected in PreFilter because"
        if usage.is_over_max_with(pod.namespace, demanded.in_namespace):
            return f"{where} ElasticQuota {pod.namespace} is more than Max"
        if usage.is_over_all_with(demanded.in_all):
            return f"{where} total ElasticQuota used is more than min"
        return ""


def _is_resized(change: Change) -> bool:
    old, new = change.old_pod, change.pod
    return old is None or new is None or request(old.spec) != request(new.spec)
