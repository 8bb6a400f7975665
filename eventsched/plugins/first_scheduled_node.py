"""FirstScheduledNode: a pod that comes back under its name goes to the node it was on first.

The memory is in the log: it changes through MemoryChanged events only, and a restart has it again.
"""

from typing import Literal

import msgspec
import numpy as np

from eventsched.domain.objects import Pod
from eventsched.scheduling.framework import (
    ClusterEvent,
    Cycle,
    IntColumn,
    NodeView,
    PreFilterResult,
    Status,
)


class FirstScheduledNodeArgs(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True
):
    """``mode``: with ``required`` the pod waits for its node, with ``preferred`` its node scores
    100 and the others 0."""

    mode: Literal["required", "preferred"] = "required"


class FirstScheduledNode:
    """Remembers namespace/name → node at PostBind; narrows to it or prefers it afterwards."""

    name = "FirstScheduledNode"
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.MEMORY_CHANGE)
    Args = FirstScheduledNodeArgs

    def __init__(self, args: FirstScheduledNodeArgs | None = None) -> None:
        self._required = (args or FirstScheduledNodeArgs()).mode == "required"

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> PreFilterResult | None:
        """The remembered node alone, in mode required."""
        node = cycle.memory.get(pod.full_name)
        if node is None or not self._required:
            return None
        return PreFilterResult(frozenset([node]))

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Nothing to prefer for a pod that was never placed, or in mode required."""
        known = pod.full_name in cycle.memory and not self._required
        return None if known else Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """100 for the remembered node."""
        return np.where(nodes.is_named(cycle.memory.get(pod.full_name, "")), 100, 0)

    def post_bind(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Remembers the first node only."""
        if pod.full_name not in cycle.memory:
            cycle.remember(pod.full_name, node)
