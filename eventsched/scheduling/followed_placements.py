"""What a shadow does when the scheduler that it follows has placed a pod, or the pod is gone.

The cluster's placement replaces the one decided here: the reservation ends, the nodes are judged
once more without the pod, and ``PlacementCompared`` puts the pod on its node.
"""

from copy import copy
from typing import Any, NamedTuple

import msgspec

from eventsched.domain.objects import Pod
from eventsched.domain.records import PlacementCompared, PlacementMatch
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.scheduler_state import PodState
from eventsched.scheduling.binding import reserve_permit_bind
from eventsched.scheduling.binding.binding_cycle import Binding
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES, CycleKey
from eventsched.scheduling.cycle.judgement import Judgement, judge
from eventsched.scheduling.framework import PluginError
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.engine_step import EngineStep

UNKNOWN_NODE = "the node is not known here"


class Chosen(NamedTuple):
    """What was decided here for a pod, before its record in the cluster changed."""

    reservation: Reservation | None
    attempts: int


class FollowedPlacements:
    """Compares placements, as records."""

    def __init__(self, step: EngineStep, classes: ClassCache, binding: Binding) -> None:
        self._step, self._classes, self._binding = step, classes, binding
        self._unsampled: dict[str, Profile] = {}

    def chosen(self, pod_state: PodState) -> Chosen | None:
        """What is decided for a pod that a followed scheduler has not placed yet; None for any
        other pod. Call it before the record of the change."""
        if not self._step.state.is_followed(pod_state):
            return None
        reservation = self._step.state.reservations.get(pod_state.pod.uid)
        return Chosen(reservation, pod_state.attempts)

    def placed(self, pod_state: PodState, chosen: Chosen) -> bool:
        """The followed scheduler has placed a pod: the record of that was made. Returns whether it
        took the node that is reserved here; then PostBind has run, and nothing is left to end."""
        pod, reservation = pod_state.pod, chosen.reservation
        node = pod.node_name
        if reservation is None:
            outcome = PlacementMatch.ONLY_THERE if chosen.attempts else PlacementMatch.UNDECIDED
        else:
            outcome = PlacementMatch.SAME if reservation.node == node else PlacementMatch.DIFFERENT
        fields: dict[str, Any] = {"outcome": outcome, "attempt": chosen.attempts}
        if reservation is not None:
            fields.update(chosen=reservation.node, attempt=reservation.attempt)
        if outcome in (PlacementMatch.DIFFERENT, PlacementMatch.ONLY_THERE):
            fields.update(self._judged(pod, node, reservation.node if reservation else "", chosen))
        elif outcome is PlacementMatch.SAME:
            fields["feasible"] = True
        self._step.emit(PlacementCompared(uid=pod.uid, node=node, **fields))
        if outcome is not PlacementMatch.SAME or reservation is None:
            return False
        self._post_bind(pod, reservation)
        return True

    def deleted(self, uid: str, chosen: Chosen) -> None:
        """A pod is gone that the followed scheduler has not placed: the record of that was made.
        There is nothing to compare if none of both has found a node."""
        reservation = chosen.reservation
        if reservation is not None:
            compared = PlacementCompared(
                uid=uid, outcome=PlacementMatch.ONLY_HERE, chosen=reservation.node,
                attempt=reservation.attempt,
            )  # fmt: skip
            self._step.emit(compared)

    def _judged(self, placed: Pod, node: str, other: str, chosen: Chosen) -> dict[str, Any]:
        """The fields of the record that say what is thought of the two nodes here."""
        rows = self._step.state.nodes.rows
        if node not in rows:
            return {"reasons": (UNKNOWN_NODE,)}
        try:
            judgement = self._judge(placed, chosen.attempts)
            return _fields(judgement, rows[node], rows.get(other, -1))
        except PluginError as error:
            return {"plugin": error.plugin, "reasons": (str(error),)}

    def _judge(self, placed: Pod, attempt: int) -> Judgement:
        """The verdicts on all nodes for a pod that is on none at the moment. Extenders are not
        asked again. Raises PluginError."""
        step, pod = self._step, _unplaced(placed)
        if step.drop_codes():
            self._classes.forget()
        profile = self._profile(pod.scheduler_name)
        cycle = step.cycle(max(1, attempt))
        return judge(
            step.state.nodes, self._classes, profile, pod, cycle,
            preemptions=step.state.preemptions,
        )  # fmt: skip

    def _profile(self, scheduler_name: str) -> Profile:
        """The profile, applied to all nodes: a search that stops early might not reach both."""
        profile = self._step.profile_for(scheduler_name)
        assert profile is not None, "a followed scheduler has a profile"
        if not profile.percentage:
            return profile
        if profile.name not in self._unsampled:
            self._unsampled[profile.name] = copy(profile)
            self._unsampled[profile.name].percentage = 0
        return self._unsampled[profile.name]

    def _post_bind(self, pod: Pod, reservation: Reservation) -> None:
        """Runs PostBind, so that plugins remember a placement that they decided."""
        cycle = self._step.cycle(reservation.attempt, reservation.carry)
        profile = self._step.placing_profile(pod)
        reserve_permit_bind.post_bind(profile, pod, reservation.node, cycle)
        self._binding.apply_side_effects(pod.uid, cycle)


def _unplaced(pod: Pod) -> Pod:
    """The pod as it was before it was placed."""
    return msgspec.structs.replace(pod, node_name="", nominated_node="")


def _fields(judgement: Judgement, row: int, chosen_row: int) -> dict[str, Any]:
    totals = judgement.totals
    fields: dict[str, Any] = {}
    if chosen_row >= 0 and judgement.keys[chosen_row] == KEY_PASSES:
        fields["chosen_score"] = int(totals[chosen_row])
    if judgement.refusal is not None:
        name, status = judgement.refusal
        return {**fields, "plugin": name, "reasons": tuple(status.reasons)}
    key = CycleKey(int(judgement.keys[row]))
    if key == KEY_PASSES:
        if judgement.problem is not None:
            raise judgement.problem
        return {**fields, "feasible": True, "score": int(totals[row])}
    verdict = judgement.verdict(key)
    return {**fields, "plugin": verdict.plugin, "reasons": verdict.reasons}
