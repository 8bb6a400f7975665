"""A replica's copy of a stream: the engine's state, and what a leader needs besides.

A replica follows the log with a ``StreamState``; a leader continues it with records of its own. A
snapshot of it replaces the records before it, so that a restart need not begin at the first
record.
"""

import zlib
from collections.abc import Callable, Iterable

import msgspec

from eventsched.domain.errors import NewerLogError
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredRecord, StoredSnapshot
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.effects.event_drafts import Draft, EventDrafter
from eventsched.runtime.leader.snapshot_encoder import SnapshotEncoder, StreamStateSnapshot
from eventsched.runtime.snapshot_policy import (
    apply_seconds,
    is_readable,
    most_apply_seconds,
    snapshot_distance,
)
from eventsched.scheduling.engine import Engine

_UNUSABLE = (
    msgspec.MsgspecError,
    LookupError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    zlib.error,
)
"""What loading a snapshot raises that is damaged, or whose parts do not fit each other."""


class BatchMark(msgspec.Struct, frozen=True):
    """What a leader writes beside a batch when it closes it. ``seen`` is how far each watch was
    complete (resourceVersion by resource). Everything before the position ``reported`` was
    reported."""

    seen: dict[str, int] = {}
    reported: int = 0


_mark_decoder = msgspec.json.Decoder(BatchMark | None)


class FollowedStream:
    """A replica's copy of a stream that another one writes. A term begins with it
    (leader.py); from then on it belongs to the leader."""

    def __init__(self, make_engine: Callable[[], Engine], stream: str) -> None:
        """``make_engine`` gives a fresh engine."""
        self.stream = stream
        self.history_lost = False
        """Whether the stream has lost records that were followed before."""
        self.snapshot_position = 0
        """The position of the newest known snapshot."""
        self.snapshot_size = 0
        """Its size in bytes."""
        self.seconds_since_snapshot = 0.0
        """Estimated seconds to apply the records after that snapshot (snapshot_policy.py)."""
        self._make_engine = make_engine
        self.stream_state = StreamState(make_engine(), stream)

    @property
    def head(self) -> Head:
        """The position up to which the stream was followed."""
        return self.stream_state.head

    def load_snapshot(self, snapshot: StoredSnapshot) -> "StreamState | None":
        """Loads a snapshot, for ``begin``; None if it cannot be used. May run in another thread:
        for a large cluster this takes seconds. Raises NewerLogError."""
        stream_state = StreamState(self._make_engine(), self.stream)
        return stream_state if stream_state.restore(snapshot) else None

    def decide_with(self, make_engine: Callable[[], Engine]) -> None:
        """Uses other engines. Call before anything is followed."""
        self._make_engine = make_engine
        self.stream_state = StreamState(make_engine(), self.stream)

    def begin(self, stream_state: "StreamState") -> None:
        """Begins with a loaded snapshot. Call before anything is followed."""
        self.stream_state = stream_state
        self.snapshot_begun(stream_state.head.next)
        self.snapshot_size = stream_state.loaded_size

    def snapshot_begun(self, position: int) -> None:
        """Notes that a snapshot of this position is being made. ``snapshot_size`` stays that of
        the one before until this one is complete."""
        self.snapshot_position, self.seconds_since_snapshot = position, 0.0

    def count_records(self, records: int, size: int) -> None:
        """Adds records to the estimate of what follows the newest snapshot."""
        self.seconds_since_snapshot += apply_seconds(records, size)

    def due(self, head: Head, every: int) -> float:
        """How urgent a snapshot is. From 1 on it is made if no pod has to wait for it, from 2 on in
        any case. At 2 a start would have to apply ``2 * every`` records, or records for
        ``most_apply_seconds``."""
        pods = len(self.stream_state.engine.state.pods)
        most = most_apply_seconds(pods, self.snapshot_size)
        every = snapshot_distance(pods, every)
        return max(
            (head.next - self.snapshot_position) / every, 2 * self.seconds_since_snapshot / most
        )

    def follow(self, stored: Iterable[StoredRecord], head: Head, mark: bytes) -> list[LogEntry]:
        """Applies the records after ``self.head``, up to the new ``head``, and returns them.
        ``mark`` is that of their last batch. Raises what ``StreamState.follow`` raises."""
        stored = list(stored)
        self.count_records(len(stored), sum(len(record.body) for record in stored))
        return self.stream_state.follow(stored, head, mark)

    def reconfigured(self, make_engine: Callable[[], Engine]) -> "FollowedStream | None":
        """The same stream and state under engines of another configuration; None if the state
        cannot be carried over, so that the log has to be read. Replay changes engines in the same
        way (history/replay/engine_versions.py). May run in another thread."""
        successor = FollowedStream(make_engine, self.stream)
        stream_state = successor.load_snapshot(self.snapshot())
        if stream_state is None:
            return None
        successor.stream_state = stream_state
        successor.history_lost = self.history_lost
        successor.snapshot_position, successor.snapshot_size, successor.seconds_since_snapshot = (
            self.snapshot_position,
            self.snapshot_size,
            self.seconds_since_snapshot,
        )
        return successor

    def start_over(self, *, is_lost: bool = True) -> None:
        """Discards the state. The stream is to be followed again from its first record or from a
        snapshot. ``is_lost`` says that history was lost: the stream no longer has what was
        followed. False if only records that follow it were dropped."""
        self.history_lost = self.history_lost or (is_lost and self.stream_state.head.next > 0)
        self.stream_state = StreamState(self._make_engine(), self.stream)
        self.snapshot_begun(0)
        self.snapshot_size = 0

    def snapshot(self) -> StoredSnapshot:
        """A snapshot of what was followed, for ``load_snapshot``."""
        stream_state = self.stream_state
        return stream_state.snapshot(stream_state.head, stream_state.drafts).finish()


