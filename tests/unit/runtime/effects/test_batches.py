"""Batches with their effects, and the committer of a simulation."""

import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.domain import records
from eventsched.domain.records import Bind
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, EventLog
from eventsched.runtime.assembly import assemble
from eventsched.runtime.effects import committer as committer_module
from eventsched.runtime.effects.batches import BatchBuilder, BatchWithEffects
from eventsched.runtime.effects.committer import Committer
from eventsched.scheduling.engine import Engine
from tests.builders import added, engine_of, make_node, make_pod, observed


class SlowLog(MemoryEventLog):
    """A memory log that commits when it is asked for the outcome, and fails a number of times.
    ``is_busy`` says whether that would be a wait."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.failures = failures
        self.is_busy = False
        self.waiting: Batch | None = None
        self.offered: list[Batch] = []

    def begin(self, batch: Batch) -> None:
        assert self.waiting is None
        self.waiting = batch

    def answered(self) -> bool:
        return not self.is_busy

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


def close(builder: BatchBuilder, mark: bytes = b"null") -> BatchWithEffects:
    """What is in the open batch, which is not empty."""
    closed_batch = builder.close(mark)
    assert closed_batch is not None
    return closed_batch


def test_effects_are_taken_once() -> None:
    """With the time of their decision; the batch that is closed later has none of them."""
    engine, _ = written(2)
    builder = BatchBuilder(engine.state)
    decided = engine.schedule_next()
    builder.add(decided)
    [(effect, at)] = builder.take_effects()
    assert isinstance(effect, Bind)
    assert (effect.decision, at) == (decided[-1].position, 0)
    assert builder.take_effects() == []
    later = engine.schedule_next()
    builder.add(later)
    batch, effects = close(builder)
    assert [each.position for each in batch.records] == [
        entry.position for entry in (*decided, *later)
    ]
    assert [effect.decision for effect, _ in effects if isinstance(effect, Bind)] == [
        later[-1].position
    ]


def test_the_next_batch_waits_for_the_one_under_way() -> None:
    """One at a time, in order."""
    engine, log = written(2)
    builder, committer = BatchBuilder(engine.state), Committer(log)
    heads = [log.head]
    for _ in range(2):
        builder.add(engine.schedule_next())
        committer.begin(close(builder).batch)
        heads.append(log.head)
    committer.wait()
    assert heads == [heads[0], heads[0], log.offered[1].first]
    assert log.head == engine.position


def test_batches_wait_while_the_log_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a size. They follow in order, each when the one before is committed."""
    engine, log = written(9)
    builder, committer = BatchBuilder(engine.state), Committer(log)
    begun: list[Batch] = []

    def begin_next() -> int:
        builder.add(engine.schedule_next())
        begun.append(close(builder).batch)
        committer.begin(begun[-1])
        return len(log.offered)

    log.is_busy = True
    committed = [begin_next() for _ in range(6)]
    monkeypatch.setattr(committer_module, "MOST_WAITING", sum(each.size for each in begun[1:]))
    committed += [begin_next(), begin_next()]
    assert committed == [0] * 6 + [1, 2]
    committer.advance()
    assert len(log.offered) == 2
    log.is_busy = False
    committer.advance()
    assert len(log.offered) == len(begun)
    assert begin_next() == len(begun) - 1
    committer.wait()
    assert log.offered == begun
    assert log.head == engine.position


def test_a_call_waits_for_the_batches_before_it() -> None:
    """And the batches after it wait for the call."""
    engine, log = written(2)
    builder, committer = BatchBuilder(engine.state), Committer(log)
    calls: list[tuple[int, int]] = []
    before = log.head

    def begin_next() -> None:
        builder.add(engine.schedule_next())
        committer.begin(close(builder).batch)

    def note(called_with: EventLog) -> None:
        calls.append((called_with.head, len(log.offered)))

    committer.then(note)
    log.is_busy = True
    begin_next()
    head = engine.position
    committer.then(note)
    begin_next()
    assert calls == [(before, 0)]
    committer.wait()
    assert calls[1:] == [(head, 1)]
    assert log.head == engine.position
    Committer(None).then(note)
    assert len(calls) == 2


def test_a_batch_that_failed_is_offered_again() -> None:
    """Unchanged, whatever came meanwhile."""
    engine, log = written(2)
    builder, committer = BatchBuilder(engine.state), Committer(log)
    builder.add(engine.schedule_next())
    first = close(builder).batch
    committer.begin(first)
    log.failures = 2
    builder.add(engine.schedule_next())
    second = close(builder).batch
    with pytest.raises(ConnectionError):
        committer.wait()
    with pytest.raises(ConnectionError):
        committer.begin(second)
    committer.begin(second)
    committer.wait()
    assert log.offered == [first] * 3 + [second]


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
    assert builder.take_effects() == []


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
