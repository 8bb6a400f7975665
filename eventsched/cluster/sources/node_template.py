"""A file with one Node, which stands for nodes that a cluster does not have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eventsched.cluster.sources import manifests
from eventsched.cluster.sources.unknown_fields import refuse_unknown_fields
from eventsched.cluster.sources.workload_pods import PodsOfWorkloads
from eventsched.domain.errors import InputError
from eventsched.domain.objects import CPU, MEMORY, PODS, Node
from eventsched.domain.objects.labels import is_subdomain

_NEEDED = (CPU, MEMORY, PODS)
"""What a node offers at least, so that a pod can be on it."""


class _CheckedFields(PodsOfWorkloads):
    """Refuses fields that a node does not have; workloads make no pods here."""

    def expand(
        self, obj: dict[str, Any], kind: str, where: str
    ) -> Iterator[tuple[dict[str, Any], str]]:
        """The object as it is. Raises InputError."""
        if kind == "Node":
            refuse_unknown_fields(obj, kind, where)
        yield obj, kind


def read(path: Path) -> Node:
    """The node in a manifest file. Raises InputError if the file cannot be read or holds anything
    else, if the node has a field or a name that an API server refuses, and if it does not say how
    much it offers."""
    [found] = manifests.read_all([path], _CheckedFields())
    others = len(found.pods) + len(found.objects) + len(found.samples) + len(found.warnings)
    if len(found.nodes) != 1 or others:
        remedy = "write one Node into it, as kubectl get node -o yaml prints it"
        raise InputError(str(path), "is not the manifest of one node", remedy)
    [node] = found.nodes
    if not is_subdomain(node.name):
        remedy = "write lower case letters, digits, - and ., as in large-node"
        raise InputError(f"{path}: metadata.name", f"{node.name!r} cannot name a node", remedy)
    missing = [name for name in _NEEDED if not node.allocatable.get(name)]
    if missing:
        remedy = "write status: {allocatable: {cpu: 4, memory: 16Gi, pods: 110}} with its amounts"
        problem = f"has no {' and no '.join(missing)}, so that no pod would fit on node {node.name}"
        raise InputError(f"{path}: status.allocatable", problem, remedy)
    return node
