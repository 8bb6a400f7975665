"""The engine: stimuli in, events out, state in between; pure, deterministic, seeded.

Called by the runtime's one writer and by whatever replays. ``observe`` takes in what happened,
``schedule_next`` makes one attempt for the head of the queue; both apply what they decide at once
and return the records to be logged, in order. Nothing here waits, sleeps, or knows what time it is.
"""

from collections.abc import Mapping, Sequence

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.objects.registry import TYPES, ClusterObject
from eventsched.domain.records import Queue
from eventsched.domain.records.logged import Logged
from eventsched.domain.state import snapshot
from eventsched.domain.state.reservations import Reservation
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.scheduling.binding.binding_cycle import Binding
from eventsched.scheduling.cycle.equivalence import ClassCache
from eventsched.scheduling.cycle.judgement import Judgement, judge
from eventsched.scheduling.deadline_overruns import Overruns
from eventsched.scheduling.extender_server import Serving
from eventsched.scheduling.framework import ClusterEvent, Status
from eventsched.scheduling.framework.call_guard import OverrunError
from eventsched.scheduling.framework.extender import Extender, binder
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.framework.sampling import of_nodes
from eventsched.scheduling.framework.wait_results import NODE, key_of
from eventsched.scheduling.overcommitment import excess, overcommitted
from eventsched.scheduling.preemption.nomination_step import is_awaited
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.node_events import node_events
from eventsched.scheduling.queueing.queue import Backoff
from eventsched.scheduling.queueing.requeueing import Requeueing
from eventsched.scheduling.scheduling_cycle import Attempts


