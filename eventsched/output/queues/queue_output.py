"""The text and the JSON of pods that wait, and of those that a change should have woken."""

from collections.abc import Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from eventsched.domain.records import Queue
from eventsched.history.past_state.missed_wake_ups import MissedWakeUp
from eventsched.history.past_state.wait_estimates import FEWEST, WaitEstimate
from eventsched.history.past_state.waiting_pods import WaitingPod
from eventsched.output.terminal.colours import Style, style_of_wait
from eventsched.output.terminal.display import PLAIN, Display
from eventsched.output.terminal.tables import counted, table
from eventsched.output.time_format import iso, rough

_SHOWN_OF_QUEUE = 20
"""Pods of one queue at most, without --full."""


def queue_text(
    pods: Sequence[WaitingPod],
    now: int,
    guesses: Mapping[str, WaitEstimate],
    *,
    full: bool = False,
    wide: bool = False,
    display: Display = PLAIN,
) -> str:
    """A table for each queue, and what wakes the plugins that pods wait for. ``guesses`` are the
    estimates by the pods' uids. With ``wide`` it has attempts and uids, too."""
    if not pods:
        return "no pod waits"
    parts = []
    for place, group in groupby(pods, key=lambda each: each.place):
        waiting = list(group)
        shown = waiting if full else waiting[:_SHOWN_OF_QUEUE]
        rows = [
            [
                *_queue_row(each, now),
                estimate_text(guesses.get(each.pod_state.pod.uid)),
                *((each.pod_state.attempts, each.pod_state.pod.uid) if wide else ()),
            ]
            for each in shown
        ]
        header = ["#", "pod", "priority", "age", "here for", "waits for", "estimated rest"]
        header += ["attempts", "uid"] if wide else []
        styles = [style_of_wait(_seconds_since(each.added, now)) for each in shown]
        text = display.table(header, rows, styles)
        rest = len(waiting) - len(shown)
        more = f"\nand {rest} more: --full shows all" if rest else ""
        title = display.line(f"{place}: {counted(len(waiting), 'pod')}", Style.BOLD)
        parts.append(f"{title}\n{text}{more}")
    plugins = {plugin.plugin: plugin for each in pods for plugin in each.plugins}
    if plugins:
        rows = [
            [name, ", ".join((*plugin.events, *plugin.objects)) or "the pod's own change"]
            for name, plugin in sorted(plugins.items())
        ]
        parts.append(display.table(("plugin", "is asked again after"), rows))
    return "\n\n".join(parts)


def first_of_queues(pods: Sequence[WaitingPod]) -> list[WaitingPod]:
    """The pods that ``queue_text`` shows without ``full``."""
    groups = groupby(pods, key=lambda each: each.place)
    return [each for _, group in groups for each in islice(group, _SHOWN_OF_QUEUE)]


def _queue_row(waiting: WaitingPod, now: int) -> list[object]:
    pod = waiting.pod_state.pod
    return [
        waiting.number,
        pod.full_name,
        pod.priority,
        "" if waiting.added is None else rough(now - waiting.added),
        "" if waiting.entered is None else rough(now - waiting.entered),
        _waits_for(waiting, now),
    ]


def _waits_for(waiting: WaitingPod, now: int) -> str:
    names = ", ".join(plugin.plugin for plugin in waiting.plugins)
    until = f"in {rough(waiting.until - now)}" if waiting.until > now else "due"
    if waiting.place == Queue.ACTIVE:
        return "its turn"
    if waiting.place == Queue.GATED:
        gates = ", ".join(waiting.pod_state.pod.gates)
        return f"{names} ({gates})" if gates else names
    if waiting.place == Queue.UNSCHEDULABLE:
        return f"{names or 'any change'}; tried again {until}"
    return f"{names}; until {until}" if names else f"the end of its backoff, {until}"


def estimate_text(guess: WaitEstimate | None) -> str:
    """An estimate in a few words: ``1m10s (20s to 4m00s, of 57 waits)``."""
    if guess is None:
        return ""
    if guess.low is None:
        fewer = f"fewer than {FEWEST} like waits"
        return f"no estimate: {fewer if guess.cases < FEWEST else 'too few waits ended'}"
    if guess.median is None:
        return f"{rough(guess.low)} or more (of {guess.cases} waits)"
    upper = "or more" if guess.high is None else f"to {rough(guess.high)}"
    return f"{rough(guess.median)} ({rough(guess.low)} {upper}, of {guess.cases} waits)"


def _estimate_json(guess: WaitEstimate | None) -> dict[str, Any] | None:
    if guess is None or guess.low is None:
        return None
    lengths = {"median": guess.median, "p10": guess.low, "p90": guess.high}
    return {
        "waits": guess.cases,
        **{
            f"{name}_seconds": None if length is None else length / 1e6
            for name, length in lengths.items()
        },
    }


def waiting_json(
    waiting: WaitingPod, now: int, guess: WaitEstimate | None = None
) -> dict[str, Any]:
    """A pod that waits, as JSON. Lengths of time are in seconds."""
    pod_state = waiting.pod_state
    return {
        "queue": waiting.place,
        "position": waiting.number,
        "namespace": pod_state.pod.namespace,
        "name": pod_state.pod.name,
        "uid": pod_state.pod.uid,
        "priority": pod_state.pod.priority,
        "attempts": pod_state.attempts,
        "age_seconds": _seconds_since(waiting.added, now),
        "waiting_seconds": _seconds_since(waiting.entered, now),
        "until": iso(waiting.until) if waiting.until else None,
        "gates": list(pod_state.pod.gates),
        "waits_for": [
            {
                "plugin": plugin.plugin,
                "events": list(plugin.events),
                "objects": list(plugin.objects),
            }
            for plugin in waiting.plugins
        ],
        "estimated_rest": _estimate_json(guess),
    }


def _seconds_since(at: int | None, now: int) -> float | None:
    return None if at is None else (now - at) / 1e6


def missed_text(missed: Sequence[MissedWakeUp], flushed: int, examined: int) -> str:
    """Missed wake-ups as a table, and how many pods were looked at."""
    note = f"; the newest {examined} were looked at" if examined < flushed else ""
    lines = [f"{counted(flushed, 'pod')} came to a node only after the flush{note}"]
    if not missed:
        return f"{lines[0]}; no plugin missed a change"
    rows = [
        [each.pod, ", ".join(each.plugins), each.change, each.text, rough(each.late)]
        for each in missed
    ]
    header = ("pod", "missed by", "position", "the change", "waited from then")
    return f"{lines[0]}\n\n{table(header, rows)}"


def missed_json(missed: MissedWakeUp) -> dict[str, Any]:
    """A missed wake-up as JSON. Positions are called seq."""
    return {
        "pod": missed.pod,
        "uid": missed.uid,
        "failedPlugins": list(missed.plugins),
        "change": {"seq": missed.change, "kind": missed.kind, "text": missed.text},
        "late_seconds": missed.late / 1e6,
        "failed_seq": missed.flush.failed,
        "flushed_seq": missed.flush.flushed,
        "placed_seq": missed.flush.placed,
    }
