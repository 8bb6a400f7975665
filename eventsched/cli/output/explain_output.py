"""The output of ``explain`` as text and as JSON."""

from typing import Any

from eventsched.cli.output.headline_output import (
    headline_json,
    headline_text,
    step_text,
    story_lines,
)
from eventsched.cli.output.tables import counted, filled, table
from eventsched.cli.output.time_format import iso, moment, zone
from eventsched.cli.screen.bars import bar
from eventsched.domain.records import Outcome, PodDecided, PodQueued
from eventsched.domain.records.verdicts import MAX_NODE_SCORE
from eventsched.history.decision_vectors import NodeScore, VectorSource
from eventsched.history.explain.explanation import (
    ExplainedAttempt,
    Explanation,
    NodeAnswer,
    NodeRefusals,
    Step,
)
from eventsched.history.explain.preemption_explanation import PreemptionExplanation
from eventsched.history.explain.record_text import CRITERIA
from eventsched.history.explain.sample_ages import SampleAge
from eventsched.history.explain.waits import PluginWait, waits_of_attempt
from eventsched.history.reason_codes import differences, failed_plugins, reason_codes

_BAR = 10
"""Characters of a score's bar."""


def story_text(
    explained: Explanation, now: int = 0, width: int = 0, *, full: bool = False, bars: bool = False
) -> str:
    """The pod's state, its history in order, and for the explained attempt the reasons for and
    against nodes. ``now`` (µs) is the time that distances refer to; lines are wrapped to ``width``
    characters (0: not at all); repeated attempts are merged unless ``full``. With ``bars`` scores
    have bars, if they fit into the width."""
    pod = explained.pod
    lines = [filled(line, width) for line in headline_text(explained, now)]
    lines += ["", f"uid {pod.uid}, stream {explained.stream}"]
    if explained.older:
        places = ", ".join(f"{pod.uid} (position {pod.position})" for pod in explained.older)
        lines.append(f"the newest of {len(explained.older) + 1} of that name; before: {places}")
    if explained.begin:
        lines.append(
            f"its records before position {explained.begin} were dropped, so its begin is not "
            "known; --from-archive FOLDER has them"
        )
    rows = [
        (moment(line.at), line.position, line.text) for line in story_lines(explained, full=full)
    ]
    header = (f"time {zone(explained.steps[-1].at)}".rstrip(), "position", "what")
    lines += ["", table(header, rows, width=width)]
    attempt, preemption = explained.explained, explained.preemption
    choice = []
    if attempt is not None:
        room = width if bars else 0
        choice = _why_chosen(attempt, room) + _waits(explained, attempt)
        choice += _why_not(attempt, width, room)
        choice += [filled(line, width) for line in _source(attempt)]
    victims = [] if preemption is None else _victims(preemption)
    if preemption is not None and attempt is not None and preemption.position < attempt.position:
        return "\n".join(lines + victims + choice)
    return "\n".join(lines + choice + victims)


def _why_chosen(attempt: ExplainedAttempt, room: int) -> list[str]:
    decided = attempt.decided
    if not attempt.compared:
        return []
    after = "" if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING) else ", which then failed"
    lines = ["", f"Why {decided.node} at attempt {decided.attempt}{after}, and the next best:"]
    lines.append(_scores(attempt.compared, room))
    if decided.ties > 1:
        lines.append(
            f"{decided.ties} nodes had {decided.score}; the draw {decided.draw} (seed, pod, "
            f"attempt) chose number {decided.draw % decided.ties} of them, counting from 0"
        )
    lines += [
        f"{sample.source} had samples of {counted(sample.nodes, 'node')}, "
        f"{sample.age:.1f}s old (position {sample.position})"
        for sample in attempt.samples
    ]
    return lines


def _waits(explained: Explanation, attempt: ExplainedAttempt) -> list[str]:
    waits = waits_of_attempt(explained.steps, attempt.position)
    if not waits:
        return []
    rows = [(wait.plugin, wait.point, ", ".join(wait.writes), _length(wait)) for wait in waits]
    number = attempt.decided.attempt
    header = ("plugin", "at", "what was asked of the cluster", "how long")
    return ["", f"What its bind waited for at attempt {number}:", table(header, rows)]


def _length(wait: PluginWait) -> str:
    if wait.seconds is None:
        return f"since {moment(wait.since)}, until {moment(wait.due)} at most"
    given_up = ", then given up" if wait.ended_by in ("PodUnreserved", "PodDeleted") else ""
    return f"{wait.seconds:.3f}s{given_up}"


