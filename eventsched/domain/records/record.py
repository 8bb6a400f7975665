"""The bases of all records of a log."""

from typing import ClassVar

from eventsched.domain.objects import Frozen


class Record(Frozen, frozen=True, tag_field="kind"):
    """Base of stimuli and events; ``version`` is that of the kind's fields."""

    version: ClassVar[int] = 1


class Stimulus(Record, frozen=True):
    """Base of what happened outside the engine."""


class Event(Record, frozen=True):
    """Base of what the engine decided."""
