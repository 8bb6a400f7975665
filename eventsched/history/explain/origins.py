"""The events elsewhere that moved a pod between queues."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from eventsched.domain import records
from eventsched.domain.records import AnyRecord
from eventsched.history.explain.evidence import Evidence
from eventsched.history.explain.record_text import describe_with_pod, pod_of, pods_named_in

_DEFINITIONS = ("VerdictDefined", "ScoringDefined")


@dataclass(frozen=True)
class Origin:
    """The record that began the step of another record: its position, kind and text, and the names
    of the pods that it is about."""

    position: int
    kind: str
    text: str
    pods: tuple[str, ...] = ()


def origins_of(evidence: Evidence, positions: Iterable[int]) -> dict[int, Origin]:
    """The origins of the steps that begin at these positions, by position. Steps that only let time
    pass have none. If a step begins with new dictionary entries, its origin is the first record
    after them."""
    origin_at = {step: step for step in positions}
    stored = evidence.records_at(origin_at.values())
    while definitions := [
        step
        for step, position in origin_at.items()
        if position in stored and stored[position].kind in _DEFINITIONS
    ]:
        origin_at.update((step, origin_at[step] + 1) for step in definitions)
        stored |= evidence.records_at(origin_at[step] for step in definitions)
    origins = {
        position: stored[position].record
        for position in origin_at.values()
        if position in stored and stored[position].kind != "TimePassed"
    }
    names = _names(evidence, origins.values())
    texts = _texts(evidence, origins, names)
    return {
        step: Origin(
            position,
            type(origins[position]).__name__,
            texts[position],
            tuple(sorted({names[uid] for uid in _pods(origins[position]) if uid in names})),
        )
        for step, position in origin_at.items()
        if position in origins
    }


def _pods(record: AnyRecord) -> set[str]:
    """The uids of all pods that the text of a record names."""
    own = pod_of(record)
    return pods_named_in(record) | ({own} if own is not None else set())


def _names(evidence: Evidence, found: Iterable[AnyRecord]) -> dict[str, str]:
    return evidence.names({uid for record in found for uid in _pods(record)})


def _texts(
    evidence: Evidence, origins: dict[int, AnyRecord], names: Mapping[str, str]
) -> dict[int, str]:
    """The texts of records by position, with the names of their pods."""
    deleted = {
        record.uid: position
        for position, record in origins.items()
        if isinstance(record, records.PodDeleted)
    }
    homes = evidence.homes(deleted)
    texts = {}
    for position, record in origins.items():
        texts[position] = describe_with_pod(record, lambda uid: names.get(uid, uid))
        if isinstance(record, records.PodDeleted) and record.uid in homes:
            texts[position] += f" from {homes[record.uid]}"
    return texts
