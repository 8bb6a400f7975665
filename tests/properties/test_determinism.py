"""The same inputs give the same log: whatever the hash seed, the batches, the detail, a restart.

Held over generated loads and over random operations; a log that is folded again gives the state,
the timers and the next decisions of the engine that wrote it.
"""

import os
import subprocess
import sys
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.domain import records
from eventsched.domain.records import MoveCause
from eventsched.domain.records.stimuli import WORK_BUDGET
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.runtime.simulation.simulation import Simulation
from eventsched.scheduling.config import configuration
from eventsched.scheduling.cycle.class_cache import ClassCache
from eventsched.scheduling.cycle.work_budget import FIXED_COST
from eventsched.scheduling.engine import Engine

from . import driving, strategies
from .driving import Driver, Operation
from .strategies import deterministic

LOADS = (
    "nodes=12,pods=150,shape=mixed,seed=3,rate=40,runtime=3",
    "nodes=3,pods=120,shape=tight,seed=2",
)


def engine(**more: Any) -> Engine:
    return Engine(assemble_loaded(configuration.default(), "default", IN_TREE).profiles, **more)


def simulate(load: str, batch_size: int = 256) -> tuple[Simulation, MemoryEventLog]:
    found, log = generated.parse(load), MemoryEventLog()
    assembly = assemble_loaded(configuration.default(), "default", IN_TREE)
    cluster = InMemoryCluster(found.nodes(), found.pods())
    run = Simulation(assembly, cluster, log, batch_size=batch_size)
    run.run()
    return run, log


def fingerprint(log: MemoryEventLog) -> str:
    """A hash of all records with their places, and of all vectors."""
    digest = blake2b(digest_size=16)
    for each in log.read():
        digest.update(repr((each.position, each.at, each.cause, each.body)).encode())
        detail = log.detail(each.position)
        if detail is not None:
            digest.update(detail.codes.tobytes())
    return digest.hexdigest()


def summary(load: str, batch_size: int) -> str:
    run, log = simulate(load, batch_size)
    return f"{run.engine.state.digest()} {log.head} {fingerprint(log)}"


@pytest.mark.parametrize("load", LOADS)
def test_hash_seed_and_batches_change_nothing(load: str) -> None:
    expected = summary(load, 256)
    assert summary(load, 1) == summary(load, 7) == expected
    code = f"from properties.test_determinism import summary; print(summary({load!r}, 64))"
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for seed in ("0", "4711"):
        paths = [tests, os.path.dirname(tests), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True,
            check=True, timeout=120,
        )  # fmt: skip
        assert done.stdout.strip() == expected


@pytest.mark.parametrize("load", LOADS)
def test_the_state_is_the_fold_of_its_log(load: str) -> None:
    run, log = simulate(load)
    folded = engine()
    for stored in log.read():
        folded.apply(stored.logged)
    assert folded.state.digest() == run.engine.state.digest()
    assert folded.position == run.engine.position
    assert dict(folded.queue_lengths) == dict(run.engine.queue_lengths)
    assert (folded.due, folded.flush_due) == (run.engine.due, run.engine.flush_due)


@pytest.mark.parametrize("load", LOADS)
def test_vectors_are_those_that_the_digests_are_of(load: str) -> None:
    from eventsched.domain.records.verdicts import column_digest, detail_digest

    _, log = simulate(load)
    seen = 0
    for each in log.read():
        record = each.record
        if not isinstance(record, records.PodDecided):
            continue
        detail: Any = log.detail(each.position)
        columns = [column_digest(column) for column in detail.scores]
        columns += [column_digest(own) for own in detail.normalized if own is not None]
        assert detail_digest(column_digest(detail.codes), columns) == record.digest
        seen += 1
    assert seen > 100


plays = st.lists(
    st.one_of(driving.node_operations, driving.engine_operations, driving.engine_operations,
              driving.usage_operations),
    min_size=5, max_size=40,
)  # fmt: skip
shapes = st.lists(strategies.simple_specs, min_size=3, max_size=3)


@deterministic(50)
@given(shapes, plays, st.integers(0, 40))
def test_a_restart_in_the_middle_changes_nothing(
    shapes: list[Any], operations: list[Operation], middle: int
) -> None:
    live, restarted = Driver(engine(), shapes), Driver(engine(), shapes)
    middle = min(middle, len(operations))
    for operation in operations[:middle]:
        for each in live.play(operation):
            stored = records.decode(records.encode(each.record))
            restarted.engine.apply(each._replace(record=stored, detail=None))
    vars(restarted).update({k: v for k, v in vars(live).items() if k != "engine"})
    assert restarted.engine.state.digest() == live.engine.state.digest()
    for operation in operations[middle:]:
        assert dict(restarted.engine.queue_lengths) == dict(live.engine.queue_lengths)
        assert restarted.engine.due == live.engine.due
        one, other = live.play(operation), restarted.play(operation)
        assert [each[:4] for each in other] == [each[:4] for each in one]
    assert restarted.engine.state.digest() == live.engine.state.digest()


@deterministic(40)
@given(shapes, plays)
def test_detail_changes_no_decision(shapes: list[Any], operations: list[Operation]) -> None:
    full, bare = Driver(engine(), shapes), Driver(engine(with_detail=False), shapes)
    for operation in operations:
        full.play(operation)
        bare.play(operation)
        assert full.engine.state.digest() == bare.engine.state.digest()


BUDGET = {WORK_BUDGET: str(FIXED_COST + 2)}
"""Pods of two questions are over it, and from three nodes on all."""


@deterministic(60)
@given(shapes, plays)
def test_a_budget_is_the_same_without_caches_and_in_a_replay(
    shapes: list[Any], operations: list[Operation]
) -> None:
    """Also where each attempt begins with nothing cached."""
    started = records.StreamStarted(format=1, engine="0", seed="s", inputs=BUDGET)
    live, cold = Driver(engine(), shapes), Driver(engine(classes=ClassCache(0)), shapes)
    folded = engine()
    logged = [*live.engine.observe(started, 0)]
    cold.engine.observe(started, 0)
    for operation in operations:
        found = live.play(operation)
        logged += found
        cold.engine._classes.forget()
        assert [each[:4] for each in cold.play(operation)] == [each[:4] for each in found]
    for each in logged:
        folded.apply(each._replace(record=records.decode(records.encode(each.record))))
    replayed = engine()
    again = []
    for each in logged:
        if isinstance(each.record, records.Stimulus):
            again += replayed.observe(each.record, each.at)
        elif isinstance(each.record, records.PodDecided):
            again += replayed.schedule_next()
    assert [each[:4] for each in again] == [each[:4] for each in logged]
    if any(getattr(each.record, "cause", "") == MoveCause.OVER_BUDGET for each in logged):
        event("a pod is over the budget")
    digests = {each.state.digest() for each in (live.engine, cold.engine, folded, replayed)}
    assert len(digests) == 1
