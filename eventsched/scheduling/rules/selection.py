"""Node selectors over columns: a label expression is evaluated once per distinct value.

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
    """An expression that Kubernetes rejects; the message names it and says why."""


def meets(
    nodes: NodeView, selector: Mapping[str, str], terms: tuple[NodeSelectorTerm, ...] | None
) -> Bools:
    """bool[n]: whether a node has all labels of a nodeSelector and matches one of the required
    terms, if there are any (None: there are none; upstream: RequiredNodeAffinity.Match)."""
    matching = np.ones(len(nodes), dtype=bool)
    for key, value in selector.items():
        matching &= nodes.label_among(key, (value,))
    if terms is not None:
        matching &= matches_any(nodes, terms)
    return matching


def matches_any(nodes: NodeView, terms: tuple[NodeSelectorTerm, ...]) -> Bools:
    """bool[n]: whether at least one term matches. Empty and malformed terms match nothing: for
    required terms upstream ignores parse errors (LazyErrorNodeSelector)."""
    matching = np.zeros(len(nodes), dtype=bool)
    for term in terms:
        try:
            matching |= matches(nodes, term)
        except SelectorError:
            continue
        if matching.all():
            break
    return matching


def matches(nodes: NodeView, term: NodeSelectorTerm) -> Bools:
    """bool[n]: whether all of a term's expressions hold; an empty term matches nothing. Raises
    SelectorError for an unknown operator or wrong values."""
    check(term)
    if not term.expressions and not term.fields:
        return np.zeros(len(nodes), dtype=bool)
    matching = np.ones(len(nodes), dtype=bool)
    for requirement in term.expressions:
        matching &= holds(nodes, requirement)
        if not matching.any():
            return matching
    for requirement in term.fields:
        value = requirement.values[0]
        named = nodes.is_named(value) if requirement.key == NAME_FIELD else value == ""
        matching &= named if requirement.operator == "In" else np.logical_not(named)
    return matching


def holds(nodes: NodeView, requirement: Requirement) -> Bools:
    """bool[n]: whether an expression over a label holds."""
    match requirement.operator:
        case "In":
            return nodes.label_among(requirement.key, requirement.values)
        case "NotIn":
            return ~nodes.label_among(requirement.key, requirement.values)
        case "Exists":
            return ~nodes.label_among(requirement.key, (None,))
        case "DoesNotExist":
            return nodes.label_among(requirement.key, (None,))
    return nodes.label(requirement.key, question(requirement)).astype(bool)


def question(requirement: Requirement) -> Callable[[str | None], int]:
    """Whether a label's value (None if the node does not have it) satisfies an expression."""
    values = frozenset(requirement.values)
    match requirement.operator:
        case "In":
            return lambda value: value is not None and value in values
        case "NotIn":
            return lambda value: value is None or value not in values
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
    bound = int(requirement.values[0])
    if requirement.operator == "Gt":
        return lambda value: (number := _integer(value)) is not None and number > bound
    return lambda value: (number := _integer(value)) is not None and number < bound


def check(term: NodeSelectorTerm) -> None:
    """Raises SelectorError if upstream's parser rejects the term."""
    for requirement in term.expressions:
        _check_label(requirement)
    for requirement in term.fields:
        if requirement.operator not in FIELD_OPERATORS:
            raise SelectorError(
                f"matchFields: operator {requirement.operator!r} is none of In, NotIn"
            )
        if len(requirement.values) != 1:
            raise SelectorError(f"matchFields: {requirement.key}: values must have one element")


def _check_label(requirement: Requirement) -> None:
    prefix = f"matchExpressions: {requirement.key} {requirement.operator}"
    if requirement.operator not in LABEL_OPERATORS:
        raise SelectorError(f"{prefix}: operator is none of {', '.join(LABEL_OPERATORS)}")
    if not labels.is_key(requirement.key):
        raise SelectorError(f"{prefix}: the key is no label key")
    for value in requirement.values:
        if not labels.is_value(value):
            raise SelectorError(f"{prefix}: {value!r} is no label value")
    if requirement.operator in ("In", "NotIn") and not requirement.values:
        raise SelectorError(f"{prefix}: values must not be empty")
    if requirement.operator in ("Exists", "DoesNotExist") and requirement.values:
        raise SelectorError(f"{prefix}: values must be empty")
    if requirement.operator in ("Gt", "Lt") and (
        len(requirement.values) != 1 or _integer(requirement.values[0]) is None
    ):
        raise SelectorError(f"{prefix}: values must be one integer")


def _integer(text: str | None) -> int | None:
    """The result of Go's strconv.ParseInt: an optional sign and decimal digits within int64."""
    if text is None:
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit():
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
