"""What the snapshots of a live leader cost: CPU, its longest turn, WAL and disk.

A leader with its driver, its connection and an embedded Postgres; the cluster is in memory, so the
cost of an API server's client is missing. A number of bound pods are listed first. Then pods arrive
at a rate, and as many end. Makes a run with each of the distances (``snapshot.records``) in turn,
each on a stream of its own, and measures it from two seconds after the lists on. Usage:

    python -m benchmarks.live_snapshots PODS RATE SECONDS DISTANCE...
"""

import asyncio
import os
import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import msgspec
import psycopg

from benchmarks.pauses import NODES, made_node
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    ClusterAnswer,
    Listed,
    Listing,
    NodeSeen,
    PodGone,
    PodSeen,
    Reported,
)
from eventsched.domain.objects import Container, Pod, PodSpec
from eventsched.domain.records import StreamStarted
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.chain import Head, Term
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.schema import migrations
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import assemble
from eventsched.runtime.leader.followed_stream import FollowedStream, StreamState
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import Message, Request
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.leader.snapshot_encoder import SnapshotEncoder
from eventsched.runtime.live import database_client
from eventsched.runtime.live.database_client import DatabaseClient
from eventsched.runtime.live.driver import Driver
from eventsched.runtime.live.ports import Subscriber
from eventsched.runtime.live.worker import Worker

_STEP = 0.01
"""Seconds between two groups of arrivals."""
_SPECS = [
    PodSpec(containers=(Container(requests={"cpu": 50 + number, "memory": 64 << 20}),))
    for number in range(150)
]


class Costs:
    """What a run costs from ``begin`` on. ``loop`` and ``compression`` are CPU seconds for
    snapshots, ``server`` those of the connection's Postgres process for storing them, and ``wal``
    the bytes written meanwhile; ``sizes`` and ``sent`` are their bytes before and after
    compression, ``waits`` the seconds that appends can wait for each of them."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Measures from now on."""
        self.loop = self.compression = self.server = 0.0
        self.wal = 0
        self.sizes: list[int] = []
        self.sent: list[int] = []
        self.waits: list[float] = []
        self.turns: list[tuple[float, float]] = []
        """Wall time and CPU time (s) of each turn."""


class SteadyCluster:
    """The driver's cluster: bound pods, and pods that arrive and end at a rate."""

    def __init__(self, pods: int) -> None:
        """``pods`` are there at a time."""
        self.pods: deque[Pod] = deque(
            _pod(number, f"node-{number % NODES}") for number in range(pods)
        )
        self.arrived = pods
        self.waiting: dict[str, tuple[Pod, float]] = {}
        """Pods without a node, and when they arrived."""
        self.latencies: list[float] = []
        """Seconds from a pod's arrival to the request for its bind."""
        self._version = 1
        self._subscriber: Subscriber | None = None

    async def listed(self) -> None:
        """Returns at once."""

    async def list_cluster(self, subscriber: Subscriber) -> str:
        """See the port."""
        self._subscriber = subscriber
        nodes = [NodeSeen(made_node(number), self._next()) for number in range(NODES)]
        bound = [PodSeen(pod, self._next()) for pod in self.pods]
        listings = [Listing("Pod", self._version, bound), Listing("Node", self._version, nodes)]
        subscriber(Listed(listings))
        return ""

    def unsubscribe(self) -> None:
        """See the port."""
        self._subscriber = None

    async def carry_out(self, request: Any) -> ClusterAnswer:
        """See the port."""
        if not isinstance(request, BindPod):
            return Reported(request)
        pod, arrived = self.waiting.pop(request.uid)
        self.latencies.append(time.perf_counter() - arrived)
        bound = msgspec.structs.replace(pod, node_name=request.node)
        self.pods.append(bound)
        self._show(bound)
        return Bound(request)

    async def churn(self, rate: int, seconds: float) -> None:
        """Pods arrive and end, at ``rate`` a second each. None arrive while too many wait."""
        began, count = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds:
            while count < elapsed * rate and len(self.waiting) < rate:
                count += 1
                self._arrive()
            await asyncio.sleep(_STEP)

    def _arrive(self) -> None:
        assert self._subscriber is not None
        pod = _pod(self.arrived)
        self.arrived += 1
        self.waiting[pod.uid] = pod, time.perf_counter()
        self._show(pod)
        ended = self.pods.popleft()
        self._subscriber(PodGone(ended.uid, self._next()))

    def _show(self, pod: Pod) -> None:
        assert self._subscriber is not None
        self._subscriber(PodSeen(pod, self._next()))

    def _next(self) -> int:
        self._version += 1
        return self._version


