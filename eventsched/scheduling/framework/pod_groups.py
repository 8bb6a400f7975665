"""Pod groups: which group a pod names, and the known pods of each group.

An index derived from the state. It changes only when a pod is added, changed or removed; a member's
queue and node are read from its PodState. The labels are those of sigs.k8s.io/scheduler-plugins,
pkg/coscheduling, which had no PodGroup objects at first.
"""

from collections.abc import Iterable
from typing import NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.objects.integers import integer
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.domain.units import nanoseconds

NAMES = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name")
_NAMES = frozenset(NAMES)
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
TIMEOUT = "pod-group.scheduling.sigs.k8s.io/timeout"
ANNOTATIONS = (*NAMES, MINIMUM, TIMEOUT)
"""Annotations that a pod may have instead of the labels. A plugin that reads groups declares
them."""


class GroupMembership(NamedTuple):
    """A pod's labels about its group. ``group`` is namespace/name; ``minimum`` is how many pods
    have to be scheduled together, 0 if unset; ``seconds`` is how long the pod waits for the others,
    0.0 if unset; ``problem`` says what is wrong with either: the pod is then not a member."""

    group: str
    minimum: int
    created_at: int
    seconds: float = 0.0
    problem: str = ""


def label_or_annotation(pod: Pod, key: str) -> str | None:
    """A pod's label; its annotation if it has no such label."""
    label = pod.labels.get(key)
    return pod.annotations.get(key) if label is None else label


def names_group(pod: Pod) -> bool:
    """Whether a pod has a label or annotation for the name of a group, which few have."""
    return not (_NAMES.isdisjoint(pod.labels) and _NAMES.isdisjoint(pod.annotations))


def membership(pod: Pod) -> GroupMembership | None:
    """A pod's membership as its labels describe it; None if it names no group."""
    if not names_group(pod):
        return None
    name = next((value for key in NAMES if (value := label_or_annotation(pod, key))), None)
    if name is None:
        return None
    group = f"{pod.namespace}/{name}"
    minimum, timeout = label_or_annotation(pod, MINIMUM), label_or_annotation(pod, TIMEOUT)
    number = 0 if minimum is None else integer(minimum) or -1
    seconds = 0.0 if timeout is None else _seconds(timeout)
    problem = ""
    if number < 0:
        problem = f"{MINIMUM} is {minimum!r}, a whole number above 0 is needed"
    elif seconds < 0:
        problem = f"{TIMEOUT} is {timeout!r}, a duration such as 2m is needed"
    if problem:
        return GroupMembership(group, 0, pod.created_at, problem=f"pod group {group}: {problem}")
    return GroupMembership(group, number, pod.created_at, seconds)


def _seconds(text: str) -> float:
    """A duration in seconds; -1 for a text that is not a duration above 0."""
    try:
        seconds = nanoseconds(text) / 1e9
    except InputError:
        return -1.0
    return seconds if seconds > 0 else -1.0


class Group:
    """The known pods of a group that are not being deleted, by uid. ``minimum`` is the largest
    minimum of any member, 0 if none has one; ``created_at`` (µs) is that of the oldest member."""

    __slots__ = ("created_at", "members", "minimum", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, PodState] = {}
        self.minimum = 0
        self.created_at = 0

    @property
    def is_enough(self) -> bool:
        """Whether the group has its minimum of members."""
        return 0 < self.minimum <= len(self.members)

    def in_order(self, uids: Iterable[str]) -> list[str]:
        """Members in the order in which they were added."""
        return sorted(uids, key=lambda uid: self.members[uid].number)


class PodGroups:
    """The groups of all known pods. Those of a restored state are looked for when groups are first
    asked for: an engine that only judges pods without a group never asks."""

    def __init__(self, state: SchedulerState | None = None) -> None:
        self._state = state
        self._is_restored = False
        self._groups: dict[str, Group] = {}
        self._memberships: dict[str, GroupMembership] = {}
        self._changed: dict[str, None] = {}

    def get(self, name: str) -> Group | None:
        """The group of a name (namespace/name); None if it has no known pods."""
        if self._is_restored:
            self.index()
        return self._groups.get(name)

    def of(self, uid: str) -> Group | None:
        """The group that a pod is a member of."""
        if self._is_restored:
            self.index()
        member = self._memberships.get(uid)
        return None if member is None else self._groups[member.group]

    def restored(self) -> None:
        """The state has been restored. It must not change before ``index`` is called."""
        self._is_restored = True

    def index(self) -> None:
        """Finds the groups of a restored state, unless that is done."""
        if not self._is_restored or self._state is None:
            return
        self._is_restored = False
        for uid, pod_state in self._state.pods.items():
            if names_group(pod_state.pod):
                self.note(uid)
        self._changed.clear()

    def note(self, uid: str) -> list[str]:
        """Updates the groups after a pod was added, changed or removed. Returns the members of its
        group if the group's ``created_at`` has changed."""
        pod_state = None if self._state is None else self._state.pods.get(uid)
        now = None if pod_state is None or pod_state.pod.deleting else membership(pod_state.pod)
        if now is not None and now.problem:
            now = None
        before = self._memberships.pop(uid, None)
        if now is None and before is None:
            return []
        aged: list[str] = []
        if before is not None and (now is None or now.group != before.group):
            aged += self._drop(uid, before)
        if pod_state is not None and now is not None:
            aged += self._put(uid, now, before, pod_state)
        return aged

    def changed(self) -> list[Group]:
        """The groups that have lost a pod, have a changed pod, or have reached their minimum since
        the last call, if any pods are left. A new pod without a node is not a change: it is
        scheduled itself."""
        if not self._changed:
            return []
        groups = [self._groups[name] for name in self._changed if name in self._groups]
        self._changed.clear()
        return groups

    def _put(
        self, uid: str, now: GroupMembership, before: GroupMembership | None, pod_state: PodState
    ) -> list[str]:
        group = self._groups.setdefault(now.group, Group(now.group))
        was_enough = group.is_enough
        is_other = uid in group.members or pod_state.bound
        group.members[uid] = pod_state
        self._memberships[uid] = now
        aged = [] if before == now else self._sum_up(group, now if before is None else None)
        if is_other or group.is_enough > was_enough:
            self._changed[now.group] = None
        return aged

    def _drop(self, uid: str, before: GroupMembership) -> list[str]:
        group = self._groups[before.group]
        self._changed[before.group] = None
        del group.members[uid]
        if not group.members:
            del self._groups[before.group]
            return []
        is_oldest = before.created_at == group.created_at
        return self._sum_up(group) if is_oldest or before.minimum == group.minimum else []

    def _sum_up(self, group: Group, added: GroupMembership | None = None) -> list[str]:
        """Updates ``minimum`` and ``created_at``. A pod that was added is compared with the group
        alone, without looking at the other members."""
        before = group.created_at
        if added is not None and len(group.members) > 1:
            group.minimum = max(group.minimum, added.minimum)
            group.created_at = min(group.created_at, added.created_at)
        else:
            memberships = [self._memberships[uid] for uid in group.members]
            group.minimum = max(membership.minimum for membership in memberships)
            group.created_at = min(membership.created_at for membership in memberships)
        return list(group.members) if group.created_at != before else []
