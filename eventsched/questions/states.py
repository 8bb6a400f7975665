"""States of the past and of now: which are kept, and the answers about one.

A state is folded from the newest stored one before it, or from a copy of one that is kept and near.
A few folded ones are kept, each with a lock of its own, so that questions about one do not wait for
another that is being folded. What takes long is done on a copy. The newest state of a stream goes
on with the log.
"""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock, RLock
from typing import Any

import numpy as np

from eventsched.domain.errors import InputError
from eventsched.domain.nodes.node_table import REQUESTED
from eventsched.domain.records import Queue
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.named_pods import find_pod_state
from eventsched.history.past_state.state_document import (
    node_document,
    pod_document,
    pods_in_order,
    resources_document,
    row_of,
    state_document,
)
from eventsched.output.state_output import with_times
from eventsched.questions.answer_shapes import NodesFilled, ResourceTotal
from eventsched.questions.past.open_log import OpenLog
from eventsched.questions.past.past_pods import PastPods, past_pods
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import HIDDEN, Visibility
from eventsched.runtime import gc_tuning
from eventsched.runtime.queries.state_at import FoldedState, applied, state_at

MOST_KEPT = 4
"""Folded states that are kept, of all streams together."""
_MOST_APPLIED = 20_000
"""Records after the newest state that are applied to it; for more it is folded again."""
_NEAR = 12_000
"""Records after a state that is kept, at most, for a copy of it to be folded on. A copy takes the
time of 1,000 records, and a snapshot of 6,000 pods that of 10,000 (docs/benchmarks.md)."""


@dataclass
class _Kept:
    """A folded state, the pods in it as rows, and the lock of the thread that uses them; a thread
    may use it twice."""

    lock: RLock = field(default_factory=RLock)
    folded: FoldedState | None = None
    past: PastPods | None = None


class FoldedStates:
    """The folded states that are kept. Threads share it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, int | None], _Kept] = OrderedDict()
        self._filled: dict[str, NodesFilled] = {}

    @contextmanager
    def at(self, stream: LoggedStream, at: str | None, where: str = "at") -> Iterator[FoldedState]:
        """The state at a position or time, at the log's end without one. It may be read in the
        block. Errors name ``where``. Raises InputError and CorruptLogError."""
        with self._entered(stream, at, where) as (kept, position):
            yield self._state(kept, stream, position, where)

    def past(self, stream: LoggedStream, at: str) -> PastPods:
        """The pods at a position or time, and how full the nodes were. Raises InputError,
        CorruptLogError and UnavailableError."""
        with self._entered(stream, at, "at") as (kept, position):
            if kept.past is None:
                folded = self._state(kept, stream, position, "at")
                kept.past = past_pods(stream, folded, nodes_filled(folded))
            return kept.past

    def own(self, stream: LoggedStream, at: str) -> FoldedState:
        """The state at a position or time, for the caller alone, who may change it. Raises
        InputError and CorruptLogError."""
        with self.at(stream, at) as folded:
            return _duplicated(folded)

    def before_step(self, stream: LoggedStream, at: str | None) -> FoldedState:
        """The same, for what decides on a state: a position within a step means its beginning."""
        log = OpenLog(stream.log, stream.log)
        if at is not None:
            position = log.position(at, "at")
            if position < log.end:
                position = min(position, next(stream.log.read(position)).cause)
            at = str(position)
        with self.at(stream, at) as folded:
            return _duplicated(folded)

    @contextmanager
    def _entered(
        self, stream: LoggedStream, at: str | None, where: str
    ) -> Iterator[tuple[_Kept, int | None]]:
        """What is kept of a position or time, and the position. The block has its lock."""
        log = OpenLog(stream.log, stream.log)
        position = None if at is None else log.position(at, where)
        assert log.end  # raises for an empty log
        kept = self._entry((stream.name, position))
        with kept.lock:
            yield kept, position

    def _state(
        self, kept: _Kept, stream: LoggedStream, position: int | None, where: str
    ) -> FoldedState:
        """The state of a position, which is kept from now on; at the log's end without one."""
        if position is None:
            before, kept.folded = kept.folded, None
            kept.folded = self._newest(stream, before)
        elif kept.folded is None:
            near = self._near(stream, position)
            kept.folded = (
                _folded(stream, position, where)
                if near is None
                else _applied(stream, near, position)
            )
        return kept.folded

    def filled(self, stream: LoggedStream) -> NodesFilled | None:
        """How full the nodes were in the newest state that was asked for; None if none was yet.
        Does not wait for a state that is being folded."""
        return self._filled.get(stream.name)

    def fill(self, stream: LoggedStream) -> NodesFilled:
        """How full the nodes are at the log's end."""
        with self.at(stream, None) as folded:
            known = self._filled.get(stream.name)
            if known is None or known.position != folded.position:
                known = nodes_filled(folded)
                with self._lock:
                    self._filled.pop(stream.name, None)
                    self._filled[stream.name] = known
                    while len(self._filled) > MOST_KEPT:
                        del self._filled[next(iter(self._filled))]
            return known

    def _entry(self, key: tuple[str, int | None]) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                # Not the newest of this stream: a user who moves through the past would have it
                # folded again each time.
                stays = (key, (key[0], None))
                self._kept.pop(next(each for each in self._kept if each not in stays))
            return kept

    def _newest(self, stream: LoggedStream, before: FoldedState | None) -> FoldedState:
        """The state at the log's end, made from an older one if there is one."""
        end = stream.log.head.next
        if before is None or not 0 <= end - before.position <= _MOST_APPLIED:
            return _folded(stream, end)
        if before.position < stream.log.begin:  # the records after it were dropped since
            return _folded(stream, end)
        return _applied(stream, before, end)

    def _near(self, stream: LoggedStream, position: int) -> FoldedState | None:
        """A copy of the nearest state before a position that is kept and that no other thread uses;
        None if none is near, if the log has no such position, or if the records between were
        dropped since."""
        with self._lock:
            near = [
                (of, kept)
                for (name, of), kept in self._kept.items()
                if name == stream.name and of is not None and 0 < position - of <= _NEAR
            ]
        if not near or position > stream.log.head.next:
            return None
        begin = stream.log.begin
        near = [each for each in near if each[0] >= begin]
        for _, kept in sorted(near, key=lambda each: -each[0]):
            if kept.lock.acquire(blocking=False):
                try:
                    if kept.folded is not None:
                        return _duplicated(kept.folded)
                finally:
                    kept.lock.release()
        return None


