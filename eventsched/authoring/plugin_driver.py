"""Calls every extension point of one plugin for one pod, in the order of a scheduling attempt.

Answers are returned as JSON values, so that two runs can be compared. What the plugin remembers or
releases is part of the answers; it has no effect here.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.scheduling.framework import (
    POINTS,
    Change,
    Code,
    Cycle,
    PluginError,
    PreFilterResult,
    Preparation,
    QueuedPod,
    Status,
    Wait,
    points_of,
)
from eventsched.scheduling.framework.plugin_calls import guarded
from eventsched.scheduling.framework.profile import Profile

Answers = dict[str, Any]
"""Method → its answer as a JSON value."""
NODE_METHODS = ("reserve", "permit", "pre_bind", "bind", "post_bind")
"""The methods that get the chosen node."""
EVALUATION = (
    "sign", "pre_filter", "filter", "explain", "pre_score", "score", "normalize_score",
)  # fmt: skip
"""The methods whose answers decide where a pod can go."""
Bools = NDArray[np.bool_]


class PluginDriver:
    """Calls one plugin. ``memory`` is the plugin's memory; the keys of ``broken`` are the failures:
    (method, problem)."""

    def __init__(self, plugin: Any, state: SchedulerState) -> None:
        """``plugin`` must work on columns (see per_node_plugins.adapted)."""
        self.plugin, self.state = plugin, state
        self.memory: dict[str, Any] = {}
        self.broken: dict[tuple[str, str], str] = {}
        served = points_of(plugin)
        points = {point: [plugin] if point in served else [] for point in POINTS}
        points["queueSort"] = [PrioritySort()]
        self.profile = Profile("check", points, {})

    def signature(self, pod: Pod) -> Any:
        """The plugin's signature of a pod, or None."""
        sign = getattr(self.plugin, "sign", None)
        return None if sign is None else sign(pod)

    def passing_rows(self, pod: Pod) -> Bools | None:
        """bool[rows]: the nodes that pass PreFilter and Filter; None if one of them fails."""
        cycle, signed = self._cycle(pod), self.signature(pod) is not None
        try:
            passing, _ = self._filter(pod, cycle, {}, signed=signed, explained=False)
        except PluginError:
            return None
        return passing

    def evaluate(self, pod: Pod) -> Answers:
        """The answers of PreFilter, Filter, PreScore and Score."""
        answers: Answers = {}
        self._evaluate(pod, self._cycle(pod), answers)
        return answers

    def attempt(self, pod: Pod, node: str) -> tuple[Answers, Cycle]:
        """The answers of all methods, in the order of an attempt, and the cycle that they used.
        ``node`` is the node that the history chose for the pod, or ""."""
        cycle, answers = self._cycle(pod), Answers()
        pod_state = self.state.pods[pod.uid]
        queued = QueuedPod(pod, pod_state.since, pod_state.attempts)
        self._call("pre_enqueue", answers, pod)
        if hasattr(self.plugin, "sort_key"):
            self._record("sort_key", answers, lambda: self.plugin.sort_key(queued))
        self._evaluate(pod, cycle, answers)
        for method in NODE_METHODS if node else ():
            self._call(method, answers, cycle, pod, node)
        if node:
            unreserve_cycle = self._cycle(pod)
            unreserve_cycle.data.update(cycle.data)
            self._call("unreserve", answers, unreserve_cycle, pod, node)
        if cycle.data:
            self._record("data", answers, lambda: cycle.data)
        return answers | self._side_effects(cycle), cycle

    def remember(self, cycle: Cycle) -> None:
        """Applies to ``memory`` what the plugin remembered in a cycle."""
        for _, key, value, _ in cycle.remembered:
            if value is None:
                self.memory.pop(key, None)
            else:
                self.memory[key] = value

    def hint(self, pod: Pod, change: Change) -> bool:
        """Whether the change wakes the pod, as far as the hint decides: True without a hint, and
        if it raises."""
        if not hasattr(self.plugin, "hint"):
            return True
        try:
            return bool(guarded(self.plugin, "hint", self._cycle(pod), pod, change))
        except PluginError as problem:
            self._record_failure(problem)
            return True

    def _side_effects(self, cycle: Cycle) -> Answers:
        answers: Answers = {}
        if cycle.remembered:
            answers["remember"] = [list(update[1:]) for update in cycle.remembered]
        if cycle.released:
            answers["release"] = [[uid, message] for _, uid, message in cycle.released]
        return answers

    def _evaluate(self, pod: Pod, cycle: Cycle, answers: Answers) -> None:
        signature = self.signature(pod)
        if hasattr(self.plugin, "sign"):
            self._record("sign", answers, lambda: repr(signature))
        signed = signature is not None
        try:
            passing, refused = self._filter(pod, cycle, answers, signed=signed)
            if not refused:
                self._score(pod, cycle, answers, passing, signed=signed)
        except PluginError as problem:
            answers[problem.point] = self._record_failure(problem)

    def _filter(
        self, pod: Pod, cycle: Cycle, answers: Answers, *, signed: bool, explained: bool = True
    ) -> tuple[Bools, bool]:
        """bool[rows] of the nodes that pass, and whether PreFilter refused the pod. PreFilter gets
        no nodes if the pod has a signature, as in an attempt. Unless ``explained``, the answers of
        Filter and ``explain`` are left out."""
        table = self.state.nodes
        view = NodeView(table)
        passing = table.alive[: table.size].copy()
        skips = False
        for plugin in self.profile.pre_filter:
            cycle.plugin = plugin.name
            result = plugin.pre_filter(cycle, pod, None if signed else view)
            answers["pre_filter"] = plain_value(result)
            if isinstance(result, PreFilterResult):
                passing &= np.isin(view.names, list(result.node_names)) if len(passing) else passing
            elif result is not None and result.code is Code.SKIP:
                skips = True
            elif result is not None and result.code is not Code.SUCCESS:
                return np.zeros(table.size, dtype=bool), True
        for node_filter in () if skips else self.profile.filters:
            codes = node_filter(cycle, pod, view)
            if codes is None:
                answers["filter"] = None
                continue
            passing &= codes == 0
            if explained:
                refusals = sorted({int(code) for code in codes[table.alive[: table.size]]} - {0})
                verdicts = {
                    code: plain_value(node_filter.verdict(cycle, pod, code)) for code in refusals
                }
                answers["explain"] = list(verdicts.values())
                # A plugin may number its codes in order of first use, so verdicts are compared.
                answers["filter"] = _verdict_by_row(codes, verdicts, table)
        return passing, False

    def _score(
        self, pod: Pod, cycle: Cycle, answers: Answers,
        passing: Bools, *, signed: bool,
    ) -> None:  # fmt: skip
        rows = np.flatnonzero(passing)
        view = NodeView(self.state.nodes, rows)
        for plugin in self.profile.pre_score:
            cycle.plugin = plugin.name
            status = plugin.pre_score(cycle, pod, None if signed else view)
            answers["pre_score"] = plain_value(status)
            if status is not None and status.code is not Code.SUCCESS:
                return
        for score in self.profile.scores if len(rows) else ():
            scores, _ = score(cycle, pod, view)
            answers["score"] = plain_value(scores)
            if hasattr(self.plugin, "normalize_score"):
                answers["normalize_score"] = plain_value(score.normalize(cycle, pod, scores)[0])

    def _call(self, method: str, answers: Answers, *arguments: Any) -> None:
        if callable(getattr(self.plugin, method, None)):
            for argument in arguments:
                if isinstance(argument, Cycle):
                    argument.plugin = self.plugin.name
            self._record(method, answers, lambda: guarded(self.plugin, method, *arguments))

    def _record(self, method: str, answers: Answers, call: Callable[[], Any]) -> None:
        """Makes the call, and records its answer or its failure."""
        try:
            answers[method] = plain_value(call())
        except PluginError as problem:
            answers[method] = self._record_failure(problem)
        except Exception as problem:  # noqa: BLE001 - the plugin's code, called without a guard
            error = PluginError(self.plugin.name, method, repr(problem))
            answers[method] = self._record_failure(error)

    def _record_failure(self, problem: PluginError) -> str:
        self.broken.setdefault((problem.point, problem.problem), problem.problem)
        return f"failed: {problem.problem}"

    def _cycle(self, pod: Pod) -> Cycle:
        waits: dict[str, dict[str, str]] = {}
        for uid, reservation in self.state.reservations.items():
            for plugin in reservation.waits:
                waits.setdefault(plugin, {})[uid] = reservation.node
        return Cycle(
            now=self.state.now,
            seed=self.state.seed,
            attempt=self.state.pods[pod.uid].attempts + 1 if pod.uid in self.state.pods else 1,
            registry=self.state.registry,
            memories={self.plugin.name: self.memory},
            waits=waits,
            plugin=self.plugin.name,
            is_strict=True,  # a score out of range is a finding
            topologies=self.state.topologies,
        )


def _verdict_by_row(codes: Any, verdicts: Mapping[int, Any], table: NodeTable) -> list[Any]:
    """The verdict for each row: 0 if it passes, None if it holds no node."""
    return [
        verdicts.get(int(code), 0) if is_alive else None
        for code, is_alive in zip(codes, table.alive[: table.size], strict=True)
    ]


def plain_value(answer: Any) -> Any:
    """The answer as a JSON value. Answers with the same meaning have equal values."""
    match answer:
        case None | bool() | int() | str():
            return answer
        case float():
            return repr(answer)
        case np.ndarray():
            return answer.tolist()
        case Status():
            return [str(answer.code), *answer.reasons]
        case PreFilterResult():
            return ["only", *sorted(answer.node_names)]
        case Wait():
            return ["wait", answer.seconds]
        case Preparation():
            return ["prepare", answer.seconds, *map(str, answer.writes)]
        case dict():
            return {str(key): plain_value(answer[key]) for key in answer}
        case list() | tuple():
            return [plain_value(item) for item in answer]
        case _:
            return repr(answer)
