"""The first part of ``explain``: the pod's state, since when, the next step, and its history in
order."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise
from typing import Any, NamedTuple

from eventsched.domain.records import (
    PlacementCompared,
    PlacementMatch,
    PodAdded,
    PodQueued,
    PodUpdated,
    Queue,
)
from eventsched.domain.records.exclusions import bare_reason
from eventsched.history.explain.conclusions.headline import (
    BINDING,
    BOUND,
    GONE,
    WAITING,
    Headline,
    headline,
    victims_text,
)
from eventsched.history.explain.conclusions.node_opening import closed_text
from eventsched.history.explain.conclusions.reason_codes import differences, neighbours
from eventsched.history.explain.explanation import ExplainedAttempt, Explanation, Gap, Step
from eventsched.history.explain.repeated_attempts import RepeatedAttempts, merge_repeated
from eventsched.output.terminal.colours import Style
from eventsched.output.terminal.tables import counted
from eventsched.output.time_format import iso, moment, with_distance

_CHANGES_SHOWN = 3
_TIMES = ("since", "waiting_since", "until")


def headline_text(explained: Explanation, now: int) -> list[str]:
    """One or two sentences, a line each; ``now`` in µs."""
    answer = headline(explained)
    text = _shadow_text(explained, answer, now) if explained.is_shadow else ""
    text = text or _state_text(answer, now) + _made_room(explained, answer)
    lines = [f"{explained.pod.full_name} {text}"]
    if answer.next_step:
        lines.append(f"Next step: {answer.next_step}.")
    return lines


def headline_style(explained: Explanation) -> Style:
    """The style of the pod's state."""
    state = headline(explained).state
    return {BOUND: Style.GREEN, GONE: Style.DIM}.get(state, Style.YELLOW)


def headline_json(explained: Explanation) -> dict[str, Any]:
    """The same as an object; docs/sql.md has its fields."""
    answer = headline(explained)
    times = {name: getattr(answer, name) for name in _TIMES}
    return {
        **{name: value or None for name, value in asdict(answer).items() if name not in _TIMES},
        "state": answer.state,
        "attempts": answer.attempts,
        "nodes": answer.nodes,
        "with_reason": answer.with_reason,
        "of": answer.of,
        "deleting": answer.deleting,
        "waits_for": list(answer.waits_for),
        **{name: None if at is None else iso(at) for name, at in times.items()},
    }


def _made_room(explained: Explanation, answer: Headline) -> str:
    """Which pods had to leave the node of a pod that has one, or another node, which it did not
    use; "" if none did."""
    if answer.state not in (BOUND, BINDING, WAITING):
        return ""
    unused = explained.unused_room
    if unused is not None and unused.landed == answer.node:
        left = victims_text(unused.victims)
        return f"; {left} had to leave {unused.node} for it, but it did not use that node"
    room = explained.preemption
    if room is None or room.landed != answer.node:
        return ""
    return f"; {victims_text(room.victims)} had to leave it for this pod"


def _leaving(answer: Headline) -> str:
    """Whether the pod is being deleted, and for whom it has to leave."""
    if answer.evicted_by:
        return f"; {answer.evicted_by} evicts it{', and it is being deleted' * answer.deleting}"
    return "; it is being deleted" if answer.deleting else ""


def _state_text(answer: Headline, now: int) -> str:
    since = with_distance(answer.since, now)
    deleting = _leaving(answer)
    match answer.state:
        case "bound":
            return f"has been on {answer.node} since {since}{deleting}"
        case "gone":
            last_node = f"; it was on {answer.node}" if answer.node else ""
            evicted = f"; {answer.evicted_by} evicted it" if answer.evicted_by else ""
            return f"has been gone since {since}{last_node}{evicted}"
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


def _shadow_text(explained: Explanation, answer: Headline, now: int) -> str:
    """The text in a shadow's log, which binds nothing: what the other scheduler did, and what was
    decided here; "" if it is that of any log."""
    since = with_distance(answer.since, now)
    deleting = "; it is being deleted" if answer.deleting else ""
    was_placed = any(
        isinstance(step.record, PodAdded | PodUpdated) and step.record.pod.node_name
        for step in explained.steps
    )
    match answer.state:
        case "binding":
            where = f"{answer.scheduler} has not placed it yet{deleting}"
            return f"would be on {answer.node} since {since} if this shadow bound it; {where}"
        case "bound":
            return f"has been on {answer.node} since {since}{_compared(explained)}{deleting}"
        case "gone" if not was_placed:
            chosen = f"; this shadow had chosen {answer.node}" if answer.node else ""
            return f"has been gone since {since}; {answer.scheduler} had not placed it{chosen}"
        case "gone":
            return f"{_state_text(answer, now)}{_compared(explained)}"
    return ""


