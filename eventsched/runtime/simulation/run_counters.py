"""Counters of a run, from its records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eventsched.domain import records
from eventsched.domain.records import (
    MoveCause,
    Outcome,
    PodBound,
    PodDecided,
    PodQueued,
    Queue,
    Record,
)
from eventsched.runtime.simulation.repetition import Rounds, on_record

_OWN_FAILURES = frozenset(
    {MoveCause.ATTEMPT_FAILED, MoveCause.BINDING_FAILED, MoveCause.PARKED, MoveCause.PERMIT_DENIED}
)
"""Causes of moves after an error of the scheduler itself, not after an answer of the cluster."""

_COUNTED = frozenset(
    {
        PodDecided, PodQueued, PodBound, records.PodUnreserved, records.PodAdded,
        records.PodDeleted, records.PodSkipped, records.NodeUpdated, records.NodeDeleted,
    }
)  # fmt: skip
"""The kinds of records that are counted."""


@dataclass
class RunCounters:
    """The counters of a run.

    - ``messages``: the last message about each waiting pod; ``failures``: the first one of each
      plugin that failed.
    - ``now``: the virtual time, in µs.
    - ``errors_in_a_row``: attempts that ended in an error, before or after they had found a node,
      since the last pod was bound.
    - ``resumed``: pods that were placed before this process continued the run.
    - ``rounds``: see repetition.py.
    """

    placed: int = 0
    attempts: int = 0
    decided: int = 0
    arrived: int = 0
    nodes_changed: int = 0
    nodes_removed: int = 0
    errors: int = 0
    errors_in_a_row: int = 0
    resumed: int = 0
    now: int = 0
    queues: Mapping[Queue, int] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    rounds: Rounds = field(default_factory=dict)

    def count(self, record: Record) -> None:
        """Counts a record."""
        on_record(self.rounds, record)
        if type(record) not in _COUNTED:
            return
        match record:
            case PodDecided():
                self.attempts += 1
                is_error = record.outcome is Outcome.ERROR
                self.errors += is_error
                self.decided += record.outcome is Outcome.SCHEDULED
                # A plugin that reports a bad pod (a malformed selector) has not failed.
                if is_error and record.message.startswith(f"plugin {record.plugin} failed"):
                    self.failures.setdefault(record.plugin, record.message)
                if record.outcome in (Outcome.UNSCHEDULABLE, Outcome.ERROR):
                    self.messages[record.uid] = record.message
            case PodQueued() if record.errors and record.cause in _OWN_FAILURES:
                self.errors_in_a_row += 1
            case records.PodUnreserved() if record.message:
                self.messages[record.uid] = record.message
            case PodBound():
                self.placed += 1
                self.errors_in_a_row = 0
                self.messages.pop(record.uid, None)
            case records.PodAdded():
                self.arrived += not record.pod.node_name
            case records.PodDeleted() | records.PodSkipped():
                self.messages.pop(record.uid, None)
            case records.NodeUpdated():
                self.nodes_changed += 1
            case records.NodeDeleted():
                self.nodes_removed += 1

    def snapshot(self) -> dict[str, Any]:
        """The counters as JSON values, for ``restore``."""
        return {name: value for name, value in vars(self).items() if name != "queues"}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Loads a snapshot."""
        vars(self).update(snapshot)
