"""The controllers of pods that are gone, from the records of their arrival.

The derived tables have them for pods that exist only. A controller never changes, so the record of
the arrival says it as long as the log has that.
"""

from collections.abc import Iterable
from typing import NamedTuple

from eventsched.domain.records import PodAdded, PodUpdated
from eventsched.questions.streams import LoggedStream

MOST_READ = 2_000
"""Records of arrivals that one answer reads."""


class ArrivedOwner(NamedTuple):
    """The controller of a pod; None each if it has none."""

    kind: str | None
    name: str | None


def owners_at_arrival(stream: LoggedStream, positions: Iterable[int]) -> dict[int, ArrivedOwner]:
    """By the position of its arrival the controller of each pod, of those whose record the log
    still has. Raises UnavailableError."""
    sought = set(positions)
    stored = stream.evidence().records_at(sought) if sought else {}
    owners = {}
    for position, each in stored.items():
        if isinstance(record := each.record, PodAdded | PodUpdated):
            owner = record.pod.owner
            owners[position] = ArrivedOwner(*((owner.kind, owner.name) if owner else (None, None)))
    return owners
