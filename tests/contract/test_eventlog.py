"""What every implementation of the EventLog port has to do.

To add one: append to FACTORIES a callable that gives an empty log.
"""

from collections.abc import Callable

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.verdicts import Detail, ScoreColumn, column_digest, detail_digest
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, ConflictError, EventLog, Stored
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.ledger import Logged
from tests.builders import added, engine_with, make_node, make_pod

FACTORIES: list[Callable[[], EventLog]] = [MemoryEventLog]


@pytest.fixture(params=FACTORIES, ids=lambda factory: factory.__name__)
def log(request: pytest.FixtureRequest) -> EventLog:
    """An empty log."""
    made: EventLog = request.param()
    return made


def stored(first: int, number: int = 1) -> list[Stored]:
    """Records from a position on."""
    return [
        Stored.of(Logged(at, 10 * at, first, records.PodDeleted(uid=f"p{at}")))
        for at in range(first, first + number)
    ]


def batch(name: str, first: int, number: int = 1) -> Batch:
    """A batch without vectors."""
    return Batch(name, stored(first, number), {})


def of(logged: list[Logged], name: str) -> Batch:
    """A batch of an engine's records."""
    details = {each.position: each.detail for each in logged if each.detail is not None}
    return Batch(name, [Stored.of(each) for each in logged], details)


def test_an_empty_log(log: EventLog) -> None:
    """Begins at 0."""
    assert (log.head, list(log.read()), log.detail(0)) == (0, [], None)


def test_batches_follow_each_other(log: EventLog) -> None:
    """What is read is what was appended, with place, time, cause, kind and version."""
    log.append(batch("a", 0, 2))
    log.append(batch("b", 2, 3))
    assert log.head == 5
    assert list(log.read()) == stored(0, 2) + stored(2, 3)
    assert next(iter(log.read(3))) == Stored(
        3, 30, 2, "PodDeleted", 1, b'{"kind":"PodDeleted","uid":"p3"}'
    )


@pytest.mark.parametrize("first", [0, 1, 2, 4, 5, 9])
def test_reading_from_a_position(log: EventLog, first: int) -> None:
    """Inside a batch, at its edge, and beyond the end."""
    log.append(batch("a", 0, 2))
    log.append(batch("b", 2, 3))
    assert list(log.read(first)) == (stored(0, 2) + stored(2, 3))[first:]


def test_a_batch_offered_again_is_passed_over(log: EventLog) -> None:
    """By its id, also after others came: the outcome of its first append was unknown."""
    log.append(batch("a", 0, 2))
    log.append(batch("a", 0, 2))
    log.append(batch("b", 2))
    log.append(batch("a", 0, 2))
    assert list(log.read()) == stored(0, 2) + stored(2)


@pytest.mark.parametrize("first", [0, 1, 3, 7])
def test_a_batch_that_does_not_begin_at_the_head(log: EventLog, first: int) -> None:
    """Somebody else has written, or something is missing: nothing is appended."""
    log.append(batch("a", 0, 2))
    with pytest.raises(ConflictError) as refused:
        log.append(batch("b", first))
    assert (refused.value.expected, refused.value.head) == (first, 2)
    assert list(log.read()) == stored(0, 2)
    log.append(batch("b", 2))
    assert log.head == 3


@pytest.mark.parametrize("positions", [[], [0, 2], [1, 0], [0, 0], [0, 1, 3]])
def test_gaps_and_empty_batches_are_refused(log: EventLog, positions: list[int]) -> None:
    """Whole: nothing is appended, and the id stays free."""
    broken = Batch("a", [stored(at)[0] for at in positions], {})
    with pytest.raises(ValueError, match="consecutive"):
        log.append(broken)
    assert log.head == 0
    log.append(batch("a", 0))
    assert log.head == 1


def test_a_stored_record_gives_the_record_back(log: EventLog) -> None:
    """As the engine's apply takes it."""
    logged = Logged(0, 7, 0, added(make_pod())[0])
    log.append(of([logged], "a"))
    (found,) = log.read()
    assert found.record == logged.record
    assert found.logged == logged


# --- vectors -------------------------------------------------------------------------------------


def decisions(engine: Engine, *, names: str, number: int) -> list[Logged]:
    """The records of so many pods that arrive and are tried."""
    logged: list[Logged] = []
    for index in range(number):
        logged += engine.observe(added(make_pod(f"{names}{index}", cpu=50, memory=0))[0], index)
        logged += engine.schedule_next()
    return logged


