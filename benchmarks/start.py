"""``python -m benchmarks.start``: how long a start takes after every replica was killed.

A log of few, heavy records: nodes that change again and again and list 160 kB of images, pods of
some kilobytes that come and go. It is taken in as a replica does (snapshot, then batch after batch
from Postgres) without a snapshot, as with release 0.1, which counted records only (50,000), and
with the snapshots that a leader makes now. One run compares the two.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from eventsched.domain import records
from eventsched.domain.objects import Container, Image, Node, Pod, PodSpec, Resources
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.chain import Head
from eventsched.eventlog.embedded.embedded_server import EmbeddedPostgres
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.tail import Tail
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.eventlog.schema import migrations
from eventsched.runtime.assembly import assemble
from eventsched.runtime.leader.followed_stream import FollowedStream

RESULTS = Path(__file__).parent / "results"
STREAM = "start"
RECORDS = 50_000
"""After this number of records a leader stores its state in any case; after twice as many while
pods wait."""
_AT_ONCE = 64
_LIVE = 1_000
"""Pods that there are at a time."""


def main() -> int:
    """Makes both logs, reads them, and prints seconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=__doc__)
    parser.add_argument("--pods", type=int, default=16_500)
    parser.add_argument("--updates", type=int, default=272)
    options = parser.parse_args()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="evs-start-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        settings = {"fsync": "off", "full_page_writes": "off"}
        with EmbeddedPostgres(Path(folder) / "data", settings=settings).open() as server:
            migrations.upgrade(server.superuser_url)
            written = _written(server.superuser_url, options)
            for name, newest in (("without a snapshot", 0), ("with the newest snapshot", 2**62)):
                found[name] = _read(server.superuser_url, newest)
    found |= written
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "start.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 0


def _followed_stream() -> FollowedStream:
    assembly = assemble()
    return FollowedStream(assembly.engine, STREAM)


def _written(url: str, options: argparse.Namespace) -> dict[str, Any]:
    """Writes the log, and snapshots where a busy leader would make them."""
    followed_stream, snapshots, size, longest = _followed_stream(), 0, 0, 0.0
    with closing(PostgresEventLog(url, STREAM)) as log:
        for stored in _batches(_stimuli(options)):
            log.begin(Batch(stored, {}))
            log.finish()
            size += sum(len(each.body) for each in stored)
            followed_stream.follow(stored, Head(log.head, log.head_hash), b"null")
            if followed_stream.due(followed_stream.head, RECORDS) >= 2:
                began = time.perf_counter()
                snapshot = followed_stream.snapshot()
                longest = max(longest, time.perf_counter() - began)
                log.store_snapshot(snapshot)
                followed_stream.snapshot_begun(snapshot.position)
                followed_stream.snapshot_size = len(snapshot.body)
                snapshots += 1
    return {
        "records": followed_stream.head.next,
        "megabytes": round(size / 1e6), "snapshots": snapshots,
        "longest snapshot, s": round(longest, 2),
    }  # fmt: skip


def _read(url: str, newest: int) -> dict[str, float]:
    """How long taking the log in takes, beginning with a snapshot before a position."""
    followed_stream = _followed_stream()
    with closing(Tail(url, STREAM)) as tail:
        tail.poll(followed_stream.head, 1)  # connected
        began, used = time.perf_counter(), time.process_time()
        snapshot = tail.snapshot(newest)
        if snapshot is not None:
            stream_state = followed_stream.load_snapshot(snapshot)
            assert stream_state is not None
            followed_stream.begin(stream_state)
        loaded = time.perf_counter() - began
        while batches := tail.poll(followed_stream.head, _AT_ONCE):
            for batch in batches:
                head = Head(batch.first + batch.count, batch.hash)
                followed_stream.follow(batch.records, head, batch.mark.encode())
        wall = time.perf_counter() - began
    return {
        "seconds": round(wall, 2), "of it the snapshot": round(loaded, 2),
        "cpu": round(time.process_time() - used, 2),
        "records applied": followed_stream.head.next - (snapshot.position if snapshot else 0),
    }  # fmt: skip


def _batches(stimuli: Iterator[records.Record]) -> Iterator[list[StoredRecord]]:
    found: list[StoredRecord] = []
    for at, record in enumerate(stimuli):
        found.append(StoredRecord.of(LogEntry(at, at, at, record)))
        if len(found) == _AT_ONCE:
            yield found
            found = []
    if found:
        yield found


def _stimuli(options: argparse.Namespace) -> Iterator[records.Record]:
    yield records.StreamStarted(format=1, engine="bench", seed="s")
    capacity: Resources = {"cpu": 64_000, "memory": 1 << 38, "pods": 110}
    for number in range(100):
        yield records.NodeAdded(node=Node(name=f"node-{number}", allocatable=capacity))
    every = max(1, options.pods // max(1, options.updates))
    for number in range(options.pods):
        if number % every == 0 and number // every < options.updates:
            yield records.NodeUpdated(node=_node(number // every, capacity))
        yield records.PodAdded(pod=_pod(number))
        if number >= _LIVE:
            yield records.PodDeleted(uid=_pod(number - _LIVE).uid)


def _node(number: int, capacity: Resources) -> Node:
    """One whose images have changed: about 160 kB."""
    images = tuple(
        Image(names=(f"registry.example.com/team/service-{each}:{number}",), size=100_000_000)
        for each in range(2_100)
    )
    return Node(name=f"node-{number % 100}", allocatable=capacity, images=images)


def _pod(number: int) -> Pod:
    """One of about 3.7 kB, by its labels."""
    labels = {f"example.com/label-{each}": f"value-{each}-{number}" for each in range(88)}
    container = Container(requests={"cpu": 100, "memory": 1 << 27})
    return Pod(
        uid=f"00000000-0000-4000-8000-{number:012d}", name=f"pod-{number}", labels=labels,
        spec=PodSpec(containers=(container,)),
    )  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
