"""Translates selectors of labels and nodes, and a pod's affinity terms and spread constraints.

A node selector with an unknown operator raises InputError. A malformed label selector is kept as it
is: as upstream, the plugin that reads it rejects only that pod (apimachinery pkg/apis/meta/v1
LabelSelectorAsSelector).

Functions with a parameter ``completing`` read parts of pods. For a pod that no API server has
seen it has the pod's labels: the part is then validated and its selectors are completed from
matchLabelKeys, as on admission (registry/core/pod/strategy.go). For other pods it is None.
"""

from collections.abc import Mapping

import msgspec

from eventsched.cluster.translate.fields import Field
from eventsched.domain.objects import (
    AffinityTerm,
    NodeSelectorTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    WeightedAffinityTerm,
)

NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INT32 = 2**31
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Labels = Mapping[str, str]


def node_terms(field: Field) -> tuple[NodeSelectorTerm, ...]:
    """A list of core/v1 NodeSelectorTerm."""
    return tuple(node_term(term) for term in field.items())


def node_term(term: Field) -> NodeSelectorTerm:
    """A core/v1 NodeSelectorTerm."""
    return NodeSelectorTerm(
        expressions=_node_requirements(term.get("matchExpressions")),
        fields=_node_requirements(term.get("matchFields")),
    )


def _node_requirements(field: Field) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            key=requirement.get("key").needed_text(),
            operator=requirement.get("operator").one_of(NODE_OPERATORS),
            values=requirement.get("values").texts(),
        )
        for requirement in field.items()
    )


def label_selector(field: Field) -> Selector:
    """A meta/v1 LabelSelector: matchLabels sorted by key, then matchExpressions; None if it is
    missing."""
    if field.value is None:
        return None
    expressions = (
        Requirement(
            key=requirement.get("key").text(),
            operator=requirement.get("operator").text(),
            values=requirement.get("values").texts(),
        )
        for requirement in field.get("matchExpressions").items()
    )
    return (*label_map(field.get("matchLabels")), *expressions)


def label_map(field: Field) -> tuple[Requirement, ...]:
    """A map of labels as requirements, sorted by key."""
    labels = sorted(field.text_map().items())
    return tuple(Requirement(key=key, operator="In", values=(value,)) for key, value in labels)


def affinity_terms(field: Field, completing: Labels | None) -> tuple[AffinityTerm, ...]:
    """A list of core/v1 PodAffinityTerm."""
    return tuple(affinity_term(term, completing) for term in field.items())


def weighted_affinity_terms(
    field: Field, completing: Labels | None
) -> tuple[WeightedAffinityTerm, ...]:
    """A list of core/v1 WeightedPodAffinityTerm."""
    return tuple(
        WeightedAffinityTerm(
            weight=term.get("weight").integer(1, 100),
            term=affinity_term(term.get("podAffinityTerm"), completing),
        )
        for term in field.items()
    )


def affinity_term(term: Field, completing: Labels | None) -> AffinityTerm:
    """A core/v1 PodAffinityTerm. kube-scheduler ignores matchLabelKeys and mismatchLabelKeys: the
    API server has merged them into the selector."""
    selector = label_selector(term.get("labelSelector"))
    same, other = term.get("matchLabelKeys").texts(), term.get("mismatchLabelKeys").texts()
    if completing is not None:
        selector = _completed(selector, same, "In", completing)
        selector = _completed(selector, other, "NotIn", completing)
    return AffinityTerm(
        topology_key=_topology_key(term, completing),
        selector=selector,
        namespaces=term.get("namespaces").texts(),
        namespace_selector=label_selector(term.get("namespaceSelector")),
    )


def _topology_key(field: Field, completing: Labels | None) -> str:
    """The topologyKey, which an API server requires."""
    key = field.get("topologyKey")
    return key.text() if completing is None else key.needed_text()


def spread_constraints(field: Field, completing: Labels | None) -> tuple[SpreadConstraint, ...]:
    """A list of core/v1 TopologySpreadConstraint. Completing its selectors changes no decision:
    kube-scheduler evaluates matchLabelKeys too (podtopologyspread/common.go)."""
    constraints = []
    for item in field.items():
        constraint = SpreadConstraint(
            max_skew=item.get("maxSkew").integer(-_INT32 if completing is None else 1, _INT32 - 1),
            topology_key=_topology_key(item, completing),
            when_unsatisfiable=item.get("whenUnsatisfiable").text()
            if completing is None
            else item.get("whenUnsatisfiable").one_of(("DoNotSchedule", "ScheduleAnyway")),
            selector=label_selector(item.get("labelSelector")),
            min_domains=None
            if item.get("minDomains").value is None
            else item.get("minDomains").integer(-_INT32, _INT32 - 1),
            node_affinity_policy=item.get("nodeAffinityPolicy").text("Honor"),
            node_taints_policy=item.get("nodeTaintsPolicy").text("Ignore"),
            match_label_keys=item.get("matchLabelKeys").texts(),
        )
        if completing is not None:
            keys = constraint.match_label_keys
            selector = _completed(constraint.selector, keys, "In", completing)
            constraint = msgspec.structs.replace(constraint, selector=selector)
        constraints.append(constraint)
    return tuple(constraints)


def _completed(
    selector: Selector, keys: tuple[str, ...], operator: str, labels: Labels
) -> Selector:
    if selector is None:
        return None
    requirements = (
        Requirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels
    )
    # A manifest that was exported from an API server has been completed already.
    return (*selector, *(added for added in requirements if added not in selector))
