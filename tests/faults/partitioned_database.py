"""A database in memory whose log is in partitions that are sealed and dropped, their vectors before
them, as the SQL of migrations/sql/0012_partitions.sql and 0013_seals.sql does it. Its disk may be
full.

``batches`` and ``records`` stay complete, for the auditor. What a query gets is ``kept``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import PartitionSealed
from eventsched.eventlog.chain import Head, SealedBatch, Term
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime.leader.leader_messages import Acquired, Committed, Deposed

from .database import Database, stored_of

PARTITION_RECORDS = 32
PARTITION_BYTES = 1_500
"""What a new partition takes of the disk."""


class NoRoomError(UnavailableError):
    """The disk is full. Nothing was changed."""

    def __init__(self) -> None:
        super().__init__("the database", "No space left on device", "make room")


class Partition(NamedTuple):
    """A range of positions. ``has_details`` is False once its vectors are dropped."""

    first: int
    next: int
    seal: int | None = None
    has_details: bool = True


class Pruned(NamedTuple):
    """A partition that was dropped, or is being dropped."""

    first: int
    next: int
    seal: int
    hash: bytes


class Archived(NamedTuple):
    """What an archive holds, as its archiver has noted it."""

    first: int
    next: int
    day: str
    digests: dict[str, str]


class Epoch(NamedTuple):
    """A writer's term."""

    number: int
    token: bytes
    first: int


@dataclass(frozen=True)
class Tables:
    """All tables except the batches. A failover sets them back."""

    partitions: tuple[Partition, ...] = ()
    pruned: tuple[Pruned, ...] = ()
    archived: tuple[Archived, ...] = ()
    checkpoints: tuple[StoredSnapshot, ...] = ()
    snapshots: tuple[StoredSnapshot, ...] = ()
    epochs: tuple[Epoch, ...] = ()


