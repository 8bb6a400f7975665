"""Topology spread constraints as they are applied to a pod.

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
    """A constraint of which whenUnsatisfiable is known: its selector, completed from
    matchLabelKeys and in a canonical order, and whether the pod's node affinity and tolerations
    leave out nodes."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def query(self, namespace: str) -> PodQuery | None:
        """The pods that are counted of those on nodes; None where none is: upstream passes over
        them for an empty selector, although that selects everything."""
        if not self.selector:
            return None
        return PodQuery(frozenset((namespace,)), self.selector, terminating=False)


SYSTEM = (
    SpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    SpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
)
"""What pods without constraints get unless the configuration says otherwise (upstream: plugin.go
systemDefaultConstraints)."""


def listed(given: Iterable[DefaultConstraint]) -> tuple[SpreadConstraint, ...]:
    """The configuration's own default constraints."""
    return tuple(
        SpreadConstraint(
            max_skew=each.max_skew,
            topology_key=each.topology_key,
            when_unsatisfiable=each.when_unsatisfiable,
            min_domains=each.min_domains,
            node_affinity_policy=HONOR
            if each.node_affinity_policy is None
            else each.node_affinity_policy,
            node_taints_policy=each.node_taints_policy or "Ignore",
        )
        for each in given
    )


def constraints_of(
    given: Iterable[SpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    """The constraints with that whenUnsatisfiable, for a pod of these labels; one that upstream
    does not know belongs to none. Raises ValueError, in upstream's words, for a malformed selector
    among them."""
    found = []
    for each in given:
        if each.when_unsatisfiable != action:
            continue
        problem = flaw(each.selector)
        if problem:
            raise ValueError(problem)
        found.append(
            Constraint(
                each.max_skew,
                each.topology_key,
                _completed(each, labels),
                1 if each.min_domains is None else each.min_domains,
                each.node_affinity_policy == HONOR,
                each.node_taints_policy == HONOR,
            )
        )
    return tuple(found)


def _completed(constraint: SpreadConstraint, labels: Mapping[str, str]) -> Selector:
    if constraint.selector is None:
        return None
    same = (
        Requirement(key=key, operator="In", values=(labels[key],))
        for key in constraint.match_label_keys
        if key in labels
    )
    return canonical((*constraint.selector, *same))


def canonical(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """A selector in the one form for all that say the same in another order, so that they share
    their counts."""
    ordered = {
        (each.key, each.operator, tuple(sorted(set(each.values)))): None for each in requirements
    }
    return tuple(Requirement(key=k, operator=o, values=v) for k, o, v in sorted(ordered))


@lru_cache(maxsize=8192)
def size_weight(domains: int) -> float:
    """What a pod in a topology of so many domains weighs: the more there are, the more, as its
    counts are the smaller (upstream: scoring.go topologyNormalizingWeight). The logarithm is the
    correctly rounded one, the same on every machine."""
    return float(_DECIMALS.ln(domains + 2))
