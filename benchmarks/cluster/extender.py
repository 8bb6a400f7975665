"""``python -m benchmarks.cluster.extender``: what it costs kube-scheduler to ask eventsched.

kube-scheduler places the same pods alone, and with ``eventsched extender`` as its extender: with
names of nodes (filter and prioritize; then bind as well), and with whole nodes. Each time on a
control plane of its own that starts empty. It stands still while the pods are created; pods a
second count from when it goes on, as a watch sees the binds.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

from benchmarks.cluster import contenders
from benchmarks.cluster.client import Client
from benchmarks.cluster.contenders import Contender, Use
from benchmarks.cluster.intake import FLAGS, fill
from benchmarks.cluster.watching import Watching
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.plane import ADMIN, ControlPlane, free_ports

_DEFAULT = "default-scheduler"
_WARM = 50
"""Pods that are placed before anything is measured."""
_WAIT_SECONDS = 120.0
_ASKS = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
_NAMES = {**_ASKS, "nodeCacheCapable": True}
SHAPES: Mapping[str, Mapping[str, Any] | None] = {
    "kube-scheduler alone": None,
    "asks one that agrees": _NAMES,
    "asks, names of nodes": _NAMES,
    "asks and has it bind": {**_NAMES, "bindVerb": "bind"},
    "asks, whole nodes": _ASKS,
}
"""Name → kube-scheduler's ``extenders`` entry except for the address; None for no extender. One
that agrees with everything, and writes nothing down, shows what asking costs by itself."""
_AGREES = "asks one that agrees"


class Outcome(NamedTuple):
    """One run: pods a second, and what each pod cost (ms of CPU)."""

    pods: int
    rate: float
    asking: float
    answering: float
    database: float
    plane: float


def main() -> int:
    """Prints a line for each run, and ratios."""
    options = _options()
    found: dict[str, list[Outcome]] = {}
    for _ in range(options.runs):
        for name in options.shape or SHAPES:
            outcome = _measured(name, options)
            found.setdefault(name, []).append(outcome)
            print(_line(name, outcome), flush=True)
    medians = {name: statistics.median(each.rate for each in rows) for name, rows in found.items()}
    alone = medians.get("kube-scheduler alone")
    if alone:
        for name, rate in medians.items():
            print(f"{name:22} x {rate / alone:.2f}")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.extender")
    parser.add_argument("shape", nargs="*", help=f"default: {', '.join(SHAPES)}")
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--pods", type=int, default=1_000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument(
        "--plugin", action="append", default=[],
        help="the extender's plugins; default: all that kube-scheduler has",
    )  # fmt: skip
    parser.add_argument(
        "--percentage", type=int, default=0,
        help="percentageOfNodesToScore of kube-scheduler (0: its own default)",
    )  # fmt: skip
    options = parser.parse_args()
    if unknown := set(options.shape) - set(SHAPES):
        parser.error(f"no such shape: {', '.join(unknown)}")
    return options


def _measured(shape: str, options: argparse.Namespace) -> Outcome:
    """One run on a control plane of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="bench-extender-") as name,
        ControlPlane(flags=FLAGS) as plane,
    ):
        return asyncio.run(_run(shape, options, plane, Path(name)))


