"""A file with one Node, which stands for nodes that a cluster does not have."""

from pathlib import Path

from eventsched.cluster.sources import manifests
from eventsched.domain.errors import InputError
from eventsched.domain.objects import CPU, MEMORY, PODS, Node

_NEEDED = (CPU, MEMORY, PODS)
"""What a node offers at least, so that a pod can be on it."""


def read(path: Path) -> Node:
    """The node in a manifest file. Raises InputError if the file cannot be read or holds anything
    else, and if the node does not say how much it offers."""
    found = manifests.read(path)
    others = len(found.pods) + len(found.objects) + len(found.samples) + len(found.warnings)
    if len(found.nodes) != 1 or others:
        remedy = "write one Node into it, as kubectl get node -o yaml prints it"
        raise InputError(str(path), "is not the manifest of one node", remedy)
    [node] = found.nodes
    missing = [name for name in _NEEDED if not node.allocatable.get(name)]
    if missing:
        remedy = "write status: {allocatable: {cpu: 4, memory: 16Gi, pods: 110}} with its amounts"
        problem = f"has no {' and no '.join(missing)}, so that no pod would fit on node {node.name}"
        raise InputError(f"{path}: status.allocatable", problem, remedy)
    return node
