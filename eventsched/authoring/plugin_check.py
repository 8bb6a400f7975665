"""Runs one plugin over one history in this process, twice for each attempt.

The history's records are applied to a state, so that each attempt starts from the state in which it
was made. The recorded decisions stay as they are, so the history may have been written with any
configuration.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from eventsched.authoring.call_monitor import CallMonitor
from eventsched.authoring.dependence_check import DependenceCheck
from eventsched.authoring.findings import Finding, PluginRun, TranscriptEntry, by_severity
from eventsched.authoring.hint_check import HintCheck
from eventsched.authoring.plugin_driver import EVALUATION, Answers, PluginDriver
from eventsched.authoring.purity_monitor import PurityMonitor
from eventsched.domain.objects import Pod, canonical
from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.assembly import misspelt
from eventsched.scheduling.framework import points_of
from eventsched.scheduling.framework.call_guard import OverrunError
from eventsched.scheduling.framework.per_node_plugins import adapted

_PLACED = (Outcome.SCHEDULED, Outcome.WAITING)
_NOT_CALLED = {"post_filter": "postFilter", "prepared": "prepared"}
_FILTERING = {"sign", "pre_filter", "filter"}
"""Methods that determine which nodes pass."""
MAX_FINDINGS = 30
SLOW_UNSIGNED_MS = 5.0
"""Milliseconds at 5,000 nodes. Beyond it a method that runs for each node and has no signature gets
a remark."""


class PluginCheck:
    """Runs a plugin along a history and collects the ``result``."""

    def __init__(
        self, plugin: Any, history: str, file: str, monitor: PurityMonitor, seconds: float
    ) -> None:
        """``seconds`` is the deadline of one call."""
        self._monitor, self._plugin = monitor, plugin
        self._calls = CallMonitor(monitor, seconds)
        self._state = SchedulerState()
        inner = adapted(plugin)
        self._driver = PluginDriver(self._calls.guarded(inner), self._state)
        self._hint_check = HintCheck(self._driver)
        self._dependence = DependenceCheck(self._driver)
        self._pod_of_signature: dict[Any, str] = {}
        self._findings: dict[tuple[str, str, str], Finding] = {}
        unasked = [text for method, text in _NOT_CALLED.items() if hasattr(plugin, method)]
        self.result = PluginRun(plugin.name, file, points_of(inner), history, unasked=unasked)

    def run(self, history: Iterable[LogEntry], attempts: int) -> PluginRun:
        """Runs the history up to a number of attempts, and returns the result."""
        for logged in history:
            record = logged.record
            if isinstance(record, PodDecided) and record.uid in self._state.pods:
                if self.result.attempts >= attempts:
                    break
                self._attempt(logged.position, record)
            before = self._hint_check.before(record)
            self._state.apply(record, logged.at)
            self.result.records += 1
            self._unless_slow(self._hint_check.after, record, before, logged.position)
        return self._conclude()

    def _unless_slow(self, function: Any, *arguments: Any) -> Any:
        """The function's result; None if a call of the plugin in it exceeded its deadline."""
        try:
            return function(*arguments)
        except OverrunError:
            return None

    def _attempt(self, position: int, decided: PodDecided) -> None:
        pod = self._state.pods[decided.uid].pod
        node = decided.node if decided.outcome in _PLACED else ""
        before = canonical(pod)
        first = self._unless_slow(self._driver.attempt, pod, node)
        second = self._unless_slow(self._driver.attempt, pod, node)
        self.result.attempts += 1
        if first is None or second is None:
            return
        if canonical(pod) != before:
            text = f"changes {pod.full_name}, its argument"
            self._add_finding("unstable", "attempt", text)
        answers, cycle = first
        self._check_repeatable(answers, second[0], pod, position)
        for point, answer in answers.items():
            self.result.transcript.append(
                TranscriptEntry(position, pod.full_name, point, _digest(answer))
            )
        self._unless_slow(self._check_signature, pod, answers, position)
        self._unless_slow(self._hint_check.follow, pod)
        if cycle.remembered:
            self._driver.remember(cycle)
            self._unless_slow(self._hint_check.memory_changed, position)

    def _check_repeatable(self, first: Answers, second: Answers, pod: Pod, position: int) -> None:
        point = first_difference(first, second)
        if point:
            text = f"two calls for {pod.full_name} on the same state give different answers"
            self._add_finding("unstable", point, text, f"position {position}")

    def _check_signature(self, pod: Pod, answers: Answers, position: int) -> None:
        """Compares the answers with those to another pod of the same signature."""
        signature = self._driver.signature(pod)
        if signature is None:
            return
        text = self._dependence.compare(signature, answers)
        if text:
            self._add_finding("signature", "depends_on", text, f"position {position}")
        uid = self._pod_of_signature.setdefault(signature, pod.uid)
        other = self._state.pods.get(uid)
        changed = other is not None and self._driver.signature(other.pod) != signature
        if other is None or changed or other.pod.uid == pod.uid:
            self._pod_of_signature[signature] = pod.uid
            return
        evaluation = {method: answers[method] for method in EVALUATION if method in answers}
        point = first_difference(evaluation, self._driver.evaluate(other.pod))
        if point:
            text = (
                f"sign gives {pod.full_name} and {other.pod.full_name} the same signature, "
                f"but {point} answers differently"
            )
            self._add_finding("signature", "sign", text, f"position {position}")

    def _add_finding(self, kind: str, point: str, what: str, where: str = "") -> None:
        """Keeps the first finding of each kind and point."""
        self._findings.setdefault((kind, point, ""), Finding(kind, point, what, where))

    def _conclude(self) -> PluginRun:
        result = self.result
        for (method, what, where), times in self._monitor.hits.items():
            text = what if times == 1 else f"{what}, {times} times"
            self._findings[("impure", method, f"{what} {where}")] = Finding(
                "impure", method, text, where
            )
        for point, problem in self._driver.broken:
            if point in self._calls.slow:
                continue
            self._findings[("broken", point, problem)] = Finding("broken", point, problem)
        for method, seconds in self._calls.slow.items():
            self._findings[("broken", method, "")] = Finding(
                "slow", method, f"took longer than {seconds:g} s and was stopped"
            )
        result.costs = self._calls.costs(self._plugin)
        result.remarks += misspelt({self._plugin.name: type(self._plugin)})
        self._remark_on_costs()
        findings = [*self._findings.values(), *self._missed_wakeups()]
        result.findings = by_severity(findings)[:MAX_FINDINGS]
        return result

    def _missed_wakeups(self) -> list[Finding]:
        """The missed wake-ups; none if filtering itself varies, because then a node may begin to
        pass without any change."""
        varies = any(
            finding.kind in ("impure", "unstable") and finding.point in _FILTERING
            for finding in self._findings.values()
        )
        if not varies:
            return self._hint_check.findings()
        self.result.remarks.append(
            "wakes_on is not checked: nodes begin or cease to pass without any change"
        )
        return []

    def _remark_on_costs(self) -> None:
        if hasattr(self._plugin, "sign"):
            return
        self.result.remarks += [
            f"{cost.point} runs again for every pod: define sign, or work on columns"
            for cost in self.result.costs
            if cost.at_scale > SLOW_UNSIGNED_MS
        ]


def first_difference(first: Answers, second: Answers) -> str:
    """The first method whose answers differ, or ""."""
    for point in {**first, **second}:
        if first.get(point) != second.get(point):
            return point
    return ""


def _digest(answer: Any) -> str:
    return blake2b(canonical(answer), digest_size=8).hexdigest()
