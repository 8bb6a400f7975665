"""The scheduling cycle: one attempt to place the pod at the head of the queue, as records.

Upstream: pkg/scheduler/schedule_one.go. A common attempt is one record: pop, verdicts, scores,
choice, reserve, permit and the intent to bind.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.records import MoveCause, Outcome, PodDecided, PodSkipped
from eventsched.domain.records.verdicts import Code
from eventsched.domain.state.scheduler_state import PodState
from eventsched.domain.units import SECOND
from eventsched.scheduling.best_nodes import best_nodes
from eventsched.scheduling.binding import reserve_permit_bind
from eventsched.scheduling.binding.binding_cycle import Binding
from eventsched.scheduling.cycle import judgement_recording
from eventsched.scheduling.cycle.choice import Choice, choose
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.cycle.extender_chain import ExtenderChain
from eventsched.scheduling.cycle.judgement import Judgement, fit_error, judge
from eventsched.scheduling.cycle.judgement_recording import RecordedJudgement
from eventsched.scheduling.cycle.work_budget import over_budget_message
from eventsched.scheduling.framework import Cycle, PluginError, PostFilterResult, plain
from eventsched.scheduling.framework.extender import EXTENDER, binder
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.preemption.nomination_step import GIVEN_UP, NominationStep, nominated_row
from eventsched.scheduling.preemption.postfilter import post_filter
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.scheduling_queue import SchedulingQueue

NO_NODES = "no nodes available to schedule pods"
"""Upstream: schedule_one.go ErrNoNodesAvailable."""
MAX_WAIT_SECONDS = 900
"""The longest wait of a pod at Permit, in seconds (upstream: framework/runtime maxTimeout)."""

NOTHING_RECORDED = RecordedJudgement([], 0, (), (), "", np.zeros(0, dtype=np.uint16), None)
"""Of an attempt that looked at no node, or without detail."""
NO_CHOICE = Choice(-1, 0, 0, 0, -1, 0)
"""Of an attempt that found no node."""


ChoiceWatch = Callable[[Judgement, Choice], None]
"""Called with what an attempt found and chose, before anything of it is applied."""


@dataclass(slots=True)
class Attempt:
    """An attempt in progress: the fields of its record, as far as they are known."""

    state: PodState
    profile: Profile
    cycle: Cycle
    feasible: int = 0
    evaluated: int = 0
    start: int = -1
    judgement: RecordedJudgement = NOTHING_RECORDED
    choice: Choice = NO_CHOICE
    node: str = ""
    """The chosen node."""
    runner_up: str = ""
    nominated: bool = False
    """Whether the chosen node is the one that the pod was nominated to."""
    binder: str = ""
    is_logged: bool = False

    def decided(
        self,
        outcome: Outcome,
        *,
        plugin: str = "",
        message: str = "",
        carry: dict[str, Any] | None = None,
        deadlines: dict[str, int] | None = None,
    ) -> PodDecided:
        """The attempt's record."""
        judgement, choice = self.judgement, self.choice
        return PodDecided(
            uid=self.state.pod.uid,
            attempt=self.cycle.attempt,
            outcome=outcome,
            profile=self.profile.name,
            node=self.node,
            row=choice.row,
            score=choice.score,
            runner_up=self.runner_up,
            runner_up_score=choice.runner_up_score,
            feasible=self.feasible,
            evaluated=self.evaluated,
            ties=choice.ties,
            draw=choice.draw,
            counts=judgement.counts,
            scoring=judgement.scoring,
            parameters=judgement.parameters,
            digest=judgement.digest,
            plugin=plugin,
            message=message,
            carry=carry or {},
            deadlines=deadlines or {},
            start=self.start,
            nominated=self.nominated,
            binder=self.binder,
        )


