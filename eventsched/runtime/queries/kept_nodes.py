"""The nodes of a stream, kept between two answers.

A live page asks every two seconds, and to read the nodes of a large cluster takes a tenth of a
second. Only those at the newest position are kept, one table per stream; a later answer applies the
records about nodes since then.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.eventlog.postgres.reader import Reader
from eventsched.runtime.queries.nodes_at import bring_forward, nodes_at

KEPT_SECONDS = 60.0
"""After this time they are read again: a failover may have lost records that they had."""


class KeptNodes:
    """Threads may share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._nodes: NodeTable | None = None
        self._position, self._read_at = 0, 0.0

    @contextmanager
    def at(self, log: Reader, position: int) -> Iterator[NodeTable | None]:
        """The nodes before the record at a position, which must not be changed, and only be used in
        this context; None if ``nodes_at`` has none. Raises what ``nodes_at`` raises."""
        with self._lock:
            is_fresh = time.monotonic() - self._read_at < KEPT_SECONDS
            nodes = self._nodes if is_fresh else None
            is_past = nodes is not None and position < self._position
            if not is_past:
                yield self._brought_to(log, position, nodes)
        if is_past:
            yield nodes_at(log, log, position)

    def _brought_to(self, log: Reader, position: int, nodes: NodeTable | None) -> NodeTable | None:
        self._nodes = None  # if this fails, nothing half done is kept
        if nodes is None:
            nodes, self._read_at = nodes_at(log, log, position), time.monotonic()
        else:
            bring_forward(nodes, log, self._position, position)
        self._nodes, self._position = nodes, position
        return nodes
