"""How a simulation goes on from its log: state is the log read back, or a snapshot and what came
after it; the cluster is told of the effects again, and forgets what was observed."""

import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from eventsched.cluster.simulated.cluster import SimulatedCluster
from eventsched.cluster.sources.load import Source
from eventsched.domain.errors import InputError
from eventsched.domain.records import StreamStarted
from eventsched.domain.records.logged import Logged
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import EventLog, Stored, StoredSnapshot
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.simulation.simulation import KeptRun, Simulation
from eventsched.runtime.snapshot_policy import is_readable

if TYPE_CHECKING:  # imported at run time only where there is a database
    from eventsched.eventlog.postgres.reader import Reader


class SnapshotError(Exception):
    """A snapshot that does not give the state that it says. The simulation is spoilt: make another
    and let it fold the whole log."""


def begun(
    assembly: Assembly,
    source: Source,
    log: EventLog,
    seed: str,
    reader: "Reader | None" = None,
    keep: Callable[[StoredSnapshot], None] | None = None,
) -> Simulation:
    """A simulation over a log: new, or, with a ``reader`` of that log, where its run has come to.
    ``keep`` stores snapshots. Raises InputError where the stream is of other inputs."""

    def made() -> Simulation:
        cluster = SimulatedCluster(
            source.nodes,
            source.arrivals,
            source.bound,
            objects=source.objects,
            samples=source.samples,
        )
        return Simulation(assembly, cluster, log, seed=seed, inputs=source.digests, keep=keep)

    simulation = made()
    if reader is not None and reader.head.next > 0:
        try:
            resume(simulation, reader)
        except SnapshotError:
            simulation = made()
            resume(simulation, reader, use_snapshot=False)
    return simulation


def resume(simulation: Simulation, log: "Reader", *, use_snapshot: bool = True) -> bool:
    """Takes in what the log holds; whether a snapshot helped. Raises InputError where the stream
    is of other inputs, SnapshotError where the snapshot is not what it says, CorruptLogError."""
    first = next(log.read(), None)
    if first is None:
        raise CorruptLogError(0, "is not there")
    _compare(first, simulation.started, log.stream)
    helped = use_snapshot and _from_snapshot(simulation, log)
    if not helped:
        simulation.meter.advance(first.at)
    mark = log.last_batch()
    assert mark is not None
    observed, scheduling = msgspec.json.decode(mark.mark)
    for stored in log.read(simulation.engine.position):
        if stored.at > simulation.engine.state.now:
            simulation.meter.advance(stored.at)
        logged = _applied(simulation, stored)
        simulation.tally.count(logged.record)
        for effect in simulation.writer.effects(logged):
            simulation.cluster.execute(effect, logged.at)
    try:
        simulation.cluster.forget(observed - simulation.observed)
    except ValueError as problem:
        raise CorruptLogError(simulation.engine.position - 1, str(problem)) from problem
    simulation.observed, simulation.scheduling = observed, bool(scheduling)
    simulation.tally.now = simulation.engine.state.now
    simulation.tally.resumed = simulation.tally.placed
    return helped


def _applied(simulation: Simulation, stored: Stored) -> Logged:
    try:
        logged = stored.logged
        simulation.engine.apply(logged)
    except (msgspec.MsgspecError, LookupError, AssertionError) as problem:
        raise CorruptLogError(stored.position, f"does not fit: {problem!r}") from problem
    return logged


def _from_snapshot(simulation: Simulation, log: "Reader") -> bool:
    """Loads the newest snapshot that has this version's format, at a place that the chain still
    has; whether there was one. Raises SnapshotError if its state is not what its digest says."""
    found = log.snapshot()
    while found is not None and not (
        is_readable(found.version) and log.hash_before(found.position) == found.hash
    ):
        found = log.snapshot(found.position)
    if found is None:
        return False
    try:
        kept = msgspec.json.decode(zlib.decompress(found.body), type=KeptRun)
        simulation.engine.restore(bytes(kept.engine), found.position)
    except (zlib.error, msgspec.MsgspecError, KeyError) as problem:
        raise SnapshotError from problem
    if simulation.engine.state.digest() != found.digest:
        raise SnapshotError
    simulation.tally.restore(kept.tally)
    simulation.meter.restore(kept.meter)
    simulation.cluster.restore(kept.cluster)
    simulation.observed, simulation.scheduling = kept.observed, kept.scheduling
    simulation.kept_at = found.position
    return True


def _compare(first: Stored, wanted: StreamStarted, stream: str) -> None:
    """Raises InputError for a stream that was begun with other inputs."""
    try:
        found = first.record
    except msgspec.MsgspecError as problem:
        raise CorruptLogError(0, str(problem)) from problem
    if not isinstance(found, StreamStarted):
        raise CorruptLogError(0, "a stream begins with StreamStarted")
    differs = [
        name
        for name in sorted({*found.inputs, *wanted.inputs})
        if found.inputs.get(name) != wanted.inputs.get(name)
    ]
    differs += ["seed"] if found.seed != wanted.seed else []
    differs += [
        f"plugin {name}"
        for name in sorted({*found.plugins, *wanted.plugins})
        if found.plugins.get(name) != wanted.plugins.get(name)
    ]
    if differs:
        raise InputError(
            f"stream {stream}",
            f"holds a run of other inputs ({', '.join(differs)})",
            "name another --stream or --data-dir, or give the inputs that it was begun with",
        )
