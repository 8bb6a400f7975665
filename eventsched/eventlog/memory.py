"""A log in memory: gone with the process, otherwise like any other."""

from collections.abc import Iterator

from eventsched.domain.verdicts import Detail
from eventsched.eventlog.port import Batch, ConflictError, Stored


class MemoryEventLog:
    """The EventLog port over lists."""

    def __init__(self) -> None:
        self._records: list[Stored] = []
        self._details: dict[int, Detail] = {}
        self._batches: set[str] = set()

    @property
    def head(self) -> int:
        """The position of the next record."""
        return len(self._records)

    def append(self, batch: Batch) -> None:
        """Commits a batch; see the port."""
        if batch.id in self._batches:
            return
        positions = [record.position for record in batch.records]
        if not positions or positions != list(range(positions[0], positions[0] + len(positions))):
            raise ValueError(f"positions of a batch must be consecutive, these are {positions}")
        if batch.first != self.head:
            raise ConflictError(batch.first, self.head)
        self._batches.add(batch.id)
        self._records.extend(batch.records)
        self._details.update(batch.details)

    def read(self, first: int = 0) -> Iterator[Stored]:
        """The records from a position on."""
        yield from self._records[first:]

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, whole: deltas are followed back to a whole record."""
        chain: list[Detail] = []
        at: int | None = position
        while at is not None:
            found = self._details.get(at)
            if found is None:
                return None
            chain.append(found)
            at = found.base
        whole = chain.pop()
        while chain:
            whole = chain.pop().expand(whole)
        return whole

    @property
    def stored_bytes(self) -> int:
        """Bytes of all bodies and vectors."""
        bodies = sum(len(record.body) for record in self._records)
        return bodies + sum(detail.stored_bytes for detail in self._details.values())
