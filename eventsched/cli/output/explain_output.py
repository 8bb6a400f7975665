"""An explanation for people, and for programs."""

from typing import Any

from eventsched.cli.output.headline_output import headline_json, headline_text
from eventsched.cli.output.tables import filled, table
from eventsched.cli.output.time_format import iso, moment, zone
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue
from eventsched.history.explain.explanation import (
    ExplainedAttempt,
    Explanation,
    NodeAnswer,
    NodeRefusals,
    NodeScore,
    Step,
)
from eventsched.history.explain.folding import FoldedRounds, fold_rounds
from eventsched.history.explain.preemption_explanation import PreemptionExplanation
from eventsched.history.explain.record_text import CRITERIA
from eventsched.history.explain.sample_ages import SampleAge
from eventsched.history.explain.waits import PluginWait, waits_of_attempt


def story_text(explained: Explanation, now: int = 0, width: int = 0, *, full: bool = False) -> str:
    """Where the pod stands, what happened in order, and for the attempt that was asked for why that
    node and not the others. ``now`` is the time of day (µs), for distances; lines are wrapped to
    ``width`` (0: not at all); repetition is folded unless ``full`` is asked for."""
    pod = explained.pod
    lines = [filled(each, width) for each in headline_text(explained, now)]
    lines += ["", f"uid {pod.uid}, stream {explained.stream}"]
    if explained.older:
        places = ", ".join(f"{each.uid} (position {each.position})" for each in explained.older)
        lines.append(f"the newest of {len(explained.older) + 1} of that name; before: {places}")
    steps = explained.steps if full else fold_rounds(explained.steps)
    rows = [_row(step) for step in steps]
    header = (f"time {zone(explained.steps[-1].at)}".rstrip(), "position", "what")
    lines += ["", table(header, rows, width=width)]
    attempt, displaced = explained.explained, explained.preemption
    told = []
    if attempt is not None:
        told = _why_there(attempt) + _waits(explained, attempt) + _why_not(attempt, width)
    left = [] if displaced is None else _who_had_to_go(displaced)
    first = displaced is not None and attempt is not None and displaced.position < attempt.position
    return "\n".join(lines + (left + told if first else told + left))


def _row(step: Step | FoldedRounds) -> tuple[str, int, str]:
    if not isinstance(step, FoldedRounds):
        return moment(step.at), step.position, _step(step)
    woken = ", ".join(f"{cause} x{count}" if count > 1 else cause for cause, count in step.woken)
    numbers = f"attempts {step.first} to {step.last}" if step.rounds > 1 else f"{step.first}"
    text = f"{numbers}: the same, since {moment(step.begin)}; brought back by {woken}"
    return moment(step.end), step.position, text


def _step(step: Step) -> str:
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


def _why_there(attempt: ExplainedAttempt) -> list[str]:
    decided = attempt.decided
    if not attempt.compared:
        return []
    after = "" if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING) else ", which then failed"
    lines = ["", f"Why {decided.node} at attempt {decided.attempt}{after}, and the next best:"]
    lines.append(_scores(attempt.compared))
    if decided.ties > 1:
        lines.append(
            f"{decided.ties} nodes had {decided.score}; the draw {decided.draw} (seed, pod, "
            f"attempt) chose number {decided.draw % decided.ties} of them, counting from 0"
        )
    for each in attempt.samples:
        number = f"{each.nodes} {'node' if each.nodes == 1 else 'nodes'}"
        lines.append(
            f"{each.source} had samples of {number}, {each.age:.1f}s old (position {each.position})"
        )
    return lines


def _waits(explained: Explanation, attempt: ExplainedAttempt) -> list[str]:
    found = waits_of_attempt(explained.steps, attempt.position)
    if not found:
        return []
    rows = [(each.plugin, each.point, ", ".join(each.writes), _lasted(each)) for each in found]
    number = attempt.decided.attempt
    header = ("plugin", "at", "what was asked of the cluster", "how long")
    return ["", f"What its bind waited for at attempt {number}:", table(header, rows)]


def _lasted(wait: PluginWait) -> str:
    if wait.seconds is None:
        return f"since {moment(wait.since)}, until {moment(wait.due)} at most"
    given_up = ", then given up" if wait.ended_by in ("PodUnreserved", "PodDeleted") else ""
    return f"{wait.seconds:.3f}s{given_up}"


