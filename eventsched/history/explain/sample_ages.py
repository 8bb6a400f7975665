"""The age of the measurements (``SamplesTaken``) with which an attempt scored nodes."""

from typing import NamedTuple

from eventsched.domain.records import PodDecided, SamplesTaken
from eventsched.history.explain.evidence import Evidence

MEASURING = frozenset({"NetworkTraffic"})
"""The plugins of this package that read samples, by name: importing them takes longer than most
explanations. For an attempt without them no samples are searched for, which would take long in a
log that has none."""


class SampleAge(NamedTuple):
    """The samples of a source that were in force at an attempt: the position of their record, their
    number of nodes, and their age in seconds."""

    source: str
    position: int
    nodes: int
    age: float


def sample_ages_at(
    evidence: Evidence, position: int, at: int, decided: PodDecided
) -> tuple[SampleAge, ...]:
    """The samples in force when an attempt was decided (at the time ``at`` in µs), by source; empty
    if no plugin scored with samples."""
    columns = evidence.columns(decided.scoring)
    if not any(column.plugin in MEASURING for column in columns):
        return ()
    ages: dict[str, SampleAge] = {}
    for stored in evidence.samples(position):
        record = stored.record
        assert isinstance(record, SamplesTaken)
        if record.values and (not record.until or record.until > at):
            age = (at - (record.taken or stored.at)) / 1e6
            sample_age = SampleAge(record.source, stored.position, len(record.values), age)
            ages.setdefault(record.source, sample_age)
    return tuple(ages[source] for source in sorted(ages))
