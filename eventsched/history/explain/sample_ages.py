"""How old the measurements were that an attempt scored by (``SamplesTaken``)."""

from typing import NamedTuple

from eventsched.domain.records import PodDecided, SamplesTaken
from eventsched.history.explain.evidence import Evidence
from eventsched.plugins import IN_TREE
from eventsched.scheduling.framework import DependsOn

MEASURING = frozenset(
    name
    for name, plugin in IN_TREE.items()
    if DependsOn.SAMPLES in getattr(plugin, "depends_on", DependsOn(0))
)
"""The plugins that read samples; of others nobody looks for any, which would take long in a log
that has none."""


class SampleAge(NamedTuple):
    """The samples of a source that held at an attempt: the position of their record, how many nodes
    they are of, and how old they were, in seconds."""

    source: str
    position: int
    nodes: int
    age: float


def sample_ages_at(
    evidence: Evidence, position: int, at: int, decided: PodDecided
) -> tuple[SampleAge, ...]:
    """What held when an attempt was decided (at a time in µs), by source; nothing where no score
    was given by samples."""
    columns = evidence.columns(decided.scoring)
    if not any(column.plugin in MEASURING for column in columns):
        return ()
    found: dict[str, SampleAge] = {}
    for stored in evidence.samples(position):
        record = stored.record
        assert isinstance(record, SamplesTaken)
        if record.values and (not record.until or record.until > at):
            age = (at - (record.taken or stored.at)) / 1e6
            told = SampleAge(record.source, stored.position, len(record.values), age)
            found.setdefault(record.source, told)
    return tuple(found[source] for source in sorted(found))
