"""Reads a plugin's memory from the log: the newest snapshot, and the changes after it."""

from typing import Any, NamedTuple

import msgspec

from eventsched.domain.records import MemoryChanged
from eventsched.eventlog.postgres.reader import Reader


class MemoryEntry(NamedTuple):
    """A value, and the position and time (µs) of the record that set it; both None if that was
    before the snapshot."""

    value: Any
    position: int | None = None
    at: int | None = None


class _State(msgspec.Struct):
    memory: dict[str, dict[str, Any]] = {}


class _Snapshot(msgspec.Struct):
    """A snapshot: an engine's state, or that state and what else a live scheduler stores."""

    engine: _State | None = None
    memory: dict[str, dict[str, Any]] = {}


def read_memory(log: Reader, plugin: str) -> dict[str, MemoryEntry]:
    """The entries of a plugin's memory at the log's end, sorted by key. Raises
    UnavailableError."""
    first, memory = _from_snapshot(log)
    entries = {key: MemoryEntry(value) for key, value in memory.get(plugin, {}).items()}
    for stored in log.read(first):
        if stored.kind != MemoryChanged.__name__:
            continue
        record = stored.logged.record
        assert isinstance(record, MemoryChanged)
        if record.plugin == plugin:
            entries.pop(record.key, None)
            if record.value is not None:
                entries[record.key] = MemoryEntry(record.value, stored.position, stored.at)
    return dict(sorted(entries.items()))


def _from_snapshot(log: Reader) -> tuple[int, dict[str, dict[str, Any]]]:
    """The newest snapshot's position and the memories of all plugins there; (0, {}) if its hash is
    not in the chain, or another version wrote it."""
    snapshot = log.snapshot()
    if snapshot is None or log.hash_before(snapshot.position) != snapshot.hash:
        return 0, {}
    try:
        state = msgspec.json.decode(snapshot.body, type=_Snapshot)
    except msgspec.MsgspecError:
        return 0, {}
    return snapshot.position, state.engine.memory if state.engine else state.memory
