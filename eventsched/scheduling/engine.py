"""The engine: stimuli in, records out; pure, deterministic, seeded.

The leader, the simulation and replay call it. ``observe`` applies a stimulus, ``schedule_next``
runs one attempt for the head of the queue; both apply their decisions at once and return the
records to log, in order. Nothing here waits or reads a clock.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from eventsched.domain import records
from eventsched.domain.detail_levels import DetailLevels
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import TYPES, ClusterObject
from eventsched.domain.records import MoveCause, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.state_snapshot import StateSnapshot
from eventsched.scheduling.binding.binding_cycle import Binding
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.cycle.judgement import Judgement, judge
from eventsched.scheduling.deadline_overruns import DeadlineOverruns
from eventsched.scheduling.extender_server import ExtenderServer
from eventsched.scheduling.followed_placements import FollowedPlacements
from eventsched.scheduling.framework import ClusterEvent, Status
from eventsched.scheduling.framework.call_guard import OverrunError
from eventsched.scheduling.framework.extender import Extender, binder
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.framework.wait_results import NODE, key_of
from eventsched.scheduling.overcommitment import overcommitted, overcommitted_resources
from eventsched.scheduling.preemption.nomination_step import is_awaited
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.memory_writer import MemoryWriter
from eventsched.scheduling.queueing.node_events import node_events
from eventsched.scheduling.queueing.queue_index import Backoff
from eventsched.scheduling.queueing.scheduling_queue import SchedulingQueue
from eventsched.scheduling.scheduling_cycle import SchedulingCycle
from eventsched.scheduling.seen_stimuli import as_seen, is_no_change


class Engine:
    """Decides for one stream. All profiles share its queue and its state."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        backoff: Backoff | None = None,
        *,
        with_detail: bool = True,
        detail_levels: DetailLevels | None = None,
        classes: ClassCache | None = None,
        extenders: Sequence[Extender] = (),
        state: SchedulerState | None = None,
    ) -> None:
        """``profiles`` are keyed by schedulerName and share one QueueSort. Without detail,
        decisions carry neither vectors nor digests; that serves to measure the cost of
        recording. With it they carry the vectors that ``detail_levels`` says, by default all.
        An engine of a ``state`` goes on from it; a new one has an empty state."""
        self._step = EngineStep(profiles, extenders, state)
        self.state = self._step.state
        """The state. Callers only read it."""
        self.set_detail(detail_levels or DetailLevels())
        self._classes = classes or ClassCache()
        self._scheduling_queue = SchedulingQueue(self._step, backoff or Backoff())
        self._memory_writer = MemoryWriter(self._step, self._scheduling_queue)
        self._binding = Binding(self._step, self._scheduling_queue, self._memory_writer)
        self._followed = FollowedPlacements(self._step, self._classes, self._binding)
        self._overruns = DeadlineOverruns(self._step)
        self._extender_server = ExtenderServer(self._step, self._classes, self._memory_writer)
        self.scheduling_cycle = SchedulingCycle(
            self._step,
            self._scheduling_queue,
            self._binding,
            self._classes,
            with_detail=with_detail,
        )
        """For callers that ``watch`` attempts or ``consider`` one."""

    @property
    def position(self) -> int:
        """The position of the next record."""
        return self._step.position

    def set_detail(self, levels: DetailLevels) -> None:
        """Sets which vectors the next decisions carry. No record depends on it."""
        self._step.detail_levels = levels

    def observe(self, stimulus: records.Stimulus, at: int) -> list[LogEntry]:
        """Applies a stimulus of a time (µs, not before that of the previous one) and returns its
        record and the events that follow.

        A stimulus that changes nothing that scheduling reads gives no record. An addition of a
        known object counts as an update, and the other way round. Raises ValueError if time goes
        back, and OverrunError if a plugin took too long: drop this engine, and let its successor
        observe ``unrecorded``.
        """
        if at < self.state.now:
            raise ValueError(f"stimulus at {at} µs after one at {self.state.now} µs")
        self._overruns.apply()
        if (seen := as_seen(self.state, stimulus)) is None or is_no_change(self.state, seen):
            return []
        self._step.begin()
        self._observers.get(type(seen), Engine._recorded)(self, seen, at)
        self._binding.groups_changed(seen)
        return self._step.drain()

    def schedule_next(self) -> list[LogEntry]:
        """Runs one attempt for the head of the active queue, or continues the one in progress.
        Returns nothing if the queue is empty or the answer of an extender is awaited. A call that
        takes too long makes the attempt void; OverrunError is raised if the state has changed
        already."""
        uid = self._next()
        if uid is None:
            return []
        self._step.begin()
        self._forget_dropped_codes()
        self._overruns.apply(uid)
        try:
            self.scheduling_cycle.run(uid)
        except OverrunError as overrun:
            self._classes.forget()  # the call may have left them incomplete
            if self._step.is_empty:
                return self.observe(self._overruns.of_attempt(uid, overrun), self.state.now)
            raise
        return self._step.drain()

    def judge(self, pod: Pod) -> Judgement:
        """The current verdict of every node for a pod; nothing is placed or logged. Raises
        PluginError, and KeyError if no profile has the pod's schedulerName."""
        profile = self._profile(pod)
        preemptions = self.state.preemptions
        known = pod.uid in self.state.pods
        return judge(
            self.state.nodes, self._classes, profile, pod, self._step.cycle(1),
            preemptions=preemptions,
            nominated=preemptions.node(pod.uid) if known else pod.nominated_node,
        )  # fmt: skip

    def gate(self, pod: Pod) -> Status | None:
        """The status of the PreEnqueue plugin that keeps a pod out of the active queue, if any.
        Raises KeyError if no profile has the pod's schedulerName."""
        gate = self._scheduling_queue.gate(self._profile(pod), pod)
        return None if gate is None else gate[1]

    def _profile(self, pod: Pod) -> Profile:
        profile = self._step.profile_for(pod.scheduler_name)
        if profile is None:
            raise KeyError(pod.scheduler_name)
        return profile

    def apply(self, logged: LogEntry) -> None:
        """Applies a record from the log, for restart and replay."""
        self._step.position = logged.position
        self._step.record(logged.record, logged.at)
        self._step.drain()
        self._step.queue.prebind_waits.forget()

    def unrecorded(self) -> list[records.PluginOverran]:
        """Overruns that made an earlier engine unusable and are not in the log yet."""
        return self._overruns.unrecorded()

    def snapshot(self) -> bytes:
        """The state as bytes, for ``restore``."""
        return snapshot.encode(self.state)

    def restore(self, body: bytes | StateSnapshot, position: int) -> None:
        """Loads the state after the records before a position: the bytes of a snapshot, or a copy
        of a state. Only for a new engine. Raises msgspec.ValidationError or DecodeError."""
        snapshot.restore(self.state, body)
        self._step.restored(position)

    @property
    def due(self) -> int | None:
        """When (µs) TimePassed has to be observed next, apart from the flush."""
        queue = self._step.queue
        deadline, backoff = queue.next_deadline(), queue.next_backoff()
        if deadline is None or backoff is None:
            return backoff if deadline is None else deadline
        return min(deadline, backoff)

    @property
    def has_timers(self) -> bool:
        """Whether there may be a time at which TimePassed has to be observed."""
        return self._step.queue.has_timers

    @property
    def flush_due(self) -> int | None:
        """When (µs) the next unschedulable pod has to be flushed."""
        return self._step.queue.next_flush()

    @property
    def queue_lengths(self) -> Mapping[Queue, int]:
        """Pods in each queue."""
        return self._step.queue.lengths

    @property
    def idle(self) -> bool:
        """Whether there is no pod to schedule now."""
        return self._next() is None

    def binder(self, pod: Pod) -> Extender | None:
        """The extender that binds a pod; None if it is bound as usual."""
        return binder(self._step.extenders, pod)

    @property
    def asks(self) -> bool:
        """Whether there are extenders, whose answers attempts need."""
        return bool(self._step.extenders)

    def _next(self) -> str | None:
        """The pod to schedule next. Attempts run one after the other, so an attempt that waits for
        an extender holds up all others."""
        consultation = self.state.consultation
        if consultation is None:
            return self._step.queue.head()
        return None if consultation.question is not None else consultation.uid

    def _forget_dropped_codes(self) -> None:
        """Drops the cached columns, which have codes, if a plugin has begun its numbering again."""
        if self._step.drop_codes():
            self._classes.forget()

    # --- stimuli --------------------------------------------------------------------------

    def _recorded(self, stimulus: records.Stimulus, at: int) -> None:
        """Records a stimulus and emits its consequences: an outcome, or time."""
        self._step.record(stimulus, at)
        match stimulus:
            case records.BindSucceeded() | records.BindFailed():
                self._binding.bind_ended(stimulus)
            case records.BindVoided():
                self._binding.bind_voided(stimulus)
            case records.WriteSucceeded():
                self._binding.write_succeeded(stimulus)
            case records.WriteFailed():
                self._binding.write_failed(stimulus)
            case records.MemoryForgotten():
                self._forget(stimulus)
            case records.ExtenderInquired():
                self._forget_dropped_codes()
                self._extender_server.reply(stimulus)
            case records.SamplesTaken():
                self._scheduling_queue.samples_taken(stimulus.source)
            case records.TimePassed():
                self._binding.expire_waits()
                self._scheduling_queue.move_due_pods()
            case records.TermBegan() if stimulus.engine:
                self._scheduling_queue.reconfigured()
                self._binding.reconfigured()

    def _forget(self, forgotten: records.MemoryForgotten) -> None:
        """Pods that the plugin refused may pass now. An unknown key has no effect."""
        plugin, key = forgotten.plugin, forgotten.key
        if key in self.state.memory.get(plugin, ()):
            self._memory_writer.remove(plugin, key)

    def _pod_added(self, added: records.PodAdded, at: int) -> None:
        before = self._excess(added.pod.node_name)
        self._step.record(added, at)
        self._compare_room(added.pod.node_name, before, added.pod.uid)
        pod_state = self.state.pods[added.pod.uid]
        if pod_state.bound:
            self._assigned_pod_changed(ClusterEvent.ASSIGNED_POD_ADD, added.pod)
        elif self._step.scheduling_profile(pod_state) is not None:
            self._scheduling_queue.add(pod_state, MoveCause.POD_ADD)

    def _pod_updated(self, updated: records.PodUpdated, at: int) -> None:
        pod_state = self.state.pods[updated.pod.uid]
        old, was_bound = pod_state.pod, pod_state.bound
        nominated = self.state.preemptions.node(old.uid)
        reservation = self.state.reservations.get(updated.pod.uid)
        before, chosen = self._excess(updated.pod.node_name), self._followed.chosen(pod_state)
        self._step.record(updated, at)
        is_as_chosen = False
        if chosen is not None and pod_state.bound:
            is_as_chosen = self._followed.placed(pod_state, chosen)
        self._compare_room(updated.pod.node_name, before, old.uid)
        if reservation is not None and pod_state.bound and not is_as_chosen:
            self._binding.reserved_pod_bound(pod_state, reservation)
        if pod_state.bound:
            event = ClusterEvent.ASSIGNED_POD_UPDATE if was_bound else ClusterEvent.ASSIGNED_POD_ADD
            self._assigned_pod_changed(event, updated.pod, old)
        elif pod_state.queue is not None:
            self._scheduling_queue.pod_updated(pod_state, old)
        if nominated and nominated != self.state.preemptions.node(old.uid):
            self._scheduling_queue.nomination_ended(old, nominated)

    def _excess(self, node: str) -> frozenset[str]:
        return overcommitted_resources(self.state.nodes, node) if node else frozenset()

    def _compare_room(self, node: str, before: frozenset[str], by: str) -> None:
        """Emits NodeOvercommitted if the node has become overcommitted."""
        event = overcommitted(self.state.nodes, node, before, by) if node else None
        if event is not None:
            self._step.emit(event)

    def _pod_deleted(self, deleted: records.PodDeleted, at: int) -> None:
        pod_state = self.state.pods[deleted.uid]
        row = pod_state.row
        reservation = self.state.reservations.get(deleted.uid)
        nominated = self.state.preemptions.node(deleted.uid)
        remembering = self.state.memory_use.plugins_of(deleted.uid)
        chosen = self._followed.chosen(pod_state)
        self._step.record(deleted, at)
        if chosen is not None:
            self._followed.deleted(deleted.uid, chosen)
        if nominated:
            self._scheduling_queue.nomination_ended(pod_state.pod, nominated)
        if reservation is not None:
            self._binding.pod_gone(pod_state, reservation)
        if row >= 0:
            self._scheduling_queue.wake(
                [ClusterEvent.ASSIGNED_POD_DELETE], row=row, pod=pod_state.pod
            )
            self._room_made(self.state.nodes.names[row], ClusterEvent.ASSIGNED_POD_DELETE)
        for plugin in remembering:
            self._memory_writer.trim(plugin)

    def _room_made(self, node: str, event: ClusterEvent) -> None:
        """Wakes the pods nominated to a node once no victim is left there. They may no longer fit,
        if another pod took the room; then they need another node, and no queueing hint would wake
        them. (Upstream wakes them for any deleted pod.)"""
        nominated = self.state.preemptions.on(node)
        for uid in sorted(nominated):
            pod_state = self.state.pods[uid]
            if pod_state.queue is Queue.UNSCHEDULABLE and not is_awaited(
                self.state, pod_state.pod, node
            ):
                self._scheduling_queue.move_to_active_or_backoff(pod_state, event)

    def _eviction_ended(
        self, outcome: records.EvictionSucceeded | records.EvictionFailed, at: int
    ) -> None:
        """After a refused eviction the preemptor is tried again, but after its backoff, because
        evictions may be refused forever. (Upstream activates it at once: executor.go
        prepareCandidateAsync.)"""
        eviction = self.state.preemptions.evicting.get(outcome.uid)
        pod_state = self.state.pods.get(outcome.uid)
        old = pod_state.pod if pod_state is not None else None
        self._step.record(outcome, at)
        if isinstance(outcome, records.EvictionFailed):
            waiting = self.state.preemptions.on(eviction.node) if eviction is not None else {}
            for uid in list(waiting):
                self._scheduling_queue.eviction_failed(
                    self.state.pods[uid], MoveCause.EVICTION_FAILED
                )
        elif pod_state is not None and pod_state.bound and pod_state.pod is not old:
            self._assigned_pod_changed(ClusterEvent.ASSIGNED_POD_UPDATE, pod_state.pod, old)

    def _assigned_pod_changed(self, event: ClusterEvent, pod: Pod, old: Pod | None = None) -> None:
        row = self.state.nodes.rows.get(pod.node_name)
        self._scheduling_queue.wake([event], row=row, pod=pod, old_pod=old)

    def _node_changed(
        self, stimulus: records.NodeAdded | records.NodeUpdated | records.NodeDeleted, at: int
    ) -> None:
        nodes = self.state.nodes
        node = None if isinstance(stimulus, records.NodeDeleted) else stimulus.node
        name = stimulus.name if isinstance(stimulus, records.NodeDeleted) else stimulus.node.name
        row = nodes.rows.get(name)
        old = None if row is None else nodes.nodes[row]
        events = node_events(old, stimulus)
        before = self._excess(name)
        self._step.record(stimulus, at)
        self._compare_room(name, before, "")
        self._scheduling_queue.wake(events, row=nodes.rows.get(name), node=node, old=old)
        if node is None:
            self._binding.node_gone(name)
            self._room_made(name, ClusterEvent.NODE_DELETE)
        self._binding.object_changed((NODE, "", name))

    def _object_changed(
        self, stimulus: records.ObjectChanged | records.ObjectDeleted, at: int
    ) -> None:
        old: ClusterObject | None
        new: ClusterObject | None = None
        if isinstance(stimulus, records.ObjectChanged):
            new = stimulus.object
            old = self.state.registry.get(type(new), new.name, new.namespace)
        else:
            kind = TYPES[stimulus.type]
            old = self.state.registry.get(kind, stimulus.name, stimulus.namespace)
        self._step.record(stimulus, at)
        self._scheduling_queue.object_changed(old, new)
        changed = new or old
        if changed is not None:
            self._binding.object_changed(key_of(changed))

    _observers: ClassVar[Mapping[type[records.Stimulus], Callable[[Any, Any, int], None]]] = {
        records.PodAdded: _pod_added,
        records.PodUpdated: _pod_updated,
        records.PodDeleted: _pod_deleted,
        **dict.fromkeys(
            (records.NodeAdded, records.NodeUpdated, records.NodeDeleted), _node_changed
        ),
        **dict.fromkeys((records.ObjectChanged, records.ObjectDeleted), _object_changed),
        **dict.fromkeys((records.EvictionSucceeded, records.EvictionFailed), _eviction_ended),
    }
    """What takes a stimulus; ``_recorded`` takes all others."""
