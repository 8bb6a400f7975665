"""The text and the JSON of anomalies."""

from collections.abc import Sequence
from typing import Any

from eventsched.history.past_state.anomalies import (
    KINDS,
    NEXT_STEPS,
    RULES,
    Anomaly,
    StoredAnomalies,
)
from eventsched.output.queues.group_keys import key_of_refusal
from eventsched.output.terminal.tables import counted, table
from eventsched.output.time_format import iso, rough


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
    """An anomaly as JSON. ``group``: of the pods in /pods that are refused alike."""
    plugin, reason = anomaly.facts.get("plugin"), anomaly.facts.get("reason")
    return {
        "kind": anomaly.kind,
        "namespace": anomaly.namespace,
        "pod": anomaly.pod,
        "uid": anomaly.uid,
        "since": iso(anomaly.since),
        "seq": anomaly.seq,
        "text": anomaly.text,
        "facts": dict(anomaly.facts),
        "group": key_of_refusal(plugin, reason) if plugin else None,
    }