def _victims(preemption: PreemptionExplanation) -> list[str]:
    decided = preemption.decided
    lines = ["", f"Who has to leave {decided.node} for it:"]
    fates = zip(preemption.victims, preemption.outcomes, strict=True)
    lines.append(table(("pod", "outcome"), fates))
    if not preemption.landed:
        lines.append("it has not been placed since")
    else:
        place = "there" if preemption.landed == decided.node else f"on {preemption.landed} instead"
        lines.append(f"it was placed {place} (position {preemption.landed_at})")
    if preemption.compared:
        others = f" of {decided.candidates} candidates" if decided.candidates > 1 else ""
        why = CRITERIA.get(decided.criterion, decided.criterion)
        lines += ["", f"Why {decided.node}{others}: {why}"]
        header = ("node", "budgets violated", "highest priority", "sum", "victims", "started")
        rows = [
            (
                room.node, room.violations, room.highest, room.total, ", ".join(room.victims),
                moment(room.start) if room.start else "",
            )
            for room in preemption.compared
        ]  # fmt: skip
        lines.append(table(header, rows))
    return lines


def _scores(compared: tuple[NodeScore, ...], room: int) -> str:
    """One row per plugin, one column per node: weight x normalised (raw). Before that a bar, if all
    fits into ``room`` characters."""
    with_bars = _score_table(compared, _BAR)
    if max(map(len, with_bars.splitlines())) <= room:
        return with_bars
    return _score_table(compared, 0)


def _score_table(compared: tuple[NodeScore, ...], length: int) -> str:
    """The scores, with bars of a length (0: none): of a plugin's 100, and of the largest total that
    there could be."""

    def barred(part: float, text: str) -> str:
        return f"{bar(part, length)} {text}" if length else text

    header = ["plugin", *(score.node for score in compared)]
    rows = []
    for parts in zip(*(score.parts for score in compared), strict=True):
        cells = [
            barred(
                part.normalized / MAX_NODE_SCORE,
                f"{part.weighted} = {part.weight} x {part.normalized}"
                + (f" (raw {part.raw})" if part.raw != part.normalized else ""),
            )
            for part in parts
        ]
        rows.append((parts[0].plugin, *cells))
    most = MAX_NODE_SCORE * sum(part.weight for part in compared[0].parts) or 1
    rows.append(("total", *(barred(score.total / most, str(score.total)) for score in compared)))
    indent = " " * (length + 1) if length else ""
    rows.append(("rank", *(f"{indent}{score.rank}" for score in compared)))
    return table(header[:1], rows, header[1:])


def _why_not(attempt: ExplainedAttempt, width: int, room: int) -> list[str]:
    number = attempt.decided.attempt
    if attempt.node_answer is not None:
        return ["", *_answer(attempt.node_answer, attempt, room)]
    if not attempt.refusals:
        return []
    placed = attempt.decided.row >= 0
    others = "the others" if placed else f"any node at attempt {number}"
    rows = [
        (
            refusal.nodes, _refuser(refusal) or "-", refusal.code, "; ".join(refusal.reasons),
            _examples(refusal),
        )
        for refusal in attempt.refusals
    ]  # fmt: skip
    header = ("nodes", "plugin", "code", "reasons", "such as")
    return ["", f"Why not {others}:", table(header, rows, width=width)]


def _source(attempt: ExplainedAttempt) -> list[str]:
    """What is stored of the verdicts and scores, unless all are."""
    number, source = attempt.decided.attempt, attempt.source
    if source is VectorSource.DIGEST:
        return ["", f"Of attempt {number} the log has counts and a digest, not the verdicts and "
                "scores of single nodes. --recompute recomputes them."]  # fmt: skip
    if source is VectorSource.BEST:
        scores = f"scores of {counted(attempt.best_nodes, 'node')} and " if attempt.compared else ""
        return ["", f"Of attempt {number} the log has {scores}examples of refusals. --recompute "
                "recomputes those of all nodes."]  # fmt: skip
    return []


