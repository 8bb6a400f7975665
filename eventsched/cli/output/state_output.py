"""Prints states, their queues and their differences."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, islice
from typing import Any

from eventsched.cli.output.tables import counted, size, table
from eventsched.cli.output.time_format import iso, moment, rough, zone
from eventsched.domain.objects import CPU, EPHEMERAL_STORAGE, MEMORY
from eventsched.domain.records import Queue
from eventsched.history.past_state.anomalies import (
    KINDS,
    NEXT_STEPS,
    RULES,
    Anomaly,
    StoredAnomalies,
)
from eventsched.history.past_state.missed_wake_ups import MissedWakeUp
from eventsched.history.past_state.state_differences import FieldChange, ObjectDifference
from eventsched.history.past_state.state_document import Document
from eventsched.history.past_state.wait_estimates import FEWEST, WaitEstimate
from eventsched.history.past_state.waiting_pods import WaitingPod

_BYTES = (MEMORY, EPHEMERAL_STORAGE)
_SHOWN = 50
"""Rows of a table at most, without --full."""
_SHOWN_OF_QUEUE = 20
"""Pods of one queue at most, without --full."""


def amount_text(resource: str, amount: int) -> str:
    """An amount as people write it: ``2500m``, ``12.0 GiB``, ``3``."""
    if resource == CPU:
        return f"{amount}m"
    return size(amount) if resource in _BYTES else str(amount)


def place_text(document: Document, stream: str) -> str:
    """The position and the time of a state."""
    now = document["now"]
    at = f"{moment(now)} {zone(now)}".rstrip()
    return f"stream {stream} before position {document['position']}, {at}"


def state_text(document: Document, stream: str) -> str:
    """The numbers of a state."""
    counts = ", ".join(f"{number} {name}" for name, number in document["pods_by_state"].items())
    pods = counted(document["pods"], "pod")
    lines = [
        place_text(document, stream),
        f"{counted(document['nodes'], 'node')}; {pods}{f': {counts}' if counts else ''}",
    ]
    rows = [
        [
            name,
            amount_text(name, amounts["allocatable"]),
            amount_text(name, amounts["requested"]),
            f"{amounts['requested'] / amounts['allocatable']:.0%}"
            if amounts["allocatable"]
            else "",
        ]
        for name, amounts in document["resources"].items()
        if amounts["allocatable"]
    ]
    if rows:
        lines += ["", table(("resource", "allocatable", "requested", ""), rows)]
    if document["objects"]:
        lines += ["", ", ".join(f"{number} {kind}" for kind, number in document["objects"].items())]
    return "\n".join(lines)


def node_text(node: Document, pods: Sequence[Document], now: int) -> str:
    """A node with its pods."""
    cordoned = ", unschedulable" if node["unschedulable"] else ""
    taints = f"; taints {', '.join(node['taints'])}" if node["taints"] else ""
    rows = [
        [name, amount_text(name, amount), amount_text(name, node["requested"].get(name, 0))]
        for name, amount in node["allocatable"].items()
    ]
    lines = [f"node {node['name']}{cordoned}{taints}", ""]
    lines += [table(("resource", "allocatable", "requested"), rows), ""]
    lines.append(pods_text(pods, now) if pods else "no pod is on it")
    if node["nominated"]:
        lines.append(f"nominated to it: {', '.join(node['nominated'])}")
    return "\n".join(lines)


def pods_text(pods: Sequence[Document], now: int, *, full: bool = True) -> str:
    """A table of pods."""
    shown = pods if full else pods[:_SHOWN]
    rows = [
        [
            f"{pod['namespace']}/{pod['name']}", pod["state"], pod["node"], pod["priority"],
            pod["attempts"], rough(now - pod["since"]) if "since" in pod else "",
            ", ".join(pod["rejected_by"] if "rejected_by" in pod else pod.get("waits_for", ())),
        ]
        for pod in shown
    ]  # fmt: skip
    header = ("pod", "state", "node", "priority", "attempts", "for", "held by")
    text = table(header, rows)
    if len(shown) < len(pods):
        text += f"\nand {len(pods) - len(shown)} more: --full shows all"
    return text


def pod_text(pod: Document) -> str:
    """All that a state knows about a pod."""
    rows = [
        [name, _value_text(name, value)]
        for name, value in pod.items()
        if name == "since" or value not in ("", [], {}, False)
    ]
    return table((), rows, ("", ""))


def _value_text(name: str, value: Any) -> str:
    if name in ("since", "backoff_until"):
        return f"{moment(value)} {zone(value)}".rstrip()
    if isinstance(value, dict):  # deadlines by plugin
        return ", ".join(f"{key} until {moment(at)}" for key, at in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def with_times(document: Any) -> Any:
    """The document with its times as ISO 8601, for programs."""
    if isinstance(document, list):
        return [with_times(item) for item in document]
    if not isinstance(document, dict):
        return document
    changed: Document = {}
    for name, value in document.items():
        if name in ("now", "since"):
            changed[name] = iso(value)
        elif name == "backoff_until":
            changed[name] = iso(value) if value else None
        elif name == "waits_for":
            changed[name] = {plugin: iso(deadline) for plugin, deadline in value.items()}
        else:
            changed[name] = with_times(value)
    return changed


# --- queues ----------------------------------------------------------------------------------


def queue_text(
    pods: Sequence[WaitingPod],
    now: int,
    guesses: Mapping[str, WaitEstimate],
    *,
    full: bool = False,
    wide: bool = False,
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
        text = table(header, rows)
        rest = len(waiting) - len(shown)
        more = f"\nand {rest} more: --full shows all" if rest else ""
        parts.append(f"{place}: {counted(len(waiting), 'pod')}\n{text}{more}")
    plugins = {plugin.plugin: plugin for each in pods for plugin in each.plugins}
    if plugins:
        rows = [
            [name, ", ".join((*plugin.events, *plugin.objects)) or "the pod's own change"]
            for name, plugin in sorted(plugins.items())
        ]
        parts.append(table(("plugin", "is asked again after"), rows))
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


def anomalies_text(anomalies: StoredAnomalies, now: int, limit: int) -> str:
    """Anomalies as a table, at most ``limit`` of each kind, when each counts as one, and what to do
    about it."""
    if not anomalies.found:
        return "no anomalies"
    by_kind = _by_kind(anomalies.found)
    shown = [each for found in by_kind.values() for each in found[:limit]]
    rows = [[each.kind, each.subject, rough(max(0, now - each.since)), each.text] for each in shown]
    number = counted(sum(anomalies.totals.values()), "finding")
    cut = [f"{kind} (of {each:,})" for kind, each in anomalies.totals.items() if each > limit]
    if cut:
        number += f"; of these kinds only the first {limit}: {', '.join(cut)}"
    rules = "\n".join(
        f"{kind}: {RULES[kind]}\n  next step: {NEXT_STEPS[kind]}"
        for kind, each in by_kind.items()
        if each
    )
    return f"{number}\n\n{table(('anomaly', 'of', 'since', 'what'), rows)}\n\n{rules}"


def anomalies_json(stream: str, anomalies: StoredAnomalies, limit: int) -> dict[str, Any]:
    """Anomalies as JSON, at most ``limit`` of each kind, with the number of each kind, its rule and
    what to do about it."""
    shown = _by_kind(anomalies.found)
    return {
        "stream": stream,
        "kinds": [
            {
                "kind": kind, "count": min(limit, len(found)), "total": anomalies.totals[kind],
                "more": anomalies.totals[kind] > limit, "rule": RULES[kind],
                "next_step": NEXT_STEPS[kind],
            }
            for kind, found in shown.items()
            if kind in anomalies.totals
        ],
        "anomalies": [anomaly_json(each) for found in shown.values() for each in found[:limit]],
    }  # fmt: skip


def _by_kind(anomalies: Sequence[Anomaly]) -> dict[str, list[Anomaly]]:
    return {kind: [each for each in anomalies if each.kind == kind] for kind in KINDS}


def anomaly_json(anomaly: Anomaly) -> dict[str, Any]:
    """An anomaly as JSON."""
    return {
        "kind": anomaly.kind,
        "namespace": anomaly.namespace,
        "pod": anomaly.pod,
        "uid": anomaly.uid,
        "since": iso(anomaly.since),
        "seq": anomaly.seq,
        "text": anomaly.text,
        "facts": dict(anomaly.facts),
    }


# --- differences --------------------------------------------------------------------------


def difference_lines(differences: Iterable[ObjectDifference]) -> Iterable[str]:
    """A line for each difference, and one for each changed field."""
    signs = {"added": "+", "removed": "-", "changed": "~"}
    for difference in differences:
        place = f"  {difference.place}" if difference.place else ""
        moves = [change for change in difference.fields if change.field == "place"]
        for change in moves:
            place = f"  {change.before} -> {change.after}"
        yield f"{signs[difference.change]} {difference.kind} {difference.name}{place}"
        for change in difference.fields:
            if change not in moves:
                yield f"    {change.field}: {_shown(change.before)} -> {_shown(change.after)}"


def _shown(value: Any) -> str:
    text = str(value) if value not in ("", None) else "none"
    return text if len(text) <= 100 else f"{text[:97]}..."


def difference_json(difference: ObjectDifference) -> Document:
    """A difference as JSON."""
    return {
        "kind": difference.kind,
        "name": difference.name,
        "change": difference.change,
        **({"place": difference.place} if difference.place else {}),
        "fields": [_field_json(change) for change in difference.fields],
    }


def _field_json(change: FieldChange) -> Document:
    return {"field": change.field, "before": change.before, "after": change.after}
