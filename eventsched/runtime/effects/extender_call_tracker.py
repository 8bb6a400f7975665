"""Tracks the open call of a stream to an extender, until it is answered (ADR 13).

    committed ─▶ call ─▶ ExtenderAnswered: an answer, or a problem
                  ╲─▶ no answer ─▶ call again

A call only reads, so it can be repeated safely, also by the next leader. An answer names nodes. It
is translated to the rows that were asked about, and refused if it does not fit them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from eventsched.cluster.messages import CallExtender, ExtenderReply
from eventsched.domain.nodes.row_ranges import ranges, rows_of
from eventsched.domain.records import Consult, ExtenderAnswered, ExtenderAsked, Victims
from eventsched.domain.records.extender_records import FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.tracker import Action

MAX_SCORE = 10
"""The best score (upstream: extender/v1 MaxExtenderPriority)."""
MAX_REASONS = 100
"""How many different reasons of an answer are kept; the others become one."""
MAX_REASON_LENGTH = 300
"""The length of a reason, at most."""
_OTHERS = "other reasons"
_MAX_NAMED_NODES = 3
"""How many unknown nodes a remark names."""


class ExtenderCallTracker:
    """A Tracker (tracker.py) of Consult effects; at most one is open."""

    outcome_first = False

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._call: CallExtender | None = None
        self._asked: ExtenderAsked | None = None
        """The question of that call."""

    def on_records(self, logged: Sequence[LogEntry]) -> None:
        """Does nothing: the state has everything that is needed."""

    def resume(self) -> Iterator[Action]:
        """Makes the open call again."""
        question = self._question
        if question is not None:
            yield self._new_call(question)

    def void(self, reason: str) -> Iterator[Action]:
        """A call changes nothing, so it is repeated."""
        return self.resume()

    def committed(self, effect: Consult) -> Iterator[Action]:
        """The record of the call is durable."""
        question = self._question
        if question is None:
            return
        if (question.uid, question.attempt) == (effect.uid, effect.attempt):
            yield self._new_call(question)

    def answered(self, answer: ExtenderReply) -> Iterator[Action]:
        """The extender has answered, or has failed."""
        question = self._question
        if question is not None and self.awaits(answer.request):
            self._call = None
            yield outcome(question, answer, self._state.nodes.names)

    def unanswered(self, request: CallExtender) -> CallExtender | None:
        """The same call again."""
        return request if self.awaits(request) else None

    def awaits(self, request: CallExtender) -> bool:
        """Whether the call is still open: its pod may be gone, and another pod may ask by now."""
        is_open = self._asked is not None and self._question is self._asked
        return is_open and request is self._call

    @property
    def _question(self) -> ExtenderAsked | None:
        consultation = self._state.consultation
        return None if consultation is None else consultation.question

    def _new_call(self, question: ExtenderAsked) -> CallExtender:
        pod, names = self._state.pods[question.uid].pod, self._state.nodes.names
        rows = () if question.verb == PREEMPT else rows_of(question.nodes).tolist()
        self._asked = question
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
    """Translates an answer to the rows that were asked about. ``names`` are the names of all
    rows."""
    fields: dict[str, Any] = {"problem": reply.problem}
    rows_asked = {names[row]: row for row in rows_of(question.nodes).tolist()}
    if not reply.problem:
        fields = _READERS[question.verb](question, reply, rows_asked)
    return ExtenderAnswered(
        uid=question.uid,
        attempt=question.attempt,
        extender=question.extender,
        verb=question.verb,
        name=question.name,
        duration=reply.duration,
        **fields,
    )


def _filtered(
    question: ExtenderAsked, reply: ExtenderReply, rows_asked: dict[str, int]
) -> dict[str, Any]:
    """A node that is listed as passed passes, even if it is listed as failed too; unresolvable
    overrides failed (upstream: schedule_one.go findNodesThatPassExtenders)."""
    passed = set(reply.passed)
    for name in reply.passed:
        if name not in rows_asked:
            # Upstream's text (extender.go Filter).
            claim = f'extender "{question.name}" claims a filtered node "{name}"'
            return {"problem": f"{claim} which is not found in the input node list"}
    unresolvable = {
        name: reason for name, reason in reply.unresolvable.items() if name in rows_asked
    }
    failed = {
        name: reason
        for name, reason in reply.failed.items()
        if name in rows_asked and name not in unresolvable
    }
    for name in rows_asked:
        if name not in passed and name not in failed and name not in unresolvable:
            unresolvable[name] = ""
    strange = [name for name in (*reply.failed, *reply.unresolvable) if name not in rows_asked]
    return {
        "failed": _grouped(failed, passed, rows_asked),
        "unresolvable": _grouped(unresolvable, passed, rows_asked),
        "remark": _strange(strange),
    }


def _grouped(
    reasons: dict[str, str], passed: set[str], rows_asked: dict[str, int]
) -> dict[str, str]:
    """Reason → rows."""
    rows_by_reason: dict[str, list[int]] = {}
    for name, row in rows_asked.items():
        if name in passed or name not in reasons:
            continue
        reason = reasons[name].strip()[:MAX_REASON_LENGTH]
        if reason not in rows_by_reason and len(rows_by_reason) >= MAX_REASONS:
            reason = _OTHERS
        rows_by_reason.setdefault(reason, []).append(row)
    return {reason: ranges(np.array(rows)) for reason, rows in rows_by_reason.items()}


def _prioritized(
    question: ExtenderAsked, reply: ExtenderReply, rows_asked: dict[str, int]
) -> dict[str, Any]:
    """A score out of range invalidates the whole answer. (Upstream accepts it; one extender could
    then decide alone.)"""
    strange = []
    scores: dict[str, int] = {}
    for name, score in reply.scores:
        if not 0 <= score <= MAX_SCORE:
            problem = f"the score {score} of node {name} is not between 0 and {MAX_SCORE}"
            return {"problem": f"{problem}: none of its scores is used"}
        if name in rows_asked:
            scores[name] = score
        else:
            strange.append(name)
    rows_by_score: dict[int, list[int]] = {}
    for name, row in rows_asked.items():
        if scores.get(name):
            rows_by_score.setdefault(scores[name], []).append(row)
    ranked = tuple((score, ranges(np.array(rows))) for score, rows in sorted(rows_by_score.items()))
    return {"scores": ranked, "remark": _strange(strange)}


def _preempted(
    question: ExtenderAsked, reply: ExtenderReply, rows_asked: dict[str, int]
) -> dict[str, Any]:
    """Nodes that were not candidates are ignored."""
    victims: dict[str, Victims] = {
        name: listed for name, listed in reply.victims.items() if name in question.candidates
    }
    return {"victims": victims, "remark": _strange(reply.victims.keys() - victims.keys())}


def _strange(names: Iterable[str]) -> str:
    """The remark about nodes that were not asked about."""
    strange = sorted(set(names))
    if not strange:
        return ""
    more = f" and {len(strange) - _MAX_NAMED_NODES} more" if len(strange) > _MAX_NAMED_NODES else ""
    return (
        f"it names nodes that it was not asked about: {', '.join(strange[:_MAX_NAMED_NODES])}{more}"
    )


_READERS = {FILTER: _filtered, PRIORITIZE: _prioritized, PREEMPT: _preempted}
