"""A log in memory: gone with the process, otherwise like any other."""

from collections.abc import Callable, Iterator

from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.log_errors import ConflictError
from eventsched.eventlog.port import Batch, LogSize, Stored, whole


class MemoryEventLog:
    """The EventLog port over lists."""

    def __init__(self, stream: str = "memory", clock: Callable[[], int] = lambda: 0) -> None:
        """``clock`` gives the wall clock (µs) that batches are stamped with."""
        self._term = Term(stream, 1, bytes(16))
        self._clock = clock
        self._head = Head(0, chain.genesis(stream))
        self._records: list[Stored] = []
        self._details: dict[int, Detail] = {}
        self._bytes = 0

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._term.stream

    @property
    def head(self) -> int:
        """The position of the next record."""
        return self._head.next

    @property
    def head_hash(self) -> bytes:
        """The hash of the last batch."""
        return self._head.hash

    def begin(self, batch: Batch) -> None:
        """Commits a batch; see the port."""
        sealed: SealedBatch = chain.seal(batch, self._term, self._head, self._clock())
        if batch.first != self.head:
            raise ConflictError(batch.first, self.head)
        self._head = sealed.head
        self._records.extend(batch.records)
        self._details.update(batch.details)
        self._bytes += len(sealed.body)

    def finish(self) -> None:
        """Nothing is ever under way."""

    def read(self, first: int = 0) -> Iterator[Stored]:
        """The records from a position on."""
        yield from self._records[first:]

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, whole: deltas are followed back to a whole record."""
        return whole(position, self._details.get)

    def usage(self) -> LogSize:
        """What it takes in memory: records and vectors, not compressed."""
        nodes = sum(len(each.body) for each in self._records if each.kind == "NodeAdded")
        vectors = sum(detail.stored_bytes for detail in self._details.values())
        scheduled = sum(b'"outcome":"scheduled"' in each.body for each in self._records)
        return LogSize(nodes, self._bytes + vectors - nodes, scheduled)
