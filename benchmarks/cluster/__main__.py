"""``python -m benchmarks.cluster``: kube-scheduler and eventsched over upstream's workloads."""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import NamedTuple

from benchmarks.cluster import contenders, workloads
from benchmarks.cluster.client import Client
from benchmarks.cluster.contenders import Contender, Use
from benchmarks.cluster.intake import FLAGS
from benchmarks.cluster.operations import Operations, UnsupportedError
from benchmarks.cluster.watching import Watching
from benchmarks.cluster.workloads import Workload
from tests.cluster.harness.plane import ADMIN, ControlPlane

DEFAULT = (
    "SchedulingBasic/5000Nodes",
    "SchedulingPodAntiAffinity/5000Nodes",
    "SchedulingPodAffinity/5000Nodes",
    "SchedulingPreferredPodAffinity/5000Nodes",
    "TopologySpreading/5000Nodes",
    "PreferredTopologySpreading/5000Nodes",
)


class Outcome(NamedTuple):
    """One run: pods a second over the measured pods, seconds from creation to bind, use."""

    scheduler: str
    pods: int
    rate: float
    p50: float
    p99: float
    use: Use


class Settings(NamedTuple):
    """How runs are made: seconds from the scheduler's start to the first pods; whether all measured
    pods wait before it sees the first of them."""

    warm: float
    backlog: bool


class Runner:
    """The scheduler of one run."""

    def __init__(self, scheduler: str, plane: ControlPlane, folder: Path, warm: float) -> None:
        self._scheduler, self._plane, self._folder, self._warm = scheduler, plane, folder, warm
        self._contender: Contender | None = None

    @property
    def contender(self) -> Contender:
        """The process, once it is started."""
        assert self._contender is not None
        return self._contender

    async def start(self) -> None:
        """Starts it, and gives it time to warm up."""
        plane = self._plane
        if self._scheduler == "kube-scheduler":
            binary = plane.programs.path("kube-scheduler")
            self._contender = contenders.kube_scheduler(binary, plane.kubeconfig, self._folder)
        else:
            self._contender = contenders.eventsched(plane.kubeconfig, self._folder)
        await asyncio.sleep(self._warm)
        self.check()

    def pause(self) -> None:
        """Lets it stand still."""
        self.contender.pause()

    def go_on(self) -> None:
        """Ends a pause."""
        self.contender.go_on()

    def check(self) -> None:
        """Raises RuntimeError if it has ended."""
        if self._contender is not None:
            self._contender.check()

    def stop(self) -> None:
        """Ends it."""
        if self._contender is not None:
            self._contender.stop()


def main() -> int:
    """Runs the chosen workloads and prints a table."""
    options = _options()
    scale = dict(each.split("=") for each in options.scale)
    try:
        root = workloads.folder()
    except (OSError, subprocess.CalledProcessError) as problem:
        print(f"upstream's workload files are not there: {problem}", file=sys.stderr)
        return 3
    found = workloads.read(root, {name: int(n) for name, n in scale.items()})
    wanted = options.workload or DEFAULT
    chosen = [each for each in found if each.full_name in wanted]
    missing = set(wanted) - {each.full_name for each in chosen}
    if missing:
        print(f"no such workload: {', '.join(sorted(missing))}", file=sys.stderr)
        return 2
    settings = Settings(options.warm, options.backlog)
    rows = []
    for workload in chosen:
        for _ in range(options.runs):
            for scheduler in options.scheduler:
                try:
                    rows.append((workload, _measured(workload, scheduler, settings)))
                except UnsupportedError as problem:
                    print(f"left out: {problem}", file=sys.stderr)
                    break
                print(_line(*rows[-1]), flush=True)
    print(_ratios(rows))
    if options.out:
        options.out.write_text(
            "".join(
                json.dumps({"workload": w.full_name, **o._asdict(), "use": o.use._asdict()}) + "\n"
                for w, o in rows
            )
        )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster", description=__doc__)
    parser.add_argument(
        "workload", nargs="*", help=f"such as {DEFAULT[0]}; default: {len(DEFAULT)} of them"
    )
    parser.add_argument(
        "--scheduler", action="append", choices=("kube-scheduler", "eventsched"), default=[]
    )
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--scale", action="append", default=[], metavar="PARAM=N",
        help="another value for a parameter of the workloads: measurePods=500",
    )  # fmt: skip
    parser.add_argument(
        "--warm", type=float, default=3.0, help="seconds from the scheduler's start to the pods"
    )
    parser.add_argument(
        "--backlog", action="store_true",
        help="the scheduler stands still until all measured pods wait; times count from then",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, help="a file for the results, JSON lines")
    options = parser.parse_args()
    options.scheduler = options.scheduler or ["kube-scheduler", "eventsched"]
    return options


