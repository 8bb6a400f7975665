"""Describes what an update of a pod changed. The record itself has only the new pod."""

from collections.abc import Iterable, Iterator, Mapping

from eventsched.domain import records
from eventsched.domain.objects import Pod, PodSpec
from eventsched.domain.records import AnyRecord

_MAX_LENGTH = 60
"""The number of characters shown of a label's or annotation's value."""


def in_words(positioned_records: Iterable[tuple[int, AnyRecord]]) -> dict[int, str]:
    """Descriptions of a pod's updates by position, from its records in order. Updates without a
    known change are left out."""
    texts: dict[int, str] = {}
    last: Pod | None = None
    for position, record in positioned_records:
        if isinstance(record, records.PodAdded | records.PodUpdated):
            if last is not None and (changed := ", ".join(_differences(last, record.pod))):
                texts[position] = f"changed: {changed}"
            last = record.pod
    return texts


def _differences(old: Pod, new: Pod) -> Iterator[str]:
    yield from _keys("label", old.labels, new.labels)
    yield from _keys("annotation", old.annotations, new.annotations)
    if old.gates != new.gates:
        yield f"scheduling gates: {', '.join(new.gates) or 'none'}"
    if old.priority != new.priority:
        yield f"priority: {old.priority} → {new.priority}"
    if new.deleting and not old.deleting:
        yield "it is being deleted"
    if new.node_name and new.node_name != old.node_name:
        yield f"it is on {new.node_name}"
    if old.nominated_node != new.nominated_node:
        yield f"nominated node: {new.nominated_node or 'none'}"
    if old.scheduler_name != new.scheduler_name:
        yield f"schedulerName: {old.scheduler_name} → {new.scheduler_name}"
    fields = [field for field in PodSpec.__struct_fields__ if _differs(old.spec, new.spec, field)]
    if fields:
        yield f"its spec ({', '.join(field.replace('_', ' ') for field in fields)})"


def _differs(old: object, new: object, field: str) -> bool:
    return bool(getattr(old, field) != getattr(new, field))


def _keys(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key in sorted({*old, *new}):
        if key not in new:
            yield f"{kind} {key} removed"
        elif key not in old:
            yield f"{kind} {key}: {_short(new[key])}"
        elif old[key] != new[key]:
            yield f"{kind} {key}: {_short(old[key])} → {_short(new[key])}"


def _short(value: str) -> str:
    text = value if value and value.isprintable() else repr(value)
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"