async def _run(
    shape: str, options: argparse.Namespace, plane: ControlPlane, folder: Path
) -> Outcome:
    entry = SHAPES[shape]
    await fill(plane, options.nodes, 0)
    client = Client(plane.url, plane.token(ADMIN), plane.tls(), connections=48)
    watching = Watching(client)
    await watching.start()
    running: list[Contender] = []
    try:
        section: dict[str, Any] = {}
        if options.percentage:
            section["percentageOfNodesToScore"] = options.percentage
        if entry is not None:
            (port,) = free_ports(1)
            url = f"http://127.0.0.1:{port}"
            agrees = shape == _AGREES
            answering = contenders.agreeing(folder, port) if agrees else None
            running.append(answering or _extender(plane, folder, port, options.plugin))
            await asyncio.to_thread(_answers, url, running[0])
            section["extenders"] = [{"urlPrefix": url, **entry}]
        binary = plane.programs.path("kube-scheduler")
        asking = contenders.kube_scheduler(binary, plane.kubeconfig, folder, section)
        running.insert(0, asking)
        whole = entry is not None and "nodeCacheCapable" not in entry
        count = max(1, options.pods // 10) if whole else options.pods  # seconds for each hundred
        return await _place(plane, client, watching, running, count)
    finally:
        for each in running:
            each.stop()
        await watching.close()
        await client.close()


async def _place(
    plane: ControlPlane,
    client: Client,
    watching: Watching,
    running: Sequence[Contender],
    count: int,
) -> Outcome:
    """Warms up, then measures ``count`` pods. ``running`` is kube-scheduler, then the extender."""
    await _create(client, watching, "warm", _WARM)
    await watching.bound("warm", _WAIT_SECONDS)
    running[0].pause()
    await _create(client, watching, "measured", count)
    await watching.seen("measured", count, _WAIT_SECONDS)
    before, servers = [each.use() for each in running], _servers(plane)
    watching.collect({"measured"})
    watching.restart()
    running[0].go_on()
    await watching.bound("measured", _WAIT_SECONDS)
    after, servers = [each.use() for each in running], _servers(plane) - servers
    for each in running:
        each.check()
    used = [_between(*each) for each in zip(before, after, strict=True)]
    span = watching.span[1] - watching.span[0]
    each_ms = 1000 / count
    return Outcome(
        count,
        count / span,
        used[0].cpu * each_ms,
        sum(each.cpu for each in used[1:]) * each_ms,
        sum(each.database_cpu for each in used) * each_ms,
        servers * each_ms,
    )


def _servers(plane: ControlPlane) -> float:
    """CPU seconds of the API server and etcd."""
    return sum(contenders.cpu_of(each.pid) for each in (plane.apiserver, plane.etcd))


def _between(before: Use, after: Use) -> Use:
    return Use(after.cpu - before.cpu, after.database_cpu - before.database_cpu, after.memory)


async def _create(client: Client, watching: Watching, namespace: str, count: int) -> None:
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    watching.expect(namespace, count)
    made = (pod(f"p{number:05d}", scheduler=_DEFAULT) for number in range(count))
    await client.create_all((each, namespace) for each in made)


def _extender(plane: ControlPlane, folder: Path, port: int, plugins: Sequence[str]) -> Contender:
    profile: dict[str, Any] = {"schedulerName": _DEFAULT}
    if plugins:
        needed = ("PrioritySort", *plugins, "DefaultBinder")
        chosen = {"enabled": [{"name": each} for each in needed], "disabled": [{"name": "*"}]}
        profile["plugins"] = {"multiPoint": chosen}
    return contenders.extender(plane.kubeconfig, folder, port, profile)


def _answers(url: str, extender: Contender) -> None:
    """Waits until the extender answers: it needs a database and the cluster's objects first.
    Raises RuntimeError if it ends before."""
    pod = {"metadata": {"name": "x", "uid": "x"}, "spec": {"containers": [{"name": "c"}]}}
    body = json.dumps({"Pod": pod, "NodeNames": []}).encode()
    while True:
        extender.check()
        try:
            with urllib.request.urlopen(f"{url}/filter", body, timeout=10) as answer:
                answer.read()
                return
        except HTTPError as refused:
            refused.close()
        except OSError:
            pass  # it does not listen yet
        time.sleep(0.1)


def _line(name: str, outcome: Outcome) -> str:
    return (
        f"{name:22} {outcome.pods:6,} pods {outcome.rate:6,.0f}/s   CPU a pod: kube-scheduler "
        f"{outcome.asking:.2f} ms, extender {outcome.answering:.2f} ms, its database "
        f"{outcome.database:.2f} ms, API server and etcd {outcome.plane:.2f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
