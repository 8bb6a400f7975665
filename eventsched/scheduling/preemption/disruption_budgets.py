"""Which pods cannot be evicted without breaking a disruption budget.

Upstream: plugins/defaultpreemption/default_preemption.go filterPodsWithPDBViolation.
"""

from collections.abc import Sequence

from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import PodDisruptionBudget, Registry
from eventsched.domain.objects.selectors import selects


class DisruptionBudgets:
    """The cluster's current disruption budgets."""

    def __init__(self, registry: Registry) -> None:
        self._by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for budget in registry.all(PodDisruptionBudget).values():
            if budget.selector:  # a missing or empty selector selects no pod
                self._by_namespace.setdefault(budget.namespace, []).append(budget)

    def split(self, pods: Sequence[Pod]) -> tuple[list[Pod], list[Pod]]:
        """Splits pods that are evicted one after the other into those that break a budget and the
        rest, both in the order of ``pods``. No budget covers a pod without labels. A pod that a
        budget already counts as disrupted does not count again."""
        if not self._by_namespace:
            return [], list(pods)
        left: dict[tuple[str, str], int] = {}
        breaking: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            (breaking if self._breaks(pod, left) else others).append(pod)
        return breaking, others

    def _breaks(self, pod: Pod, left: dict[tuple[str, str], int]) -> bool:
        """Counts a pod against all of its budgets; whether it breaks one. ``left`` is the number of
        evictions that each still allows."""
        broken = False
        for budget in self._by_namespace.get(pod.namespace, ()) if pod.labels else ():
            if pod.name in budget.disrupted or not selects(budget.selector, pod.labels):
                continue
            key = budget.namespace, budget.name
            left[key] = left.get(key, budget.allowed) - 1
            broken = broken or left[key] < 0
        return broken
