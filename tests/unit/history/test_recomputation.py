"""Recomputed vectors of a decision are those that a run with full detail stores."""

from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.detail_levels import SUMMARY, DetailLevels
from eventsched.domain.errors import InputError
from eventsched.domain.records import (
    FORMAT,
    PodDecided,
    PreemptionDecided,
    StreamStarted,
    TermBegan,
)
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.records.verdicts import Detail
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.history.replay.recomputation import recompute
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import Assembly, assemble_text
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.preemption.preemption_recording import window_of
from tests.builders import make_node, make_pod
from tests.detail_levels import assembly, logged


def fresh(_: int) -> Engine:
    return assembly().engine()


def columns(detail: Any) -> list[Any]:
    own = [column for column in detail.normalized if column is not None]
    return [detail.codes, *detail.scores, *own]


def assert_same(found: Any, expected: Any, decided: PodDecided | PreemptionDecided) -> None:
    """Of a preemption only its candidates are defined, and as many victims as they have."""
    if isinstance(decided, PodDecided):
        for one, other in zip(columns(found), columns(expected), strict=True):
            assert np.array_equal(one, other)
        return
    for row in window_of(decided.first, decided.last, expected.size).tolist():
        number = int(expected.codes[row])
        assert found.codes[row] == number
        if number:
            values = [int(column[row]) for column in expected.scores[: 4 + number]]
            assert [int(column[row]) for column in found.scores[: 4 + number]] == values


def test_what_is_made_again_is_what_was_made() -> None:
    """Ordinary attempts of two profiles, those that find no node, and preemptions."""
    full, log = logged(DetailLevels()), logged(DetailLevels(SUMMARY))
    preemptions = attempts = 0
    for stored in log.read():
        decided = stored.record
        if not isinstance(decided, PodDecided | PreemptionDecided) or not decided.digest:
            continue
        is_preemption = isinstance(decided, PreemptionDecided)
        preemptions += is_preemption
        attempts += not is_preemption
        if (attempts % 20 and not is_preemption) or (is_preemption and preemptions % 3):
            continue
        made = recompute(log, stored.position, fresh, None)
        assert (made.first, made.applied) == (0, stored.cause)
        assert_same(made.details[stored.position], full.detail(stored.position), decided)
    assert preemptions > 5
    assert attempts > 90


def test_a_later_state_saves_applying_what_is_before() -> None:
    log = logged(DetailLevels(SUMMARY))
    decisions = [stored for stored in log.read() if stored.kind == "PodDecided"]
    middle, last = decisions[50], decisions[-1]
    engine = fresh(0)
    for stored in log.read():
        if stored.position == middle.cause:
            break
        engine.apply(stored.logged)
    restored = fresh(0)
    restored.restore(engine.snapshot(), engine.position)
    made = recompute(log, last.position, lambda _: restored, None)
    assert (made.first, made.applied) == (middle.cause, last.cause - middle.cause)
    expected = recompute(log, last.position, fresh, None)
    decided = last.record
    assert isinstance(decided, PodDecided)
    assert_same(made.details[last.position], expected.details[last.position], decided)


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: %d}]}}
"""


def assembled(weight: int) -> Assembly:
    return assemble_text(CONFIGURATION % weight, [], "test.yaml", IN_TREE)


def opening(kind: type[Any], weight: int, **more: Any) -> Any:
    made = assembled(weight)
    return kind(
        engine="0", configuration=made.text, plugins=made.sources, flags=CURRENT,
        inputs={"configuration": made.digest}, **more,
    )  # fmt: skip


def reconfigured() -> tuple[MemoryEventLog, dict[int, Detail]]:
    """A log in which the weight of a plugin changes, and the vectors of its decisions."""
    log, details = MemoryEventLog(), dict[int, Detail]()
    entries: list[LogEntry] = []
    engine = assembled(1).engine()
    entries += engine.observe(opening(StreamStarted, 1, format=FORMAT, seed="s"), 0)
    for number in range(3):
        node = make_node(f"n{number}", cpu=1000 * (number + 1))
        entries += engine.observe(records.NodeAdded(node=node), 0)
    for term, weight in enumerate((1, 5)):
        if term:
            before, engine = engine, assembled(weight).engine()
            engine.restore(before.snapshot(), before.position)
            began = opening(TermBegan, weight, epoch=2, token="t")
            entries += engine.observe(began, term)
        for number in range(3):
            pod = make_pod(f"p{term}{number}", cpu=100 * (number + 1))
            entries += engine.observe(records.PodAdded(pod=pod), term)
            while made := engine.schedule_next():
                entries += made
                details.update({e.position: e.detail for e in made if e.detail is not None})
    log.begin(Batch([StoredRecord.of(entry) for entry in entries], details))
    return log, details


def test_the_configuration_of_the_term_is_used() -> None:
    """After a reload it is the new one."""
    log, details = reconfigured()
    assert len(details) == 6

    def engine_of(began: TermBegan | StreamStarted) -> Engine:
        return assemble_text(began.configuration, [], "test.yaml", IN_TREE).engine()

    def first(_: int) -> Engine:
        return assembled(1).engine()

    for position in details:
        made = recompute(log, position, first, engine_of).details[position]
        decided = next(iter(log.read(position))).record
        assert isinstance(decided, PodDecided)
        assert_same(made, log.detail(position), decided)
    with pytest.raises(InputError, match=r"comes out differently now.*replay --verify"):
        recompute(log, max(details), first, None)


def test_a_decision_that_comes_out_differently_is_refused() -> None:
    log, details = reconfigured()
    changed, last = MemoryEventLog(), max(details)
    stored = [
        each._replace(body=each.body.replace(b'"score":', b'"score":1'))
        if each.position == last
        else each
        for each in log.read()
    ]
    changed.begin(Batch(stored, {}))
    with pytest.raises(InputError, match=f"position {last}: this decision comes out differently"):
        recompute(changed, last, lambda _: assembled(1).engine(), None)


def test_a_position_after_the_log_is_refused() -> None:
    log, _ = reconfigured()
    with pytest.raises(InputError, match=f"the log has no record {log.head}"):
        recompute(log, log.head, lambda _: assembled(1).engine(), None)
