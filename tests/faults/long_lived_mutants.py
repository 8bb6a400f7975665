"""Mutants of what keeps a long-lived log in order: the product with one rule removed."""

from typing import Any

import psycopg

from eventsched.domain.errors import UnavailableError
from eventsched.domain.records import StreamStarted, verdicts
from eventsched.eventlog.archive.archive_manifest import CONTENTS
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres import sealing
from eventsched.eventlog.postgres.housekeeping import make_partitions
from eventsched.eventlog.postgres.sealing import next_seal
from eventsched.runtime.live import log_housekeeping
from eventsched.runtime.live.follower import Follower
from eventsched.runtime.live.log_housekeeping import HousekeepingStatus
from eventsched.runtime.live.worker import Worker

from .archiving import MemoryDayWriter
from .long_lived import LongLivedMutant
from .partitioned_database import Partition, PartitionedDatabase, Pruned


class PrunesUnsealed(PartitionedDatabase):
    """Drops old partitions without a seal."""

    def is_sealed(self, partition: Partition) -> bool:
        return partition.next <= self.head.next


class KeepsNoCheckpoint(PartitionedDatabase):
    """A drop takes the checkpoints along, because there are snapshots."""

    def _drop(self, oldest: Partition, pruned: Pruned) -> None:
        self._change(checkpoints=())
        super()._drop(oldest, pruned)


class NoBorder(PartitionedDatabase):
    """A checkpoint cannot be used if the batch before it was dropped."""

    def snapshots(self) -> list[StoredSnapshot]:
        return [s for s in super().snapshots() if Head(s.position, s.hash) in self._kept_ends]


class BatchesFirst(MemoryDayWriter):
    """A day counts as archived before all of its files have their names."""

    contents = tuple(reversed(CONTENTS))


class PartitionsFirst(log_housekeeping._Housekeeper):
    """Makes partitions before old ones are dropped."""

    async def tidy(self, worker: Worker) -> HousekeepingStatus:
        await worker.call(make_partitions, self._where, self._stream)
        return await super().tidy(worker)


class SealsAgain(log_housekeeping._Housekeeper):
    """Seals a partition again while its seal is not committed."""

    async def seal(self, worker: Worker, leader: Any) -> None:
        self._sealed = -1
        await super().seal(worker, leader)


def _behind_is_lost(standby: Follower, *, is_lost: bool) -> None:
    standby.caught_up = standby._restored = False
    standby._followed_stream.start_over(is_lost=True)


async def _wait_for_head(standby: Follower, head: Head) -> float:
    while standby._followed_stream.head != head:
        before = standby._followed_stream.head
        await standby._step()
        if standby._followed_stream.head == before:
            raise UnavailableError("the log", "is waited for", "")
    return 0.0


def _newest_opening(connection: psycopg.Connection, number: int, position: int) -> StreamStarted:
    return _opening(connection, number, 10**9)


_opening = sealing._opening


def _seal_unarchived(where: Any, stream: str, *, needs_archive: bool) -> Any:
    return next_seal(where, stream, needs_archive=False)


def _of_housekeeper(housekeeper: type[log_housekeeping._Housekeeper]) -> LongLivedMutant:
    return LongLivedMutant(patches=((log_housekeeping, "_Housekeeper", housekeeper),))


LONG_LIVED_MUTANTS = {
    "dropsunsealed": LongLivedMutant(PrunesUnsealed),
    "keepsnocheckpoint": LongLivedMutant(KeepsNoCheckpoint),
    "noborder": LongLivedMutant(NoBorder),
    "buildsacross": LongLivedMutant(patches=((verdicts, "DELTA_BLOCK", 10**9),)),
    "batchesfirst": LongLivedMutant(day_writer=BatchesFirst),
    "sealsunarchived": LongLivedMutant(
        patches=((log_housekeeping, "next_seal", _seal_unarchived),)
    ),
    "sealsagain": _of_housekeeper(SealsAgain),
    "partitionsfirst": _of_housekeeper(PartitionsFirst),
    "newestopening": LongLivedMutant(patches=((sealing, "_opening", _newest_opening),)),
    "behindislost": LongLivedMutant(patches=((Follower, "_begin_again", _behind_is_lost),)),
    "waitsforlost": LongLivedMutant(patches=((Follower, "catch_up", _wait_for_head),)),
    "rawclock": LongLivedMutant(raw_clock=True),
}
LONG_LIVED = LongLivedMutant()
