"""The binding cycle: permit waits, PreBind waits, bind outcomes, and giving up a reservation.

Upstream: the binding cycle of pkg/scheduler/schedule_one.go. Here it is a state machine whose steps
are records, so that it resumes after a restart.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.records import MoveCause
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.scheduler_state import PodState
from eventsched.domain.units import SECOND
from eventsched.scheduling.binding import reserve_permit_bind
from eventsched.scheduling.framework import ClusterEvent, Cycle, PluginError, Status
from eventsched.scheduling.framework.extender import binder
from eventsched.scheduling.framework.plugin_calls import PluginCalls
from eventsched.scheduling.framework.wait_results import NODE, Awaiting, ObjectKey, Preparation
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.memory_writer import MemoryWriter
from eventsched.scheduling.queueing.scheduling_queue import SchedulingQueue


class Binding:
    """Takes each reservation to its end: bound, or given up."""

    def __init__(
        self, step: EngineStep, scheduling_queue: SchedulingQueue, memory_writer: MemoryWriter
    ) -> None:
        self._step = step
        self._scheduling_queue = scheduling_queue
        self._memory_writer = memory_writer
        self._released: deque[tuple[str, str, str | None, str]] = deque()
        self._releasing = False

    def apply_side_effects(self, uid: str, cycle: Cycle) -> None:
        """Turns the plugins' side effects in ``cycle`` into events: changes of their memory, pods
        that they activated, and decisions about pods that wait at Permit. ``uid`` is the pod that
        the plugins ran for."""
        if cycle.remembered:
            self._memory_writer.write(cycle.remembered)
            cycle.remembered.clear()
        for plugin, waiting in cycle.activated:
            self._scheduling_queue.activate(waiting, plugin)
        cycle.activated.clear()
        self._released.extend((*decision, uid) for decision in cycle.released)
        cycle.released.clear()
        if not self._releasing:
            self._release()

    def _release(self) -> None:
        """Applies the queued Permit decisions one by one. A loop, not recursion: releasing one pod
        may make plugins release many more."""
        self._releasing = True
        try:
            while self._released:
                plugin, waiting, message, uid = self._released.popleft()
                reservation = self._step.state.reservations.get(waiting)
                if reservation is None or plugin not in reservation.waits:
                    continue
                if message is None:
                    self._grant(waiting, plugin, uid)
                else:
                    self._give_up(waiting, plugin, Status.unschedulable(message), sender=plugin)
        finally:
            self._releasing = False
            self._released.clear()

    def groups_changed(self, stimulus: records.Stimulus) -> None:
        """Handles a change of pod groups: asks Permit again for members that wait there, and asks
        the plugins that refused other members whether the change matters."""
        if type(stimulus) is records.PodUpdated:
            self._ask_permit(stimulus.pod.uid)
        changed = self._step.groups.changed()
        if not changed:
            return
        for group in changed:
            for uid in group.in_order(group.members):
                self._ask_permit(uid)
        self._scheduling_queue.groups_changed(changed)

    def _ask_permit(self, uid: str) -> None:
        reservation = self._step.state.reservations.get(uid)
        for name in tuple(reservation.waits) if reservation is not None else ():
            profile = self._step.placing_profile(self._step.state.pods[uid].pod)
            plugin = profile.calls(name)
            if uid not in self._step.queue.waiting_at_permit:
                return
            if plugin.traits.asks_again_with_group:
                self._permit(uid, plugin)

    def _permit(self, uid: str, plugin: PluginCalls) -> None:
        reservation = self._step.state.reservations[uid]
        cycle = self._step.cycle(reservation.attempt, reservation.carry)
        cycle.plugin = plugin.name
        try:
            answer = plugin.permit(cycle, self._step.state.pods[uid].pod, reservation.node)
        except PluginError as problem:
            self._give_up(uid, plugin.name, Status.error(str(problem)), MoveCause.BINDING_FAILED)
            return
        cycle.activated.clear()  # the other pods were activated when this one began to wait
        if isinstance(answer, Status):
            self._give_up(uid, plugin.name, answer)
        elif answer is None:
            self._grant(uid, plugin.name, uid)
        self.apply_side_effects(uid, cycle)

    def node_gone(self, node: str) -> None:
        """Gives up the reservations that wait at Permit for a deleted node; a shadow's all, since
        no bind of it would fail."""
        for uid, reservation in list(self._step.state.reservations.items()):
            waits = uid in self._step.queue.waiting_at_permit
            if reservation.node == node and (waits or self._step.state.shadows):
                status = Status.error(f"node {node} is gone")
                plugin = next(iter(reservation.waits), "")
                self._give_up(uid, plugin, status, MoveCause.NODE_GONE)

    def expire_waits(self) -> None:
        """Gives up the reservations whose wait, at Permit or in PreBind, has timed out."""
        state = self._step.state
        for uid, plugin in self._step.queue.overdue(state.now):
            pod, reservation = state.pods[uid].pod, state.reservations[uid]
            if plugin in reservation.waits:
                timeout = f"rejected due to timeout at plugin {plugin}"
                reason = f'pod "{pod.full_name}" rejected while waiting on permit: {timeout}'
                self._give_up(uid, plugin, Status.unschedulable(reason))
            else:
                status = reserve_permit_bind.overdue(self._step.placing_profile(pod).calls(plugin))
                self._give_up(uid, plugin, status, MoveCause.BINDING_FAILED)

    def prepare(self, uid: str, preparations: Sequence[tuple[str, Preparation]]) -> None:
        """Makes a pod wait for what its PreBind plugins need."""
        reservation, now = self._step.state.reservations[uid], self._step.state.now
        self._step.emit(
            records.PreparationIntended(
                uid=uid,
                node=reservation.node,
                attempt=reservation.attempt,
                deadlines={
                    name: now + round(preparation.seconds * SECOND)
                    for name, preparation in preparations
                },
                writes={
                    name: preparation.writes
                    for name, preparation in preparations
                    if preparation.writes
                },
            )
        )
        self._continue(uid)

    def write_succeeded(self, succeeded: records.WriteSucceeded) -> None:
        """A write that a bind waits for has succeeded. Ignored if its attempt is over."""
        reservation = self._step.state.reservations.get(succeeded.uid)
        if (
            reservation is not None
            and reservation.attempt == succeeded.attempt
            and reservation.preparing
        ):
            self._continue(succeeded.uid)

    def write_failed(self, failed: records.WriteFailed) -> None:
        """The cluster refused a write: gives up the reservation that needs it."""
        reservation = self._step.state.reservations.get(failed.uid)
        if reservation is None or reservation.attempt != failed.attempt:
            return
        plugin = reservation.asked_by(failed.write)
        if plugin:
            self._give_up(
                failed.uid, plugin, Status.error(failed.message), MoveCause.BINDING_FAILED
            )

    def object_changed(self, key: ObjectKey) -> None:
        """An object was added, changed or deleted: continues or gives up the binds that wait for
        it, in the order of their reservations."""
        pods = self._step.state.pods
        waiting = self._step.queue.prebind_waits.affected_pods(key)
        for uid in sorted(waiting, key=lambda uid: pods[uid].booking_order):
            if uid in self._step.queue.waiting_in_pre_bind:
                self._continue(uid)

    def bind_ended(self, outcome: records.BindSucceeded | records.BindFailed) -> None:
        """Handles the outcome of a bind. Ignored if the pod is gone or the intent was given up in
        the meantime."""
        reservation = self._step.state.reservations.get(outcome.uid)
        if reservation is None or reservation.node != outcome.node or not reservation.intended:
            return
        if isinstance(outcome, records.BindFailed):
            self._give_up(outcome.uid, "", Status.error(outcome.message), MoveCause.BIND_FAILED)
            return
        pod_state = self._step.state.pods[outcome.uid]
        profile = self._step.placing_profile(pod_state.pod)
        cycle: Cycle | None = None
        problems: tuple[str, ...] = ()
        if profile.post_bind:
            cycle = self._step.cycle(reservation.attempt, reservation.carry)
            problems = reserve_permit_bind.post_bind(
                profile, pod_state.pod, reservation.node, cycle
            )
        self._step.emit(
            records.PodBound(
                uid=outcome.uid,
                node=reservation.node,
                attempt=reservation.attempt,
                message=", ".join(problems),
            )
        )
        if cycle is not None:
            self.apply_side_effects(outcome.uid, cycle)
        self._scheduling_queue.wake(
            [ClusterEvent.ASSIGNED_POD_ADD], row=pod_state.row if pod_state.row >= 0 else None,
            pod=pod_state.pod,
        )  # fmt: skip

    def reserved_pod_bound(self, pod_state: PodState, reservation: Reservation) -> None:
        """The cluster shows a reserved pod on a node before the outcome of our bind is known:
        either our bind succeeded, or another scheduler was faster."""
        node = pod_state.pod.node_name
        if reservation.node == node and reservation.intended:
            self.bind_ended(records.BindSucceeded(uid=pod_state.pod.uid, node=node))
            return
        self.pod_gone(pod_state, reservation)
        if reservation.node != node:
            row = self._step.state.nodes.rows.get(reservation.node)
            self._scheduling_queue.wake(
                [ClusterEvent.ASSIGNED_POD_DELETE], row=row, pod=pod_state.pod
            )

    def bind_voided(self, voided: records.BindVoided) -> None:
        """The runtime voided an intent to bind: gives up its reservation."""
        reservation = self._step.state.reservations.get(voided.uid)
        if reservation is not None and (reservation.node, reservation.attempt) == (
            voided.node,
            voided.attempt,
        ):
            self._give_up(voided.uid, "", Status.error(voided.reason), MoveCause.BIND_VOIDED)

    def preempt(self, uid: str, plugin: str) -> None:
        """Preempts a pod that waits at Permit or in PreBind: it gives up its node and is tried
        again (upstream: waitingPod.Preempt, CancelPod)."""
        self._give_up(uid, plugin, Status.error("preempted"), MoveCause.PREEMPTED)

    def reconfigured(self) -> None:
        """The configuration changed: gives up pods that wait for a plugin that no longer runs, and
        in a shadow those whose scheduler is no longer followed. An intent to bind is kept."""
        for uid, reservation in list(self._step.state.reservations.items()):
            pod_state = self._step.state.pods[uid]
            if self._step.state.shadows and not self._step.state.is_followed(pod_state):
                status = Status.error("its scheduler is not followed any more")
                self._give_up(uid, "", status, MoveCause.BINDING_FAILED)
                continue
            profile = self._step.placing_profile(pod_state.pod)
            names = profile.by_name.keys()
            missing = [
                name for name in (*reservation.waits, *reservation.preparing) if name not in names
            ]
            if missing and not reservation.intended:
                self._give_up(
                    uid, missing[0], Status.error("does not run any more"), MoveCause.BINDING_FAILED
                )

    def pod_gone(self, pod_state: PodState, reservation: Reservation) -> None:
        """A pod with a reservation is gone: runs its plugins' Unreserve."""
        profile = self._step.scheduling_profile(pod_state)
        if profile is None:
            return
        cycle = self._step.cycle(reservation.attempt, reservation.carry)
        reserve_permit_bind.unreserve(profile, pod_state.pod, reservation.node, cycle)
        self.apply_side_effects(pod_state.pod.uid, cycle)

    def _grant(self, uid: str, plugin: str, by: str) -> None:
        self._step.emit(records.PermitGranted(uid=uid, plugin=plugin, by=by))
        reservation = self._step.state.reservations[uid]
        if reservation.waits:
            return
        pod_state = self._step.state.pods[uid]
        profile = self._step.placing_profile(pod_state.pod)
        cycle = self._step.cycle(reservation.attempt, reservation.carry)
        placement = reserve_permit_bind.prepare(profile, pod_state.pod, reservation.node, cycle)
        if placement.refusal is not None:
            self._end_reservation(pod_state, *placement.refusal, MoveCause.BINDING_FAILED)
        elif not placement.preparations:
            self._bind(pod_state, reservation, cycle)
        self.apply_side_effects(uid, cycle)
        if placement.preparations:
            self.prepare(uid, placement.preparations)

    def _continue(self, uid: str) -> None:
        """Continues a bind if everything that it waits for is there; gives it up if a plugin
        refuses."""
        reservation = self._step.state.reservations[uid]
        if reservation.writes:
            self._step.queue.prebind_waits.set_objects(uid, ())
            return
        state, nodes = self._step.state.pods[uid], self._step.state.nodes
        profile = self._step.placing_profile(state.pod)
        cycle = self._step.cycle(reservation.attempt, reservation.carry)
        row = nodes.rows.get(reservation.node)
        view = NodeView(nodes, np.array([] if row is None else [row], dtype=np.intp))
        objects: set[ObjectKey] = set()
        for name in reservation.preparing:
            plugin = profile.calls(name)
            answer = reserve_permit_bind.prepared(plugin, state.pod, reservation.node, view, cycle)
            if isinstance(answer, Awaiting):
                objects |= {*answer.objects, (NODE, "", reservation.node)}
            elif answer is not None:
                self._give_up(uid, name, answer[1], MoveCause.BINDING_FAILED)
                return
        if objects:
            self._step.queue.prebind_waits.set_objects(uid, objects)
            return
        self._bind(state, reservation, cycle)
        self.apply_side_effects(uid, cycle)

    def _bind(self, pod_state: PodState, reservation: Reservation, cycle: Cycle) -> None:
        profile = self._step.placing_profile(pod_state.pod)
        placement = reserve_permit_bind.Placement()
        if binder(self._step.extenders, pod_state.pod) is None:
            placement = reserve_permit_bind.bind(profile, pod_state.pod, reservation.node, cycle)
        if placement.refusal is None:
            intent = records.BindIntended(
                uid=pod_state.pod.uid, node=reservation.node, attempt=reservation.attempt
            )
            self._step.emit(intent)
        else:
            self._end_reservation(pod_state, *placement.refusal, MoveCause.BINDING_FAILED)

    def _give_up(
        self,
        uid: str,
        plugin: str,
        status: Status,
        cause: MoveCause = MoveCause.PERMIT_DENIED,
        sender: str = "",
    ) -> None:
        reservation = self._step.state.reservations[uid]
        pod_state = self._step.state.pods[uid]
        cycle = self._step.cycle(reservation.attempt, reservation.carry)
        cycle.sender = sender
        profile = self._step.placing_profile(pod_state.pod)
        problems = reserve_permit_bind.unreserve(profile, pod_state.pod, reservation.node, cycle)
        self._end_reservation(
            pod_state, plugin, Status(status.code, status.reasons + problems), cause
        )
        self.apply_side_effects(uid, cycle)

    def _end_reservation(
        self, pod_state: PodState, plugin: str, status: Status, cause: MoveCause
    ) -> None:
        """Ends the reservation, puts the pod back into a queue, and lets others use the room."""
        message = ", ".join(status.reasons)
        row = pod_state.row
        reservation = self._step.state.reservations[pod_state.pod.uid]
        self._step.emit(
            records.PodUnreserved(
                uid=pod_state.pod.uid, node=reservation.node, plugin=plugin, message=message
            )
        )
        group_gave_up = (
            bool(reservation.waits) and self._step.groups.of(pod_state.pod.uid) is not None
        )
        self._scheduling_queue.wake(
            [ClusterEvent.ASSIGNED_POD_DELETE], row=row if row >= 0 else None, pod=pod_state.pod,
            group_gave_up=group_gave_up,
        )  # fmt: skip
        if self._step.state.serves:
            return  # the scheduler that asked for the bind tries again
        if status.rejected and cause == MoveCause.PERMIT_DENIED:
            self._scheduling_queue.add_unschedulable(pod_state, cause, plugin, (plugin,))
        else:
            self._scheduling_queue.back_off(pod_state, cause, plugin, message)
