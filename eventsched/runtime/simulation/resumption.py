"""Resumes a simulation from its log, or from a snapshot and the records after it. The simulated
cluster gets the effects again, and drops the stimuli that were observed already."""

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.load import Source
from eventsched.domain.detail_levels import DetailLevels
from eventsched.domain.errors import InputError
from eventsched.domain.records import StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import EventLog, StoredRecord, StoredSnapshot
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.log_start import first_start
from eventsched.runtime.simulation.simulation import Simulation, SimulationSnapshot
from eventsched.runtime.snapshot_policy import is_readable

if TYPE_CHECKING:  # at run time only imported if there is a database
    from eventsched.eventlog.postgres.reader import Reader


class SnapshotError(Exception):
    """A snapshot whose state does not match its digest. The simulation cannot be used any more:
    make another one and apply the whole log."""


def new_or_resumed(
    assembly: Assembly,
    source: Source,
    log: EventLog,
    seed: str,
    reader: "Reader | None" = None,
    store_snapshot: Callable[[StoredSnapshot], None] | None = None,
    detail_levels: DetailLevels | None = None,
) -> Simulation:
    """A simulation over a log: a new one, or with a ``reader`` of that log one that is resumed.
    ``store_snapshot`` is called with each snapshot. ``detail_levels`` says which vectors are
    stored, by default all. Raises InputError if the stream was begun with other inputs."""

    def new_simulation() -> Simulation:
        cluster = InMemoryCluster(
            source.nodes,
            source.arrivals,
            source.bound,
            objects=source.objects,
            samples=source.samples,
            churn=source.churn,
            rollouts=source.rollouts,
        )
        return Simulation(
            assembly, cluster, log, seed=seed, inputs=source.digests,
            store_snapshot=store_snapshot, detail_levels=detail_levels,
        )  # fmt: skip

    simulation = new_simulation()
    if reader is not None and reader.head.next > 0:
        try:
            resume(simulation, reader)
        except SnapshotError:
            simulation = new_simulation()
            resume(simulation, reader, use_snapshot=False)
    return simulation


def resume(simulation: Simulation, log: "Reader", *, use_snapshot: bool = True) -> bool:
    """Applies the log, or its newest snapshot and the records after it. True if a snapshot was
    used. Raises InputError if the stream was begun with other inputs, SnapshotError,
    CorruptLogError."""
    start = first_start(log)
    first = next(log.read(), None)
    if first is None:
        raise CorruptLogError(0, "is not there")
    opening = _opening(first) if start is None else start.opening
    _compare(opening, simulation.started, log.stream)
    used_snapshot = use_snapshot and _from_snapshot(simulation, log)
    if not used_snapshot and start is not None:
        raise CorruptLogError(first.position, "is the first record, and no snapshot can be used")
    if not used_snapshot:
        simulation.utilization.advance(first.at)
    last_batch = log.last_batch()
    assert last_batch is not None
    observed, instant_observed = msgspec.json.decode(last_batch.mark)
    for stored in log.read(simulation.engine.position):
        if stored.at > simulation.engine.state.now:
            simulation.utilization.advance(stored.at)
            simulation.observed += simulation.cluster.forget_before(stored.at)
        logged = _applied(simulation, stored)
        simulation.counters.count(logged.record)
        for effect in simulation.batch_builder.effects(logged):
            simulation.cluster.execute(effect, logged.at)
    try:
        simulation.cluster.forget(observed - simulation.observed)
    except ValueError as problem:
        raise CorruptLogError(simulation.engine.position - 1, str(problem)) from problem
    simulation.observed, simulation.instant_observed = observed, bool(instant_observed)
    simulation.counters.now = simulation.engine.state.now
    simulation.counters.resumed = simulation.counters.placed
    return used_snapshot


def _applied(simulation: Simulation, stored: StoredRecord) -> LogEntry:
    try:
        logged = stored.logged
        simulation.engine.apply(logged)
    except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
        raise CorruptLogError(stored.position, f"does not fit: {problem!r}") from problem
    return logged


def _from_snapshot(simulation: Simulation, log: "Reader") -> bool:
    """Loads the newest snapshot that has this version's format and whose hash is still in the
    chain. False if there is none. Raises SnapshotError if its state is not what its digest says."""
    snapshot = log.snapshot()
    while snapshot is not None and not (
        is_readable(snapshot.version) and log.hash_before(snapshot.position) == snapshot.hash
    ):
        snapshot = log.snapshot(snapshot.position)
    if snapshot is None:
        return False
    try:
        run = msgspec.json.decode(zlib.decompress(snapshot.body), type=SimulationSnapshot)
        simulation.engine.restore(bytes(run.engine), snapshot.position)
    except (zlib.error, msgspec.MsgspecError, KeyError) as problem:
        raise SnapshotError from problem
    if simulation.engine.state.digest() != snapshot.digest:
        raise SnapshotError
    simulation.counters.restore(run.counters)
    simulation.utilization.restore(run.utilization)
    simulation.cluster.restore(run.cluster)
    simulation.observed, simulation.instant_observed = run.observed, run.instant_observed
    simulation.snapshot_position = snapshot.position
    return True


def _opening(first: StoredRecord) -> StreamStarted:
    """The record that begins a stream."""
    try:
        opening = first.record
    except msgspec.MsgspecError as problem:
        raise CorruptLogError(0, str(problem)) from problem
    if not isinstance(opening, StreamStarted):
        raise CorruptLogError(0, "a stream begins with StreamStarted")
    return opening


def _compare(opening: StreamStarted, expected: StreamStarted, stream: str) -> None:
    """Raises InputError if the stream was begun with other inputs than the expected ones."""
    differs = [
        name
        for name in sorted({*opening.inputs, *expected.inputs})
        if opening.inputs.get(name) != expected.inputs.get(name)
    ]
    differs += ["seed"] if opening.seed != expected.seed else []
    differs += [
        f"plugin {name}"
        for name in sorted({*opening.plugins, *expected.plugins})
        if opening.plugins.get(name) != expected.plugins.get(name)
    ]
    if differs:
        raise InputError(
            f"stream {stream}",
            f"holds a run of other inputs ({', '.join(differs)})",
            "name another --stream or --data-dir, or give the inputs that it was begun with",
        )
