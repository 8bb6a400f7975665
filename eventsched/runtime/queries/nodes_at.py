"""The nodes at a position of a log, without the pods on them.

A state with tens of thousands of pods takes seconds to load, and an answer that needs only nodes
has not so much time. A snapshot begins with the nodes, so its beginning is read; of the records
after it only those about nodes.
"""

import zlib
from collections.abc import Iterator

import msgspec
from sqlalchemy import Connection, text

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Node
from eventsched.domain.records import NodeAdded, NodeDeleted, NodeUpdated
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.stored_batch import decode_records
from eventsched.runtime import gc_tuning
from eventsched.runtime.snapshot_policy import is_readable

MOST_SEARCHED = 100_000
"""Records after the snapshot, at most, that are searched for nodes: it takes about 0.1 s."""
_SLICE = 128 * 1024
"""Bytes of a snapshot that are read at a time: the nodes of a small cluster."""
_SNAPSHOTS = """
SELECT s.seq, s.version FROM eventsched_log.snapshot s
CROSS JOIN LATERAL (
    SELECT hash, first + count AS next FROM eventsched_log.batch
    WHERE stream = s.stream AND first < s.seq ORDER BY first DESC LIMIT 1
) AS before
WHERE s.stream = :s AND s.seq BETWEEN :earliest AND :position
  AND before.next = s.seq AND before.hash = s.hash
ORDER BY s.seq DESC
"""
"""Those of this history, the newest first."""
_PART = """
SELECT substring(body FROM :first FOR :length) FROM eventsched_log.snapshot
WHERE stream = :s AND seq = :position
"""
_ABOUT_NODES = """
SELECT first, body::text AS body FROM eventsched_log.batch
WHERE stream = :s AND first >= :begin AND first < :end AND strpos(body::text, :having) > 0
ORDER BY first
"""
_HAVING = '"kind":"Node'
_BEFORE_PODS = b'],"pods":['
"""What ends the nodes in a snapshot. A text in one of them cannot hold it, as it has quotes."""


class _NodesOfSnapshot(msgspec.Struct):
    """The beginning of ``domain.state.state_snapshot.StateSnapshot``."""

    resources: list[str]
    nodes: list[tuple[str, Node | None]]


class _Beginning(msgspec.Struct):
    engine: _NodesOfSnapshot


_decoder = msgspec.json.Decoder(_Beginning)


def nodes_at(log: StoredLog, reader: Reader | None, position: int) -> NodeTable | None:
    """The nodes before the record at a position, with nothing on them. ``reader`` reads the
    database that the log is in, or continues in; None if there is none. Returns None if more than
    MOST_SEARCHED records would have to be searched. Raises CorruptLogError and UnavailableError."""
    with gc_tuning.paused():
        return _nodes_at(log, reader, position)


def _nodes_at(log: StoredLog, reader: Reader | None, position: int) -> NodeTable | None:
    first, nodes = 0, NodeTable()
    earliest = max(0, position - MOST_SEARCHED)
    if reader is not None:
        first, nodes = _newest_stored(reader, earliest, position) or (first, nodes)
    begins_later = not first and isinstance(log, Reader) and log.begin > 0
    if first < earliest or begins_later:
        return None
    bring_forward(nodes, log, first, position)
    return nodes


def bring_forward(nodes: NodeTable, log: StoredLog, first: int, end: int) -> None:
    """Applies the records about nodes from position ``first`` up to ``end``. Raises
    CorruptLogError, after which ``nodes`` are of no use, and UnavailableError."""
    for stored in _about_nodes(log, first, end):
        try:
            _apply(nodes, stored)
        except (msgspec.MsgspecError, LookupError) as problem:
            raise CorruptLogError(stored.position, f"does not fit: {problem!r}") from problem


def _newest_stored(reader: Reader, earliest: int, position: int) -> tuple[int, NodeTable] | None:
    """The position of the newest snapshot between two positions that can be used, and its nodes;
    None without one."""
    with reader.connection() as connection:
        bounds = {"s": reader.number, "earliest": earliest, "position": position}
        for row in connection.execute(text(_SNAPSHOTS), bounds).all():
            if is_readable(row.version):
                nodes = _read(_parts(connection, reader.number, row.seq))
                if nodes is not None:
                    return row.seq, nodes
    return None


def _parts(connection: Connection, stream: int, position: int) -> Iterator[bytes]:
    """A snapshot's body in parts, as it is stored."""
    first = 1
    while True:
        values = {"s": stream, "position": position, "first": first, "length": _SLICE}
        part = bytes(connection.execute(text(_PART), values).scalar_one())
        yield part
        if len(part) < _SLICE:
            return
        first += _SLICE


def _read(parts: Iterator[bytes]) -> NodeTable | None:
    """The nodes of a snapshot, of which no more is read than is needed; None if it has another
    form."""
    body, inflater, searched = bytearray(), zlib.decompressobj(), 0
    try:
        for number, part in enumerate(parts):
            if not number:
                is_plain = part.startswith(b"{")  # release 0.1 did not compress a leader's
            body += part if is_plain else inflater.decompress(part)
            end = body.find(_BEFORE_PODS, searched)
            if end >= 0:
                return _node_table(_decoder.decode(bytes(body[:end]) + b"]}}"))
            searched = max(0, len(body) - len(_BEFORE_PODS))
    except (zlib.error, msgspec.MsgspecError, LookupError, ValueError):
        pass
    return None


def _node_table(beginning: _Beginning) -> NodeTable:
    """Every node gets the row that it had."""
    nodes = NodeTable()
    nodes.put_back_columns(beginning.engine.resources)
    for name, node in beginning.engine.nodes:
        nodes.put_back(name, node)
    return nodes


def _about_nodes(log: StoredLog, first: int, end: int) -> Iterator[StoredRecord]:
    """The records about nodes from position ``first`` up to ``end``."""
    if isinstance(log, Reader):
        begin = log.batch_with(first)
        for row in log.rows(_ABOUT_NODES, begin=begin, end=end, having=_HAVING):
            for stored in decode_records(row["first"], row["body"], _HAVING.encode()):
                if first <= stored.position < end:
                    yield stored
        return
    for stored in log.read(first):
        if stored.position >= end:
            return
        if _HAVING.encode() in stored.body:
            yield stored


def _apply(nodes: NodeTable, stored: StoredRecord) -> None:
    record = stored.record
    if isinstance(record, NodeAdded):
        nodes.add(record.node, record.row)
    elif isinstance(record, NodeUpdated):
        nodes.update(record.node)
    elif isinstance(record, NodeDeleted):
        nodes.remove(record.name, stored.at)
