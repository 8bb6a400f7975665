"""From a reservation to its end: permit waits, what PreBind waits for, bind outcomes, giving up.

Upstream: the binding cycle of pkg/scheduler/schedule_one.go, as a state machine whose steps are
records, so that it goes on where it was after a restart.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.state.reservations import Reservation
from eventsched.domain.state.scheduler_state import PodState
from eventsched.domain.units import SECOND
from eventsched.scheduling.binding import reserve_permit_bind
from eventsched.scheduling.framework import ClusterEvent, Cycle, PluginError, Status
from eventsched.scheduling.framework.extender import binder
from eventsched.scheduling.framework.profile import guarded
from eventsched.scheduling.framework.wait_results import NODE, Awaiting, ObjectKey, Preparation
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.requeueing import Requeueing


class Binding:
    """Follows reservations to their end."""

    def __init__(self, step: EngineStep, requeueing: Requeueing) -> None:
        self._step = step
        self._requeueing = requeueing
        self._released: deque[tuple[str, str, str | None, str]] = deque()
        self._releasing = False

    def aftermath(self, uid: str, cycle: Cycle) -> None:
        """What plugins did beside their answers becomes events: their memory, and what they decided
        about pods that wait at Permit. ``uid`` is the pod on whose behalf."""
        for plugin, key, value in cycle.remembered:
            self._step.emit(records.MemoryChanged(plugin=plugin, key=key, value=value))
            self._requeueing.memory_changed(plugin)
        cycle.remembered.clear()
        for plugin, waiting in cycle.activated:
            self._requeueing.activate(waiting, plugin)
        cycle.activated.clear()
        self._released.extend((*each, uid) for each in cycle.released)
        cycle.released.clear()
        if not self._releasing:
            self._release()

    def _release(self) -> None:
        """One after the other: where one pod's end has plugins decide about the next, and so on,
        they may be many."""
        self._releasing = True
        try:
            while self._released:
                plugin, waiting, message, uid = self._released.popleft()
                held = self._step.state.reservations.get(waiting)
                if held is None or plugin not in held.waits:
                    continue
                if message is None:
                    self._granted(waiting, plugin, uid)
                else:
                    self._give_up(waiting, plugin, Status.unschedulable(message), sender=plugin)
        finally:
            self._releasing = False
            self._released.clear()

    def regrouped(self, stimulus: records.Stimulus) -> None:
        """Where pods belong together otherwise than before, Permit is asked again for those who
        wait, and the plugins that refused others of their group are asked as well."""
        if isinstance(stimulus, records.PodUpdated):
            self._ask_permit(stimulus.pod.uid)
        changed = self._step.groups.changed()
        for group in changed:
            for uid in group.in_order(group.members):
                self._ask_permit(uid)
        self._requeueing.regrouped(changed)

    def _ask_permit(self, uid: str) -> None:
        held = self._step.state.reservations.get(uid)
        for name in tuple(held.waits) if held is not None else ():
            profile = self._step.profile_of(self._step.state.pods[uid].pod)
            plugin = profile.plugin(name)
            if uid not in self._step.queue.waiting:
                return
            if ClusterEvent.GROUP_CHANGE in getattr(plugin, "wakes_on", ()):
                self._permit(uid, plugin)

    def _permit(self, uid: str, plugin: Any) -> None:
        held = self._step.state.reservations[uid]
        cycle = self._step.cycle(held.attempt, held.carry)
        cycle.plugin = plugin.name
        try:
            answer = guarded(plugin, "permit", cycle, self._step.state.pods[uid].pod, held.node)
        except PluginError as problem:
            self._give_up(uid, plugin.name, Status.error(str(problem)), "BindingFailed")
            return
        cycle.activated.clear()  # the others were called when it came to wait
        if isinstance(answer, Status):
            self._give_up(uid, plugin.name, answer)
        elif answer is None:
            self._granted(uid, plugin.name, uid)
        self.aftermath(uid, cycle)

    def node_gone(self, node: str) -> None:
        """Those who wait at Permit for a node that is gone are tried elsewhere."""
        for uid, held in list(self._step.state.reservations.items()):
            if held.node == node and uid in self._step.queue.waiting:
                status = Status.error(f"node {node} is gone")
                self._give_up(uid, next(iter(held.waits)), status, "NodeGone")

    def overdue(self) -> None:
        """Gives up the pods that have waited for too long, at Permit or for what PreBind needs."""
        state = self._step.state
        for uid, plugin in self._step.queue.overdue(state.now):
            pod, held = state.pods[uid].pod, state.reservations[uid]
            if plugin in held.waits:
                timeout = f"rejected due to timeout at plugin {plugin}"
                said = f'pod "{pod.full_name}" rejected while waiting on permit: {timeout}'
                self._give_up(uid, plugin, Status.unschedulable(said))
            else:
                status = reserve_permit_bind.overdue(self._step.profile_of(pod).plugin(plugin))
                self._give_up(uid, plugin, status, "BindingFailed")

    def prepare(self, uid: str, preparations: Sequence[tuple[str, Preparation]]) -> None:
        """Has a pod wait for what PreBind needs."""
        held, now = self._step.state.reservations[uid], self._step.state.now
        self._step.emit(
            records.PreparationIntended(
                uid=uid,
                node=held.node,
                attempt=held.attempt,
                deadlines={name: now + round(each.seconds * SECOND) for name, each in preparations},
                writes={name: each.writes for name, each in preparations if each.writes},
            )
        )
        self._ask(uid)

    def written(self, made: records.WriteSucceeded) -> None:
        """A change that a bind waits for is made. One for an attempt that is over means nothing."""
        held = self._step.state.reservations.get(made.uid)
        if held is not None and held.attempt == made.attempt and held.preparing:
            self._ask(made.uid)

    def refused(self, failed: records.WriteFailed) -> None:
        """The cluster does not make a change: the reservation is given up."""
        held = self._step.state.reservations.get(failed.uid)
        if held is None or held.attempt != failed.attempt:
            return
        plugin = held.asked_by(failed.write)
        if plugin:
            self._give_up(failed.uid, plugin, Status.error(failed.message), "BindingFailed")

    def changed(self, key: ObjectKey) -> None:
        """An object has come, changed or gone: the pods that wait for it may go on, or give up; in
        the order in which they came to their nodes."""
        pods = self._step.state.pods
        concerned = self._step.queue.awaited.concerned(key)
        for uid in sorted(concerned, key=lambda uid: pods[uid].came):
            if uid in self._step.queue.preparing:
                self._ask(uid)

    def ended(self, outcome: records.BindSucceeded | records.BindFailed) -> None:
        """A bind's outcome. One for a pod that is gone, or of an intent that was given up
        meanwhile, changes nothing."""
        held = self._step.state.reservations.get(outcome.uid)
        if held is None or held.node != outcome.node or not held.intended:
            return
        if isinstance(outcome, records.BindFailed):
            self._give_up(outcome.uid, "", Status.error(outcome.message), "BindFailed")
            return
        state = self._step.state.pods[outcome.uid]
        cycle = self._step.cycle(held.attempt, held.carry)
        profile = self._step.profile_of(state.pod)
        problems = reserve_permit_bind.post_bind(profile, state.pod, held.node, cycle)
        self._step.emit(
            records.PodBound(
                uid=outcome.uid, node=held.node, attempt=held.attempt, message=", ".join(problems)
            )
        )
        self.aftermath(outcome.uid, cycle)
        self._requeueing.wake(
            [ClusterEvent.ASSIGNED_POD_ADD], row=state.row if state.row >= 0 else None,
            pod=state.pod,
        )  # fmt: skip

    def voided(self, voided: records.BindVoided) -> None:
        """A reservation was given up by the runtime, its intent with it."""
        held = self._step.state.reservations.get(voided.uid)
        if held is not None and (held.node, held.attempt) == (voided.node, voided.attempt):
            self._give_up(voided.uid, "", Status.error(voided.reason), "BindVoided")

    def preempted(self, uid: str, plugin: str) -> None:
        """A pod that waits, at Permit or for what PreBind needs, has to leave its node to a more
        important one: it is tried again elsewhere (upstream: waitingPod.Preempt, CancelPod)."""
        self._give_up(uid, plugin, Status.error("preempted"), "Preempted")

    def reconfigured(self) -> None:
        """Other plugins may run than before: pods that wait for one that is gone are given up. An
        intent to bind stays a promise."""
        for uid, held in list(self._step.state.reservations.items()):
            profile = self._step.profile_of(self._step.state.pods[uid].pod)
            names = {plugin.name for plugin in profile.plugins}
            gone = [name for name in (*held.waits, *held.preparing) if name not in names]
            if gone and not held.intended:
                self._give_up(uid, gone[0], Status.error("does not run any more"), "BindingFailed")

    def dropped(self, state: PodState, held: Reservation) -> None:
        """A pod with a reservation is gone: its plugins' Unreserve runs."""
        profile = self._step.profile(state)
        if profile is None:
            return
        cycle = self._step.cycle(held.attempt, held.carry)
        reserve_permit_bind.unreserve(profile, state.pod, held.node, cycle)
        self.aftermath(state.pod.uid, cycle)

    def _granted(self, uid: str, plugin: str, by: str) -> None:
        self._step.emit(records.PermitGranted(uid=uid, plugin=plugin, by=by))
        held = self._step.state.reservations[uid]
        if held.waits:
            return
        state = self._step.state.pods[uid]
        profile = self._step.profile_of(state.pod)
        cycle = self._step.cycle(held.attempt, held.carry)
        placed = reserve_permit_bind.prepare(profile, state.pod, held.node, cycle)
        if placed.refusal is not None:
            self._back(state, *placed.refusal, "BindingFailed")
        elif not placed.preparations:
            self._bind(state, held, cycle)
        self.aftermath(uid, cycle)
        if placed.preparations:
            self.prepare(uid, placed.preparations)

    def _ask(self, uid: str) -> None:
        """Goes on with a bind where all that it waits for is there, or gives it up."""
        held = self._step.state.reservations[uid]
        if held.writes:
            self._step.queue.awaited.keep(uid, ())
            return
        state, nodes = self._step.state.pods[uid], self._step.state.nodes
        profile = self._step.profile_of(state.pod)
        cycle = self._step.cycle(held.attempt, held.carry)
        row = nodes.rows.get(held.node)
        view = NodeView(nodes, np.array([] if row is None else [row], dtype=np.intp))
        objects: set[ObjectKey] = set()
        for name in held.preparing:
            plugin = profile.plugin(name)
            answer = reserve_permit_bind.prepared(plugin, state.pod, held.node, view, cycle)
            if isinstance(answer, Awaiting):
                objects |= {*answer.objects, (NODE, "", held.node)}
            elif answer is not None:
                self._give_up(uid, name, answer[1], "BindingFailed")
                return
        if objects:
            self._step.queue.awaited.keep(uid, objects)
            return
        self._bind(state, held, cycle)
        self.aftermath(uid, cycle)

    def _bind(self, state: PodState, held: Reservation, cycle: Cycle) -> None:
        profile = self._step.profile_of(state.pod)
        placed = reserve_permit_bind.Placement()
        if binder(self._step.extenders, state.pod) is None:
            placed = reserve_permit_bind.bind(profile, state.pod, held.node, cycle)
        if placed.refusal is None:
            intended = records.BindIntended(uid=state.pod.uid, node=held.node, attempt=held.attempt)
            self._step.emit(intended)
        else:
            self._back(state, *placed.refusal, "BindingFailed")

    def _give_up(
        self, uid: str, plugin: str, status: Status, cause: str = "PermitDenied", sender: str = ""
    ) -> None:
        held = self._step.state.reservations[uid]
        state = self._step.state.pods[uid]
        cycle = self._step.cycle(held.attempt, held.carry)
        cycle.sender = sender
        profile = self._step.profile_of(state.pod)
        problems = reserve_permit_bind.unreserve(profile, state.pod, held.node, cycle)
        self._back(state, plugin, Status(status.code, status.reasons + problems), cause)
        self.aftermath(uid, cycle)

    def _back(self, state: PodState, plugin: str, status: Status, cause: str) -> None:
        """The reservation ends, the pod goes back to a queue, and others may use the room."""
        message = ", ".join(status.reasons)
        row = state.row
        held = self._step.state.reservations[state.pod.uid]
        self._step.emit(
            records.PodUnreserved(uid=state.pod.uid, node=held.node, plugin=plugin, message=message)
        )
        retreat = bool(held.waits) and self._step.groups.of(state.pod.uid) is not None
        self._requeueing.wake(
            [ClusterEvent.ASSIGNED_POD_DELETE], row=row if row >= 0 else None, pod=state.pod,
            retreat=retreat,
        )  # fmt: skip
        if self._step.state.serves:
            return  # whoever asked for the bind tries again
        if status.rejected and cause == "PermitDenied":
            self._requeueing.refused(state, cause, plugin, (plugin,))
        else:
            self._requeueing.failed(state, cause, plugin, message)
