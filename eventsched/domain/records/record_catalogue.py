"""The record catalogue: one row for each kind of record, with its properties.

Tables by kind (which kinds move a pod, which are intents…) are derived from these rows when their
modules are imported. A new kind is a class in ``stimuli``, ``events`` or ``extender_records``, a
member of ``AnyRecord`` and a row here. tests/unit/domain/test_record_catalogue.py names the other
places that every kind needs, CONTRIBUTING.md all of them. A field ``uid`` is the record's pod's.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

from eventsched.domain.records import events, extender_records, placement_comparison, stimuli
from eventsched.domain.records.record import Record, Stimulus

AnyRecord = (
    stimuli.StreamStarted
    | stimuli.TermBegan
    | stimuli.HistoryLost
    | stimuli.WatchRelisted
    | stimuli.NodeAdded
    | stimuli.NodeUpdated
    | stimuli.NodeDeleted
    | stimuli.PodAdded
    | stimuli.PodUpdated
    | stimuli.PodDeleted
    | stimuli.ObjectChanged
    | stimuli.ObjectDeleted
    | stimuli.BindSucceeded
    | stimuli.BindFailed
    | stimuli.EvictionSucceeded
    | stimuli.EvictionFailed
    | stimuli.BindRetried
    | stimuli.BindVoided
    | stimuli.WriteSucceeded
    | stimuli.WriteFailed
    | extender_records.ExtenderAnswered
    | extender_records.ExtenderInquired
    | stimuli.MemoryForgotten
    | stimuli.PluginOverran
    | stimuli.SamplesTaken
    | stimuli.PartitionSealed
    | stimuli.TimePassed
    | events.VerdictDefined
    | events.ScoringDefined
    | events.PodQueued
    | events.PodDecided
    | events.PermitGranted
    | events.PreparationIntended
    | events.BindIntended
    | events.PodUnreserved
    | events.PodSkipped
    | events.PodBound
    | events.PreemptionDecided
    | events.NominationCleared
    | events.NodeOvercommitted
    | events.MemoryChanged
    | extender_records.ExtenderAsked
    | extender_records.ExtenderReplied
    | placement_comparison.PlacementCompared
)

Level = Literal["debug", "info", "warning"]


@dataclass(frozen=True, slots=True)
class RecordKind:
    """The properties of all records of one kind.

    ``level`` is the level of their lines in the process's own log; if it depends on the record, the
    lowest one. ``pod`` is the attribute with the uid of the pod that a record is about, "" if it is
    about none.
    """

    record: type[Record]
    level: Level
    pod: str = ""
    moves_pod: bool = False
    """Such a record moves its pod to another queue or wait, or out of them."""
    regroups_pod: bool = False
    """Such a record may change the group of its pod."""
    changes_state: bool = True
    """False if all consequences of such a record are separate events."""
    is_intent: bool = False
    """Such a record may have an effect outside once it is committed."""
    may_linger: bool = False
    """The cluster reports it, and nothing waits for its commit: a batch of such records alone may
    wait for others (``Limits.linger``)."""
    has_metrics: bool = False
    """It changes metrics other than the count of records by kind."""

    @property
    def name(self) -> str:
        """The name in the log."""
        return self.record.__name__

    @property
    def is_stimulus(self) -> bool:
        """Whether such a record is a stimulus; all others are events."""
        return issubclass(self.record, Stimulus)

    @property
    def uid(self) -> Callable[[Any], str]:
        """The function from a record to the uid of its pod, for a kind that is about a pod."""
        return attrgetter(self.pod)


CATALOGUE = (
    RecordKind(stimuli.StreamStarted, "info"),
    RecordKind(stimuli.TermBegan, "info", has_metrics=True),
    RecordKind(stimuli.HistoryLost, "warning"),
    RecordKind(stimuli.WatchRelisted, "info", changes_state=False),
    RecordKind(stimuli.NodeAdded, "debug", may_linger=True),
    RecordKind(stimuli.NodeUpdated, "debug", may_linger=True),
    RecordKind(stimuli.NodeDeleted, "debug", may_linger=True),
    RecordKind(stimuli.PodAdded, "debug", "pod.uid", regroups_pod=True, may_linger=True),
    RecordKind(
        stimuli.PodUpdated, "debug", "pod.uid", moves_pod=True, regroups_pod=True, may_linger=True
    ),
    RecordKind(
        stimuli.PodDeleted, "debug", "uid",
        moves_pod=True, regroups_pod=True, may_linger=True, has_metrics=True,
    ),
    RecordKind(stimuli.ObjectChanged, "debug", may_linger=True),
    RecordKind(stimuli.ObjectDeleted, "debug", may_linger=True),
    RecordKind(stimuli.BindSucceeded, "debug", "uid", changes_state=False),
    RecordKind(stimuli.BindFailed, "warning", "uid", changes_state=False),
    RecordKind(stimuli.EvictionSucceeded, "info", "uid", regroups_pod=True),
    RecordKind(stimuli.EvictionFailed, "warning", "uid"),
    RecordKind(stimuli.BindRetried, "debug", "uid", changes_state=False, is_intent=True),
    RecordKind(stimuli.BindVoided, "warning", "uid", changes_state=False),
    RecordKind(stimuli.WriteSucceeded, "debug", "uid"),
    RecordKind(stimuli.WriteFailed, "warning", "uid", changes_state=False),
    RecordKind(extender_records.ExtenderAnswered, "debug", "uid", has_metrics=True),
    RecordKind(extender_records.ExtenderInquired, "debug", "uid", changes_state=False),
    RecordKind(stimuli.MemoryForgotten, "info", changes_state=False),
    RecordKind(stimuli.PluginOverran, "warning", "uid"),
    RecordKind(stimuli.SamplesTaken, "debug", has_metrics=True),
    RecordKind(stimuli.PartitionSealed, "info", changes_state=False),
    RecordKind(stimuli.TimePassed, "debug", changes_state=False),
    RecordKind(events.VerdictDefined, "debug"),
    RecordKind(events.ScoringDefined, "debug"),
    RecordKind(events.PodQueued, "debug", "uid", moves_pod=True, has_metrics=True),
    RecordKind(
        events.PodDecided, "debug", "uid", moves_pod=True, is_intent=True, has_metrics=True
    ),
    RecordKind(events.PermitGranted, "debug", "uid", moves_pod=True),
    RecordKind(events.PreparationIntended, "debug", "uid", moves_pod=True, is_intent=True),
    RecordKind(events.BindIntended, "debug", "uid", moves_pod=True, is_intent=True),
    RecordKind(events.PodUnreserved, "debug", "uid", moves_pod=True),
    RecordKind(events.PodSkipped, "debug", "uid", moves_pod=True),
    RecordKind(events.PodBound, "info", "uid", has_metrics=True),
    RecordKind(events.PreemptionDecided, "info", "uid", is_intent=True, has_metrics=True),
    RecordKind(events.NominationCleared, "debug", "uid"),
    RecordKind(events.NodeOvercommitted, "warning", changes_state=False),
    RecordKind(events.MemoryChanged, "debug"),
    RecordKind(extender_records.ExtenderAsked, "debug", "uid", is_intent=True),
    RecordKind(extender_records.ExtenderReplied, "debug", "uid", has_metrics=True),
    RecordKind(placement_comparison.PlacementCompared, "debug", "uid", has_metrics=True),
)  # fmt: skip
"""One row for each kind, in the order of ``AnyRecord``."""
