"""``python -m benchmarks.hostile``: innocent pods alone, and beside pods that cost a lot.

One control plane; kube-scheduler and eventsched schedule on it in turn. For each case and
scheduler it prints how long innocent pods waited for a node alone and beside the case's pods (p50,
p95), the ratio of the p95, the CPU seconds that the scheduler used beside them, and what a small
read of the API server took, by a client that does nothing else.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.cluster import contenders
from benchmarks.cluster.client import Client, RefusedError, collection
from benchmarks.cluster.contenders import Contender
from benchmarks.cluster.intake import FLAGS
from benchmarks.hostile import cases, innocents, patching
from benchmarks.hostile.cases import CASES, Case
from benchmarks.hostile.innocents import Innocents, Waits, percentile
from tests.cluster.harness.manifests import node
from tests.cluster.harness.plane import ADMIN, ControlPlane

SCHEDULER = "default-scheduler"
SCHEDULERS = ("kube-scheduler", "eventsched")
_ZONE = "topology.kubernetes.io/zone"
WITHIN = 2.0
"""What the p95 beside a hostile pod may be at most, as a multiple of that alone."""


class Settings(NamedTuple):
    """How it is measured: innocent pods of each phase, and pods per second; seconds that they may
    wait at most; seconds from the scheduler's start to the first pods."""

    nodes: int
    pods: int
    rate: float
    deadline: float
    warm: float


class Result(NamedTuple):
    """One case with one scheduler. ``cpu`` are the scheduler's seconds beside the case's pods,
    ``patches`` how many were answered."""

    case: str
    scheduler: str
    alone: Waits
    beside: Waits
    cpu: float
    patches: int

    @property
    def ratio(self) -> float:
        """The p95 beside against that alone."""
        alone = percentile(self.alone.seconds, 0.95)
        return percentile(self.beside.seconds, 0.95) / max(alone, 1e-6)


def main() -> int:
    """Runs the chosen cases and prints a table."""
    options = _options()
    chosen = [case for case in CASES if not options.case or case.name in options.case]
    settings = Settings(options.nodes, options.pods, options.rate, options.deadline, options.warm)
    with (
        tempfile.TemporaryDirectory(prefix="bench-hostile-") as folder,
        ControlPlane(flags=FLAGS) as plane,
    ):
        results = asyncio.run(
            _measure(plane, Path(folder), chosen, options.scheduler or SCHEDULERS, settings)
        )
    print(summary(results))
    if options.out:
        options.out.write_text("".join(json.dumps(_as_json(each)) + "\n" for each in results))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--case", action="append", choices=names, help="default: all of them")
    parser.add_argument("--scheduler", action="append", choices=SCHEDULERS)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=60, help="innocent pods of each phase")
    parser.add_argument("--rate", type=float, default=20.0, help="of them a second")
    parser.add_argument("--deadline", type=float, default=30.0, help="seconds that they may wait")
    parser.add_argument("--warm", type=float, default=4.0, help="seconds from the start to pods")
    parser.add_argument("--out", type=Path, help="a file for the results, JSON lines")
    return parser.parse_args()


async def _measure(
    plane: ControlPlane, folder: Path, chosen: list[Case], schedulers: Iterable[str],
    settings: Settings,
) -> list[Result]:  # fmt: skip
    client = Client(plane.url, plane.token(ADMIN), plane.tls(), connections=16)
    results = []
    try:
        await _prepare(client, settings.nodes)
        for scheduler in schedulers:
            contender = _started(scheduler, plane, folder)
            try:
                await _warm(client, settings)
                for case in chosen:
                    contender.check()
                    found = await _one(case, scheduler, contender, client, plane, settings)
                    results.append(found)
                    print(line(found), flush=True)
            finally:
                contender.stop()
    finally:
        await client.close()
    return results


def _started(scheduler: str, plane: ControlPlane, folder: Path) -> Contender:
    if scheduler == "kube-scheduler":
        binary = plane.programs.path("kube-scheduler")
        return contenders.kube_scheduler(binary, plane.kubeconfig, folder)
    return contenders.eventsched(plane.kubeconfig, folder)


async def _prepare(client: Client, nodes: int) -> None:
    for name in (innocents.NAMESPACE, cases.NAMESPACE):
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await client.create(space)
    made = (
        node(f"n{number:05d}", "64", "256Gi", 1_000, {_ZONE: f"z{number % 3}"})
        for number in range(nodes)
    )
    await client.create_all((each, "") for each in made)


