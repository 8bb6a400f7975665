"""The call guard used by a check: it times each call, arms the purity monitor, and ends calls that
take too long."""

from collections.abc import Callable
from statistics import median
from typing import Any

from eventsched.authoring.findings import Cost
from eventsched.authoring.purity_monitor import PurityMonitor
from eventsched.domain.nodes.node_views import NodeView
from eventsched.runtime.call_deadlines import Deadlines
from eventsched.scheduling.framework.call_guard import OverrunError

_PER_NODE = {"filter": "filter_node", "score": "score_node"}


class _CallTimes:
    """The processor times (ns) of a method's calls, and the number of nodes in all of them."""

    def __init__(self) -> None:
        self.nodes = 0
        self.times: list[int] = []


class CallMonitor(Deadlines):
    """``slow`` maps each method that exceeded the deadline to that deadline (s); such a method is
    not called again."""

    def __init__(self, monitor: PurityMonitor, seconds: float) -> None:
        super().__init__(seconds)
        self.slow: dict[str, float] = {}
        self._monitor = monitor
        self._calls: dict[str, _CallTimes] = {}
        self._overhead = self._measure_overhead()

    def timed(
        self, plugin: str, method: str, function: Callable[..., Any], *arguments: Any, **named: Any
    ) -> Any:
        """Makes the call, timed and monitored. Raises OverrunError after the deadline."""
        outer, self._monitor.armed = self._monitor.armed, method
        began = self._monitor.now()
        try:
            return super().timed(plugin, method, function, *arguments, **named)
        except OverrunError:
            self.slow[method] = self.seconds
            self.overrun = {**self.overrun, (plugin, method): self.seconds}
            raise
        finally:
            took = self._monitor.now() - began
            self._monitor.armed = outer
            self._count(method, took, arguments)

    def costs(self, plugin: Any) -> list[Cost]:
        """The cost of each method that was called."""
        costs = []
        for method, calls in self._calls.items():
            per_node = _PER_NODE.get(method, "")
            is_per_node = bool(per_node) and not hasattr(plugin, method)
            costs.append(
                Cost(
                    per_node if is_per_node else method,
                    len(calls.times),
                    self._micros(median(calls.times)),
                    self._micros(max(calls.times)),
                    round(calls.nodes / len(calls.times), 1),
                    is_per_node,
                )
            )
        return costs

    def _measure_overhead(self) -> float:
        """The cost of monitoring itself (ns)."""
        for _ in range(101):
            self.timed("", "", lambda: None)
        return median(self._calls.pop("").times)

    def _micros(self, nanoseconds: float) -> float:
        return round(max(0.0, nanoseconds - self._overhead) / 1_000, 2)

    def _count(self, method: str, took: int, arguments: tuple[Any, ...]) -> None:
        calls = self._calls.setdefault(method, _CallTimes())
        calls.times.append(took)
        calls.nodes += next((len(view) for view in arguments if isinstance(view, NodeView)), 0)
