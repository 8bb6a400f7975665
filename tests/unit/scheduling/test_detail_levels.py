"""Levels of detail: what is stored of a decision's vectors. The records are the same at each."""

from typing import Any

import msgspec
import numpy as np
import pytest

from eventsched.domain.detail_levels import (
    FULL,
    SUMMARY,
    DetailLevel,
    DetailLevels,
    parse_level,
)
from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided, PreemptionDecided, Stimulus
from eventsched.domain.records.verdicts import STORED_NO_NODE, DeltaPart, Detail, normalized
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import StoredRecord, expand_deltas
from eventsched.history.replay import stream_replay
from tests.detail_levels import assembly, logged

MIXED = DetailLevels(DetailLevel(2), {"batch": FULL})
PER_VICTIM, NOT_STARTED = 2**31, 2**62


@pytest.fixture(scope="module")
def full() -> MemoryEventLog:
    return logged(DetailLevels())


@pytest.mark.parametrize("text", ["full", "summary", "digest", "top:1", "top:1000"])
def test_names_of_levels(text: str) -> None:
    expected = {"full": None, "summary": 0, "digest": 0, "top:1": 1, "top:1000": 1000}
    assert parse_level(text).nodes == expected[text]


@pytest.mark.parametrize("text", ["", "top", "top:0", "top:1001", "top:08", "top:9x", "Full"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"use full, summary, or top:K with K from 1 to 1000"):
        parse_level(text)


@pytest.mark.parametrize(
    "levels",
    [DetailLevels(SUMMARY), DetailLevels(DetailLevel(1)), DetailLevels(DetailLevel(8)), MIXED],
    ids=["summary", "top:1", "top:8", "by profile"],
)
def test_the_records_are_the_same_at_every_level(
    full: MemoryEventLog, levels: DetailLevels
) -> None:
    """So are the hashes of the chain; and a replay repeats the decisions from each."""
    log = logged(levels)
    assert list(log.read()) == list(full.read())
    assert (log.head, log.head_hash) == (full.head, full.head_hash)
    done = stream_replay.verify(assembly().engine, log)
    assert done.divergence is None


def test_a_replay_compares_the_vectors_of_the_best_nodes() -> None:
    """Those of attempts and of preemptions; the first that differ are named."""
    engine, found = assembly().engine(detail_levels=DetailLevels(DetailLevel(3))), []
    log = logged(DetailLevels(DetailLevel(3)))
    for step in steps_of(log):
        record = step[0].record
        if isinstance(record, Stimulus):
            again = engine.observe(record, step[0].at)
        else:
            again = engine.schedule_next()
        found += [(e.position, e.detail) for e in again if e.detail is not None]
    assert {full_record(log, position).__class__ for position, _ in found} == {
        PodDecided, PreemptionDecided,
    }  # fmt: skip
    done = stream_replay.verify(assembly().engine, log, partial_details=iter(found))
    assert done.divergence is None
    position, detail = next(item for item in found[40:] if item[1].scores)
    first, *others = detail.scores
    assert isinstance(first, DeltaPart)
    changed = msgspec.structs.replace(
        detail, scores=(DeltaPart(first.rows, first.values + 1), *others)
    )
    wrong = [(at, changed if at == position else each) for at, each in found]
    done = stream_replay.verify(assembly().engine, log, partial_details=iter(wrong))
    assert done.divergence is not None
    assert done.divergence.position == position
    assert done.divergence.what == "the stored vectors of the best nodes"
    assert done.divergence.expected != done.divergence.came


def test_a_summary_has_no_vectors() -> None:
    log = logged(DetailLevels(SUMMARY))
    assert [stored for stored in log.read() if log.detail(stored.position) is not None] == []


@pytest.mark.parametrize("nodes", [1, 3, 5, 1000])
def test_the_best_nodes_are_kept(full: MemoryEventLog, nodes: int) -> None:
    """With the scores that they have among all nodes."""
    log = logged(DetailLevels(DetailLevel(nodes)))
    compared = 0
    for stored in log.read():
        decided = stored.record
        if not isinstance(decided, PodDecided) or not decided.digest:
            continue
        kept, whole = partial(log, stored.position), all_of(full, stored.position)
        totals = totals_of(full, decided, whole)
        feasible = np.flatnonzero(whole.codes == 0).tolist()
        best = sorted(feasible, key=lambda row: (row != decided.row, -totals[row], row))[:nodes]
        assert np.flatnonzero(kept.codes == 0).tolist() == sorted(best)
        for some, all_ in zip(kept.scores, whole.scores, strict=True):
            assert isinstance(some, np.ndarray)
            assert (some[best] == all_[best]).all()
            assert not np.delete(some, best).any()
        compared += len(best) < len(feasible)
    assert compared > 5 or nodes == 1000


def test_each_refusal_has_examples(full: MemoryEventLog) -> None:
    """The first three nodes that have it."""
    log = logged(DetailLevels(DetailLevel(2)))
    some = 0
    for stored in log.read():
        decided = stored.record
        if not isinstance(decided, PodDecided) or not decided.digest:
            continue
        kept, whole = partial(log, stored.position), all_of(full, stored.position)
        for code, number in decided.counts:
            first = np.flatnonzero(whole.codes == code)[:3].tolist()
            assert np.flatnonzero(kept.codes == code).tolist() == first
            some += number > 3
        others = {0, STORED_NO_NODE, *(code for code, _ in decided.counts)}
        assert {*kept.codes.tolist()} <= others
    assert some > 10


@pytest.mark.parametrize("nodes", [1, 2, 5])
def test_the_best_candidates_of_a_preemption_are_kept(full: MemoryEventLog, nodes: int) -> None:
    log = logged(DetailLevels(DetailLevel(nodes)))
    less = 0
    for stored in log.read():
        decided = stored.record
        if not isinstance(decided, PreemptionDecided):
            continue
        kept, whole = partial(log, stored.position), all_of(full, stored.position)
        rows = candidates_of(decided, whole)
        best = sorted(rows, key=lambda row: (row != decided.row, *criteria(decided, whole, row)))
        best = best[:nodes]
        assert np.flatnonzero(kept.codes != STORED_NO_NODE).tolist() == sorted(best)
        for row in best:
            victims = int(whole.codes[row])
            values = [int(column[row]) for column in whole.scores][: 4 + victims]
            assert [int(column[row]) for column in kept.scores][: 4 + victims] == values
        less += len(best) < len(rows)
    assert less > 1 or nodes == 5


def test_a_delta_never_builds_on_partial_vectors(full: MemoryEventLog) -> None:
    """Levels change between attempts, as no run does; full vectors stay right."""
    engine, found = assembly().engine(), dict[int, Detail]()
    for number, (first, *_) in enumerate(steps_of(full)):
        level = (FULL, FULL, DetailLevel(2), FULL, SUMMARY)[number % 5]
        engine.set_detail(DetailLevels(level))
        record = first.record
        if isinstance(record, Stimulus):
            again = engine.observe(record, first.at)
        else:
            again = engine.schedule_next()
        found.update({e.position: e.detail for e in again if e.detail is not None})
    deltas = 0
    for position, detail in found.items():
        if detail.is_partial or not isinstance(full_record(full, position), PodDecided):
            continue
        deltas += detail.base is not None
        assert detail.base is None or not found[detail.base].is_partial
        expanded, expected = expand_deltas(position, found.get), full.detail(position)
        assert expanded is not None
        assert expected is not None
        for one, other in zip(
            (expanded.codes, *expanded.scores), (expected.codes, *expected.scores), strict=True
        ):
            assert np.array_equal(one, other)  # type: ignore[arg-type]
    assert deltas > 10


def test_a_delta_to_partial_vectors_is_refused() -> None:
    codes = np.array([0, STORED_NO_NODE], dtype=np.uint16)
    base = Detail(2, None, codes, (), is_partial=True)
    with pytest.raises(ValueError, match="position 4, which are partial"):
        Detail(2, 4, None, ()).expand(base)


def steps_of(log: MemoryEventLog) -> list[list[StoredRecord]]:
    steps: dict[int, list[StoredRecord]] = {}
    for stored in log.read():
        steps.setdefault(stored.cause, []).append(stored)
    return list(steps.values())


def full_record(log: MemoryEventLog, position: int) -> Any:
    return next(iter(log.read(position))).record


def partial(log: MemoryEventLog, position: int) -> Any:
    """The vectors of a decision, of its best nodes only."""
    detail = log.detail(position)
    assert detail is not None
    assert detail.is_partial
    return detail


def all_of(log: MemoryEventLog, position: int) -> Any:
    """The vectors of a decision, of all nodes."""
    detail = log.detail(position)
    assert detail is not None
    assert not detail.is_partial
    return detail


def totals_of(log: MemoryEventLog, decided: PodDecided, whole: Detail) -> Any:
    columns = next(
        (stored.record.columns for stored in log.read() if stored.kind == "ScoringDefined"
         and stored.record.number == decided.scoring), (),
    )  # fmt: skip
    totals = np.zeros(whole.size, dtype=np.int64)
    for column, parameters, raw in zip(columns, decided.parameters, whole.scores, strict=True):
        full_column = msgspec.structs.replace(column, parameters=parameters)
        totals += normalized(full_column, raw) * column.weight  # type: ignore[arg-type]
    return totals


def candidates_of(decided: PreemptionDecided, whole: Any) -> list[int]:
    rows = range(whole.size)
    first, last = decided.first, decided.last
    if first <= last:
        inside = [row for row in rows if first <= row <= last]
    else:
        inside = [row for row in rows if row >= first or row <= last]
    return [row for row in inside if whole.codes[row]]


def criteria(decided: PreemptionDecided, whole: Any, row: int) -> tuple[int, ...]:
    violations, highest, total, start = (int(column[row]) for column in whole.scores[:4])
    number = int(whole.codes[row])
    begun = start or NOT_STARTED
    return (violations, highest, total + PER_VICTIM * number, number, -begun, row < decided.first,
            row)  # fmt: skip
