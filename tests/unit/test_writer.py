"""The one writer: nothing leaves before it is committed, and nothing is lost when that fails."""

from collections.abc import Iterator

import pytest

from eventsched.cluster import generated
from eventsched.cluster.simulated import SimulatedCluster
from eventsched.domain.records import Bind, Effect
from eventsched.domain.verdicts import Detail
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, Stored
from eventsched.runtime.assembly import assemble
from eventsched.runtime.writer import Writer
from eventsched.scheduling.engine import Engine


class FailingLog:
    """A memory log whose next appends fail."""

    def __init__(self, failures: int) -> None:
        self.inner = MemoryEventLog()
        self.failures = failures
        self.offered: list[str] = []

    @property
    def head(self) -> int:
        return self.inner.head

    def append(self, batch: Batch) -> None:
        self.offered.append(batch.id)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the log is away")
        self.inner.append(batch)

    def read(self, first: int = 0) -> Iterator[Stored]:
        return self.inner.read(first)

    def detail(self, position: int) -> Detail | None:
        return self.inner.detail(position)


def scheduled(pods: int) -> Engine:
    """An engine that has seen some nodes and pods, with all attempts still to be made."""
    load = generated.parse(f"nodes=3,pods={pods},shape=plain,seed=1")
    engine = assemble().engine()
    for stimulus in SimulatedCluster(load.nodes(), load.pods()).take(0):
        engine.observe(stimulus, 0)
    return engine


def writer_of(
    engine: Engine, log: FailingLog, size: int
) -> tuple[Writer, list[tuple[int, Effect]]]:
    """A writer, and the list of (log head at that moment, effect) that it fills."""
    left: list[tuple[int, Effect]] = []
    return Writer(
        log, engine.state, lambda effect, at: left.append((log.head, effect)), batch_size=size
    ), left


def offset(engine: Engine, log: FailingLog) -> None:
    """Makes the log's head the engine's position, as if the earlier records had been written."""
    log.inner._records = [Stored(i, 0, 0, "", 1, b"") for i in range(engine.position)]


def test_effects_leave_only_after_their_batch_is_committed() -> None:
    engine = scheduled(2)
    log = FailingLog(0)
    offset(engine, log)
    writer, left = writer_of(engine, log, size=100)
    decided = engine.schedule_next()
    writer.add(decided)
    assert left == []
    writer.commit()
    [(head, effect)] = left
    assert head == decided[-1].position + 1
    assert isinstance(effect, Bind)
    assert effect.decision == decided[-1].position


def test_a_batch_that_failed_is_offered_again_and_its_effects_leave_once() -> None:
    engine = scheduled(1)
    log = FailingLog(2)
    offset(engine, log)
    writer, left = writer_of(engine, log, size=100)
    writer.add(engine.schedule_next())
    for _ in range(2):
        with pytest.raises(ConnectionError):
            writer.commit()
    assert left == []
    writer.commit()
    writer.commit()
    assert len(left) == 1
    assert len(set(log.offered)) == 1


def test_a_full_batch_commits_by_itself() -> None:
    engine = scheduled(3)
    log = FailingLog(0)
    offset(engine, log)
    writer, left = writer_of(engine, log, size=1)
    while decided := engine.schedule_next():
        writer.add(decided)
    assert len(left) == 3
    assert log.head == engine.position
