"""The output of ``explain`` as text and as JSON."""

from typing import Any

from eventsched.domain.records import Outcome, PodDecided, PodQueued
from eventsched.domain.records.exclusions import bare_reason
from eventsched.history.decision_vectors import NodeScore, VectorSource
from eventsched.history.explain.conclusions.reason_codes import (
    differences,
    failed_plugins,
    neighbours,
    reason_codes,
)
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
from eventsched.output.headline_output import (
    headline_json,
    headline_style,
    headline_text,
    step_text,
    story_lines,
)
from eventsched.output.terminal.colours import Style
from eventsched.output.terminal.display import PLAIN, Display
from eventsched.output.terminal.score_table import score_table
from eventsched.output.terminal.tables import counted
from eventsched.output.time_format import iso, moment, zone


def story_text(
    explained: Explanation, now: int = 0, display: Display = PLAIN, *, full: bool = False
) -> str:
    """The pod's state, its history in order, and for the explained attempt the reasons for and
    against nodes. ``now`` (µs) is the time that distances refer to; lines are wrapped to the width
    of the ``display``; repeated attempts are merged unless ``full``."""
    pod = explained.pod
    headline, *step = headline_text(explained, now)
    lines = [display.line(headline, headline_style(explained))]
    lines += [display.line(line, Style.BOLD) for line in step]
    lines += ["", display.line(f"uid {pod.uid}, stream {explained.stream}")]
    if explained.older:
        places = ", ".join(f"{pod.uid} (position {pod.position})" for pod in explained.older)
        number = len(explained.older) + 1
        lines.append(display.line(f"the newest of {number} of that name; before: {places}"))
    if explained.begin:
        text = f"its records before position {explained.begin} were dropped, so its begin is not "
        lines.append(display.line(f"{text}known; --from-archive FOLDER has them"))
    rows = [
        (moment(line.at), line.position, line.text) for line in story_lines(explained, full=full)
    ]
    header = (f"time {zone(explained.steps[-1].at)}".rstrip(), "position", "what")
    lines += ["", display.table(header, rows)]
    attempt, preemption = explained.explained, explained.preemption
    choice = []
    if attempt is not None:
        choice = _why_chosen(attempt, display) + _waits(explained, attempt, display)
        choice += _why_not(attempt, display)
        choice += [display.line(line) for line in _source(attempt)]
    victims = [] if preemption is None else _victims(preemption, display)
    if preemption is not None and attempt is not None and preemption.position < attempt.position:
        return "\n".join(lines + victims + choice)
    return "\n".join(lines + choice + victims)


def _why_chosen(attempt: ExplainedAttempt, display: Display) -> list[str]:
    decided = attempt.decided
    if not attempt.compared:
        return []
    after = "" if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING) else ", which then failed"
    title = f"Why {decided.node} at attempt {decided.attempt}{after}, and the next best:"
    lines = ["", display.line(title, Style.BOLD), score_table(attempt.compared, display)]
    if decided.ties > 1:
        text = f"{decided.ties} nodes had {decided.score}; the draw {decided.draw} (seed, pod, "
        number = decided.draw % decided.ties
        lines.append(display.line(f"{text}attempt) chose number {number} of them, counting from 0"))
    lines += [
        display.line(
            f"{sample.source} had samples of {counted(sample.nodes, 'node')}, "
            f"{sample.age:.1f}s old (position {sample.position})"
        )
        for sample in attempt.samples
    ]
    return lines


def _waits(explained: Explanation, attempt: ExplainedAttempt, display: Display) -> list[str]:
    waits = waits_of_attempt(explained.steps, attempt.position)
    if not waits:
        return []
    rows = [(wait.plugin, wait.point, ", ".join(wait.writes), _length(wait)) for wait in waits]
    number = attempt.decided.attempt
    header = ("plugin", "at", "what was asked of the cluster", "how long")
    title = display.line(f"What its bind waited for at attempt {number}:", Style.BOLD)
    return ["", title, display.table(header, rows)]


