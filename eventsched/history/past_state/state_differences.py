"""What differs between the states at two positions of a log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import msgspec

from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import ClusterObject
from eventsched.domain.state.reservations import Reservation
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.snapshot import ReservationSnapshot, StateSnapshot
from eventsched.history.past_state.state_document import StandingPod, standing_of

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


class ComparedState(NamedTuple):
    """What is compared of a state. ``nominations`` has the node of each pod with one, by uid."""

    nodes: Sequence[Node | None]
    pods: Mapping[str, StandingPod]
    reservations: Mapping[str, Reservation | ReservationSnapshot]
    nominations: Mapping[str, str]
    objects: Sequence[ClusterObject]

    @classmethod
    def of(cls, state: SchedulerState) -> "ComparedState":
        """That of a state. It is only read."""
        preemptions, objects = state.preemptions, list(state.registry.everything())
        nominations = {uid: node for node in preemptions.nodes() for uid in preemptions.on(node)}
        return cls(state.nodes.nodes, state.pods, state.reservations, nominations, objects)

    @classmethod
    def of_copy(cls, copy: StateSnapshot, uids: Iterable[str]) -> "ComparedState":
        """That of a copied state, which had the pods in the order of ``uids``."""
        by_uid = {each.pod.uid: each for each in copy.pods}
        return cls(
            [node for _, node in copy.nodes],
            {uid: by_uid[uid] for uid in uids},
            copy.reservations,
            copy.preemptions.nominations,
            copy.registry,
        )

    def place_of(self, pod: StandingPod) -> str:
        """Where a pod is: ``bound on n1``, ``unschedulable``."""
        text = standing_of(pod, self.reservations.get(pod.pod.uid))
        return f"{text} on {pod.booked_node}" if pod.booked_node else text


def differences(before: ComparedState, after: ComparedState) -> list[ObjectDifference]:
    """The differences, nodes first, then pods and other objects, each in the order of the states.
    Pods are compared by uid: a pod that came back under its name is another one. Objects that both
    states share are not looked at, which are most of them if one was made from the other."""
    return [
        *_node_differences(before, after),
        *_pod_differences(before, after),
        *_object_differences(before, after),
    ]


def _node_differences(before: ComparedState, after: ComparedState) -> Iterator[ObjectDifference]:
    old, new = _by_name(before.nodes), _by_name(after.nodes)
    for name in {**old, **new}:
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            yield ObjectDifference("Node", name, "added" if was is None else "removed")
        elif changes := tuple(_field_changes(was, now)):
            yield ObjectDifference("Node", name, "changed", fields=changes)


def _by_name(nodes: Iterable[Node | None]) -> dict[str, Node]:
    return {node.name: node for node in nodes if node is not None}


def _pod_differences(before: ComparedState, after: ComparedState) -> Iterator[ObjectDifference]:
    nominated = before.nominations.keys() | after.nominations.keys()
    there = after.pods
    for uid, was in before.pods.items():
        now = there.get(uid)
        if now is None:
            yield ObjectDifference("Pod", was.pod.full_name, "removed", before.place_of(was))
        elif (
            # Most pods run, and nothing has happened to them.
            not (was.pod is now.pod and was.bound and now.bound)
            or was.booked_node != now.booked_node
            or was.attempts != now.attempts
            or uid in nominated
        ) and (changes := _pod_changes(before, was, after, now)):
            yield ObjectDifference("Pod", now.pod.full_name, "changed", fields=changes)
    for uid, now in there.items():
        if uid not in before.pods:
            yield ObjectDifference("Pod", now.pod.full_name, "added", after.place_of(now))


def _pod_changes(
    before: ComparedState, was: StandingPod, after: ComparedState, now: StandingPod
) -> tuple[FieldChange, ...]:
    uid = was.pod.uid
    nominated = (state.nominations.get(uid, "") for state in (before, after))
    changes = [
        FieldChange(field, old, new)
        for field, old, new in (
            ("place", before.place_of(was), after.place_of(now)),
            ("nominated", *nominated),
            ("attempts", was.attempts, now.attempts),
        )
        if old != new
    ]
    if was.pod is not now.pod:
        changes += _field_changes(_unplaced(was.pod), _unplaced(now.pod))
    return tuple(changes)


def _unplaced(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, **dict.fromkeys(_MOVED, ""))


def _object_differences(before: ComparedState, after: ComparedState) -> Iterator[ObjectDifference]:
    is_same = len(before.objects) == len(after.objects)
    if is_same and all(map(is_, before.objects, after.objects)):
        return
    old, new = ({obj.title: obj for obj in state.objects} for state in (before, after))
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
