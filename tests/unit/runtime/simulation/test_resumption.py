"""A simulation that was cut off anywhere goes on from its log as if nothing had happened."""

import random
from typing import Any

import pytest

from eventsched.cluster.sources.arrivals import TracePod
from eventsched.cluster.sources.load import Source
from eventsched.domain.errors import InputError
from eventsched.eventlog.port import StoredSnapshot
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.simulation import simulation as simulating
from eventsched.runtime.simulation.resumption import SnapshotError, new_or_resumed, resume
from tests.builders import SECOND, make_node, make_pod
from tests.unit.runtime.simulation.resumable_runs import (
    CASES,
    Broken,
    Case,
    Kept,
    Parking,
    Reader,
    Run,
    assembly_of,
    case_of,
    cuts,
    resumed,
    simulation_of,
    whole,
)


@pytest.fixture(autouse=True)
def soon_hopeless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulating, "MAX_ERRORS_IN_A_ROW", 12)


EVERY_STEP = pytest.param(1, marks=pytest.mark.faults)
"""Batches of one record: a cut after every step, which takes its time."""


@pytest.mark.parametrize("batch_size", [EVERY_STEP, 7, 256])
@pytest.mark.parametrize("name", CASES)
def test_a_run_resumed_at_any_point_ends_the_same(name: str, batch_size: int) -> None:
    """After every step with batches of one record; with larger ones, whose ends are some of the
    same steps, after a choice of them."""
    expected = whole(name, batch_size).outcome
    assert expected["records"] == whole(name, 256).outcome["records"]
    for number in cuts(name, batch_size, 100 if batch_size == 1 else 6):
        found, _ = resumed(name, batch_size, number)
        assert found.outcome == expected, f"cut after batch {number}"


@pytest.mark.parametrize("batch_size", [EVERY_STEP, 7])
@pytest.mark.parametrize("name", CASES)
def test_a_run_can_be_resumed_from_every_snapshot(name: str, batch_size: int) -> None:
    """The newest before a cut, and an older one with records after it."""
    run = whole(name, batch_size)
    expected, chance = run.outcome, random.Random(name)
    assert run.snapshots
    for number in cuts(name, batch_size, 40 if batch_size == 1 else 6):
        last = run.log.batches[number - 1]
        before = [s for s in run.snapshots if s.position <= last.first + len(last.records)]
        for snapshot in {*before[-1:], *before[: chance.randint(0, len(before))][-1:]}:
            found, helped = resumed(name, batch_size, number, snapshot)
            assert helped
            where = f"cut after batch {number}, snapshot at {snapshot.position}"
            assert found.outcome == expected, where


@pytest.mark.parametrize("name", CASES)
def test_a_run_can_be_resumed_many_times(name: str) -> None:
    """Each process goes on from what the one before it left, with its snapshots."""
    case, chance = case_of(name), random.Random(name)
    log, cut = Kept(), 0
    snapshots: list[StoredSnapshot] = []
    while True:
        simulation = simulation_of(case, log, 3, snapshots.append, 10)
        if log.batches:
            newest = [s for s in snapshots if s.position <= log.head][-1:]
            resume(simulation, Reader(log, *newest))  # type: ignore[arg-type]
        simulation.run(case.until)
        cut += chance.randint(1, 9)
        if cut >= len(log.batches):
            break
        log = log.cut(cut)
    assert Run(simulation, log, snapshots).outcome == whole(name, 3).outcome


@pytest.mark.parametrize("name", ["mixed", "sticky"])
def test_vectors_continue_after_resuming(name: str) -> None:
    """A new process begins with whole vectors; expanded they are those of a run in one piece."""
    expected = whole(name, 7).log
    for number in cuts(name, 7, 5):
        found = resumed(name, 7, number)[0].log
        for stored in expected.read():
            one, other = expected.detail(stored.position), found.detail(stored.position)
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert one.codes.tobytes() == other.codes.tobytes()
                for column, again in zip(one.scores, other.scores, strict=True):
                    assert column.tolist() == again.tolist()


