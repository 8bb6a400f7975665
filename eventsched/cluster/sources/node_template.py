"""A file with one Node, which stands for nodes that a cluster does not have."""

from pathlib import Path

from eventsched.cluster.sources import manifests
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node


def read(path: Path) -> Node:
    """The node in a manifest file. Raises InputError if the file cannot be read or holds anything
    else."""
    found = manifests.read(path)
    others = len(found.pods) + len(found.objects) + len(found.samples) + len(found.warnings)
    if len(found.nodes) != 1 or others:
        remedy = "write one Node into it, as kubectl get node -o yaml prints it"
        raise InputError(str(path), "is not the manifest of one node", remedy)
    return found.nodes[0]
