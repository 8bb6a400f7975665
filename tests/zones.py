"""Nodes with NUMA zones, and pods for them, by way of the API objects that say so."""

from typing import Any

import msgspec

from eventsched.cluster.translate import cluster_objects, manifest
from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import NodeResourceTopology
from eventsched.testing import make_node

Amounts = dict[str, str]
CONTAINER = "SingleNUMANodeContainerLevel"
POD = "SingleNUMANodePodLevel"


def zone(number: int, costs: dict[int, int] | None = None, **amounts: str) -> dict[str, Any]:
    """A zone with so much free: ``nic`` stands for vendor/nic1, ``huge`` for hugepages-2Mi."""
    return {
        "name": f"node-{number}",
        "type": "Node",
        "costs": [{"name": f"node-{n}", "value": cost} for n, cost in (costs or {}).items()],
        "resources": [
            {"name": NAMES.get(name, name), "capacity": "1Ti", "allocatable": "1Ti",
             "available": amount}
            for name, amount in amounts.items()
        ],
    }  # fmt: skip


NAMES = {"nic": "vendor/nic1", "huge": "hugepages-2Mi", "old_nic": "vendor.com/old-nic-model"}


def topology(
    name: str, *zones: dict[str, Any], policy: str = CONTAINER, **attributes: str
) -> NodeResourceTopology:
    """A node's object with a deprecated policy ("" for none) and attributes."""
    found = cluster_objects.read(
        "NodeResourceTopology",
        {
            "metadata": {"name": name},
            "topologyPolicies": [policy] if policy else [],
            "attributes": [{"name": key, "value": value} for key, value in attributes.items()],
            "zones": list(zones),
        },
        "test",
        defaults=True,
    )
    assert isinstance(found, NodeResourceTopology)
    return found


def node_of(found: NodeResourceTopology, **extra: int) -> Node:
    """The node, with what its zones have together and ``extra``."""
    total: dict[str, int] = {}
    for each in found.zones:
        for name, amount in each.available.items():
            total[name] = min(total.get(name, 0) + amount, 2**63 - 1)
    named = {NAMES.get(name, name): amount for name, amount in extra.items()}
    cpu, memory = total.pop("cpu", 0), total.pop("memory", 0)
    return make_node(found.name, cpu=cpu, memory=memory, extra=total | named)


def seen(*found: NodeResourceTopology) -> list[records.Stimulus]:
    """The stimuli that bring nodes and their objects in."""
    nodes: list[records.Stimulus] = [records.NodeAdded(node=node_of(each)) for each in found]
    return [*nodes, *(records.ObjectChanged(object=each) for each in found)]


def amounts(**given: str) -> Amounts:
    """Requests by their names in tests."""
    return {NAMES.get(name, name): amount for name, amount in given.items()}


def zoned_pod(
    *containers: Amounts, name: str = "p1", limits: Amounts | None = None,
    init: tuple[Amounts, ...] = (), sidecars: tuple[Amounts, ...] = (), limited: bool = True,
    **fields: Any,
) -> Pod:  # fmt: skip
    """A pod of containers with such requests, and as limits the same, or ``limits``; without
    ``limited`` none."""

    def part(requests: Amounts, **more: Any) -> dict[str, Any]:
        resources: dict[str, Any] = {"requests": requests}
        if limited:
            resources["limits"] = requests if limits is None else limits
        return {"name": "c", "resources": resources, **more}

    first = [part(each) for each in init]
    first += [part(each, restartPolicy="Always") for each in sidecars]
    spec = {"containers": [part(each) for each in containers], "initContainers": first, **fields}
    obj = {"metadata": {"name": name}, "spec": spec}
    return msgspec.structs.replace(manifest.pod(obj, "test", defaults=True), uid=name)
