"""Topology spread constraints as they apply to a pod.

Upstream: plugins/podtopologyspread/common.go.
"""

from collections.abc import Iterable, Mapping
from decimal import Context
from functools import lru_cache
from typing import NamedTuple

from eventsched.domain.nodes.pod_counts import PodQuery
from eventsched.domain.objects import Requirement, Selector, SpreadConstraint
from eventsched.domain.objects.selectors import flaw
from eventsched.scheduling.config.pluginargs import DefaultConstraint

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HONOR = "Honor"

_DECIMALS = Context(prec=30)


class Constraint(NamedTuple):
    """A constraint with a known whenUnsatisfiable: its selector, completed from matchLabelKeys and
    in a canonical order, and whether the pod's node affinity and tolerations exclude nodes."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def query(self, namespace: str) -> PodQuery | None:
        """The query for the pods on nodes that count; None if none does: upstream counts none for
        an empty selector, although that selects everything."""
        if not self.selector:
            return None
        return PodQuery(frozenset((namespace,)), self.selector, terminating=False)


SYSTEM = (
    SpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    SpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
)
"""The constraints of pods that have none, unless the configuration sets others (upstream: plugin.go
systemDefaultConstraints)."""


def listed(defaults: Iterable[DefaultConstraint]) -> tuple[SpreadConstraint, ...]:
    """The configuration's own default constraints."""
    return tuple(
        SpreadConstraint(
            max_skew=constraint.max_skew,
            topology_key=constraint.topology_key,
            when_unsatisfiable=constraint.when_unsatisfiable,
            min_domains=constraint.min_domains,
            node_affinity_policy=HONOR
            if constraint.node_affinity_policy is None
            else constraint.node_affinity_policy,
            node_taints_policy=constraint.node_taints_policy or "Ignore",
        )
        for constraint in defaults
    )


def constraints_of(
    constraints: Iterable[SpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    """The constraints with this whenUnsatisfiable, for a pod with these labels. Unknown values of
    whenUnsatisfiable match no action. Raises ValueError, in upstream's words, if a selector among
    them is malformed."""
    completed = []
    for constraint in constraints:
        if constraint.when_unsatisfiable != action:
            continue
        problem = flaw(constraint.selector)
        if problem:
            raise ValueError(problem)
        completed.append(
            Constraint(
                constraint.max_skew,
                constraint.topology_key,
                _completed(constraint, labels),
                1 if constraint.min_domains is None else constraint.min_domains,
                constraint.node_affinity_policy == HONOR,
                constraint.node_taints_policy == HONOR,
            )
        )
    return tuple(completed)


def _completed(constraint: SpreadConstraint, labels: Mapping[str, str]) -> Selector:
    if constraint.selector is None:
        return None
    label_requirements = (
        Requirement(key=key, operator="In", values=(labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    return canonical((*constraint.selector, *label_requirements))


def canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """A selector in canonical form: selectors that differ only in order become equal and share
    their counts."""
    ordered = {
        (requirement.key, requirement.operator, tuple(sorted(set(requirement.values)))): None
        for requirement in requirements
    }
    return tuple(Requirement(key=k, operator=o, values=v) for k, o, v in sorted(ordered))


@lru_cache(maxsize=8192)
def size_weight(domains: int) -> float:
    """The weight of a pod in a topology with this many domains. It grows with their number,
    because counts per domain shrink (upstream: scoring.go topologyNormalizingWeight). The
    logarithm is correctly rounded, so it is the same on every machine."""
    return float(_DECIMALS.ln(domains + 2))
