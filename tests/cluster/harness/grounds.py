"""The Events that a log requires, and the decisions that they may name. The rules are independent:
no code of the scheduler is used."""

from collections import defaultdict
from typing import NamedTuple

from eventsched.domain.records import (
    EvictionFailed,
    EvictionSucceeded,
    Outcome,
    PodBound,
    PodDecided,
    PodDeleted,
    PodQueued,
    PodSkipped,
    PodUnreserved,
    PodUpdated,
    PreemptionDecided,
    Record,
)
from tests.cluster.harness.scheduler import Log

Event = tuple[str, str]
"""A reason and the uid of a pod."""


class Grounds(NamedTuple):
    """``owed`` are the Events of which there has to be one at least (a pod's failures may share
    one), whether the pod is still there or not; ``named`` the positions of the decisions that one
    for a failure or a preemption may name."""

    owed: set[Event]
    named: dict[Event, set[int]]


def grounds(log: Log) -> Grounds:
    """Those of a whole log."""
    found = _Reading()
    for stored, each in zip(log.stored, log.records, strict=True):
        found.read(stored.position, each)
    return Grounds(found.owed, found.named)


class _Reading:
    def __init__(self) -> None:
        self.owed: set[Event] = set()
        self.named: dict[Event, set[int]] = defaultdict(set)
        self._failed: set[str] = set()
        self._leaving: set[str] = set()

    def read(self, position: int, record: Record) -> None:
        match record:
            case PodBound(uid=uid):
                self.owed.add(("Scheduled", uid))
            case PodDecided(outcome=Outcome.SCHEDULED | Outcome.WAITING):
                pass
            case PodDecided(uid=uid) | PodUnreserved(uid=uid):
                self.named["FailedScheduling", uid].add(position)
                self._failed.add(uid)
            case PodSkipped(uid=uid):
                self.named["FailedScheduling", uid].add(position)
            case PodQueued(uid=uid) if uid in self._failed:
                self._failed.remove(uid)
                self.owed.add(("FailedScheduling", uid))
            case _:
                self._read_of_victims(position, record)

    def _read_of_victims(self, position: int, record: Record) -> None:
        match record:
            case PreemptionDecided():
                for uid in (*record.evicted, *record.sent_back):
                    self.named["Preempted", uid].add(position)
                self._leaving |= set(record.evicted)
                self.owed |= {("Preempted", uid) for uid in record.sent_back}
            case EvictionFailed(uid=uid):
                self._leaving.discard(uid)
            case EvictionSucceeded(uid=uid):
                self._gone(uid)
            case PodUpdated(pod=pod) if pod.deleting:
                self._gone(pod.uid)
            case PodDeleted(uid=uid):
                self._failed.discard(uid)
                self._gone(uid)

    def _gone(self, uid: str) -> None:
        if uid in self._leaving:
            self._leaving.remove(uid)
            self.owed.add(("Preempted", uid))
