"""Coscheduling: the pods of a group (a gang) are bound together or not at all.

The pods of a gang are tried one after the other and wait at Permit until enough of them have a
node. If one fits nowhere, the others release their nodes, so that gangs do not block each other.
Then only that pod is tried, with its backoff, until it fits and activates the others. All of this
is read from the state; the plugin remembers nothing. It follows the older Coscheduling of
sigs.k8s.io/scheduler-plugins, which used labels instead of PodGroup objects.
"""

from collections.abc import Iterator
from typing import NamedTuple

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.records import Queue
from eventsched.domain.state.scheduler_state import PodState
from eventsched.scheduling.config.pluginargs import Arguments, outside
from eventsched.scheduling.config.sections import Int64
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    NodeView,
    QueuedPod,
    Status,
    Wait,
)
from eventsched.scheduling.framework.pod_groups import ANNOTATIONS, MINIMUM, Group, membership

MAX_WAIT = 900
"""Seconds that a pod may wait at Permit (15 minutes)."""


class CoschedulingArgs(Arguments, frozen=True):
    """``permit_waiting_time_seconds`` is how long a pod waits for its group unless its annotation
    says otherwise; 1 to 900."""

    permit_waiting_time_seconds: Int64 = 60

    def problems(self) -> Iterator[InputError]:
        """A time out of range."""
        seconds = self.permit_waiting_time_seconds
        yield from outside("permitWaitingTimeSeconds", seconds, 1, MAX_WAIT)


class Gang(NamedTuple):
    """A group as seen by one of its pods: the other pods by uid, the minimum that must be bound
    together, and how long the pod waits for them in seconds (0.0: the plugin's default)."""

    name: str
    others: dict[str, PodState]
    minimum: int
    seconds: float
    group: Group | None

    def in_order(self, *uids: str) -> list[str]:
        """The given pods in their order of arrival."""
        return [] if self.group is None else self.group.in_order(uids)


class Coscheduling:
    """PreFilter refuses pods of an incomplete or blocked group. Permit holds pods with a node until
    the group has enough. If a pod loses its node, the waiting pods of its group are rejected."""

    name = "Coscheduling"
    wakes_on = (ClusterEvent.POD_UPDATE, ClusterEvent.GROUP_CHANGE)
    Args = CoschedulingArgs
    annotations = ANNOTATIONS

    def __init__(self, args: CoschedulingArgs | None = None) -> None:
        self._seconds = float((args or CoschedulingArgs()).permit_waiting_time_seconds)

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, str, int]:
        """Higher priority first, then the older pod. Pods of a group have the age of their oldest
        pod and stay together."""
        group = queued.group
        if group is None:
            return (-queued.pod.priority, queued.pod.created_at, "", queued.since)
        return (-queued.pod.priority, group.created_at, group.name, queued.since)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Refuses the pod if its group is incomplete or blocked; preemption would not help."""
        own = membership(pod)
        reason = "" if own is None else own.problem or self._obstacle(cycle, pod)
        return Status.unresolvable(reason) if reason else None

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Judgement) -> Status:
        """Rejects the waiting pods of the group; another plugin's PostFilter may still help."""
        if refused.refusal is None or refused.refusal[0] != self.name:
            self._reject_waiting(cycle, pod, "found no node")
        return Status.unschedulable()

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Does nothing; it exists so that Unreserve is called."""

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> Status | Wait | None:
        """Allows the waiting group if this pod completes it. Otherwise activates the others and
        waits."""
        gang = self._gang(cycle, pod)
        if gang is None:
            return None
        if len(gang.others) + 1 < gang.minimum:
            return Status.unschedulable(self._obstacle(cycle, pod))
        placed_count = sum(1 for state in gang.others.values() if state.booked_node)
        if placed_count + 1 >= gang.minimum:
            for uid in self._waiting(cycle, gang):
                cycle.allow(uid)
            return None
        to_activate = (uid for uid, state in gang.others.items() if self._waits_for_others(state))
        for uid in gang.in_order(*to_activate):
            cycle.activate(uid)
        return Wait(gang.seconds or self._seconds)

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """Rejects the waiting pods of the group, and withdraws a release of this attempt."""
        if cycle.sender == self.name:
            return  # this plugin rejected the whole group
        cycle.released[:] = [release for release in cycle.released if release[0] != self.name]
        self._reject_waiting(cycle, pod, f"had to leave {node}")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True if the group is no longer blocked, and for an update of the pod itself."""
        return change.event is ClusterEvent.POD_UPDATE or not self._obstacle(cycle, pod)

    def hint_sign(self, pod: Pod) -> str:
        """The same for all pods: the events that wake them concern one group or one pod."""
        return ""

    def _obstacle(self, cycle: Cycle, pod: Pod) -> str:
        """Why a pod's group cannot be bound now, or "". A pod that other plugins refused is not
        blocked: the group waits for it."""
        gang = self._gang(cycle, pod)
        if gang is None:
            return ""
        if not gang.minimum:
            return f"pod group {gang.name}: none of its pods says how many it needs ({MINIMUM})"
        number = len(gang.others) + 1
        if number < gang.minimum:
            return f"pod group {gang.name} has {number} of the {gang.minimum} pods that it needs"
        stuck_uids = [uid for uid, state in gang.others.items() if self._is_stuck(state)]
        own = gang.group.members.get(pod.uid) if gang.group is not None else None
        is_probe = own is not None and self._is_stuck(own)
        if is_probe or number - len(stuck_uids) >= gang.minimum:
            return ""
        first = gang.others[gang.in_order(*stuck_uids)[0]]
        by = ", ".join(first.rejectors)
        return f"pod group {gang.name} waits for {first.pod.full_name}, refused by {by}"

    def _reject_waiting(self, cycle: Cycle, pod: Pod, why: str) -> None:
        """Rejects the waiting pods of the group if too few pods can be bound without this one."""
        gang = self._gang(cycle, pod)
        if gang is None:
            return
        left = sum(1 for state in gang.others.values() if not self._is_stuck(state))
        if left < gang.minimum:
            for uid in self._waiting(cycle, gang):
                cycle.reject(uid, f"pod group {gang.name} goes together, {pod.full_name} {why}")

    def _gang(self, cycle: Cycle, pod: Pod) -> Gang | None:
        """The pod's group; None if it has none, or if its annotations are wrong."""
        own = membership(pod)
        if own is None or own.problem:
            return None
        group = cycle.groups.get(own.group)
        if group is None:
            return Gang(own.group, {}, own.minimum, own.seconds, None)
        others = {uid: state for uid, state in group.members.items() if uid != pod.uid}
        minimum = max(group.minimum, own.minimum)
        return Gang(own.group, others, minimum, own.seconds, group)

    def _waiting(self, cycle: Cycle, gang: Gang) -> list[str]:
        waiting = cycle.waiting
        return gang.in_order(*(uid for uid in gang.others if uid in waiting))

    def _is_stuck(self, state: PodState) -> bool:
        """Whether another plugin refused a pod that has no node."""
        return not state.booked_node and bool(state.rejectors) and self.name not in state.rejectors

    def _waits_for_others(self, state: PodState) -> bool:
        return state.queue in (Queue.UNSCHEDULABLE, Queue.BACKOFF) and self.name in state.rejectors
