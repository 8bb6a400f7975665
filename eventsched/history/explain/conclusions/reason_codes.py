"""Refusals as codes for programs, and how they differ between attempts.

The names ``reasonCodes`` and ``failedPlugins`` and the form of a code are those proposed in
kubernetes/kubernetes#138991. A code is made from the plugin and its reason, so it is the same for
every node and cluster.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from eventsched.history.explain.explanation import ExplainedAttempt, Explanation, NodeRefusals

_INSUFFICIENT = "Insufficient "
_OF_RESOURCES = {"cpu": "CPU", "memory": "Memory", "ephemeral-storage": "EphemeralStorage"}
_BY_REASON = {
    ("NodeResourcesFit", "Too many pods"): "TooManyPods",
    ("InterPodAffinity", "node(s) didn't match pod affinity rules"): "PodAffinityMismatch",
    ("InterPodAffinity", "node(s) didn't match pod anti-affinity rules"): "PodAntiAffinityConflict",
    (
        "InterPodAffinity",
        "node(s) didn't satisfy existing pods anti-affinity rules",
    ): "ExistingPodAntiAffinityConflict",
    (
        "PodTopologySpread",
        "node(s) didn't match pod topology spread constraints (missing required label)",
    ): "TopologyLabelMissing",
}
_BY_PLUGIN = {
    "": "ExcludedByPreFilter",
    "NodeName": "NodeNameMismatch",
    "NodeUnschedulable": "NodeUnschedulable",
    "TaintToleration": "TaintMismatch",
    "NodeAffinity": "NodeAffinityMismatch",
    "NodePorts": "HostPortConflict",
    "PodTopologySpread": "TopologySpreadConflict",
    "VolumeBinding": "VolumeUnavailable",
    "VolumeRestrictions": "VolumeInUse",
    "VolumeZone": "VolumeZoneMismatch",
    "NodeVolumeLimits": "VolumeLimitExceeded",
    "NodeDeclaredFeatures": "NodeFeatureMissing",
    "SchedulingGates": "SchedulingGated",
}


class RefusalDifference(NamedTuple):
    """How many nodes a plugin refused for these reasons at an attempt and at the one before."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    before: int
    after: int


def reason_code(plugin: str, reason: str) -> str:
    """The code of one reason, in CamelCase. For a plugin that is not in-tree it is the plugin's
    name followed by ``Refused``."""
    if plugin == "NodeResourcesFit" and reason.startswith(_INSUFFICIENT):
        name = reason.removeprefix(_INSUFFICIENT)
        return f"Insufficient{_OF_RESOURCES.get(name) or _camel(name)}"
    return _BY_REASON.get((plugin, reason)) or _BY_PLUGIN.get(plugin) or f"{plugin}Refused"


def reason_codes(refusals: Sequence[NodeRefusals]) -> list[str]:
    """The codes of refusals, each once, those of most nodes first."""
    nodes: dict[str, int] = {}
    for refusal in refusals:
        if refusal.code == "NotEvaluated":
            continue
        for reason in refusal.reasons or ("",):
            code = reason_code(refusal.plugin, reason)
            nodes[code] = nodes.get(code, 0) + refusal.nodes
    return sorted(nodes, key=lambda code: -nodes[code])


def failed_plugins(refusals: Sequence[NodeRefusals]) -> list[str]:
    """The plugins that refused nodes, each once, those of most nodes first."""
    nodes: dict[str, int] = {}
    for refusal in refusals:
        if refusal.plugin:
            nodes[refusal.plugin] = nodes.get(refusal.plugin, 0) + refusal.nodes
    return sorted(nodes, key=lambda plugin: -nodes[plugin])


def differences(before: ExplainedAttempt, after: ExplainedAttempt) -> list[RefusalDifference]:
    """The refusals whose number of nodes differs between two attempts, the largest difference
    first."""
    counts = [
        {
            (refusal.plugin, refusal.code, refusal.reasons): refusal.nodes
            for refusal in each.refusals
        }
        for each in (before, after)
    ]
    found = [
        RefusalDifference(*key, counts[0].get(key, 0), counts[1].get(key, 0))
        for key in counts[0] | counts[1]
        if counts[0].get(key, 0) != counts[1].get(key, 0)
    ]
    return sorted(found, key=lambda each: -abs(each.after - each.before))


def neighbours(
    explained: Explanation,
) -> Iterator[tuple[ExplainedAttempt | None, ExplainedAttempt]]:
    """Each attempt with the one before it; None for the first one, and if records between the two
    are left out."""
    for before, after in pairwise((None, *explained.attempts)):
        assert after is not None
        is_apart = before is not None and any(
            before.position < gap.position <= after.position for gap in explained.gaps
        )
        yield (None if is_apart else before), after


def _camel(name: str) -> str:
    """``example.com/gpu`` as ``ExampleComGpu``."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", name))
