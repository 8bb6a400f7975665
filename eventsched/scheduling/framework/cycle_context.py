"""What a plugin may read and do during one attempt of one pod."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec

from eventsched.domain.objects import canonical
from eventsched.domain.objects.registry import Registry
from eventsched.domain.state.numa_zones import Topologies, no_topologies
from eventsched.domain.state.preemptions import Preemptions
from eventsched.domain.state.quota_usage import Quotas
from eventsched.scheduling.framework.pod_groups import PodGroups

_NOTHING: Mapping[str, Any] = {}


class Memory(Mapping[str, Any]):
    """A plugin's memory, read only: values are copies, because only events may change it."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return plain(self._values[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


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
    remembered: list[tuple[str, str, Any]] = msgspec.field(default_factory=list)
    released: list[tuple[str, str, str | None]] = msgspec.field(default_factory=list)
    activated: list[tuple[str, str]] = msgspec.field(default_factory=list)
    groups: PodGroups = msgspec.field(default_factory=PodGroups)
    sender: str = ""
    quotas: Quotas = msgspec.field(default_factory=lambda: Quotas(Registry(), {}))
    preemptions: Preemptions = msgspec.field(default_factory=Preemptions)
    is_strict: bool = False
    topologies: Topologies = msgspec.field(default_factory=no_topologies)
    schedulers: Collection[str] = ()

    @property
    def memory(self) -> Mapping[str, Any]:
        """The calling plugin's memory, read only; ``remember`` changes it."""
        memory = self.memories.get(self.plugin)
        return _NOTHING if memory is None else Memory(memory)

    @property
    def waiting(self) -> Mapping[str, str]:
        """Pod uid → node of the pods that wait at the calling plugin's Permit."""
        return self.waits.get(self.plugin, _NOTHING)

    def remember(self, key: str, value: Any) -> None:
        """Sets a key of the calling plugin's memory to a JSON value, by an event; None removes the
        key. Raises TypeError or ValueError for a value that is not JSON."""
        canonical([key, value])
        self.remembered.append((self.plugin, key, plain(value)))

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