def _length(wait: PluginWait) -> str:
    if wait.seconds is None:
        return f"since {moment(wait.since)}, until {moment(wait.due)} at most"
    given_up = ", then given up" if wait.ended_by in ("PodUnreserved", "PodDeleted") else ""
    return f"{wait.seconds:.3f}s{given_up}"


def _victims(preemption: PreemptionExplanation, display: Display) -> list[str]:
    decided = preemption.decided
    lines = ["", display.line(f"Who has to leave {decided.node} for it:", Style.BOLD)]
    fates = zip(preemption.victims, preemption.outcomes, strict=True)
    lines.append(display.table(("pod", "outcome"), fates))
    if not preemption.landed:
        lines.append("it has not been placed since")
    else:
        place = "there" if preemption.landed == decided.node else f"on {preemption.landed} instead"
        lines.append(f"it was placed {place} (position {preemption.landed_at})")
    if preemption.compared:
        others = f" of {decided.candidates} candidates" if decided.candidates > 1 else ""
        why = CRITERIA.get(decided.criterion, decided.criterion)
        lines += ["", display.line(f"Why {decided.node}{others}: {why}", Style.BOLD)]
        # Victims start in a real cluster only: what a simulation binds is there at once.
        started = ("started",) if any(room.start for room in preemption.compared) else ()
        header = ("node", "budgets violated", "highest priority", "sum", "victims", *started)
        rows = [
            (
                room.node, room.violations, room.highest, room.total, ", ".join(room.victims),
                moment(room.start) if room.start else "",
            )[: len(header)]
            for room in preemption.compared
        ]  # fmt: skip
        lines.append(display.table(header, rows))
    return lines


def _why_not(attempt: ExplainedAttempt, display: Display) -> list[str]:
    number = attempt.decided.attempt
    if attempt.node_answer is not None:
        return ["", *_answer(attempt.node_answer, attempt, display)]
    if not attempt.refusals:
        return []
    placed = attempt.decided.row >= 0
    others = "the others" if placed else f"any node at attempt {number}"
    rows: list[tuple[object, ...]] = [
        (
            refusal.nodes, _refuser(refusal) or "-", refusal.code,
            "; ".join(map(bare_reason, refusal.reasons)), _examples(refusal),
        )
        for refusal in attempt.refusals
    ]  # fmt: skip
    header: tuple[str, ...] = ("nodes", "plugin", "code", "reasons", "such as")
    if not display.fits(header, rows):  # the code says the least that is new
        header, rows = header[:2] + header[3:], [row[:2] + row[3:] for row in rows]
    return ["", display.line(f"Why not {others}:", Style.BOLD), display.table(header, rows)]


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


def _answer(answer: NodeAnswer, attempt: ExplainedAttempt, display: Display) -> list[str]:
    number = attempt.decided.attempt
    if answer.refusal is not None:
        refusal = answer.refusal
        verdict = f"{refusal.code}: {'; '.join(refusal.reasons)}"
        if refuser := _refuser(refusal):
            verdict = f"{refuser} said {verdict}"
        return [display.line(f"{answer.node} at attempt {number}: {verdict}", Style.YELLOW)]
    score = answer.score
    assert score is not None
    feasible = attempt.decided.feasible
    text = f"{answer.node} at attempt {number}: feasible, rank {score.rank} of {feasible}"
    if answer.node == attempt.decided.node:
        return [display.line(f"{text}; it was chosen", Style.GREEN)]
    behind = f"{answer.behind} behind" if answer.behind else "as good as"
    if not attempt.compared:
        return [display.line(f"{text}; none was chosen"), score_table((score,), display)]
    both = attempt.compared[0], score
    text = display.line(f"{text}, {behind} {attempt.decided.node}", Style.YELLOW)
    return [text, score_table(both, display)]


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
        **({"left_out": sum(gap.left_out for gap in explained.gaps)} if explained.gaps else {}),
        "older": [{"uid": older.uid, "seq": older.position} for older in explained.older],
        "moves": [_move(step) for step in explained.moves],
        "attempts": [_attempt(each, before) for before, each in neighbours(explained)],
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
