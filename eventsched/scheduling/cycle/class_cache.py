"""The equivalence classes of the pods that are tried, as long as such pods come."""

from collections import OrderedDict
from collections.abc import Hashable

from eventsched.domain.objects import Pod
from eventsched.scheduling.cycle.equivalence import EquivalenceClass
from eventsched.scheduling.framework import Cycle
from eventsched.scheduling.framework.profile import Profile

IDLE_LOOKUPS = 10_000
"""A class that none of this number of lookups has used is dropped: the rollouts of years leave
templates of which no pod comes any more. Computing a class again costs about as much as an attempt.
"""


class _Entry:
    """A class with its size in bytes, and the lookup that used it last."""

    __slots__ = ("equivalence_class", "size", "used")

    def __init__(self, equivalence_class: EquivalenceClass) -> None:
        self.equivalence_class = equivalence_class
        self.size, self.used = 0, 0


class ClassCache:
    """The most recently used classes, within a bound on memory and without those that are no longer
    used."""

    def __init__(self, limit_bytes: int = 512 * 2**20, idle_lookups: int = IDLE_LOOKUPS) -> None:
        self._limit, self._idle_lookups = limit_bytes, idle_lookups
        self._lookups = 0
        self._classes: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._held = 0
        self._newest: _Entry | None = None

    @property
    def count(self) -> int:
        """The number of classes."""
        return len(self._classes)

    def get(self, profile: Profile, pod: Pod, cycle: Cycle) -> EquivalenceClass:
        """The pod's class, not yet refreshed. Raises PluginError."""
        self._lookups += 1
        signatures = profile.signatures(pod)
        key = (profile.name, signatures)
        entry = self._classes.get(key)
        if entry is None:
            equivalence_class = EquivalenceClass(profile, pod, profile.unsigned(signatures), cycle)
            if equivalence_class.broken:
                return equivalence_class  # not cached: the next pod runs the plugins again
            if self._newest is not None:
                self._measure(self._newest)
            self._classes[key] = self._newest = entry = _Entry(equivalence_class)
            self._drop()
        else:
            self._classes.move_to_end(key)
            self._measure(entry)
        entry.used = self._lookups
        return entry.equivalence_class

    def _drop(self) -> None:
        """Drops the classes that are too many or no longer used, except the newest."""
        while len(self._classes) > 1:
            key, oldest = next(iter(self._classes.items()))
            is_idle = self._lookups - oldest.used > self._idle_lookups
            if self._held <= self._limit and not is_idle:
                break
            del self._classes[key]
            self._held -= oldest.size

    def forget(self) -> None:
        """Drops everything."""
        self._classes.clear()
        self._held, self._newest = 0, None

    def _measure(self, entry: _Entry) -> None:
        """Updates the size of a class. A class grows with its first use, and seldom later, so it
        is measured when the next class is added and when it is used again."""
        size = entry.equivalence_class.bytes
        self._held += size - entry.size
        entry.size = size