class SchedulingCycle:
    """Runs attempts."""

    def __init__(
        self,
        step: EngineStep,
        scheduling_queue: SchedulingQueue,
        binding: Binding,
        classes: ClassCache,
        *,
        with_detail: bool,
    ) -> None:
        self._step = step
        self._scheduling_queue = scheduling_queue
        self._binding = binding
        self._classes = classes
        self._with_detail = with_detail
        self.watch: ChoiceWatch | None = None
        """Only reads; no record depends on it."""
        self._nominations = NominationStep(step, scheduling_queue, binding, with_detail=with_detail)

    def run(self, uid: str) -> None:
        """One attempt, from the verdicts to the intent to bind or back to a queue."""
        pod_state = self._step.state.pods[uid]
        profile = self._step.scheduling_profile(pod_state)
        cycle = self._step.cycle(pod_state.attempts + 1)
        if profile is None or pod_state.pod.deleting:
            self._skip(pod_state, cycle.attempt, is_ours=profile is not None)
            return
        attempt = Attempt(pod_state, profile, cycle)
        scheduler_state = self._step.state
        budget = scheduler_state.work_budget
        if budget and (
            message := over_budget_message(pod_state.pod, scheduler_state.nodes.live, budget)
        ):
            self._over_budget(attempt, message)
            return
        try:
            self._judge_and_place(attempt)
        except PluginError as error:
            self._fail(attempt, error.plugin, str(error))
        except Exception as bug:  # noqa: BLE001 - our own fault must not stop all other pods
            if not attempt.is_logged:
                self._fail(attempt, "", f"eventsched failed: {type(bug).__name__}: {bug}")
            elif pod_state.queue is None and uid not in self._step.state.reservations:
                self._scheduling_queue.back_off_or_park(pod_state, "")

    def consider(self, uid: str) -> tuple[Judgement, Choice]:
        """What the next attempt for a known pod would find, and which node it would choose (row -1:
        none). Nothing is placed or logged. Raises PluginError, and KeyError if no profile has the
        pod's schedulerName."""
        state = self._step.state
        pod_state = state.pods[uid]
        profile = self._step.scheduling_profile(pod_state)
        if profile is None:
            raise KeyError(pod_state.pod.scheduler_name)
        cycle = self._step.cycle(pod_state.attempts + 1)
        judgement = judge(
            state.nodes, self._classes, profile, pod_state.pod, cycle, state.next_start,
            state.preemptions, state.preemptions.node(uid),
        )  # fmt: skip
        if judgement.problem is not None:
            raise judgement.problem
        return judgement, chosen(judgement, cycle)[0]

    def _skip(self, pod_state: PodState, attempt: int, *, is_ours: bool) -> None:
        """Removes a pod from the queue for good: it is being deleted, which does not count
        as an attempt (upstream: schedule_one.go skipPodSchedule), or no profile has its
        schedulerName any more."""
        uid, message = pod_state.pod.uid, f"no profile is named {pod_state.pod.scheduler_name}"
        if is_ours:
            message = f"skip schedule deleting pod: {pod_state.pod.full_name}"
        if is_ours and Behaviour.SKIPS_DELETING_PODS in self._step.state.flags:
            self._step.emit(PodSkipped(uid=uid, message=message))
            return
        self._step.emit(
            PodDecided(
                uid=uid, attempt=attempt, profile=pod_state.pod.scheduler_name,
                outcome=Outcome.ERROR, message=message,
            )
        )  # fmt: skip

    def _judge_and_place(self, attempt: Attempt) -> None:
        state, pod = self._step.state, attempt.state.pod
        judgement = judge(
            state.nodes, self._classes, attempt.profile, pod, attempt.cycle, state.next_start,
            state.preemptions, state.preemptions.node(pod.uid),
            ExtenderChain(self._step.extenders, pod, state.consultation),
        )  # fmt: skip
        if judgement.problem is not None:
            raise judgement.problem
        result = GIVEN_UP
        if judgement.question is None and not judgement.feasible:
            result = self._post_filter(judgement)
        if judgement.question is not None:  # it may also come from PostFilter
            self._step.emit(judgement.question.asked(pod.uid, attempt.cycle.attempt))
            return
        self._record_verdicts(judgement, attempt)
        if judgement.feasible:
            _choose(attempt, judgement, state.nodes.names)
        self._keep_best(judgement, attempt)
        if self.watch is not None:
            self.watch(judgement, attempt.choice)
        if judgement.feasible:
            self._place(attempt)
        else:
            self._no_node(judgement, attempt, result)

    def _record_verdicts(self, judgement: Judgement, attempt: Attempt) -> None:
        attempt.feasible, attempt.evaluated = judgement.feasible, judgement.evaluated
        if attempt.profile.percentage:
            attempt.start = self._step.state.next_start
        if self._with_detail:
            level = self._step.detail_levels.of(attempt.profile.name)
            attempt.judgement = judgement_recording.record(
                self._step.state, judgement, self._step.position, is_full=level.nodes is None
            )

    def _keep_best(self, judgement: Judgement, attempt: Attempt) -> None:
        """Adds the vectors of the best nodes, if only these are to be stored."""
        nodes = self._step.detail_levels.of(attempt.profile.name).nodes
        if nodes and self._with_detail:
            recorded, chosen = attempt.judgement, attempt.choice.row
            detail = best_nodes(judgement, recorded.codes, chosen, nodes)
            attempt.judgement = recorded._replace(detail=detail)

    def _place(self, attempt: Attempt) -> None:
        pod, cycle = attempt.state.pod, attempt.cycle
        placed = reserve_permit_bind.reserve(attempt.profile, pod, attempt.node, cycle)
        binding = placed.refusal is None and not placed.waits
        if binding:
            placed = reserve_permit_bind.prepare(attempt.profile, pod, attempt.node, cycle)
        extender = binder(self._step.extenders, pod)
        if extender is not None:
            attempt.binder = extender.name
        elif binding and placed.refusal is None and not placed.preparations:
            placed = reserve_permit_bind.bind(attempt.profile, pod, attempt.node, cycle)
        if placed.refusal is None:
            self._log_placement(attempt, placed)
            return
        name, status = placed.refusal
        message = ", ".join(status.reasons)
        if not status.rejected:
            self._fail(attempt, name, message)
        elif binding:
            # Upstream: a pod that fails on PreBind or Bind goes to the backoff queue.
            self._fail(attempt, name, message, Outcome.UNSCHEDULABLE)
        else:
            pending = (name,) if status.code is Code.PENDING else ()
            self._reject(attempt, name, message, (name,), pending)

    def _log_placement(self, attempt: Attempt, placed: reserve_permit_bind.Placement) -> None:
        """Logs the attempt of a pod that is bound, or waits on its node before the bind."""
        uid, cycle = attempt.state.pod.uid, attempt.cycle
        waits = placed.waits or placed.preparations
        now = self._step.state.now
        deadlines = {
            name: now + round(min(seconds, MAX_WAIT_SECONDS) * SECOND)
            for name, seconds in placed.waits
        }
        self._log(
            attempt,
            attempt.decided(
                Outcome.WAITING if waits else Outcome.SCHEDULED,
                carry=plain(cycle.data) if cycle.data else {},
                deadlines=deadlines,
            ),
        )
        self._binding.apply_side_effects(uid, cycle)
        if placed.preparations:
            self._binding.prepare(uid, placed.preparations)

    def _post_filter(self, judgement: Judgement) -> PostFilterResult:
        refused = judgement.refusal is None or judgement.refusal[1].rejected
        if refused and self._step.state.nodes.live and judgement.profile.post_filter:
            return post_filter(judgement)
        return GIVEN_UP

    def _no_node(self, judgement: Judgement, attempt: Attempt, result: PostFilterResult) -> None:
        if judgement.refusal is not None and not judgement.refusal[1].rejected:
            name, status = judgement.refusal
            self._fail(attempt, name, ", ".join(status.reasons))
            return
        nodes = self._step.state.nodes.live
        rejectors, pending = judgement.rejectors()
        reasons = ", ".join(result.status.reasons)
        message = fit_error(judgement, nodes, reasons) if nodes else NO_NODES
        name = judgement.refusal[0] if judgement.refusal else ""
        self._reject(attempt, name, message, rejectors, pending, result)

    def _over_budget(self, attempt: Attempt, message: str) -> None:
        """Ends an attempt before any plugin runs. Only an update of the pod or the periodic flush
        makes the pod active again."""
        self._log(attempt, attempt.decided(Outcome.ERROR, message=message))
        self._nominations.emit_result(attempt.state, GIVEN_UP)
        self._scheduling_queue.park(attempt.state, MoveCause.OVER_BUDGET, "")

    def _log(self, attempt: Attempt, decided: PodDecided) -> None:
        """Logs and applies the attempt. Before this, no plugin's call has any effect."""
        attempt.is_logged = True
        for definition in attempt.judgement.definitions:
            self._step.emit(definition)
        self._step.emit(decided, attempt.judgement.detail)

    def _reject(
        self,
        attempt: Attempt,
        plugin: str,
        message: str,
        rejectors: tuple[str, ...],
        pending: tuple[str, ...],
        result: PostFilterResult = GIVEN_UP,
    ) -> None:
        """Ends an attempt for which no node was found, or whose node a plugin rejected."""
        decided = attempt.decided(Outcome.UNSCHEDULABLE, plugin=plugin, message=message)
        self._log(attempt, decided)
        self._nominations.emit_result(attempt.state, result)
        self._scheduling_queue.add_unschedulable(
            attempt.state, MoveCause.ATTEMPT_FAILED, plugin, rejectors, pending
        )
        self._nominations.send_back(result)
        if result.nominated:  # preemption makes room: no waiting pod has to give up its node
            attempt.cycle.released.clear()
        self._binding.apply_side_effects(attempt.state.pod.uid, attempt.cycle)

    def _fail(
        self, attempt: Attempt, plugin: str, message: str, outcome: Outcome = Outcome.ERROR
    ) -> None:
        """Ends an attempt in which a plugin failed, or refused the pod while binding."""
        self._log(attempt, attempt.decided(outcome, plugin=plugin, message=message))
        self._nominations.emit_result(attempt.state, GIVEN_UP)
        if outcome is Outcome.ERROR and plugin != EXTENDER:  # an extender may recover at any time
            self._scheduling_queue.back_off_or_park(attempt.state, plugin)
        else:
            self._scheduling_queue.back_off(attempt.state, MoveCause.ATTEMPT_FAILED, plugin)
        self._binding.apply_side_effects(attempt.state.pod.uid, attempt.cycle)


def _choose(attempt: Attempt, judgement: Judgement, names: list[str]) -> None:
    """Sets the attempt's choice."""
    choice, attempt.nominated = chosen(judgement, attempt.cycle)
    attempt.choice = choice
    attempt.node = names[choice.row]
    attempt.runner_up = names[choice.runner_up] if choice.runner_up >= 0 else ""


def chosen(judgement: Judgement, cycle: Cycle) -> tuple[Choice, bool]:
    """The nominated node if it is feasible, else the best one; and whether it is the nominated
    one. NO_CHOICE if no node is feasible."""
    if not judgement.feasible:
        return NO_CHOICE, False
    row = nominated_row(judgement)
    if row >= 0:
        return Choice(row, int(judgement.totals[row]), 1, 0, -1, 0), True
    return choose(judgement, cycle), False
