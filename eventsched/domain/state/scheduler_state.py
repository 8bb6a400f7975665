"""The scheduler's state and ``apply``, the only code that changes it.

A live run applies each record as it is made; a restart or a replay applies the same records as it
reads them. Heaps, caches and column digests are derived from the state elsewhere.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

from eventsched.domain import records
from eventsched.domain.behaviours import Behaviour, require_known
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import TYPES, NodeResourceTopology
from eventsched.domain.records import Outcome, Record
from eventsched.domain.records.record_catalogue import CATALOGUE
from eventsched.domain.records.stimuli import in_force, serves, shadows, work_budget
from eventsched.domain.records.verdicts import ScoreColumn, Verdict, VerdictCode
from eventsched.domain.state.digest import digest_of
from eventsched.domain.state.parts.consultation import Consultation
from eventsched.domain.state.parts.preemptions import Eviction
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.state_attributes import StateAttributes
from eventsched.domain.state.state_snapshot import copied

__all__ = ["PodState", "SchedulerState"]

_WITHOUT_EFFECT = tuple(row.record for row in CATALOGUE if not row.changes_state)


class SchedulerState(StateAttributes):
    """Everything that decisions depend on, folded from the log."""

    def apply(self, record: Record, at: int) -> None:
        """Applies one record. ``at`` is its time in microseconds; time never goes back. Raises
        KeyError for a record that does not fit the state: the log is damaged."""
        if at > self.now:
            self.now = at
            self.nodes.samples.advance(at)
        self._handlers[type(record)](self, record)
        self.position += 1

    # --- stimuli --------------------------------------------------------------------------

    def _ignore(self, record: Record) -> None:
        """For records whose consequences are all recorded as events."""

    def _stream_started(self, started: records.StreamStarted) -> None:
        self.seed = started.seed
        self.timeline = started.timeline
        self._adopt_settings(started)

    def _term_began(self, began: records.TermBegan) -> None:
        if began.timeline:
            self.timeline = began.timeline
        if began.engine:
            self._adopt_settings(began)
            self.consultation = None  # the term may have other extenders
            self.overruns.clear()

    def _adopt_settings(self, source: records.StreamStarted | records.TermBegan) -> None:
        """Puts the configuration and flags of a stream or term in force. Raises NewerLogError for
        unknown flags."""
        require_known(source.flags, f"position {self.position} of the log")
        bounded = Behaviour.BOUNDS_MEMORY in self.flags
        self.in_force, self.serves, self.flags = in_force(source), serves(source), source.flags
        self.shadows, self.work_budget = shadows(source), work_budget(source)
        self.nodes.free_columns(is_on=Behaviour.FREES_COLUMNS in self.flags)
        if Behaviour.BOUNDS_MEMORY not in self.flags:
            self.memory_use.clear()
        elif not bounded:
            self.memory_use.begin(self.memory, self.now)

    def _history_lost(self, lost: records.HistoryLost) -> None:
        self.timeline = lost.timeline

    def _node_added(self, added: records.NodeAdded) -> None:
        self.nodes.add(added.node, added.row)
        for uid in self._on_unknown_nodes.pop(added.node.name, {}):
            self._book_on_row(self.pods[uid])

    def _node_updated(self, updated: records.NodeUpdated) -> None:
        self.nodes.update(updated.node)

    def _node_deleted(self, deleted: records.NodeDeleted) -> None:
        row = self.nodes.remove(deleted.name, self.now)
        for uid, pod in list(self.nodes.residents[row].items()):
            self.nodes.place(row, pod, -1)
            self.pods[uid].row = -1
            self._on_unknown_nodes.setdefault(deleted.name, {})[uid] = None

    def _pod_added(self, added: records.PodAdded) -> None:
        pod, bound = self._interned(added.pod), bool(added.pod.node_name)
        state = self.pods[pod.uid] = PodState(pod, bound=bound, number=self.position)
        self._book(state, state.pod.node_name)
        self.topologies.move(state, "", reserved=False)
        if not state.bound:
            self._nominate(state, state.pod.nominated_node)

    def _pod_updated(self, updated: records.PodUpdated) -> None:
        pod_state = self.pods[updated.pod.uid]
        reservation = self.reservations.get(updated.pod.uid)
        previous_node = pod_state.booked_node
        self._book(pod_state, "")
        before, node = pod_state.pod, pod_state.pod.node_name
        follows = self.is_followed(pod_state) and updated.pod.node_name != ""
        pod_state.pod = self._interned(updated.pod)
        if pod_state.bound and not pod_state.pod.node_name:
            # A pod never leaves its node: the watch is behind the outcome of our bind.
            pod_state.pod = msgspec.structs.replace(pod_state.pod, node_name=node)
        if pod_state.pod.node_name:
            pod_state.bound, pod_state.queue = True, None
            self._end_attempt(updated.pod.uid)
            if reservation is not None and (
                reservation.node != pod_state.pod.node_name or not reservation.intended or follows
            ):
                del self.reservations[updated.pod.uid]
        target = pod_state.pod.node_name or (reservation.node if reservation else "")
        self._book(pod_state, "" if follows else target)
        self.topologies.move(pod_state, previous_node, reserved=False)
        self._nominate(pod_state, self._nominated_now(pod_state, before))
        if pod_state.pod.deleting:
            self.preemptions.evicting.pop(pod_state.pod.uid, None)

    def _nominated_now(self, pod_state: PodState, before: Pod) -> str:
        """The nomination after an update: the cluster's if the update changed it, otherwise ours
        (upstream: nominator.go UpdateNominatedPod)."""
        if pod_state.bound or pod_state.pod.uid in self.reservations:
            return ""
        if pod_state.pod.nominated_node != before.nominated_node:
            return pod_state.pod.nominated_node
        return self.preemptions.node(pod_state.pod.uid)

    def _pod_deleted(self, deleted: records.PodDeleted) -> None:
        pod_state = self.pods[deleted.uid]
        self._book_reservation(pod_state, "")
        self._nominate(pod_state, "")
        self.preemptions.evicting.pop(deleted.uid, None)
        del self.pods[deleted.uid]
        self.reservations.pop(deleted.uid, None)
        self.memory_use.pod_deleted(deleted.uid, self.now)
        self._end_attempt(deleted.uid)

    def _eviction_succeeded(self, succeeded: records.EvictionSucceeded) -> None:
        self.preemptions.evicting.pop(succeeded.uid, None)
        pod_state = self.pods.get(succeeded.uid)
        if pod_state is not None and not pod_state.pod.deleting:
            before = pod_state.pod
            pod_state.pod = msgspec.structs.replace(before, deleting=True, displaced=True)
            if pod_state.row >= 0:
                self.nodes.replace(pod_state.row, before, pod_state.pod)
                self.bookings += 1  # replaced: now the last pod of its row
                pod_state.booking_order = self.bookings
            else:
                self._book(pod_state, pod_state.booked_node)

    def _eviction_failed(self, failed: records.EvictionFailed) -> None:
        self.preemptions.evicting.pop(failed.uid, None)

    def _write_succeeded(self, succeeded: records.WriteSucceeded) -> None:
        reservation = self.reservations.get(succeeded.uid)
        if reservation is not None and reservation.attempt == succeeded.attempt:
            reservation.close_write(succeeded.write)

    def _object_changed(self, changed: records.ObjectChanged) -> None:
        self.registry.put(changed.object)
        if isinstance(changed.object, NodeResourceTopology):
            self.topologies.put(changed.object)

    def _object_deleted(self, deleted: records.ObjectDeleted) -> None:
        kind = TYPES[deleted.type]
        self.registry.remove(kind, deleted.namespace, deleted.name)
        if kind is NodeResourceTopology:
            self.topologies.remove(deleted.name)

    def _extender_answered(self, answered: records.ExtenderAnswered) -> None:
        assert self.consultation is not None
        assert self.consultation.awaits(answered)
        self.consultation.answered.append(answered)

    # --- events ---------------------------------------------------------------------------

    def _extender_asked(self, question: records.ExtenderAsked) -> None:
        if self.consultation is None:
            self.consultation = Consultation([])
        self.consultation.asked.append(question)

    def _extender_replied(self, replied: records.ExtenderReplied) -> None:
        if replied.attempt:
            pod_state = self.pods[replied.uid]
            pod_state.attempts = replied.attempt
            self._nominate(pod_state, "")
            self.reservations[replied.uid] = Reservation.of(replied.node, replied.attempt)
            self._book_reservation(pod_state, replied.node)

    def _end_attempt(self, uid: str) -> None:
        """Forgets what is kept only during a pod's attempt."""
        if self.overruns:
            self.overruns[:] = [overrun for overrun in self.overruns if overrun.uid != uid]
        if self.consultation is not None and self.consultation.uid == uid:
            self.consultation = None

    def _verdict_defined(self, defined: records.VerdictDefined) -> None:
        assert defined.number == len(self.verdicts)
        self.define_verdict(defined.verdict)

    def define_verdict(self, verdict: Verdict) -> None:
        """Gives a verdict the next number of the dictionary."""
        self.verdict_numbers[verdict] = VerdictCode(len(self.verdicts))
        self.verdicts.append(verdict)

    def _scoring_defined(self, defined: records.ScoringDefined) -> None:
        assert defined.number == len(self.scorings)
        self.define_scoring(defined.columns)

    def define_scoring(self, columns: tuple[ScoreColumn, ...]) -> None:
        """Gives score columns the next number of the dictionary."""
        self.scoring_numbers[columns] = len(self.scorings)
        self.scorings.append(columns)

    def _pod_queued(self, queued: records.PodQueued) -> None:
        pod_state = self.pods[queued.uid]
        if pod_state.queue is None:
            pod_state.since = self.now
        self.order += 1
        pod_state.order = self.order
        pod_state.queue = queued.queue
        pod_state.entered = self.now
        pod_state.until = queued.until
        pod_state.rejectors = queued.rejectors
        pod_state.pending = queued.pending
        pod_state.failures = queued.failures
        pod_state.errors = queued.errors

    def _pod_decided(self, decided: records.PodDecided) -> None:
        pod_state = self.pods[decided.uid]
        pod_state.attempts = decided.attempt
        pod_state.queue = None
        self._end_attempt(decided.uid)
        if decided.start >= 0 and self.nodes.live:
            self.next_start = (decided.start + decided.evaluated) % self.nodes.live
        if decided.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
            pod_state.until = 0  # failures and errors are reset only when the bind succeeds
            pod_state.rejectors = pod_state.pending = ()
            self._nominate(pod_state, "")
            self.reservations[decided.uid] = Reservation(decided)
            self._book_reservation(pod_state, decided.node)

    def _permit_granted(self, granted: records.PermitGranted) -> None:
        del self.reservations[granted.uid].waits[granted.plugin]

    def _preparation_intended(self, intended: records.PreparationIntended) -> None:
        self.reservations[intended.uid].prepare(intended)

    def _bind_intended(self, intended: records.BindIntended) -> None:
        self.reservations[intended.uid].intend_bind()

    def _pod_unreserved(self, unreserved: records.PodUnreserved) -> None:
        del self.reservations[unreserved.uid]
        self._book_reservation(self.pods[unreserved.uid], "")

    def _pod_skipped(self, skipped: records.PodSkipped) -> None:
        self.pods[skipped.uid].queue = None
        self._end_attempt(skipped.uid)

    def _pod_bound(self, bound: records.PodBound) -> None:
        pod_state = self.pods[bound.uid]
        del self.reservations[bound.uid]
        pod_state.bound = True
        pod_state.failures = pod_state.errors = 0
        pod_state.pod = msgspec.structs.replace(pod_state.pod, node_name=bound.node)
        if pod_state.row >= 0:
            self.nodes.residents[pod_state.row][bound.uid] = pod_state.pod
        self.topologies.move(pod_state, pod_state.booked_node, reserved=True)

    def _preemption_decided(self, decided: records.PreemptionDecided) -> None:
        self._nominate(self.pods[decided.uid], decided.node)
        for uid in decided.evicted if not self.shadows else ():  # a shadow evicts none
            self.preemptions.evicting[uid] = Eviction(decided.node, decided.uid)

    def _nomination_cleared(self, cleared: records.NominationCleared) -> None:
        self._nominate(self.pods[cleared.uid], "")

    def _nominate(self, pod_state: PodState, node: str) -> None:
        """Sets the pod's nomination; "" for none."""
        uid, rows = pod_state.pod.uid, self.nodes.rows
        previous_node = self.preemptions.node(uid)
        if previous_node:
            self.preemptions.withdraw(uid, rows.get(previous_node, -1))
        if node:
            self.preemptions.nominate(pod_state.pod, node, rows.get(node, -1))

    def _memory_changed(self, changed: records.MemoryChanged) -> None:
        plugin, key = changed.plugin, changed.key
        memory = self.memory.setdefault(plugin, {})
        if changed.value is None:
            memory.pop(key, None)
            self.memory_use.removed(plugin, key)
            return
        memory[key] = changed.value
        if Behaviour.BOUNDS_MEMORY in self.flags:
            user = changed.used_by if changed.used_by in self.pods else ""
            self.memory_use.changed(plugin, key, user, self.now)

    def _placement_compared(self, compared: records.PlacementCompared) -> None:
        """Until here the pod was on no node, so that the nodes could be judged without it."""
        if compared.node:
            pod_state = self.pods[compared.uid]
            self._book(pod_state, compared.node)
            self.topologies.move(pod_state, "", reserved=False)

    _handlers: ClassVar[Mapping[type[Record], Callable[[Any, Any], None]]] = {
        **dict.fromkeys(_WITHOUT_EFFECT, _ignore),
        records.StreamStarted: _stream_started,
        records.TermBegan: _term_began,
        records.HistoryLost: _history_lost,
        records.NodeAdded: _node_added,
        records.NodeUpdated: _node_updated,
        records.NodeDeleted: _node_deleted,
        records.PodAdded: _pod_added,
        records.PodUpdated: _pod_updated,
        records.PodDeleted: _pod_deleted,
        records.ObjectChanged: _object_changed,
        records.ObjectDeleted: _object_deleted,
        records.EvictionSucceeded: _eviction_succeeded,
        records.EvictionFailed: _eviction_failed,
        records.WriteSucceeded: _write_succeeded,
        records.PluginOverran: lambda state, overran: state.overruns.append(overran),
        records.SamplesTaken: lambda state, taken: state.nodes.samples.take(taken),
        records.ExtenderAnswered: _extender_answered,
        records.ExtenderAsked: _extender_asked,
        records.ExtenderReplied: _extender_replied,
        records.VerdictDefined: _verdict_defined,
        records.ScoringDefined: _scoring_defined,
        records.PodQueued: _pod_queued,
        records.PodDecided: _pod_decided,
        records.PermitGranted: _permit_granted,
        records.PreparationIntended: _preparation_intended,
        records.BindIntended: _bind_intended,
        records.PodUnreserved: _pod_unreserved,
        records.PodSkipped: _pod_skipped,
        records.PodBound: _pod_bound,
        records.PreemptionDecided: _preemption_decided,
        records.NominationCleared: _nomination_cleared,
        records.MemoryChanged: _memory_changed,
        records.PlacementCompared: _placement_compared,
    }
    """Functions of the class, so that a state does not refer to itself: one that is dropped is
    freed at once."""

    # --- questions ------------------------------------------------------------------------

    def is_followed(self, pod_state: PodState) -> bool:
        """Whether a pod waits for a scheduler that is followed to place it."""
        return not pod_state.bound and pod_state.pod.scheduler_name in self.shadows

    def digest(self) -> str:
        """32 hex digits, equal for states that make the same decisions; see ``digest_of``."""
        return digest_of(copied(self))