class StreamState:
    """A stream's records applied to an engine, up to ``head``. ``drafts`` are the Events that
    follow from them and are not known to be reported."""

    def __init__(self, engine: Engine, stream: str) -> None:
        """``engine`` is a fresh engine."""
        self.engine = engine
        self.head = Head(0, chain.genesis(stream))
        self.decisions = OpenDecisions(stream)
        self.drafts: list[Draft] = []
        self.loaded_size = 0
        """Bytes of the snapshot that this was loaded from."""
        self._drafter = EventDrafter(engine.state, self.decisions)

    def follow(self, records: Iterable[StoredRecord], head: Head, mark: bytes) -> list[LogEntry]:
        """Applies the records up to ``head``, and returns them. ``mark`` is that of their last
        batch. Raises ValueError if the records do not end there, KeyError if they contradict each
        other, and msgspec.ValidationError for a record of an unknown kind."""
        reported = _reported(mark)
        followed = [stored.logged for stored in records]
        for logged in followed:
            self.engine.apply(logged)
            drafts = self._next(logged)
            if logged.cause >= reported:
                self.drafts += drafts
        if self.engine.position != head.next:
            raise ValueError(
                f"the log has {self.engine.position} records, its head says {head.next}"
            )
        self.head = head
        self.drafts = [draft for draft in self.drafts if draft.position >= reported]
        return followed

    def on_records(self, logged: Iterable[LogEntry]) -> list[Draft]:
        """Takes in records that the engine has made and applied itself. Returns the drafts that
        follow from them."""
        return [draft for record in logged for draft in self._next(record)]

    def _next(self, logged: LogEntry) -> list[Draft]:
        drafts = self._drafter.on_record(logged)
        self.decisions.on_record(logged)
        return drafts

    def snapshot(self, head: Head, drafts: Iterable[Draft]) -> SnapshotEncoder:
        """A snapshot of the present state, to be encoded. ``head`` is the stream's head once all
        records are committed, and ``drafts`` are the Events that are not reported by then."""
        return SnapshotEncoder(
            head,
            self.engine.state,
            self.decisions.snapshot(),
            self._drafter.snapshot(),
            list(drafts),
        )

    def restore(self, snapshot: StoredSnapshot) -> bool:
        """Loads a snapshot, which may be compressed (zlib), into a new state. False if it has
        another format or its digest does not match; the state must not be used then. Raises
        NewerLogError for one of a newer version."""
        if not is_readable(snapshot.version):
            return False
        try:
            plain = snapshot.body
            if not plain.startswith(b"{"):  # release 0.1 did not compress it
                plain = zlib.decompress(plain)
            body = msgspec.json.decode(plain, type=StreamStateSnapshot)
            self.engine.restore(bytes(body.engine), snapshot.position)
        except NewerLogError:
            raise
        except _UNUSABLE:
            return False
        self.head, self.loaded_size = Head(snapshot.position, snapshot.hash), len(plain)
        self.decisions.restore(body.decisions)
        self._drafter.restore(body.drafter)
        self.drafts = body.drafts
        return self.engine.state.digest() == snapshot.digest


def _reported(mark: bytes) -> int:
    """The position before which everything was reported, by a batch's mark; 0 if it has none."""
    try:
        decoded = _mark_decoder.decode(mark)
    except msgspec.MsgspecError:  # of an older writer: its Events are reported again
        return 0
    return decoded.reported if decoded is not None else 0
