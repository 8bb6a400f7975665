"""When snapshots of the state are stored, and which of them can be loaded.

A start loads the newest snapshot and applies the records after it. The time this takes follows from
their number and their bytes: a few nodes of 160 kB each take as long as thousands of pods.
"""

import zlib

import msgspec

from eventsched import __version__
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.domain.state.snapshot import EncodedState
from eventsched.domain.state.state_snapshot import StateSnapshot
from eventsched.eventlog.port import StoredSnapshot

FORMAT = 2
"""The format of a snapshot's body, and of what applying the records produces. It is raised only if
either changes, not with each version, so that an upgrade can load the existing snapshot. The
state's digest is checked in any case. Format 1 had pods one by one (domain/state/pod_blocks.py).
"""
_READABLE = ("1", str(FORMAT))
RECORD_SECONDS = 40e-6
BYTE_SECONDS = 60e-9
"""Estimated time to apply a record, and each of its bytes, above the measured ones: 10 to 30 µs a
record, 1 ns (annotations) to 63 ns (affinity terms) a byte (docs/benchmarks.md)."""
APPLY_SECONDS = 2.0
"""Estimated time, at most, to apply the records after the newest snapshot of up to 25,000 pods."""
SNAPSHOT_EVERY = 12_500
"""Positions between two snapshots, at least: as many as the database keeps between the older ones
of a live stream. A state of the past is made from the snapshot before it."""
_EVERY_POD = 2
"""The same for each pod: the cost of a snapshot grows with the pods. A pod of a snapshot takes as
long to restore as two records to apply."""
_RATIO = 8
"""A snapshot's bytes are about 4 to 6 times as many uncompressed. A buffer that has to grow takes
half as long again."""
_FIRST = "0.1.0"
"""The version that wrote no format number yet: its snapshots have format 1."""


def snapshot_distance(pods: int, least: int = SNAPSHOT_EVERY) -> int:
    """Positions from a snapshot to the next one of a state with ``pods`` pods."""
    return max(least, _EVERY_POD * pods)


def apply_seconds(records: int, size: int) -> float:
    """The estimated time to apply ``records`` records of ``size`` bytes together."""
    return records * RECORD_SECONDS + size * BYTE_SECONDS


def most_apply_seconds(pods: int, size: int) -> float:
    """The estimated time (s), at most, to apply the records after the newest snapshot of ``size``
    bytes of a state with ``pods`` pods. From 25,000 pods on it grows with them: otherwise a busy
    leader of 60,000 would spend a tenth of its CPU time on snapshots. Their lists, which are read
    meanwhile, take a start longer."""
    return max(APPLY_SECONDS, _EVERY_POD * pods * RECORD_SECONDS, size * BYTE_SECONDS)


def label() -> str:
    """The label of this version's snapshots: the format and, for people, the version."""
    return f"{FORMAT}/{__version__}"


class _SnapshotBody(msgspec.Struct):
    engine: EncodedState


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
        return _decoder.decode(plain).engine.decoded()
    except (zlib.error, msgspec.MsgspecError):
        return None


def is_readable(version: str) -> bool:
    """Whether this version reads a snapshot with this label. A checkpoint is such a snapshot, kept
    for years: who raises FORMAT keeps the earlier ones readable
    (tests/unit/history/test_checkpoint_formats.py)."""
    number, slash, _ = version.partition("/")
    return number in _READABLE if slash else version == _FIRST
