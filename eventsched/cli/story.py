"""A pod's story for people."""

from eventsched.cli.tables import duration, table
from eventsched.domain.records import Outcome
from eventsched.runtime.story import Attempt, Story


def story_text(story: Story) -> str:
    """Moves, attempts, and for the last attempt why that node and not the others."""
    lines = [f"{story.name}:"]
    events = [(at, 0, f"queue {move.queue.value}: {_cause(move)}") for at, move in story.moves]
    events += [(each.at, 1, _attempt_line(each)) for each in story.attempts]
    lines += [f"  {duration(at):>10}  {text}" for at, _, text in sorted(events, key=lambda e: e[0])]
    if story.bound_at is not None:
        lines.append(f"  {duration(story.bound_at):>10}  bound")
    if story.attempts:
        lines += ["", *_why(story.attempts[-1])]
    return "\n".join(lines)


def _cause(move: object) -> str:
    cause, plugin = getattr(move, "cause", ""), getattr(move, "plugin", "")
    refused = ", ".join(getattr(move, "rejectors", ()))
    text = f"{cause} ({plugin})" if plugin else cause
    return f"{text}, refused by {refused}" if refused and cause == "AttemptFailed" else text


def _attempt_line(attempt: Attempt) -> str:
    decided = attempt.decided
    if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
        told = f"attempt {decided.attempt}: {decided.node} with {decided.score}"
        return f"{told}, {decided.feasible} of {decided.evaluated} nodes feasible"
    return f"attempt {decided.attempt}: {decided.outcome.value}: {decided.message}"


def _why(attempt: Attempt) -> list[str]:
    decided, lines = attempt.decided, []
    if attempt.compared:
        columns = [f"{each.plugin} x{each.weight}" for each in decided.scores]
        rows = [
            (each.node, each.total, *(f"{norm} (raw {raw})" for raw, norm, _ in each.parts))
            for each in attempt.compared
        ]
        lines.append(f"Why {decided.node} (against the next best; normalised scores x weight):")
        lines.append(table(("node", "total", *columns), rows))
        if decided.ties > 1:
            lines.append(
                f"{decided.ties} nodes had {decided.score}; draw {decided.draw} chose number "
                f"{decided.draw % decided.ties} of them, counting from 0"
            )
    if attempt.refusals:
        lines += ["", "Why not the others:"]
        lines.append(
            table(
                ("nodes", "plugin", "code", "reasons"),
                [(n, v.plugin, v.code, "; ".join(v.reasons)) for v, n in attempt.refusals],
            )
        )
    return lines
