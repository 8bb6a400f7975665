"""A log in memory. It is lost when the process ends, and otherwise behaves like any other."""

from collections.abc import Callable, Iterator

from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import chain
from eventsched.eventlog.chain import ChainWriter, Head, Term
from eventsched.eventlog.port import Batch, LogSize, StoredRecord, expand_deltas


class MemoryEventLog(ChainWriter):
    """The EventLog port over lists."""

    def __init__(self, stream: str = "memory", clock: Callable[[], int] = lambda: 0) -> None:
        """``clock`` returns the wall-clock time (µs) stored with each batch."""
        super().__init__(Term(stream, 1, bytes(16)), Head(0, chain.genesis(stream)), clock)
        self._records: list[StoredRecord] = []
        self._details: dict[int, Detail] = {}
        self._bytes = 0

    def begin(self, batch: Batch) -> None:
        """Commits a batch; see the port."""
        sealed = self._extend(batch)
        self._records.extend(batch.records)
        self._details.update(batch.details)
        self._bytes += len(sealed.body)

    def answered(self) -> bool:
        """True."""
        return True

    def finish(self) -> None:
        """Does nothing: no batch is ever in flight."""

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The records from a position on."""
        yield from self._records[first:]

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, with deltas expanded; None if there are none."""
        return expand_deltas(position, self._details.get)

    def usage(self) -> LogSize:
        """Its size in memory: records and vectors, not compressed."""
        nodes = sum(len(stored.body) for stored in self._records if stored.kind == "NodeAdded")
        vectors = sum(detail.stored_bytes for detail in self._details.values())
        scheduled = sum(b'"outcome":"scheduled"' in stored.body for stored in self._records)
        return LogSize(nodes, self._bytes + vectors - nodes, scheduled)