def _pod(number: int, node: str = "") -> Pod:
    return Pod(
        uid=f"{number:08x}-aaaa-bbbb-cccc-{number:012x}",
        name=f"web-{number}",
        namespace=f"ns{number % 50}",
        labels={"app": f"a{number % 150}"},
        node_name=node,
        spec=_SPECS[number % len(_SPECS)],
    )


class TimedDriver(Driver):
    """Notes the time of each turn."""

    costs: Costs

    def _step(self, messages: list[Message], now: int) -> list[Request]:
        began, cpu_began = time.perf_counter(), time.thread_time()
        requests = super()._step(messages, now)
        self.costs.turns.append((time.perf_counter() - began, time.thread_time() - cpu_began))
        return requests


class SilentObserver:
    """A TermObserver that ignores everything."""

    def records_followed(self, logged: Sequence[LogEntry]) -> None:
        """Ignores them."""

    def records_committed(self, logged: Sequence[LogEntry], now: int) -> None:
        """Ignores them."""

    def batch_committed(self, seconds: float, records: int, size: int) -> None:
        """Ignores it."""

    def fenced(self) -> None:
        """Ignores it."""

    def log_applied(self, seconds: float) -> None:
        """Ignores it."""

    def took_over(self, seconds: float) -> None:
        """Ignores it."""