async def _warm(client: Client, settings: Settings) -> None:
    """Until the scheduler places pods. Raises TimeoutError."""
    await asyncio.sleep(settings.warm)
    innocent = Innocents(client, SCHEDULER)
    await innocent.start()
    try:
        if (await innocent.measure(10, 10.0, 180.0)).unbound:
            raise TimeoutError("the scheduler places no pods")
    finally:
        await innocent.close()
        await innocent.clear()


async def _one(
    case: Case, scheduler: str, contender: Contender, client: Client, plane: ControlPlane,
    settings: Settings,
) -> Result:  # fmt: skip
    """Alone, then beside the case's pods; nothing is left behind."""
    innocent = Innocents(client, SCHEDULER)
    await innocent.start()
    phase = settings.pods, settings.rate, settings.deadline
    try:
        alone = await innocent.measure(*phase)
        before = contender.use().cpu
        pods = list(case.make(SCHEDULER))
        creating = asyncio.create_task(_create(client, pods))
        if case.placed or case.patches:
            await creating
            await asyncio.sleep(2)
        with _patched(case, pods, plane) as answered:
            beside = await innocent.measure(*phase)
        await creating
        cpu = contender.use().cpu - before
        return Result(case.name, scheduler, alone, beside, cpu, sum(answered))
    finally:
        await innocent.close()
        await innocent.clear()
        await client.delete(collection("Pod", cases.NAMESPACE))
        await asyncio.sleep(1)


async def _create(client: Client, pods: list[dict[str, Any]]) -> None:
    for each in pods:
        try:
            await client.create(each, cases.NAMESPACE)
        except RefusedError as problem:
            print(f"left out: {str(problem)[:200]}", file=sys.stderr)


@contextmanager
def _patched(case: Case, pods: list[dict[str, Any]], plane: ControlPlane) -> Iterator[list[int]]:
    """Clients patch the pods meanwhile; how many patches were answered is known afterwards."""
    answered: list[int] = []
    if not case.patches:
        yield answered
        return
    environment = {
        **os.environ,
        patching.SERVER: plane.url,
        patching.TOKEN: plane.token(ADMIN),
        patching.CA: str(plane.authority.certificate),
    }
    names = [each["metadata"]["name"] for each in pods]
    command = [sys.executable, "-m", "benchmarks.hostile.patching", case.patches]
    with subprocess.Popen(
        [*command, cases.NAMESPACE, *names], env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield answered
        finally:
            told, _ = process.communicate(timeout=60)
            answered.append(int(told or 0))


def line(result: Result) -> str:
    """A result in one line."""
    alone, beside = result.alone, result.beside
    late = f"  {beside.unbound} unbound" if beside.unbound else ""
    patches = f"  {result.patches:,} patches" if result.patches else ""
    return (
        f"{result.case:12} {result.scheduler:15} alone p50 {_ms(alone.seconds, 0.5)} "
        f"p95 {_ms(alone.seconds, 0.95)}  beside p50 {_ms(beside.seconds, 0.5)} "
        f"p95 {_ms(beside.seconds, 0.95)}  x {result.ratio:5.2f}  cpu {result.cpu:5.1f} s  "
        f"API server p95 {_ms(alone.server, 0.95)} -> {_ms(beside.server, 0.95)}{patches}{late}"
    )


def _ms(values: list[float], share: float) -> str:
    return f"{percentile(values, share) * 1e3:6.0f} ms"


def summary(results: list[Result]) -> str:
    """The ratios side by side. ``over``: eventsched's is more than twice, and so is the wait itself
    against kube-scheduler's beside the same pods, where that was measured."""
    found: dict[str, dict[str, Result]] = {}
    for each in results:
        found.setdefault(each.case, {})[each.scheduler] = each
    about = {case.name: case.about for case in CASES}
    lines = [
        "",
        "p95 of innocent pods beside each case's pods, and how many times that alone it is",
    ]
    for case, by in found.items():
        told = "  ".join(
            f"{name} {_ms(each.beside.seconds, 0.95)} x {each.ratio:5.2f}"
            for name, each in by.items()
        )
        lines.append(f"{case:12} {about[case]:60} {told}{'  over' if _is_over(by) else ''}")
    return "\n".join(lines)


def _is_over(by: dict[str, Result]) -> bool:
    ours, theirs = by.get("eventsched"), by.get("kube-scheduler")
    if ours is None or ours.ratio <= WITHIN:
        return False
    waited = percentile(ours.beside.seconds, 0.95)
    return theirs is None or waited > WITHIN * percentile(theirs.beside.seconds, 0.95)


def _as_json(result: Result) -> dict[str, Any]:
    return {
        **result._asdict(),
        "alone": result.alone._asdict(),
        "beside": result.beside._asdict(),
        "ratio": result.ratio,
    }


if __name__ == "__main__":
    sys.exit(main())
