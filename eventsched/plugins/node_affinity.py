"""NodeAffinity: nodeSelector, required and preferred node affinity, and addedAffinity.

Upstream: plugins/nodeaffinity/node_affinity.go.
"""

import msgspec
import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import NodeSelectorTerm, Pod, PreferredTerm, Requirement
from eventsched.scheduling.config.sections import Int32
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Normalization,
    PreFilterResult,
    Status,
    signed_by_spec,
)
from eventsched.scheduling.rules.selection import (
    NAME_FIELD,
    SelectorError,
    check,
    matches,
    matches_any,
    meets,
)

_POD, _ENFORCED = 1, 2


class _Expression(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class _Term(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    match_expressions: tuple[_Expression, ...] = ()
    match_fields: tuple[_Expression, ...] = ()

    @property
    def term(self) -> NodeSelectorTerm:
        """The term as scheduling reads it."""
        return NodeSelectorTerm(
            expressions=tuple(_requirement(expression) for expression in self.match_expressions),
            fields=tuple(_requirement(expression) for expression in self.match_fields),
        )


def _check(where: str, selector_term: _Term) -> None:
    try:
        check(selector_term.term)
    except SelectorError as problem:
        raise InputError(where, str(problem), "correct the expression") from None


class _Preferred(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """With weight 0 it has no effect and is not checked."""

    weight: Int32 = 0
    preference: _Term = _Term()

    def __post_init__(self) -> None:
        if self.weight:
            _check("preference", self.preference)


class _Required(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()

    def __post_init__(self) -> None:
        for i, term in enumerate(self.node_selector_terms):
            _check(f"nodeSelectorTerms[{i}]", term)


class _AddedAffinity(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    required: _Required | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[_Preferred, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class NodeAffinityArgs(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """``added_affinity`` applies to all pods of the profile, in addition to their own."""

    added_affinity: _AddedAffinity | None = None


class NodeAffinity:
    """PreFilter by required node names, Filter by selector and terms, Score by preferred terms."""

    name = "NodeAffinity"
    depends_on = DependsOn.NODE
    normalization = Normalization.DEFAULT
    wakes_on = (
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_LABEL,
        ClusterEvent.POD_UPDATE,
    )
    Args = NodeAffinityArgs

    def __init__(self, args: NodeAffinityArgs | None = None) -> None:
        added = args.added_affinity if args else None
        self._enforced: tuple[NodeSelectorTerm, ...] | None = None
        if added is not None and added.required is not None:
            self._enforced = tuple(term.term for term in added.required.node_selector_terms)
        self._preferred = tuple(
            PreferredTerm(weight=preferred.weight, term=preferred.preference.term)
            for preferred in (added.preferred if added else ())
            if preferred.weight
        )

    sign = staticmethod(signed_by_spec)

    def pre_filter(
        self, cycle: Cycle, pod: Pod, nodes: NodeView
    ) -> PreFilterResult | Status | None:
        """The nodes named by the terms, if every term names some by metadata.name."""
        terms = pod.spec.required_node_terms
        if terms is None and self._enforced is None and not pod.spec.node_selector:
            return Status.skip()
        if not terms:
            return None
        names: set[str] = set()
        for term in terms:
            named = [set(field.values) for field in term.fields if _is_name_in(field)]
            if not named:
                return None
            names |= set.intersection(*named)
        if not names:
            return Status.unresolvable("pod affinity terms conflict")
        return PreFilterResult(frozenset(names))

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """1 if the pod's own rules are not met, 2 if the profile's are not."""
        codes = np.where(
            meets(nodes, pod.spec.node_selector, pod.spec.required_node_terms), 0, _POD
        )
        if self._enforced is not None:
            codes[~matches_any(nodes, self._enforced)] = _ENFORCED
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        if code == _ENFORCED:
            return Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
        return Status.unresolvable("node(s) didn't match Pod's node affinity/selector")

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips without preferences; an error if one is malformed."""
        if not pod.spec.preferred_node_terms and not self._preferred:
            return Status.skip()
        try:
            for preferred in pod.spec.preferred_node_terms:
                check(preferred.term)
        except SelectorError as problem:
            return Status.error(str(problem))
        return None

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The sum of the weights of the preferred terms that match."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for preferred in self._preferred + pod.spec.preferred_node_terms:
            if preferred.weight:
                total += matches(nodes, preferred.term) * preferred.weight
        return total

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the node meets the rules now. Upstream also requires that it did not before; but
        then the pod would not have been refused there."""
        return (
            change.event is ClusterEvent.POD_UPDATE
            or not self.filter(cycle, pod, change.nodes).any()
        )


def _requirement(expression: _Expression) -> Requirement:
    return Requirement(key=expression.key, operator=expression.operator, values=expression.values)


def _is_name_in(requirement: Requirement) -> bool:
    return requirement.key == NAME_FIELD and requirement.operator == "In"
