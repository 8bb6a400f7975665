"""The nodes at a position, read without the pods: they are those of the state."""

import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import psycopg
import pytest

from eventsched.cli.main import main
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.state import snapshot
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.export_reader import FileLog
from eventsched.runtime.queries import kept_nodes
from eventsched.runtime.queries import nodes_at as module
from eventsched.runtime.queries.kept_nodes import KeptNodes
from eventsched.runtime.queries.nodes_at import nodes_at
from eventsched.runtime.queries.state_at import state_at
from eventsched.runtime.snapshot_policy import label
from tests.databases import Server
from tests.postgres.histories import ODD, TIGHT, odd_and_tight

_KEEP = """
INSERT INTO eventsched_log.snapshot (stream, seq, hash, digest, version, body)
VALUES (%s, %s, %s, '', %s, %s)
"""


@pytest.fixture
def logs(each_server: Server) -> Iterator[str]:
    """A database with two streams, which a test changes."""
    with each_server.fresh(odd_and_tight) as url:
        yield url


def contents(nodes: NodeTable) -> object:
    """What an answer about nodes reads."""
    return nodes.rows, nodes.nodes, nodes.alive[: nodes.size].tolist(), nodes.unschedulable.tolist()


def of_state(reader: Reader, position: int) -> object:
    return contents(state_at(reader, reader, position, reader.head.next).state.nodes)


def boundaries(reader: Reader) -> list[tuple[int, bytes]]:
    """The ends of batches, and their hashes."""
    return [(batch.first + batch.count, batch.hash) for batch in reader.batches()]


def keep(logs: str, reader: Reader, end: tuple[int, bytes], version: str, body: bytes) -> None:
    """Stores a snapshot as a leader does."""
    with psycopg.connect(logs, autocommit=True) as connection:
        position, batch_hash = end
        connection.execute(
            "DELETE FROM eventsched_log.snapshot WHERE stream = %s AND seq = %s",
            (reader.number, position),
        )
        connection.execute(_KEEP, (reader.number, position, batch_hash, version, body))


def body_at(reader: Reader, position: int) -> bytes:
    state = state_at(reader, reader, position, reader.head.next).state
    return b'{"engine":' + snapshot.encode(state) + b',"counters":{}}'


@pytest.mark.parametrize("stream", [ODD, TIGHT])
@pytest.mark.parametrize("size", [64, 128 * 1024])
def test_they_are_those_of_the_state(
    logs: str, stream: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first record on, from a snapshot, and from one that is not compressed."""
    monkeypatch.setattr(module, "_SLICE", size)
    with closing(Reader(logs, stream, keeps_connection=True)) as reader:
        ends = boundaries(reader)
        for number, end in enumerate((ends[len(ends) // 4], ends[len(ends) // 2])):
            body = body_at(reader, end[0])
            keep(logs, reader, end, label(), zlib.compress(body) if number else body)
        last = reader.head.next
        for position in {*range(0, last, 11), *(end for end, _ in ends[:: len(ends) // 8]), last}:
            found = nodes_at(reader, reader, position)
            assert found is not None
            assert contents(found) == of_state(reader, position)


def test_a_snapshot_that_cannot_be_used_is_passed_over(
    logs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Reader(logs, ODD, keeps_connection=True)) as reader:
        ends = boundaries(reader)
        last, expected = reader.head.next, of_state(reader, reader.head.next)
        resources = msgspec.json.encode(NodeTable().columns.names)
        empty = b'{"engine":{"resources":%s,"nodes":[],"pods":[]}}' % resources
        for end, version, body in (
            (ends[-2], label(), b"damaged"),
            (ends[-3], label(), zlib.compress(empty)[:-20]),
            (ends[-4], label(), empty.replace(b"pods", b"pads")),
            (ends[-8], label(), empty.replace(resources, b"[]")),
            (ends[-5], "999/9.9", empty),
            ((ends[-6][0], bytes(32)), label(), empty),
            ((ends[-7][0] - 1, ends[-7][1]), label(), empty),
        ):
            keep(logs, reader, end, version, body)
        found = nodes_at(reader, reader, last)
        assert found is not None
        assert contents(found) == expected
        keep(logs, reader, ends[-1], label(), empty)  # and one that can be used is believed
        found = nodes_at(reader, reader, last)
        assert found is not None
        assert found.live == 0


def test_they_are_unknown_if_too_many_records_follow(
    logs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "log.jsonl"
    assert main(["log", "export", str(file), "--database", logs, "--stream", ODD]) == 0
    with closing(Reader(logs, ODD, keeps_connection=True)) as reader:
        first, batch_hash = boundaries(reader)[5]
        keep(logs, reader, (first, batch_hash), label(), body_at(reader, first))
        monkeypatch.setattr(module, "MOST_SEARCHED", 20)
        of_file = nodes_at(FileLog(file), None, 20)
        assert of_file is not None
        assert contents(of_file) == of_state(reader, 20)
        assert nodes_at(FileLog(file), None, 21) is None
        found = nodes_at(reader, reader, first + 20)
        assert found is not None
        assert contents(found) == of_state(reader, first + 20)
        assert nodes_at(reader, reader, first + 21) is None


def test_kept_nodes_are_brought_forward(logs: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each position has the nodes that the state has there, and only the first is read whole."""
    kept, read = KeptNodes(), []

    def counted(log: Reader, reader: Reader, position: int) -> NodeTable | None:
        read.append(position)
        return nodes_at(log, reader, position)

    monkeypatch.setattr(kept_nodes, "nodes_at", counted)
    with closing(Reader(logs, ODD)) as reader:
        ends = [position for position, _ in boundaries(reader)]
        for position in [*ends, ends[-1]]:
            with kept.at(reader, position) as nodes:
                assert nodes is not None
                assert contents(nodes) == of_state(reader, position)
        assert read == ends[:1]
        for position in (ends[0], ends[-1]):  # the past is not kept
            with kept.at(reader, position) as nodes:
                assert nodes is not None
                assert contents(nodes) == of_state(reader, position)
        assert read == [ends[0], ends[0]]
        monkeypatch.setattr(kept_nodes, "KEPT_SECONDS", 0.0)
        with kept.at(reader, ends[-1]) as nodes:
            assert nodes is not None
        assert read == [ends[0], ends[0], ends[-1]]
