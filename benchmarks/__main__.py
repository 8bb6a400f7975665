"""``make bench``: pods a second, what recording costs, and where the time goes.

Every figure is compared with another one of the same run: the run without a log, the smallest
cluster, and a node-by-node loop in plain Python. Results go to benchmarks/results/ as JSON and to
standard output.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import database, runs, upstream
from benchmarks.runs import Load
from eventsched import __version__
from eventsched.output.terminal.tables import table

RESULTS = Path(__file__).parent / "results"
SIZES = (1_000, 5_000, 15_000)
RATE = 1_000
"""Pods a virtual second, of the loads whose pods do not all arrive at once."""


def main() -> int:
    """Runs all, or the loads whose name contains a word given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("only", nargs="?", default="", help="a word of the loads' names")
    parser.add_argument("--runs", type=int, default=3, help="of each load; medians are shown")
    parser.add_argument("--pods", type=int, default=15_000, help="of each generated load")
    parser.add_argument("--part", choices=tuple(_PARTS), help="one half of it only")
    options = parser.parse_args()
    machine = {"python": platform.python_version(), "cpus": os.cpu_count(), "version": __version__}
    RESULTS.mkdir(exist_ok=True)
    for part in _PARTS:
        if options.part in (None, part):
            found = _PARTS[part](options)
            where = RESULTS / f"{part}.json"
            where.write_text(json.dumps({"machine": machine, **found}, indent=1) + "\n")
    return 0


def _engine(options: argparse.Namespace) -> dict[str, Any]:
    measured = []
    for load in _loads(options.pods):
        if options.only in load.name:
            measured.append(_measure(load, options.runs))
            print(f"{load.name}: {measured[-1]['with_log']:,.0f} pods/s", file=sys.stderr)
    print(_report(measured))
    return {"loads": measured}


def _database(options: argparse.Namespace) -> dict[str, Any]:
    measured = []
    for load in _loads(options.pods):
        if options.only in load.name:
            measured.append(database.measure(load, options.runs))
            print(f"{load.name}: {measured[-1]['postgres']:,.0f} pods/s", file=sys.stderr)
    waits = [] if options.only else database.latencies()
    print(_database_report(measured, waits))
    return {"loads": measured, "append_latency": waits}


def _upstream(options: argparse.Namespace) -> dict[str, Any]:
    measured = []
    for size in upstream.SIZES:
        for load in upstream.loads(size, min(options.pods, 10_000)):
            if options.only in load.name:
                measured.append(database.shape(load, options.runs, upstream.SECOND - 1))
                print(f"{load.name}: {measured[-1]['postgres']:,.0f} pods/s", file=sys.stderr)
    print(_upstream_report(measured))
    return {"loads": measured}


_PARTS = {"engine": _engine, "database": _database, "upstream": _upstream}


def _loads(pods: int) -> Iterator[Load]:
    for shape in ("plain", "mixed"):
        for size in SIZES:
            yield runs.generated_load(shape, size, pods)
        yield runs.generated_load(shape, SIZES[0], pods, rate=RATE)
    folder = os.environ.get("EVENTSCHED_TRACES")
    if folder:
        yield runs.openb_load(Path(folder))
    else:
        print("openb: skipped; set EVENTSCHED_TRACES to the folder of its lists", file=sys.stderr)


def _measure(load: Load, times: int) -> dict[str, Any]:
    """Pairs of runs without and with the log, interleaved so that both see the same machine."""
    without, with_log = [], []
    for _ in range(times):
        without.append(runs.run(load, logged=False))
        with_log.append(runs.run(load, logged=True))
    assert len({result.digest for result in without + with_log}) == 1
    timed = runs.run(load, logged=True, timed=True)
    fast = statistics.median(result.pods_per_second for result in with_log)
    bare = statistics.median(result.pods_per_second for result in without)
    return {
        "load": load.name,
        "pods": len(load.pods),
        "placed": timed.placed,
        "attempts": timed.attempts,
        "without_log": round(bare, 1),
        "with_log": round(fast, 1),
        "with_log_runs": [round(result.pods_per_second, 1) for result in with_log],
        "log_cost": round(1 - fast / bare, 3),
        "bytes_per_pod": round(timed.bytes_per_pod),
        "microseconds": {name: round(value, 1) for name, value in timed.phases.items()},
        "per_node_loop_microseconds": round(runs.per_node_microseconds(load), 1),
    }


def _report(measured: list[dict[str, Any]]) -> str:
    smallest = {each["load"].split()[0]: each["with_log"] for each in reversed(measured)}
    rows = [
        (
            each["load"],
            f"{each['without_log']:,.0f}",
            f"{each['with_log']:,.0f}",
            f"{each['log_cost']:.0%}",
            f"{smallest[each['load'].split()[0]] / each['with_log']:.2f}",
            f"{each['per_node_loop_microseconds'] * each['with_log'] / 1e6:.1f}",
            each["bytes_per_pod"],
        )
        for each in measured
    ]
    header = (
        "load", "pods/s no log", "pods/s logged", "log costs", "cost / smallest",
        "python loop / attempt", "bytes/pod",
    )  # fmt: skip
    phases = list(measured[0]["microseconds"]) if measured else []
    times = [
        (each["load"], *(f"{each['microseconds'].get(name, 0):.0f}" for name in phases))
        for each in measured
    ]
    return "\n\n".join(
        [
            table(header, rows),
            "microseconds an attempt, by phase (with timers, which cost some themselves)",
            table(("load", *phases), times),
        ]
    )


def _database_report(measured: list[dict[str, Any]], waits: list[dict[str, Any]]) -> str:
    rows = [
        (
            each["load"],
            f"{each['memory']:,.0f}",
            f"{each['postgres']:,.0f}",
            f"{each['recording_cost']:.0%}",
            f"{each['neighbour_cost']:.0%}",
            each["bytes_per_pod"],
            f"{each['replay']:,.0f}",
            f"{each['replay'] / each['postgres']:.2f}",
            f"{each['restart']:.2f}",
            f"{each['restart_with_snapshot']:.2f}",
        )
        for each in measured
    ]
    header = (
        "load", "pods/s memory", "pods/s postgres", "recording costs", "busy process costs",
        "bytes/pod", "replay pods/s", "replay / live", "restart s", "with snapshot s",
    )  # fmt: skip
    appends = [(each["records"], each["p50_ms"], each["p99_ms"]) for each in waits]
    return "\n\n".join(
        [
            table(header, rows),
            "append latency",
            table(("records", "p50 ms", "p99 ms"), appends),
        ]
    )


def _upstream_report(measured: list[dict[str, Any]]) -> str:
    rows = []
    for each in measured:
        floor = upstream.FLOORS.get(each["load"].split()[0]) if "5,000" in each["load"] else None
        rows.append(
            (
                each["load"],
                each["placed"],
                each["attempts"],
                f"{each['memory']:,.0f}",
                f"{each['postgres']:,.0f}",
                floor or "",
                f"{each['growth']:.2f}",
                each["bytes_per_pod"],
            )
        )
    header = (
        "shape", "placed", "attempts", "pods/s memory", "pods/s postgres", "upstream's floor",
        "2nd half / 1st", "bytes/pod",
    )  # fmt: skip
    return table(header, rows)


if __name__ == "__main__":
    sys.exit(main())
