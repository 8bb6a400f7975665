"""Translates the long lists of a pod's spec fast, by decoding them into types.

A pod may have thousands of terms, constraints or tolerations. Decoding them into the types below
takes a fraction of translate's time, because no Field is built for each value. Anything that does
not fit these types, including null, is left to translate, so translate alone decides what is
invalid.
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
    """A JSON object; fields that its type does not name are skipped."""


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
    """A core/v1 Volume whose source is a claim."""

    name: str
    persistent_volume_claim: _Claim


class _Parts(TypedDict, total=False):
    """A pod with the fields of its spec undecoded."""

    metadata: Any
    spec: dict[str, Raw]
    status: Any


_decode = msgspec.json.Decoder(_Parts).decode


def pod(body: bytes) -> Pod:
    """Translates a pod's JSON, with the same result as ``manifest.pod``. Raises InputError."""
    obj = _decode(body)
    spec = obj["spec"]
    fields: dict[str, Any] = {}
    for name, read in _READERS.items():
        if name in spec:
            try:
                read_fields = read(spec[name])
            except (msgspec.ValidationError, _UnknownValueError):
                continue
            fields |= read_fields
            del spec[name]
    rest = {name: msgspec.json.decode(raw) for name, raw in spec.items()}
    translated = manifest.pod({**obj, "spec": rest}, "", defaults=False)
    if not fields:
        return translated
    if "volumes" in fields:
        translated = msgspec.structs.replace(translated, volumes=fields.pop("volumes"))
    return msgspec.structs.replace(
        translated, spec=msgspec.structs.replace(translated.spec, **fields)
    )


class _UnknownValueError(Exception):
    """A value of an enumeration that translate does not know."""


_tolerations = msgspec.json.Decoder(tuple[Toleration, ...]).decode
_constraints = msgspec.json.Decoder(list[_Constraint]).decode
_affinity = msgspec.json.Decoder(_Affinity).decode
_claims = msgspec.json.Decoder(list[_Volume]).decode


def _read_tolerations(raw: Raw) -> dict[str, Any]:
    tolerations = _tolerations(raw)
    _require_known({toleration.operator for toleration in tolerations}, TOLERATION_OPERATORS)
    _require_known({toleration.effect for toleration in tolerations}, TOLERATION_EFFECTS)
    return {"tolerations": tolerations}


def _read_claims(raw: Raw) -> dict[str, Any]:
    return {
        "volumes": tuple(
            PodVolume(name=volume.name, claim=volume.persistent_volume_claim.claim_name)
            for volume in _claims(raw)
        )
    }


def _read_constraints(raw: Raw) -> dict[str, Any]:
    return {
        "spread": tuple(
            SpreadConstraint(
                max_skew=constraint.max_skew,
                topology_key=constraint.topology_key,
                when_unsatisfiable=constraint.when_unsatisfiable,
                selector=_selector(constraint.label_selector),
                min_domains=constraint.min_domains,
                node_affinity_policy=constraint.node_affinity_policy,
                node_taints_policy=constraint.node_taints_policy,
                match_label_keys=constraint.match_label_keys,
            )
            for constraint in _constraints(raw)
        )
    }


def _read_affinity(raw: Raw) -> dict[str, Any]:
    affinity = _affinity(raw)
    node_affinity = affinity.node_affinity
    pod_affinity, pod_anti_affinity = affinity.pod_affinity, affinity.pod_anti_affinity
    return {
        "required_node_terms": None
        if node_affinity.required is None
        else tuple(map(_node_term, node_affinity.required.node_selector_terms)),
        "preferred_node_terms": tuple(
            PreferredTerm(weight=term.weight, term=_node_term(term.preference))
            for term in node_affinity.preferred
        ),
        "required_affinity": tuple(map(_pod_term, pod_affinity.required)),
        "preferred_affinity": _weighted(pod_affinity.preferred),
        "required_anti_affinity": tuple(map(_pod_term, pod_anti_affinity.required)),
        "preferred_anti_affinity": _weighted(pod_anti_affinity.preferred),
    }


def _weighted(terms: Iterable[_WeightedTerm]) -> tuple[WeightedAffinityTerm, ...]:
    return tuple(
        WeightedAffinityTerm(weight=term.weight, term=_pod_term(term.pod_affinity_term))
        for term in terms
    )


def _pod_term(term: _PodTerm) -> AffinityTerm:
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=_selector(term.label_selector),
        namespaces=term.namespaces,
        namespace_selector=_selector(term.namespace_selector),
    )


def _node_term(term: _NodeTerm) -> NodeSelectorTerm:
    for requirement in (*term.match_expressions, *term.match_fields):
        if not requirement.key or requirement.operator not in NODE_OPERATORS:
            raise _UnknownValueError
    return NodeSelectorTerm(expressions=term.match_expressions, fields=term.match_fields)


def _selector(selector: _Selector | None) -> Selector:
    if selector is None:
        return None
    labels = sorted(selector.match_labels.items())
    return (
        *[Requirement(key=key, operator="In", values=(value,)) for key, value in labels],
        *selector.match_expressions,
    )


def _require_known(values: Iterable[str], known: tuple[str, ...]) -> None:
    if not set(values).issubset(known):
        raise _UnknownValueError


_READERS: dict[str, Callable[[Raw], dict[str, Any]]] = {
    "affinity": _read_affinity,
    "topologySpreadConstraints": _read_constraints,
    "tolerations": _read_tolerations,
    "volumes": _read_claims,
}
"""By field of the spec in JSON: its reader, which returns fields of a PodSpec. Only ``volumes`` is
a field of Pod."""