def whole(engine: Engine) -> tuple[list[int], list[list[int]], list[ScoreColumn]]:
    """Codes (0: passes) and raw scores of all nodes as the engine judges them before a decision."""
    judged = engine.judge(make_pod("probe", cpu=50, memory=0))
    codes = [0 if each == 2**31 - 1 else 65_535 for each in judged.keys.tolist()]
    return codes, [s.raw.tolist() for s in judged.scores], [s.column for s in judged.scores]


def test_deltas_are_expanded_to_the_full_vectors(log: EventLog) -> None:
    """150 pods of one class, over two whole records, while a node comes and another goes: each
    decision's vectors are those that the engine had, and give the digest in its record."""
    engine = engine_with()
    logged = []
    for index in range(12):
        logged += engine.observe(added(make_node(f"n{index}", cpu=8000 + 100 * index))[0], 0)
    expected = {}
    for index in range(150):
        if index == 40:
            logged += engine.observe(added(make_node("late"))[0], index)
        if index == 90:
            logged += engine.observe(records.NodeDeleted(name="n3"), index)
        logged += engine.observe(added(make_pod(f"p{index}", cpu=50, memory=0))[0], index)
        expected[engine.position] = whole(engine)
        logged += engine.schedule_next()
    for number in range(0, len(logged), 37):
        log.append(of(logged[number : number + 37], str(number)))

    stored_details = {each.position: each.detail for each in logged if each.detail}
    assert stored_details.keys() == expected.keys()
    keyframes = [at for at, each in stored_details.items() if each.base is None]
    assert 2 < len(keyframes) < 10
    for stored_record in log.read():
        decided = stored_record.record
        if not isinstance(decided, records.PodDecided):
            assert log.detail(stored_record.position) is None
            continue
        detail = log.detail(stored_record.position)
        assert detail is not None
        codes, raws, columns = expected[stored_record.position]
        assert (detail.base, detail.rows, detail.size) == (None, None, len(codes))
        assert detail.codes.tolist() == codes
        assert [each.tolist() for each in detail.scores] == raws
        assert list(decided.scores) == columns
        digests = [column_digest(each) for each in detail.scores]
        assert detail_digest(column_digest(detail.codes), digests) == decided.digest


def test_a_chain_has_at_most_64_deltas(log: EventLog) -> None:
    """So that no decision is far from a whole record."""
    engine = engine_with()
    logged = [each for i in range(8) for each in engine.observe(added(make_node(f"n{i}"))[0], 0)]
    logged += decisions(engine, names="p", number=140)
    log.append(of(logged, "a"))
    details = [each.detail for each in logged if each.detail is not None]
    wholes = [index for index, each in enumerate(details) if each.base is None]
    assert wholes == [0, 65, 130]


def test_classes_have_chains_of_their_own(log: EventLog) -> None:
    """Two classes in turns: each delta goes back to its own class."""
    engine = engine_with()
    logged = [each for i in range(8) for each in engine.observe(added(make_node(f"n{i}"))[0], 0)]
    for index in range(20):
        logged += engine.observe(added(make_pod(f"p{index}", cpu=10 + index % 2))[0], index)
        logged += engine.schedule_next()
    log.append(of(logged, "a"))
    found = [(e.record, log.detail(e.position)) for e in logged if e.detail is not None]
    assert len(found) == 20
    for decided, detail in found:
        assert isinstance(decided, records.PodDecided)
        assert detail is not None
        digests = [column_digest(each) for each in detail.scores]
        assert detail_digest(column_digest(detail.codes), digests) == decided.digest


def test_normalized_columns_are_kept(log: EventLog) -> None:
    """Of a plugin that normalises by its own code."""
    codes = np.array([0, 65_533], dtype=np.uint16)
    detail = Detail(
        2, None, None, codes, (np.array([-5, 0]),), (np.array([100, 0], dtype=np.int64),)
    )
    log.append(Batch("a", stored(0, 2), {1: detail}))
    found = log.detail(1)
    assert found is not None
    assert (found.codes.dtype, found.codes.tolist()) == (np.uint16, [0, 65_533])
    assert found.scores[0].tolist() == [-5, 0]
    assert [None if n is None else n.tolist() for n in found.normalized] == [[100, 0]]
