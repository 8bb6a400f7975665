"""Pods that belong together: which group a pod names, and the known pods of each group.

An index derived from the state; where a pod stands is read from its PodState, so that only those
records matter after which a pod is there, is another or is gone. The labels are those of
sigs.k8s.io/scheduler-plugins, pkg/coscheduling, which had no PodGroup objects at first.
"""

from collections.abc import Iterable
from typing import NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.objects.integers import integer
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.domain.units import nanoseconds

NAMES = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io/name")
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
TIMEOUT = "pod-group.scheduling.sigs.k8s.io/timeout"
ANNOTATIONS = (*NAMES, MINIMUM, TIMEOUT)
"""What pods may say in annotations instead: a plugin that reads groups declares these."""


class GroupMembership(NamedTuple):
    """What a pod says of its group. ``group`` is namespace/name; ``minimum`` how many pods have to
    go together, 0 where it does not say; ``seconds`` how long it waits for the others, 0.0 where
    it does not say; ``problem`` what is wrong with either: it is no member then."""

    group: str
    minimum: int
    created_at: int
    seconds: float = 0.0
    problem: str = ""


def said(pod: Pod, key: str) -> str | None:
    """A pod's label or, without it, its annotation."""
    label = pod.labels.get(key)
    return pod.annotations.get(key) if label is None else label


def membership(pod: Pod) -> GroupMembership | None:
    """What a pod says of its group; None where it is in none."""
    name = next((found for key in NAMES if (found := said(pod, key))), None)
    if name is None:
        return None
    group, minimum, timeout = f"{pod.namespace}/{name}", said(pod, MINIMUM), said(pod, TIMEOUT)
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
    """A duration in seconds; -1 for what is none, or not above 0."""
    try:
        found = nanoseconds(text) / 1e9
    except InputError:
        return -1.0
    return found if found > 0 else -1.0


class Group:
    """The known pods of a group that are not being deleted, by uid. ``minimum`` is the largest
    that any of them says, 0 where none does; ``created_at`` (µs) that of the oldest."""

    __slots__ = ("created_at", "members", "minimum", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[str, PodState] = {}
        self.minimum = 0
        self.created_at = 0

    @property
    def is_enough(self) -> bool:
        """Whether there are as many as have to go together."""
        return 0 < self.minimum <= len(self.members)

    def in_order(self, uids: Iterable[str]) -> list[str]:
        """Members in the order in which they came."""
        return sorted(uids, key=lambda uid: self.members[uid].number)


class PodGroups:
    """The groups of all known pods."""

    def __init__(self, state: SchedulerState | None = None) -> None:
        self._state = state
        self._groups: dict[str, Group] = {}
        self._said: dict[str, GroupMembership] = {}
        self._changed: dict[str, None] = {}

    def get(self, name: str) -> Group | None:
        """The group of a name (namespace/name); None where none of its pods is known."""
        return self._groups.get(name)

    def of(self, uid: str) -> Group | None:
        """The group that a pod is a member of."""
        member = self._said.get(uid)
        return None if member is None else self._groups[member.group]

    def note(self, uid: str) -> list[str]:
        """Takes in that a pod has come, changed or gone. Returns the pods of its group where these
        are older or younger now, taken together."""
        state = None if self._state is None else self._state.pods.get(uid)
        now = None if state is None or state.pod.deleting else membership(state.pod)
        if now is not None and now.problem:
            now = None
        before = self._said.pop(uid, None)
        if now is None and before is None:
            return []
        aged: list[str] = []
        if before is not None and (now is None or now.group != before.group):
            aged += self._drop(uid, before)
        if state is not None and now is not None:
            aged += self._keep(uid, now, before, state)
        return aged

    def changed(self) -> list[Group]:
        """The groups that pods have left, whose pods are others than before, or that have become as
        many as they need, since last asked, as far as there are pods left. That another pod without
        a node came is no change: it is tried."""
        found = [self._groups[name] for name in self._changed if name in self._groups]
        self._changed.clear()
        return found

    def _keep(
        self, uid: str, now: GroupMembership, before: GroupMembership | None, state: PodState
    ) -> list[str]:
        group = self._groups.setdefault(now.group, Group(now.group))
        was_enough = group.is_enough
        is_other = uid in group.members or state.bound
        group.members[uid] = state
        self._said[uid] = now
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

    def _sum_up(self, group: Group, came: GroupMembership | None = None) -> list[str]:
        """Without looking at the others where one came."""
        before = group.created_at
        if came is not None and len(group.members) > 1:
            group.minimum = max(group.minimum, came.minimum)
            group.created_at = min(group.created_at, came.created_at)
        else:
            said = [self._said[uid] for uid in group.members]
            group.minimum = max(each.minimum for each in said)
            group.created_at = min(each.created_at for each in said)
        return list(group.members) if group.created_at != before else []
