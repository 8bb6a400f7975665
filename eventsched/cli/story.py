"""A pod's story for people."""

from eventsched.cli.tables import duration, table
from eventsched.domain.records import Outcome, PodQueued
from eventsched.runtime.story import Attempt, Refusal, Story


def story_text(story: Story) -> str:
    """Moves and attempts in order, and for the last attempt why that node and not the others."""
    lines = [f"{story.name}:"]
    for at, step in story.steps:
        if isinstance(step, PodQueued):
            text = f"queue {step.queue.value}: {_cause(step)}"
        elif isinstance(step, Attempt):
            text = _attempt_line(step)
        else:
            text = f"bound to {step.node}"
        lines.append(f"  {duration(at):>10}  {text}")
    last = story.last_attempt
    if last is not None:
        lines += _why_there(last) + _why_not(last)
    return "\n".join(lines)


def _cause(move: PodQueued) -> str:
    text = f"{move.cause} ({move.plugin})" if move.plugin else move.cause
    if move.cause == "AttemptFailed" and move.rejectors:
        text += f", refused by {', '.join(move.rejectors)}"
    return f"{text}: {move.message}" if move.message else text


def _attempt_line(attempt: Attempt) -> str:
    decided = attempt.decided
    if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
        told = f"attempt {decided.attempt}: {decided.node} with {decided.score}"
        return f"{told}, {decided.feasible} of {decided.evaluated} nodes feasible"
    return f"attempt {decided.attempt}: {decided.outcome.value}: {decided.message}"


def _why_there(attempt: Attempt) -> list[str]:
    decided = attempt.decided
    if not attempt.compared:
        return []
    weights = [each.weight for each in decided.scores]
    rows = [
        (
            each.node,
            each.total,
            *(
                f"{weighted} = {weight} x {norm}" + (f" (raw {raw})" if raw != norm else "")
                for weight, (raw, norm, weighted) in zip(weights, each.parts, strict=True)
            ),
        )
        for each in attempt.compared
    ]
    lines = ["", f"Why {decided.node}, and the next best (weight x normalised score):"]
    lines.append(table(("node", "total"), rows, [each.plugin for each in decided.scores]))
    if decided.ties > 1:
        lines.append(
            f"{decided.ties} nodes had {decided.score}; the draw {decided.draw} (seed, pod, "
            f"attempt) chose number {decided.draw % decided.ties} of them, counting from 0"
        )
    return lines


def _why_not(attempt: Attempt) -> list[str]:
    if not attempt.refusals:
        return []
    rows = [
        (
            each.nodes,
            each.verdict.plugin or "PreFilter",
            each.verdict.code,
            "; ".join(each.verdict.reasons),
            _named(each),
        )
        for each in attempt.refusals
    ]
    header = ("nodes", "plugin", "code", "reasons", "such as")
    return ["", "Why not the others:", table(header, rows)]


def _named(refusal: Refusal) -> str:
    more = refusal.nodes - len(refusal.names)
    return ", ".join(refusal.names) + (f" and {more} more" if more else "")