def _measured(workload: Workload, scheduler: str, settings: Settings) -> Outcome:
    """One run on a control plane of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-cluster-") as name,
        ControlPlane(flags=FLAGS) as plane,
    ):
        return asyncio.run(_run(workload, scheduler, plane, Path(name), settings))


async def _run(
    workload: Workload, scheduler: str, plane: ControlPlane, folder: Path, settings: Settings
) -> Outcome:
    client = Client(plane.url, plane.token(ADMIN), plane.tls(), connections=48)
    watching = Watching(client)
    operations = Operations(workload, client, watching, backlog=settings.backlog)
    operations.check()
    runner = Runner(scheduler, plane, folder, settings.warm)
    await watching.start()
    try:
        await _while_it_lives(operations.run(runner), runner)
        latencies = sorted(watching.latencies)
        span = watching.span[1] - watching.span[0]
        return Outcome(
            scheduler=scheduler,
            pods=len(latencies),
            rate=len(latencies) / span if span > 0 else 0.0,
            p50=statistics.median(latencies) if latencies else 0.0,
            p99=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] if latencies else 0,
            use=runner.contender.use(),
        )
    finally:
        runner.stop()
        await watching.close()
        await client.close()


async def _while_it_lives(work: Coroutine[None, None, None], runner: Runner) -> None:
    """Does the work; raises RuntimeError when the scheduler ends meanwhile."""
    task = asyncio.create_task(work)
    while not (await asyncio.wait([task], timeout=1))[0]:
        try:
            runner.check()
        except RuntimeError:
            task.cancel()
            raise
    task.result()


def _line(workload: Workload, outcome: Outcome) -> str:
    use = outcome.use
    return (
        f"{workload.full_name:48} {outcome.scheduler:15} {outcome.pods:6,} pods "
        f"{outcome.rate:7,.0f}/s  p50 {outcome.p50:7.3f} s  p99 {outcome.p99:7.3f} s  "
        f"cpu {use.cpu:6.1f} s (+{use.database_cpu:.1f} database)  {use.memory:5,.0f} MiB"
    )


def _ratios(rows: Iterable[tuple[Workload, Outcome]]) -> str:
    """eventsched's medians against kube-scheduler's of the same workload."""
    by: dict[str, dict[str, list[Outcome]]] = {}
    for workload, outcome in rows:
        by.setdefault(workload.full_name, {}).setdefault(outcome.scheduler, []).append(outcome)
    lines = []
    for name, found in by.items():
        if len(found) == 2:
            ours, theirs = found["eventsched"], found["kube-scheduler"]
            rate = _median(ours, "rate") / max(_median(theirs, "rate"), 1e-9)
            p99 = _median(ours, "p99") / max(_median(theirs, "p99"), 1e-9)
            cpu = statistics.median(o.use.cpu for o in ours)
            cpu /= max(statistics.median(o.use.cpu for o in theirs), 1e-9)
            lines.append(f"{name:48} throughput x {rate:.2f}  p99 x {p99:.2f}  cpu x {cpu:.2f}")
    return "\n".join(lines)


def _median(outcomes: Iterable[Outcome], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
