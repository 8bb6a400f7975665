"""A pod's spread constraints as rules, computed once for all pods that are alike.

Upstream: plugins/podtopologyspread/plugin.go getConstraints, common.go buildDefaultConstraints.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from eventsched.domain.nodes.pod_counts import PodQuery
from eventsched.domain.objects import Pod, Selector, SpreadConstraint
from eventsched.domain.objects.registry import Registry
from eventsched.domain.objects.selectors import selects
from eventsched.scheduling.config.pluginargs import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY
from eventsched.scheduling.rules.topology.eligibility import Affinity, Eligibilities, Eligibility
from eventsched.scheduling.rules.topology.membership import DefaultSelectors, can_belong
from eventsched.scheduling.rules.topology.spreading import Constraint, constraints_of

MAX_PLANS = 8192
"""The most plans cached."""


class Rule(NamedTuple):
    """A constraint as it applies to one kind of pod: which pods are counted (None: none) on which
    nodes, and whether the pod itself will count (``own``, 1 or 0)."""

    constraint: Constraint
    query: PodQuery | None
    where: Eligibility
    own: int


class SpreadPlan(NamedTuple):
    """The rules of a kind of pod: ``hard`` of DoNotSchedule, ``soft`` of ScheduleAnyway. The
    problems are upstream's messages about a malformed selector, or "". ``whole`` means that nodes
    without all topology labels are neither scored nor counted for scores."""

    hard: tuple[Rule, ...] = ()
    soft: tuple[Rule, ...] = ()
    hard_problem: str = ""
    soft_problem: str = ""
    whole: bool = True


NOTHING = SpreadPlan()
"""The plan of pods that are not spread."""


class Plans:
    """A cache of plans. ``defaults`` are the constraints of pods that have none; ``system`` means
    that they are upstream's own."""

    def __init__(self, defaults: tuple[SpreadConstraint, ...], *, system: bool) -> None:
        self._defaults = defaults
        self._system = system
        self._plans: dict[Hashable, SpreadPlan] = {}
        self._eligibilities = Eligibilities()
        self._memberships: WeakKeyDictionary[Registry, DefaultSelectors] = WeakKeyDictionary()

    def concern(self, pod: Pod) -> bool:
        """Whether a pod is or may be spread, whatever the registry holds."""
        return bool(pod.spec.spread) or (bool(self._defaults) and can_belong(pod))

    def find(self, registry: Registry, pod: Pod) -> SpreadPlan:
        """A pod's plan."""
        if not self.concern(pod):
            return NOTHING
        selector = None if pod.spec.spread else self._membership(registry).selector(registry, pod)
        if selector == ():
            return NOTHING
        key = (pod.spec.key, pod.namespace, tuple(sorted(pod.labels.items())), selector)
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
            plan = self._plans[key] = self._make(pod, selector)
        return plan

    def _membership(self, registry: Registry) -> DefaultSelectors:
        membership = self._memberships.get(registry)
        if membership is None:
            membership = self._memberships[registry] = DefaultSelectors()
        return membership

    def _make(self, pod: Pod, selector: Selector) -> SpreadPlan:
        """The plan of a pod's own constraints, or of the default ones for the pods that a selector
        selects."""
        whole = bool(pod.spec.spread) or not self._system
        hard, hard_problem = self._rules(pod, selector, DO_NOT_SCHEDULE, whole=True)
        soft, soft_problem = self._rules(pod, selector, SCHEDULE_ANYWAY, whole=whole)
        return SpreadPlan(hard, soft, hard_problem, soft_problem, whole)

    def _rules(
        self, pod: Pod, selector: Selector, action: str, *, whole: bool
    ) -> tuple[tuple[Rule, ...], str]:
        try:
            constraints = constraints_of(pod.spec.spread or self._defaults, pod.labels, action)
        except ValueError as problem:
            kind = "hard" if action == DO_NOT_SCHEDULE else "soft"
            return (), f"obtaining pod's {kind} topology spread constraints: {problem}"
        if selector is not None:
            constraints = tuple(
                constraint._replace(selector=selector) for constraint in constraints
            )
        labels = (
            frozenset(constraint.topology_key for constraint in constraints)
            if whole
            else frozenset()
        )
        return tuple(self._constraint_rules(pod, constraints, labels)), ""

    def _constraint_rules(
        self, pod: Pod, constraints: Iterable[Constraint], labels: frozenset[str]
    ) -> Iterable[Rule]:
        spec = pod.spec
        affinity = Affinity(tuple(sorted(spec.node_selector.items())), spec.required_node_terms)
        for constraint in constraints:
            where = self._eligibilities.one(
                labels,
                affinity if constraint.honors_affinity and affinity.says_anything else None,
                spec.tolerations if constraint.honors_taints else None,
            )
            own = int(selects(constraint.selector, pod.labels))
            yield Rule(constraint, constraint.query(pod.namespace), where, own)
