"""NUMA-aware scheduling: NodeResourceTopology objects, and which pods are Guaranteed.

Sources: k8stopologyawareschedwg/noderesourcetopology-api pkg/apis/topology/v1alpha2,
scheduler-plugins pkg/noderesourcetopology/nodeconfig/topologymanager.go and pluginhelpers.go,
kubernetes pkg/apis/core/v1/helper/qos/qos.go.
"""

import re
from collections.abc import Iterable

from eventsched.cluster.translate.fields import Field
from eventsched.domain.objects import CPU, MEMORY, Resources
from eventsched.domain.objects.registry import NodeResourceTopology, NumaZone

_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
_SCOPES = ("container", "pod")
_DEPRECATED = {
    f"{prefix}{suffix}": (policy, scope)
    for prefix, policy in (
        ("SingleNUMANode", "single-numa-node"), ("BestEffort", "best-effort"),
        ("Restricted", "restricted"),
    )
    for suffix, scope in (("PodLevel", "pod"), ("ContainerLevel", "container"))
}  # fmt: skip
"""Values of topologyPolicies → policy and scope; other values are ignored."""
_FEWEST, _MOST = 2, 1024
"""Limits of topologyManagerMaxNUMANodes."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_ZONE = re.compile(r"node-\+?([0-9]{1,9})")
_ZONES = 64
"""Zones with this number or a higher one are ignored: the kubelet has no bit for them."""
FINGERPRINT, METHOD = "nodeTopologyPodsFingerprint", "nodeTopologyPodsFingerprintMethod"
METHOD_EXCLUSIVE = "with-exclusive-resources"
_ANNOTATION = "topology.node.k8s.io/fingerprint"
_INT64, _INT32 = 2**63, 2**31


def node_resource_topology(root: Field, defaults: bool) -> NodeResourceTopology:
    """A topology.node.k8s.io/v1alpha2 NodeResourceTopology. Attribute values that the kubelet
    does not have are ignored, and so are zones that are not NUMA nodes. Raises InputError."""
    meta = root.get("metadata")
    policy, scope = "none", "container"
    deprecated = root.get("topologyPolicies").texts()
    if deprecated and deprecated[0] in _DEPRECATED:
        policy, scope = _DEPRECATED[deprecated[0]]
    most, fingerprint, method = 8, None, None
    for attribute in root.get("attributes").items():
        name, value = attribute.get("name").text(), attribute.get("value").text()
        if name == "topologyManagerPolicy" and value in _POLICIES:
            policy = value
        elif name == "topologyManagerScope" and value in _SCOPES:
            scope = value
        elif name == "topologyManagerMaxNUMANodes" and _INTEGER.fullmatch(value):
            most = min(int(value), _MOST) if int(value) >= _FEWEST else most
        elif name == FINGERPRINT and fingerprint is None:
            fingerprint = value
        elif name == METHOD and method is None:
            method = value
    only_exclusive = fingerprint is not None and method == METHOD_EXCLUSIVE
    if fingerprint is None:
        fingerprint = meta.get("annotations").text_map().get(_ANNOTATION, "")
    return NodeResourceTopology(
        name=meta.get("name").needed_text(),
        policy=policy,
        scope=scope,
        most_zones=most,
        zones=_zones(root.get("zones")),
        fingerprint=fingerprint,
        only_exclusive=only_exclusive,
    )


def _zones(field: Field) -> tuple[NumaZone, ...]:
    """The NUMA zones in the order of their numbers; of two with the same number, the first."""
    zones: dict[int, NumaZone] = {}
    for zone in field.items():
        number = _number(zone.get("name").text())
        if zone.get("type").text() != "Node" or number is None or number in zones:
            continue
        available: Resources = {}
        for resource in zone.get("resources").items():
            name = resource.get("name").needed_text()
            amount = resource.get("available").amount(name)
            available[name] = 0 if amount is None else amount
        costs = {
            other: max(-_INT32, min(cost.get("value").integer(-_INT64, _INT64 - 1), _INT32))
            for cost in zone.get("costs").items()
            if (other := _number(cost.get("name").text())) is not None
        }
        zones[number] = NumaZone(
            number=number, available=available, costs=tuple(sorted(costs.items()))
        )
    return tuple(zones[number] for number in sorted(zones))


def _number(name: str) -> int | None:
    """The number of a zone named node-N."""
    match = _ZONE.fullmatch(name)
    number = int(match.group(1)) if match else _ZONES
    return number if number < _ZONES else None


def is_guaranteed(spec: Field, *, defaults: bool) -> bool:
    """Whether a pod is Guaranteed: every container and init container has limits of cpu and memory,
    and the sums of requests and limits are equal. Pod-level requests and limits replace those of
    the containers. With ``defaults`` missing requests take their limits."""
    parts: Iterable[Field] = (
        container.get("resources")
        for name in ("containers", "initContainers")
        for container in spec.get(name).items()
    )
    whole = spec.get("resources")
    if whole.value is not None and any(_counted(whole.get(n)) for n in ("requests", "limits")):
        parts = [whole]
    wanted, allowed = dict.fromkeys((CPU, MEMORY), 0), dict.fromkeys((CPU, MEMORY), 0)
    has_parts = False
    for part in parts:
        has_parts = True
        limits = _counted(part.get("limits"))
        if len(limits) < len(allowed):
            return False
        requests = _counted(part.get("requests"), limits if defaults else {})
        for name in (CPU, MEMORY):
            wanted[name] += requests.get(name, 0)
            allowed[name] += limits[name]
    return has_parts and wanted == allowed


def _counted(field: Field, missing: Resources | None = None) -> Resources:
    """The amounts of cpu and memory above 0. ``missing`` has the amounts to use for resources that
    the field lacks."""
    if field.value is None:
        return dict(missing or {})
    amounts = (missing or {}) | {
        name: field.get(name).amount(name) or 0
        for name in (CPU, MEMORY)
        if field.get(name).value is not None
    }
    return {name: amount for name, amount in amounts.items() if amount > 0}
