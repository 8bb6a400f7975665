"""How long lists and snapshots hold up a leader, and how long storing one holds up an append.

A leader with 5,000 nodes and 60,000 bound pods takes in the lists of its cluster: with an empty
log, with a log that knows everything, and after a gap of the watch of pods. Then it takes in
changes of pods while it makes a snapshot. The longest of its steps is compared with the time that
everything takes, which was one step before. A stored snapshot is sent to Postgres plain, as before,
and compressed. Usage:

    python -m benchmarks.pauses [PODS]
"""

import os
import sys
import tempfile
import time
import zlib
from pathlib import Path

from eventsched.cluster.messages import Listed, Listing, NodeSeen, PodSeen, Relisted
from eventsched.domain.objects import Container, Node, Pod, PodSpec
from eventsched.domain.records import StreamStarted
from eventsched.domain.units import SECOND
from eventsched.eventlog.chain import Term
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.port import StoredSnapshot
from eventsched.eventlog.postgres.session import Session
from eventsched.eventlog.schema import migrations
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import assemble
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import (
    Acquired,
    Append,
    Committed,
    Message,
    StoreSnapshot,
    Tick,
)
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.driver import RECONCILING_SECONDS

NODES = 5_000
NOW = 1_700_000_000 * SECOND
ROUNDS = 5


class Measured:
    """A leader of which each step is timed, as a driver makes it. Seconds: ``longest`` is the
    longest step, ``most_cpu`` the most CPU time of one, and ``sum`` the time of all."""

    def __init__(self, snapshot_every: int, snapshot: StoredSnapshot | None = None) -> None:
        """``snapshot`` is what the log knows; None for an empty log."""
        self._followed_stream = FollowedStream(assemble().engine, "pauses")
        if snapshot is not None:
            stream_state = self._followed_stream.load_snapshot(snapshot)
            assert stream_state is not None
            self._followed_stream.begin(stream_state)
        opening = StreamStarted(format=1, engine="0", seed="s")
        limits = Limits(snapshot_every=snapshot_every)
        self.leader = Leader(self._followed_stream, opening, limits)
        self.leader.start()
        self.stored: list[StoredSnapshot] = []
        self.begin()
        self.head = head = self._followed_stream.head
        self.send(Acquired(Term("pauses", 1, bytes(16)), head, head, (), "t"))

    def begin(self) -> None:
        """Measures from now on."""
        self.longest = self.most_cpu = self.sum = 0.0
        self.steps = 0
        self.stored.clear()

    def send(self, message: Message) -> None:
        """Passes a message, and commits the batches that follow."""
        messages = [message]
        while messages or self.leader.reconciling:
            began, cpu_began = time.perf_counter(), time.thread_time()
            requests = self.leader.step(
                [messages.pop()] if messages else (),
                NOW,
                is_time_up=lambda: time.perf_counter() - began > RECONCILING_SECONDS,  # noqa: B023
            )
            took = time.perf_counter() - began
            self.longest, self.sum = max(self.longest, took), self.sum + took
            self.most_cpu = max(self.most_cpu, time.thread_time() - cpu_began)
            self.steps += 1
            for append in requests:
                if isinstance(append, Append):
                    self.head = append.batch.head
                    messages.append(Committed())
            self.stored += [each.snapshot for each in requests if isinstance(each, StoreSnapshot)]

    def printed(self, name: str, message: Message) -> None:
        """Passes lists, and prints how long that takes."""
        gc_tuning.freeze()  # as a replica does once it has the lists
        self.begin()
        self.send(message)
        print(
            f"{name:18}  {self.sum * 1000:9.0f}  {self.longest * 1000:12.0f}"
            f"  {self.most_cpu * 1000:13.0f}  {self.steps:5}"
        )

    @property
    def snapshot(self) -> StoredSnapshot:
        """A snapshot of the present state."""
        return self._followed_stream.stream_state.snapshot(self.head, ()).finish()

    def whole(self) -> float:
        """Seconds that a whole snapshot takes."""
        began = time.perf_counter()
        assert self.snapshot
        return time.perf_counter() - began


def leading(pods: int) -> Measured:
    """Prints how long the steps of a leader are that takes in lists of a cluster with bound pods.
    Returns it; it makes a snapshot every 10,000 records."""
    print(f"{NODES} nodes, {pods} pods; milliseconds")
    print("lists               all steps  longest step  most CPU time  steps")
    nodes = [NodeSeen(made_node(number), 10 + number) for number in range(NODES)]
    bound = [PodSeen(_pod(number), 10 + NODES + number) for number in range(pods)]
    listed = Listed([Listing("Pod", 9**9, bound), Listing("Node", 9**9, nodes)])
    first = Measured(snapshot_every=10**9)
    first.printed("an empty log", listed)
    measured = Measured(10_000, first.snapshot)
    measured.printed("a log that knows", listed)
    measured.printed("a gap of a watch", Relisted(Listing("Pod", 9**9 + 1, bound), 9**9))
    return measured


def made_node(number: int) -> Node:
    """A node of 32 cpu."""
    labels = {"kubernetes.io/hostname": f"node-{number}", "zone": f"z{number % 3}"}
    allocatable = {"cpu": 32_000, "memory": 64 << 30, "pods": 110}
    return Node(name=f"node-{number}", labels=labels, allocatable=allocatable)


def _pod(number: int, version: int = 0) -> Pod:
    requests = {"cpu": 100, "memory": 256 << 20}
    return Pod(
        uid=f"{number:08x}-aaaa-bbbb-cccc-{number:012x}",
        name=f"web-{number}",
        namespace=f"ns{number % 50}",
        labels={"app": f"a{number % 150}", "version": f"{version}"},
        node_name=f"node-{number % NODES}",
        spec=PodSpec(containers=(Container(requests=requests),)),
    )


def steps(pods: int) -> StoredSnapshot:
    """Prints how long the steps of a leader are, without and with a snapshot."""
    measured = leading(pods)
    gc_tuning.freeze()
    print("round  whole snapshot  longest step  most CPU time  steps meanwhile")
    for number in range(ROUNDS):
        whole = measured.whole()
        measured.begin()
        version = 10**9 + number * 10**8
        while not measured.stored:
            version += 1
            measured.send(PodSeen(_pod(version % pods, version), version))
            measured.send(Tick())
        print(
            f"{number + 1:5}  {whole * 1000:14.0f}  {measured.longest * 1000:12.0f}"
            f"  {measured.most_cpu * 1000:13.0f}  {measured.steps:15}"
        )
    return measured.stored[-1]


def stores(snapshot: StoredSnapshot) -> None:
    """Prints how long an append waits while a snapshot is sent over its connection."""
    compressed = snapshot._replace(body=zlib.compress(snapshot.body, 1))
    with tempfile.TemporaryDirectory(prefix="evs-pauses-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        with EmbeddedPostgres(Path(folder) / "data").open() as server:
            migrations.upgrade(server.superuser_url)
            session = Session(server.superuser_url)
            term, *_ = session.acquire("pauses", "benchmark")
            for name, made in (("plain", snapshot), ("compressed", compressed)) * ROUNDS:
                began = time.perf_counter()
                session.store_snapshot(term, made)
                took = time.perf_counter() - began
                print(f"{name:10}  {len(made.body) / 1e6:5.1f} MB  {took * 1000:5.0f} ms")
            session.close()


if __name__ == "__main__":
    stores(steps(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000))
