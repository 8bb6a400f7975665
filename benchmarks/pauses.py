"""How long a snapshot holds up a leader, and how long storing it holds up an append.

A leader with 5,000 nodes and 60,000 bound pods takes in changes of pods while it makes a snapshot.
The longest of its steps is compared with the time that the whole snapshot takes, which was one step
before. A stored snapshot is sent to Postgres plain, as before, and compressed. Usage:

    python -m benchmarks.pauses [PODS]
"""

import os
import sys
import tempfile
import time
import zlib
from pathlib import Path

from eventsched.cluster.messages import Listed, Listing, NodeSeen, PodSeen
from eventsched.domain.objects import Container, Node, Pod, PodSpec
from eventsched.domain.records import StreamStarted
from eventsched.domain.units import SECOND
from eventsched.eventlog import chain
from eventsched.eventlog.chain import Head, Term
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

NODES = 5_000
NOW = 1_700_000_000 * SECOND
ROUNDS = 5


class Measured:
    """A leader of which each step is timed. ``longest`` (s) is the longest step."""

    def __init__(self, snapshot_every: int) -> None:
        self._followed_stream = FollowedStream(assemble().engine, "pauses")
        opening = StreamStarted(format=1, engine="0", seed="s")
        limits = Limits(snapshot_every=snapshot_every)
        self.leader = Leader(self._followed_stream, opening, limits)
        self.leader.start()
        self.longest = 0.0
        self.steps = 0
        self.stored: list[StoredSnapshot] = []

    def send(self, message: Message) -> None:
        """Passes a message, and commits the batches that follow."""
        messages = [message]
        while messages:
            began = time.perf_counter()
            requests = self.leader.handle(messages.pop(), NOW)
            self.longest = max(self.longest, time.perf_counter() - began)
            self.steps += 1
            messages += [Committed() for each in requests if isinstance(each, Append)]
            self.stored += [each.snapshot for each in requests if isinstance(each, StoreSnapshot)]

    def whole(self) -> float:
        """Seconds that a whole snapshot takes."""
        began = time.perf_counter()
        stream_state = self._followed_stream.stream_state
        stream_state.snapshot(stream_state.head, ()).finish()
        return time.perf_counter() - began


def leading(pods: int) -> Measured:
    """A leader of a cluster with bound pods, which makes a snapshot at the next record."""
    measured = Measured(snapshot_every=5_000 + pods)
    head = Head(0, chain.genesis("pauses"))
    term = Term("pauses", 1, bytes(16))
    measured.send(Acquired(term, head, head, (), "t"))
    nodes = [NodeSeen(_node(number), 10 + number) for number in range(NODES)]
    bound = [PodSeen(_pod(number), 10 + NODES + number) for number in range(pods)]
    measured.send(Listed([Listing("Pod", 9**9, bound), Listing("Node", 9**9, nodes)]))
    return measured


def _node(number: int) -> Node:
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
    print(f"{NODES} nodes, {pods} pods; milliseconds")
    print("round  whole snapshot  longest step  steps meanwhile")
    for number in range(ROUNDS):
        whole, measured.longest, measured.steps = measured.whole(), 0.0, 0
        measured.stored.clear()
        version = 10**9 + number * 10**8
        while not measured.stored:
            version += 1
            measured.send(PodSeen(_pod(version % pods, version), version))
            measured.send(Tick())
        print(
            f"{number + 1:5}  {whole * 1000:14.0f}  {measured.longest * 1000:12.0f}"
            f"  {measured.steps:15}"
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
            term, _, _ = session.acquire("pauses", "benchmark")
            for name, made in (("plain", snapshot), ("compressed", compressed)) * ROUNDS:
                began = time.perf_counter()
                session.store_snapshot(term, made)
                took = time.perf_counter() - began
                print(f"{name:10}  {len(made.body) / 1e6:5.1f} MB  {took * 1000:5.0f} ms")
            session.close()


if __name__ == "__main__":
    stores(steps(int(sys.argv[1]) if len(sys.argv) > 1 else 60_000))
