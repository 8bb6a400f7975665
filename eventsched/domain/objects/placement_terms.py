"""Constraints on the nodes of a pod, as values: selectors, affinity terms, tolerations,
spreading."""

from eventsched.domain.objects.frozen import Frozen


class Requirement(Frozen, frozen=True):
    """One expression of a node selector term (core/v1 NodeSelectorRequirement)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


Selector = tuple[Requirement, ...] | None
"""A label selector (meta/v1 LabelSelector), with matchLabels as In requirements. All requirements
must hold: an empty selector selects everything. None selects nothing."""


class NodeSelectorTerm(Frozen, frozen=True):
    """Expressions over labels and fields, all of which must hold; an empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PreferredTerm(Frozen, frozen=True):
    """A node selector term with the weight (1..100) that a matching node gets."""

    weight: int
    term: NodeSelectorTerm


class AffinityTerm(Frozen, frozen=True):
    """The pods to be near to or away from (core/v1 PodAffinityTerm): those that the selector
    selects, in the named and selected namespaces, or in the pod's own if neither is given. The API
    server has already added matchLabelKeys and mismatchLabelKeys to the selector."""

    topology_key: str
    selector: Selector = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: Selector = None


class WeightedAffinityTerm(Frozen, frozen=True):
    """A preference (core/v1 WeightedPodAffinityTerm) and its weight, 1..100."""

    weight: int
    term: AffinityTerm


class SpreadConstraint(Frozen, frozen=True):
    """How to spread pods over topology domains (core/v1 TopologySpreadConstraint). Fields that the
    API object leaves out have upstream's defaults; ``min_domains`` is None if it is unset."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str = "DoNotSchedule"
    selector: Selector = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class Toleration(Frozen, frozen=True):
    """A pod's toleration (core/v1 Toleration); an empty operator means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
