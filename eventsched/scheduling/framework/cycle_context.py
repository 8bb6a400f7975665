"""What a plugin may read and do during one attempt of one pod."""

from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from eventsched.domain.objects import canonical
from eventsched.domain.objects.registry import Registry
from eventsched.domain.state.numa_zones import Topologies, no_topologies
from eventsched.domain.state.parts.memory_use import MemoryUse
from eventsched.domain.state.parts.preemptions import Preemptions
from eventsched.domain.state.quota_usage import Quotas
from eventsched.scheduling.framework.plugin import MemoryBounds
from eventsched.scheduling.framework.pod_groups import PodGroups

_NOTHING: Mapping[str, Any] = {}


class Memory(Mapping[str, Any]):
    """A plugin's memory, read only: values are copies, because only events may change it."""

    __slots__ = ("_deadline", "_unused", "_values")

    def __init__(
        self, values: Mapping[str, Any], unused: Mapping[str, int] = _NOTHING, deadline: int = 0
    ) -> None:
        """Leaves out the entries that became unused at ``deadline`` (µs) or earlier. ``unused`` has
        these times, in their order."""
        self._values, self._unused, self._deadline = values, unused, deadline

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        if self._unused and self._is_expired(key):
            raise KeyError(key)
        return plain(value)

    def __iter__(self) -> Iterator[str]:
        if not self._unused:
            return iter(self._values)
        return (key for key in self._values if not self._is_expired(key))

    def __len__(self) -> int:
        expired = takewhile(self._deadline.__ge__, self._unused.values())
        return len(self._values) - sum(1 for _ in expired)

    def _is_expired(self, key: str) -> bool:
        since = self._unused.get(key)
        return since is not None and since <= self._deadline


class MemoryExpiry:
    """The bounds of all plugins, applied to what is in use."""

    def __init__(self, use: MemoryUse, bounds: Mapping[str, MemoryBounds]) -> None:
        self._use = use
        self._bounds = {
            plugin: bound for plugin, bound in bounds.items() if bound.ttl or bound.max_entries
        }

    def expired(self, plugin: str, now: int) -> tuple[Mapping[str, int], int] | None:
        """The plugin's unused entries (key → since when), and a deadline: those that became unused
        then or earlier have expired. None if its entries do not expire."""
        bounds = self._bounds.get(plugin)
        if bounds is None or not bounds.ttl:
            return None
        return self._use.unused(plugin), now - bounds.microseconds

    def due(self, plugin: str, now: int) -> str | None:
        """The key of the entry to remove next, if one is over the bounds."""
        bounds = self._bounds.get(plugin)
        if bounds is None:
            return None
        unused = self._use.unused(plugin)
        for key, since in unused.items():
            is_over = bounds.max_entries and len(unused) > bounds.max_entries
            is_expired = bounds.ttl and since <= now - bounds.microseconds
            return key if is_over or is_expired else None
        return None


class MemoryUpdate(NamedTuple):
    """A change of a plugin's memory that it has asked for; see ``Cycle.remember``."""

    plugin: str
    key: str
    value: Any
    used_by: str = ""


def plain(value: Any) -> Any:
    """A deep copy of a JSON value. Raises TypeError for another value."""
    if value is None or isinstance(value, int):
        return value
    return msgspec.json.decode(canonical(value))


class Cycle(msgspec.Struct, eq=False):
    """What a plugin may read and do during one attempt of one pod, besides its arguments.

    - ``now`` is in microseconds.
    - ``data`` is shared by the plugins of the attempt. Its content after Permit is stored with the
      decision and is there again at PreBind, also after a restart: JSON values under string keys.
    - ``scratch`` is for what a plugin passes between its own extension points in the attempt, under
      its own name. It is never stored.
    - To be read: ``registry`` (the cluster's other objects), ``groups`` (pods by group), ``quotas``
      (usage of namespaces), ``topologies`` (NUMA zones), ``preemptions`` (pods nominated to nodes),
      ``schedulers`` (names of the profiles).
    - ``sender`` is, at Unreserve, the plugin that has rejected the pod while it waited.
    - ``is_strict`` says that a score out of range fails the attempt, as in streams of 0.1.
    """

    now: int
    seed: str
    attempt: int = 0
    data: dict[str, Any] = msgspec.field(default_factory=dict)
    registry: Registry = msgspec.field(default_factory=Registry)
    memories: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)
    waits: Mapping[str, Mapping[str, str]] = msgspec.field(default_factory=dict)
    scratch: dict[str, Any] = msgspec.field(default_factory=dict)
    plugin: str = ""
    remembered: list[MemoryUpdate] = msgspec.field(default_factory=list)
    released: list[tuple[str, str, str | None]] = msgspec.field(default_factory=list)
    activated: list[tuple[str, str]] = msgspec.field(default_factory=list)
    groups: PodGroups = msgspec.field(default_factory=PodGroups)
    sender: str = ""
    quotas: Quotas = msgspec.field(default_factory=lambda: Quotas(Registry(), {}))
    preemptions: Preemptions = msgspec.field(default_factory=Preemptions)
    is_strict: bool = False
    topologies: Topologies = msgspec.field(default_factory=no_topologies)
    schedulers: Collection[str] = ()
    expiry: MemoryExpiry | None = None

    @property
    def memory(self) -> Mapping[str, Any]:
        """The calling plugin's memory without expired entries, read only; ``remember`` changes
        it."""
        memory = self.memories.get(self.plugin)
        if memory is None:
            return _NOTHING
        expired = None if self.expiry is None else self.expiry.expired(self.plugin, self.now)
        return Memory(memory) if expired is None else Memory(memory, *expired)

    @property
    def waiting(self) -> Mapping[str, str]:
        """Pod uid → node of the pods that wait at the calling plugin's Permit."""
        return self.waits.get(self.plugin, _NOTHING)

    def remember(self, key: str, value: Any, used_by: str = "") -> None:
        """Sets a key of the calling plugin's memory to a JSON value, by an event; None removes the
        key. ``used_by`` is the uid of a pod: while it exists, the entry is in use and the plugin's
        ``memory_bounds`` do not apply to it. Raises TypeError or ValueError for a value that is not
        JSON."""
        if not isinstance(key, str) or not isinstance(used_by, str):
            raise TypeError(f"key {key!r} and uid {used_by!r} have to be texts")
        canonical([key, value, used_by])
        self.remembered.append(MemoryUpdate(self.plugin, key, plain(value), used_by))

    def allow(self, uid: str) -> None:
        """Lets a pod that waits at the calling plugin's Permit continue."""
        self.released.append((self.plugin, uid, None))

    def activate(self, uid: str) -> None:
        """Moves a queued pod to the active queue at once, whatever its backoff."""
        self.activated.append((self.plugin, uid))

    def reject(self, uid: str, message: str) -> None:
        """Rejects a pod that waits at the calling plugin's Permit. Raises ValueError for a message
        that is not valid Unicode."""
        canonical(message)
        self.released.append((self.plugin, uid, message))
