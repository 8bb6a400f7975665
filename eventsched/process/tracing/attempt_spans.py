"""Attempts as spans, from committed records.

    attempt ─┬─ queue wait            from the first move into a queue to the decision
             ├─ extender NAME VERB    each call of an extender
             ├─ plugins               from the decision to the sending of its batch
             ├─ commit                until the batch was durable
             ├─ permit                until all Permit plugins had let it pass
             ├─ prebind               until everything that PreBind asked for was there
             └─ bind                  until the API server had bound it

What happened in earlier terms is unknown: the queue wait of a pod that waited before this process
led begins with the first move that this process has committed.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from eventsched.domain import records
from eventsched.domain.records import Outcome
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Verdict
from eventsched.domain.units import SECOND

MOST_MOVES = 32
"""Moves between queues that a queue wait shows: the newest."""
MOST_CALLS = 64
"""Calls of extenders that an attempt shows: the newest."""


class Moment(NamedTuple):
    """Something that happened during a span, at a time in µs."""

    name: str
    at: int
    attributes: dict[str, Any]


class Span(NamedTuple):
    """A stretch of time in µs. ``failure`` is "" if it went well."""

    name: str
    start: int
    end: int
    attributes: dict[str, Any] = {}
    moments: tuple[Moment, ...] = ()
    failure: str = ""


class AttemptTrace(NamedTuple):
    """An attempt that has ended. ``is_last`` says that the pod needs no further one."""

    uid: str
    attempt: Span
    parts: tuple[Span, ...]
    is_last: bool


@dataclass
class _Attempt:
    """An attempt whose decision is committed and that has not ended."""

    start: int
    attributes: dict[str, Any]
    parts: list[Span]
    phase: str = ""
    since: int = 0

    def enter(self, phase: str, at: int) -> None:
        """Ends the phase under way, and begins another one."""
        if self.phase:
            self.parts.append(Span(self.phase, self.since, max(self.since, at)))
        self.phase, self.since = phase, at

    def ended(self, uid: str, at: int, failure: str, *, is_last: bool) -> AttemptTrace:
        """The whole attempt."""
        at = max(at, self.start, self.since)
        if self.phase:
            self.parts.append(Span(self.phase, self.since, at, failure=failure))
        root = Span("attempt", self.start, at, self.attributes, failure=failure)
        return AttemptTrace(uid, root, tuple(self.parts), is_last)


@dataclass
class _Wait:
    """What happened to a pod since its last decision."""

    since: int
    moves: deque[Moment] = field(default_factory=lambda: deque(maxlen=MOST_MOVES))
    calls: deque[Span] = field(default_factory=lambda: deque(maxlen=MOST_CALLS))


class AttemptRecorder:
    """Makes traces of the attempts of a stream. It remembers pods that wait or are being bound."""

    def __init__(
        self,
        stream: str,
        pod_name: Callable[[str], str],
        verdict: Callable[[int], Verdict | None],
    ) -> None:
        """``pod_name`` returns ``namespace/name`` for a uid, ``verdict`` the meaning of a number;
        both may know nothing."""
        self._stream, self._pod_name, self._verdict = stream, pod_name, verdict
        self._waits: dict[str, _Wait] = {}
        self._attempts: dict[str, _Attempt] = {}
        self._branches: dict[type, Callable[[Any, int], AttemptTrace | None]] = {
            records.PodQueued: self._queued,
            records.ExtenderAnswered: self._extender_answered,
            records.PreparationIntended: self._preparation_intended,
            records.BindIntended: self._bind_intended,
            records.PodBound: self._bound,
            records.PodUnreserved: self._unreserved,
            records.PlacementCompared: self._compared,
            records.PodDeleted: self._deleted,
        }

    def committed(self, logged: Iterable[LogEntry], sent: int, now: int) -> Iterator[AttemptTrace]:
        """The attempts that ended with these records, which were sent to the database at ``sent``
        (µs) and known to be durable at ``now``."""
        for position, at, _, record, _ in logged:
            trace = None
            if isinstance(record, records.PodDecided):
                trace = self._decided(record, position, at, sent, now)
            elif isinstance(record, records.TermBegan):
                self._waits.clear()
                self._attempts.clear()
            elif (follow := self._branches.get(type(record))) is not None:
                trace = follow(record, at)
            if trace is not None:
                yield trace

    def _queued(self, queued: records.PodQueued, at: int) -> None:
        wait = self._waits.setdefault(queued.uid, _Wait(at))
        attributes = {"cause": queued.cause, "plugin": queued.plugin}
        wait.moves.append(Moment(queued.queue.value, at, attributes))

    def _extender_answered(self, answered: records.ExtenderAnswered, at: int) -> None:
        wait = self._waits.setdefault(answered.uid, _Wait(at))
        name = f"extender {answered.name} {answered.verb}"
        wait.calls.append(Span(name, at - answered.duration, at, failure=answered.problem))

    def _decided(
        self, decided: records.PodDecided, position: int, at: int, sent: int, now: int
    ) -> AttemptTrace | None:
        wait = self._waits.pop(decided.uid, None) or _Wait(at)
        sent, now = max(at, sent), max(at, sent, now)
        failed = decided.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR)
        parts = [
            Span("queue wait", wait.since, at, moments=tuple(wait.moves)),
            *wait.calls,
            Span("plugins", at, sent, _choice(decided), self._refusals(decided, at)),
            Span("commit", sent, now),
        ]
        attempt = _Attempt(wait.since, self._place(decided, position), parts)
        if failed:
            failure = decided.message or decided.outcome.value
            return attempt.ended(decided.uid, now, failure, is_last=False)
        attempt.enter("permit" if decided.outcome is Outcome.WAITING else "bind", now)
        self._attempts[decided.uid] = attempt
        return None

    def _place(self, decided: records.PodDecided, position: int) -> dict[str, Any]:
        """Where the decision is in the log, and what it was."""
        return {
            "eventsched.stream": self._stream,
            "eventsched.position": position,
            "eventsched.attempt": decided.attempt,
            "eventsched.outcome": decided.outcome.value,
            "eventsched.profile": decided.profile,
            "k8s.pod.name": self._pod_name(decided.uid),
            "k8s.pod.uid": decided.uid,
            "k8s.node.name": decided.node,
        }

    def _refusals(self, decided: records.PodDecided, at: int) -> tuple[Moment, ...]:
        """The nodes that each plugin refused."""
        known = ((self._verdict(number), nodes) for number, nodes in decided.counts)
        return tuple(
            Moment(
                "refused", at,
                {"plugin": verdict.plugin, "code": verdict.code.value, "nodes": nodes,
                 "reasons": list(verdict.reasons)},
            )
            for verdict, nodes in known
            if verdict is not None
        )  # fmt: skip

    def _preparation_intended(self, intended: records.PreparationIntended, at: int) -> None:
        self._enter(intended.uid, "prebind", at)

    def _bind_intended(self, intended: records.BindIntended, at: int) -> None:
        self._enter(intended.uid, "bind", at)

    def _enter(self, uid: str, phase: str, at: int) -> None:
        if (attempt := self._attempts.get(uid)) is not None:
            attempt.enter(phase, max(at, attempt.since))

    def _bound(self, bound: records.PodBound, at: int) -> AttemptTrace | None:
        return self._ended(bound.uid, at, "", is_last=True)

    def _unreserved(self, unreserved: records.PodUnreserved, at: int) -> AttemptTrace | None:
        failure = unreserved.message or "the reservation was given up"
        return self._ended(unreserved.uid, at, failure, is_last=False)

    def _compared(self, compared: records.PlacementCompared, at: int) -> AttemptTrace | None:
        """Of a shadow: another scheduler has bound the pod."""
        return self._ended(compared.uid, at, "", is_last=True)

    def _deleted(self, deleted: records.PodDeleted, at: int) -> AttemptTrace | None:
        return self._ended(deleted.uid, at, "the pod was deleted", is_last=True)

    def _ended(self, uid: str, at: int, failure: str, *, is_last: bool) -> AttemptTrace | None:
        if is_last:
            self._waits.pop(uid, None)
        attempt = self._attempts.pop(uid, None)
        return None if attempt is None else attempt.ended(uid, at, failure, is_last=is_last)


def sent_at(now: int, seconds: float) -> int:
    """When a batch was sent (µs) that is durable at ``now``, ``seconds`` later."""
    return now - round(seconds * SECOND)


def _choice(decided: records.PodDecided) -> dict[str, Any]:
    return {
        "eventsched.nodes.evaluated": decided.evaluated,
        "eventsched.nodes.feasible": decided.feasible,
        "eventsched.score": decided.score,
        "eventsched.runner_up": decided.runner_up,
        "eventsched.runner_up.score": decided.runner_up_score,
        "eventsched.plugin": decided.plugin,
    }
