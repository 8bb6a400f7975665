"""One attempt to place the pod at the head of the queue, as records.

Upstream: pkg/scheduler/schedule_one.go. The common path is one fused record: pop, verdicts, scores,
choice, reserve, permit and the intent to bind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.records import Event, Outcome, PodDecided, PodSkipped
from eventsched.domain.records.verdicts import Code, Detail
from eventsched.domain.state.scheduler_state import PodState
from eventsched.domain.units import SECOND
from eventsched.scheduling.binding import reserve_permit_bind
from eventsched.scheduling.binding.binding_cycle import Binding
from eventsched.scheduling.cycle import judgement_recording
from eventsched.scheduling.cycle.choice import Choice, choose
from eventsched.scheduling.cycle.equivalence import ClassCache
from eventsched.scheduling.cycle.extender_chain import ExtenderChain
from eventsched.scheduling.cycle.judgement import Judgement, fit_error, judge
from eventsched.scheduling.cycle.work_budget import OVER_BUDGET, excess
from eventsched.scheduling.framework import Cycle, PluginError, PostFilterResult, plain
from eventsched.scheduling.framework.extender import EXTENDER, binder
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.preemption.nomination_step import GIVEN_UP, NominationStep, nominated_row
from eventsched.scheduling.preemption.postfilter import post_filter
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.requeueing import Requeueing

NO_NODES = "no nodes available to schedule pods"
"""Upstream: schedule_one.go ErrNoNodesAvailable."""
LONGEST_WAIT = 900
"""Seconds that a pod waits at Permit at most (upstream: framework/runtime maxTimeout)."""


@dataclass
class Attempt:
    """An attempt under way: what its record will say, and the vectors that go with it."""

    state: PodState
    profile: Profile
    cycle: Cycle
    fields: dict[str, Any]
    detail: Detail | None = None
    definitions: Sequence[Event] = ()
    """The new words that its record needs."""
    told: bool = False
    """Whether its record was made."""

    @property
    def node(self) -> str:
        """The node chosen."""
        return str(self.fields["node"])

    def decided(self, outcome: Outcome, **more: Any) -> PodDecided:
        """The attempt's record, which says it all."""
        self.told = True
        return PodDecided(
            uid=self.state.pod.uid,
            attempt=self.cycle.attempt,
            profile=self.profile.name,
            outcome=outcome,
            **self.fields,
            **more,
        )


