"""What spreading asks of a pod: its constraints as rules, found once for all pods that are alike.

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

MOST = 8192
"""Plans kept."""


class Rule(NamedTuple):
    """A constraint as it is for one kind of pod: which pods are counted (None: none) on which
    nodes, and whether the pod itself will count (``own``, 1 or 0)."""

    constraint: Constraint
    query: PodQuery | None
    where: Eligibility
    own: int


class SpreadPlan(NamedTuple):
    """The rules of a kind of pod: ``hard`` of DoNotSchedule, ``soft`` of ScheduleAnyway. The
    problems are what upstream says of a malformed selector, "" where there is none. ``whole`` says
    that nodes without all topology labels are neither scored nor counted for scores."""

    hard: tuple[Rule, ...] = ()
    soft: tuple[Rule, ...] = ()
    hard_problem: str = ""
    soft_problem: str = ""
    whole: bool = True


NOTHING = SpreadPlan()
"""Of pods that are not spread."""


class Plans:
    """The plans found lately. ``defaults`` are the constraints of pods that have none; ``system``
    says that they are upstream's own."""

    def __init__(self, defaults: tuple[SpreadConstraint, ...], *, system: bool) -> None:
        self._defaults = defaults
        self._system = system
        self._plans: dict[Hashable, SpreadPlan] = {}
        self._eligibilities = Eligibilities()
        self._memberships: WeakKeyDictionary[Registry, DefaultSelectors] = WeakKeyDictionary()

    def concern(self, pod: Pod) -> bool:
        """Whether a pod is spread, or may be, whatever the registry says."""
        return bool(pod.spec.spread) or (bool(self._defaults) and can_belong(pod))

    def find(self, registry: Registry, pod: Pod) -> SpreadPlan:
        """A pod's plan."""
        if not self.concern(pod):
            return NOTHING
        selector = None if pod.spec.spread else self._membership(registry).selector(registry, pod)
        if selector == ():
            return NOTHING
        key = (pod.spec.key, pod.namespace, tuple(sorted(pod.labels.items())), selector)
        found = self._plans.get(key)
        if found is None:
            if len(self._plans) >= MOST:
                self._plans.clear()
            found = self._plans[key] = self._made(pod, selector)
        return found

    def _membership(self, registry: Registry) -> DefaultSelectors:
        found = self._memberships.get(registry)
        if found is None:
            found = self._memberships[registry] = DefaultSelectors()
        return found

    def _made(self, pod: Pod, selector: Selector) -> SpreadPlan:
        """The plan of a pod's own constraints, or of the default ones for those that a selector
        selects."""
        whole = bool(pod.spec.spread) or not self._system
        hard, hard_problem = self._rules(pod, selector, DO_NOT_SCHEDULE, whole=True)
        soft, soft_problem = self._rules(pod, selector, SCHEDULE_ANYWAY, whole=whole)
        return SpreadPlan(hard, soft, hard_problem, soft_problem, whole)

    def _rules(
        self, pod: Pod, selector: Selector, action: str, *, whole: bool
    ) -> tuple[tuple[Rule, ...], str]:
        try:
            found = constraints_of(pod.spec.spread or self._defaults, pod.labels, action)
        except ValueError as problem:
            kind = "hard" if action == DO_NOT_SCHEDULE else "soft"
            return (), f"obtaining pod's {kind} topology spread constraints: {problem}"
        if selector is not None:
            found = tuple(each._replace(selector=selector) for each in found)
        labels = frozenset(each.topology_key for each in found) if whole else frozenset()
        return tuple(self._each_rule(pod, found, labels)), ""

    def _each_rule(
        self, pod: Pod, constraints: Iterable[Constraint], labels: frozenset[str]
    ) -> Iterable[Rule]:
        spec = pod.spec
        affinity = Affinity(tuple(sorted(spec.node_selector.items())), spec.required_node_terms)
        for each in constraints:
            where = self._eligibilities.one(
                labels,
                affinity if each.honors_affinity and affinity.says_anything else None,
                spec.tolerations if each.honors_taints else None,
            )
            own = int(selects(each.selector, pod.labels))
            yield Rule(each, each.query(pod.namespace), where, own)
