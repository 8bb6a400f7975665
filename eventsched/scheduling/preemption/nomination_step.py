"""Carries out the PostFilter result: a nomination or its end, evictions, pods sent back.

Upstream: framework/preemption/executor.go prepareCandidateAsync, schedule_one.go
handleSchedulingFailure.
"""

from eventsched.domain.objects import Pod
from eventsched.domain.records import MoveCause, NominationCleared
from eventsched.domain.records.verdicts import Code
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.scheduling.binding.binding_cycle import Binding
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import PostFilterResult, Status
from eventsched.scheduling.preemption import preemption_recording
from eventsched.scheduling.preemption.evaluator import Preemption
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.scheduling_queue import SchedulingQueue

GIVEN_UP = PostFilterResult(Status(Code.SUCCESS), "")
"""Stands for: no PostFilter ran. The pod loses its nomination."""


class NominationStep:
    """Carries out the decision for a pod that found no node."""

    def __init__(
        self,
        step: EngineStep,
        scheduling_queue: SchedulingQueue,
        binding: Binding,
        *,
        with_detail: bool,
    ) -> None:
        self._step = step
        self._scheduling_queue = scheduling_queue
        self._binding = binding
        self._with_detail = with_detail

    def emit_result(self, pod_state: PodState, result: PostFilterResult) -> None:
        """Emits the records of a result. Call it after the attempt's records are emitted and before
        the pod is requeued."""
        preemption = result.preemption
        if isinstance(preemption, Preemption):
            self._nominate(preemption)
            return
        uid = pod_state.pod.uid
        before = self._step.state.preemptions.node(uid)
        if before and result.nominated == "":
            cause = MoveCause.ATTEMPT_FAILED if result is GIVEN_UP else MoveCause.NO_CANDIDATE
            self._clear(pod_state.pod, before, cause)

    def _nominate(self, preemption: Preemption) -> None:
        step, pod = self._step, preemption.dry_run.pod
        recorded = preemption_recording.record(
            step.state,
            preemption,
            step.position,
            step.detail_levels.of(preemption.dry_run.profile.name) if self._with_detail else None,
        )
        decided = recorded.decided
        before = step.state.preemptions.node(pod.uid)
        step.emit(decided, recorded.detail)
        if before and before != decided.node:
            self._scheduling_queue.nomination_ended(pod, before)
        if len(decided.leaving) == len(decided.victims):
            return  # no pod has to be evicted
        nominated = step.state.preemptions.on(decided.node)
        less_important = [other for other in nominated.values() if other.priority < pod.priority]
        for other in sorted(less_important, key=lambda other: other.uid):
            self._clear(other, decided.node, MoveCause.PREEMPTED, pod.uid)

    def _clear(self, pod: Pod, node: str, cause: MoveCause, by: str = "") -> None:
        self._step.emit(NominationCleared(uid=pod.uid, node=node, cause=cause, by=by))
        self._scheduling_queue.nomination_ended(pod, node)

    def send_back(self, result: PostFilterResult) -> None:
        """Ends the reservations of victims that still wait at Permit or in PreBind, which returns
        those pods to a queue. Call it after the preemptor has been requeued, so that the freed room
        wakes it."""
        preemption, state = result.preemption, self._step.state
        for pod in preemption.victims if isinstance(preemption, Preemption) else ():
            reservation = state.reservations.get(pod.uid)
            if reservation is not None and reservation.waiting:
                self._binding.preempt(pod.uid, result.plugin)


def nominated_row(judgement: Judgement) -> int:
    """The row of the pod's nominated node if that node passes, otherwise -1. Such a node is chosen
    without evaluating the others (upstream: schedule_one.go evaluateNominatedNode)."""
    dry_run = judgement.dry_run
    if dry_run is None or not dry_run.nominated:
        return -1
    row = dry_run.table.rows.get(dry_run.nominated, -1)
    return row if row >= 0 and judgement.keys[row] == KEY_PASSES else -1


def is_awaited(state: SchedulerState, pod: Pod, node: str) -> bool:
    """Whether a pod that is less important than this one, or evicted for it, is about to leave the
    node."""
    row = state.nodes.rows.get(node)
    residents = state.nodes.residents[row].values() if row is not None else ()
    evicting = state.preemptions.evicting

    def makes_room(resident: Pod) -> bool:
        eviction = evicting.get(resident.uid)
        if eviction is not None and eviction.preemptor == pod.uid:
            return True
        is_going = eviction is not None or (resident.deleting and resident.displaced)
        return is_going and resident.priority < pod.priority

    return any(map(makes_room, residents))
