"""Which pods cannot be evicted without breaking a disruption budget.

Upstream: plugins/defaultpreemption/default_preemption.go filterPodsWithPDBViolation.
"""

from collections.abc import Sequence

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import PodDisruptionBudget, Registry
from eventsched.domain.objects.selectors import selects


class Budgets:
    """The cluster's disruption budgets, as they are now."""

    def __init__(self, registry: Registry) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for each in registry.all(PodDisruptionBudget).values():
            if each.selector:  # without a selector, or with an empty one, it is about no pod
                self._by_namespace.setdefault(each.namespace, []).append(each)

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Pods that break a budget when they go from a node one after the other, and the rest, both
        in the order given. A pod without labels is in no budget; one that a budget counts as
        disrupted already costs it nothing."""
        if not self._by_namespace:
            return [], list(pods)
        left: dict[tuple[str, str], int] = {}
        breaking: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            (breaking if self._breaks(pod, left) else others).append(pod)
        return breaking, others

    def _breaks(self, pod: Pod, left: dict[tuple[str, str], int]) -> bool:
        """Counts a pod against all of its budgets (``left``: what they still allow)."""
        broken = False
        for each in self._by_namespace.get(pod.namespace, ()) if pod.labels else ():
            if pod.name in each.disrupted or not selects(each.selector, pod.labels):
                continue
            key = each.namespace, each.name
            left[key] = left.get(key, each.allowed) - 1
            broken = broken or left[key] < 0
        return broken