def _who_had_to_go(found: PreemptionExplanation) -> list[str]:
    decided = found.decided
    lines = ["", f"Who has to leave {decided.node} for it:"]
    fates = zip(found.victims, found.outcomes, strict=True)
    lines.append(table(("pod", "what became of it"), fates))
    if not found.landed:
        lines.append("it was placed nowhere since")
    else:
        there = "there" if found.landed == decided.node else f"on {found.landed} instead"
        lines.append(f"it was placed {there} (position {found.landed_at})")
    if found.compared:
        others = f" of {decided.candidates} candidates" if decided.candidates > 1 else ""
        why = CRITERIA.get(decided.criterion, decided.criterion)
        lines += ["", f"Why {decided.node}{others}: {why}"]
        header = ("node", "budgets broken", "highest priority", "sum", "victims", "started")
        rows = [
            (
                each.node, each.violations, each.highest, each.total, ", ".join(each.victims),
                moment(each.start) if each.start else "",
            )
            for each in found.compared
        ]  # fmt: skip
        lines.append(table(header, rows))
    return lines


def _scores(compared: tuple[NodeScore, ...]) -> str:
    """A row a plugin, a column a node: weight x normalised (raw)."""
    header = ["plugin", *(each.node for each in compared)]
    rows = []
    for parts in zip(*(each.parts for each in compared), strict=True):
        cells = [
            f"{part.weighted} = {part.weight} x {part.normalized}"
            + (f" (raw {part.raw})" if part.raw != part.normalized else "")
            for part in parts
        ]
        rows.append((parts[0].plugin, *cells))
    rows.append(("total", *(str(each.total) for each in compared)))
    rows.append(("rank", *(str(each.rank) for each in compared)))
    return table(header[:1], rows, header[1:])


def _why_not(attempt: ExplainedAttempt, width: int) -> list[str]:
    number = attempt.decided.attempt
    if attempt.node_answer is not None:
        return ["", *_answer(attempt.node_answer, attempt)]
    if not attempt.refusals:
        return []
    others = "the others" if attempt.compared else f"any node at attempt {number}"
    rows = [
        (each.nodes, _refuser(each) or "-", each.code, "; ".join(each.reasons), _named(each))
        for each in attempt.refusals
    ]
    header = ("nodes", "plugin", "code", "reasons", "such as")
    return ["", f"Why not {others}:", table(header, rows, width=width)]


def _answer(asked: NodeAnswer, attempt: ExplainedAttempt) -> list[str]:
    number = attempt.decided.attempt
    if asked.refusal is not None:
        refused = asked.refusal
        who = _refuser(refused)
        said = f"{refused.code}: {'; '.join(refused.reasons)}"
        return [f"{asked.node} at attempt {number}: {f'{who} said ' if who else ''}{said}"]
    score = asked.score
    assert score is not None
    feasible = attempt.decided.feasible
    text = f"{asked.node} at attempt {number}: feasible, rank {score.rank} of {feasible}"
    if asked.node == attempt.decided.node:
        return [f"{text}; it was chosen"]
    behind = f"{asked.behind} behind" if asked.behind else "as good as"
    if not attempt.compared:
        return [f"{text}; none was chosen", _scores((score,))]
    return [f"{text}, {behind} {attempt.decided.node}", _scores((attempt.compared[0], score))]


def _refuser(refusal: NodeRefusals) -> str:
    """Who refused: a plugin, PreFilter as a whole, or nobody ("") where the search had ended."""
    return refusal.plugin or ("PreFilter" if refusal.code == "Excluded" else "")


def _named(refusal: NodeRefusals) -> str:
    if not refusal.examples:
        return ""
    more = refusal.nodes - len(refusal.examples)
    return ", ".join(refusal.examples) + (f" and {more} more" if more else "")


