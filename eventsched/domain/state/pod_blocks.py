"""The pods of a snapshot as they are stored: column by column, with what many pods share once.

Most pods are one of many copies: they have a spec, an owner and labels in common. Stored pod by
pod, a snapshot is twice as large and takes twice as long to load
(docs/adr/0039-snapshots-by-column.md).
"""

from collections.abc import Iterator, Sequence
from itertools import starmap
from operator import attrgetter
from typing import Any

import msgspec

from eventsched.domain.objects import Pod, PodVolume
from eventsched.domain.records import Queue

_NOT_SHARED: dict[str, Any] = {
    "uid": "", "name": "", "labels": {}, "annotations": {}, "volumes": (),
    "resource_claims": (), "node_name": "", "created_at": 0, "started_at": 0,
}  # fmt: skip
"""The fields of a Pod that a block has a column for, as a shared pod has them. The others are those
of the shared pod."""
_OWN = tuple(_NOT_SHARED)
_own = attrgetter(*_OWN)
_rest = attrgetter(*(name for name in Pod.__struct_fields__ if name not in (*_OWN, "spec")))
_OF_PODS = 1 + len(_OWN)
"""The columns of a block that make its pods."""
_PODS = 256
"""Pods in a block: a leader encodes a block at a time."""


class PodSnapshot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The attributes of a PodState. Tens of thousands are made at once, and none refers to itself:
    so they are not garbage-collected."""

    pod: Pod
    row: int
    booked_node: str
    booking_order: int
    bound: bool
    queue: Queue | None
    order: int
    since: int
    entered: int
    until: int
    attempts: int
    failures: int
    errors: int
    rejectors: tuple[str, ...]
    pending: tuple[str, ...]
    number: int = 0


class PodBlock(msgspec.Struct, frozen=True, gc=False):
    """Some pods. Every list has one value for each of them. ``shared`` are indexes of
    ``SharedParts.pods``, ``labels`` and ``annotations`` of ``SharedParts.texts``; the other lists
    are the fields of the same name of Pod, then of PodSnapshot."""

    shared: list[int]
    labels: list[int]
    annotations: list[int]
    uid: list[str]
    name: list[str]
    volumes: list[tuple[PodVolume, ...]]
    resource_claims: list[tuple[str, ...]]
    node_name: list[str]
    created_at: list[int]
    started_at: list[int]
    row: list[int]
    booked_node: list[str]
    booking_order: list[int]
    bound: list[bool]
    queue: list[Queue | None]
    order: list[int]
    since: list[int]
    entered: list[int]
    until: list[int]
    attempts: list[int]
    failures: list[int]
    errors: list[int]
    rejectors: list[tuple[str, ...]]
    pending: list[tuple[str, ...]]
    number: list[int]


class SharedParts(msgspec.Struct, frozen=True):
    """What the pods of some blocks have in common: ``pods`` without the fields that are a pod's own
    (their uid and name are empty), and ``texts``, their labels and annotations."""

    pods: list[Pod] = []
    texts: list[dict[str, str]] = []


class BlockEncoder:
    """Puts pods into blocks, and collects what they share."""

    def __init__(self) -> None:
        self.shared = SharedParts([], [])
        """What the pods of the blocks so far share."""
        self._pods: dict[tuple[Any, ...], int] = {}
        self._texts: dict[tuple[tuple[str, str], ...], int] = {}

    def blocks(self, pods: Sequence[PodSnapshot]) -> Iterator[PodBlock]:
        """The blocks of pods, in their order. The pods of a state: equal specs are one object."""
        for first in range(0, len(pods), _PODS):
            yield self._block(pods[first : first + _PODS])

    def _block(self, pods: Sequence[PodSnapshot]) -> PodBlock:
        columns = list(map(list, zip(*map(msgspec.structs.astuple, pods), strict=True)))
        objects: list[Pod] = columns[0]
        own = zip(*map(_own, objects), strict=True)
        uid, name, labels, annotations, *others = map(list, own)
        return PodBlock(
            list(map(self._number, objects)),
            list(map(self._text, labels)),
            list(map(self._text, annotations)),
            uid, name, *others, *columns[1:],
        )  # fmt: skip

    def _number(self, pod: Pod) -> int:
        # A spec cannot be hashed; the pods keep it, so its id stays.
        key = (id(pod.spec), *_rest(pod))
        number = self._pods.get(key)
        if number is None:
            number = self._pods[key] = len(self._pods)
            shared = msgspec.structs.replace(pod, **_NOT_SHARED)
            self.shared.pods.append(shared)
        return number

    def _text(self, text: dict[str, str]) -> int:
        key = tuple(text.items())
        number = self._texts.get(key)
        if number is None:
            number = self._texts[key] = len(self._texts)
            self.shared.texts.append(text)
        return number


def decoded_pods(blocks: Sequence[PodBlock], shared: SharedParts) -> list[PodSnapshot]:
    """The pods of blocks, in their order. Raises msgspec.ValidationError if they contradict each
    other."""
    found: list[PodSnapshot] = []
    try:
        for block in blocks:
            columns = msgspec.structs.astuple(block)
            pods = _pods(columns[:_OF_PODS], shared)
            found += starmap(PodSnapshot, zip(pods, *columns[_OF_PODS:], strict=True))
    except (IndexError, ValueError) as problem:
        raise msgspec.ValidationError(f"a block of pods: {problem}") from problem
    return found


def _pods(columns: Sequence[Sequence[Any]], shared: SharedParts) -> list[Pod]:
    parts, texts = shared.pods, shared.texts
    return [
        msgspec.structs.replace(
            parts[number], uid=uid, name=name, labels=texts[labels],
            annotations=texts[annotations], volumes=volumes, resource_claims=claims,
            node_name=node_name, created_at=created_at, started_at=started_at,
        )
        for number, labels, annotations, uid, name, volumes, claims, node_name, created_at,
            started_at in zip(*columns, strict=True)
    ]  # fmt: skip
