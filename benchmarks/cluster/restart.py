"""``python -m benchmarks.cluster.restart``: until when nothing is bound after a crash of all.

A real API server with nodes and bound pods, two replicas, a Postgres that stays up. Pods of some
kilobytes are created and bound, nodes report lists of images of 160 kB, and while that goes on both
replicas are killed with -9 and started again at once. kube-scheduler is killed and started again on
the same cluster, with the same lease, so that the ratio compares two figures of one run.
``--also FOLDER`` measures the version in another source tree in the same way, before this one.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from benchmarks.cluster.contenders import cpu_of
from benchmarks.cluster.intake import FLAGS, fill
from benchmarks.cluster.kube_restart import first_bind
from benchmarks.cluster.restart_load import Load, give_images
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import ROOT, Scheduler
from tests.databases import Server, servers, serving

RESULTS = Path(__file__).parents[1] / "results"
LEASE = {"leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}
"""The default of both schedulers."""
_WAIT_SECONDS = 300.0
_STEPS = (
    ("interpreter, imports, configuration", "eventsched"),
    ("lists of the cluster", "the cluster is watched"),
    ("log: snapshot, reading, applying", "caught up with the log"),
    ("lease, after that", "leading"),
    ("term, differences", "deciding"),
)
"""What a start does, and the log line that ends it. Version 0.1 says nothing when it has caught up;
it looks at the lease then, and says that it stands by."""
_IN_PLACE = {"caught up with the log": "standing by"}
_RECORDS = """
SELECT i.value->0, i.value->3 FROM eventsched_log.batch b, jsonb_array_elements(b.body::jsonb) i
WHERE b.first + b.count > %s ORDER BY b.first
"""
_SIZE = """
SELECT coalesce(sum(count), 0), coalesce(sum(octet_length(body::text)), 0)
FROM eventsched_log.batch
"""


def main() -> int:
    """Prints seconds, and writes them to benchmarks/results/restart.json."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cluster.restart", description=__doc__
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000, help="that are bound from the start")
    parser.add_argument("--load", type=int, default=4_000, help="pods that are bound before")
    parser.add_argument("--updates", type=int, default=272, help="of nodes, 160 kB each")
    parser.add_argument("--also", type=Path, metavar="FOLDER", help="another version's sources")
    options = parser.parse_args()
    with ExitStack() as running:
        postgres = running.enter_context(serving(servers()[-1]))
        plane = running.enter_context(ControlPlane(flags=FLAGS))
        asyncio.run(fill(plane, options.nodes, options.pods))
        give_images(plane, min(100, options.nodes), 0)
        upstream, cpu = first_bind(plane, LEASE, _WAIT_SECONDS)
        found: dict[str, Any] = {"kube-scheduler": {"first bind": round(upstream, 2), "CPU": cpu}}
        _show("kube-scheduler", found["kube-scheduler"])
        for root in filter(None, (options.also, ROOT)):
            name = "other version" if root is options.also else "eventsched"
            found[name] = _measured(Trial(plane, postgres, name, root.resolve()), options)
            found[name]["of kube-scheduler's"] = round(found[name]["first bind"] / upstream, 2)
            _show(name, found[name])
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "restart.json").write_text(json.dumps(found, indent=1) + "\n")
    return 0


class Trial(NamedTuple):
    """A version, and where it runs."""

    plane: ControlPlane
    postgres: Server
    name: str
    root: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """The sources that the processes use."""
        return {**os.environ, "PYTHONPATH": str(self.root)}

    def prepare(self, url: str) -> None:
        """Brings the schema of this version up."""
        line = [sys.executable, "-m", "eventsched", "db", "upgrade", f"--database={url}"]
        subprocess.run(line, env=self.environment, cwd="/", check=True, capture_output=True)

    def replica(self, database: str, number: int) -> Scheduler:
        """One that is not started yet."""
        name = self.name.replace(" ", "-")
        where = {"resourceName": name, "resourceNamespace": "default"}
        election = {"leaderElect": True, **where, **LEASE}
        return Scheduler(
            self.plane, database, name=f"{name}-{number}", config={"leaderElection": election},
            environment=self.environment,
        )  # fmt: skip


def _measured(trial: Trial, options: argparse.Namespace) -> dict[str, Any]:
    """Kills and starts both replicas of a version under load; seconds by step."""
    with trial.postgres.fresh(trial.prepare) as database:
        replicas = [trial.replica(database, number) for number in range(2)]
        try:
            replicas[0].start(_WAIT_SECONDS)
            replicas[1].server.start()
            replicas[1].server.until(lambda: _is_ready(replicas[1]), "ready", _WAIT_SECONDS)
            load = Load(trial.plane, f"load-{trial.name.split()[0]}")
            with load:
                load.run(options.load, options.updates, _WAIT_SECONDS)
                return _restarted(replicas, database, load)
        finally:
            for each in replicas:
                each.server.kill()
                trial.plane.discard(each.server)


def _restarted(replicas: list[Scheduler], database: str, load: Load) -> dict[str, Any]:
    lines = [len(each.lines()) for each in replicas]
    for each in replicas:
        each.server.kill()
    with psycopg.connect(database) as connection:
        [(records, size)] = connection.execute(_SIZE).fetchall()
    load.watch()
    began = datetime.now().timestamp()
    for each in replicas:
        each.server.start()
    bound = load.first_bound(_WAIT_SECONDS) - began
    cpu = [cpu_of(each.server.pid) for each in replicas]
    load.stop(_WAIT_SECONDS)
    said = [each.lines()[count:] for each, count in zip(replicas, lines, strict=True)]
    leads = [any(line["event"] == "deciding" for line in each) for each in said].index(True)
    leader = said[leads]
    found: dict[str, Any] = {"records": int(records), "megabytes": round(size / 1e6)}
    found |= dict(_steps(leader, began))
    [caught_up] = [line for line in leader if line["event"] == "caught up with the log"] or [{}]
    found |= {
        f"log: {name}": caught_up[name]
        for name in ("records", "estimated", "loading", "reading", "applying")
        if name in caught_up
    }
    found["first attempt"] = round(_awaited_attempt(database, records) - began, 2)
    found |= {"first bind": round(bound, 2), "CPU": cpu[leads]}
    return found


def _steps(lines: list[dict[str, Any]], began: float) -> Iterator[tuple[str, float]]:
    """The seconds that each step took beyond the ones before it: the log is read while the cluster
    is listed, and the lease runs out meanwhile."""
    times = {line["event"]: datetime.fromisoformat(line["ts"]).timestamp() for line in lines}
    before = began
    for name, event in _STEPS:
        at = max(before, times.get(event, times.get(_IN_PLACE.get(event, ""), before)))
        yield name, round(at - before, 2)
        before = at


def _awaited_attempt(database: str, since: int) -> float:
    at = first_attempt(database, since)
    if not at:
        raise RuntimeError("no attempt")
    return at


def first_attempt(database: str, since: int) -> float:
    """When (s since 1970) the first attempt after a position was made; 0 if none was."""
    with psycopg.connect(database) as connection:
        for at, record in connection.execute(_RECORDS, [since]):
            if record["kind"] == "PodDecided":
                return float(at) / 1e6
    return 0.0


def _is_ready(scheduler: Scheduler) -> bool:
    try:
        return scheduler.ask("/readyz")[0] == 200
    except OSError:
        return False


def _show(name: str, found: Mapping[str, Any]) -> None:
    print(name, flush=True)
    for key, value in found.items():
        print(f"  {key}: {value:,}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