class Engine:
    """A scheduler's mind. One a stream; all profiles share its queue and its state."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        backoff: Backoff | None = None,
        *,
        with_detail: bool = True,
        classes: ClassCache | None = None,
        extenders: Sequence[Extender] = (),
    ) -> None:
        """``profiles`` by schedulerName; all have the same QueueSort. Without detail decisions
        carry neither vectors nor digests: for measuring what recording costs."""
        self._step = EngineStep(profiles, extenders)
        self._classes = classes or ClassCache()
        self._requeueing = Requeueing(self._step, backoff or Backoff())
        self._binding = Binding(self._step, self._requeueing)
        self._overruns = Overruns(self._step)
        self._serving = Serving(self._step, self._classes)
        self._attempts = Attempts(
            self._step, self._requeueing, self._binding, self._classes, with_detail=with_detail
        )

    @property
    def state(self) -> SchedulerState:
        """The state, to be read."""
        return self._step.state

    @property
    def position(self) -> int:
        """The position of the next record."""
        return self._step.position

    def observe(self, stimulus: records.Stimulus, at: int) -> list[Logged]:
        """Takes in what happened at a time (µs, never before that of an earlier stimulus) and
        returns the stimulus' record and the events that follow.

        What changes nothing that scheduling reads gives no record at all; an addition of what is
        known is taken as an update, and the other way round. Raises ValueError when time goes back,
        and OverrunError where a plugin took too long: its successor is to observe ``unrecorded``.
        """
        if at < self.state.now:
            raise ValueError(f"stimulus at {at} µs after one at {self.state.now} µs")
        self._overruns.apply()
        if (seen := self._as_seen(stimulus)) is None or self._is_no_change(seen):
            return []
        stimulus = seen
        self._step.begin()
        match stimulus:
            case records.PodAdded():
                self._pod_added(stimulus, at)
            case records.PodUpdated():
                self._pod_updated(stimulus, at)
            case records.PodDeleted():
                self._pod_deleted(stimulus, at)
            case records.NodeAdded() | records.NodeUpdated() | records.NodeDeleted():
                self._node_changed(stimulus, at)
            case records.ObjectChanged() | records.ObjectDeleted():
                self._object_changed(stimulus, at)
            case records.EvictionSucceeded() | records.EvictionFailed():
                self._eviction_ended(stimulus, at)
            case _:
                self._step.commit(stimulus, at)
                self._goes_on(stimulus)
        self._binding.groups_changed(stimulus)
        return self._step.take()

    def schedule_next(self) -> list[Logged]:
        """One attempt for the pod at the head of the active queue, or what goes on of the one under
        way; nothing where the queue is empty, or an extender's answer is awaited. Raises
        OverrunError; mostly a call that takes too long only makes the attempt void."""
        uid = self._next()
        if uid is None:
            return []
        self._step.begin()
        self._overruns.apply(uid)
        try:
            self._attempts.make(uid)
        except OverrunError as overrun:
            self._classes.forget()  # the call may have left them half done
            if self._step.is_empty:
                return self.observe(self._overruns.of_attempt(uid, overrun), self.state.now)
            raise
        return self._step.take()

    def judge(self, pod: Pod) -> Judgement:
        """What every node would be told now; nothing is placed or logged. Raises PluginError, and
        KeyError where no profile has the pod's schedulerName."""
        profile = self._step.profiles[pod.scheduler_name]
        preemptions = self.state.preemptions
        known = pod.uid in self.state.pods
        return judge(
            self.state.nodes, self._classes, profile, pod, self._step.cycle(1),
            preemptions=preemptions,
            nominated=preemptions.node(pod.uid) if known else pod.nominated_node,
        )  # fmt: skip

    def gate(self, pod: Pod) -> Status | None:
        """What PreEnqueue says of a pod; None where it may enter the active queue. Raises KeyError
        where no profile has the pod's schedulerName."""
        found = self._requeueing.gate(self._step.profiles[pod.scheduler_name], pod)
        return None if found is None else found[1]

    def apply(self, logged: Logged) -> None:
        """Takes in a record from the log: restart and replay."""
        self._step.position = logged.position
        self._step.commit(logged.record, logged.at)
        self._step.take()
        self._step.queue.prebind_waits.forget()

    def unrecorded(self) -> list[records.PluginOverran]:
        """Calls that spoilt an engine before this one and are not in the log."""
        return self._overruns.unrecorded()

    def snapshot(self) -> bytes:
        """The state as bytes, for ``restore``."""
        return snapshot.encode(self.state)

    def restore(self, body: bytes, position: int) -> None:
        """Takes in the state after the records before a position, in place of these. Only for a
        new engine. Raises msgspec.ValidationError or DecodeError."""
        snapshot.restore(self.state, body)
        self._step.restored(position)

    @property
    def due(self) -> int | None:
        """When (µs) TimePassed has to be observed next, the flush apart."""
        queue = self._step.queue
        times = [t for t in (queue.next_deadline(), queue.next_backoff()) if t is not None]
        return min(times, default=None)

    @property
    def flush_due(self) -> int | None:
        """When (µs) the next pod has been unschedulable for too long."""
        return self._step.queue.next_flush()

    @property
    def queue_lengths(self) -> Mapping[Queue, int]:
        """Pods in each queue."""
        return self._step.queue.lengths

    @property
    def idle(self) -> bool:
        """Whether there is no pod to be tried now."""
        return self._next() is None

    def binder(self, pod: Pod) -> Extender | None:
        """The extender that binds a pod; None where it is bound as usual."""
        return binder(self._step.extenders, pod)

    @property
    def asks(self) -> bool:
        """Whether there are extenders: attempts need answers from outside."""
        return bool(self._step.extenders)

    def _next(self) -> str | None:
        """The pod whose turn it is: attempts are made one after the other, so that one which waits
        for an extender holds up all others."""
        consultation = self.state.consultation
        if consultation is None:
            return self._step.queue.head()
        return None if consultation.question is not None else consultation.uid

    # --- stimuli --------------------------------------------------------------------------

    def _as_seen(self, stimulus: records.Stimulus) -> records.Stimulus | None:
        """The stimulus as it is for one who knows what we know (a watch that starts over repeats
        and leaves out); None for the end of something unknown."""
        pods, nodes = self.state.pods, self.state.nodes.rows
        match stimulus:
            case records.PodAdded() if stimulus.pod.uid in pods:
                return records.PodUpdated(pod=stimulus.pod)
            case records.PodUpdated() if stimulus.pod.uid not in pods:
                return records.PodAdded(pod=stimulus.pod)
            case records.PodDeleted() if stimulus.uid not in pods:
                return None
            case records.NodeAdded() if stimulus.node.name in nodes:
                return records.NodeUpdated(node=stimulus.node)
            case records.NodeUpdated() if stimulus.node.name not in nodes:
                return records.NodeAdded(node=stimulus.node)
            case records.NodeDeleted() if stimulus.name not in nodes:
                return None
            case records.ExtenderAnswered():
                asked = self.state.consultation
                return stimulus if asked is not None and asked.awaits(stimulus) else None
            case records.SamplesTaken():
                return of_nodes(stimulus, nodes)
            case records.ObjectDeleted(type=kind, namespace=space, name=name):
                known = kind in TYPES and self.state.registry.get(TYPES[kind], name, space)
                return stimulus if known else None
        return stimulus

    def _is_no_change(self, stimulus: records.Stimulus) -> bool:
        match stimulus:
            case records.PodUpdated():
                return self.state.pods[stimulus.pod.uid].pod == stimulus.pod
            case records.NodeUpdated():
                nodes = self.state.nodes
                return nodes.nodes[nodes.rows[stimulus.node.name]] == stimulus.node
            case records.ObjectChanged(object=new):
                return self.state.registry.get(type(new), new.name, new.namespace) == new
        return False

    def _goes_on(self, stimulus: records.Stimulus) -> None:
        """What follows from a stimulus that was committed: an outcome, or time."""
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
                self._serving.reply(stimulus)
            case records.SamplesTaken():
                self._requeueing.samples_taken(stimulus.source)
            case records.TimePassed():
                self._binding.expire_waits()
                self._requeueing.move_due_pods()
            case records.TermBegan() if stimulus.engine:
                self._requeueing.reconfigured()
                self._binding.reconfigured()

    def _forget(self, forgotten: records.MemoryForgotten) -> None:
        """What the plugin refused may pass now. Where nothing is under the key nothing follows."""
        plugin, key = forgotten.plugin, forgotten.key
        if key in self.state.memory.get(plugin, ()):
            self._step.emit(records.MemoryChanged(plugin=plugin, key=key))
            self._requeueing.memory_changed(plugin, ClusterEvent.MEMORY_FORGOTTEN)

    def _pod_added(self, added: records.PodAdded, at: int) -> None:
        before = self._excess(added.pod.node_name)
        self._step.commit(added, at)
        self._compare_room(added.pod.node_name, before, added.pod.uid)
        state = self.state.pods[added.pod.uid]
        if state.bound:
            self._assigned_pod_changed(ClusterEvent.ASSIGNED_POD_ADD, added.pod)
        elif self._step.profile(state) is not None:
            self._requeueing.add(state, "PodAdd")

    def _pod_updated(self, updated: records.PodUpdated, at: int) -> None:
        state = self.state.pods[updated.pod.uid]
        old, was_bound = state.pod, state.bound
        nominated = self.state.preemptions.node(old.uid)
        held = self.state.reservations.get(updated.pod.uid)
        before = self._excess(updated.pod.node_name)
        self._step.commit(updated, at)
        self._compare_room(updated.pod.node_name, before, old.uid)
        if held is not None and state.bound:
            self._reserved_pod_bound(state, held)
        if state.bound:
            event = ClusterEvent.ASSIGNED_POD_UPDATE if was_bound else ClusterEvent.ASSIGNED_POD_ADD
            self._assigned_pod_changed(event, updated.pod, old)
        elif state.queue is not None:
            self._requeueing.pod_updated(state, old)
        if nominated and nominated != self.state.preemptions.node(old.uid):
            self._requeueing.nomination_ended(old, nominated)

    def _excess(self, node: str) -> frozenset[str]:
        return excess(self.state.nodes, node) if node else frozenset()

    def _compare_room(self, node: str, before: frozenset[str], by: str) -> None:
        """Says so where a node holds too much now, and did not before."""
        found = overcommitted(self.state.nodes, node, before, by) if node else None
        if found is not None:
            self._step.emit(found)

    def _reserved_pod_bound(self, state: PodState, held: Reservation) -> None:
        """The cluster shows a pod on a node before the outcome of our bind is known: it is that
        outcome, or somebody else was faster."""
        if held.node == state.pod.node_name and held.intended:
            self._binding.bind_ended(records.BindSucceeded(uid=state.pod.uid, node=held.node))
            return
        self._binding.pod_gone(state, held)
        if held.node != state.pod.node_name:
            self._requeueing.wake(
                [ClusterEvent.ASSIGNED_POD_DELETE],
                row=self.state.nodes.rows.get(held.node),
                pod=state.pod,
            )

    def _pod_deleted(self, deleted: records.PodDeleted, at: int) -> None:
        state = self.state.pods[deleted.uid]
        row = state.row
        held = self.state.reservations.get(deleted.uid)
        nominated = self.state.preemptions.node(deleted.uid)
        self._step.commit(deleted, at)
        if nominated:
            self._requeueing.nomination_ended(state.pod, nominated)
        if held is not None:
            self._binding.pod_gone(state, held)
        if row >= 0:
            self._requeueing.wake([ClusterEvent.ASSIGNED_POD_DELETE], row=row, pod=state.pod)
            self._room_made(self.state.nodes.names[row], ClusterEvent.ASSIGNED_POD_DELETE)

    def _room_made(self, node: str, event: ClusterEvent) -> None:
        """Tries the pods again that are nominated to a node, once no pod is on its way from there
        any more. Where they do not fit all the same, since somebody else was faster, they have to
        look for another one, and no hint would tell. (Upstream wakes them for any pod deleted.)"""
        nominated = self.state.preemptions.on(node)
        for uid in sorted(nominated):
            state = self.state.pods[uid]
            if state.queue is Queue.UNSCHEDULABLE and not is_awaited(self.state, state.pod, node):
                self._requeueing.move_to_active_or_backoff(state, event)

    def _eviction_ended(
        self, outcome: records.EvictionSucceeded | records.EvictionFailed, at: int
    ) -> None:
        """Where it was refused, the preemptor is tried again, but after its backoff: what refuses
        evictions may do so for ever. (Upstream activates it at once: executor.go
        prepareCandidateAsync.)"""
        eviction = self.state.preemptions.evicting.get(outcome.uid)
        state = self.state.pods.get(outcome.uid)
        old = state.pod if state is not None else None
        self._step.commit(outcome, at)
        if isinstance(outcome, records.EvictionFailed):
            waiting = self.state.preemptions.on(eviction.node) if eviction is not None else {}
            for uid in list(waiting):
                self._requeueing.requeue_after_failure(self.state.pods[uid], "EvictionFailed")
        elif state is not None and state.bound and state.pod is not old:
            self._assigned_pod_changed(ClusterEvent.ASSIGNED_POD_UPDATE, state.pod, old)

    def _assigned_pod_changed(self, event: ClusterEvent, pod: Pod, old: Pod | None = None) -> None:
        row = self.state.nodes.rows.get(pod.node_name)
        self._requeueing.wake([event], row=row, pod=pod, old_pod=old)

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
        self._step.commit(stimulus, at)
        self._compare_room(name, before, "")
        self._requeueing.wake(events, row=nodes.rows.get(name), node=node, old=old)
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
        self._step.commit(stimulus, at)
        self._requeueing.object_changed(old, new)
        changed = new or old
        if changed is not None:
            self._binding.object_changed(key_of(changed))
