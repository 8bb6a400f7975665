"""Selectors of API objects as the domain's: of labels, of nodes, and the terms of a pod about other
pods that are made of them.

A node selector with an operator that does not exist is refused. A label selector is kept as it is,
however malformed: what is to be said of it is said by the plugin that reads it, of that pod alone,
as upstream's do (apimachinery pkg/apis/meta/v1 LabelSelectorAsSelector).
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
    return tuple(node_term(each) for each in field.items())


def node_term(term: Field) -> NodeSelectorTerm:
    """A core/v1 NodeSelectorTerm."""
    return NodeSelectorTerm(
        expressions=_node_requirements(term.get("matchExpressions")),
        fields=_node_requirements(term.get("matchFields")),
    )


def _node_requirements(field: Field) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            key=each.get("key").needed_text(),
            operator=each.get("operator").one_of(NODE_OPERATORS),
            values=each.get("values").texts(),
        )
        for each in field.items()
    )


def label_selector(field: Field) -> Selector:
    """A meta/v1 LabelSelector: matchLabels sorted by key, then matchExpressions; None where there
    is none."""
    if field.value is None:
        return None
    expressions = (
        Requirement(
            key=each.get("key").text(),
            operator=each.get("operator").text(),
            values=each.get("values").texts(),
        )
        for each in field.get("matchExpressions").items()
    )
    return (*label_map(field.get("matchLabels")), *expressions)


def label_map(field: Field) -> tuple[Requirement, ...]:
    """A map of labels as the requirements that each of them is there, sorted by key."""
    labels = sorted(field.text_map().items())
    return tuple(Requirement(key=key, operator="In", values=(value,)) for key, value in labels)


def affinity_terms(field: Field, completing: Labels | None) -> tuple[AffinityTerm, ...]:
    """A list of core/v1 PodAffinityTerm; ``completing`` as for ``affinity_term``."""
    return tuple(affinity_term(each, completing) for each in field.items())


def weighted_affinity_terms(
    field: Field, completing: Labels | None
) -> tuple[WeightedAffinityTerm, ...]:
    """A list of core/v1 WeightedPodAffinityTerm; ``completing`` as for ``affinity_term``."""
    return tuple(
        WeightedAffinityTerm(
            weight=each.get("weight").integer(1, 100),
            term=affinity_term(each.get("podAffinityTerm"), completing),
        )
        for each in field.items()
    )


def affinity_term(term: Field, completing: Labels | None) -> AffinityTerm:
    """A core/v1 PodAffinityTerm. With ``completing``, the labels of a pod that no API server has
    seen, its selector is completed from matchLabelKeys and mismatchLabelKeys, as that server does
    and kube-scheduler does not (registry/core/pod/strategy.go)."""
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
    """An API server lets nothing pass without one."""
    key = field.get("topologyKey")
    return key.text() if completing is None else key.needed_text()


def spread_constraints(field: Field, completing: Labels | None) -> tuple[SpreadConstraint, ...]:
    """A list of core/v1 TopologySpreadConstraint. With ``completing``, the labels of a pod that no
    API server has seen, their selectors are completed from matchLabelKeys; kube-scheduler does that
    by itself too (podtopologyspread/common.go), so it changes no decision. What that server would
    refuse is refused then."""
    found = []
    for each in field.items():
        constraint = SpreadConstraint(
            max_skew=each.get("maxSkew").integer(-_INT32 if completing is None else 1, _INT32 - 1),
            topology_key=_topology_key(each, completing),
            when_unsatisfiable=each.get("whenUnsatisfiable").text()
            if completing is None
            else each.get("whenUnsatisfiable").one_of(("DoNotSchedule", "ScheduleAnyway")),
            selector=label_selector(each.get("labelSelector")),
            min_domains=None
            if each.get("minDomains").value is None
            else each.get("minDomains").integer(-_INT32, _INT32 - 1),
            node_affinity_policy=each.get("nodeAffinityPolicy").text("Honor"),
            node_taints_policy=each.get("nodeTaintsPolicy").text("Ignore"),
            match_label_keys=each.get("matchLabelKeys").texts(),
        )
        if completing is not None:
            keys = constraint.match_label_keys
            selector = _completed(constraint.selector, keys, "In", completing)
            constraint = msgspec.structs.replace(constraint, selector=selector)
        found.append(constraint)
    return tuple(found)


def _completed(
    selector: Selector, keys: tuple[str, ...], operator: str, labels: Labels
) -> Selector:
    if selector is None:
        return None
    added = (
        Requirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels
    )
    # An object that was printed by an API server has been completed already.
    return (*selector, *(each for each in added if each not in selector))
