"""Kinds of scenario whose pods are rules by name, so that every branch of a plugin is reached."""

from tests.conformance.oracle.rules import (
    affinity,
    attaching,
    binding,
    nodes,
    preemption,
    resources,
    several,
    spread,
)
from tests.conformance.oracle.rules.vocabulary import Kind

_MODULES = (affinity, spread, binding, attaching, preemption, resources, nodes, several)

KINDS: dict[str, Kind] = {kind.name: kind for module in _MODULES for kind in module.KINDS}
