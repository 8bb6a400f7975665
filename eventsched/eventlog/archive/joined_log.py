"""A log whose older part is in an archive, and whose newer part is in a database."""

import sys
from collections.abc import Iterator, Sequence, Set

from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog import vectors
from eventsched.eventlog.archive.archive_log import ArchiveLog
from eventsched.eventlog.archive.joins import require_join
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredRecord, expand_deltas
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import StoredBatch, records_from

_PODS = """
SELECT uid, namespace, name FROM eventsched_log.pod
WHERE stream = :s AND uid = ANY(CAST(:uids AS uuid[]))
"""
_DETAIL = "SELECT base, body FROM eventsched_log.detail WHERE stream = :s AND seq = :position"


class JoinedLog:
    """A stream's log: what the archive holds from the archive, what comes after from the
    database."""

    def __init__(self, archive: ArchiveLog, reader: Reader) -> None:
        """Raises InputError if the database does not go on where the archive ends."""
        self._archive, self._reader = archive, reader
        self._border = archive.head.next
        require_join(reader, archive.head, str(archive.folder))

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._archive.stream

    @property
    def head(self) -> Head:
        """The stream's committed head."""
        return self._reader.head

    def batches(self, first: int = 0) -> Iterator[StoredBatch]:
        """The batch that holds position ``first`` and all later ones, in order, up to the head at
        the time when the database is first read."""
        if first < self._border:
            yield from self._archive.batches(first)
        for batch in self._reader.batches(max(first, self._border)):
            if batch.first >= self._border:
                yield batch

    def read(self, first: int = 0) -> Iterator[StoredRecord]:
        """The records from position ``first`` on, in order."""
        return records_from(self.batches(first), first)

    def batches_with(
        self, words: Sequence[str], first: int = 0, end: int = sys.maxsize
    ) -> Iterator[StoredBatch]:
        """The batches with records from position ``first`` to before ``end`` whose text has one of
        the words."""
        yield from self._archive.batches_with(words, first, min(end, self._border))
        for batch in self.batches(max(first, self._border)):
            if batch.first >= end:
                return
            if any(word in batch.body for word in words):
                yield batch

    def decided_pods(self, uids: Set[str]) -> dict[str, str]:
        """``namespace/name`` of pods with a decision or in the database, by uid as tables have
        it."""
        rows = self._reader.rows(_PODS, uids=list(uids))
        names = {str(row["uid"]): f"{row['namespace']}/{row['name']}" for row in rows}
        return names | self._archive.decided_pods(uids - names.keys())

    def detail(self, position: int) -> Detail | None:
        """The vectors of a decision, with deltas expanded; None if there are none or they were
        thinned."""
        return expand_deltas(position, self._stored_detail)

    def partial_details(self, first: int = 0) -> Iterator[tuple[int, Detail]]:
        """The partial vectors of decisions from position ``first`` on, in order, not expanded."""
        for position, detail in self._archive.partial_details(first):
            if position < self._border:
                yield position, detail
        yield from self._reader.partial_details(max(first, self._border))

    def _stored_detail(self, position: int) -> Detail | None:
        if position < self._border:
            return self._archive.stored_detail(position)
        for row in self._reader.rows(_DETAIL, position=position):
            return vectors.unpack(bytes(row["body"]), row["base"])
        return None
