"""Which pods wait at a position of a log: in which order, and what could end it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from eventsched.domain.records import Queue
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.units import is_virtual
from eventsched.history.past_state.state_document import AT_PERMIT, PREPARING, standing
from eventsched.scheduling.framework.pod_groups import PodGroups
from eventsched.scheduling.framework.profile import Profile, profile_for
from eventsched.scheduling.queueing.queue_index import FLUSH_AFTER, QueueIndex

PLACES = (*map(str, Queue), AT_PERMIT, PREPARING)
"""Where a pod can wait: in a queue, or on its way to a node."""


@dataclass(frozen=True)
class WakingPlugin:
    """A plugin that a pod waits for, and the events and kinds of objects whose change lets it be
    asked again. Both are empty if the plugin is not in the configuration."""

    plugin: str
    events: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


@dataclass(frozen=True)
class WaitingPod:
    """A pod that waits at a ``place`` (PLACES). ``number`` is its position there, from 1. Times are
    in µs:

    - ``entered``: since when it waits there (None: unknown); ``added``: when it was created, or
      came (None: unknown). A simulation begins at 0, so that 0 is a time.
    - ``until``: when its wait ends at the latest, 0 for no such time: the end of the backoff, the
      flush of an unschedulable pod, the deadline of a plugin that it waits for.
    """

    pod_state: PodState
    place: str
    number: int
    entered: int | None
    added: int | None
    until: int
    plugins: tuple[WakingPlugin, ...]


class WaitingPlace(NamedTuple):
    """The place at which a pod waits, and its number there, from 1."""

    place: str
    number: int
    pod_state: PodState


def waiting_pods(state: SchedulerState, profiles: Mapping[str, Profile]) -> list[WaitingPod]:
    """The pods that wait, in the order of ``waiting_places``. ``profiles`` are those in force, by
    schedulerName."""
    return [waiting_pod(state, profiles, each) for each in waiting_places(state, profiles)]


def waiting_places(
    state: SchedulerState, profiles: Mapping[str, Profile]
) -> Iterator[WaitingPlace]:
    """Where pods wait, place by place in the order of PLACES: the active ones in the order in which
    they are tried, those with a time by it, others in the order in which they came."""
    by_place: dict[str, list[PodState]] = {}
    for pod_state in state.pods.values():
        if not pod_state.bound:
            by_place.setdefault(standing(state, pod_state), []).append(pod_state)
    for place in PLACES:
        pods = by_place.get(place, [])
        if place == Queue.ACTIVE:
            pods = _active_order(state, profiles, pods)
        elif place in (Queue.UNSCHEDULABLE, Queue.GATED):
            pods.sort(key=lambda pod_state: pod_state.order)
        else:
            pods.sort(key=lambda pod_state: (_until(state, pod_state), pod_state.order))
        for number, pod_state in enumerate(pods, 1):
            yield WaitingPlace(place, number, pod_state)


def _active_order(
    state: SchedulerState, profiles: Mapping[str, Profile], pods: Iterable[PodState]
) -> list[PodState]:
    """The active pods as the scheduler sorts them."""
    groups = PodGroups(state)
    groups.restored()
    index = QueueIndex(state, next(iter(profiles.values())).sort_key, groups)
    for pod_state in pods:
        index.note(pod_state.pod.uid, lambda pod_state: ())
    return [state.pods[uid] for uid in index.in_order()]


def waiting_pod(
    state: SchedulerState, profiles: Mapping[str, Profile], where: WaitingPlace
) -> WaitingPod:
    """What a state says about a pod that waits."""
    place, number, pod_state = where
    pod = pod_state.pod
    profile = profile_for(profiles, state.shadows, pod.scheduler_name)
    reservation = state.reservations.get(pod.uid)
    names: Iterable[str] = ()
    if reservation is not None:
        names = (*reservation.waits, *reservation.preparing)
    elif place in (Queue.UNSCHEDULABLE, Queue.GATED):
        names = pod_state.rejectors
    return WaitingPod(
        pod_state,
        place,
        number,
        entered=pod_state.entered if reservation is None else None,
        added=_added(state, pod_state),
        until=_until(state, pod_state),
        plugins=tuple(_waking(profile, name) for name in names),
    )


def _added(state: SchedulerState, pod_state: PodState) -> int | None:
    """When (µs) a pod was created, or came; None if the state does not say it."""
    created, in_simulation = pod_state.pod.created_at, is_virtual(state.now)
    # Manifests of a real cluster have creation times that a simulation has not reached.
    if created and is_virtual(created) == in_simulation:
        return created
    if not pod_state.attempts:
        return pod_state.since
    return 0 if in_simulation else None  # pods without a time of the simulation come at 0


def _until(state: SchedulerState, pod_state: PodState) -> int:
    reservation = state.reservations.get(pod_state.pod.uid)
    if reservation is not None:
        return min((*reservation.waits.values(), *reservation.preparing.values()), default=0)
    if pod_state.queue is Queue.UNSCHEDULABLE:
        return pod_state.entered + FLUSH_AFTER
    return pod_state.until if pod_state.queue is Queue.BACKOFF else 0


def _waking(profile: Profile | None, name: str) -> WakingPlugin:
    plugin = None if profile is None else profile.by_name.get(name)
    if plugin is None:
        return WakingPlugin(name)
    return WakingPlugin(
        name,
        tuple(sorted(str(event) for event in plugin.traits.wakes_on)),
        tuple(sorted(kind.__name__ for kind in plugin.traits.wakes_on_objects)),
    )
