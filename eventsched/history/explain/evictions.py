"""By whom a pod was evicted."""

from collections.abc import Iterable
from typing import NamedTuple

from eventsched.domain import records
from eventsched.domain.records import AnyRecord
from eventsched.history.explain.evidence import Evidence, uid_key


class ExplainedEviction(NamedTuple):
    """A preemption that evicts a pod: its position, and the name of the pod that it makes room
    for."""

    position: int
    by: str


def eviction_of(
    evidence: Evidence, uid: str, recorded: Iterable[tuple[int, AnyRecord]]
) -> ExplainedEviction | None:
    """The last eviction of a pod, from its records by position; None without one that the cluster
    has not refused. A victim that was leaving already, or that gave up its bind, is not evicted."""
    found: tuple[int, str] | None = None
    for position, record in recorded:
        match record:
            case records.PreemptionDecided() if uid_key(record.uid) != uid:
                spared = {uid_key(each) for each in (*record.leaving, *record.sent_back)}
                if uid not in spared:
                    found = position, record.uid
            case records.EvictionFailed():
                found = None
    if found is None:
        return None
    position, preemptor = found
    return ExplainedEviction(position, evidence.names([preemptor]).get(preemptor, preemptor))
