"""Finds changes that make a node acceptable to a plugin that had refused it, and that the plugin
does not wake for: in a cluster such a pod would wait for the flush, five minutes later.

Some refused pods are followed. With each change of the cluster the plugin is asked about them
again; where a node passes that did not, one of the change's events has to stand in ``wakes_on``,
and the hint, if there is one, has to say yes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.authoring.findings import Finding
from eventsched.authoring.plugin_driver import Asking
from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import TYPES, ClusterObject
from eventsched.domain.records import Outcome, Record
from eventsched.scheduling.framework import Change, ClusterEvent
from eventsched.scheduling.queueing.node_events import node_events

FOLLOWED = 12
"""Pods that are followed at a time; a newer one takes the place of the oldest."""
MOST = 20_000
"""Times that the plugin is asked again, in all."""

Bools = NDArray[np.bool_]


class Before(NamedTuple):
    """What a change is compared with."""

    node: Node | None = None
    row: int = -1
    pod: Pod | None = None
    object: ClusterObject | None = None


class Wakeups:
    """Follows refused pods through a history. ``needed`` counts the changes that made a node
    acceptable."""

    def __init__(self, asking: Asking) -> None:
        self._findings: dict[tuple[frozenset[ClusterEvent], str], Finding] = {}
        self.needed = 0
        self._asking = asking
        self._state = asking.state
        self._followed: dict[str, Bools] = {}
        self._asked = 0

    def follow(self, pod: Pod) -> None:
        """Takes a pod in that was just asked about, where a node was refused to it."""
        self._followed.pop(pod.uid, None)
        passing = self._asking.passes(pod)
        if passing is None or passing[self._alive].all():
            return
        while len(self._followed) >= FOLLOWED:
            del self._followed[next(iter(self._followed))]
        self._followed[pod.uid] = passing

    def found(self) -> list[Finding]:
        """The first case for each event; of changes with several events only those of which none
        was missed on its own."""
        alone = {(*events, point) for events, point in self._findings if len(events) == 1}
        return [
            finding
            for (events, point), finding in self._findings.items()
            if len(events) == 1 or not any((each, point) in alone for each in events)
        ]

    @property
    def _alive(self) -> Bools:
        nodes = self._state.nodes
        return np.asarray(nodes.alive[: nodes.size])

    def before(self, record: Record) -> Before:
        """What is to be known of the state before a record is applied."""
        nodes, pods = self._state.nodes, self._state.pods
        match record:
            case records.NodeAdded() | records.NodeUpdated():
                row = nodes.rows.get(record.node.name, -1)
                return Before(nodes.nodes[row] if row >= 0 else None)
            case records.PodUpdated(pod=pod) if pod.uid in pods:
                return Before(pod=pods[pod.uid].pod, row=pods[pod.uid].row)
            case records.PodDeleted(uid=uid) | records.PodUnreserved(uid=uid) if uid in pods:
                return Before(pod=pods[uid].pod, row=pods[uid].row)
            case records.ObjectChanged(object=new):
                found = self._state.registry.get(type(new), new.name, new.namespace)
                return Before(object=found)
            case records.ObjectDeleted() if record.type in TYPES:
                kind = TYPES[record.type]
                return Before(object=self._state.registry.get(kind, record.name, record.namespace))
        return Before()

    def after(self, record: Record, before: Before, position: int) -> None:
        """Asks again about the pods that are followed, once a record is applied."""
        changes = self._changes(record, before)
        only = record.pod.uid if isinstance(record, records.PodUpdated) else ""
        for uid in list(self._followed) if changes else ():
            state = self._state.pods.get(uid)
            if state is None or state.row >= 0:
                del self._followed[uid]
                continue
            mine = [each for each in changes if each.event is not ClusterEvent.POD_UPDATE]
            if mine or uid == only:
                self._compare(state.pod, changes if uid == only else mine, position)

    def memory_changed(self, position: int) -> None:
        """The plugin's own memory has changed."""
        change = Change(ClusterEvent.MEMORY_CHANGE, self._view(-1))
        for uid in list(self._followed):
            if uid in self._state.pods:
                self._compare(self._state.pods[uid].pod, [change], position)

    def _compare(self, pod: Pod, changes: list[Change], position: int) -> None:
        if self._asked >= MOST:
            return
        self._asked += 1
        now = self._asking.passes(pod)
        if now is None:
            return
        was = np.zeros(len(now), dtype=bool)
        was[: len(self._followed[pod.uid])] = self._followed[pod.uid]
        self._followed[pod.uid] = now
        gained = np.flatnonzero(now & ~was & self._alive)
        if not len(gained):
            return
        self.needed += 1
        if any(self._wakes(pod, each) for each in changes):
            return
        what = dict.fromkeys(each.event for each in changes)
        events = " or ".join(map(str, what))
        heard = [each for each in changes if self._hears(each)]
        why = f"its hint says no to {events}" if heard else f"wakes_on has no {events}"
        if any(each.event is ClusterEvent.OBJECT_CHANGE for each in changes) and not heard:
            kind = next(type(each.new_object or each.old_object).__name__ for each in changes)
            why = f"wakes_on_objects has no {kind}"
        node = self._state.nodes.names[int(gained[0])]
        self._findings.setdefault(
            (frozenset(what), "hint" if heard else "wakes_on"),
            Finding(
                "wakes",
                "hint" if heard else "wakes_on",
                f"{events} made {node} acceptable for {pod.full_name}, and {why}",
                f"position {position}",
            ),
        )

    def _hears(self, change: Change) -> bool:
        plugin = self._asking.plugin
        if change.event is ClusterEvent.OBJECT_CHANGE:
            kind = type(change.new_object or change.old_object)
            return kind in getattr(plugin, "wakes_on_objects", ())
        return change.event in getattr(plugin, "wakes_on", tuple(ClusterEvent))

    def _wakes(self, pod: Pod, change: Change) -> bool:
        return self._hears(change) and self._asking.hint(pod, change)

    def _view(self, row: int) -> NodeView:
        rows = np.array([] if row < 0 else [row], dtype=np.intp)
        return NodeView(self._state.nodes, rows)

    def _changes(self, record: Record, before: Before) -> list[Change]:
        """A record in the terms of the plugins' hints. A decision counts as the pod's coming to its
        node: the bind changes nothing more."""
        rows, pods = self._state.nodes.rows, self._state.pods
        match record:
            case records.NodeAdded() | records.NodeUpdated():
                view = self._view(rows[record.node.name])
                known = records.NodeUpdated(node=record.node) if before.node else record
                events = node_events(before.node, known)
                return [Change(each, view, record.node, before.node) for each in events]
            case records.NodeDeleted():
                return [Change(ClusterEvent.NODE_DELETE, self._view(-1))]
            case records.PodAdded() if pods[record.pod.uid].row >= 0:
                return [self._came(record.pod.uid)]
            case records.PodUpdated():
                return self._pod_updated(record, before)
            case records.PodDecided() if record.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
                return [self._came(record.uid)]
            case records.PodDeleted() | records.PodUnreserved() if before.row >= 0:
                view = self._view(before.row)
                return [Change(ClusterEvent.ASSIGNED_POD_DELETE, view, pod=before.pod)]
            case records.ObjectChanged():
                new: Any = record.object
                return [
                    Change(ClusterEvent.OBJECT_CHANGE, self._view(-1), old_object=before.object,
                           new_object=new)
                ]  # fmt: skip
            case records.ObjectDeleted() if before.object is not None:
                return [
                    Change(ClusterEvent.OBJECT_CHANGE, self._view(-1), old_object=before.object)
                ]
        return []

    def _came(self, uid: str) -> Change:
        state = self._state.pods[uid]
        return Change(ClusterEvent.ASSIGNED_POD_ADD, self._view(state.row), pod=state.pod)

    def _pod_updated(self, record: records.PodUpdated, before: Before) -> list[Change]:
        state = self._state.pods[record.pod.uid]
        if state.row < 0:
            view = self._view(-1)
            return [Change(ClusterEvent.POD_UPDATE, view, pod=state.pod, old_pod=before.pod)]
        came = before.row < 0
        event = ClusterEvent.ASSIGNED_POD_ADD if came else ClusterEvent.ASSIGNED_POD_UPDATE
        return [Change(event, self._view(state.row), pod=state.pod, old_pod=before.pod)]