def _compared(explained: Explanation) -> str:
    """What was decided here about a pod that the other scheduler has placed; "" if nothing was."""
    for step in reversed(explained.steps):
        if isinstance(step.record, PlacementCompared):
            match step.record.outcome:
                case PlacementMatch.SAME:
                    return ", as this shadow chose"
                case PlacementMatch.DIFFERENT:
                    return f"; this shadow had chosen {step.record.chosen}"
                case PlacementMatch.ONLY_THERE:
                    return "; this shadow had found no node"
                case _:
                    return "; this shadow had not decided yet"
    return ""


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
        text = f"{plugin} refuses {answer.nodes} of {counted(answer.of, 'node')}"
        part = answer.with_reason < answer.nodes
        of_them = f", {answer.with_reason} of them for" if part else ""
        why = f"{text}{of_them}: {bare_reason(answer.reason)}"
        if answer.closed_by:
            return f"{why} (even without other pods); {closed_text(answer.closed_by)}"
        return why
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


class StoryLine(NamedTuple):
    """A line of the history: when (µs), the position of its record, and what happened."""

    at: int
    position: int
    text: str


def story_lines(
    explained: Explanation, *, full: bool = False, between: tuple[int, int] | None = None
) -> list[StoryLine]:
    """The pod's history in order, from the first to the last of two positions if ``between`` has
    them; repeated attempts are one line unless ``full``."""
    kept = [
        step
        for step in explained.steps
        if between is None or between[0] <= step.position <= between[1]
    ]
    changes = {
        after.position: change_text(before, after)
        for before, after in neighbours(explained)
        if before is not None
    }
    lines: list[StoryLine] = []
    for gap, steps in _parts(kept, explained.gaps):
        if gap is not None and steps:
            text = f"left out before this: {counted(gap.left_out, 'record')}; "
            text += "`eventsched explain --full` shows them"
            lines.append(StoryLine(steps[0].at, gap.position, text))
        lines += [_line(step, changes) for step in (steps if full else merge_repeated(steps))]
    return lines


def _parts(
    steps: Sequence[Step], gaps: Sequence[Gap]
) -> Iterator[tuple[Gap | None, Sequence[Step]]]:
    """The steps up to each gap and after the last one, with the gap before each part."""
    begin = 0
    for gap, following in pairwise((None, *gaps, None)):
        end = len(steps)
        if following is not None:
            end = bisect_left(steps, following.position, key=lambda step: step.position)
        yield gap, steps[begin:end]
        begin = end


def _line(step: Step | RepeatedAttempts, changes: dict[int, str]) -> StoryLine:
    if not isinstance(step, RepeatedAttempts):
        texts = step_text(step), changes.get(step.position, "")
        return StoryLine(step.at, step.position, "; ".join(filter(None, texts)))
    woken = ", ".join(f"{cause} x{count}" if count > 1 else cause for cause, count in step.woken)
    numbers = f"attempts {step.first} to {step.last}" if step.count > 1 else f"{step.first}"
    text = f"{numbers}: the same, since {moment(step.begin)}; brought back by {woken}"
    return StoryLine(step.end, step.position, text)


def step_text(step: Step) -> str:
    """What a step says, with what woke the pod and until when it has to wait."""
    record, origin = step.record, step.origin
    if not isinstance(record, PodQueued):
        return step.text
    if origin is None:
        text = step.text
    else:
        plugin = f" ({record.plugin})" if record.plugin else ""
        text = f"queue {record.queue.value}: woken by {record.cause}{plugin}: {origin.text}"
        text += f" (position {origin.position})"
    if record.until > step.at and record.queue in (Queue.BACKOFF, Queue.UNSCHEDULABLE):
        text += f"; backoff until {moment(record.until)}"
    return text
