"""A closed loop: history's stimuli, with the decisions of other rules, which carry on.

As long as every decision comes out as in history, each step of the log is repeated as it is. From
the first difference on, the other side has a cluster of its own:

- Changes of nodes, pods and objects come when they came in history. A pod that is on another node
  here stays there.
- A pod that ended by itself in history runs here as long, from its own bind on (``pod_runs``). All
  others end when they ended in history.
- A bind or an eviction that history made in the same step ends when it ended there. All others end
  after the time that history's last bind took (``own_outcomes``).
- A pod that history evicted and this side did not goes on to the end of the log, unless it has a
  controller: then history has its successor, and its end counts here, too.
- Attempts are made at the pace of history: one for each of its attempts, and as many as there is
  work for when history had nothing to decide.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import Outcome, PodDecided, Queue, Record, Stimulus
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.queries.what_if.choice_reasons import are_equal, reason_of
from eventsched.runtime.queries.what_if.own_outcomes import (
    WITH_INTENTS,
    OwnOutcomes,
    bind_of,
    intents_of,
    writes_of,
)
from eventsched.runtime.queries.what_if.pod_fates import Reason
from eventsched.runtime.queries.what_if.pod_runs import OwnRuns, PodRun
from eventsched.scheduling.cycle.choice import Choice
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.engine import Engine

EngineOfRecord = Callable[[records.StreamStarted | records.TermBegan], tuple[Engine, Stimulus]]
"""Makes an engine for what a record puts in force, and the record as the other side has it."""
Watch = Callable[[Sequence[LogEntry]], None]

_UNKEPT = (
    records.ExtenderAnswered, records.ExtenderInquired, records.PluginOverran, records.BindRetried,
)  # fmt: skip
"""Stimuli that belong to one attempt of history."""
_ANSWERED = frozenset((
    PodDecided, records.BindIntended, records.PodBound, records.PreparationIntended,
    records.PreemptionDecided,
))  # fmt: skip
"""Kinds of records whose outcomes are either history's or this side's."""


class ClosedLoop:
    """Both sides of history: ``history`` is the state as it was, ``engine`` the other side."""

    def __init__(
        self,
        history: SchedulerState,
        engine: Engine,
        engine_of_record: EngineOfRecord,
        *,
        runs: Mapping[str, PodRun],
        removed: frozenset[str] = frozenset(),
        watch: Watch = lambda logged: None,
    ) -> None:
        """Both have the same state. ``runs`` are those of history that ended by themselves.
        ``removed`` are nodes that the other side has not. ``watch`` is called with its records."""
        self.history = history
        self.in_step = not removed
        """Whether all that was decided until now came out as in history."""
        self.reasons: dict[str, Reason] = {}
        """By uid, why the pod's last attempt in the same step came out otherwise."""
        self._engine_of_record, self._removed, self._watch = engine_of_record, removed, watch
        self._active = {uid for uid, p in history.pods.items() if p.queue is Queue.ACTIVE}
        """The pods that history had to decide next."""
        self._bound_here: set[str] = set()
        """Pods that history's own scheduler has bound."""
        self._intended_at: dict[str, int] = {}
        self._matched = {uid for uid, r in history.reservations.items() if r.intended}
        """Pods whose binds were intended on both sides in the same step."""
        self._shared = set(history.preemptions.evicting)
        """Pods that both sides evict."""
        self._spared: set[str] = set()
        """Pods that only history evicted, and that have no controller."""
        self._gone: set[str] = set()
        """Pods that only this side evicted."""
        self._own, self._runs = OwnOutcomes(), OwnRuns(runs)
        self._decided: tuple[PodDecided, int] | None = None
        self._use(engine)

    def _use(self, engine: Engine) -> None:
        self.engine = engine
        engine.scheduling_cycle.watch = self._chosen

    def put(self, stimulus: Stimulus) -> list[LogEntry]:
        """Lets something happen on the other side alone, now."""
        made = self.engine.observe(stimulus, self.engine.state.now)
        self._watch(made)
        return made

    def take(self, position: int, first: Record, logged: Sequence[tuple[Record, int]]) -> None:
        """The next step of the log, which begins at a position: records and their times. ``first``
        is the first record for the other side. Raises LookupError or AssertionError if it does not
        fit."""
        at = logged[0][1]
        self._decided = None
        for number, (record, _) in enumerate(logged):
            if type(record) is PodDecided:
                self._decided = record, position + number
        if self.in_step:
            made = self._repeat(first, at)
            self.in_step = are_equal(logged, made)
        else:
            self._catch_up(at)
            made = self._respond(first, at)
        self._watch(made)
        self._match(logged, made)
        for record, when in logged:
            self._apply(record, when)

    def finish(self) -> None:
        """Call after the last step: decides what is left to decide then."""
        if not self.in_step and not self._active:
            self._drain()

    # --- the other side -------------------------------------------------------------------

    def _repeat(self, first: Record, at: int) -> list[LogEntry]:
        """The step as it was."""
        if not isinstance(first, Stimulus):
            return self.engine.schedule_next()
        stimulus = self._adopted(first)  # may change the engine
        return self.engine.observe(stimulus, at)

    def _adopted(self, first: Stimulus) -> Stimulus:
        """The stimulus; one that puts a configuration in force names this side's, and a new engine
        goes on."""
        if not (
            isinstance(first, records.StreamStarted)
            or (isinstance(first, records.TermBegan) and first.engine)
        ):
            return first
        engine, adopted = self._engine_of_record(first)
        if self.engine.position:
            engine.restore(self.engine.snapshot(), self.engine.position)
        self._use(engine)
        return adopted

    def _catch_up(self, at: int) -> None:
        """What happens on this side before a time (µs), and its own outcomes of that time."""
        while True:
            if not self._active and at > self.engine.state.now:
                self._drain()
            own = self._own.next_at
            timer = self._timer_before(at)
            if own is not None and own <= at and (timer is None or own <= timer):
                self._end_own()
            elif timer is not None:
                self._observe(records.TimePassed(), timer)
            else:
                return

    def _timer_before(self, at: int) -> int | None:
        """The next timer of this side that is due before a time (µs)."""
        if not self.engine.has_timers:
            return None
        due, flush = self.engine.due, self.engine.flush_due
        if due is None or (flush is not None and flush < due):
            due = flush
        return due if due is not None and due < at else None

    def _drain(self) -> None:
        while made := self.engine.schedule_next():
            self._watch(made)
            self._match((), made)

    def _observe(self, stimulus: Stimulus, at: int) -> None:
        made = self.engine.observe(stimulus, max(at, self.engine.state.now))
        self._watch(made)
        self._match((), made)

    def _end_own(self) -> None:
        due = self._own.pop()
        stimulus, state = due.stimulus, self.engine.state
        if isinstance(stimulus, records.BindSucceeded):
            reservation = state.reservations.get(stimulus.uid)
            if reservation is None or reservation.attempt != due.attempt:
                return
        if isinstance(stimulus, records.PodDeleted):
            if stimulus.uid not in state.pods:
                return
            self._spared.discard(stimulus.uid)
            if stimulus.uid in self.history.pods:
                self._gone.add(stimulus.uid)
        self._observe(stimulus, due.at)

    def _respond(self, first: Record, at: int) -> list[LogEntry]:
        """What a step of history makes happen on this side."""
        if not isinstance(first, Stimulus):
            return self.engine.schedule_next()
        seen = self._seen(first)
        if isinstance(seen, records.TimePassed):
            timers = (self.engine.due, self.engine.flush_due)
            seen = seen if any(due is not None and due <= at for due in timers) else None
        return [] if seen is None else self.engine.observe(seen, at)

    def _seen(self, stimulus: Stimulus) -> Stimulus | None:
        """A stimulus of history as it is on this side; None if it does not concern this side."""
        match stimulus:
            case records.PodAdded(pod=pod) | records.PodUpdated(pod=pod):
                seen = self._pod(pod)
                if seen is None or seen is pod:
                    return None if seen is None else stimulus
                return type(stimulus)(pod=seen)
            case records.PodDeleted(uid=uid):
                if uid in self._gone or uid in self._spared:
                    self._gone.discard(uid)
                    return None
                return None if self._runs.has(uid) else stimulus
            case records.NodeAdded(node=node) | records.NodeUpdated(node=node):
                return None if node.name in self._removed else stimulus
            case records.BindSucceeded() | records.BindFailed() | records.BindVoided():
                return self._bind_outcome(stimulus)
            case records.WriteSucceeded(uid=uid) | records.WriteFailed(uid=uid):
                return self._write_outcome(stimulus) if uid in self._matched else None
            case records.EvictionSucceeded(uid=uid) | records.EvictionFailed(uid=uid):
                return stimulus if uid in self._shared else None
            case records.ObjectChanged(object=changed):
                return None if changed.title in self._own.own_objects else stimulus
            case records.StreamStarted() | records.TermBegan():
                return self._adopted(stimulus)
        return None if isinstance(stimulus, _UNKEPT) else stimulus

    def _bind_outcome(
        self, outcome: records.BindSucceeded | records.BindFailed | records.BindVoided
    ) -> Stimulus | None:
        """An outcome counts for the same node. Another node's bind succeeds."""
        reservation = self.engine.state.reservations.get(outcome.uid)
        if outcome.uid not in self._matched or reservation is None or not reservation.intended:
            return None
        self._matched.discard(outcome.uid)
        if reservation.node != outcome.node or isinstance(outcome, records.BindSucceeded):
            return records.BindSucceeded(uid=outcome.uid, node=reservation.node)
        if isinstance(outcome, records.BindVoided):
            return msgspec.structs.replace(outcome, attempt=reservation.attempt)
        return outcome

    def _write_outcome(
        self, outcome: records.WriteSucceeded | records.WriteFailed
    ) -> Stimulus | None:
        reservation = self.engine.state.reservations.get(outcome.uid)
        if reservation is None or outcome.write not in reservation.open_writes():
            return None
        return msgspec.structs.replace(outcome, attempt=reservation.attempt)

    def _pod(self, pod: Pod) -> Pod | None:
        """A pod of history as it is on this side."""
        if pod.uid in self._gone:
            return None
        state, known = self.engine.state, self.engine.state.pods.get(pod.uid)
        changes: dict[str, Any] = {}
        if pod.node_name and self._is_placed_here(pod):
            reservation = state.reservations.get(pod.uid)
            node = known.pod.node_name if known is not None and known.bound else ""
            if reservation is not None and reservation.intended and pod.uid in self._matched:
                node = reservation.node
            changes["node_name"] = node
        if pod.nominated_node and pod.nominated_node == self.history.preemptions.node(pod.uid):
            changes["nominated_node"] = state.preemptions.node(pod.uid)
        if pod.uid in self._spared or self._runs.has(pod.uid):
            changes |= {"deleting": False, "displaced": False}
        elif known is not None and known.pod.displaced and not pod.deleting:
            changes |= {"deleting": True, "displaced": True}
        return msgspec.structs.replace(pod, **changes) if changes else pod

    def _is_placed_here(self, pod: Pod) -> bool:
        """Whether history's own scheduler placed the pod, not another one."""
        if pod.uid in self._bound_here:
            return True
        reservation = self.history.reservations.get(pod.uid)
        return reservation is not None and reservation.node == pod.node_name

    # --- both sides -----------------------------------------------------------------------

    def _match(self, logged: Sequence[tuple[Record, int]], made: Sequence[LogEntry]) -> None:
        """Which intents of a step both sides have; the outcomes of the others are this side's."""
        answered = [entry for entry in made if type(entry.record) in _ANSWERED]
        intended = [record for record, _ in logged if type(record) in WITH_INTENTS]
        if answered or intended:
            self._match_intents(intended, answered)

    def _match_intents(self, logged: Sequence[Record], answered: Sequence[LogEntry]) -> None:
        intents, evicted, writes = intents_of(logged)
        own_evicted: set[str] = set()
        for entry in answered:
            record, now = entry.record, entry.at
            if (bind := bind_of(record)) is not None:
                self._matched.discard(bind.uid)
                if bind.uid in intents:
                    self._matched.add(bind.uid)
                else:
                    self._own.bind(bind.uid, bind.node, bind.attempt, now)
            elif isinstance(record, records.PodBound):
                if (ends_at := self._runs.bound(record.uid, now)) is not None:
                    self._own.end(record.uid, ends_at)
            elif isinstance(record, records.PreparationIntended):
                state, asked = self.engine.state, set(writes_of(record))
                if asked and asked == writes.get(record.uid):
                    self._matched.add(record.uid)
                else:
                    for write in dict.fromkeys(writes_of(record)):
                        self._own.write(record.uid, record.attempt, write, state, now)
            elif isinstance(record, records.PreemptionDecided):
                own_evicted.update(record.evicted)
                for uid in record.evicted:
                    if uid in evicted:
                        self._shared.add(uid)
                    else:
                        self._own.evict(uid, now)
        for uid in evicted - own_evicted:
            pod_state = self.engine.state.pods.get(uid)
            if pod_state is not None and pod_state.pod.owner is None:
                self._spared.add(uid)

    def _apply(self, record: Record, at: int) -> None:
        """Applies a record of history, and notes what later stimuli depend on."""
        self.history.apply(record, at)
        note = self._notes.get(type(record))
        if note is not None:
            note(self, record, at)

    def _note_intent(self, record: PodDecided | records.BindIntended, at: int) -> None:
        if bind_of(record) is not None:
            self._intended_at[record.uid] = at
        self._active.discard(record.uid)

    def _note_queue(self, record: records.PodQueued, at: int) -> None:
        change = self._active.add if record.queue is Queue.ACTIVE else self._active.discard
        change(record.uid)

    def _note_outcome(self, record: records.BindSucceeded, at: int) -> None:
        if (intended_at := self._intended_at.pop(record.uid, None)) is not None:
            self._own.bind_delay = at - intended_at

    def _note_deletion(self, record: records.PodDeleted, at: int) -> None:
        self._active.discard(record.uid)
        self._bound_here.discard(record.uid)
        self._intended_at.pop(record.uid, None)
        self._shared.discard(record.uid)

    def _note_update(self, record: records.PodUpdated, at: int) -> None:
        if record.pod.node_name:
            self._active.discard(record.pod.uid)

    def _note_refused_eviction(self, record: records.EvictionFailed, at: int) -> None:
        self._shared.discard(record.uid)
        self._spared.discard(record.uid)

    _notes: ClassVar[Mapping[type[Record], Callable[[Any, Any, int], None]]] = {
        PodDecided: _note_intent,
        records.BindIntended: _note_intent,
        records.PodQueued: _note_queue,
        records.BindSucceeded: _note_outcome,
        records.PodBound: lambda loop, record, at: loop._bound_here.add(record.uid),
        records.PodDeleted: _note_deletion,
        records.PodSkipped: lambda loop, record, at: loop._active.discard(record.uid),
        records.PodUpdated: _note_update,
        records.EvictionFailed: _note_refused_eviction,
    }

    def _chosen(self, judgement: Judgement, choice: Choice) -> None:
        """Called with what an attempt of this side chose. It is compared with history's attempt in
        the same step, or with where history has the pod already."""
        uid = judgement.pod.uid
        decided = self._decided
        if decided is None or uid != decided[0].uid:
            pod_state = self.history.pods.get(uid)
            if pod_state is None or not pod_state.booked_node:
                return
            node = pod_state.booked_node
            decided = PodDecided(uid=uid, attempt=0, outcome=Outcome.SCHEDULED, node=node), -1
        reason = reason_of(judgement, choice, *decided)
        if reason is None:
            self.reasons.pop(uid, None)
        else:
            self.reasons[uid] = reason
