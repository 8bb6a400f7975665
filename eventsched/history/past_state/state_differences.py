"""What differs between the states at two positions of a log."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any

import msgspec

from eventsched.domain.objects import Node, Pod
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.state_document import standing

_MOVED = ("node_name", "nominated_node")
"""Fields of a pod that say where it is: ``place`` and ``nominated`` show them."""


@dataclass(frozen=True)
class FieldChange:
    """A value of an object before and after; None for one that was not there."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class ObjectDifference:
    """An object that is in one state only (``change`` is "added" or "removed"), or in another form
    ("changed"). ``kind`` is Node, Pod or the kind of another object; ``place`` is where an added or
    removed pod is or was."""

    kind: str
    name: str
    change: str
    place: str = ""
    fields: tuple[FieldChange, ...] = ()


def differences(before: SchedulerState, after: SchedulerState) -> list[ObjectDifference]:
    """The differences, nodes first, then pods in the order in which they came (those last that were
    added), then other objects. Pods are compared by uid: a pod that came back under its name is
    another one. Objects that both states share are not looked at, which are most of them if one was
    made from the other."""
    return [
        *_node_differences(before, after),
        *_pod_differences(before, after),
        *_object_differences(before, after),
    ]


def _node_differences(before: SchedulerState, after: SchedulerState) -> Iterator[ObjectDifference]:
    old, new = _nodes(before), _nodes(after)
    for name in {**old, **new}:
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            yield ObjectDifference("Node", name, "added" if was is None else "removed")
        elif changes := tuple(_field_changes(was, now)):
            yield ObjectDifference("Node", name, "changed", fields=changes)


def _nodes(state: SchedulerState) -> dict[str, Node]:
    return {node.name: node for node in state.nodes.nodes if node is not None}


def _pod_differences(before: SchedulerState, after: SchedulerState) -> Iterator[ObjectDifference]:
    nominated = {*before.preemptions.uids(), *after.preemptions.uids()}
    there = after.pods
    known: list[tuple[int, ObjectDifference]] = []
    for uid, was in before.pods.items():
        now = there.get(uid)
        if now is None:
            gone = ObjectDifference("Pod", was.pod.full_name, "removed", place_of(before, was))
            known.append((was.number, gone))
        elif (
            # Most pods run, and nothing has happened to them.
            not (was.pod is now.pod and was.bound and now.bound)
            or was.booked_node != now.booked_node
            or was.attempts != now.attempts
            or uid in nominated
        ) and (changes := _pod_changes(before, was, after, now)):
            changed = ObjectDifference("Pod", now.pod.full_name, "changed", fields=changes)
            known.append((was.number, changed))
    yield from _in_order(known)
    added = [now for uid, now in there.items() if uid not in before.pods]
    yield from _in_order(
        [
            (now.number, ObjectDifference("Pod", now.pod.full_name, "added", place_of(after, now)))
            for now in added
        ]
    )


def _in_order(found: list[tuple[int, ObjectDifference]]) -> Iterator[ObjectDifference]:
    """The differences of pods by the positions at which they came (``pods_in_order``)."""
    return (difference for _, difference in sorted(found, key=itemgetter(0)))


def _pod_changes(
    before: SchedulerState, was: PodState, after: SchedulerState, now: PodState
) -> tuple[FieldChange, ...]:
    uid = was.pod.uid
    changes = [
        FieldChange(field, old, new)
        for field, old, new in (
            ("place", place_of(before, was), place_of(after, now)),
            ("nominated", before.preemptions.node(uid), after.preemptions.node(uid)),
            ("attempts", was.attempts, now.attempts),
        )
        if old != new
    ]
    if was.pod is not now.pod:
        changes += _field_changes(_unplaced(was.pod), _unplaced(now.pod))
    return tuple(changes)


def place_of(state: SchedulerState, pod_state: PodState) -> str:
    """Where a pod is: ``bound on n1``, ``unschedulable``."""
    text = standing(state, pod_state)
    return f"{text} on {pod_state.booked_node}" if pod_state.booked_node else text


def _unplaced(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, **dict.fromkeys(_MOVED, ""))


def _object_differences(
    before: SchedulerState, after: SchedulerState
) -> Iterator[ObjectDifference]:
    objects = [list(state.registry.everything()) for state in (before, after)]
    if len(objects[0]) == len(objects[1]) and all(map(is_, *objects)):
        return
    old, new = ({obj.title: obj for obj in each} for each in objects)
    for title in {**old, **new}:
        was, now = old.get(title), new.get(title)
        kind, name = title.split(" ", 1)
        if was is None or now is None:
            yield ObjectDifference(kind, name, "added" if was is None else "removed")
        elif changes := tuple(_field_changes(was, now)):
            yield ObjectDifference(kind, name, "changed", fields=changes)


def _field_changes(before: msgspec.Struct, after: msgspec.Struct) -> Iterator[FieldChange]:
    if before is after or before == after:
        return
    for name in before.__struct_fields__:
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            yield FieldChange(name, msgspec.to_builtins(old), msgspec.to_builtins(new))
