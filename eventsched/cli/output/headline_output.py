"""The answer that ``explain`` begins with: where the pod stands, since when, what would help."""

from dataclasses import asdict
from typing import Any

from eventsched.cli.output.tables import counted
from eventsched.cli.output.time_format import iso, with_distance
from eventsched.history.explain.explanation import Explanation
from eventsched.history.explain.headline import BOUND, GONE, Headline, headline

_TIMES = ("since", "waiting_since", "until")


def headline_text(explained: Explanation, now: int) -> list[str]:
    """One or two sentences, a line each; ``now`` in µs."""
    found = headline(explained)
    lines = [f"{explained.pod.full_name} {_stands(found, now)}"]
    if found.helps and found.state not in (BOUND, GONE):
        lines.append(f"What would help: {found.helps}.")
    return lines


def headline_json(explained: Explanation) -> dict[str, Any]:
    """The same as an object; docs/sql.md has its fields."""
    found = headline(explained)
    times = {name: getattr(found, name) for name in _TIMES}
    return {
        **{name: value or None for name, value in asdict(found).items() if name not in _TIMES},
        "state": found.state,
        "attempts": found.attempts,
        "nodes": found.nodes,
        "of": found.of,
        "deleting": found.deleting,
        "waits_for": list(found.waits_for),
        **{name: None if at is None else iso(at) for name, at in times.items()},
    }


def _stands(found: Headline, now: int) -> str:
    since = with_distance(found.since, now)
    deleting = "; it is being deleted" if found.deleting else ""
    match found.state:
        case "bound":
            return f"is on {found.node} since {since}{deleting}"
        case "gone":
            was = f"; it was on {found.node}" if found.node else ""
            return f"is gone since {since}{was}"
        case "binding":
            return f"is being bound to {found.node} since {since}{deleting}"
        case "waiting":
            who = " and ".join(found.waits_for) or "its plugins"
            until = "" if found.until is None else f", until {with_distance(found.until, now)}"
            return f"has {found.node} and waits for {who} since {since}{until} at most{deleting}"
        case "unqueued":
            return f"{_unqueued(found)} since {since}{deleting}"
        case "gated":
            by = f" ({found.plugin})" if found.plugin else ""
            return f"is held at the gate since {since}: {found.reason}{by}{deleting}"
    return _waits(found, now) + deleting


def _unqueued(found: Headline) -> str:
    if found.attempts:
        return "has left the queue and is not scheduled any more"
    return f"is not scheduled by this scheduler (its schedulerName is {found.scheduler})"


def _waits(found: Headline, now: int) -> str:
    """Of a pod in a queue, where attempts were made or are to come."""
    begun = found.since if found.waiting_since is None else found.waiting_since
    text = f"waits for a node since {with_distance(begun, now)}"
    if not found.attempts:
        return f"{text}; it has not been tried yet"
    text += f", {counted(found.attempts, 'attempt')}: {_why(found)}"
    if found.until is not None:
        ends = with_distance(found.until, now)
        is_over = found.state == "backoff"
        when = "when its backoff ends," if is_over else "after a change, at the latest"
        text += f"; it is tried again {when} {ends}"
    return text


def _why(found: Headline) -> str:
    who = found.plugin or "nobody"
    if found.of:
        named = who if found.plugin else "PreFilter"
        return f"{named} refuses {found.nodes} of {counted(found.of, 'node')}: {found.reason}"
    failed = "failed" if found.outcome == "error" else "refused it"
    return f"{who} {failed}: {found.reason}" if found.plugin else found.reason
