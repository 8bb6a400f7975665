"""The guard of a check: it measures each call, watches what it reaches for, and ends a slow one."""

from collections.abc import Callable
from statistics import median
from typing import Any

from eventsched.authoring.findings import Cost
from eventsched.authoring.purity_monitor import Sentinels
from eventsched.domain.nodes.node_views import NodeView
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.scheduling.framework.call_guard import OverrunError

_PER_NODE = {"filter": "filter_node", "score": "score_node"}


class _Sum:
    def __init__(self) -> None:
        self.nodes = 0
        self.times: list[int] = []


class CallMonitor(Deadlines):
    """``slow`` are the methods that took too long, and are not called any more."""

    def __init__(self, sentinels: Sentinels, seconds: float) -> None:
        super().__init__(seconds)
        self.slow: dict[str, float] = {}
        self._sentinels = sentinels
        self._sums: dict[str, _Sum] = {}
        self._overhead = self._measured()

    def timed(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """The call, with everything that is noted of it."""
        outer, self._sentinels.armed = self._sentinels.armed, method
        began = self._sentinels.now()
        try:
            return super().timed(plugin, method, function, *arguments, **named)
        except OverrunError:
            self.slow[method] = self.seconds
            self.overrun = {**self.overrun, (plugin, method): self.seconds}
            raise
        finally:
            took = self._sentinels.now() - began
            self._sentinels.armed = outer
            self._count(method, took, arguments)

    def costs(self, plugin: Any) -> list[Cost]:
        """What the calls took, by method."""
        found = []
        for method, each in self._sums.items():
            per_node = _PER_NODE.get(method, "")
            by_nodes = bool(per_node) and not hasattr(plugin, method)
            found.append(
                Cost(
                    per_node if by_nodes else method,
                    len(each.times),
                    self._micros(median(each.times)),
                    self._micros(max(each.times)),
                    round(each.nodes / len(each.times), 1),
                    by_nodes,
                )
            )
        return found

    def _measured(self) -> float:
        """What watching itself costs (ns)."""
        for _ in range(101):
            self.timed("", "", lambda: None)
        return median(self._sums.pop("").times)

    def _micros(self, nanoseconds: float) -> float:
        return round(max(0.0, nanoseconds - self._overhead) / 1_000, 2)

    def _count(self, method: str, took: int, arguments: tuple[Any, ...]) -> None:
        found = self._sums.setdefault(method, _Sum())
        found.times.append(took)
        found.nodes += next((len(each) for each in arguments if isinstance(each, NodeView)), 0)
