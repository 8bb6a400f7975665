"""Batches and the committer: no effect leaves before its batch is committed, and none is lost if a
commit fails."""

import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.domain import records
from eventsched.domain.records import Bind, Effect
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch
from eventsched.runtime.assembly import assemble
from eventsched.runtime.effects.batches import BatchBuilder, BatchWithEffects
from eventsched.runtime.effects.committer import Committer
from eventsched.scheduling.engine import Engine
from tests.builders import added, engine_of, make_node, make_pod, observed

Left = list[tuple[int, Effect, int]]


class SlowLog(MemoryEventLog):
    """A memory log that commits when it is asked for the outcome, and fails a number of times."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures
        self.waiting: Batch | None = None
        self.offered: list[Batch] = []

    def begin(self, batch: Batch) -> None:
        assert self.waiting is None
        self.waiting = batch

    def finish(self) -> None:
        if self.waiting is None:
            return
        self.offered.append(self.waiting)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the log is away")
        super().begin(self.waiting)
        self.waiting = None


def written(pods: int) -> tuple[Engine, SlowLog]:
    """An engine that has seen some nodes and pods, with all attempts still to be made, and a log
    that holds what it has seen."""
    load = generated.parse(f"nodes=3,pods={pods},shape=plain,seed=1")
    engine, log = assemble().engine(), SlowLog()
    builder = BatchBuilder(engine.state)
    for stimulus in InMemoryCluster(load.nodes(), load.pods()).due_stimuli(0):
        builder.add(engine.observe(stimulus, 0))
    log.begin(close(builder).batch)
    log.finish()
    log.offered.clear()
    return engine, log


def committer_of(log: SlowLog) -> tuple[Committer, Left]:
    """A committer, and the list of (log's head at that moment, effect, its time) that it fills."""
    left: Left = []
    return Committer(log, lambda effect, at: left.append((log.head, effect, at))), left


def close(builder: BatchBuilder, mark: bytes = b"null") -> BatchWithEffects:
    """What is in the open batch, which is not empty."""
    closed_batch = builder.close(mark)
    assert closed_batch is not None
    return closed_batch


def test_nothing_leaves_before_it_is_committed() -> None:
    """Neither when it is decided, nor while the commit is under way."""
    engine, log = written(2)
    builder, (committer, left) = BatchBuilder(engine.state), committer_of(log)
    decided = engine.schedule_next()
    builder.add(decided)
    assert builder.has_effects
    committer.begin(close(builder))
    assert left == []
    committer.wait()
    [(head, effect, at)] = left
    assert (head, at) == (decided[-1].position + 1, 0)
    assert isinstance(effect, Bind)
    assert effect.decision == decided[-1].position
    committer.wait()
    assert len(left) == 1


def test_the_next_batch_waits_for_the_one_under_way() -> None:
    """One at a time, in order; the effects of the first leave before the second is offered."""
    engine, log = written(2)
    builder, (committer, left) = BatchBuilder(engine.state), committer_of(log)
    for number in range(2):
        builder.add(engine.schedule_next())
        committer.begin(close(builder))
        assert len(left) == number
    committer.wait()
    assert [effect.attempt for _, effect, _ in left] == [1, 1]
    assert len({effect.uid for _, effect, _ in left}) == 2
    assert log.head == engine.position


def test_a_batch_that_failed_is_offered_again_and_its_effects_leave_once() -> None:
    """Unchanged, whatever came meanwhile."""
    engine, log = written(2)
    builder, (committer, left) = BatchBuilder(engine.state), committer_of(log)
    builder.add(engine.schedule_next())
    first = close(builder)
    committer.begin(first)
    log.failures = 2
    builder.add(engine.schedule_next())
    second = close(builder)
    with pytest.raises(ConnectionError):
        committer.wait()
    with pytest.raises(ConnectionError):
        committer.begin(second)
    assert left == []
    committer.begin(second)
    assert len(left) == 1
    committer.wait()
    assert len(left) == 2
    assert log.offered == [first.batch] * 3 + [second.batch]


def test_a_batch_is_full_at_its_size() -> None:
    """Steps are never divided: it may be longer."""
    engine, _ = written(3)
    builder = BatchBuilder(engine.state, batch_size=2)
    first = engine.schedule_next()
    assert len(first) == 2  # the words of the scores, and the decision
    builder.add(first)
    assert builder.full
    close(builder)
    second, third = engine.schedule_next(), engine.schedule_next()
    builder.add(second)
    assert not builder.full
    builder.add(third)
    assert builder.full


def test_a_batch_holds_records_vectors_and_mark() -> None:
    """As the log takes them."""
    engine, log = written(1)
    builder = BatchBuilder(engine.state)
    decided = engine.schedule_next()
    builder.add(decided)
    batch, effects = close(builder, b"[7,1]")
    assert [each.logged for each in batch.records] == [
        each._replace(detail=None) for each in decided
    ]
    assert batch.details == {decided[-1].position: decided[-1].detail}
    assert (batch.mark, batch.first) == (b"[7,1]", log.head)
    assert len(effects) == 1


def test_an_empty_batch_is_none() -> None:
    """Also after a close."""
    engine, _ = written(1)
    builder = BatchBuilder(engine.state)
    assert builder.close() is None
    builder.add(engine.schedule_next())
    close(builder)
    assert builder.close() is None
    assert not builder.has_effects


def test_what_asks_something_of_the_world() -> None:
    """An intent and a retry ask for a bind of their own position; a refusal, and what the cluster
    says, ask for nothing."""
    engine = engine_of()
    observed(engine, *added(make_node(), make_pod()))
    builder = BatchBuilder(engine.state)
    (intent,) = engine.schedule_next()
    retry = records.BindRetried(uid="p1", node="n1", attempt=1, resource_version=5)
    asked = [*builder.effects(intent), *builder.effects(LogEntry(9, 0, 9, retry))]
    assert [each and (each.node, each.attempt, each.decision) for each in asked] == [
        ("n1", 1, 2 + 1),
        ("n1", 1, 9),
    ]
    for said in (records.BindSucceeded(uid="p1", node="n1"), records.PodDeleted(uid="p1")):
        assert not builder.effects(LogEntry(9, 0, 9, said))
    refused = records.PodDecided(uid="p1", attempt=2, outcome=records.Outcome.UNSCHEDULABLE)
    assert not builder.effects(LogEntry(9, 0, 9, refused))


def test_without_a_log_effects_leave_all_the_same() -> None:
    """For measuring what logging costs."""
    engine, _ = written(1)
    builder, left = BatchBuilder(engine.state), list[Effect]()
    committer = Committer(None, lambda effect, _: left.append(effect))
    builder.add(engine.schedule_next())
    committer.begin(close(builder))
    committer.wait()
    assert len(left) == 1


def test_news_may_wait_for_what_somebody_waits_for() -> None:
    """When the open batch is to be closed, as it grows: news wait, nothing else does."""
    engine = engine_of()
    builder = BatchBuilder(engine.state, batch_size=3, linger=20)
    assert builder.due is None
    dues: list[int | None] = []
    *first_news, last = added(*(make_node(f"n{number}") for number in range(6)))
    for at, stimulus in enumerate([*first_news[:2], records.TimePassed(), *first_news[2:], last]):
        builder.add(engine.observe(stimulus, at))
        dues.append(builder.due)
        if len(builder) == 3:
            close(builder)
            assert builder.due is None
    assert dues == [20, 20, 0, 23, 23, 0, 26]
    prompt = BatchBuilder(engine.state)
    [news] = added(make_node("n9"))
    prompt.add(engine.observe(news, 7))
    assert prompt.due == 7
