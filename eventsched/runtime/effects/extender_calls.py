"""The open question of a stream to an extender, until it is answered (ADR 13).

    committed ─▶ call ─▶ ExtenderAnswered: an answer, or what went wrong
                  ╲─▶ no answer ─▶ call again

Questions only read: they are asked again without harm, also by the next leader. An answer names
nodes; here it becomes one about the rows that were asked about, and one that does not fit them is
found out.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from eventsched.cluster.messages import CallExtender, ExtenderReply
from eventsched.domain.records.extender_questions import (
    FILTER,
    PREEMPT,
    PRIORITIZE,
    Consult,
    ExtenderAnswered,
    ExtenderAsked,
    Victims,
    ranges,
    rows_of,
)
from eventsched.domain.records.logged import Logged
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.tracker import Step

HIGHEST = 10
"""The best score (upstream: extender/v1 MaxExtenderPriority)."""
REASONS = 100
"""Different reasons in an answer that are kept; the others are summed up."""
LONGEST = 300
"""Characters of a reason that are kept."""
_OTHERS = "other reasons"
_NAMED = 3


class Consultations:
    """A Tracker (tracker.py) of Consult effects; there is one at a time."""

    outcome_first = False

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._call: CallExtender | None = None

    def follow(self, logged: Sequence[Logged]) -> None:
        """All that matters is in the state."""

    def resume(self) -> Iterator[Step]:
        """Asks the open question again."""
        question = self._question
        if question is not None:
            yield self._asked(question)

    def void(self, reason: str) -> Iterator[Step]:
        """A question is no promise: it is asked again."""
        return self.resume()

    def committed(self, effect: Consult) -> Iterator[Step]:
        """The question's record is durable."""
        question = self._question
        if question is not None and (question.uid, question.attempt) == (
            effect.uid,
            effect.attempt,
        ):
            yield self._asked(question)

    def answered(self, answer: ExtenderReply) -> Iterator[Step]:
        """The extender has answered, or has failed to."""
        question = self._question
        if question is not None and answer.request is self._call:
            self._call = None
            yield outcome(question, answer, self._state.nodes.names)

    def unanswered(self, request: CallExtender) -> CallExtender | None:
        """It is asked again."""
        return request if self.awaits(request) else None

    def awaits(self, request: CallExtender) -> bool:
        """Whether the question is still open."""
        return self._question is not None and request is self._call

    @property
    def _question(self) -> ExtenderAsked | None:
        consultation = self._state.consultation
        return None if consultation is None else consultation.question

    def _asked(self, question: ExtenderAsked) -> CallExtender:
        pod, names = self._state.pods[question.uid].pod, self._state.nodes.names
        rows = () if question.verb == PREEMPT else rows_of(question.nodes).tolist()
        self._call = CallExtender(
            uid=question.uid,
            namespace=pod.namespace,
            name=pod.name,
            attempt=question.attempt,
            extender=question.extender,
            verb=question.verb,
            nodes=tuple(names[row] for row in rows),
            candidates=question.candidates,
        )
        return self._call


def outcome(question: ExtenderAsked, reply: ExtenderReply, names: list[str]) -> ExtenderAnswered:
    """What an answer means for the rows that were asked about; ``names`` are those of all rows."""
    told: dict[str, Any] = {"problem": reply.problem}
    asked = {names[row]: row for row in rows_of(question.nodes).tolist()}
    if not reply.problem:
        told = _TAKEN[question.verb](question, reply, asked)
    return ExtenderAnswered(
        uid=question.uid,
        attempt=question.attempt,
        extender=question.extender,
        verb=question.verb,
        name=question.name,
        duration=reply.duration,
        **told,
    )


def _filtered(
    question: ExtenderAsked, reply: ExtenderReply, asked: dict[str, int]
) -> dict[str, Any]:
    """Who passes passes, whatever is said of it besides; then unresolvable goes before failed
    (upstream: schedule_one.go findNodesThatPassExtenders)."""
    passed = set(reply.passed)
    for name in reply.passed:
        if name not in asked:
            # Upstream's words (extender.go Filter).
            claim = f'extender "{question.name}" claims a filtered node "{name}"'
            return {"problem": f"{claim} which is not found in the input node list"}
    unresolvable = {n: reply.unresolvable[n] for n in reply.unresolvable if n in asked}
    failed = {n: reply.failed[n] for n in reply.failed if n in asked and n not in unresolvable}
    for name in asked:
        if name not in passed and name not in failed and name not in unresolvable:
            unresolvable[name] = ""
    strange = [name for name in (*reply.failed, *reply.unresolvable) if name not in asked]
    return {
        "failed": _grouped(failed, passed, asked),
        "unresolvable": _grouped(unresolvable, passed, asked),
        "remark": _strange(strange),
    }


def _grouped(reasons: dict[str, str], passed: set[str], asked: dict[str, int]) -> dict[str, str]:
    """Reason → rows."""
    found: dict[str, list[int]] = {}
    for name, row in asked.items():
        if name in passed or name not in reasons:
            continue
        reason = reasons[name].strip()[:LONGEST]
        if reason not in found and len(found) >= REASONS:
            reason = _OTHERS
        found.setdefault(reason, []).append(row)
    return {reason: ranges(np.array(rows)) for reason, rows in found.items()}


def _prioritized(
    question: ExtenderAsked, reply: ExtenderReply, asked: dict[str, int]
) -> dict[str, Any]:
    """Scores out of range spoil an answer (upstream takes them as they are: then one extender
    decides alone)."""
    found: dict[int, list[int]] = {}
    strange = []
    given: dict[str, int] = {}
    for name, score in reply.scores:
        if not 0 <= score <= HIGHEST:
            said = f"the score {score} of node {name} is not between 0 and {HIGHEST}"
            return {"problem": f"{said}: none of its scores is used"}
        if name in asked:
            given[name] = score
        else:
            strange.append(name)
    for name, row in asked.items():
        if name in given:
            found.setdefault(given[name], []).append(row)
    scores = tuple((score, ranges(np.array(found[score]))) for score in sorted(found) if score)
    return {"scores": scores, "remark": _strange(strange)}


def _preempted(
    question: ExtenderAsked, reply: ExtenderReply, asked: dict[str, int]
) -> dict[str, Any]:
    """Nodes that were no candidates count for nothing."""
    victims: dict[str, Victims] = {
        name: each for name, each in reply.victims.items() if name in question.candidates
    }
    return {"victims": victims, "remark": _strange(reply.victims.keys() - victims.keys())}


def _strange(names: Iterable[str]) -> str:
    """The remark about nodes that were not asked about."""
    strange = sorted(set(names))
    if not strange:
        return ""
    more = f" and {len(strange) - _NAMED} more" if len(strange) > _NAMED else ""
    return f"it names nodes that it was not asked about: {', '.join(strange[:_NAMED])}{more}"


_TAKEN = {FILTER: _filtered, PRIORITIZE: _prioritized, PREEMPT: _preempted}
