"""Runs the simulated days, one after another, and takes a sample at the end of each."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import mean

import psycopg
from psycopg import sql

from benchmarks.endurance import reference, samples
from benchmarks.endurance.load import DAY, Year
from benchmarks.endurance.samples import STREAM, Sample
from eventsched.eventlog.postgres.housekeeping import thin
from eventsched.eventlog.postgres.pruning import prune
from eventsched.eventlog.postgres.sealing import next_seal
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.process.settings import seconds
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation.resumption import new_or_resumed
from eventsched.runtime.simulation.run_counters import RunCounters
from eventsched.runtime.simulation.simulation import DEFAULT_SEED, Simulation

_HOUR = DAY // 24
"""How often the reference work is timed, in simulated time."""


def run(
    address: str, year: Year, days: int, path: Path, report: Callable[[Sample], None]
) -> list[Sample]:
    """Runs up to the end of day ``days``, from where the log in the database ends. ``path`` is the
    file of the samples; ``report`` is called with each new one. Returns all samples."""
    _set_partition_size(address, year)
    taken = samples.read(path)
    process = taken[-1].process + 1 if taken else 1
    with closing(PostgresEventLog(address, STREAM, holder="endurance")) as log:
        simulation = new_or_resumed(
            assemble(), year.source(), log, DEFAULT_SEED, log.reader, log.store_snapshot
        )
        gc_tuning.freeze()
        begun = simulation.counters.now // DAY  # a day that was cut off is finished
        for day in range(max(begun, taken[-1].day if taken else 0) + 1, days + 1):
            sample = _day(simulation, address, year, day, process)
            samples.append(path, sample)
            taken.append(sample)
            report(sample)
            _retain(simulation, address, year, taken)
    return taken


def _set_partition_size(address: str, year: Year) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        setting = "ALTER DATABASE {} SET eventsched.partition_records = {}"
        name, size = sql.Identifier(connection.info.dbname), sql.Literal(year.partition_records)
        connection.execute(sql.SQL(setting).format(name, size))


class _Speed:
    """Times the reference work once an hour while a simulation runs, as its ``progress``."""

    def __init__(self, now: int) -> None:
        self._next = now
        self.times: list[float] = []
        """CPU times of the work, ms."""
        self.seconds = 0.0
        """CPU time that this took."""

    def __call__(self, counters: RunCounters) -> None:
        """Times it if an hour has passed."""
        if counters.now >= self._next:
            self._next = counters.now + _HOUR
            before = time.process_time()
            self.times.append(reference.cpu_ms())
            self.seconds += time.process_time() - before


def _day(simulation: Simulation, address: str, year: Year, day: int, process: int) -> Sample:
    attempts, began = simulation.counters.attempts, time.perf_counter()
    speed = _Speed(simulation.counters.now)
    used = time.process_time()
    simulation.run(day * DAY, speed)
    speed(simulation.counters)
    used = time.process_time() - used - speed.seconds
    attempts = simulation.counters.attempts - attempts
    restart_ms, restart_reference_ms = samples.restart_ms(address, year)
    return Sample(
        day=day,
        attempts=attempts,
        cpu_ms=round(used * 1000 / max(1, attempts), 3),
        rss_mb=round(samples.resident_mb(), 1),
        snapshot_kb=round(samples.snapshot_kb(simulation), 1),
        database_mb=round(samples.database_mb(address), 1),
        restart_ms=round(restart_ms, 1),
        reference_ms=round(mean(speed.times), 4),
        restart_reference_ms=round(restart_reference_ms, 4),
        process=process,
        ended_at=time.time(),
        seconds=round(time.perf_counter() - began, 2),
    )


def _retain(simulation: Simulation, address: str, year: Year, taken: list[Sample]) -> None:
    """Applies the retention, and seals full partitions."""
    for drop, age in ((thin, year.retention.detail), (prune, year.retention.records)):
        before = _written_before(taken, seconds(age) / 86_400)
        if before:
            drop(address, STREAM, 0, before)
    if seconds(year.retention.records):
        while (seal := next_seal(address, STREAM, needs_archive=False)) is not None:
            simulation.take_in(seal)


def _written_before(taken: list[Sample], age: float) -> int:
    """The real time (µs) before which the records of simulated days older than ``age`` days were
    written; 0 if there are none. The log has real times, so it is that of a day's sample."""
    older = [sample for sample in taken if sample.day <= taken[-1].day - age]
    return int(older[-1].ended_at * 1e6) if age and older else 0
