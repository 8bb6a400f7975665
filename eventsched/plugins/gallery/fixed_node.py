"""FixedNode: the node named in the configuration scores 100, all others 0."""

from collections.abc import Hashable, Iterator

import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import Cycle, DependsOn, IntColumn, NodeView


class FixedNodeArgs(Arguments, frozen=True):
    """``node_name`` is the preferred node."""

    node_name: str

    def problems(self) -> Iterator[InputError]:
        """An empty name."""
        if not self.node_name:
            yield InputError("nodeName", "is empty", "name the preferred node")


class FixedNode:
    """Score only. If the pod does not fit on the node, or the node does not exist, all others score
    0 and the other plugins decide."""

    name = "FixedNode"
    depends_on = DependsOn.NODE
    Args = FixedNodeArgs

    def __init__(self, args: FixedNodeArgs) -> None:
        self.names_node = args.node_name

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods."""
        return ()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """100 for the named node."""
        return np.where(nodes.is_named(self.names_node), 100, 0)