def _duplicated(folded: FoldedState) -> FoldedState:
    with gc_tuning.paused():
        return folded._replace(state=snapshot.duplicated(folded.state))


def _applied(stream: LoggedStream, before: FoldedState, end: int) -> FoldedState:
    """A state after the records up to position ``end``; ``before`` is used up. Raises
    CorruptLogError."""
    with gc_tuning.paused(), stream.log.one_connection():
        return applied(stream.log, before, end)


def _folded(stream: LoggedStream, position: int, where: str = "at") -> FoldedState:
    try:
        with stream.log.one_connection():
            return state_at(stream.log, stream.log, position, stream.log.head.next)
    except InputError as problem:
        where = where if problem.where == "--at" else problem.where
        raise InputError(where, problem.problem, problem.remedy) from None


def nodes_filled(folded: FoldedState) -> NodesFilled:
    """How full each node of a state is."""
    table = folded.state.nodes
    nodes = [node for node in table.nodes if node is not None]
    rows = np.flatnonzero(table.alive[: table.size])
    filled: dict[str, list[float | None]] = {}
    totals = resources_document(folded.state)
    for name, index in table.resource_index.items():
        if totals[name]["allocatable"]:
            requested = table.books[rows, REQUESTED, index].tolist()
            offered = [node.allocatable.get(name, 0) for node in nodes]
            parts = zip(requested, offered, strict=True)
            filled[name] = [round(part / whole, 4) if whole else None for part, whole in parts]
    return NodesFilled(
        position=folded.position,
        names=[node.name for node in nodes],
        filled=filled,
        totals={name: ResourceTotal(**totals[name]) for name in filled},
    )


_EVERY_QUEUE = "all"
PARTS = ("summary", "nodes", "pods")


@dataclass(frozen=True)
class StateQuestion:
    """What of a state is asked for: one node or pod, the pods of a queue (``all``: of each), or
    else a ``part`` (PARTS). Lists are given from number ``offset`` on, ``limit`` at most."""

    node: str | None = None
    pod: str | None = None
    queue: str | None = None
    part: str = "summary"
    offset: int = 0
    limit: int = 100


def state_answer(
    stream: LoggedStream, sees: Visibility, folded: FoldedState, asked: StateQuestion
) -> dict[str, Any]:
    """A state, or a part of it, as ``eventsched state -o json`` prints it. Raises InputError, also
    NotVisibleError."""
    state = folded.state
    place = {"stream": stream.name, "position": folded.position, "now": state.now}
    if asked.pod is not None:
        return _timed(place | {"pod": _pod(state, sees, asked.pod)})
    sees.require_whole("state")
    if asked.node is not None:
        row = _row(folded, asked.node)
        on_node = [pod_document(state, state.pods[uid]) for uid in state.nodes.residents[row]]
        return _timed(place | {"node": node_document(state, row), "pods": on_node})
    if asked.queue is not None:
        waiting = sorted(
            (each for each in state.pods.values() if each.queue is not None),
            key=lambda each: (str(each.queue), each.order),
        )
        queued = [each for each in waiting if asked.queue in (_EVERY_QUEUE, str(each.queue))]
        page, more = _page(queued, asked)
        documents = [pod_document(state, each) for each in page]
        return _timed(place | {"pods": documents, "next": more})
    if asked.part == "nodes":
        rows = [row for row in range(state.nodes.size) if state.nodes.alive[row]]
        page, more = _page(rows, asked)
        return _timed(place | {"nodes": [node_document(state, row) for row in page], "next": more})
    if asked.part == "pods":
        page, more = _page(pods_in_order(state), asked)
        return _timed(place | {"pods": [pod_document(state, each) for each in page], "next": more})
    return _timed({"stream": stream.name, **state_document(state, whole=False)})


def _pod(state: SchedulerState, sees: Visibility, word: str) -> dict[str, Any]:
    """The pod that a word means, among those that may be seen."""
    namespace, slash, _ = word.rpartition("/")
    if slash:
        sees.require(namespace, "pod")
    visible = {uid: each for uid, each in state.pods.items() if sees.sees(each.pod.namespace)}
    document = pod_document(state, find_pod_state(visible, word, "pod"))
    preemptor = document.get("evicted_for")
    if preemptor and not sees.sees(preemptor.partition("/")[0]):
        document["evicted_for"] = HIDDEN
    return document


def _row(folded: FoldedState, node: str) -> int:
    try:
        return row_of(folded.state, node)
    except InputError as problem:
        raise InputError("node", f"{node} {problem.problem}", problem.remedy) from None


def _page(items: list[Any], asked: StateQuestion) -> tuple[list[Any], int | None]:
    end = asked.offset + asked.limit
    return items[asked.offset : end], end if end < len(items) else None


def _timed(document: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = with_times(document)
    return answer


QUEUES = (*map(str, Queue), _EVERY_QUEUE)
