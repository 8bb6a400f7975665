"""``python -m benchmarks.big_log``: the questions of docs/sql.md on a million decisions.

``make big-log`` makes the log once, in an embedded Postgres below /var/tmp: a simulation and copies
of it (copies.py), with the schema of release 0.1 and then upgraded, so that the upgrade is timed,
too. Questions are timed in the database, commands as a whole, answers of the HTTP API inside of the
process.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.api import report, row_answers
from benchmarks.copies import multiply
from benchmarks.existing_pods import existing_pod_answers
from benchmarks.queries import FORMER, RESULTS, asked
from eventsched.cli.main import main as eventsched
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.schema import migrations
from eventsched.output.terminal.tables import table

FOLDER = Path("/var/tmp/eventsched-big-log")
"""Kept between runs. Postgres of root runs as another user, which cannot enter root's folders."""
PODS, COPIES = 13_000, 78
"""Pods of the simulation, and the number of copies of its decisions: a million in all."""
_LOAD = "nodes=1000,pods={},shape=mixed,rate=20,runtime=300,seed=2"
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "4GB"}
_TABLES = """
SELECT r.relname, sum(pg_total_relation_size(c.oid))::bigint
FROM pg_class c JOIN pg_class r ON r.oid = coalesce(pg_partition_root(c.oid), c.oid)
WHERE c.relnamespace = 'eventsched_log'::regnamespace AND c.relkind = 'r'
GROUP BY 1 ORDER BY 2 DESC
"""


def main() -> int:
    """Runs the benchmark; writes benchmarks/results/big_log.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.big_log", description=__doc__)
    parser.add_argument("--only-make", action="store_true", help="make the log, and ask nothing")
    parser.add_argument("--pods", type=int, default=PODS, help="of the simulation")
    parser.add_argument("--copies", type=int, default=COPIES, help="of its decisions, at most 80")
    parser.add_argument("--runs", type=int, default=3, help="of each question; the best counts")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a question")
    options = parser.parse_args()
    folder = FOLDER / f"{options.pods}x{options.copies}-{migrations.newest()}"
    with made(folder, options.pods, options.copies) as server:
        if not options.only_make:
            _measure(server, folder, options)
    return 0


@contextmanager
def made(folder: Path, pods: int, copies: int) -> Iterator[str]:
    """The superuser's address of the log in a folder, which is made if it is not there."""
    done = folder / "made.json"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        with EmbeddedPostgres(folder / "data", settings=_SETTINGS).open() as server:
            done.write_text(json.dumps(_make(server.superuser_url, pods, copies)) + "\n")
    with EmbeddedPostgres(folder / "data", settings=_SETTINGS).open() as server:
        yield server.superuser_url


def _make(url: str, pods: int, copies: int) -> dict[str, float]:
    """Makes the log. Returns the number of decisions, and seconds of what was done."""
    began = time.monotonic()
    migrations.upgrade(url)
    assert eventsched(["simulate", "--generate", _LOAD.format(pods), "--database", url]) == 0
    migrations.downgrade(url, FORMER)
    decisions = multiply(url, "simulation", copies)
    copied = time.monotonic()
    migrations.upgrade(url)
    upgraded = time.monotonic()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
    return {"decisions": decisions, "made": copied - began, "upgraded": upgraded - copied}


def _measure(url: str, folder: Path, options: argparse.Namespace) -> None:
    found: dict[str, Any] = json.loads((folder / "made.json").read_text())
    found["seconds"] = dict(asked(url, options, former=False))
    with psycopg.connect(url) as connection:
        found["bytes"] = dict(connection.execute(_TABLES).fetchall())
        [pod] = connection.execute(
            "SELECT namespace || '/' || pod FROM eventsched.decisions"
            " WHERE seq >= (SELECT max(seq) / 2 FROM eventsched.decisions) ORDER BY seq LIMIT 1"
        ).fetchone() or [""]
    commands = {
        "explain": ["explain", pod],
        "log list --pod": ["log", "list", "--pod", pod],
        "log tail": ["log", "tail", "-n", "20"],
    }
    found["commands"] = {name: _command(each, url) for name, each in commands.items()}
    found["api"] = row_answers(url)
    found["existing pods"] = existing_pod_answers(url)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "big_log.json").write_text(json.dumps(found, indent=1) + "\n")
    print(f"{found['decisions']:,} decisions; the upgrade took {found['upgraded']:.0f} s\n")
    rows = [[name, "given up" if s is None else f"{s:.3f}"] for name, s in found["seconds"].items()]
    print(table((), rows, ["in the database", "seconds"]), "\n")
    rows = [[name, f"{seconds:.2f}"] for name, seconds in found["commands"].items()]
    print(table((), rows, ["command as a whole", "seconds"]), "\n")
    print(report(found["api"]), "\n")
    rows = [[name, f"{seconds:.3f}"] for name, seconds in found["existing pods"].items()]
    print(table((), rows, ["about a million pods that exist", "seconds"]), "\n")
    rows = [
        [name, f"{size / found['decisions']:.0f}"]
        for name, size in found["bytes"].items()
        if size > found["decisions"]
    ]
    print(table((), rows, ["table", "bytes per decision"]))


def _command(arguments: list[str], url: str) -> float:
    """Seconds of a command in a process of its own; the best of three."""
    best = 1e9
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "eventsched", *arguments, "--database", url],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        best = min(best, time.perf_counter() - began)
    return best


if __name__ == "__main__":
    raise SystemExit(main())
