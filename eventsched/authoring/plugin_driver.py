"""One plugin, asked about one pod on a state: every point that it serves, as an attempt would.

What comes back are plain values, so that two askings can be compared. What the plugin remembers or
releases is told, and changes nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.scheduling.framework import (
    POINTS,
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
"""Method → what it answered, as JSON values."""
AFTER = ("reserve", "permit", "pre_bind", "bind", "post_bind")
"""The methods that are asked about the node that the pod was given."""


class Asking:
    """Asks one plugin. ``memory`` is what the plugin remembers; ``broken`` are the calls that
    failed: (method, what it did)."""

    def __init__(self, plugin: Any, state: SchedulerState) -> None:
        """``plugin`` is adapted: it works on columns."""
        self.plugin, self.state = plugin, state
        self.memory: dict[str, Any] = {}
        self.broken: dict[tuple[str, str], str] = {}
        served = points_of(plugin)
        points = {point: [plugin] if point in served else [] for point in POINTS}
        points["queueSort"] = [PrioritySort()]
        self.profile = Profile("check", points, {})

    def signature(self, pod: Pod) -> Any:
        """What the plugin signs of a pod; None where it does not sign."""
        sign = getattr(self.plugin, "sign", None)
        return None if sign is None else sign(pod)

    def passes(self, pod: Pod) -> "np.ndarray[Any, np.dtype[np.bool_]] | None":
        """bool[rows]: the nodes that PreFilter and Filter let the pod have; None where they
        fail."""
        cycle, signed = self._cycle(pod), self.signature(pod) is not None
        try:
            passing, _ = self._filtered(pod, cycle, {}, signed=signed)
        except PluginError:
            return None
        return passing

    def judged(self, pod: Pod) -> Answers:
        """What PreFilter, Filter, PreScore and Score answer."""
        answers: Answers = {}
        self._judge(pod, self._cycle(pod), answers)
        return answers

    def attempt(self, pod: Pod, node: str) -> tuple[Answers, Cycle]:
        """Everything, in the order of an attempt; ``node`` is the one that the pod was given, ""
        where it was given none."""
        cycle, answers = self._cycle(pod), Answers()
        state = self.state.pods[pod.uid]
        queued = QueuedPod(pod, state.since, state.attempts)
        self._ask("pre_enqueue", answers, pod)
        if hasattr(self.plugin, "sort_key"):
            self._take("sort_key", answers, lambda: self.plugin.sort_key(queued))
        self._judge(pod, cycle, answers)
        for method in AFTER if node else ():
            self._ask(method, answers, cycle, pod, node)
        if node:
            undoing = self._cycle(pod)
            undoing.data.update(cycle.data)
            self._ask("unreserve", answers, undoing, pod, node)
        if cycle.data:
            self._take("data", answers, lambda: cycle.data)
        return answers | self._said(cycle), cycle

    def _said(self, cycle: Cycle) -> Answers:
        said: Answers = {}
        if cycle.remembered:
            said["remember"] = [[key, value] for _, key, value in cycle.remembered]
        if cycle.released:
            said["release"] = [[uid, message] for _, uid, message in cycle.released]
        return said

    def _judge(self, pod: Pod, cycle: Cycle, answers: Answers) -> None:
        signature = self.signature(pod)
        if hasattr(self.plugin, "sign"):
            self._take("sign", answers, lambda: repr(signature))
        signed = signature is not None
        try:
            passing, refused = self._filtered(pod, cycle, answers, signed=signed)
            if not refused:
                self._score(pod, cycle, answers, passing, signed=signed)
        except PluginError as problem:
            answers[problem.point] = self._failed(problem)

    def _filtered(
        self, pod: Pod, cycle: Cycle, answers: Answers, *, signed: bool
    ) -> "tuple[np.ndarray[Any, np.dtype[np.bool_]], bool]":
        """The rows that pass, and whether PreFilter refused the pod for all of them. For a signed
        plugin PreFilter gets no nodes, as in an attempt."""
        table = self.state.nodes
        view = NodeView(table)
        passing = table.alive[: table.size].copy()
        skips = False
        for plugin in self.profile.pre_filter:
            cycle.plugin = plugin.name
            said = plugin.pre_filter(cycle, pod, None if signed else view)
            answers["pre_filter"] = plain(said)
            if isinstance(said, PreFilterResult):
                passing &= np.isin(view.names, list(said.node_names)) if len(passing) else passing
            elif said is not None and said.code is Code.SKIP:
                skips = True
            elif said is not None and said.code is not Code.SUCCESS:
                return np.zeros(table.size, dtype=bool), True
        for each in () if skips else self.profile.filters:
            codes = each(cycle, pod, view)
            answers["filter"] = plain(codes)
            if codes is not None:
                refused = sorted({int(code) for code in codes[table.alive[: table.size]]} - {0})
                words = [plain(each.verdict(cycle, pod, code)) for code in refused]
                answers["explain"] = words
                # Codes may be numbered by whoever asked first; what they mean counts.
                answers["filter"] = _worded(codes, dict(zip(refused, words, strict=True)), table)
                passing &= codes == 0
        return passing, False

    def _score(
        self, pod: Pod, cycle: Cycle, answers: Answers,
        passing: "np.ndarray[Any, np.dtype[np.bool_]]", *, signed: bool,
    ) -> None:  # fmt: skip
        rows = np.flatnonzero(passing)
        view = NodeView(self.state.nodes, rows)
        for plugin in self.profile.pre_score:
            cycle.plugin = plugin.name
            said = plugin.pre_score(cycle, pod, None if signed else view)
            answers["pre_score"] = plain(said)
            if said is not None and said.code is not Code.SUCCESS:
                return
        for each in self.profile.scores if len(rows) else ():
            scores, _ = each(cycle, pod, view)
            answers["score"] = plain(scores)
            if hasattr(self.plugin, "normalize_score"):
                answers["normalize_score"] = plain(each.normalize(cycle, pod, scores)[0])

    def _ask(self, method: str, answers: Answers, *arguments: Any) -> None:
        if callable(getattr(self.plugin, method, None)):
            for each in arguments:
                if isinstance(each, Cycle):
                    each.plugin = self.plugin.name
            self._take(method, answers, lambda: guarded(self.plugin, method, *arguments))

    def _take(self, method: str, answers: Answers, ask: Callable[[], Any]) -> None:
        try:
            answers[method] = plain(ask())
        except PluginError as problem:
            answers[method] = self._failed(problem)
        except Exception as problem:  # noqa: BLE001 - somebody's code, asked without a guard
            answers[method] = self._failed(PluginError(self.plugin.name, method, repr(problem)))

    def _failed(self, problem: PluginError) -> str:
        self.broken.setdefault((problem.point, problem.problem), problem.problem)
        return f"failed: {problem.problem}"

    def _cycle(self, pod: Pod) -> Cycle:
        waits: dict[str, dict[str, str]] = {}
        for uid, held in self.state.reservations.items():
            for plugin in held.waits:
                waits.setdefault(plugin, {})[uid] = held.node
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

    def hint(self, pod: Pod, change: Any) -> bool:
        """Whether the plugin's hint says that a change may matter; without one it does, and where
        it raises, too."""
        if not hasattr(self.plugin, "hint"):
            return True
        try:
            return bool(guarded(self.plugin, "hint", self._cycle(pod), pod, change))
        except PluginError as problem:
            self._failed(problem)
            return True


def _worded(codes: Any, words: Mapping[int, Any], table: NodeTable) -> list[Any]:
    return [
        words.get(int(code), 0) if alive else None
        for code, alive in zip(codes, table.alive[: table.size], strict=True)
    ]


def plain(answer: Any) -> Any:
    """An answer as JSON values that are equal where it means the same."""
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
            return {str(key): plain(answer[key]) for key in answer}
        case list() | tuple():
            return [plain(each) for each in answer]
        case _:
            return repr(answer)