def test_a_run_ends_although_one_pod_always_fails() -> None:
    """It is parked, and a pod that is refused waits with it: only the flush could still happen."""
    pods = [TracePod(make_pod("parked-1")), TracePod(make_pod("p-3"))]
    case = Case(Source([make_node()], pods), assembly_of(Broken, Parking))
    simulation = simulation_of(case, Kept(), 256, None, 1)
    counters = simulation.run(until=20_000 * SECOND)
    assert not simulation.only_errors
    assert counters.now < 20_000 * SECOND
    assert 5 <= counters.errors < 20


def test_resuming_a_finished_run_does_nothing() -> None:
    run = whole("tight", 7)
    found, helped = resumed("tight", 7, len(run.log.batches), run.snapshots[-1])
    assert helped
    assert len(found.log.batches) == len(run.log.batches)
    assert not found.snapshots
    found, _ = resumed("tight", 7, len(run.log.batches))
    assert [each.position for each in found.snapshots] == [run.log.head]
    assert found.simulation.counters.resumed == found.simulation.counters.placed == 14


def test_a_later_end() -> None:
    """The same stream, first until a moment, then to its end."""
    case = case_of("tight")
    log = Kept()
    snapshots: list[StoredSnapshot] = []
    simulation_of(case, log, 7, snapshots.append, 10_000).run(until=100 * SECOND)
    assert 0 < log.head < whole("tight", 7).log.head
    for reader in (Reader(log.cut(len(log.batches))), Reader(log, snapshots[-1])):
        again = simulation_of(case, reader._log, 7, snapshots.append, 10_000)
        resume(again, reader)  # type: ignore[arg-type]
        again.run()
        assert Run(again, reader._log, []).outcome == whole("tight", 7).outcome


@pytest.mark.parametrize(
    ("changes", "helps"),
    [
        ({}, True),
        ({"version": "0.0.0"}, False),
        ({"hash": bytes(32)}, False),
        ({"position": 3}, False),
        ({"digest": "0" * 32}, None),
        ({"body": b"{}"}, None),
        ({"body": b"x\x9c\xab\xae\x05\x00\x01u\x00\xf9"}, None),
    ],
)
def test_a_snapshot_of_another_log_is_not_used(changes: dict[str, Any], helps: bool | None) -> None:
    """It is left out, or (None) found out by its own digest, and the log is folded instead."""
    run = whole("mixed", 7)
    snapshot = run.snapshots[len(run.snapshots) // 2]._replace(**changes)
    number = len(run.log.batches) - 1
    if helps is None:
        with pytest.raises(SnapshotError):
            resumed("mixed", 7, number, snapshot)
    else:
        assert resumed("mixed", 7, number, snapshot)[1] is helps
    log, case = run.log.cut(number), case_of("mixed")
    simulation = new_or_resumed(
        case.assembly,
        case.source,
        log,
        simulating.DEFAULT_SEED,
        Reader(log, snapshot),  # type: ignore[arg-type]
    )
    simulation.run()
    assert Run(simulation, log, []).outcome == run.outcome


def test_other_inputs_are_refused() -> None:
    case, other = case_of("tight"), case_of("gang")
    log = whole("tight", 7).log.cut(5)

    def refusal(assembly: Assembly, source: Source, seed: str) -> str:
        with pytest.raises(InputError) as caught:
            new_or_resumed(assembly, source, log, seed, Reader(log))  # type: ignore[arg-type]
        return str(caught.value)

    seed = simulating.DEFAULT_SEED
    remedy = "name another --stream or --data-dir, or give the inputs that it was begun with"
    said = "stream run: holds a run of other inputs ({}); " + remedy
    assert refusal(case.assembly, other.source, seed) == said.format("generate")
    assert refusal(case.assembly, case.source, "x") == said.format("seed")
    assert refusal(other.assembly, case.source, seed) == said.format("configuration, plugin Gang")
    assert refusal(other.assembly, other.source, "x") == said.format(
        "configuration, generate, seed, plugin Gang"
    )
    assert refusal(case.assembly, case.source.limited(3), seed) == said.format("variant")
    assert log.head == sum(len(batch.records) for batch in log.batches)
