"""A pod's moves between queues: in, back after a failure, and up again when a plugin's hint, the
end of its backoff or the flush says so. Every move is an event with its cause.

Upstream: pkg/scheduler/backend/queue/scheduling_queue.go.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import ClusterObject
from eventsched.domain.records import PodQueued, Queue
from eventsched.domain.state.scheduler_state import PodState
from eventsched.scheduling.framework import Change, ClusterEvent, Code, PluginError, Status
from eventsched.scheduling.framework.extender import EXTENDER
from eventsched.scheduling.framework.pod_groups import Group
from eventsched.scheduling.framework.profile import Profile, guarded
from eventsched.scheduling.queueing.engine_step import EngineStep
from eventsched.scheduling.queueing.queue import Backoff

OURSELVES = "eventsched"
"""Stands for a plugin where a mistake of ours is in the way: nothing but the pod's own change and
the flush bring it back."""
PARKED_AFTER = 5
"""Attempts in a row that ended in errors, after which a pod no longer comes back by itself."""

RETREATS = 5
"""Failures after which a pod of a group is not tried again for the room that a group gives back:
two that do not fit would wake each other for ever. Every other change does, and the flush."""


class Requeueing:
    """Moves pods between the queues."""

    def __init__(self, step: EngineStep, backoff: Backoff) -> None:
        self._step = step
        self._backoff = backoff
        self._by_name = {
            profile.name: {plugin.name: plugin for plugin in profile.plugins}
            for profile in step.profiles.values()
        }
        self._listened = {
            event
            for plugins in self._by_name.values()
            for plugin in plugins.values()
            for event in getattr(plugin, "wakes_on", tuple(ClusterEvent))
        }
        if step.extenders:
            self._listened |= set(ClusterEvent)

    # --- into a queue ---------------------------------------------------------------------

    def enter(self, state: PodState, cause: str) -> None:
        """Puts a pod that is to be scheduled into the active queue, or holds it at a gate."""
        self._activate(state, cause, "")

    def failed(self, state: PodState, cause: str, plugin: str, message: str = "") -> None:
        """Backs a pod off after an error: it is tried again without waiting for a change."""
        errors = state.errors + 1
        self._emit(
            PodQueued(
                uid=state.pod.uid,
                queue=Queue.BACKOFF,
                cause=cause,
                plugin=plugin,
                until=self._backoff.until(self._step.state.now, errors),
                failures=state.failures,
                errors=errors,
                message=message,
            )
        )

    def broken(self, state: PodState, plugin: str) -> None:
        """An attempt ended in an error. Backs the pod off; where that is all that its attempts do,
        it is parked: what breaks on it would do so again, and is tried once more when the pod, or
        what the plugin listens to, has changed, or by the flush."""
        errors = state.errors + 1
        if errors < PARKED_AFTER:
            self.failed(state, "AttemptFailed", plugin)
        else:
            self.parked(state, "Parked", plugin)

    def parked(self, state: PodState, cause: str, plugin: str) -> None:
        """Holds a pod back until it is changed, what the plugin listens to has changed, or the
        flush comes; for no plugin ("") until it is changed, or the flush comes."""
        errors = state.errors + 1
        self._emit(
            PodQueued(
                uid=state.pod.uid,
                queue=Queue.UNSCHEDULABLE,
                cause=cause,
                plugin=plugin,
                rejectors=(plugin or OURSELVES,),
                until=self._backoff.until(self._step.state.now, errors),
                failures=state.failures,
                errors=errors,
            )
        )

    def refused(
        self,
        state: PodState,
        cause: str,
        plugin: str,
        rejectors: tuple[str, ...],
        pending: tuple[str, ...] = (),
    ) -> None:
        """Parks a pod until something changes that may let it pass those who refused it."""
        failures = state.failures + 1
        self._emit(
            PodQueued(
                uid=state.pod.uid,
                queue=Queue.UNSCHEDULABLE,
                cause=cause,
                plugin=plugin,
                rejectors=rejectors,
                pending=pending,
                until=self._backoff.until(self._step.state.now, failures),
                failures=failures,
            )
        )

    # --- up again -------------------------------------------------------------------------

    def time_passed(self) -> None:
        """Moves the pods whose backoff is over, and those that have waited for too long."""
        now = self._step.state.now
        # Taken one by one: a pod that was updated meanwhile stands there twice, and has moved then.
        for uid in self._step.queue.backed_off(now):
            self._activate(self._step.state.pods[uid], "BackoffComplete", "")
        for uid in self._step.queue.stale(now):
            self._up(self._step.state.pods[uid], "Flush", "")

    def reconfigured(self) -> None:
        """Other plugins and profiles are in force: who waits for a change is tried again, and who
        waited for nobody may be ours now. Those that are nobody's any more leave by an attempt."""
        waiting = (Queue.UNSCHEDULABLE, Queue.GATED, Queue.BACKOFF)
        held = self._step.state.reservations
        for uid, state in list(self._step.state.pods.items()):
            ours = self._step.profile(state) is not None
            is_new = ours and state.queue is None and not state.bound and uid not in held
            if is_new or state.queue in waiting:
                self._activate(state, "Reconfigured", "")

    def nomination_ended(self, pod: Pod, node: str) -> None:
        """A pod is nominated to a node no more: to its like that is as if it had left the node
        (upstream: eventhandlers.go hasNominatedNodeNameChanged)."""
        row = self._step.state.nodes.rows.get(node)
        if row is not None:
            self.wake([ClusterEvent.ASSIGNED_POD_DELETE], row=row, pod=pod)

    def up(self, state: PodState, event: ClusterEvent) -> None:
        """Moves a pod up that waits, without asking hints."""
        self._up(state, event, "")

    def again(self, state: PodState, cause: str) -> None:
        """A pod that waits for a change is tried again, as soon as its backoff is over."""
        if state.queue is Queue.UNSCHEDULABLE:
            self._up(state, cause, "")

    def activate(self, uid: str, plugin: str) -> None:
        """A plugin has a pod tried that waits for a change or the end of its backoff (upstream:
        scheduling_queue.go Activate)."""
        state = self._step.state.pods.get(uid)
        if state is not None and state.queue in (Queue.UNSCHEDULABLE, Queue.BACKOFF):
            self._activate(state, "ForceActivate", plugin)

    def regrouped(self, changed: Sequence[Group]) -> None:
        """Asks the plugins that refused pods of a group whether it matters that the group is
        another than before."""
        for group in changed:
            matters: dict[tuple[str, str], bool] = {}
            for uid in group.in_order(group.members):
                state = group.members[uid]
                if state.queue is Queue.UNSCHEDULABLE:
                    plugin = self._regrouped(state, matters)
                    if plugin is not None:
                        self._up(state, ClusterEvent.GROUP_CHANGE, plugin)

    def _regrouped(self, state: PodState, matters: dict[tuple[str, str], bool]) -> str | None:
        profile = self._step.profile(state)
        if profile is None:
            return None
        for name in state.rejectors:
            plugin = self._by_name[profile.name].get(name)
            if ClusterEvent.GROUP_CHANGE not in getattr(plugin, "wakes_on", ()):
                continue
            asked = (profile.name, name)
            if asked not in matters:
                change = Change(ClusterEvent.GROUP_CHANGE, self._view(None))
                matters[asked] = self._woken_by(state, change, {name}) is not None
            if matters[asked]:
                return name
        return None

    def pod_updated(self, state: PodState, old: Pod) -> None:
        """A waiting pod has itself changed, from ``old``: its gates are looked at, or its plugins
        are asked."""
        if state.queue is Queue.GATED:
            self._activate(state, ClusterEvent.POD_UPDATE, "")
        elif state.queue is Queue.UNSCHEDULABLE:
            change = Change(ClusterEvent.POD_UPDATE, self._view(None), pod=state.pod, old_pod=old)
            plugin = self._woken_by(state, change)
            if plugin is None and OURSELVES in state.rejectors:
                plugin = OURSELVES
            if plugin is not None:
                self._up(state, change.event, plugin)

    def wake(
        self,
        events: Sequence[ClusterEvent],
        row: int | None = None,
        node: Node | None = None,
        old: Node | None = None,
        pod: Pod | None = None,
        old_pod: Pod | None = None,
        *,
        retreat: bool = False,
    ) -> None:
        """Asks the plugins that refused each waiting pod whether a change concerns it. ``retreat``:
        a group gives back room that it held for a moment."""
        queue = self._step.queue
        heard = [event for event in events if event in self._listened]
        if not heard or not queue.lengths[Queue.UNSCHEDULABLE] + queue.lengths[Queue.GATED]:
            return
        changes = [Change(event, self._view(row), node, old, pod, old_pod) for event in heard]
        self._wake(changes, retreat=retreat)

    def object_changed(self, old: ClusterObject | None, new: ClusterObject | None) -> None:
        """An object other than a pod or a node came, changed or went."""
        concerned = {
            plugin.name
            for plugins in self._by_name.values()
            for plugin in plugins.values()
            if type(new or old) in getattr(plugin, "wakes_on_objects", ())
        }
        if self._step.extenders:
            concerned.add(EXTENDER)
        if concerned:
            change = Change(
                ClusterEvent.OBJECT_CHANGE, self._view(None), old_object=old, new_object=new
            )
            self._wake([change], concerned)

    def memory_changed(self, plugin: str, *more: ClusterEvent) -> None:
        """A plugin's memory has changed: what it refused may pass now. ``more`` says how."""
        found = [plugins[plugin] for plugins in self._by_name.values() if plugin in plugins]
        events = (ClusterEvent.MEMORY_CHANGE, *more)
        if any(event in _heard(each) for each in found for event in events):
            self._wake([Change(event, self._view(None)) for event in events], {plugin})

    def samples_taken(self, source: str) -> None:
        """There are newer samples of a source, or a problem with them."""
        concerned = {
            plugin.name
            for plugins in self._by_name.values()
            for plugin in plugins.values()
            if (wants := getattr(plugin, "samples", None)) and wants.source == source
        }
        if concerned:
            self._wake([Change(ClusterEvent.SAMPLES_TAKEN, self._view(None))], concerned)

    def _wake(
        self,
        changes: Sequence[Change],
        only: Collection[str] | None = None,
        *,
        retreat: bool = False,
    ) -> None:
        """In the order in which the pods came, so that the groups' history does not matter."""
        queue = self._step.queue
        woken: list[tuple[int, str, ClusterEvent, str]] = []
        for group, first in queue.groups():
            state = self._step.state.pods[first]
            for change in changes:
                plugin = self._woken_by(state, change, only)
                if plugin is not None:
                    woken += [
                        (self._step.state.pods[uid].order, uid, change.event, plugin)
                        for uid in queue.members(group)
                    ]
                    break
        for order, uid, event, plugin in sorted(woken):
            state = self._step.state.pods[uid]
            is_tired = retreat and state.failures > RETREATS and self._is_grouped(uid)
            if state.order == order and not is_tired:
                self._up(state, event, plugin)

    def _is_grouped(self, uid: str) -> bool:
        return self._step.groups.of(uid) is not None

    def _view(self, row: int | None) -> NodeView:
        rows: Rows = np.array([] if row is None else [row], dtype=np.intp)
        return NodeView(self._step.state.nodes, rows)

    def _woken_by(
        self, state: PodState, change: Change, only: Collection[str] | None = None
    ) -> str | None:
        """The first of the plugins that refused the pod (one of ``only``, where that is given) for
        which the change may matter. One without a hint wakes it, and so does a hint that raises: a
        try too many harms nothing. A pod that no plugin refused (there was no node) wakes by any
        change of the cluster (upstream: isPodWorthRequeuing)."""
        profile = self._step.profile(state)
        if profile is None:
            return None
        if not state.rejectors and not only:
            return ""
        for name in state.rejectors:
            if only is not None and name not in only:
                continue
            if name == EXTENDER:  # who knows (upstream: defaultEnqueueExtension)
                return name
            plugin = self._by_name[profile.name].get(name)
            if plugin is None or (
                change.event is not ClusterEvent.OBJECT_CHANGE
                and change.event not in getattr(plugin, "wakes_on", tuple(ClusterEvent))
            ):
                continue
            if not hasattr(plugin, "hint"):
                return name
            cycle = self._step.cycle(state.attempts)
            cycle.plugin = name
            try:
                if guarded(plugin, "hint", cycle, state.pod, change):
                    return name
            except PluginError:
                return name
        return None

    def _up(self, state: PodState, cause: str, plugin: str) -> None:
        """Active, or backoff where that is not over yet. A plugin that had said Pending wakes its
        pod at once."""
        backs_off = state.until > self._step.state.now and plugin not in state.pending
        if backs_off and state.queue is not Queue.GATED:
            self._emit(_moved(state, Queue.BACKOFF, cause, plugin))
        else:
            self._activate(state, cause, plugin)

    def _activate(self, state: PodState, cause: str, plugin: str) -> None:
        profile = self._step.profile(state)
        # Where nobody's, an attempt says so, and the pod leaves the queue.
        gate = self.gate(profile, state.pod) if profile is not None else None
        if gate is None:
            self._emit(_moved(state, Queue.ACTIVE, cause, plugin))
        elif state.queue is not Queue.GATED or state.rejectors != (gate[0],):
            name, status = gate
            message = ", ".join(status.reasons)
            self._emit(_moved(state, Queue.GATED, cause, name, rejectors=(name,), message=message))

    def gate(self, profile: Profile, pod: Pod) -> tuple[str, Status] | None:
        """The first plugin whose PreEnqueue holds a pod, and what it says."""
        for plugin in profile.points["preEnqueue"]:
            try:
                answer = guarded(plugin, "pre_enqueue", pod)
            except PluginError as broken:
                return plugin.name, Status.error(str(broken))
            if isinstance(answer, Status) and answer.code is not Code.SUCCESS:
                return plugin.name, answer
        return None

    def _emit(self, queued: PodQueued) -> None:
        self._step.emit(queued)


def _heard(plugin: Any) -> tuple[ClusterEvent, ...]:
    """The events that a plugin wants to know of: all of them where it does not say."""
    heard: tuple[ClusterEvent, ...] = getattr(plugin, "wakes_on", tuple(ClusterEvent))
    return heard


def _moved(
    state: PodState,
    queue: Queue,
    cause: str,
    plugin: str,
    rejectors: tuple[str, ...] | None = None,
    message: str = "",
) -> PodQueued:
    return PodQueued(
        uid=state.pod.uid,
        queue=queue,
        cause=cause,
        plugin=plugin,
        rejectors=state.rejectors if rejectors is None else rejectors,
        pending=state.pending,
        until=state.until,
        failures=state.failures,
        errors=state.errors,
        message=message,
    )
