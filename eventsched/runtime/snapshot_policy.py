"""When snapshots of the state are stored, and which of them can be loaded.

A start loads the newest snapshot and applies the records after it. The time this takes follows from
their number and their bytes: a few nodes of 160 kB each take as long as thousands of pods.
"""

import zlib

import msgspec

from eventsched import __version__
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.snapshot import StateSnapshot
from eventsched.eventlog.port import StoredSnapshot

FORMAT = 1
"""The format of a snapshot's body, and of what applying the records produces. It is raised only if
either changes, not with each version, so that an upgrade can load the existing snapshot. The
state's digest is checked in any case."""
RECORD_SECONDS = 40e-6
BYTE_SECONDS = 60e-9
"""Estimated time to apply a record, and each of its bytes, above the measured ones: 10 to 30 µs a
record, 1 ns (annotations) to 63 ns (affinity terms) a byte (docs/benchmarks.md)."""
APPLY_SECONDS = 2.0
"""Estimated time, at most, to apply the records after the newest snapshot."""
SNAPSHOT_EVERY = 25_000
"""Positions between two snapshots of a stream that is written as a whole: as many as the database
keeps between the older ones of a live stream."""
_RATIO = 8
"""A snapshot's bytes are about 5 to 6 times as many uncompressed. A buffer that has to grow takes
half as long again."""
_FIRST = "0.1.0"
"""The version that wrote no format number yet."""


def apply_seconds(records: int, size: int) -> float:
    """The estimated time to apply ``records`` records of ``size`` bytes together."""
    return records * RECORD_SECONDS + size * BYTE_SECONDS


def label() -> str:
    """The label of this version's snapshots: the format and, for people, the version."""
    return f"{FORMAT}/{__version__}"


class _SnapshotBody(msgspec.Struct):
    engine: StateSnapshot


_decoder = msgspec.json.Decoder(_SnapshotBody)


def snapshot_of(state: SchedulerState, batch_hash: bytes) -> StoredSnapshot:
    """The snapshot of a state after the batch with this hash, for readers: a leader or a simulation
    cannot go on from it."""
    body = zlib.compress(b'{"engine":' + snapshot.encode(state) + b"}", 1)
    return StoredSnapshot(state.position, batch_hash, state.digest(), label(), body)


def engine_state(stored: StoredSnapshot) -> StateSnapshot | None:
    """The state of the engine in a snapshot of a leader or a simulation, for ``Engine.restore``;
    None if it has another format or is damaged."""
    if not is_readable(stored.version):
        return None
    try:
        plain = stored.body
        if not plain.startswith(b"{"):  # release 0.1 did not compress a leader's
            plain = zlib.decompress(plain, bufsize=_RATIO * len(plain))
        return _decoder.decode(plain).engine
    except (zlib.error, msgspec.MsgspecError):
        return None


def is_readable(version: str) -> bool:
    """Whether a snapshot with this label has the format of this version. A checkpoint is such a
    snapshot, kept for years: who raises FORMAT makes the earlier ones readable, too
    (tests/unit/history/test_checkpoint_formats.py)."""
    number, slash, _ = version.partition("/")
    return number == str(FORMAT) if slash else FORMAT == 1 and version == _FIRST
