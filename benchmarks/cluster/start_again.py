"""``python -m benchmarks.cluster.start_again``: from the start of a process to its first attempt.

A real API server with nodes and bound pods, and a database that knows them all. One replica is
stopped and started again, several times, with a pod that waits. ``--also FOLDER`` measures the
version in another source tree as well, in turn with this one, on the same database.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.cluster.contenders import cpu_of
from benchmarks.cluster.intake import FLAGS, fill
from benchmarks.cluster.restart import first_attempt
from eventsched.eventlog.schema import migrations
from tests.cluster.harness.manifests import SCHEDULER, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import ROOT, Scheduler
from tests.databases import servers, serving
from tests.waiting import until

RESULTS = Path(__file__).parents[1] / "results"
_WAIT_SECONDS = 120.0
_EVENTS = {
    "eventsched": "imports and configuration",
    "the cluster is watched": "the cluster is listed",
    "caught up with the log": "caught up with the log",
    "a term begins": "the term begins",
    "deciding": "deciding",
}
"""Log lines of a start, and what has happened by then."""
_DURATIONS = {
    "caught up with the log": ("loading", "reading", "applying"),
    "started": ("total", "imports", "connecting", "lists", "log", "lease", "takeover"),
}
"""Fields of log lines that hold seconds."""


def main() -> int:
    """Prints the medians, and writes them to benchmarks/results/start_again.json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster.start_again", description=__doc__
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000, help="that are bound")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--also", type=Path, metavar="FOLDER", help="another version's sources")
    options = parser.parse_args()
    versions = {"before": options.also.resolve()} if options.also else {}
    versions["now"] = ROOT
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
    with ExitStack() as running:
        postgres = running.enter_context(serving(servers()[-1]))
        plane = running.enter_context(ControlPlane(flags=FLAGS))
        database = running.enter_context(postgres.fresh(migrations.upgrade))
        asyncio.run(fill(plane, options.nodes, options.pods))
        _run(plane, database, ROOT, "first")  # takes everything into the log
        for turn in range(options.times):
            for name, root in versions.items():
                rows[name].append(_run(plane, database, root, f"{name}-{turn}"))
                print(name, json.dumps(rows[name][-1]), flush=True)
    found = {name: _medians(starts) for name, starts in rows.items()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "start_again.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


def _run(plane: ControlPlane, database: str, root: Path, name: str) -> dict[str, float]:
    """Starts a replica with a pod that waits; seconds since its start, by step."""
    # Compiled modules are kept, as in the image.
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": ""}
    scheduler = Scheduler(plane, database, name=name, environment=environment)
    end = _end(database)
    plane.admin.create(pod(f"late-{name}", "1m", scheduler=SCHEDULER), "default")
    began = datetime.now().timestamp()
    try:
        scheduler.start(_WAIT_SECONDS)
        cpu = cpu_of(scheduler.server.pid)
        attempt = until(lambda: first_attempt(database, end), "an attempt", _WAIT_SECONDS)
        found = _steps(scheduler.lines(), began)
        found |= {"first attempt": round(attempt - began, 2), "CPU": round(cpu, 2)}
        assert scheduler.stop() == 0
    finally:
        scheduler.server.kill()
        plane.discard(scheduler.server)
    return found


def _end(database: str) -> int:
    with psycopg.connect(database) as connection:
        query = "SELECT coalesce(max(first + count), 0) FROM eventsched_log.batch"
        [(end,)] = connection.execute(query).fetchall()
    return int(end)


def _steps(lines: list[dict[str, Any]], began: float) -> dict[str, float]:
    steps: dict[str, float] = {}
    for line in lines:
        if line["event"] in _EVENTS:
            at = datetime.fromisoformat(line["ts"]).timestamp()
            steps[_EVENTS[line["event"]]] = round(at - began, 2)
        names = _DURATIONS.get(line["event"], ())
        steps |= {f"{name}, s": line[name] for name in names}
    return steps


def _medians(starts: list[dict[str, float]]) -> dict[str, float]:
    keys = starts[0]
    return {key: round(statistics.median(start[key] for start in starts), 2) for key in keys}


if __name__ == "__main__":
    sys.exit(main())
