"""Requests of other schedulers, from HTTP to a stimulus and back (docs/extender-server.md).

A request becomes a stimulus. Its answer is sent once the batch that holds it is committed. Only a
leader answers. A bind is answered when its outcome is known and committed.

While the configuration is reloaded, requests are held. One that the term before did not answer
becomes a stimulus of the next term, with a number of its own. That repeats nothing: only a bind has
an effect, and the same bind waits for the same outcome (scheduling/extender_server.py).
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

import msgspec
import numpy as np

from eventsched.cluster.extenders import served_requests
from eventsched.cluster.extenders.served_requests import Answer, ExtenderRequest
from eventsched.cluster.extenders.wire_format import WrongShapeError
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.row_ranges import ranges
from eventsched.domain.records import ExtenderInquired, ExtenderReplied
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.replies import Replies
from eventsched.runtime.live.driver import Driver

_REQUEST = "the request"
START_SECONDS = 60.0
"""Seconds without a term after which requests are no longer held: a scheduler that can do without
an answer (``ignorable``) would lose that time with each of its pods."""
_POLL_PERIOD = 0.02
_MAX_UNKNOWN = 10_000
"""At most this many unknown node names in one request, since they are written to the log."""


class Inquiries:
    """The requests of other schedulers that wait for an answer."""

    def __init__(
        self,
        driver: Callable[[], Driver | None],
        patience: float,
        leader: Callable[[], str] = lambda: "",
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``driver`` gives the driver of the current term, if there is one. ``leader`` gives the
        name of another replica that leads ("" if none is known). A request fails after ``patience``
        (s). ``annotations`` selects the annotations to keep of an unknown pod; None keeps all."""
        self._driver, self._patience, self._leader = driver, patience, leader
        self._waiting_since: float | None = None
        self._is_closed = False
        self._annotations = annotations
        self._numbers = count(1)
        self._open: dict[int, _OpenRequest] = {}
        self._replies, self._names = Replies(), Names()

    async def ask(self, verb: str, body: bytes) -> Answer:
        """Answers a request. Raises InputError for a malformed request, UnavailableError if this
        replica cannot answer now."""
        try:
            request = served_requests.parse_request(verb, body)
        except WrongShapeError as wrong:
            raise InputError(_REQUEST, str(wrong), "send what extender/v1 defines") from None
        deadline = asyncio.get_running_loop().time() + self._patience
        while True:
            driver = await self._leading(deadline)
            state = driver.leader.engine.state
            inquired = self._inquiry(request, state)
            replied = await self._replied(driver, inquired, deadline)
            if replied is not None:
                return served_requests.answer(request, inquired, replied, state.nodes.names)

    def _inquiry(self, request: ExtenderRequest, state: SchedulerState) -> ExtenderInquired:
        """The stimulus for a request. Raises InputError."""
        inquired = inquiry(request, next(self._numbers), state, self._names)
        if self._annotations is None or inquired.sent is None:
            return inquired
        return msgspec.structs.replace(inquired, sent=self._annotations.stripped(inquired.sent))

    async def _replied(
        self, driver: Driver, inquired: ExtenderInquired, deadline: float
    ) -> ExtenderReplied | None:
        """The committed reply to a stimulus; None if the term has ended for a reload before there
        was one. Raises UnavailableError."""
        waiting: asyncio.Future[ExtenderReplied | None] = asyncio.Future()
        self._open[inquired.number] = _OpenRequest(driver, waiting)
        driver.submit(inquired)
        try:
            async with asyncio.timeout_at(deadline):
                return await waiting
        except TimeoutError:
            raise UnavailableError(
                "the answer", f"is not committed after {self._patience:g} s", "ask again"
            ) from None
        finally:
            del self._open[inquired.number]

    async def _leading(self, deadline: float) -> Driver:
        """The driver of a term that leads. Waits for a term that is about to lead, because the
        scheduler that asks treats any code other than 200 as a failure, like a refused connection
        (upstream: pkg/scheduler/extender.go send), and its pod backs off. Raises UnavailableError
        if another replica leads, or if none leads for too long."""
        loop = asyncio.get_running_loop()
        while True:
            driver = self._driver()
            if driver is not None and driver.accepts_stimuli:
                self._waiting_since = None
                return driver
            now = loop.time()
            if self._waiting_since is None:
                self._waiting_since = now
            leader = self._leader()
            is_late = now >= deadline or now - self._waiting_since > START_SECONDS
            if leader or is_late or self._is_closed:
                problem = f"does not lead; {leader} does" if leader else "does not lead yet"
                raise UnavailableError("this replica", problem, "ask the one that does, or later")
            await asyncio.sleep(_POLL_PERIOD)

    def close(self) -> None:
        """Stops holding requests that cannot be answered at once."""
        self._is_closed = True

    def reloaded(self, annotations: KeptAnnotations) -> None:
        """Another configuration is in force, which keeps these annotations. Requests without a
        reply of a term that has ended for it are passed to the next one."""
        self._annotations = annotations
        driver = self._driver()
        for request in self._open.values():
            if request.driver is not driver and not request.reply.done():
                request.reply.set_result(None)

    def records_committed(self, committed: Sequence[LogEntry]) -> None:
        """Takes in committed records, among them the answers."""
        for replied in self._replies.on_records(committed):
            request = self._open.get(replied.number)
            if request is not None and not request.reply.done():
                request.reply.set_result(replied)


class _OpenRequest(NamedTuple):
    """A request that waits for ``reply``, and the driver that has it."""

    driver: Driver
    reply: "asyncio.Future[ExtenderReplied | None]"


class Names:
    """The rows of the nodes in the last request, cached: ``prioritize`` mostly names the same nodes
    that ``filter`` returned."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[str], NodeTable | None, int] = ((), None, -1)
        self._rows: tuple[str, tuple[str, ...]] = ("", ())

    def rows(self, names: Sequence[str], state: SchedulerState) -> tuple[str, tuple[str, ...]]:
        """The rows of these nodes, as ranges, and the names that are not known."""
        nodes, newest = state.nodes, state.nodes.node_journal.end
        last_names, last_nodes, last_newest = self._last
        if last_names is not names or last_nodes is not nodes or last_newest != newest:
            row_of_name = list(map(nodes.rows.get, names))
            rows = sorted({row for row in row_of_name if row is not None})
            unknown: tuple[str, ...] = ()
            if None in row_of_name:
                pairs = zip(names, row_of_name, strict=True)
                unknown = tuple(sorted({name for name, row in pairs if row is None}))
            self._last = names, nodes, newest
            self._rows = ranges(np.array(rows, dtype=np.intp)), unknown
        return self._rows


def inquiry(
    request: ExtenderRequest, number: int, state: SchedulerState, names: Names
) -> ExtenderInquired:
    """The stimulus for a request. Raises InputError if the pod cannot be read, or if the request is
    about another cluster."""
    nodes, unknown = names.rows(request.nodes, state)
    if len(unknown) > _MAX_UNKNOWN:
        problem = f"is about {len(unknown)} nodes that are not known"
        raise InputError(_REQUEST, problem, "ask about the cluster that is watched here")
    more: dict[str, Any] = {}
    if request.pod and request.uid not in state.pods:
        more["sent"] = request.parsed_pod()
    return ExtenderInquired(
        number=number,
        uid=request.uid,
        verb=request.verb,
        nodes=nodes,
        strange=unknown,
        node=request.node,
        candidates=dict(request.candidates),
        **more,
    )
