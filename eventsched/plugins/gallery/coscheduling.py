"""Coscheduling: pods of a group go together or not at all.

The pods of a gang are tried one after the other and wait at Permit until enough of them have a
node. As soon as one finds none the others give theirs back, so that gangs do not hold room against
each other; then that pod alone is tried, with its backoff, until it finds a node and calls the
others. All of that is read from the state: nothing is remembered. After the older Coscheduling of
sigs.k8s.io/scheduler-plugins, which had labels where PodGroup objects are now.
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

LONGEST = 900


class CoschedulingArgs(Arguments, frozen=True):
    """``permit_waiting_time_seconds`` is how long a pod waits at most for the others of its group,
    where it does not say so itself; 1 to 900."""

    permit_waiting_time_seconds: Int64 = 60

    def problems(self) -> Iterator[InputError]:
        """The range; longer than 15 minutes nothing waits at Permit."""
        given = self.permit_waiting_time_seconds
        yield from outside("permitWaitingTimeSeconds", given, 1, LONGEST)


class Gang(NamedTuple):
    """A group as one of its pods sees it: the others, how many have to go together, and how long
    (seconds) the pod waits for them, 0.0 where it does not say."""

    name: str
    others: dict[str, PodState]
    minimum: int
    seconds: float
    group: Group | None

    def in_order(self, *uids: str) -> list[str]:
        """Some of the others in the order in which they came."""
        return [] if self.group is None else self.group.in_order(uids)


class Coscheduling:
    """Refuses pods of a group that cannot go yet (PreFilter), holds those that have a node (Permit)
    until there are enough, and lets all of them go back where one cannot stay."""

    name = "Coscheduling"
    wakes_on = (ClusterEvent.POD_UPDATE, ClusterEvent.GROUP_CHANGE)
    Args = CoschedulingArgs
    annotations = ANNOTATIONS

    def __init__(self, args: CoschedulingArgs | None = None) -> None:
        self._seconds = float((args or CoschedulingArgs()).permit_waiting_time_seconds)

    def sort_key(self, queued: QueuedPod) -> tuple[int, int, str, int]:
        """Higher priority first, then the older one; the pods of a group count as old as the oldest
        of them, and stay together."""
        group = queued.group
        if group is None:
            return (-queued.pod.priority, queued.pod.created_at, "", queued.since)
        return (-queued.pod.priority, group.created_at, group.name, queued.since)

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Whether there are enough pods in the group, and none in the way. Preemption would not
        help."""
        own = membership(pod)
        reason = "" if own is None else own.problem or self._hindrance(cycle, pod)
        return Status.unresolvable(reason) if reason else None

    def post_filter(self, cycle: Cycle, pod: Pod, refused: Judgement) -> Status:
        """A pod that finds no node takes its group with it; another plugin may still help it."""
        if refused.refusal is None or refused.refusal[0] != self.name:
            self._send_back(cycle, pod, "found no node")
        return Status.unschedulable()

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """There is nothing to hold: Unreserve is what matters."""

    def permit(self, cycle: Cycle, pod: Pod, node: str) -> Status | Wait | None:
        """Lets the group go where this pod was the last that it needed; calls the others, and waits
        for them, where it was not."""
        gang = self._gang(cycle, pod)
        if gang is None:
            return None
        if len(gang.others) + 1 < gang.minimum:
            return Status.unschedulable(self._hindrance(cycle, pod))
        placed = sum(1 for each in gang.others.values() if each.booked_node)
        if placed + 1 >= gang.minimum:
            for uid in self._waiting(cycle, gang):
                cycle.allow(uid)
            return None
        called = (uid for uid, each in gang.others.items() if self._waits_for_others(each))
        for uid in gang.in_order(*called):
            cycle.activate(uid)
        return Wait(gang.seconds or self._seconds)

    def unreserve(self, cycle: Cycle, pod: Pod, node: str) -> None:
        """A pod that has to leave its node while the group waits takes the group with it; also
        where it was the one that had just let the others go."""
        if cycle.sender == self.name:
            return  # whoever sent it back has sent the others
        cycle.released[:] = [each for each in cycle.released if each[0] != self.name]
        self._send_back(cycle, pod, f"had to leave {node}")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Whether the group can go now, as far as it knows; an update of the pod itself is looked
        into by trying it."""
        return change.event is ClusterEvent.POD_UPDATE or not self._hindrance(cycle, pod)

    def hint_sign(self, pod: Pod) -> str:
        """Nothing that matters to all pods alike wakes these: they need not be told apart."""
        return ""

    def _hindrance(self, cycle: Cycle, pod: Pod) -> str:
        """Why a pod's group cannot go now, "" where it may be tried. A pod that others refused is
        tried itself: it is the one that the group waits for."""
        gang = self._gang(cycle, pod)
        if gang is None:
            return ""
        if not gang.minimum:
            return f"pod group {gang.name}: none of its pods says how many it needs ({MINIMUM})"
        number = len(gang.others) + 1
        if number < gang.minimum:
            return f"pod group {gang.name} has {number} of the {gang.minimum} pods that it needs"
        stuck = [uid for uid, each in gang.others.items() if self._is_stuck(each)]
        own = gang.group.members.get(pod.uid) if gang.group is not None else None
        is_probe = own is not None and self._is_stuck(own)
        if is_probe or number - len(stuck) >= gang.minimum:
            return ""
        first = gang.others[gang.in_order(*stuck)[0]]
        by = ", ".join(first.rejectors)
        return f"pod group {gang.name} waits for {first.pod.full_name}, refused by {by}"

    def _send_back(self, cycle: Cycle, pod: Pod, why: str) -> None:
        """Has the pods of a group that wait give their nodes back, where too few are left without
        this one."""
        gang = self._gang(cycle, pod)
        if gang is None:
            return
        left = sum(1 for each in gang.others.values() if not self._is_stuck(each))
        if left < gang.minimum:
            for uid in self._waiting(cycle, gang):
                cycle.reject(uid, f"pod group {gang.name} goes together, {pod.full_name} {why}")

    def _gang(self, cycle: Cycle, pod: Pod) -> Gang | None:
        """The pod's group; None where it is in none, or says so in a way that makes no sense."""
        own = membership(pod)
        if own is None or own.problem:
            return None
        group = cycle.groups.get(own.group)
        if group is None:
            return Gang(own.group, {}, own.minimum, own.seconds, None)
        others = {uid: each for uid, each in group.members.items() if uid != pod.uid}
        minimum = max(group.minimum, own.minimum)
        return Gang(own.group, others, minimum, own.seconds, group)

    def _waiting(self, cycle: Cycle, gang: Gang) -> list[str]:
        waiting = cycle.waiting
        return gang.in_order(*(uid for uid in gang.others if uid in waiting))

    def _is_stuck(self, state: PodState) -> bool:
        """Whether something else than the group stands in a pod's way."""
        return not state.booked_node and bool(state.rejectors) and self.name not in state.rejectors

    def _waits_for_others(self, state: PodState) -> bool:
        return state.queue in (Queue.UNSCHEDULABLE, Queue.BACKOFF) and self.name in state.rejectors