def _answer(answer: NodeAnswer, attempt: ExplainedAttempt, room: int) -> list[str]:
    number = attempt.decided.attempt
    if answer.refusal is not None:
        refusal = answer.refusal
        verdict = f"{refusal.code}: {'; '.join(refusal.reasons)}"
        if refuser := _refuser(refusal):
            verdict = f"{refuser} said {verdict}"
        return [f"{answer.node} at attempt {number}: {verdict}"]
    score = answer.score
    assert score is not None
    feasible = attempt.decided.feasible
    text = f"{answer.node} at attempt {number}: feasible, rank {score.rank} of {feasible}"
    if answer.node == attempt.decided.node:
        return [f"{text}; it was chosen"]
    behind = f"{answer.behind} behind" if answer.behind else "as good as"
    if not attempt.compared:
        return [f"{text}; none was chosen", _scores((score,), room)]
    return [f"{text}, {behind} {attempt.decided.node}", _scores((attempt.compared[0], score), room)]


def _refuser(refusal: NodeRefusals) -> str:
    """What refused: a plugin, PreFilter as a whole, or "" if the search had ended."""
    return refusal.plugin or ("PreFilter" if refusal.code == "Excluded" else "")


def _examples(refusal: NodeRefusals) -> str:
    if not refusal.examples:
        return ""
    more = refusal.nodes - len(refusal.examples)
    return ", ".join(refusal.examples) + (f" and {more} more" if more else "")


def story_json(explained: Explanation) -> dict[str, Any]:
    """The object that ``explain -o json`` prints; docs/sql.md has its fields. Times are ISO 8601;
    missing values are null or empty."""
    pod = explained.pod
    attempt = explained.explained
    return {
        "stream": explained.stream,
        "uid": pod.uid,
        "namespace": pod.namespace,
        "name": pod.name,
        "seq": pod.position,
        "summary": headline_json(explained),
        "begin": explained.begin,
        "older": [{"uid": older.uid, "seq": older.position} for older in explained.older],
        "moves": [_move(step) for step in explained.moves],
        "attempts": [
            _attempt(attempt, before)
            for attempt, before in zip(
                explained.attempts, (None, *explained.attempts), strict=False
            )
        ],
        "explained": None if attempt is None else attempt.decided.attempt,
        "waits": []
        if attempt is None
        else [_wait(wait) for wait in waits_of_attempt(explained.steps, attempt.position)],
        "preemption": None if explained.preemption is None else _preemption(explained.preemption),
        "events": [
            {
                "seq": step.position,
                "at": iso(step.at),
                "kind": type(step.record).__name__,
                "text": step_text(step),
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


def _attempt(attempt: ExplainedAttempt, before: ExplainedAttempt | None) -> dict[str, Any]:
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
        "vectors": attempt.source.value,
        "schedulingDiagnostics": {
            "result": decided.outcome.value,
            "reasonCodes": reason_codes(attempt.refusals),
            "failedPlugins": failed_plugins(attempt.refusals),
        },
        "changed": []
        if before is None
        else [difference._asdict() for difference in differences(before, attempt)],
        "refusals": [_refusal(refusal) for refusal in attempt.refusals],
        "scores": [_score(score) for score in attempt.compared],
        "samples": [_sample(sample) for sample in attempt.samples],
        "asked": None if attempt.node_answer is None else _node_answer(attempt.node_answer),
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


def _sample(sample: SampleAge) -> dict[str, Any]:
    return {
        "source": sample.source,
        "seq": sample.position,
        "nodes": sample.nodes,
        "age": sample.age,
    }


def _preemption(preemption: PreemptionExplanation) -> dict[str, Any]:
    decided = preemption.decided
    return {
        "seq": preemption.position,
        "node": decided.node,
        "criterion": decided.criterion,
        "why": CRITERIA.get(decided.criterion, decided.criterion),
        "nodes": decided.nodes,
        "looked": decided.looked,
        "candidates": decided.candidates,
        "victims": [
            {"pod": pod, "outcome": outcome}
            for pod, outcome in zip(preemption.victims, preemption.outcomes, strict=True)
        ],
        "compared": [
            {**vars(room), "victims": list(room.victims),
             "start": iso(room.start) if room.start else None}
            for room in preemption.compared
        ],
        "landed": preemption.landed or None,
        "outcome": preemption.outcome,
    }  # fmt: skip


def _node_answer(answer: NodeAnswer) -> dict[str, Any]:
    return {
        "node": answer.node,
        "refusal": None if answer.refusal is None else _refusal(answer.refusal),
        "score": None if answer.score is None else _score(answer.score),
        "behind": answer.behind,
    }
