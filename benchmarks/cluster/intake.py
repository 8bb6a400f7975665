"""``python -m benchmarks.cluster.intake``: how fast the state of a cluster, and its news, come in.

A store of ours against a real API server: first the lists of everything, then the watch events of
changes that were made while no client was connected, so that the server gives them as fast as they
are taken.
"""

import argparse
import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from benchmarks.cluster.client import Client, collection
from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.watch.cluster_store import ClusterStore
from eventsched.cluster.messages import Listed, WatchEvent
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ADMIN, ControlPlane

FLAGS = ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority",)
"""No controllers run that would take a new node's taint off, or give accounts their tokens."""


class Cost(NamedTuple):
    """Seconds on the clock, and of our CPU."""

    wall: float
    cpu: float


def main() -> int:
    """Prints seconds, and events a second."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.intake")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--events", type=int, default=10_000)
    options = parser.parse_args()
    with ControlPlane(flags=FLAGS) as plane:
        asyncio.run(fill(plane, options.nodes, options.pods))
        listed, watched = asyncio.run(_take_in(plane, options.events))
    print(
        f"first list of {options.nodes:,} nodes and {options.pods:,} pods: {listed.wall:.2f} s "
        f"({listed.cpu:.2f} s of CPU)"
    )
    print(
        f"{options.events:,} watch events: {options.events / watched.wall:,.0f}/s "
        f"({watched.cpu / options.events * 1e6:.0f} us of CPU each)"
    )
    return 0


async def fill(plane: ControlPlane, nodes: int, pods: int) -> None:
    """Nodes, and pods that are bound to them."""
    client = Client(plane.url, plane.token(ADMIN), plane.tls(), connections=48)
    try:
        await client.create_all(_nodes(nodes))
        await client.create_all(_bound_pods(pods, nodes))
    finally:
        await client.close()


async def _take_in(plane: ControlPlane, events: int) -> tuple[Cost, Cost]:
    api = await connect(plane.kubeconfig, environ={})
    told: list[WatchEvent | Listed] = []
    store = ClusterStore(api, lambda *_, **__: None)
    try:
        began = _now()
        await store.start()
        await store.list_cluster(told.append)
        listed = _since(began)
        before = len(told)
        _while_nobody_reads(lambda: asyncio.run(_change(plane, events)))
        began = _now()
        while len(told) - before < events:
            await asyncio.sleep(0.01)
        return listed, _since(began)
    finally:
        await store.close()
        await api.close()


def _while_nobody_reads(work: Any) -> None:
    """Does something in another thread; the event loop of this one stands still meanwhile."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


async def _change(plane: ControlPlane, events: int) -> None:
    """Changes a label of ``events`` pods."""
    client = Client(plane.url, plane.token(ADMIN), plane.tls(), connections=48)
    changed = {"metadata": {"labels": {"changed": "yes"}}}
    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(events):
                path = f"{collection('Pod', 'default')}/p{number:05d}"
                tasks.create_task(client.patch_when_free(path, changed))
    finally:
        await client.close()


def _now() -> Cost:
    return Cost(time.perf_counter(), time.process_time())


def _since(began: Cost) -> Cost:
    now = _now()
    return Cost(now.wall - began.wall, now.cpu - began.cpu)


def _nodes(count: int) -> Iterator[tuple[Any, str]]:
    for number in range(count):
        yield node(f"n{number:05d}"), ""


def _bound_pods(count: int, nodes: int) -> Iterator[tuple[Any, str]]:
    for number in range(count):
        made = pod(f"p{number:05d}")
        made["spec"]["nodeName"] = f"n{number % nodes:05d}"
        yield made, "default"


if __name__ == "__main__":
    sys.exit(main())
