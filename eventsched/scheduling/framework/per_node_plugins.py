"""Per-node plugins as column plugins: ``filter_node`` and ``score_node`` are called for each node.

This is for convenience: a filter costs half a microsecond to one microsecond a node this way. A
plugin for large clusters should sign its pods or work on columns. Plugins are wrapped once, when a
profile is made; the rest of the scheduler sees only columns.
"""

from numbers import Integral
from typing import Any

import numpy as np

from eventsched.domain.int64 import INT64_MAX, INT64_MIN
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod
from eventsched.scheduling.framework.cycle_context import Cycle
from eventsched.scheduling.framework.plugin import IntColumn, PluginError, Status

MOST_REASONS = 65_000
"""The most different answers of one filter_node: a code has 16 bits."""


class PerNode:
    """A plugin whose per-node methods are wrapped; all other attributes are the plugin's."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.name: str = inner.name
        self._statuses: list[Status] = []
        self._numbers: dict[Status, int] = {}

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._inner, attribute)


class _Filtering(PerNode):
    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """filter_node for each node; a code is the number of an answer, which ``explain``
        returns."""
        return np.array([self._code(pod, node) for node in nodes.nodes], dtype=np.int64)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The answer that a code stands for."""
        return self._statuses[code - 1]

    def _code(self, pod: Pod, node: Node | None) -> int:
        if node is None:
            return 0
        answer = self._inner.filter_node(pod, node)
        if answer is None:
            return 0
        status = Status.unschedulable(answer) if isinstance(answer, str) else answer
        if not isinstance(status, Status):
            raise PluginError(
                self.name, "filter_node", f"returned {answer!r}; None, a reason or a Status is due"
            )
        number = self._numbers.get(status, 0)
        if number:
            return number
        if len(self._statuses) == MOST_REASONS:
            raise PluginError(
                self.name,
                "filter_node",
                f"gave more than {MOST_REASONS} different reasons; leave names and measured values "
                "out of them",
            )
        self._statuses.append(status)
        self._numbers[status] = len(self._statuses)
        return len(self._statuses)

    def drop_codes(self) -> bool:
        """Begins the numbering again once half of the codes are given: reasons that name a node or
        a value are new with every node and value, for as long as the process runs."""
        if 2 * len(self._statuses) <= MOST_REASONS:
            return False
        self._statuses, self._numbers = [], {}
        return True


class _Scoring(PerNode):
    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """score_node for each node."""
        scores = [0 if node is None else self._inner.score_node(pod, node) for node in nodes.nodes]
        for score in scores:
            if not isinstance(score, Integral):
                raise PluginError(self.name, "score_node", f"returned {score!r}; an int is due")
        # Numbers beyond int64 are cut to its bounds, which are out of range as well.
        return np.array(
            [max(INT64_MIN, min(INT64_MAX, int(score))) for score in scores], dtype=np.int64
        )


class _FilteringAndScoring(_Filtering, _Scoring):
    """A plugin with both methods."""


def adapted(plugin: Any) -> Any:
    """The plugin, wrapped if it has per-node methods. A column method takes precedence."""
    filters = hasattr(plugin, "filter_node") and not hasattr(plugin, "filter")
    scores = hasattr(plugin, "score_node") and not hasattr(plugin, "score")
    if filters and scores:
        return _FilteringAndScoring(plugin)
    if filters:
        return _Filtering(plugin)
    if scores:
        return _Scoring(plugin)
    return plugin
