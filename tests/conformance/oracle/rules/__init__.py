"""Kinds of scenario whose pods are named rules, so that every branch of a plugin is reached."""

from tests.conformance.oracle.rules import (
    affinity,
    attaching,
    binding,
    edges,
    nodes,
    preemption,
    resources,
    several,
    spread,
)
from tests.conformance.oracle.rules.vocabulary import Kind

_MODULES = (affinity, spread, binding, attaching, preemption, resources, nodes, several)

KINDS: dict[str, Kind] = {kind.name: kind for module in _MODULES for kind in module.KINDS}

EDGES: dict[str, Kind] = {kind.name: kind for kind in edges.KINDS}
"""Those whose numbers are at the edges of int64; apart, as they have files of their own."""