class PartitionedDatabase(Database):
    """The stream as it is stored, in partitions. ``room`` is how many bytes the disk still takes;
    None: any number. ``on_drop`` is called after each partition that was dropped, ``on_thin`` with
    each whose vectors were dropped and the time (µs) before which they had to be written."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.tables = Tables()
        self._tables_after: list[Tables] = []
        """The tables as they were when each batch was committed."""
        self.room: int | None = None
        self.on_drop: Callable[[Pruned], None] = lambda _: None
        self.on_thin: Callable[[Partition, int], None] = lambda partition, before: None
        self._bases: dict[int, int | None] = {}

    def _change(self, **tables: Any) -> None:
        self.tables = replace(self.tables, **tables)

    def _take_room(self, size: int) -> None:
        if self.room is not None:
            if size > self.room:
                raise NoRoomError
            self.room -= size

    # --- the writer -----------------------------------------------------------------------

    @property
    def kept(self) -> list[SealedBatch]:
        """The batches that are in a partition."""
        begin = self.tables.partitions[0].first if self.tables.partitions else 0
        return [batch for batch in self.batches if batch.first >= begin]

    def acquire(self, known: Head) -> Acquired:
        """See Database; nothing is read."""
        acquired = super().acquire(known)
        epoch = Epoch(self.epoch, self.token, self.head.next)
        self._change(epochs=(*self.tables.epochs, epoch))
        return Acquired(acquired.term, self.head, self.head, (), self.history)

    def append(self, batch: SealedBatch) -> Committed | Deposed:
        """See Database. Raises NoRoomError."""
        before = self.room, self.tables
        try:
            return super().append(batch)
        except NoRoomError:
            self.room, self.tables = before
            raise

    def store(self, batch: SealedBatch) -> None:
        """Appends a batch, and makes the partitions that it needs. Raises NoRoomError."""
        self._take_room(len(batch.body))
        self._extend(batch.head.next)
        super().store(batch)
        for stored in stored_of(batch):
            record = stored.record
            if isinstance(record, PartitionSealed):
                self._mark(record.partition, stored.position)
        self._bases.update({at: detail.base for at, detail in batch.details.items()})
        self._tables_after.append(self.tables)

    def _mark(self, partition: int, seal: int) -> None:
        self._change(
            partitions=tuple(
                each._replace(seal=seal) if each.first == partition and each.seal is None else each
                for each in self.tables.partitions
            )
        )

    def _extend(self, until: int) -> None:
        end = self.tables.partitions[-1].next if self.tables.partitions else 0
        while end < until:
            self._take_room(PARTITION_BYTES)
            made = Partition(end, end + PARTITION_RECORDS)
            self._change(partitions=(*self.tables.partitions, made))
            end = made.next

    def store_snapshot(self, term: Term, snapshot: StoredSnapshot) -> None:
        """Stores a snapshot in place of older ones, if there is room."""
        if self.is_current(term) and (self.room is None or len(snapshot.body) <= self.room):
            self._take_room(len(snapshot.body))
            self._change(snapshots=(snapshot,))

    def snapshots(self) -> list[StoredSnapshot]:
        """The snapshots and checkpoints with the hash of the batch before them, which may be the
        last one that was dropped."""
        ends = self._kept_ends | {Head(each.next, each.hash) for each in self.tables.pruned}
        stored = (*self.tables.snapshots, *self.tables.checkpoints)
        return [each for each in stored if Head(each.position, each.hash) in ends]

    @property
    def _kept_ends(self) -> set[Head]:
        return {batch.head for batch in self.kept}

    def fail_over(self, count: int) -> None:
        """See Database. All that happened after the last batch that is left is lost with it."""
        super().fail_over(count)
        del self._tables_after[len(self.batches) :]
        self._bases = {at: base for at, base in self._bases.items() if at < self.head.next}
        self.tables = self._tables_after[-1]

    # --- housekeeping ---------------------------------------------------------------------

    def make_partitions(self) -> int:
        """Makes the next partition once the last one is half full. Raises NoRoomError."""
        if not self.tables.partitions:
            return 0
        last = self.tables.partitions[-1]
        if self.head.next > last.first + (last.next - last.first) // 2:
            self._extend(last.next + 1)
        return self.tables.partitions[-1].next - self.head.next

    def last_before(self, position: int) -> SealedBatch | None:
        """The last batch in a partition that begins before a position."""
        return next((each for each in reversed(self.kept) if each.first < position), None)

    def keep_checkpoint(self, position: int) -> int | None:
        """Keeps the first snapshot from a position on as a checkpoint. Raises NoRoomError."""
        usable = [each for each in self.snapshots() if each.position >= position]
        if not usable:
            return None
        first = min(usable, key=lambda snapshot: snapshot.position)
        if first not in self.tables.checkpoints:
            self._take_room(len(first.body))
            self._change(checkpoints=(*self.tables.checkpoints, first))
        return first.position

    def note_archived(self, note: Archived) -> None:
        """Notes what an archive holds."""
        others = (each for each in self.tables.archived if each.first != note.first)
        self._change(archived=tuple(sorted((*others, note))))

    def prunable(self, before: int) -> Partition | None:
        """The oldest partition, if it may be dropped: it is sealed, its batches were written before
        a time (µs), and a checkpoint after it is there."""
        if not self.tables.partitions:
            return None
        oldest = self.tables.partitions[0]
        last = self.last_before(oldest.next)
        end = oldest.next if last is None else last.head.next
        is_old = last is None or last.written_at < before
        has_state = any(each.position >= end for each in self.tables.checkpoints)
        may_go = self.is_sealed(oldest) and is_old and has_state and not self._is_base(oldest.next)
        return oldest if may_go else None

    @property
    def vectors(self) -> dict[int, int | None]:
        """The positions of the vectors that are kept, with what they build on."""
        there = [each for each in self.tables.partitions if each.has_details]
        return {
            at: base
            for at, base in self._bases.items()
            if any(each.first <= at < each.next for each in there)
        }

    def _is_base(self, end: int) -> bool:
        """Whether a vector from a position on builds on one before it."""
        return any(at >= end > base for at, base in self._bases.items() if base is not None)

    def thinnable(self, before: int) -> list[Partition]:
        """The full partitions whose vectors may be dropped: their batches were written before a
        time (µs), and no later vector builds on theirs."""
        end = 0
        for partition in self.tables.partitions:
            last = self.last_before(partition.next)
            is_young = last is not None and last.written_at >= before
            if is_young or partition.next > self.head.next:
                break
            if not self._is_base(partition.next):
                end = partition.next
        return [each for each in self.tables.partitions if each.next <= end and each.has_details]

    def thin(self, before: int) -> int:
        """Drops the vectors of the oldest partition that has any, if they may be dropped. Returns
        their number."""
        for partition in self.thinnable(before):
            count = sum(partition.first <= at < partition.next for at in self.vectors)
            thinned = partition._replace(has_details=False)
            self._change(
                partitions=tuple(
                    thinned if each == partition else each for each in self.tables.partitions
                )
            )
            self.on_thin(partition, before)
            if count:
                return count
        return 0

    def is_sealed(self, partition: Partition) -> bool:
        """Whether a partition has its seal."""
        return partition.seal is not None

    def is_archived(self, partition: Partition) -> bool:
        """Whether an archive holds all that is left of a partition."""
        earlier = [each.next for each in self.tables.pruned if each.first < partition.first]
        last = self.last_before(partition.next)
        end = max(partition.next, last.head.next if last is not None else 0)
        begin = max(partition.first, *earlier, 0)
        for noted in self.tables.archived:
            if noted.first <= begin:
                begin = max(begin, noted.next)
        return begin >= end

    def prune(self, before: int, *, needs_archive: bool) -> str | None:
        """One step of dropping the oldest partition; None if it must not be dropped."""
        oldest = self.prunable(before)
        if oldest is None or (needs_archive and not self.is_archived(oldest)):
            return None
        pruned = next((each for each in self.tables.pruned if each.first == oldest.first), None)
        if pruned is None:
            last = self.last_before(oldest.next)
            end = last.head if last is not None else Head(*self.tables.pruned[-1][1::2])
            row = Pruned(oldest.first, end.next, oldest.seal or 0, end.hash)
            self._change(pruned=(*self.tables.pruned, row))
            return "pruned"
        if oldest.has_details:
            begun = oldest._replace(has_details=False)
            self._change(partitions=(begun, *self.tables.partitions[1:]))
            return f"detail_1_{oldest.first}"
        self._drop(oldest, pruned)
        return f"batch_1_{oldest.first}"

    def _drop(self, oldest: Partition, pruned: Pruned) -> None:
        if self.room is not None:
            gone = (each for each in self.kept if each.first < oldest.next)
            self.room += PARTITION_BYTES + sum(len(batch.body) for batch in gone)
        self._change(
            partitions=self.tables.partitions[1:],
            checkpoints=tuple(s for s in self.tables.checkpoints if s.position >= pruned.next),
            snapshots=tuple(s for s in self.tables.snapshots if s.position >= pruned.next),
            archived=tuple(each for each in self.tables.archived if each.next > pruned.next),
        )
        self.on_drop(pruned)


def digest_of_checkpoint(snapshot: StoredSnapshot) -> str:
    """The digest in the seal that names it."""
    return sha256(snapshot.body).hexdigest()
