"""Node selectors over columns: each label expression is answered once per distinct value.

Upstream: component-helpers scheduling/corev1/nodeaffinity, apimachinery pkg/labels.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import NodeSelectorTerm, Requirement, labels

Bools = NDArray[np.bool_]

LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")
NAME_FIELD = "metadata.name"


class SelectorError(ValueError):
    """An expression that Kubernetes does not know; says which and why."""


def meets(
    nodes: NodeView, selector: Mapping[str, str], terms: tuple[NodeSelectorTerm, ...] | None
) -> Bools:
    """bool[n]: whether a node has all labels of a nodeSelector and matches one of the required
    terms, where there are any (None: there are none; upstream: RequiredNodeAffinity.Match)."""
    found = np.ones(len(nodes), dtype=bool)
    for key, value in selector.items():
        found &= nodes.label_among(key, (value,))
    if terms is not None:
        found &= matches_any(nodes, terms)
    return found


def matches_any(nodes: NodeView, terms: tuple[NodeSelectorTerm, ...]) -> Bools:
    """bool[n]: whether at least one term matches. Terms that are empty or malformed match nothing:
    for required terms upstream passes over parse errors (LazyErrorNodeSelector)."""
    found = np.zeros(len(nodes), dtype=bool)
    for term in terms:
        try:
            found |= matches(nodes, term)
        except SelectorError:
            continue
        if found.all():
            break
    return found


def matches(nodes: NodeView, term: NodeSelectorTerm) -> Bools:
    """bool[n]: whether all of a term's expressions hold; an empty term matches nothing. Raises
    SelectorError for an unknown operator or wrong values."""
    check(term)
    if not term.expressions and not term.fields:
        return np.zeros(len(nodes), dtype=bool)
    found = np.ones(len(nodes), dtype=bool)
    for each in term.expressions:
        found &= holds(nodes, each)
        if not found.any():
            return found
    for each in term.fields:
        named = nodes.is_named(each.values[0]) if each.key == NAME_FIELD else each.values[0] == ""
        found &= named if each.operator == "In" else np.logical_not(named)
    return found


def holds(nodes: NodeView, each: Requirement) -> Bools:
    """bool[n]: whether an expression over a label holds."""
    match each.operator:
        case "In":
            return nodes.label_among(each.key, each.values)
        case "NotIn":
            return ~nodes.label_among(each.key, each.values)
        case "Exists":
            return ~nodes.label_among(each.key, (None,))
        case "DoesNotExist":
            return nodes.label_among(each.key, (None,))
    return nodes.label(each.key, question(each)).astype(bool)


def question(each: Requirement) -> Callable[[str | None], int]:
    """Whether a label's value (None where the node does not have it) satisfies an expression."""
    values = frozenset(each.values)
    match each.operator:
        case "In":
            return lambda value: value is not None and value in values
        case "NotIn":
            return lambda value: value is None or value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
    bound = int(each.values[0])
    if each.operator == "Gt":
        return lambda value: (number := _integer(value)) is not None and number > bound
    return lambda value: (number := _integer(value)) is not None and number < bound


def check(term: NodeSelectorTerm) -> None:
    """Raises SelectorError where upstream's parser would give an error for a term."""
    for each in term.expressions:
        _check_label(each)
    for each in term.fields:
        if each.operator not in FIELD_OPERATORS:
            raise SelectorError(f"matchFields: operator {each.operator!r} is none of In, NotIn")
        if len(each.values) != 1:
            raise SelectorError(f"matchFields: {each.key}: values must have one element")


def _check_label(each: Requirement) -> None:
    what = f"matchExpressions: {each.key} {each.operator}"
    if each.operator not in LABEL_OPERATORS:
        raise SelectorError(f"{what}: operator is none of {', '.join(LABEL_OPERATORS)}")
    if not labels.is_key(each.key):
        raise SelectorError(f"{what}: the key is no label key")
    for value in each.values:
        if not labels.is_value(value):
            raise SelectorError(f"{what}: {value!r} is no label value")
    if each.operator in ("In", "NotIn") and not each.values:
        raise SelectorError(f"{what}: values must not be empty")
    if each.operator in ("Exists", "DoesNotExist") and each.values:
        raise SelectorError(f"{what}: values must be empty")
    if each.operator in ("Gt", "Lt") and (
        len(each.values) != 1 or _integer(each.values[0]) is None
    ):
        raise SelectorError(f"{what}: values must be one integer")


def _integer(text: str | None) -> int | None:
    """What Go's strconv.ParseInt makes of it: an optional sign and decimal digits within int64."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
