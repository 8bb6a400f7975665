"""The result of a closed loop as a stream of its own: the log of the range's beginning, and from
there on what the other rules made.

The first record that the other rules make says in its ``inputs`` where the stream comes from
(``WHAT_IF``): that of the stream, or, if the range begins later, one that begins a term there.
"""

from collections.abc import Sequence

import msgspec

from eventsched.domain.records import PodDecided, PreemptionDecided, TermBegan
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Detail
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import Batch, StoredLog, StoredRecord
from eventsched.eventlog.whole_stream import WholeStream
from eventsched.runtime.snapshot_policy import snapshot_distance, snapshot_of

_BATCH_SIZE = 256
"""Records of a batch at least."""
_TERM = TermBegan.__name__
_WITH_VECTORS = (PodDecided.__name__, PreemptionDecided.__name__)


class ResultStream:
    """Fills a new stream. The state is folded on the way and stored from time to time, so that
    questions about a past of the stream need not begin with its first record."""

    def __init__(self, stream: WholeStream) -> None:
        self.stream = stream
        self._state = SchedulerState()
        self._stored = 0
        self._open: list[StoredRecord] = []
        self._details: dict[int, Detail] = {}

    def copy(self, log: StoredLog, end: int) -> None:
        """Copies the records before a position, which ends a step, with the vectors that the log
        still has. Raises CorruptLogError."""
        for stored in log.read() if end else ():
            if stored.position >= end:
                break
            if stored.cause == stored.position:
                self._step(stored.kind)
            self._open.append(stored)
            try:
                self._state.apply(stored.record, stored.at)
            except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
                reason = f"does not fit: {problem!r}"
                raise CorruptLogError(stored.position, reason) from problem
            if stored.kind in _WITH_VECTORS and (detail := log.detail(stored.position)) is not None:
                self._details[stored.position] = detail

    def take(self, logged: Sequence[LogEntry]) -> None:
        """Takes the records of a step."""
        if not logged:
            return
        self._step(type(logged[0].record).__name__)
        for entry in logged:
            self._open.append(StoredRecord.of(entry))
            self._state.apply(entry.record, entry.at)
            if entry.detail is not None:
                self._details[entry.position] = entry.detail

    def flush(self) -> None:
        """Closes the last batch."""
        if self._open:
            self.stream.append(Batch(self._open, self._details))
            self._open, self._details = [], {}
            distance = snapshot_distance(len(self._state.pods))
            if self.stream.head >= self._stored + distance:
                self._stored = self.stream.head
                self.stream.keep(snapshot_of(self._state, self.stream.head_hash))

    def _step(self, kind: str) -> None:
        """A step begins with a record of a kind."""
        if kind == _TERM:
            self.flush()
            self.stream.begin_term()
        elif len(self._open) >= _BATCH_SIZE:
            self.flush()