class Attempts:
    """Makes attempts."""

    def __init__(
        self,
        step: EngineStep,
        requeueing: Requeueing,
        binding: Binding,
        classes: ClassCache,
        *,
        with_detail: bool,
    ) -> None:
        self._step = step
        self._requeueing = requeueing
        self._binding = binding
        self._classes = classes
        self._with_detail = with_detail
        self._displacement = NominationStep(step, requeueing, binding, with_detail=with_detail)

    def make(self, uid: str) -> None:
        """One attempt, from the verdicts to the intent to bind or back to a queue."""
        state = self._step.state.pods[uid]
        profile = self._step.profile(state)
        cycle = self._step.cycle(state.attempts + 1)
        if profile is None or state.pod.deleting:
            self._leave(state, cycle.attempt, is_ours=profile is not None)
            return
        attempt = Attempt(state, profile, cycle, {})
        now = self._step.state
        budget = now.work_budget
        if budget and (message := excess(state.pod, now.nodes.live, budget)):
            self._over_budget(attempt, message)
            return
        try:
            self._make(attempt)
        except PluginError as broken:
            self._broken(attempt, broken.plugin, str(broken))
        except Exception as bug:  # noqa: BLE001 - ours: one odd pod must not stop all the others
            if not attempt.told:
                self._broken(attempt, "", f"eventsched failed: {type(bug).__name__}: {bug}")
            elif state.queue is None and uid not in self._step.state.reservations:
                self._requeueing.back_off_or_park(state, "")

    def _leave(self, state: PodState, attempt: int, *, is_ours: bool) -> None:
        """A pod leaves the queue for good: it is being deleted, which is no attempt (upstream:
        schedule_one.go skipPodSchedule), or no profile has its schedulerName any more."""
        uid, message = state.pod.uid, f"no profile is named {state.pod.scheduler_name}"
        if is_ours:
            message = f"skip schedule deleting pod: {state.pod.full_name}"
        if is_ours and Behaviour.SKIPS_DELETING_PODS in self._step.state.flags:
            self._step.emit(PodSkipped(uid=uid, message=message))
            return
        self._step.emit(
            PodDecided(
                uid=uid, attempt=attempt, profile=state.pod.scheduler_name,
                outcome=Outcome.ERROR, message=message,
            )
        )  # fmt: skip

    def _make(self, attempt: Attempt) -> None:
        now, pod = self._step.state, attempt.state.pod
        judged = judge(
            now.nodes, self._classes, attempt.profile, pod, attempt.cycle, now.next_start,
            now.preemptions, now.preemptions.node(pod.uid),
            ExtenderChain(self._step.extenders, pod, now.consultation),
        )  # fmt: skip
        if judged.problem is not None:
            raise judged.problem
        found = GIVEN_UP
        if judged.question is None and not judged.feasible:
            found = self._post_filter(judged)
        if judged.question is not None:  # PostFilter may have one, too
            self._step.emit(judged.question.asked(pod.uid, attempt.cycle.attempt))
            return
        self._take_verdicts(judged, attempt)
        if judged.feasible:
            self._place(judged, attempt)
        else:
            self._no_node(judged, attempt, found)

    def _take_verdicts(self, judged: Judgement, attempt: Attempt) -> None:
        attempt.fields.update(feasible=judged.feasible, evaluated=judged.evaluated)
        if attempt.profile.percentage:
            attempt.fields.update(start=self._step.state.next_start)
        if not self._with_detail:
            return
        recorded = judgement_recording.record(self._step.state, judged, self._step.position)
        attempt.definitions = recorded.definitions
        attempt.fields.update(
            scoring=recorded.scoring,
            parameters=recorded.parameters,
            counts=recorded.counts,
            digest=recorded.digest,
        )
        attempt.detail = recorded.detail

    def _place(self, judged: Judgement, attempt: Attempt) -> None:
        pod, cycle = attempt.state.pod, attempt.cycle
        attempt.fields.update(_chosen(judged, cycle, self._step.state.nodes.names))
        placed = reserve_permit_bind.reserve(attempt.profile, pod, attempt.node, cycle)
        binding = placed.refusal is None and not placed.waits
        if binding:
            placed = reserve_permit_bind.prepare(attempt.profile, pod, attempt.node, cycle)
        extender = binder(self._step.extenders, pod)
        if extender is not None:
            attempt.fields.update(binder=extender.name)
        elif binding and placed.refusal is None and not placed.preparations:
            placed = reserve_permit_bind.bind(attempt.profile, pod, attempt.node, cycle)
        if placed.refusal is None:
            waits = placed.waits or placed.preparations
            outcome = Outcome.WAITING if waits else Outcome.SCHEDULED
            now = self._step.state.now
            deadlines = {
                name: now + round(min(seconds, LONGEST_WAIT) * SECOND)
                for name, seconds in placed.waits
            }
            decided = attempt.decided(
                outcome, carry=plain(cycle.data) if cycle.data else {}, deadlines=deadlines
            )
            self._tell(attempt, decided)
            self._binding.apply_side_effects(pod.uid, cycle)
            if placed.preparations:
                self._binding.prepare(pod.uid, placed.preparations)
            return
        name, status = placed.refusal
        message = ", ".join(status.reasons)
        if not status.rejected:
            self._broken(attempt, name, message)
        elif binding:
            # Upstream: a pod that fails on PreBind or Bind goes to the backoff queue.
            self._broken(attempt, name, message, Outcome.UNSCHEDULABLE)
        else:
            pending = (name,) if status.code is Code.PENDING else ()
            self._refused(attempt, name, message, (name,), pending)

    def _post_filter(self, judged: Judgement) -> PostFilterResult:
        refused = judged.refusal is None or judged.refusal[1].rejected
        if refused and self._step.state.nodes.live and judged.profile.post_filter:
            return post_filter(judged)
        return GIVEN_UP

    def _no_node(self, judged: Judgement, attempt: Attempt, found: PostFilterResult) -> None:
        if judged.refusal is not None and not judged.refusal[1].rejected:
            name, status = judged.refusal
            self._broken(attempt, name, ", ".join(status.reasons))
            return
        nodes = self._step.state.nodes.live
        rejectors, pending = judged.rejectors()
        said = ", ".join(found.status.reasons)
        message = fit_error(judged, nodes, said) if nodes else NO_NODES
        name = judged.refusal[0] if judged.refusal else ""
        self._refused(attempt, name, message, rejectors, pending, found)

    def _over_budget(self, attempt: Attempt, message: str) -> None:
        """No node is looked at, and no plugin is asked: only the pod's own change brings it back,
        and the flush."""
        self._tell(attempt, attempt.decided(Outcome.ERROR, message=message))
        self._displacement.settle(attempt.state, GIVEN_UP)
        self._requeueing.park(attempt.state, OVER_BUDGET, "")

    def _tell(self, attempt: Attempt, decided: PodDecided) -> None:
        """The attempt becomes a fact. Before, no plugin's call leaves anything behind."""
        for definition in attempt.definitions:
            self._step.emit(definition)
        self._step.emit(decided, attempt.detail)

    def _refused(
        self,
        attempt: Attempt,
        plugin: str,
        message: str,
        rejectors: tuple[str, ...],
        pending: tuple[str, ...],
        found: PostFilterResult = GIVEN_UP,
    ) -> None:
        decided = attempt.decided(Outcome.UNSCHEDULABLE, plugin=plugin, message=message)
        self._tell(attempt, decided)
        self._displacement.settle(attempt.state, found)
        self._requeueing.add_unschedulable(
            attempt.state, "AttemptFailed", plugin, rejectors, pending
        )
        self._displacement.send_back(found)
        if found.nominated:  # it has found a way: nobody has to give a node back for it
            attempt.cycle.released.clear()
        self._binding.apply_side_effects(attempt.state.pod.uid, attempt.cycle)

    def _broken(
        self, attempt: Attempt, plugin: str, message: str, outcome: Outcome = Outcome.ERROR
    ) -> None:
        decided = attempt.decided(outcome, plugin=plugin, message=message)
        self._tell(attempt, decided)
        self._displacement.settle(attempt.state, GIVEN_UP)
        if outcome is Outcome.ERROR and plugin != EXTENDER:  # a server may be back at any time
            self._requeueing.back_off_or_park(attempt.state, plugin)
        else:
            self._requeueing.back_off(attempt.state, "AttemptFailed", plugin)
        self._binding.apply_side_effects(attempt.state.pod.uid, attempt.cycle)


def _chosen(judged: Judgement, cycle: Cycle, names: list[str]) -> dict[str, Any]:
    nominated = nominated_row(judged)
    if nominated >= 0:
        choice = Choice(nominated, int(judged.totals[nominated]), 1, 0, -1, 0)
    else:
        choice = choose(judged, cycle)
    return {
        "nominated": nominated >= 0,
        "node": names[choice.row],
        "row": choice.row,
        "score": choice.score,
        "ties": choice.ties,
        "draw": choice.draw,
        "runner_up": names[choice.runner_up] if choice.runner_up >= 0 else "",
        "runner_up_score": choice.runner_up_score,
    }
