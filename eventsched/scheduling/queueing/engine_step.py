"""A step of the engine: applies each record to the state at once and collects it for the log.

The parts of the engine (scheduling cycle, scheduling queue, binding cycle) share it. Each decides
and calls ``emit``. Nothing else changes the state.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.detail_levels import DetailLevels
from eventsched.domain.objects import Pod
from eventsched.domain.records import Event, Record
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.records.verdicts import Detail
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.scheduling.framework import POINTS, Cycle, MemoryBounds, PluginError, plain
from eventsched.scheduling.framework.cycle_context import MemoryExpiry
from eventsched.scheduling.framework.extender import Extender
from eventsched.scheduling.framework.plugin import wider
from eventsched.scheduling.framework.pod_groups import PodGroups
from eventsched.scheduling.framework.profile import Profile, profile_for
from eventsched.scheduling.queueing.queue_index import QueueIndex

_MOVES = {row.record: row.uid for row in CATALOGUE if row.moves_pod}
_REGROUPS = {row.record: row.uid for row in CATALOGUE if row.regroups_pod}
"""Kind → the function from such a record to the uid of its pod."""


class EngineStep:
    """The state, the queue, and the records made since the last ``drain``."""

    def __init__(
        self, profiles: Mapping[str, Profile], extenders: Sequence[Extender] = (),
        state: SchedulerState | None = None,
    ) -> None:  # fmt: skip
        self.state = SchedulerState() if state is None else state
        self.profiles = profiles
        self.extenders = extenders
        self.detail_levels = DetailLevels()
        first = next(iter(profiles.values()))
        self.groups = PodGroups(self.state)
        self.expiry = MemoryExpiry(self.state.memory_use, _memory_bounds(profiles))
        self._queue = QueueIndex(self.state, first.sort_key, self.groups)
        self._is_restored = False
        """Whether there is a restored state whose queued pods ``queue`` has not indexed yet."""
        alone = {"queueSort": first.points["queueSort"]}
        self._no_plugins = Profile("", {point: alone.get(point, []) for point in POINTS}, {})
        self._drop_codes = [
            calls.drop_codes
            for profile in profiles.values()
            for calls in profile.by_name.values()
            if calls.drop_codes is not None
        ]
        self.position = 0
        self._cause = 0
        self._out: list[LogEntry] = []
        if state is not None:
            self.restored(state.position)

    @property
    def queue(self) -> QueueIndex:
        """The queue. It indexes the queued pods of a restored state, and the pod groups, when it is
        first asked for: an engine that only judges never asks."""
        if self._is_restored:
            self._index()
        return self._queue

    def _index(self) -> None:
        self._is_restored = False
        self.groups.index()
        reservations = self.state.reservations
        for uid, pod_state in self.state.pods.items():
            if pod_state.queue is not None and uid not in reservations:
                self._queue.note(uid, self.signatures)

    def begin(self) -> None:
        """Starts a step: the next record is the cause of all that follow it."""
        self._cause = self.position

    def record(self, record: Record, at: int, detail: Detail | None = None) -> None:
        """Applies a record and collects it."""
        if self._is_restored:
            self._index()  # the restored state as that was restored
        self.state.apply(record, at)
        self._out.append(LogEntry(self.position, at, self._cause, record, detail))
        self.position += 1
        kind = type(record)
        if (uid_of := _REGROUPS.get(kind)) is not None:
            self._note_group(uid_of(record))
        if (uid_of := _MOVES.get(kind)) is not None:
            self._queue.note(uid_of(record), self.signatures)

    def emit(self, event: Event, detail: Detail | None = None) -> None:
        """Records an event at the current time."""
        self.record(event, self.state.now, detail)

    def restored(self, position: int) -> None:
        """Indexes a state restored from a snapshot. ``position`` is that of the next record."""
        self.position = position
        self._is_restored = True
        self.groups.restored()
        for uid in self.state.reservations:
            self._queue.note(uid, self.signatures)
        self._out.clear()

    def drop_codes(self) -> bool:
        """Whether a plugin has begun the numbering of its codes again. Call it between attempts."""
        if not self._drop_codes or Behaviour.RENUMBERS_CODES not in self.state.flags:
            return False
        dropped = [_has_dropped(drop_codes) for drop_codes in self._drop_codes]
        return True in dropped

    def drain(self) -> list[LogEntry]:
        """The records since the last call."""
        taken, self._out = self._out, []
        self.groups.changed()  # these changes have been handled: their records are in the list
        return taken

    @property
    def is_empty(self) -> bool:
        """Whether no record was made since the last ``drain``."""
        return not self._out

    def scheduling_profile(self, pod_state: PodState) -> Profile | None:
        """The profile that schedules a pod; None if this scheduler is not responsible for it."""
        return None if self.state.serves else self.profile_for(pod_state.pod.scheduler_name)

    def profile_for(self, scheduler_name: str) -> Profile | None:
        """The profile for a schedulerName; None if there is none."""
        return profile_for(self.profiles, self.state.shadows, scheduler_name)

    @property
    def served_profile(self) -> Profile | None:
        """The profile used to answer other schedulers; None if this scheduler does not serve."""
        return self.profiles.get(self.state.serves) if self.state.serves else None

    def placing_profile(self, pod: Pod) -> Profile:
        """The profile that placed a pod with a reservation; one without plugins if that profile no
        longer exists."""
        return self.profile_for(self.state.serves or pod.scheduler_name) or self._no_plugins

    def signatures(self, pod_state: PodState) -> tuple[Any, ...]:
        """The profile's name, then a value for each plugin that refused the pod: the signature for
        its hint; None without a hint; the pod's uid if the plugin has no signature."""
        profile = self.scheduling_profile(pod_state)
        if profile is None:
            return ()
        return (
            profile.name,
            *(profile.hint_key(name, pod_state.pod) for name in pod_state.rejectors),
        )

    def cycle(self, attempt: int, carry: Mapping[str, Any] | None = None) -> Cycle:
        """A cycle for one step of one pod. ``carry`` is the plugin data stored by its attempt."""
        return Cycle(
            now=self.state.now,
            seed=self.state.seed,
            attempt=attempt,
            data=plain(dict(carry)) if carry else {},
            registry=self.state.registry,
            memories=self.state.memory,
            waits=self._queue.permit_waits,
            groups=self.groups,
            quotas=self.state.quotas,
            preemptions=self.state.preemptions,
            is_strict=Behaviour.SPARES_OTHER_NODES not in self.state.flags
            and bool(self.state.in_force),
            topologies=self.state.topologies,
            schedulers=self.profiles.keys(),
            expiry=self.expiry,
        )

    def _note_group(self, uid: str) -> None:
        for member in self.groups.note(uid):
            self.queue.reorder(member)


def _has_dropped(drop_codes: Callable[[], bool]) -> bool:
    try:
        return bool(drop_codes())
    except PluginError:
        return True  # it may have dropped some; without cached columns that is the same


def _memory_bounds(profiles: Mapping[str, Profile]) -> dict[str, MemoryBounds]:
    """The bounds of each plugin's memory, which the profiles share; a plugin without bounds in one
    of them has none."""
    by_plugin: dict[str, MemoryBounds] = {}
    for profile in profiles.values():
        for name, calls in profile.by_name.items():
            bounds = calls.traits.memory_bounds or MemoryBounds()
            by_plugin[name] = wider(by_plugin.get(name, bounds), bounds)
    return by_plugin
