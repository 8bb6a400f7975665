"""What the cluster answers to decisions that history did not make: in virtual time, by delays that
are those of history's own outcomes."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from eventsched.cluster.in_memory.cluster import BIND_DELAY, TERMINATION_DELAY
from eventsched.cluster.in_memory.volume_controller import VolumeController
from eventsched.domain.objects import Node
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records import (
    BindIntended,
    BindSucceeded,
    EvictionSucceeded,
    ObjectChanged,
    Outcome,
    PodDecided,
    PodDeleted,
    PreemptionDecided,
    PreparationIntended,
    Record,
    Stimulus,
    WriteFailed,
    WriteSucceeded,
)
from eventsched.domain.records.object_writes import Write
from eventsched.domain.state.scheduler_state import SchedulerState

WITH_INTENTS = frozenset((BindIntended, PodDecided, PreemptionDecided, PreparationIntended))
"""The kinds of records that may have intents."""


class DueOutcome(NamedTuple):
    """A stimulus, its time (µs), and the attempt whose bind it ends; 0: it does not end one."""

    at: int
    order: int
    stimulus: Stimulus
    attempt: int = 0


class OwnOutcomes:
    """The outcomes to come, in the order of their times."""

    def __init__(self) -> None:
        self._due: list[DueOutcome] = []
        self._order = 0
        self.bind_delay = BIND_DELAY
        """Microseconds from an intent to its outcome: the last that history showed."""
        self.own_objects: set[str] = set()
        """Titles of objects that were changed by own writes: history's changes do not apply."""

    @property
    def next_at(self) -> int | None:
        """The time of the next outcome."""
        return self._due[0].at if self._due else None

    def pop(self) -> DueOutcome:
        """Removes the next outcome."""
        return heappop(self._due)

    def bind(self, uid: str, node: str, attempt: int, now: int) -> None:
        """A bind was intended."""
        self._push(now + self.bind_delay, BindSucceeded(uid=uid, node=node), attempt)

    def evict(self, uid: str, now: int) -> None:
        """An eviction was intended."""
        at = now + self.bind_delay
        self._push(at, EvictionSucceeded(uid=uid))
        self._push(at + TERMINATION_DELAY, PodDeleted(uid=uid))

    def end(self, uid: str, at: int) -> None:
        """A pod ends by itself at a time (µs)."""
        self._push(at, PodDeleted(uid=uid))

    def write(self, uid: str, attempt: int, write: Write, state: SchedulerState, now: int) -> None:
        """A change of an object was asked for. The controllers answer as in a simulation."""
        objects = list(state.registry.everything())
        nodes: list[Node] = [node for node in state.nodes.nodes if node is not None]
        reaction = VolumeController(objects, nodes).write(write)
        at = now + self.bind_delay
        for changed in reaction.now:
            self._change(changed, at)
        outcome: Stimulus = WriteSucceeded(uid=uid, attempt=attempt, write=write)
        if reaction.problem:
            outcome = WriteFailed(uid=uid, attempt=attempt, write=write, message=reaction.problem)
        self._push(at, outcome)
        for changed in reaction.later:
            self._change(changed, at + reaction.delay)

    def _change(self, changed: AnyObject, at: int) -> None:
        self.own_objects.add(changed.title)
        self._push(at, ObjectChanged(object=changed))

    def _push(self, at: int, stimulus: Stimulus, attempt: int = 0) -> None:
        self._order += 1
        heappush(self._due, DueOutcome(at, self._order, stimulus, attempt))


def bind_of(record: Record) -> PodDecided | BindIntended | None:
    """The record if it is an intent to bind."""
    if isinstance(record, PodDecided):
        return record if record.outcome is Outcome.SCHEDULED else None
    return record if isinstance(record, BindIntended) else None


def writes_of(intended: PreparationIntended) -> list[Write]:
    return [write for group in intended.writes.values() for write in group]


def intents_of(
    records: Iterable[Record],
) -> tuple[set[str], set[str], dict[str, set[Write]]]:
    """The pods of intents to bind, the pods that are evicted, and the writes by pod, of records of
    these kinds."""
    binds: set[str] = set()
    evicted: set[str] = set()
    writes: dict[str, set[Write]] = {}
    for record in records:
        if (bind := bind_of(record)) is not None:
            binds.add(bind.uid)
        elif isinstance(record, PreemptionDecided):
            evicted.update(record.evicted)
        elif isinstance(record, PreparationIntended):
            writes[record.uid] = set(writes_of(record))
    return binds, evicted, writes
