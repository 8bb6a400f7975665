"""Invariants of sealing, dropping and archiving."""

from hashlib import sha256

from eventsched.domain import records
from eventsched.domain.records import StreamStarted, TermBegan
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog import chain
from eventsched.eventlog.archive.archive_manifest import BATCHES, CONTENTS, Manifest
from eventsched.eventlog.chain import Head, SealedBatch
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.runtime.log_start import first_start

from .archiving import FOLDER, ArchiveFolder
from .cluster import STREAM
from .invariants import ViolationError, ensure
from .log_queries import MemoryReader, stored_batch
from .partitioned_database import Partition, PartitionedDatabase, Pruned
from .reloads import ReloadAuditor, engine_of


class RetentionAuditor(ReloadAuditor):
    """Knows the whole log, also what was dropped."""

    _database: PartitionedDatabase
    _folder: ArchiveFolder
    _needs_archive: bool
    _is_repeated = False
    """Whether records are read that were read before a failover."""

    def watch(self, folder: ArchiveFolder, *, needs_archive: bool) -> None:
        """Begins to watch an archive and what is dropped."""
        self._folder, self._needs_archive = folder, needs_archive
        self._database.on_drop = self.dropped
        self._database.on_thin = self.thinned

    thinned_count = 0
    """Partitions whose vectors were dropped."""

    def _begin(self) -> None:
        super()._begin()
        self._sealed: set[int] = set()
        self._openings: list[tuple[int, StreamStarted | TermBegan]] = []

    def history_changed(self) -> None:
        """See Auditor."""
        self._is_repeated = True
        super().history_changed()
        self._is_repeated = False

    def _take(self, logged: LogEntry) -> None:
        record = logged.record
        match record:
            case StreamStarted():
                self._openings.append((logged.position, record))
            case TermBegan() if record.engine:
                self._openings.append((logged.position, record))
            case records.PartitionSealed():
                self._check_seal(record, logged.position)
            case records.HistoryLost():
                ensure(self._database.timeline > 1, "history was lost, says the log; it was not")
        super()._take(logged)

    # --- seals ----------------------------------------------------------------------------

    def _hash_at(self, position: int) -> bytes | None:
        """The hash of the batch that ends at a position, in the whole log."""
        if not position:
            return chain.genesis(STREAM)
        ends = {batch.head.next: batch.hash for batch in self._database.batches}
        return ends.get(position)

    def _check_seal(self, seal: records.PartitionSealed, position: int) -> None:
        at = f"the seal at {position}"
        ensure(seal.partition not in self._sealed, f"{at}: {seal.partition} is sealed twice")
        self._sealed.add(seal.partition)
        ensure(seal.next <= position, f"{at} is in the partition that it seals")
        for place, digest in ((seal.first, seal.before), (seal.next, seal.after)):
            found = self._hash_at(place)
            ensure(found is not None and found.hex() == digest, f"{at} has another hash at {place}")
        in_force = [opening for begin, opening in self._openings if begin < seal.checkpoint][-1]
        same = (in_force.inputs, in_force.flags) == (seal.opening.inputs, seal.opening.flags)
        ensure(same, f"{at} has another configuration than that at {seal.checkpoint}")
        if self._is_repeated:
            return
        kept = [s for s in self._database.tables.checkpoints if s.position == seal.checkpoint]
        ensure(
            bool(kept) and sha256(kept[0].body).hexdigest() == seal.digest,
            f"{at} names a checkpoint that is not kept",
        )
        if self._needs_archive:
            self._check_archived(seal.first, seal.next, at)

    def _check_archived(self, first: int, end: int, at: str) -> None:
        """An archive holds a range of the log: all files of its days, byte for byte."""
        held = {batch.first: batch for batch in self._folder.stored}
        for batch in self._database.batches:
            if first <= batch.first < end:
                same = held.get(batch.first) == stored_batch(batch)
                ensure(same, f"{at}: no archive holds {batch.first}")
        for manifest in self._folder.manifests():
            if manifest.first < end and manifest.next > first:
                self._check_files(manifest)

    def _check_files(self, manifest: Manifest) -> None:
        for content in CONTENTS:
            try:
                found = self._folder.digest_of(FOLDER / f"{manifest.day}.{content}.parquet")
            except LookupError:
                raise ViolationError(f"no archive has {content} of {manifest.day}") from None
            same = content == BATCHES or found == manifest.digests[content]
            ensure(same, f"another file than that of {manifest.day} is archived")

    # --- vectors --------------------------------------------------------------------------

    def _check_chain(self, batch: SealedBatch) -> None:
        super()._check_chain(batch)
        self._check_vectors(f"the batch at {batch.first}", set(batch.details))

    def thinned(self, partition: Partition, before: int) -> None:
        """The vectors of a partition were dropped: they are old, and no other one builds on them.
        Writers' clocks differ, so the last batch counts."""
        at = f"the drop of the vectors of partition {partition.first}"
        last = [batch for batch in self._database.batches if batch.first < partition.next][-1]
        ensure(last.head.next >= partition.next, f"{at}: it is not full")
        ensure(last.written_at < before, f"{at}: its last batch was written at {last.written_at}")
        self._check_vectors(at, set(self._database.vectors))
        self.thinned_count += 1

    def _check_vectors(self, at: str, positions: set[int]) -> None:
        """All of these vectors that are kept can be read: what they build on is kept, too."""
        kept = self._database.vectors
        for position in positions & set(kept):
            base = kept[position]
            ensure(
                base is None or base in kept, f"{at}: {position} builds on {base}, which is gone"
            )

    # --- dropping -------------------------------------------------------------------------

    def dropped(self, pruned: Pruned) -> None:
        """A partition was dropped: its seal is in the log, and the log can be read from a
        checkpoint on."""
        at = f"the drop of partition {pruned.first}"
        sealed = [
            stored.record
            for stored in self._database.records
            if stored.position == pruned.seal and stored.kind == "PartitionSealed"
        ]
        ensure(bool(sealed), f"{at}: it has no seal")
        seal = sealed[0]
        assert isinstance(seal, records.PartitionSealed)
        ensure(seal.partition == pruned.first, f"{at}: its seal is of another partition")
        ensure(
            (seal.next, seal.after) == (pruned.next, pruned.hash.hex()),
            f"{at}: its seal has another end",
        )
        if self._needs_archive:
            self._check_archived(seal.first, seal.next, at)
        self._check_start(at)

    def _check_start(self, at: str) -> None:
        """What is kept verifies from the last seal on, and folds to the state of the whole log."""
        database = self._database
        begin = database.tables.pruned[-1]
        self._check_kept(Head(begin.next, begin.hash), at)
        try:
            start = first_start(MemoryReader(database))
        except CorruptLogError as problem:
            raise ViolationError(f"{at}: {problem}") from None
        assert start is not None
        engine = engine_of(start.opening.inputs.get("configuration", ""))
        engine.restore(start.state, start.position)
        ensure(engine.state.digest() == start.digest, f"{at}: the checkpoint has another state")
        for stored in database.records[start.position :]:
            engine.apply(stored.logged)
        if engine.position == self.engine.position:
            same = engine.state.digest() == self.engine.state.digest()
            ensure(same, f"{at}: what is kept folds to another state")

    def _check_kept(self, begin: Head, at: str) -> None:
        end = begin
        for batch in self._database.kept:
            if batch.first < begin.next:
                continue
            same = (batch.first, batch.previous) == end and chain.batch_hash(batch) == batch.hash
            ensure(same, f"{at}: the chain breaks at {batch.first}")
            end = batch.head
        ensure(end == self._database.head, f"{at}: the end of the log is missing")

    # --- at the end -----------------------------------------------------------------------

    def kept(self) -> None:
        """The archive and the database together have the whole log, each batch once."""
        for manifest in self._folder.manifests():
            self._folder.verify_day(FOLDER, manifest)
        if self._database.tables.pruned:
            self._check_start("at the end")
        archived = self._folder.stored
        end = archived[-1].first + archived[-1].count if archived else 0
        begin = self._database.tables.pruned[-1].next if self._database.tables.pruned else 0
        if end < begin and not self._needs_archive:
            return  # dropped without an archive
        rest: list[SealedBatch] = [each for each in self._database.kept if each.first >= end]
        together = [*archived, *map(stored_batch, rest)]
        same = together == [stored_batch(batch) for batch in self._database.batches]
        ensure(same, "archive and database together are not the whole log, once")