@contextmanager
def _measured(costs: Costs, probe: "psycopg.Connection[Any]") -> Iterator[None]:
    """Adds up what snapshots cost. ``probe`` asks for the WAL."""
    begin, advance, store = StreamState.snapshot, SnapshotEncoder.advance, Session.store_snapshot

    def timed(function: Callable[..., Any], *arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return function(*arguments)
        finally:
            costs.loop += time.thread_time() - began

    def compressed(body: bytes, level: int) -> bytes:
        began = time.thread_time()
        packed = zlib.compress(body, level)
        costs.compression += time.thread_time() - began
        costs.sizes.append(len(body))
        costs.sent.append(len(packed))
        return packed

    def stored(session: Session, term: Term, snapshot: StoredSnapshot) -> None:
        connection = session._require_connection()._connection
        process = connection.info.backend_pid
        cpu, wal, began = _cpu(process), _wal(probe), time.perf_counter()
        store(session, term, snapshot)
        costs.waits.append(time.perf_counter() - began)
        costs.server += _cpu(process) - cpu
        costs.wal += _wal(probe) - wal

    with (
        patch.object(StreamState, "snapshot", lambda *given: timed(begin, *given)),
        patch.object(SnapshotEncoder, "advance", lambda *given: timed(advance, *given)),
        patch.object(Session, "store_snapshot", stored),
        patch.object(database_client, "zlib", SimpleNamespace(compress=compressed)),
    ):
        yield


def _cpu(process: int) -> float:
    """CPU seconds of a process."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


def _wal(probe: "psycopg.Connection[Any]") -> int:
    """Bytes of WAL so far."""
    row = probe.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


async def _run(address: str, pods: int, rate: int, seconds: float, distance: int) -> str:
    """One run; returns a row of the table."""
    stream, costs, cluster = f"live-{distance}-{time.time_ns()}", Costs(), SteadyCluster(pods)
    followed_stream = FollowedStream(assemble().engine, stream)
    opening = StreamStarted(format=1, engine="0", seed="s")
    leader = Leader(followed_stream, opening, Limits(snapshot_every=distance, linger=10_000))

    async def nothing_to_apply(_: Head) -> float:
        return 0.0

    session, writer = Session(address), Worker("stream writer")
    database = DatabaseClient(
        session, writer, SilentObserver(), stream=stream, holder="benchmark",
        catch_up=nothing_to_apply, allows=lambda _: True,
    )  # fmt: skip
    driver = TimedDriver(leader, cluster, database, lambda: time.time_ns() // 1000)
    driver.costs = costs
    with closing(psycopg.connect(address, autocommit=True)) as probe, _measured(costs, probe):
        running = asyncio.create_task(driver.run())
        while not leader.all_committed:
            await asyncio.sleep(_STEP)
        gc_tuning.freeze()
        await cluster.churn(rate, 2.0)  # the first pods fill caches
        head, wal, cpu = leader.engine.position, _wal(probe), time.process_time()
        process = session._require_connection()._connection.info.backend_pid
        server_cpu = _cpu(process)
        cluster.latencies.clear()
        costs.begin()
        await cluster.churn(rate, seconds)
        spent, server_cpu = time.process_time() - cpu, _cpu(process) - server_cpu
        records, wal = leader.engine.position - head, _wal(probe) - wal
        row = _row(costs, cluster, records, wal, spent, server_cpu, distance)
        driver.end()
        await running
    writer.stop(session.close)
    return f"{row} {_start(address, stream)}"


def _start(address: str, stream: str) -> str:
    """What a start costs now: CPU to load the newest snapshot, and to read and apply a record."""
    followed_stream = FollowedStream(assemble().engine, stream)
    with closing(Tail(address, stream)) as tail:
        snapshot = tail.snapshot()
        assert snapshot is not None
        began = time.process_time()
        stream_state = followed_stream.load_snapshot(snapshot)
        assert stream_state is not None
        followed_stream.begin(stream_state)
        loaded = time.process_time()
        while batches := tail.poll(followed_stream.head):
            for batch in batches:
                head = Head(batch.first + batch.count, batch.hash)
                followed_stream.follow(batch.records, head, batch.mark.encode())
        applied = time.process_time()
    records = followed_stream.head.next - snapshot.position
    each = (applied - loaded) / max(records, 1)
    return f"{(loaded - began) * 1e3:6.0f} {records:6} {each * 1e6:6.1f}"


def _row(
    costs: Costs, cluster: SteadyCluster, records: int, wal: int, spent: float, server: float,
    distance: int,
) -> str:  # fmt: skip
    count, bound = len(costs.waits), len(cluster.latencies)
    each = max(count, 1)
    snapshots = costs.loop + costs.compression
    late = sorted(cluster.latencies)
    return (
        f"{distance:8} {bound:6} {records:8} {count:4}"
        f" {spent / bound * 1e6:8.0f} {100 * snapshots / spent:6.1f}"
        f" {server / bound * 1e6:8.0f} {100 * costs.server / server:6.1f}"
        f" {costs.loop / each * 1e3:8.0f} {costs.compression / each * 1e3:8.0f}"
        f" {costs.server / each * 1e3:8.0f} {sum(costs.sizes) / each / 1e6:6.2f}"
        f" {sum(costs.sent) / each / 1e6:6.2f} {costs.wal / each / 1e6:6.2f}"
        f" {wal / records:6.0f} {costs.wal / records:6.0f}"
        f" {max(wall for wall, _ in costs.turns) * 1e3:6.0f}"
        f" {max(cpu for _, cpu in costs.turns) * 1e3:6.0f}"
        f" {max(costs.waits, default=0) * 1e3:6.0f}"
        f" {median(late) * 1e3:6.1f} {late[int(len(late) * 0.99)] * 1e3:6.1f} {late[-1] * 1e3:6.0f}"
    )


def main() -> None:
    """Prints a row for each run."""
    pods, rate, seconds, *distances = map(int, sys.argv[1:])
    print(f"{NODES} nodes, {pods} pods, {rate} a second for {seconds} s")
    print(
        "distance   pods  records snap  µs/pod snap %  srv µs srv %  loop ms  zlib ms   srv ms"
        "     MB packed WAL MB WAL/r snap/r turn CPU  wait   p50   p99   max load ms  after µs"
    )
    with tempfile.TemporaryDirectory(prefix="evs-live-snapshots-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        with EmbeddedPostgres(Path(folder) / "data").open(writer=True) as server:
            migrations.upgrade(server.superuser_url)
            for distance in distances:
                print(
                    asyncio.run(_run(server.superuser_url, pods, rate, seconds, distance)),
                    flush=True,
                )


if __name__ == "__main__":
    main()
