"""What a plugin remembers, read from the log: the newest snapshot, and the changes after it."""

from typing import Any, NamedTuple

import msgspec

from eventsched.domain.records import MemoryChanged
from eventsched.eventlog.postgres.reader import Reader


class MemoryEntry(NamedTuple):
    """A value, and where it was set: the position of its record and the time (µs); None for both
    where that is before the snapshot."""

    value: Any
    position: int | None = None
    at: int | None = None


class _State(msgspec.Struct):
    memory: dict[str, dict[str, Any]] = {}


class _Kept(msgspec.Struct):
    """A snapshot: a state, or the state of an engine beside what a live scheduler needs."""

    engine: _State | None = None
    memory: dict[str, dict[str, Any]] = {}


def read_memory(log: Reader, plugin: str) -> dict[str, MemoryEntry]:
    """Key → value of a plugin's memory at the log's end, by key. Raises UnavailableError."""
    first, memory = _from_snapshot(log)
    found = {key: MemoryEntry(value) for key, value in memory.get(plugin, {}).items()}
    for stored in log.read(first):
        if stored.kind != MemoryChanged.__name__:
            continue
        record = stored.logged.record
        assert isinstance(record, MemoryChanged)
        if record.plugin == plugin:
            found.pop(record.key, None)
            if record.value is not None:
                found[record.key] = MemoryEntry(record.value, stored.position, stored.at)
    return dict(sorted(found.items()))


def _from_snapshot(log: Reader) -> tuple[int, dict[str, dict[str, Any]]]:
    """The newest snapshot's position and all memories there; nothing where the chain does not know
    it, or another version wrote it."""
    snapshot = log.snapshot()
    if snapshot is None or log.hash_before(snapshot.position) != snapshot.hash:
        return 0, {}
    try:
        kept = msgspec.json.decode(snapshot.body, type=_Kept)
    except msgspec.MsgspecError:
        return 0, {}
    return snapshot.position, kept.engine.memory if kept.engine else kept.memory
