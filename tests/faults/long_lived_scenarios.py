"""Scripted scenarios for the rules of a long-lived log. Each fails without its rule."""

import zlib
from collections.abc import Callable
from dataclasses import replace

from eventsched.domain.units import SECOND
from eventsched.runtime.leader.leader_messages import Acquired, Append
from tests.builders import make_node, make_pod

from .database import stored_of
from .invariants import ensure
from .long_lived import NEVER
from .long_lived_stage import LongLivedStage
from .partitioned_database import PARTITION_RECORDS
from .reloads import OTHER
from .tasks import finished

Scenario = Callable[[LongLivedStage], None]


def old_partitions(stage: LongLivedStage) -> None:
    """Partitions become full and old. A process that knows nothing starts with what is left."""
    leader = stage.lead("A")
    leader.house_ready_at = NEVER
    stage.write(4 * PARTITION_RECORDS)
    leader.house_ready_at = stage.now
    stage.settle(10)
    ensure(len(stage.database.tables.pruned) > 1, "nothing is dropped")
    stage.crash(leader)
    stage.lead("B")
    stage.write(1)


def unarchived(stage: LongLivedStage) -> None:
    """Nothing is archived yet."""
    stage.require_archive()
    stage.lead("A")
    stage.write(3 * PARTITION_RECORDS)
    stage.settle(10)
    ensure(not stage.database.tables.pruned, "something was dropped")
    stage.archive()
    stage.settle(10)
    ensure(len(stage.database.tables.pruned) > 1, "nothing is dropped")


def archiver_dies(stage: LongLivedStage) -> None:
    """The archiver is killed at each of its steps, and started again."""
    stage.require_archive()
    stage.lead("A")
    for step in range(12):
        stage.write(3)
        stage.settle(1)
        stage.dies_at = step
        stage.archive()
        stage.dies_at = -1
        stage.auditor.kept()
        stage.archive()
        stage.auditor.kept()


def seal_is_under_way(stage: LongLivedStage) -> None:
    """The database is slow: housekeeping looks again before the seal is committed."""
    stage.lead("A")
    stage.write(PARTITION_RECORDS + 20)
    stage.held = {Append}
    stage.settle(2)
    stage.release()
    stage.settle(5)
    ensure(bool(stage.database.tables.pruned), "nothing is dropped")


def full_disk(stage: LongLivedStage) -> None:
    """The disk is full, and a partition may be dropped. That makes room, and work goes on."""
    stage.retention = replace(stage.retention, records_age=60.0)
    leader = stage.lead("A")
    while stage.database.tables.partitions[0].seal is None:
        stage.write(5)
        stage.settle(0.5)
    leader.house_ready_at = stage.now + 30 * SECOND
    end = stage.database.tables.partitions[-1].next
    stage.write(end - stage.database.head.next - PARTITION_RECORDS // 4)
    stage.is_room_made, stage.database.room = False, 0
    stage.api.put_pod(make_pod("last", cpu=100, memory=0))
    stage.settle(90)
    ensure("last" in stage.api.placed, "the disk stays full")


def another_configuration_later(stage: LongLivedStage) -> None:
    """A term with another configuration begins after the checkpoint of a partition that has no seal
    yet: the seal says what was in force at the checkpoint."""
    leader = stage.lead("A")
    leader.house_ready_at = NEVER
    while not any(s.position > PARTITION_RECORDS for s in stage.database.tables.snapshots):
        stage.write(5)
        stage.settle(0.5)
    stage.keeps_snapshots = False
    stage.reload(leader, OTHER)
    stage.settle(5)
    ensure(bool(stage.database.tables.pruned), "nothing is dropped")


def cut_off_standby(stage: LongLivedStage) -> None:
    """A standby is cut off while the records after its last look are dropped. Then it leads."""
    leader = stage.lead("A")
    stage.write(10)
    standby = stage._new_follower(stage._make_followed_stream())
    finished(standby._step())
    stage.write(4 * PARTITION_RECORDS)
    stage.settle(10)
    ensure(stage.database.kept[0].first > standby._followed_stream.head.next, "nothing is dropped")
    stage.crash(leader)
    stage._chosen = standby
    stage.lead("B")
    stage.write(1)


def loss_before_the_log_is_read(stage: LongLivedStage) -> None:
    """A term begins, and the database fails over before its process has read the end of the log."""
    leader = stage.lead("A")
    stage.write(10)
    stage.crash(leader)
    stage.settle()
    stage.start("B")
    while not any(isinstance(flight.answer, Acquired) for flight in stage.flights):
        stage.step()
    stage.database.fail_over(1)
    stage.auditor.history_changed()
    stage.settle(5)


def checkpoint_at_the_border(stage: LongLivedStage) -> None:
    """The only checkpoint is where the first record is that was kept."""
    stage.keeps_snapshots = False
    leader = stage.lead("A")
    while stage.database.head.next < PARTITION_RECORDS:
        stage.write(1)
    followed_stream = stage._make_followed_stream()
    for batch in stage.database.batches:
        if batch.first < PARTITION_RECORDS:
            followed_stream.follow(stored_of(batch), batch.head, batch.mark)
    snapshot = followed_stream.snapshot()
    snapshot = snapshot._replace(body=zlib.compress(snapshot.body, 1))
    stage.database.store_snapshot(leader.leader.term, snapshot)
    stage.write(10)
    stage.settle(10)
    ensure(stage.database.kept[0].first == snapshot.position, "it is not the first record")
    stage.crash(leader)
    stage.lead("B")


def vectors_of_one_shape(stage: LongLivedStage) -> None:
    """Pods of one shape come rarely: the vectors of each are old when the next one comes, and do
    not build on those of an earlier partition. Few of many rows change, so they are deltas."""
    for number in range(1, 6):
        stage.api.put_node(make_node(f"n{number}", cpu=1000))
    stage.lead("A")
    for _ in range(PARTITION_RECORDS):
        stage.write(1)
        stage.settle(0.7)
    ensure(stage.auditor.thinned_count > 1, "no vectors are dropped")


def clock_set_back(stage: LongLivedStage) -> None:
    """The clock of a leader is set back by an hour."""
    leader = stage.lead("A")
    stage.write(5)
    leader.skew -= 3600 * SECOND
    stage.write(5)


LONG_LIVED_SCENARIOS: dict[str, Scenario] = {
    "dropsunsealed": old_partitions,
    "keepsnocheckpoint": old_partitions,
    "noborder": checkpoint_at_the_border,
    "batchesfirst": archiver_dies,
    "sealsunarchived": unarchived,
    "sealsagain": seal_is_under_way,
    "partitionsfirst": full_disk,
    "newestopening": another_configuration_later,
    "behindislost": cut_off_standby,
    "waitsforlost": loss_before_the_log_is_read,
    "buildsacross": vectors_of_one_shape,
    "rawclock": clock_set_back,
}
