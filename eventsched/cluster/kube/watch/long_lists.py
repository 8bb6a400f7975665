"""The long lists of a pod's spec, translated by their types.

A pod may have thousands of terms, constraints or tolerations. Here they are decoded into the types
below, without a path for each value that an error could name, which takes a fraction of the time.
Whatever does not fit these types, null among it, is left to translate, which alone
decides what is refused.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypedDict

import msgspec
from msgspec import Meta, Raw, Struct

from eventsched.cluster.translate import manifest
from eventsched.cluster.translate.node_selectors import NODE_OPERATORS, PREFERRED, REQUIRED
from eventsched.cluster.translate.pods import TOLERATION_EFFECTS, TOLERATION_OPERATORS
from eventsched.domain.objects import (
    AffinityTerm,
    NodeSelectorTerm,
    Pod,
    PodVolume,
    PreferredTerm,
    Requirement,
    Selector,
    SpreadConstraint,
    Toleration,
    WeightedAffinityTerm,
)

_Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
_Weight = Annotated[int, Meta(ge=1, le=100)]
_Name = Annotated[str, Meta(min_length=1)]


class _Shape(Struct, frozen=True, gc=False, rename="camel"):
    """JSON of a type; what it does not name is skipped."""


class _Selector(_Shape, frozen=True):
    """A meta/v1 LabelSelector."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[Requirement, ...] = ()


class _PodTerm(_Shape, frozen=True):
    """A core/v1 PodAffinityTerm."""

    topology_key: str = ""
    label_selector: _Selector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: _Selector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class _WeightedTerm(_Shape, frozen=True):
    """A core/v1 WeightedPodAffinityTerm."""

    weight: _Weight
    pod_affinity_term: _PodTerm


class _PodAffinity(_Shape, frozen=True):
    """A core/v1 PodAffinity or PodAntiAffinity."""

    required: list[_PodTerm] = msgspec.field(name=REQUIRED, default_factory=list)
    preferred: list[_WeightedTerm] = msgspec.field(name=PREFERRED, default_factory=list)


