"""One plugin over one history, in this process: every attempt is asked about, twice.

The history's records are folded to the state that each attempt was made from; what was decided
there stays. So any history will do, whatever configuration it was written with.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from eventsched.authoring.call_monitor import CallMonitor
from eventsched.authoring.dependence import Dependence
from eventsched.authoring.findings import Finding, PluginRun, Said, gravest_first
from eventsched.authoring.hint_check import Wakeups
from eventsched.authoring.plugin_driver import Answers, Asking
from eventsched.authoring.purity_monitor import Sentinels
from eventsched.domain.objects import Pod, canonical
from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.records.logged import Logged
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.assembly import misspelt
from eventsched.scheduling.framework import points_of
from eventsched.scheduling.framework.call_guard import OverrunError
from eventsched.scheduling.framework.per_node_plugins import adapted

_PLACED = (Outcome.SCHEDULED, Outcome.WAITING)
_UNASKED = {"post_filter": "postFilter", "prepared": "prepared"}
_JUDGING = {"sign", "pre_filter", "filter"}
"""Methods whose answers say which nodes pass."""
MOST_FINDINGS = 30
SLOW_UNSIGNED = 5.0
"""Milliseconds at 5,000 nodes beyond which a plugin that is called for each node, and asked again
for each pod, is told that there are quicker ways."""


class PluginCheck:
    """Asks a plugin along a history. ``trial`` fills up."""

    def __init__(
        self, plugin: Any, history: str, file: str, sentinels: Sentinels, seconds: float
    ) -> None:
        """``seconds`` is how long a call may take."""
        self._sentinels, self._raw = sentinels, plugin
        self._watch = CallMonitor(sentinels, seconds)
        self._state = SchedulerState()
        inner = adapted(plugin)
        self._asking = Asking(self._watch.guarded(inner), self._state)
        self._wakeups = Wakeups(self._asking)
        self._dependence = Dependence(self._asking)
        self._like: dict[Any, str] = {}
        self._found: dict[tuple[str, str, str], Finding] = {}
        unasked = [told for method, told in _UNASKED.items() if hasattr(plugin, method)]
        self.trial = PluginRun(plugin.name, file, points_of(inner), history, unasked=unasked)

    def run(self, history: Iterable[Logged], attempts: int) -> PluginRun:
        """The whole of it, up to a number of attempts."""
        for logged in history:
            record = logged.record
            if isinstance(record, PodDecided) and record.uid in self._state.pods:
                if self.trial.attempts >= attempts:
                    break
                self._attempt(logged.position, record)
            before = self._wakeups.before(record)
            self._state.apply(record, logged.at)
            self.trial.records += 1
            self._unhurried(self._wakeups.after, record, before, logged.position)
        return self._concluded()

    def _unhurried(self, function: Any, *arguments: Any) -> Any:
        """What a call that takes too long is part of is left out."""
        try:
            return function(*arguments)
        except OverrunError:
            return None

    def _attempt(self, position: int, decided: PodDecided) -> None:
        pod = self._state.pods[decided.uid].pod
        node = decided.node if decided.outcome in _PLACED else ""
        untouched = canonical(pod)
        first = self._unhurried(self._asking.attempt, pod, node)
        second = self._unhurried(self._asking.attempt, pod, node)
        self.trial.attempts += 1
        if first is None or second is None:
            return
        if canonical(pod) != untouched:
            self._find("unstable", "attempt", f"it changes {pod.full_name}, which it was given")
        answers, cycle = first
        self._same(answers, second[0], pod, position)
        for point, answer in answers.items():
            self.trial.transcript.append(Said(position, pod.full_name, point, _digest(answer)))
        self._unhurried(self._alike, pod, answers, position)
        self._unhurried(self._wakeups.follow, pod)
        for _, key, value in cycle.remembered:
            if value is None:
                self._asking.memory.pop(key, None)
            else:
                self._asking.memory[key] = value
        if cycle.remembered:
            self._unhurried(self._wakeups.memory_changed, position)

    def _same(self, first: Answers, second: Answers, pod: Pod, position: int) -> None:
        point = differing(first, second)
        if point:
            told = f"asked twice about {pod.full_name} on the same state it answers differently"
            self._find("unstable", point, told, f"position {position}")

    def _alike(self, pod: Pod, answers: Answers, position: int) -> None:
        """Another pod of the same signature has to be answered like this one."""
        signature = self._asking.signature(pod)
        if signature is None:
            return
        told = self._dependence.compare(signature, answers)
        if told:
            self._find("signature", "depends_on", told, f"position {position}")
        uid = self._like.setdefault(signature, pod.uid)
        other = self._state.pods.get(uid)
        changed = other is not None and self._asking.signature(other.pod) != signature
        if other is None or changed or other.pod.uid == pod.uid:
            self._like[signature] = pod.uid
            return
        mine = self._asking.judged(pod)
        point = differing(mine, self._asking.judged(other.pod))
        if point:
            told = (
                f"sign gives {pod.full_name} and {other.pod.full_name} the same signature, "
                f"but {point} answers differently"
            )
            self._find("signature", "sign", told, f"position {position}")

    def _find(self, kind: str, point: str, what: str, where: str = "") -> None:
        """Once for each kind and point: the first of them says enough."""
        self._found.setdefault((kind, point, ""), Finding(kind, point, what, where))

    def _concluded(self) -> PluginRun:
        trial = self.trial
        for (method, what, where), times in self._sentinels.hits.items():
            told = what if times == 1 else f"{what}, {times} times"
            self._found[("impure", method, f"{what} {where}")] = Finding(
                "impure", method, told, where
            )
        for point, problem in self._asking.broken:
            if point in self._watch.slow:
                continue
            self._found[("broken", point, problem)] = Finding("broken", point, problem)
        for method, seconds in self._watch.slow.items():
            self._found[("broken", method, "")] = Finding(
                "slow", method, f"took longer than {seconds:g} s, and was ended"
            )
        trial.costs = self._watch.costs(self._raw)
        trial.remarks += misspelt({self._raw.name: type(self._raw)})
        self._costly()
        trial.findings = gravest_first([*self._found.values(), *self._missed()])[:MOST_FINDINGS]
        return trial

    def _missed(self) -> list[Finding]:
        """The wake-ups that are missing; none where a node may pass without any change."""
        fickle = [each for each in self._found.values() if each.kind in ("impure", "unstable")]
        if not any(each.point in _JUDGING for each in fickle):
            return self._wakeups.found()
        self.trial.remarks.append(
            "wakes_on is not looked at: nodes pass, or do not, without any change"
        )
        return []

    def _costly(self) -> None:
        unsigned = not hasattr(self._raw, "sign")
        for each in self.trial.costs:
            if unsigned and each.at_scale > SLOW_UNSIGNED:
                self.trial.remarks.append(
                    f"{each.point} is asked again for every pod: sign what of a pod matters, or "
                    "work on columns"
                )


def differing(first: Answers, second: Answers) -> str:
    """The first point at which two sets of answers differ, "" for none."""
    for point in {**first, **second}:
        if first.get(point) != second.get(point):
            return point
    return ""


def _digest(answer: Any) -> str:
    return blake2b(canonical(answer), digest_size=8).hexdigest()