def story_json(explained: Explanation) -> dict[str, Any]:
    """The object that ``explain -o json`` prints; docs/sql.md has its fields. Times are ISO 8601,
    what is not there is null or empty."""
    pod = explained.pod
    asked = explained.explained
    return {
        "stream": explained.stream,
        "uid": pod.uid,
        "namespace": pod.namespace,
        "name": pod.name,
        "seq": pod.position,
        "summary": headline_json(explained),
        "older": [{"uid": each.uid, "seq": each.position} for each in explained.older],
        "moves": [_move(step) for step in explained.moves],
        "attempts": [_attempt(each) for each in explained.attempts],
        "explained": None if asked is None else asked.decided.attempt,
        "waits": []
        if asked is None
        else [_wait(each) for each in waits_of_attempt(explained.steps, asked.position)],
        "preemption": None if explained.preemption is None else _displacement(explained.preemption),
        "events": [
            {
                "seq": step.position,
                "at": iso(step.at),
                "kind": type(step.record).__name__,
                "text": _step(step),
            }
            for step in explained.steps
            if not isinstance(step.record, PodQueued | PodDecided)
        ],
    }


def _move(step: Step) -> dict[str, Any]:
    move = step.record
    assert isinstance(move, PodQueued)
    origin = step.origin
    return {
        "seq": step.position,
        "at": iso(step.at),
        "queue": move.queue.value,
        "cause": move.cause,
        "plugin": move.plugin or None,
        "woken_by": None
        if origin is None
        else {"seq": origin.position, "kind": origin.kind, "text": origin.text},
        "rejectors": list(move.rejectors),
        "pending": list(move.pending),
        "until": iso(move.until) if move.until else None,
        "failures": move.failures,
        "errors": move.errors,
        "message": move.message or None,
    }


def _attempt(attempt: ExplainedAttempt) -> dict[str, Any]:
    decided = attempt.decided
    placed = decided.row >= 0
    return {
        "seq": attempt.position,
        "at": iso(attempt.at),
        "attempt": decided.attempt,
        "profile": decided.profile,
        "outcome": decided.outcome.value,
        "node": decided.node or None,
        "score": decided.score if placed else None,
        "runner_up": decided.runner_up or None,
        "runner_up_score": decided.runner_up_score if decided.runner_up else None,
        "feasible": decided.feasible,
        "evaluated": decided.evaluated,
        "ties": decided.ties,
        "draw": decided.draw,
        "plugin": decided.plugin or None,
        "message": decided.message or None,
        "waits_until": {plugin: iso(end) for plugin, end in decided.deadlines.items()},
        "refusals": [_refusal(each) for each in attempt.refusals],
        "scores": [_score(each) for each in attempt.compared],
        "samples": [_samples(each) for each in attempt.samples],
        "asked": None if attempt.node_answer is None else _asked(attempt.node_answer),
    }


def _wait(wait: PluginWait) -> dict[str, Any]:
    return {
        "plugin": wait.plugin,
        "point": wait.point,
        "writes": list(wait.writes),
        "since": iso(wait.since),
        "due": iso(wait.due),
        "ended": iso(wait.ended) if wait.ended is not None else None,
        "ended_by": wait.ended_by or None,
    }


def _refusal(refusal: NodeRefusals) -> dict[str, Any]:
    return {
        "plugin": refusal.plugin or None,
        "code": refusal.code,
        "reasons": list(refusal.reasons),
        "nodes": refusal.nodes,
        "examples": list(refusal.examples),
    }


def _score(score: NodeScore) -> dict[str, Any]:
    return {
        "node": score.node,
        "total": score.total,
        "rank": score.rank,
        "plugins": [vars(part) for part in score.parts],
    }


def _samples(held: SampleAge) -> dict[str, Any]:
    return {
        "source": held.source,
        "seq": held.position,
        "nodes": held.nodes,
        "age": held.age,
    }


def _displacement(found: PreemptionExplanation) -> dict[str, Any]:
    decided = found.decided
    return {
        "seq": found.position,
        "node": decided.node,
        "criterion": decided.criterion,
        "nodes": decided.nodes,
        "looked": decided.looked,
        "candidates": decided.candidates,
        "victims": [
            {"pod": pod, "outcome": outcome}
            for pod, outcome in zip(found.victims, found.outcomes, strict=True)
        ],
        "compared": [
            {**vars(each), "victims": list(each.victims),
             "start": iso(each.start) if each.start else None}
            for each in found.compared
        ],
        "landed": found.landed or None,
    }  # fmt: skip


def _asked(asked: NodeAnswer) -> dict[str, Any]:
    return {
        "node": asked.node,
        "refusal": None if asked.refusal is None else _refusal(asked.refusal),
        "score": None if asked.score is None else _score(asked.score),
        "behind": asked.behind,
    }
