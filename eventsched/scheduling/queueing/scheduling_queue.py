"""A pod's moves between queues: added, requeued after a failure, and moved to active or backoff by
a plugin's hint, the end of its backoff or the flush. Every move is an event with its cause.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go.
"""

from collections.abc import Collection, Sequence

import numpy as np

from eventsched.domain.behaviours import Behaviour
from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import ClusterObject
from eventsched.domain.records import MoveCause, PodQueued, Queue
from eventsched.domain.state.scheduler_state import PodState
from eventsched.scheduling.framework import Change, ClusterEvent, Code, PluginError, Status
from eventsched.scheduling.framework.extender import EXTENDER
from eventsched.scheduling.framework.pod_groups import Group
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.queue_index import Backoff

SCHEDULER_ITSELF = "eventsched"
"""The rejector of a pod that an error of the scheduler itself holds back. Only a change of the pod
and the flush requeue it."""
PARKED_AFTER = 5
"""Consecutive attempts that ended in errors after which a pod is no longer retried by backoff."""

GROUP_FAILURES_IGNORED_AFTER = 5
"""Failures after which room given back by a group no longer requeues a pod of a group: two groups
that do not fit would wake each other forever. Every other change still does, and the flush."""


class SchedulingQueue:
    """Puts pods into the queues and moves them between these."""

    def __init__(self, step: EngineStep, backoff: Backoff) -> None:
        self._step = step
        self._backoff = backoff
        self._by_name = {profile.name: profile.by_name for profile in step.profiles.values()}
        self._registered_events = {
            event
            for plugins in self._by_name.values()
            for plugin in plugins.values()
            for event in plugin.traits.wakes_on
        }
        if step.extenders:
            self._registered_events |= set(ClusterEvent)

    # --- adding, also after a failure -----------------------------------------------------

    def add(self, pod_state: PodState, cause: MoveCause) -> None:
        """Adds a pod to the active queue, or to the gated ones if PreEnqueue holds it."""
        self._move_to_active(pod_state, cause, "")

    def back_off(
        self, pod_state: PodState, cause: MoveCause, plugin: str, message: str = ""
    ) -> None:
        """Backs a pod off after an error. It is retried without waiting for a change."""
        errors = pod_state.errors + 1
        self._emit(
            PodQueued(
                uid=pod_state.pod.uid, queue=Queue.BACKOFF, cause=cause, plugin=plugin,
                until=self._backoff.until(self._step.state.now, errors),
                failures=pod_state.failures, errors=errors, message=message,
            )
        )  # fmt: skip

    def back_off_or_park(self, pod_state: PodState, plugin: str) -> None:
        """Backs a pod off after an attempt that ended in an error. After ``PARKED_AFTER`` such
        attempts in a row the pod is parked instead: it is retried if the pod changes, if an event
        occurs that the plugin listens to, or by the flush."""
        errors = pod_state.errors + 1
        if errors < PARKED_AFTER:
            self.back_off(pod_state, MoveCause.ATTEMPT_FAILED, plugin)
        else:
            self.park(pod_state, MoveCause.PARKED, plugin)

    def park(self, pod_state: PodState, cause: MoveCause, plugin: str) -> None:
        """Parks a pod until it changes, an event occurs that ``plugin`` listens to, or the flush.
        Without a plugin ("") only its own change and the flush requeue it."""
        errors = pod_state.errors + 1
        self._emit(
            PodQueued(
                uid=pod_state.pod.uid, queue=Queue.UNSCHEDULABLE, cause=cause, plugin=plugin,
                rejectors=(plugin or SCHEDULER_ITSELF,),
                until=self._backoff.until(self._step.state.now, errors),
                failures=pod_state.failures, errors=errors,
            )
        )  # fmt: skip

    def add_unschedulable(
        self,
        pod_state: PodState,
        cause: MoveCause,
        plugin: str,
        rejectors: tuple[str, ...],
        pending: tuple[str, ...] = (),
    ) -> None:
        """Puts a pod into unschedulable until a change may let it pass the plugins that refused
        it."""
        failures = pod_state.failures + 1
        self._emit(
            PodQueued(
                uid=pod_state.pod.uid, queue=Queue.UNSCHEDULABLE, cause=cause, plugin=plugin,
                rejectors=rejectors, pending=pending,
                until=self._backoff.until(self._step.state.now, failures), failures=failures,
            )
        )  # fmt: skip

    # --- moves to active or backoff -------------------------------------------------------

    def move_due_pods(self) -> None:
        """Moves the pods whose backoff is over, and those that the flush is due for."""
        now = self._step.state.now
        # One by one: a pod that was updated meanwhile has two entries, and moves with the first.
        for uid in self._step.queue.backoff_completed(now):
            self._move_to_active(self._step.state.pods[uid], MoveCause.BACKOFF_COMPLETE, "")
        for uid in self._step.queue.flush_due(now):
            self._move_to_active_or_backoff(self._step.state.pods[uid], MoveCause.FLUSH, "")

    def reconfigured(self) -> None:
        """The configuration changed: retries every waiting pod, and adds pods that now have a
        profile. A pod without a profile any more leaves the queue by an attempt."""
        waiting = (Queue.UNSCHEDULABLE, Queue.GATED, Queue.BACKOFF)
        reservations = self._step.state.reservations
        pods = list(self._step.state.pods.items())
        if Behaviour.RETRIES_IN_ORDER in self._step.state.flags:
            pods.sort(key=lambda pod: pod[1].number)
        for uid, state in pods:
            ours = self._step.scheduling_profile(state) is not None
            is_new = ours and state.queue is None and not state.bound and uid not in reservations
            if is_new or state.queue in waiting:
                self._move_to_active(state, MoveCause.RECONFIGURED, "")

    def nomination_ended(self, pod: Pod, node: str) -> None:
        """A pod's nomination ended: other pods are woken as if it had left the node (upstream:
        eventhandlers.go hasNominatedNodeNameChanged)."""
        row = self._step.state.nodes.rows.get(node)
        if row is not None:
            self.wake([ClusterEvent.ASSIGNED_POD_DELETE], row=row, pod=pod)

    def move_to_active_or_backoff(self, pod_state: PodState, event: ClusterEvent) -> None:
        """Moves a waiting pod to active, or to backoff if its backoff is not over. No hint is
        asked."""
        self._move_to_active_or_backoff(pod_state, event, "")

    def eviction_failed(self, pod_state: PodState, cause: MoveCause) -> None:
        """Requeues an unschedulable pod; it is retried as soon as its backoff is over."""
        if pod_state.queue is Queue.UNSCHEDULABLE:
            self._move_to_active_or_backoff(pod_state, cause, "")

    def activate(self, uid: str, plugin: str) -> None:
        """Moves an unschedulable pod, or one in backoff, to active at a plugin's request (upstream:
        scheduling_queue.go Activate)."""
        pod_state = self._step.state.pods.get(uid)
        if pod_state is not None and pod_state.queue in (Queue.UNSCHEDULABLE, Queue.BACKOFF):
            self._move_to_active(pod_state, MoveCause.FORCE_ACTIVATE, plugin)

    def groups_changed(self, changed: Sequence[Group]) -> None:
        """Asks the plugins that refused members of the changed groups whether the change
        matters."""
        for group in changed:
            matters: dict[tuple[str, str], bool] = {}
            for uid in group.in_order(group.members):
                state = group.members[uid]
                if state.queue is Queue.UNSCHEDULABLE:
                    plugin = self._rejector_for_group(state, matters)
                    if plugin is not None:
                        self._move_to_active_or_backoff(state, ClusterEvent.GROUP_CHANGE, plugin)

    def _rejector_for_group(
        self, pod_state: PodState, matters: dict[tuple[str, str], bool]
    ) -> str | None:
        profile = self._step.scheduling_profile(pod_state)
        if profile is None:
            return None
        for name in pod_state.rejectors:
            plugin = self._by_name[profile.name].get(name)
            if plugin is None or not plugin.traits.asks_again_with_group:
                continue
            key = (profile.name, name)
            if key not in matters:
                change = Change(ClusterEvent.GROUP_CHANGE, self._view(None))
                matters[key] = self._waking_plugin(pod_state, change, {name}) is not None
            if matters[key]:
                return name
        return None

    def pod_updated(self, pod_state: PodState, old: Pod) -> None:
        """A waiting pod has changed from ``old``: checks its gates, or asks the plugins that
        refused it."""
        if pod_state.queue is Queue.GATED:
            self._move_to_active(pod_state, ClusterEvent.POD_UPDATE, "")
        elif pod_state.queue is Queue.UNSCHEDULABLE:
            change = Change(
                ClusterEvent.POD_UPDATE, self._view(None), pod=pod_state.pod, old_pod=old
            )
            plugin = self._waking_plugin(pod_state, change)
            if plugin is None and SCHEDULER_ITSELF in pod_state.rejectors:
                plugin = SCHEDULER_ITSELF
            if plugin is not None:
                self._move_to_active_or_backoff(pod_state, change.event, plugin)

    def wake(
        self,
        events: Sequence[ClusterEvent],
        row: int | None = None,
        node: Node | None = None,
        old: Node | None = None,
        pod: Pod | None = None,
        old_pod: Pod | None = None,
        *,
        group_gave_up: bool = False,
    ) -> None:
        """Asks the plugins that refused each waiting pod whether a change may help it.
        ``group_gave_up``: a group gives back what it held at Permit."""
        lengths = self._step.queue.lengths
        if not lengths[Queue.UNSCHEDULABLE] and not lengths[Queue.GATED]:
            return
        relevant = [event for event in events if event in self._registered_events]
        if not relevant:
            return
        changes = [Change(event, self._view(row), node, old, pod, old_pod) for event in relevant]
        self._wake(changes, group_gave_up=group_gave_up)

    def object_changed(self, old: ClusterObject | None, new: ClusterObject | None) -> None:
        """An object other than a pod or a node was added, changed or deleted."""
        listeners = {
            plugin.name
            for plugins in self._by_name.values()
            for plugin in plugins.values()
            if type(new or old) in plugin.traits.wakes_on_objects
        }
        if self._step.extenders:
            listeners.add(EXTENDER)
        if listeners:
            change = Change(
                ClusterEvent.OBJECT_CHANGE, self._view(None), old_object=old, new_object=new
            )
            self._wake([change], listeners)

    def memory_changed(self, plugin: str, *more: ClusterEvent) -> None:
        """A plugin's memory has changed, so pods that it refused may pass now. ``more`` are events
        that describe the change."""
        instances = [plugins[plugin] for plugins in self._by_name.values() if plugin in plugins]
        events = (ClusterEvent.MEMORY_CHANGE, *more)
        if any(event in instance.traits.wakes_on for instance in instances for event in events):
            self._wake([Change(event, self._view(None)) for event in events], {plugin})

    def samples_taken(self, source: str) -> None:
        """New samples of a source have arrived, or the source has failed."""
        listeners = {
            plugin.name
            for plugins in self._by_name.values()
            for plugin in plugins.values()
            if (wants := plugin.traits.samples) and wants.source == source
        }
        if listeners:
            self._wake([Change(ClusterEvent.SAMPLES_TAKEN, self._view(None))], listeners)

    def _wake(
        self,
        changes: Sequence[Change],
        only: Collection[str] | None = None,
        *,
        group_gave_up: bool = False,
    ) -> None:
        """Moves pods in the order of their arrival, whatever the order of the wake classes."""
        queue = self._step.queue
        woken: list[tuple[int, str, ClusterEvent, str]] = []
        for wake_class, representative in queue.wake_classes():
            pod_state = self._step.state.pods[representative]
            for change in changes:
                plugin = self._waking_plugin(pod_state, change, only)
                if plugin is not None:
                    woken += [
                        (self._step.state.pods[uid].order, uid, change.event, plugin)
                        for uid in queue.members(wake_class)
                    ]
                    break
        for order, uid, event, plugin in sorted(woken):
            pod_state = self._step.state.pods[uid]
            ignores_group = (
                group_gave_up
                and pod_state.failures > GROUP_FAILURES_IGNORED_AFTER
                and self._is_grouped(uid)
            )
            if pod_state.order == order and not ignores_group:
                self._move_to_active_or_backoff(pod_state, event, plugin)

    def _is_grouped(self, uid: str) -> bool:
        return self._step.groups.of(uid) is not None

    def _view(self, row: int | None) -> NodeView:
        rows: Rows = np.array([] if row is None else [row], dtype=np.intp)
        return NodeView(self._step.state.nodes, rows)

    def _waking_plugin(
        self, pod_state: PodState, change: Change, only: Collection[str] | None = None
    ) -> str | None:
        """The first plugin that refused the pod and for which the change may matter; None if there
        is none, and "" for a pod that no plugin refused. ``only`` limits the plugins asked. A
        plugin without a hint wakes the pod, and so does a hint that raises: one attempt too many
        is harmless. A pod that no plugin refused (there was no node) is woken by any change of the
        cluster (upstream: isPodWorthRequeuing)."""
        profile = self._step.scheduling_profile(pod_state)
        if profile is None:
            return None
        if not pod_state.rejectors and not only:
            return ""
        for name in pod_state.rejectors:
            if only is not None and name not in only:
                continue
            if name == EXTENDER:  # any change may matter to it (upstream: defaultEnqueueExtension)
                return name
            plugin = self._by_name[profile.name].get(name)
            if plugin is None or (
                change.event is not ClusterEvent.OBJECT_CHANGE
                and change.event not in plugin.traits.wakes_on
            ):
                continue
            if plugin.hint is None:
                return name
            cycle = self._step.cycle(pod_state.attempts)
            cycle.plugin = name
            try:
                if plugin.hint(cycle, pod_state.pod, change):
                    return name
            except PluginError:
                return name
        return None

    def _move_to_active_or_backoff(
        self, pod_state: PodState, cause: MoveCause | ClusterEvent, plugin: str
    ) -> None:
        """Moves a pod to active, or to backoff if that is not over yet. A plugin that answered
        Pending moves its pod to active at once."""
        backs_off = pod_state.until > self._step.state.now and plugin not in pod_state.pending
        if backs_off and pod_state.queue is not Queue.GATED:
            self._emit(_moved_record(pod_state, Queue.BACKOFF, cause, plugin))
        else:
            self._move_to_active(pod_state, cause, plugin)

    def _move_to_active(
        self, pod_state: PodState, cause: MoveCause | ClusterEvent, plugin: str
    ) -> None:
        profile = self._step.scheduling_profile(pod_state)
        # A pod without a profile leaves the queue by an attempt.
        gate = self.gate(profile, pod_state.pod) if profile is not None else None
        if gate is None:
            self._emit(_moved_record(pod_state, Queue.ACTIVE, cause, plugin))
        elif pod_state.queue is not Queue.GATED or pod_state.rejectors != (gate[0],):
            name, status = gate
            message = ", ".join(status.reasons)
            self._emit(
                _moved_record(
                    pod_state, Queue.GATED, cause, name, rejectors=(name,), message=message
                )
            )

    def gate(self, profile: Profile, pod: Pod) -> tuple[str, Status] | None:
        """The first plugin whose PreEnqueue holds a pod, with its status; None if none does."""
        for plugin in profile.pre_enqueue:
            try:
                answer = plugin.pre_enqueue(pod)
            except PluginError as broken:
                return plugin.name, Status.error(str(broken))
            if isinstance(answer, Status) and answer.code is not Code.SUCCESS:
                return plugin.name, answer
        return None

    def _emit(self, queued: PodQueued) -> None:
        self._step.emit(queued)


def _moved_record(
    pod_state: PodState,
    queue: Queue,
    cause: MoveCause | ClusterEvent,
    plugin: str,
    rejectors: tuple[str, ...] | None = None,
    message: str = "",
) -> PodQueued:
    return PodQueued(
        uid=pod_state.pod.uid,
        queue=queue,
        cause=cause,
        plugin=plugin,
        rejectors=pod_state.rejectors if rejectors is None else rejectors,
        pending=pod_state.pending,
        until=pod_state.until,
        failures=pod_state.failures,
        errors=pod_state.errors,
        message=message,
    )
