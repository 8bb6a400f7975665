"""What moved a pod between queues, if that was something that happened elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.records import AnyRecord
from eventsched.history.explain.evidence import Evidence
from eventsched.history.explain.record_text import describe_with_pod, pod_of, pods_named_in

_DEFINITIONS = ("VerdictDefined", "ScoringDefined")


@dataclass(frozen=True)
class Origin:
    """The record that began the step of another one: its position, kind, and what it says."""

    position: int
    kind: str
    text: str


def origins_of(evidence: Evidence, positions: Iterable[int]) -> dict[int, Origin]:
    """What happened in the steps that begin at those positions; time alone is nothing that
    happened. A step whose decision needs new entries of the dictionaries begins with these: what
    happened is the first record after them."""
    begun = {at: at for at in positions}
    stored = evidence.records_at(begun.values())
    while skipped := [
        at for at, n in begun.items() if n in stored and stored[n].kind in _DEFINITIONS
    ]:
        begun.update((at, begun[at] + 1) for at in skipped)
        stored |= evidence.records_at(begun[at] for at in skipped)
    found = {
        n: stored[n].record
        for n in begun.values()
        if n in stored and stored[n].kind != "TimePassed"
    }
    named = _sentences(evidence, found)
    return {
        at: Origin(n, type(found[n]).__name__, named[n]) for at, n in begun.items() if n in found
    }


def _sentences(evidence: Evidence, found: dict[int, AnyRecord]) -> dict[int, str]:
    """Records in words, with the names of their pods, by position."""
    uids = {at: uid for at, record in found.items() if (uid := pod_of(record)) is not None}
    others = {uid for record in found.values() for uid in pods_named_in(record)}
    names = evidence.names({*uids.values(), *others})
    gone = {r.uid: at for at, r in found.items() if isinstance(r, records.PodDeleted)}
    homes = evidence.homes(gone)
    said = {}
    for at, record in found.items():
        said[at] = describe_with_pod(record, lambda uid: names.get(uid, uid))
        if isinstance(record, records.PodDeleted) and record.uid in homes:
            said[at] += f" from {homes[record.uid]}"
    return said
