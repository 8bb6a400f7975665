"""Changes of the plugins' memory, and the removal of entries that are over their bounds."""

from collections.abc import Iterable

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.records import MemoryChanged
from eventsched.scheduling.framework import ClusterEvent
from eventsched.scheduling.framework.cycle_context import MemoryUpdate
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.scheduling_queue import SchedulingQueue

_MOST_REMOVED = 2
"""Entries removed after one change. A change adds at most one, so the number falls while more are
over the bounds, and each change costs little."""


class MemoryWriter:
    """Makes the records that change a plugin's memory, and wakes the pods that they concern."""

    def __init__(self, step: EngineStep, scheduling_queue: SchedulingQueue) -> None:
        self._step = step
        self._scheduling_queue = scheduling_queue

    def write(self, updates: Iterable[MemoryUpdate]) -> None:
        """Records what plugins remember, then removes entries that are over the bounds."""
        bounded = Behaviour.BOUNDS_MEMORY in self._step.state.flags
        for plugin, key, value, uid in updates:
            used_by = uid if bounded and value is not None else ""
            self._step.emit(MemoryChanged(plugin=plugin, key=key, value=value, used_by=used_by))
            self._scheduling_queue.memory_changed(plugin)
            self.trim(plugin)

    def remove(self, plugin: str, key: str) -> None:
        """Records that an entry is removed. Pods that the plugin refused may pass now."""
        self._step.emit(MemoryChanged(plugin=plugin, key=key))
        self._scheduling_queue.memory_changed(plugin, ClusterEvent.MEMORY_FORGOTTEN)

    def trim(self, plugin: str) -> None:
        """Removes the entries of a plugin that are over its bounds: those unused for the longest
        time first, two at most."""
        for _ in range(_MOST_REMOVED):
            key = self._step.expiry.due(plugin, self._step.state.now)
            if key is None:
                return
            self.remove(plugin, key)
