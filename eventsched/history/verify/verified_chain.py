"""Verifies the chain of batches: positions, epochs, hashes, head and snapshots."""

import struct
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256

from eventsched.history.verify.verified_log import BatchRow, Epoch, HeadRow

_HASHED = struct.Struct(">B32si16sqiq32s32s")

Report = Callable[[int, str], None]


class ChainCheck:
    """Checks a stream's batches one after the other. ``next`` and ``hash`` are the position and the
    hash after the last one."""

    def __init__(
        self,
        stream: str,
        epochs: Sequence[Epoch],
        snapshots: Iterable[tuple[int, bytes]],
        report: Report,
        begin: tuple[int, bytes] | None = None,
    ) -> None:
        """``snapshots`` are (seq, hash). ``begin`` is the position at which the log begins and the
        hash before it, if its first records were dropped."""
        self._epochs, self._snapshots, self._report = epochs, dict(snapshots), report
        self._term = -1  # index of the newest epoch that has begun
        self.next, self.hash = begin or (0, sha256(b"eventsched/1/" + stream.encode()).digest())
        if begin is not None:
            self._snapshots = {at: it for at, it in self._snapshots.items() if at >= begin[0]}
            self._term = sum(epoch.first <= begin[0] for epoch in epochs) - 1
        self._check_epochs()
        self._check_snapshot()

    def link(self, batch: BatchRow) -> bool:
        """Checks the next batch. Returns whether it begins where the last one ended; otherwise
        records are missing."""
        first = batch.first
        follows = first == self.next
        if first > self.next:
            self._report(
                self.next, f"the next batch begins at {first}, expected {self.next}: records are "
                "missing (of what follows, only hashes are checked)",
            )  # fmt: skip
        elif first < self.next:
            self._report(first, f"a batch begins at {first}, expected {self.next}")
        self._begin_epochs(first, follows=follows)
        epoch = self._epoch_of(batch)
        if epoch is not None and follows:
            expected = batch_hash(batch, epoch.token, self.hash)
            if expected != batch.hash:
                self._report(
                    first, f"hash of the batch is {batch.hash.hex()}, expected {expected.hex()}: "
                    "it was changed, or the batch before it, or its epoch's token",
                )  # fmt: skip
        self.next, self.hash = batch.end, batch.hash
        self._check_snapshot()
        return follows

    def finish(self, head: HeadRow | None) -> None:
        """Checks the head, the last epoch and the snapshots at the end of the log."""
        end, newest = self.next, self._epochs[-1] if self._epochs else None
        self._begin_epochs(end, follows=True)
        if head is None:
            self._report(end, "the stream has no head")
        elif head.next != end:
            self._report(end, f"the log ends at {end}, expected {head.next} by the head")
        elif head.hash != self.hash:
            self._report(
                end, f"the head's hash is {head.hash.hex()}, expected {self.hash.hex()} of the "
                "last batch",
            )  # fmt: skip
        if (
            head is not None
            and head.epoch is not None
            and (newest is None or (head.epoch, head.token) != (newest.epoch, newest.token))
        ):
            self._report(
                end, f"the head's epoch is {head.epoch} and its token {_hex(head.token)}, "
                "expected those of the newest row in table epoch",
            )  # fmt: skip
        if newest is not None and newest.first > end:
            self._report(
                end, f"epoch {newest.epoch} begins at {newest.first}, expected {end} (the end of "
                "the log) or before",
            )  # fmt: skip
        for position in self._snapshots:
            self._report(position, "a snapshot for a position that is not the end of a batch")

    def _begin_epochs(self, position: int, *, follows: bool) -> None:
        """Begins the epochs up to a position, the end of a batch. ``follows`` is false if records
        before it are missing."""
        epochs = self._epochs
        while self._term + 1 < len(epochs) and epochs[self._term + 1].first <= position:
            self._term += 1
            epoch = epochs[self._term]
            if follows and epoch.first != position:
                self._report(
                    epoch.first, f"epoch {epoch.epoch} begins inside the batch that ends at "
                    f"{position}, expected the end of a batch",
                )  # fmt: skip

    def _epoch_of(self, batch: BatchRow) -> Epoch | None:
        """The epoch of a batch: the newest that had begun. None, with a report, if the batch names
        another one."""
        epoch = self._epochs[self._term] if self._term >= 0 else None
        if epoch is not None and epoch.epoch == batch.epoch:
            return epoch
        expected = "none" if epoch is None else epoch.epoch
        self._report(
            batch.first, f"the batch is of epoch {batch.epoch}, expected {expected} by table epoch"
        )
        return None

    def _check_epochs(self) -> None:
        first = 0
        for number, epoch in enumerate(self._epochs, 1):
            if epoch.epoch != number:
                self._report(
                    epoch.first, f"table epoch has epoch {epoch.epoch}, expected {number} next"
                )
                return
            if epoch.first < first:
                self._report(
                    epoch.first, f"epoch {number} begins at {epoch.first}, expected {first} or "
                    "later, as the one before it",
                )  # fmt: skip
                return
            first = epoch.first

    def _check_snapshot(self) -> None:
        """Checks the snapshot at this end of a batch, if there is one."""
        digest = self._snapshots.pop(self.next, self.hash)
        if digest != self.hash:
            self._report(
                self.next, f"the snapshot's hash is {digest.hex()}, expected {self.hash.hex()} "
                "of the batch before",
            )  # fmt: skip


def batch_hash(batch: BatchRow, token: bytes, previous: bytes) -> bytes:
    """The hash that a batch should have after a batch with hash ``previous``; empty, which no
    batch's hash is, if a number is out of range."""
    try:
        return sha256(
            _HASHED.pack(
                2, previous, batch.epoch, token, batch.first, batch.count, batch.written_at,
                sha256(batch.mark).digest(), sha256(batch.body).digest(),
            )
        ).digest()  # fmt: skip
    except struct.error:
        return b""


def _hex(token: bytes | None) -> str:
    return "none" if token is None else token.hex()
