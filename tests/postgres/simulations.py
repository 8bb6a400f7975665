"""``eventsched simulate`` as a separate process, and the result that it must have."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources import generated
from eventsched.eventlog.addresses import libpq_url
from eventsched.eventlog.embedded.postmaster import Postmaster
from eventsched.eventlog.memory import MemoryEventLog
from eventsched.eventlog.port import StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.replay import stream_replay
from eventsched.runtime.assembly import assemble
from eventsched.runtime.simulation import simulation
from eventsched.runtime.simulation.outcome import SimulationOutcome
from eventsched.runtime.simulation.simulation import Simulation
from tests.postgres.commands import Command

STREAM = "simulation"
SMALL = 6
"""Records in a small batch: about those of one pod."""
REACH = 300.0
"""Seconds that a run may take to a position in its log."""
_OF_THE_PROCESS = {"seconds", "pods_per_second", "bytes_per_pod", "node_bytes", "log_head"}
"""What may differ from run to run."""


@contextmanager
def small_batches() -> Iterator[None]:
    """Simulations of this process write small batches: a short log has many, then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "BATCH_SIZE", SMALL)
        yield


def started(*arguments: object, changes: str = "") -> Command:
    """``eventsched`` with these arguments; ``changes`` are statements that run in the process
    beforehand."""
    return Command(*arguments, changes=changes)


def ended(*arguments: object, changes: str = "") -> tuple[int, str, list[str]]:
    """Runs it to its end: exit code, output, and the lines on standard error except for warnings
    and progress."""
    with started(*arguments, changes=changes) as process:
        output, errors = process.communicate(timeout=180)
        return process.wait(0), output, complaints(errors)


def complaints(errors: str) -> list[str]:
    """The lines that are neither a warning nor the progress of a run."""
    return [line for line in errors.splitlines() if not line.startswith(("warning: ", "["))]


def folder_url(folder: Path, role: str) -> str | None:
    """The address of a folder's server for a role, without becoming its user; None if none is
    ready."""
    running = Postmaster(folder).running()
    if running is None or running.status != "ready":
        return None
    return f"postgresql://{role}@/eventsched?host={running.socket_folder}&port={running.port}"


def reaches(process: Command, url: Callable[[], str | None], position: int, epoch: int) -> bool:
    """Waits until the log's head has passed a position in an epoch; False where the process ended
    before. Raises TimeoutError."""
    deadline = time.monotonic() + REACH
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the head is not at {position} in epoch {epoch} in {REACH:g} s")
        found = url()
        try:
            if found is not None:
                with psycopg.connect(libpq_url(found), autocommit=True) as connection:
                    while process.poll() is None and time.monotonic() < deadline:
                        row = connection.execute(
                            "SELECT next, epoch FROM eventsched_log.head"
                        ).fetchone()
                        if row is not None and row[0] >= position and row[1] >= epoch:
                            return True
                        time.sleep(0.004)
        except psycopg.Error:
            pass  # the database does not exist yet, or is being removed
        time.sleep(0.005)
    return False


@cache
def uninterrupted(
    load: str, config: Path | None = None
) -> tuple[list[StoredRecord], dict[str, Any]]:
    """The records and the summary of a run in one piece, in memory."""
    found, log = generated.parse(load), MemoryEventLog(STREAM)
    simulation = Simulation(
        assemble(config),
        InMemoryCluster(found.nodes(), found.pods()),
        log,
        inputs={"generate": str(found)},
    )
    simulation.run()
    return list(log.read()), lasting(SimulationOutcome.of(simulation, log, 1.0).as_json())


def lasting(summary: dict[str, Any]) -> dict[str, Any]:
    """A summary without what may differ from run to run."""
    return {name: value for name, value in summary.items() if name not in _OF_THE_PROCESS}


def assert_whole(load: str, output: str, address: str) -> None:
    """The summary and the log are those of a run in one piece, and every decision comes out."""
    records, summary = uninterrupted(load)
    assert lasting(json.loads(output)) == summary
    reader = Reader(address, STREAM)
    assert list(reader.read()) == records
    assert json.loads(output)["log_head"] == reader.head.hash.hex()
    done = stream_replay.verify(assemble().engine, reader)
    assert done.divergence is None, str(done.divergence)
    assert done.engine.state.digest() == summary["state_digest"]