class _NodeTerm(_Shape, frozen=True):
    """A core/v1 NodeSelectorTerm."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class _NodeSelector(_Shape, frozen=True):
    """A core/v1 NodeSelector."""

    node_selector_terms: list[_NodeTerm]


class _PreferredTerm(_Shape, frozen=True):
    """A core/v1 PreferredSchedulingTerm."""

    weight: _Weight
    preference: _NodeTerm


class _NodeAffinity(_Shape, frozen=True):
    """A core/v1 NodeAffinity."""

    required: _NodeSelector | None = msgspec.field(name=REQUIRED, default=None)
    preferred: list[_PreferredTerm] = msgspec.field(name=PREFERRED, default_factory=list)


class _Affinity(_Shape, frozen=True):
    """A core/v1 Affinity."""

    node_affinity: _NodeAffinity = _NodeAffinity()
    pod_affinity: _PodAffinity = _PodAffinity()
    pod_anti_affinity: _PodAffinity = _PodAffinity()


class _Constraint(_Shape, frozen=True):
    """A core/v1 TopologySpreadConstraint."""

    max_skew: _Int32
    topology_key: str
    when_unsatisfiable: str
    label_selector: _Selector | None = None
    min_domains: _Int32 | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class _Claim(_Shape, frozen=True):
    """A core/v1 PersistentVolumeClaimVolumeSource."""

    claim_name: _Name


class _Volume(_Shape, frozen=True, forbid_unknown_fields=True):
    """A core/v1 Volume that is a claim."""

    name: str
    persistent_volume_claim: _Claim


class _Parts(TypedDict, total=False):
    """A pod with the parts of its spec undecoded."""

    metadata: Any
    spec: dict[str, Raw]
    status: Any


_decode = msgspec.json.Decoder(_Parts).decode


def pod(body: bytes) -> Pod:
    """What ``translate.pod`` makes of a pod as JSON. Raises InputError as that does."""
    obj = _decode(body)
    spec = obj["spec"]
    found: dict[str, Any] = {}
    for name, read in _READERS.items():
        if name in spec:
            try:
                read_fields = read(spec[name])
            except (msgspec.ValidationError, _UnknownError):
                continue
            found |= read_fields
            del spec[name]
    rest = {name: msgspec.json.decode(raw) for name, raw in spec.items()}
    made = manifest.pod({**obj, "spec": rest}, "", defaults=False)
    if not found:
        return made
    if "volumes" in found:
        made = msgspec.structs.replace(made, volumes=found.pop("volumes"))
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, **found))


class _UnknownError(Exception):
    """A word that translate does not know."""


_tolerations = msgspec.json.Decoder(tuple[Toleration, ...]).decode
_constraints = msgspec.json.Decoder(list[_Constraint]).decode
_affinity = msgspec.json.Decoder(_Affinity).decode
_claims = msgspec.json.Decoder(list[_Volume]).decode


def _read_tolerations(raw: Raw) -> dict[str, Any]:
    found = _tolerations(raw)
    _check({each.operator for each in found}, TOLERATION_OPERATORS)
    _check({each.effect for each in found}, TOLERATION_EFFECTS)
    return {"tolerations": found}


def _read_claims(raw: Raw) -> dict[str, Any]:
    found = _claims(raw)
    return {
        "volumes": tuple(
            PodVolume(name=each.name, claim=each.persistent_volume_claim.claim_name)
            for each in found
        )
    }


def _read_constraints(raw: Raw) -> dict[str, Any]:
    return {
        "spread": tuple(
            SpreadConstraint(
                max_skew=each.max_skew,
                topology_key=each.topology_key,
                when_unsatisfiable=each.when_unsatisfiable,
                selector=_selector(each.label_selector),
                min_domains=each.min_domains,
                node_affinity_policy=each.node_affinity_policy,
                node_taints_policy=each.node_taints_policy,
                match_label_keys=each.match_label_keys,
            )
            for each in _constraints(raw)
        )
    }


def _read_affinity(raw: Raw) -> dict[str, Any]:
    affinity = _affinity(raw)
    nodes, near, apart = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
    return {
        "required_node_terms": None
        if nodes.required is None
        else tuple(map(_node_term, nodes.required.node_selector_terms)),
        "preferred_node_terms": tuple(
            PreferredTerm(weight=each.weight, term=_node_term(each.preference))
            for each in nodes.preferred
        ),
        "required_affinity": tuple(map(_pod_term, near.required)),
        "preferred_affinity": _weighted(near.preferred),
        "required_anti_affinity": tuple(map(_pod_term, apart.required)),
        "preferred_anti_affinity": _weighted(apart.preferred),
    }


def _weighted(found: Iterable[_WeightedTerm]) -> tuple[WeightedAffinityTerm, ...]:
    return tuple(
        WeightedAffinityTerm(weight=each.weight, term=_pod_term(each.pod_affinity_term))
        for each in found
    )


def _pod_term(term: _PodTerm) -> AffinityTerm:
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=_selector(term.label_selector),
        namespaces=term.namespaces,
        namespace_selector=_selector(term.namespace_selector),
    )


def _node_term(term: _NodeTerm) -> NodeSelectorTerm:
    for each in (*term.match_expressions, *term.match_fields):
        if not each.key or each.operator not in NODE_OPERATORS:
            raise _UnknownError
    return NodeSelectorTerm(expressions=term.match_expressions, fields=term.match_fields)


def _selector(found: _Selector | None) -> Selector:
    if found is None:
        return None
    labels = sorted(found.match_labels.items())
    return (
        *[Requirement(key=key, operator="In", values=(value,)) for key, value in labels],
        *found.match_expressions,
    )


def _check(words: Iterable[str], known: tuple[str, ...]) -> None:
    if not set(words).issubset(known):
        raise _UnknownError


_READERS: dict[str, Callable[[Raw], dict[str, Any]]] = {
    "affinity": _read_affinity,
    "topologySpreadConstraints": _read_constraints,
    "tolerations": _read_tolerations,
    "volumes": _read_claims,
}
"""By field of the spec: what reads it, as fields of a PodSpec; ``volumes`` are those of a Pod."""
