"""The first lines of ``explain``: the pod's state, since when, and the next step. Also what
changed between two attempts."""

from dataclasses import asdict
from typing import Any

from eventsched.cli.output.tables import counted
from eventsched.cli.output.time_format import iso, with_distance
from eventsched.history.explain.explanation import ExplainedAttempt, Explanation
from eventsched.history.explain.headline import Headline, headline
from eventsched.history.reason_codes import differences

_CHANGES_SHOWN = 3
_TIMES = ("since", "waiting_since", "until")


def headline_text(explained: Explanation, now: int) -> list[str]:
    """One or two sentences, a line each; ``now`` in µs."""
    answer = headline(explained)
    lines = [f"{explained.pod.full_name} {_state_text(answer, now)}"]
    if answer.next_step:
        lines.append(f"Next step: {answer.next_step}.")
    return lines


def headline_json(explained: Explanation) -> dict[str, Any]:
    """The same as an object; docs/sql.md has its fields."""
    answer = headline(explained)
    times = {name: getattr(answer, name) for name in _TIMES}
    return {
        **{name: value or None for name, value in asdict(answer).items() if name not in _TIMES},
        "state": answer.state,
        "attempts": answer.attempts,
        "nodes": answer.nodes,
        "of": answer.of,
        "deleting": answer.deleting,
        "waits_for": list(answer.waits_for),
        **{name: None if at is None else iso(at) for name, at in times.items()},
    }


def _state_text(answer: Headline, now: int) -> str:
    since = with_distance(answer.since, now)
    deleting = "; it is being deleted" if answer.deleting else ""
    match answer.state:
        case "bound":
            return f"has been on {answer.node} since {since}{deleting}"
        case "gone":
            last_node = f"; it was on {answer.node}" if answer.node else ""
            return f"has been gone since {since}{last_node}"
        case "binding":
            return f"has been binding to {answer.node} since {since}{deleting}"
        case "waiting":
            plugins = " and ".join(answer.waits_for) or "its plugins"
            until = (
                ""
                if answer.until is None
                else f", at most until {with_distance(answer.until, now)}"
            )
            text = f"has reserved {answer.node} and has been waiting for {plugins} since {since}"
            return f"{text}{until}{deleting}"
        case "unqueued":
            return f"{_unqueued(answer, since)}{deleting}"
        case "gated":
            plugin = f" ({answer.plugin})" if answer.plugin else ""
            return f"has been gated since {since}: {answer.reason}{plugin}{deleting}"
    return _waits(answer, now) + deleting


def _unqueued(answer: Headline, since: str) -> str:
    if answer.attempts:
        return f"has been out of the queue since {since} and is no longer scheduled"
    return f"has belonged to another scheduler ({answer.scheduler}) since {since}"


def _waits(answer: Headline, now: int) -> str:
    """The text for a pod that is in a queue."""
    start = answer.since if answer.waiting_since is None else answer.waiting_since
    text = f"has been waiting for a node since {with_distance(start, now)}"
    if not answer.attempts:
        return f"{text}; it has not been tried yet"
    text += f", {counted(answer.attempts, 'attempt')}: {_why(answer)}"
    if answer.until is not None:
        ends = with_distance(answer.until, now)
        is_backoff = answer.state == "backoff"
        when = "when its backoff ends," if is_backoff else "after a change, at the latest"
        text += f"; it is tried again {when} {ends}"
    return text


def _why(answer: Headline) -> str:
    if answer.of:
        plugin = answer.plugin or "PreFilter"
        return f"{plugin} refuses {answer.nodes} of {counted(answer.of, 'node')}: {answer.reason}"
    failed = "failed" if answer.outcome == "error" else "refused it"
    return f"{answer.plugin} {failed}: {answer.reason}" if answer.plugin else answer.reason


def change_text(before: ExplainedAttempt, after: ExplainedAttempt) -> str:
    """What differs in the refusals between two attempts, the largest differences first; "" if
    nothing does."""
    found = differences(before, after)
    texts = []
    for change in found[:_CHANGES_SHOWN]:
        plugin = change.plugin or "PreFilter"
        nodes = f"{counted(change.after, 'node')} instead of {change.before}"
        reasons = "; ".join(change.reasons)
        why = "" if reasons == after.decided.message else f" ({reasons})"
        texts.append(f"{plugin} refuses {nodes}{why}")
    if more := len(found) - len(texts):
        texts.append(f"and {counted(more, 'more difference')}")
    return f"since attempt {before.decided.attempt}: {', '.join(texts)}" if texts else ""
