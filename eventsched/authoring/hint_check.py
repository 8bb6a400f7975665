"""Finds changes that make a refused node acceptable but do not wake the refused pod.

In a cluster such a pod would wait for the flush, five minutes later. The check follows some refused
pods: after each change of the cluster it calls the plugin for them again. If a node passes that did
not pass before, one of the change's events must be in ``wakes_on``, and the hint, if there is one,
must return True.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.authoring.findings import Finding
from eventsched.authoring.plugin_driver import PluginDriver
from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import TYPES, ClusterObject
from eventsched.domain.records import Outcome, Record
from eventsched.scheduling.framework import Change, ClusterEvent
from eventsched.scheduling.queueing.node_events import node_events

MAX_FOLLOWED = 12
"""Pods followed at a time; a new one replaces the oldest."""
MAX_CHECKS = 20_000
"""How often the plugin is called again, in all."""

Bools = NDArray[np.bool_]


class StateBefore(NamedTuple):
    """The objects that a record is about to change, as they were."""

    node: Node | None = None
    row: int = -1
    pod: Pod | None = None
    object: ClusterObject | None = None


class HintCheck:
    """Follows refused pods through a history."""

    def __init__(self, driver: PluginDriver) -> None:
        self._findings: dict[tuple[frozenset[ClusterEvent], str], Finding] = {}
        self._driver = driver
        self._state = driver.state
        self._followed: dict[str, Bools] = {}
        """Pod's uid → bool[rows]: the nodes that passed the last time."""
        self._checks = 0

    def follow(self, pod: Pod) -> None:
        """Follows a pod from here on if the plugin refuses it a node."""
        self._followed.pop(pod.uid, None)
        passing = self._driver.passing_rows(pod)
        if passing is None or passing[self._alive].all():
            return
        while len(self._followed) >= MAX_FOLLOWED:
            del self._followed[next(iter(self._followed))]
        self._followed[pod.uid] = passing

    def findings(self) -> list[Finding]:
        """The first case of each event. A change with several events counts only if none of the
        events was also missed on its own."""
        alone = {(*events, point) for events, point in self._findings if len(events) == 1}
        return [
            finding
            for (events, point), finding in self._findings.items()
            if len(events) == 1 or not any((event, point) in alone for event in events)
        ]

    @property
    def _alive(self) -> Bools:
        nodes = self._state.nodes
        return np.asarray(nodes.alive[: nodes.size])

    def before(self, record: Record) -> StateBefore:
        """The part of the state that ``after`` needs from before the record is applied."""
        nodes, pods = self._state.nodes, self._state.pods
        match record:
            case records.NodeAdded() | records.NodeUpdated():
                row = nodes.rows.get(record.node.name, -1)
                return StateBefore(nodes.nodes[row] if row >= 0 else None)
            case records.PodUpdated(pod=pod) if pod.uid in pods:
                return StateBefore(pod=pods[pod.uid].pod, row=pods[pod.uid].row)
            case records.PodDeleted(uid=uid) | records.PodUnreserved(uid=uid) if uid in pods:
                return StateBefore(pod=pods[uid].pod, row=pods[uid].row)
            case records.ObjectChanged(object=new):
                old = self._state.registry.get(type(new), new.name, new.namespace)
                return StateBefore(object=old)
            case records.ObjectDeleted() if record.type in TYPES:
                kind = TYPES[record.type]
                return StateBefore(
                    object=self._state.registry.get(kind, record.name, record.namespace)
                )
        return StateBefore()

    def after(self, record: Record, before: StateBefore, position: int) -> None:
        """Compares the followed pods' passing nodes, once a record is applied."""
        changes = self._changes(record, before)
        updated_uid = record.pod.uid if isinstance(record, records.PodUpdated) else ""
        for uid in list(self._followed) if changes else ():
            pod_state = self._state.pods.get(uid)
            if pod_state is None or pod_state.row >= 0:
                del self._followed[uid]
                continue
            # An update of a pending pod concerns only that pod.
            own_changes = [
                change
                for change in changes
                if uid == updated_uid or change.event is not ClusterEvent.POD_UPDATE
            ]
            if own_changes:
                self._compare(pod_state.pod, own_changes, position)

    def memory_changed(self, position: int) -> None:
        """Compares after a change of the plugin's own memory."""
        change = Change(ClusterEvent.MEMORY_CHANGE, self._view(-1))
        for uid in list(self._followed):
            if uid in self._state.pods:
                self._compare(self._state.pods[uid].pod, [change], position)

    def _compare(self, pod: Pod, changes: list[Change], position: int) -> None:
        if self._checks >= MAX_CHECKS:
            return
        self._checks += 1
        passing = self._driver.passing_rows(pod)
        if passing is None:
            return
        passed = np.zeros(len(passing), dtype=bool)
        passed[: len(self._followed[pod.uid])] = self._followed[pod.uid]
        self._followed[pod.uid] = passing
        gained = np.flatnonzero(passing & ~passed & self._alive)
        if not len(gained) or any(self._wakes(pod, change) for change in changes):
            return
        node = self._state.nodes.names[int(gained[0])]
        self._add_finding(pod, node, changes, position)

    def _add_finding(self, pod: Pod, node: str, changes: list[Change], position: int) -> None:
        distinct = dict.fromkeys(change.event for change in changes)
        events = " or ".join(map(str, distinct))
        if any(self._subscribes(change) for change in changes):
            point, why = "hint", f"its hint says no to {events}"
        elif ClusterEvent.OBJECT_CHANGE in distinct:
            kind = type(changes[0].new_object or changes[0].old_object).__name__
            point, why = "wakes_on", f"wakes_on_objects has no {kind}"
        else:
            point, why = "wakes_on", f"wakes_on has no {events}"
        text = f"{events} made {node} acceptable for {pod.full_name}, but {why}"
        finding = Finding("wakes", point, text, f"position {position}")
        self._findings.setdefault((frozenset(distinct), point), finding)

    def _subscribes(self, change: Change) -> bool:
        plugin = self._driver.plugin
        if change.event is ClusterEvent.OBJECT_CHANGE:
            kind = type(change.new_object or change.old_object)
            return kind in getattr(plugin, "wakes_on_objects", ())
        return change.event in getattr(plugin, "wakes_on", tuple(ClusterEvent))

    def _wakes(self, pod: Pod, change: Change) -> bool:
        return self._subscribes(change) and self._driver.hint(pod, change)

    def _view(self, row: int) -> NodeView:
        rows = np.array([] if row < 0 else [row], dtype=np.intp)
        return NodeView(self._state.nodes, rows)

    def _changes(self, record: Record, before: StateBefore) -> list[Change]:
        """A record as the changes that hints get. A decision counts as the assignment of the pod to
        its node; the bind changes nothing more."""
        rows, pods = self._state.nodes.rows, self._state.pods
        match record:
            case records.NodeAdded() | records.NodeUpdated():
                view = self._view(rows[record.node.name])
                known = records.NodeUpdated(node=record.node) if before.node else record
                events = node_events(before.node, known)
                return [Change(event, view, record.node, before.node) for event in events]
            case records.NodeDeleted():
                return [Change(ClusterEvent.NODE_DELETE, self._view(-1))]
            case records.PodAdded() if pods[record.pod.uid].row >= 0:
                return [self._assigned(record.pod.uid)]
            case records.PodUpdated():
                return self._pod_updated(record, before)
            case records.PodDecided() if record.outcome in (Outcome.SCHEDULED, Outcome.WAITING):
                return [self._assigned(record.uid)]
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

    def _assigned(self, uid: str) -> Change:
        pod_state = self._state.pods[uid]
        return Change(ClusterEvent.ASSIGNED_POD_ADD, self._view(pod_state.row), pod=pod_state.pod)

    def _pod_updated(self, record: records.PodUpdated, before: StateBefore) -> list[Change]:
        pod_state = self._state.pods[record.pod.uid]
        if pod_state.row < 0:
            view = self._view(-1)
            return [Change(ClusterEvent.POD_UPDATE, view, pod=pod_state.pod, old_pod=before.pod)]
        is_new = before.row < 0
        event = ClusterEvent.ASSIGNED_POD_ADD if is_new else ClusterEvent.ASSIGNED_POD_UPDATE
        return [Change(event, self._view(pod_state.row), pod=pod_state.pod, old_pod=before.pod)]
