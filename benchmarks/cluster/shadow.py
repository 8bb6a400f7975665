"""``python -m benchmarks.cluster.shadow``: whether a shadow keeps up with kube-scheduler.

Pods are created as fast as the API server takes them, for kube-scheduler alone, with a shadow
beside it, and alone again. With ``--backlog`` kube-scheduler stands still until all are there, so
that its rate is not that of their creation. The shadow's lag is the time from the moment at which a
watch shows a pod on its node to the commit of the comparison. Its requests are those of the API
server's audit log.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import psycopg

from benchmarks.cluster import contenders
from benchmarks.cluster.client import Client
from benchmarks.cluster.contenders import Contender
from benchmarks.cluster.intake import FLAGS
from benchmarks.cluster.watching import Watching
from eventsched.eventlog import database
from tests.cluster.harness.demos import DEFAULT
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.shadow_user import USER, audit_flags, audited, give_role, kubeconfig

_WARM = 100
"""Pods before the measured ones; once they are compared, the shadow has listed the cluster."""
_PATIENCE = 300.0
_COMPARED = "SELECT count(*) FROM eventsched.shadow_decisions"
_WRITTEN = """
SELECT d.pod, extract(epoch FROM b.written_at)::float8
FROM eventsched.shadow_decisions d JOIN eventsched_log.batch b
ON d.seq >= b.first AND d.seq < b.first + b.count WHERE d.namespace = %s
"""


class Beside(NamedTuple):
    """kube-scheduler's pods a second, and the wall time (s since 1970) at which each was bound."""

    rate: float
    bound: dict[str, float]


def main() -> int:
    """Prints rates, lags and requests."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.shadow")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=3_000, help="of each of the three loads")
    parser.add_argument("--backlog", action="store_true", help="kube-scheduler begins late")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-shadow-") as name:
        folder = Path(name)
        flags = [*FLAGS, *audit_flags(folder, "batch")]
        with ControlPlane(flags=flags, users={USER: ()}) as plane:
            give_role(plane)
            asyncio.run(_run(plane, folder, options))
        verbs = Counter((each["verb"], each["responseStatus"]["code"]) for each in audited(folder))
        print(f"the shadow's requests by verb and status: {dict(verbs)}")
    return 0


async def _run(plane: ControlPlane, folder: Path, options: argparse.Namespace) -> None:
    pods, nodes = options.pods, range(options.nodes)
    client = Client(plane.url, plane.token(ADMIN), plane.tls(), connections=48)
    watching = Watching(client)
    await client.create_all((node(f"n{number:05d}"), "") for number in nodes)
    await watching.start()
    theirs = contenders.kube_scheduler(
        plane.programs.path("kube-scheduler"), plane.kubeconfig, folder
    )
    ours: Contender | None = None
    late = theirs if options.backlog else None
    try:
        await _load(client, watching, "warm", _WARM)
        alone = await _load(client, watching, "alone", pods, late)
        print(f"kube-scheduler alone: {alone.rate:,.0f} pods/s", flush=True)
        ours = contenders.shadow(kubeconfig(plane), folder)
        await asyncio.sleep(20)
        await _load(client, watching, "first", _WARM)
        await _compared(ours, _WARM)
        used, began = ours.use(), time.time()
        beside = await _load(client, watching, "beside", pods, late)
        await _compared(ours, _WARM + pods)
        print(f"kube-scheduler beside the shadow: {beside.rate:,.0f} pods/s")
        _print_lags(ours, beside.bound, began)
        use = ours.use()
        print(
            f"the shadow: {use.cpu - used.cpu:.1f} s of CPU, its database "
            f"{use.database_cpu - used.database_cpu:.1f} s, {use.memory:,.0f} MiB",
            flush=True,
        )
        ours.stop()
        again = await _load(client, watching, "again", pods, late)
        print(f"kube-scheduler alone again: {again.rate:,.0f} pods/s")
    finally:
        for contender in (theirs, ours):
            if contender is not None:
                contender.stop()
        await watching.close()
        await client.close()


async def _load(
    client: Client, watching: Watching, namespace: str, count: int, late: Contender | None = None
) -> Beside:
    """Creates pods of a namespace, and waits until they are bound. A scheduler that is ``late``
    stands still until they are there, and is measured from then on."""
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    watching.collect({namespace})
    watching.restart()
    if late is not None:
        late.pause()
    created = (
        (pod(f"{namespace}-{n:05d}", "10m", scheduler=DEFAULT), namespace) for n in range(count)
    )
    await client.create_all(created)
    if late is not None:
        await watching.seen(namespace, count, _PATIENCE)
        watching.restart()
        late.go_on()
    watching.expect(namespace, count)
    await watching.bound(namespace, _PATIENCE)
    watching.stop()
    since = time.time() - time.monotonic()
    bound = {name: since + seen.bound for name, seen in watching.of(namespace).items()}
    return Beside(count / (watching.span[1] - watching.span[0]), bound)


async def _compared(ours: Contender, count: int) -> None:
    """Waits until the shadow has compared pods. Raises TimeoutError."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        ours.check()
        with database.reader_address(None, Path(ours.data)) as url, psycopg.connect(url) as reading:
            [[number]] = reading.execute(_COMPARED).fetchall()
        if number >= count:
            return
        await asyncio.sleep(0.5)
    raise TimeoutError(f"the shadow has not compared {count} pods")


def _print_lags(ours: Contender, bound: dict[str, float], began: float) -> None:
    with database.reader_address(None, Path(ours.data)) as url, psycopg.connect(url) as reading:
        written: dict[str, float] = dict(reading.execute(_WRITTEN, ["beside"]).fetchall())
    lags = sorted(written[name] - at for name, at in bound.items())
    last = max(written.values())
    print(
        f"the shadow compared {len(written):,} pods at {len(written) / (last - began):,.0f}/s; "
        f"lag p50 {statistics.median(lags):.3f} s, p99 {lags[len(lags) * 99 // 100]:.3f} s, most "
        f"{lags[-1]:.3f} s; the last one {last - max(bound.values()):.3f} s after the last bind"
    )


if __name__ == "__main__":
    sys.exit(main())
