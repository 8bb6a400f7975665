"""What follows from PostFilter's answer: a nomination or its end, evictions, pods sent back.

Upstream: framework/preemption/executor.go prepareCandidateAsync, schedule_one.go
handleSchedulingFailure.
"""

from eventsched.domain.objects import Pod
from eventsched.domain.records import NominationCleared
from eventsched.domain.records.verdicts import Code
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.scheduling.binding.binding_cycle import Binding
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import PostFilterResult, Status
from eventsched.scheduling.preemption import preemption_recording as recording_preemption
from eventsched.scheduling.preemption.evaluator import Preemption
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.requeueing import Requeueing

GIVEN_UP = PostFilterResult(Status(Code.SUCCESS), "")
"""The end of an attempt of which no nomination is left."""


class NominationStep:
    """Makes what was decided for a pod without a node come true."""

    def __init__(
        self, step: EngineStep, requeueing: Requeueing, binding: Binding, *, with_detail: bool
    ) -> None:
        self._step = step
        self._requeueing = requeueing
        self._binding = binding
        self._with_detail = with_detail

    def settle(self, state: PodState, found: PostFilterResult) -> None:
        """The events for an attempt's answer, after the attempt's own and before the pod goes back
        to a queue."""
        made = found.preemption
        if isinstance(made, Preemption):
            self._decided(made)
            return
        uid = state.pod.uid
        before = self._step.state.preemptions.node(uid)
        if before and found.nominated == "":
            cause = "AttemptFailed" if found is GIVEN_UP else "NoCandidate"
            self._clear(state.pod, before, cause)

    def _decided(self, made: Preemption) -> None:
        step, pod = self._step, made.dry_run.pod
        recorded = recording_preemption.record(
            step.state, made, step.position, with_detail=self._with_detail
        )
        decided = recorded.decided
        before = step.state.preemptions.node(pod.uid)
        step.emit(decided, recorded.detail)
        if before and before != decided.node:
            self._requeueing.nomination_ended(pod, before)
        if len(decided.leaving) == len(decided.victims):
            return  # nobody has to be asked to go
        nominated = step.state.preemptions.on(decided.node)
        less = [each for each in nominated.values() if each.priority < pod.priority]
        for each in sorted(less, key=lambda pod: pod.uid):
            self._clear(each, decided.node, "Preempted", pod.uid)

    def _clear(self, pod: Pod, node: str, cause: str, by: str = "") -> None:
        self._step.emit(NominationCleared(uid=pod.uid, node=node, cause=cause, by=by))
        self._requeueing.nomination_ended(pod, node)

    def send_back(self, found: PostFilterResult) -> None:
        """Victims whose bind still waits leave their nodes, when the pod that needs the room waits
        in a queue, to be woken by that."""
        made, state = found.preemption, self._step.state
        for pod in made.victims if isinstance(made, Preemption) else ():
            held = state.reservations.get(pod.uid)
            if held is not None and held.waiting:
                self._binding.preempt(pod.uid, found.plugin)


def nominated_row(judged: Judgement) -> int:
    """The row of the node that the pod was nominated to, if that passes: it is taken without a look
    at the others (upstream: schedule_one.go evaluateNominatedNode). -1 where there is none."""
    dry_run = judged.dry_run
    if dry_run is None or not dry_run.nominated:
        return -1
    row = dry_run.table.rows.get(dry_run.nominated, -1)
    return row if row >= 0 and judged.keys[row] == KEY_PASSES else -1


def is_awaited(state: SchedulerState, pod: Pod, node: str) -> bool:
    """Whether a pod less important than this one, or evicted for it, is about to leave a node and
    make room."""
    row = state.nodes.rows.get(node)
    residents = state.nodes.residents[row].values() if row is not None else ()
    evicting = state.preemptions.evicting

    def is_awaited_for_it(each: Pod) -> bool:
        eviction = evicting.get(each.uid)
        if eviction is not None and eviction.preemptor == pod.uid:
            return True
        is_going = eviction is not None or (each.deleting and each.displaced)
        return is_going and each.priority < pod.priority

    return any(map(is_awaited_for_it, residents))
