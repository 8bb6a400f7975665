"""What is measured at the end of each simulated day, as lines of JSON in a file."""

import time
import zlib
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import msgspec
import psycopg

from benchmarks.endurance import reference
from benchmarks.endurance.load import Year
from eventsched.eventlog.postgres.reader import Reader
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation import resumption
from eventsched.runtime.simulation.simulation import Simulation

STREAM = "endurance"


class Sample(msgspec.Struct, frozen=True):
    """One simulated day.

    - ``attempts``: of that day; ``cpu_ms``: CPU time of the process for each of them, with all
      that the day has (events of nodes, encoding, sending), without that of Postgres.
    - ``rss_mb``: resident memory of the process; ``snapshot_kb``: the engine's snapshot,
      compressed; ``database_mb``: the database, without its write-ahead log.
    - ``restart_ms``: CPU time in which a new process loads the newest snapshot, applies the records
      after it and is ready to go on; the shorter of two, because other work on the machine only
      ever adds to it.
    - ``reference_ms``, ``restart_reference_ms``: CPU time of the reference work (reference.py), in
      each process, beside what is measured.
    - ``process``: which process of the run this is, from 1; ``ended_at``: the real time (s since
      1970); ``seconds``: how long the day took.
    """

    day: int
    attempts: int
    cpu_ms: float
    rss_mb: float
    snapshot_kb: float
    database_mb: float
    restart_ms: float
    reference_ms: float
    restart_reference_ms: float
    process: int
    ended_at: float
    seconds: float

    @property
    def cpu(self) -> float:
        """The CPU time of an attempt, in terms of the reference work."""
        return self.cpu_ms / self.reference_ms

    @property
    def restart(self) -> float:
        """The CPU time of a restart, in terms of the reference work."""
        return self.restart_ms / self.restart_reference_ms

    @property
    def ended(self) -> datetime:
        """When the day ended, in real time."""
        return datetime.fromtimestamp(self.ended_at, UTC)


def read(path: Path) -> list[Sample]:
    """The samples of a file, none if it does not exist. A line that was cut off is left out."""
    if not path.exists():
        return []
    samples = []
    for line in path.read_bytes().splitlines():
        try:
            samples.append(msgspec.json.decode(line, type=Sample))
        except msgspec.DecodeError:
            continue
    return samples


def append(path: Path, sample: Sample) -> None:
    """Adds a sample to a file."""
    with path.open("ab") as file:
        file.write(msgspec.json.encode(sample) + b"\n")


def resident_mb() -> float:
    """The resident memory of this process (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise LookupError("/proc/self/status has no VmRSS")


def snapshot_kb(simulation: Simulation) -> float:
    """The size of the engine's snapshot, compressed as it is stored."""
    return len(zlib.compress(simulation.engine.snapshot(), 1)) / 1000


def database_mb(address: str) -> float:
    """The size of the database."""
    with psycopg.connect(address) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(row[0]) / 1e6


def restart_ms(address: str, year: Year) -> tuple[float, float]:
    """The CPU time (ms) in which a new process loads the newest snapshot and the records after it,
    and that of the reference work there."""
    context = get_context("spawn")
    answers: SimpleQueue[tuple[float, float]] = context.SimpleQueue()
    process = context.Process(target=_restart, args=(address, year, answers))
    process.start()
    process.join(600)
    if process.exitcode != 0:
        process.kill()
        raise RuntimeError(f"the restart failed with exit code {process.exitcode}")
    return answers.get()


def _restart(address: str, year: Year, answers: "SimpleQueue[tuple[float, float]]") -> None:
    found = []
    for _ in range(2):
        before = reference.cpu_ms()
        taken = _resumed(address, year) * 1000
        found.append((taken, (before + reference.cpu_ms()) / 2))
    answers.put(min(found))


def _resumed(address: str, year: Year) -> float:
    """The CPU time of this process to resume, in seconds."""
    assembly, cluster = assemble(), year.cluster()
    started = time.process_time()
    simulation = Simulation(assembly, cluster, None, inputs=year.digests)
    reader = Reader(address, STREAM)
    try:
        resumption.resume(simulation, reader)
    finally:
        reader.close()
    return time.process_time() - started
