"""Decides about a pod again, with some changes. The same code as the scheduler's judges the nodes.

Engines with changes of the cluster or of weights are kept, because restoring one takes the time of
many attempts. Pods that are removed one after the other are removed from one engine.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from eventsched.domain import near_names
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.why_not import changes
from eventsched.history.why_not.changes import AnyChange, OfPod, PodRemoved
from eventsched.scheduling.cycle.cycle_keys import (
    KEY_EXCLUDED,
    KEY_NOT_EVALUATED,
    KEY_PASSES,
    CycleKey,
)
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import PluginError
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.preemption.nomination_step import nominated_row

_ENGINES = 16
"""Engines that are kept; each is as large as the state of the cluster."""


class Landing(NamedTuple):
    """What would happen to the pod on the node.

    ``lands``: the node would be chosen whatever the draw, as the nominated node or because no other
    has as high a total. Otherwise ``plugins`` refuse it for ``reasons``; if there are none, it is
    feasible and its total is ``behind`` the best of the other nodes (0: as good).
    """

    lands: bool
    plugins: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    behind: int = 0


class Hypothesis:
    """A pod, a node, and the state of the scheduler before an attempt."""

    def __init__(
        self,
        make_engine: Callable[[Mapping[str, int]], Engine],
        pod: Pod,
        node: str,
        unchanged: Engine | None = None,
    ) -> None:
        """``make_engine`` gives a new engine with the state before the attempt, and with other
        weights of the pod's profile by plugin. ``unchanged`` is one that is there already; it is
        only asked and stays as it is. Raises InputError for a node that was not there, and for a
        pod of no profile."""
        self._make_engine = make_engine
        self.pod = pod
        self.engine = make_engine({}) if unchanged is None else unchanged
        self._engines: dict[tuple[AnyChange, ...], Engine] = {(): self.engine}
        state = self.engine.state
        row = state.nodes.rows.get(node)
        found = None if row is None else state.nodes.nodes[row]
        if row is None or found is None:
            remedy = near_names.offer(node, state.nodes.rows) or "there was no node"
            raise InputError("--why-not", f"{node} was not there at that attempt", remedy)
        self.row: int = row
        self.node: Node = found
        self._landings: dict[tuple[AnyChange, ...], Landing] = {}
        self.decisions = 0
        """How often it was decided again."""

    def landing(self, made: Sequence[AnyChange]) -> Landing:
        """What would happen with these changes. It is decided once for the same ones."""
        changed = tuple(made)
        if changed not in self._landings:
            self._landings[changed] = self._decided(changed)
        return self._landings[changed]

    def _decided(self, made: Sequence[AnyChange]) -> Landing:
        try:
            judgement = self.judged(made)
        except PluginError as error:
            return Landing(False, (error.plugin,), (str(error),))
        if judgement.problem is not None:
            problem = judgement.problem
            return Landing(False, (problem.plugin,), (str(problem),))
        if judgement.refusal is not None:
            plugin, status = judgement.refusal
            return Landing(False, (plugin,), status.reasons)
        key = CycleKey(int(judgement.keys[self.row]))
        if key == KEY_NOT_EVALUATED:
            return Landing(False, (), ("the search ended before this node",))
        if key == KEY_EXCLUDED:
            return Landing(False, judgement.narrowed_by, judgement.verdict(key).reasons)
        if key != KEY_PASSES:
            verdict = judgement.verdict(key)
            return Landing(False, (verdict.plugin,), verdict.reasons)
        nominated = nominated_row(judgement)
        if nominated >= 0:
            if nominated == self.row:
                return Landing(True)
            return Landing(False, reasons=("another node is nominated",))
        others = np.delete(judgement.totals, self.row)
        behind = int(others.max(initial=-1)) - int(judgement.totals[self.row])
        return Landing(behind < 0, behind=max(0, behind))

    def judged(self, made: Sequence[AnyChange]) -> Judgement:
        """The verdicts and scores of all nodes with these changes. Raises PluginError."""
        self.decisions += 1
        pod = changes.changed_pod(self.pod, made)
        return self._engine_with(made).judge(pod)

    def state_with(self, made: Sequence[AnyChange]) -> SchedulerState:
        """The state with the changes that are not of the pod. It is only read."""
        return self._engine_with(made).state

    def _engine_with(self, made: Sequence[AnyChange]) -> Engine:
        """An engine with the changes that are not of the pod."""
        elsewhere = tuple(each for each in made if not isinstance(each, OfPod))
        if (known := self._engines.get(elsewhere)) is not None:
            return known
        engine = self._one_more_removed(elsewhere) or self._changed_engine(elsewhere)
        if len(self._engines) >= _ENGINES:
            del self._engines[next(reversed(self._engines))]  # not the one without changes
        self._engines[elsewhere] = engine
        return engine

    def _changed_engine(self, elsewhere: tuple[AnyChange, ...]) -> Engine:
        engine = self._make_engine(changes.weights(elsewhere))
        if elsewhere:
            for stimulus in changes.stimuli(self.node, self.engine.state.registry, elsewhere):
                engine.observe(stimulus, engine.state.now)
        return engine

    def _one_more_removed(self, elsewhere: tuple[AnyChange, ...]) -> Engine | None:
        """The engine with all these changes except the last one, the removal of a pod, now with
        that one, too; it is not kept as it was. None if there is none, or if the last change is
        another one."""
        before, last = elsewhere[:-1], elsewhere[-1:]
        if not before or not isinstance(last[0], PodRemoved):
            return None
        engine = self._engines.pop(before, None)
        if engine is not None:
            for stimulus in changes.stimuli(self.node, self.engine.state.registry, last):
                engine.observe(stimulus, engine.state.now)
        return engine


def reweighted(profile: Profile, weights: Mapping[str, int]) -> Profile:
    """A profile with other weights of some score plugins."""
    all_weights = {score.name: score.weight for score in profile.scores} | dict(weights)
    return Profile(profile.name, profile.points, all_weights, profile.percentage)
