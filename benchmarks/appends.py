"""``python -m benchmarks.appends``: what an append costs the server, by schema and size of batch.

The records of a simulation are cut into batches of one size and appended to a database of each
schema, all on one embedded server, some hundred batches in turn, so that every schema sees the same
machine. What is measured is the CPU time, user and system, of the backend that runs append();
fsync is on. Ratios are to the first schema.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks import runs
from benchmarks.runs import Load
from eventsched.cluster.sources import generated
from eventsched.eventlog import chain
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.embedded.postmaster import SUPERUSER
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.writer_connection import WriterConnection
from eventsched.eventlog.schema import migrations
from eventsched.output.terminal.tables import table

RESULTS = Path(__file__).parent / "results"
FORMER = "0004"
"""The schema of release 0.1, the last one without table pod_now."""
SIZES = (6, 37)
"""Records in a batch: a decision by itself, and several that are committed together."""
LOADS = {
    "steady": "nodes=300,pods={},shape=mixed,rate=20,runtime=300,seed=2",
    "tight": "nodes=60,pods={},shape=tight,rate=5,runtime=300,seed=2",
}
_TURN = 20
"""Batches that are appended to a database before it is the next one's turn."""
_LIMIT = 30.0
_BACKEND = "SELECT pid FROM pg_stat_activity WHERE application_name = 'eventsched {}'"


class Recorded(MemoryEventLog):
    """A log in memory that gives its records again in batches of another size, each decision with
    its vectors as they were stored."""

    def batches(self, size: int) -> Iterator[Batch]:
        """All of it; the last batch may be smaller."""
        for first in range(0, len(self._records), size):
            part = self._records[first : first + size]
            yield Batch(part, {at: self._details[at] for at in self._vectors(part)})

    def _vectors(self, part: Sequence[StoredRecord]) -> list[int]:
        return [record.position for record in part if record.position in self._details]


class _Writer:
    """Appends to the stream of a database, and adds up the CPU time of its backend."""

    def __init__(self, postgres: EmbeddedPostgres, database: str) -> None:
        self._link = WriterConnection(postgres.url(SUPERUSER, database), database)
        self._number, self._term, self._head = self._link.acquire("benchmark", "benchmark")
        [(pid,)] = postgres.execute(_BACKEND.format(database))
        self._clock = Path(f"/proc/{pid}/schedstat")
        self.microseconds: list[float] = []

    def append(self, batches: Sequence[Batch]) -> None:
        """Appends them one after another; notes the mean CPU time (µs) of one."""
        sealed = []
        for batch in batches:
            sealed.append(chain.seal(batch, self._term, self._head, time.time_ns() // 1000))
            self._head = sealed[-1].head
        before = self._used()
        for each in sealed:
            self._link.send(self._number, each)
            self._link.answer(each, time.monotonic() + _LIMIT)
        self.microseconds.append((self._used() - before) / len(sealed))

    def close(self) -> None:
        """Ends the connection."""
        self._link.close()

    def _used(self) -> float:
        return int(self._clock.read_text().split()[0]) / 1000


def main() -> int:
    """Measures, prints a table and writes results/appends.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.appends", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000, help="of each load")
    parser.add_argument("--loads", nargs="+", choices=tuple(LOADS), default=list(LOADS))
    parser.add_argument(
        "--sizes", nargs="+", type=int, default=SIZES, help="of batches, in records"
    )
    parser.add_argument("--appends", type=int, default=5_000, help="for each schema, at most")
    parser.add_argument("--schemas", nargs="+", default=[FORMER, "head"], help="migrations")
    options = parser.parse_args()
    found = []
    with _server() as postgres:
        for load in options.loads:
            recorded = Recorded("recorded")
            parsed = generated.parse(LOADS[load].format(options.pods))
            runs.run(Load(load, parsed.nodes(), list(parsed.pods())), log=recorded)
            for size in options.sizes:
                batches = list(recorded.batches(size))[: options.appends]
                told = _compared(postgres, options.schemas, batches, f"{load}_{size}")
                found.append({"load": load, "records": size, "appends": len(batches), **told})
    RESULTS.mkdir(exist_ok=True)
    machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
    result = {"machine": machine, "server_microseconds": found}
    (RESULTS / "appends.json").write_text(json.dumps(result, indent=1) + "\n")
    print(_report(found, options.schemas))
    return 0


@contextmanager
def _server() -> Iterator[EmbeddedPostgres]:
    folder = Path(tempfile.mkdtemp(prefix="eventsched-bench-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        with EmbeddedPostgres(folder / "data").open() as postgres:
            yield postgres
    finally:
        shutil.rmtree(folder)


def _compared(
    postgres: EmbeddedPostgres, schemas: Sequence[str], batches: Sequence[Batch], name: str
) -> dict[str, Any]:
    """The mean CPU time of an append (µs) by schema, and its ratio to that of the first one: the
    median over the turns, each turn's batches being the same for all schemas."""
    writers = []
    try:
        for schema in schemas:
            database = f"{name}_{schema}"
            postgres.create_database(database)
            migrations.upgrade(postgres.url(SUPERUSER, database), schema)
            writers.append(_Writer(postgres, database))
        for number, first in enumerate(range(0, len(batches), _TURN)):
            order = writers if number % 2 else writers[::-1]
            for writer in order:
                writer.append(batches[first : first + _TURN])
    finally:
        for writer in writers:
            writer.close()
    base = writers[0].microseconds
    return {
        "mean": {
            schema: round(statistics.mean(writer.microseconds), 1)
            for schema, writer in zip(schemas, writers, strict=True)
        },
        "ratio": {
            schema: round(statistics.median(map(_ratio, writer.microseconds, base)), 3)
            for schema, writer in zip(schemas, writers, strict=True)
        },
    }


def _ratio(one: float, other: float) -> float:
    return one / other


def _report(found: Sequence[dict[str, Any]], schemas: Sequence[str]) -> str:
    rows = [
        [
            each["load"],
            each["records"],
            each["appends"],
            *(f"{each['mean'][schema]:.0f}" for schema in schemas),
            *(f"{each['ratio'][schema]:.2f}" for schema in schemas[1:]),
        ]
        for each in found
    ]
    header = [
        "load", "records", "appends", *(f"{schema}, us" for schema in schemas),
        *(f"{schema} / {schemas[0]}" for schema in schemas[1:]),
    ]  # fmt: skip
    return table((), rows, header)


if __name__ == "__main__":
    sys.exit(main())
