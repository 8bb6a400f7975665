"""From a reservation to its end: permit waits, bind outcomes, giving up.

Upstream: the binding cycle of pkg/scheduler/schedule_one.go, as a state machine whose steps are
records, so that it goes on where it was after a restart.
"""

from eventsched.domain import records
from eventsched.domain.state import PodState, Reservation
from eventsched.scheduling import placement
from eventsched.scheduling.framework import ClusterEvent, Cycle, Status
from eventsched.scheduling.ledger import Ledger
from eventsched.scheduling.requeueing import Requeueing


class Binding:
    """Follows reservations to their end."""

    def __init__(self, ledger: Ledger, requeueing: Requeueing) -> None:
        self._ledger = ledger
        self._requeueing = requeueing

    def aftermath(self, uid: str, cycle: Cycle) -> None:
        """What plugins did beside their answers becomes events: their memory, and what they decided
        about pods that wait at Permit. ``uid`` is the pod on whose behalf."""
        for plugin, key, value in cycle.remembered:
            self._ledger.emit(records.MemoryChanged(plugin=plugin, key=key, value=value))
            self._requeueing.memory_changed(plugin)
        cycle.remembered.clear()
        released, cycle.released = cycle.released, []
        for plugin, waiting, message in released:
            held = self._ledger.state.reservations.get(waiting)
            if held is None or plugin not in held.waits:
                continue
            if message is None:
                self._granted(waiting, plugin, uid)
            else:
                self._give_up(waiting, plugin, Status.unschedulable(message))

    def overdue(self) -> None:
        """Refuses the pods that have waited at Permit for too long."""
        now = self._ledger.state.now
        for _, uid, plugin in self._ledger.queue.overdue(now):
            held = self._ledger.state.reservations.get(uid)
            if held is not None and plugin in held.waits:
                name = self._ledger.state.pods[uid].pod.full_name
                self._give_up(
                    uid,
                    plugin,
                    Status.unschedulable(
                        f'pod "{name}" rejected while waiting on permit: rejected due to timeout '
                        f"at plugin {plugin}"
                    ),
                )

    def ended(self, outcome: records.BindSucceeded | records.BindFailed) -> None:
        """A bind's outcome. One for a pod that is gone, or of an intent that was given up
        meanwhile, changes nothing."""
        held = self._ledger.state.reservations.get(outcome.uid)
        if held is None or held.node != outcome.node or not held.intended:
            return
        if isinstance(outcome, records.BindFailed):
            self._give_up(outcome.uid, "", Status.error(outcome.message), "BindFailed")
            return
        state = self._ledger.state.pods[outcome.uid]
        cycle = self._ledger.cycle(held.attempt, held.carry)
        profile = self._ledger.profiles[state.pod.scheduler_name]
        problems = placement.post_bind(profile, state.pod, held.node, cycle)
        self._ledger.emit(
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
        held = self._ledger.state.reservations.get(voided.uid)
        if held is not None and (held.node, held.attempt) == (voided.node, voided.attempt):
            self._give_up(voided.uid, "", Status.error(voided.reason), "BindVoided")

    def preempted(self, uid: str, plugin: str) -> None:
        """A pod that waits at Permit has to leave its node to a more important one: it is tried
        again elsewhere (upstream: waitingPod.Preempt)."""
        self._give_up(uid, plugin, Status.error("preempted"), "Preempted")

    def dropped(self, state: PodState, held: Reservation) -> None:
        """A pod with a reservation is gone: its plugins' Unreserve runs."""
        profile = self._ledger.profile(state)
        if profile is None:
            return
        cycle = self._ledger.cycle(held.attempt, held.carry)
        placement.unreserve(profile, state.pod, held.node, cycle)
        self.aftermath(state.pod.uid, cycle)

    def _granted(self, uid: str, plugin: str, by: str) -> None:
        self._ledger.emit(records.PermitGranted(uid=uid, plugin=plugin, by=by))
        held = self._ledger.state.reservations[uid]
        if held.waits:
            return
        state = self._ledger.state.pods[uid]
        profile = self._ledger.profiles[state.pod.scheduler_name]
        cycle = self._ledger.cycle(held.attempt, held.carry)
        placed = placement.bind(profile, state.pod, held.node, cycle)
        if placed.refusal is None:
            self._ledger.emit(records.BindIntended(uid=uid, node=held.node, attempt=held.attempt))
        else:
            self._back(state, *placed.refusal, "BindingFailed")
        self.aftermath(uid, cycle)

    def _give_up(self, uid: str, plugin: str, status: Status, cause: str = "PermitDenied") -> None:
        held = self._ledger.state.reservations[uid]
        state = self._ledger.state.pods[uid]
        cycle = self._ledger.cycle(held.attempt, held.carry)
        profile = self._ledger.profiles[state.pod.scheduler_name]
        problems = placement.unreserve(profile, state.pod, held.node, cycle)
        self._back(state, plugin, Status(status.code, status.reasons + problems), cause)
        self.aftermath(uid, cycle)

    def _back(self, state: PodState, plugin: str, status: Status, cause: str) -> None:
        """The reservation ends, the pod goes back to a queue, and others may use the room."""
        message = ", ".join(status.reasons)
        row = state.row
        held = self._ledger.state.reservations[state.pod.uid]
        self._ledger.emit(
            records.PodUnreserved(uid=state.pod.uid, node=held.node, plugin=plugin, message=message)
        )
        self._requeueing.wake(
            [ClusterEvent.ASSIGNED_POD_DELETE], row=row if row >= 0 else None, pod=state.pod
        )
        if status.rejected and cause == "PermitDenied":
            self._requeueing.refused(state, cause, plugin, (plugin,))
        else:
            self._requeueing.failed(state, cause, plugin, message)
