"""What recording into Postgres costs: against the memory log in the same minute, and alone.

An embedded database on the disk that the system's temporary folders are on, with fsync.
"""

import gc
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks import runs
from benchmarks.runs import Load
from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.load import Source
from eventsched.domain.records import PodDeleted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.database import writer_address
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.history.replay import stream_replay
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation import resumption
from eventsched.runtime.simulation.simulation import DEFAULT_SEED, Simulation

BATCHES = (1, 8, 32, 128, 256)
"""Sizes of batches, in records, whose append is timed."""


@contextmanager
def _database() -> Iterator[str]:
    """The address of a new embedded database, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="eventsched-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        with writer_address(None, folder / "data") as address:
            yield address
    finally:
        shutil.rmtree(folder)


@contextmanager
def _busy_process() -> Iterator[None]:
    """A process that only computes. What it costs a run beside it, on this machine, any second
    process costs that is as busy: processors share caches and power."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def shape(load: Load, times: int, half: int) -> dict[str, Any]:
    """Runs into memory and into Postgres, interleaved, and how much more a pod costs after ``half``
    (virtual µs) of the run than before."""
    memory, postgres, growth = [], [], []
    for _ in range(times):
        in_memory = runs.run(load, log=MemoryEventLog(), half=half)
        memory.append(in_memory.pods_per_second)
        growth.append(in_memory.halves[1] / in_memory.halves[0])
        with _database() as address, closing(PostgresEventLog(address, "bench")) as log:
            result = runs.run(load, log=log)
            postgres.append(result.pods_per_second)
            usage = log.usage()
    return {
        "load": load.name,
        "placed": result.placed,
        "attempts": result.attempts,
        "memory": round(statistics.median(memory), 1),
        "postgres": round(statistics.median(postgres), 1),
        "growth": round(statistics.median(growth), 2),
        "bytes_per_pod": round(usage.bytes_per_pod),
    }


def measure(load: Load, times: int) -> dict[str, Any]:
    """Runs into memory, into memory beside a busy process, and into Postgres, in turn; then what
    was written is replayed, verified and taken up again."""
    memory, beside, postgres = [], [], []
    for number in range(times):
        memory.append(runs.run(load, log=MemoryEventLog()).pods_per_second)
        with _busy_process():
            beside.append(runs.run(load, log=MemoryEventLog()).pods_per_second)
        with _database() as address, closing(PostgresEventLog(address, "bench")) as log:
            result = runs.run(load, log=log)
            postgres.append(result.pods_per_second)
            usage = log.usage()
            if number == times - 1:
                after = {**_replayed(log), **_restarted(load, log)}
    fast, held = statistics.median(postgres), statistics.median(memory)
    return {
        "load": load.name,
        "placed": result.placed,
        "memory": round(held, 1),
        "postgres": round(fast, 1),
        "postgres_runs": [round(each, 1) for each in postgres],
        "recording_cost": round(1 - fast / held, 3),
        "neighbour_cost": round(1 - statistics.median(beside) / held, 3),
        "bytes_per_pod": round(usage.bytes_per_pod),
        "bytes_of_nodes": usage.node_bytes,
        **after,
    }


def _replayed(log: PostgresEventLog) -> dict[str, Any]:
    gc_tuning.freeze()
    started = time.perf_counter()
    done = stream_replay.verify(assemble().engine, log.reader)
    seconds = time.perf_counter() - started
    gc.unfreeze()
    assert done.divergence is None, done.divergence
    return {"replay": round(done.placed / seconds, 1), "records": done.records}


def _restarted(load: Load, log: PostgresEventLog) -> dict[str, Any]:
    """Seconds until the run could go on, by folding the whole log and from a snapshot."""
    source = Source(load.nodes, load.pods)

    def begin(*, use_snapshot: bool) -> tuple[Simulation, float]:
        gc.collect()
        started = time.perf_counter()
        cluster = InMemoryCluster(source.nodes, source.arrivals)
        simulation = Simulation(assemble(), cluster, log, seed=DEFAULT_SEED)
        helped = resumption.resume(simulation, log.reader, use_snapshot=use_snapshot)
        assert helped == use_snapshot
        return simulation, time.perf_counter() - started

    simulation, folded = begin(use_snapshot=False)
    log.store_snapshot(simulation.snapshot()._replace(hash=log.head_hash))
    again, loaded = begin(use_snapshot=True)
    assert again.engine.state.digest() == simulation.engine.state.digest()
    return {"restart": round(folded, 3), "restart_with_snapshot": round(loaded, 3)}


def latencies(seconds: float = 1.0) -> list[dict[str, Any]]:
    """Append latency in milliseconds by the number of records in a batch (200 bytes each, no
    vectors), one batch at a time."""
    found = []
    with _database() as address, closing(PostgresEventLog(address, "latency")) as log:
        for size in BATCHES:
            times: list[float] = []
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                first = log.head
                records = [
                    StoredRecord.of(LogEntry(at, 0, at, PodDeleted(uid="u" * 170)))
                    for at in range(first, first + size)
                ]
                started = time.perf_counter()
                log.begin(Batch(records, {}))
                log.finish()
                times.append((time.perf_counter() - started) * 1e3)
            found.append({"records": size, **_quantiles(times)})
    return found


def _quantiles(times: Sequence[float]) -> dict[str, float]:
    cut = statistics.quantiles(times, n=100)
    return {"appends": len(times), "p50_ms": round(cut[49], 3), "p99_ms": round(cut[98], 3)}
