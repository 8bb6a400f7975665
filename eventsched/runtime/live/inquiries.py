"""What other schedulers ask us over HTTP becomes a stimulus, and leaves as an answer when the
batch is committed that says it (docs/extender-server.md).

Only a leader answers. A bind is answered when its outcome is known and committed.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np

from eventsched.cluster.extenders import requests
from eventsched.cluster.extenders.requests import Answer, Asked
from eventsched.cluster.extenders.wire import WrongShapeError
from eventsched.domain.columns import NodeTable
from eventsched.domain.consultations import ranges
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.domain.inquiries import ExtenderInquired, ExtenderReplied
from eventsched.domain.state import SchedulerState
from eventsched.runtime.live.driver import Driver
from eventsched.runtime.replies import Replies
from eventsched.scheduling.ledger import Logged

_ASKED = "the request"
_MOST_STRANGE = 10_000
"""Names of nodes that are not known (yet): they stand in the log."""


class Inquiries:
    """The inquiries that wait for an answer."""

    def __init__(self, driver: Callable[[], Driver | None], patience: float) -> None:
        """``driver`` gives that of the term there is; an answer that takes longer than ``patience``
        (s) is none."""
        self._driver, self._patience = driver, patience
        self._numbers = count(1)
        self._open: dict[int, asyncio.Future[ExtenderReplied]] = {}
        self._replies, self._names = Replies(), Names()

    async def ask(self, verb: str, body: bytes) -> Answer:
        """Answers a request. Raises InputError for one that cannot be understood, UnavailableError
        where nobody here can answer now."""
        try:
            asked = requests.asked(verb, body)
        except WrongShapeError as wrong:
            raise InputError(_ASKED, str(wrong), "send what extender/v1 defines") from None
        driver = self._driver()
        if driver is None or not driver.leads:
            raise UnavailableError(
                "this replica", "does not lead", "ask the one that does, or ask again"
            )
        state = driver.leader.engine.state
        inquired = inquiry(asked, next(self._numbers), state, self._names)
        waiting = asyncio.get_running_loop().create_future()
        self._open[inquired.number] = waiting
        driver.tell(inquired)
        try:
            async with asyncio.timeout(self._patience):
                replied: ExtenderReplied = await waiting
        except TimeoutError:
            raise UnavailableError(
                "the answer", f"is not committed after {self._patience:g} s", "ask again"
            ) from None
        finally:
            del self._open[inquired.number]
        return requests.answer(asked, inquired, replied, state.nodes.names)

    def observe(self, committed: Sequence[Logged]) -> None:
        """Takes in committed records, among them the answers."""
        for replied in self._replies.observe(committed):
            waiting = self._open.get(replied.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(replied)


class Names:
    """Where the nodes stand that were asked about last: ``prioritize`` is mostly asked about those
    that ``filter`` has left."""

    def __init__(self) -> None:
        self._last: tuple[Sequence[str], NodeTable | None, int] = ((), None, -1)
        self._found: tuple[str, tuple[str, ...]] = ("", ())

    def rows(self, names: Sequence[str], state: SchedulerState) -> tuple[str, tuple[str, ...]]:
        """Their rows, as ranges, and the names that are not known."""
        nodes, newest = state.nodes, state.nodes.node_journal.end
        last_names, last_nodes, last_newest = self._last
        if last_names is not names or last_nodes is not nodes or last_newest != newest:
            found = list(map(nodes.rows.get, names))
            rows = sorted({row for row in found if row is not None})
            strange: tuple[str, ...] = ()
            if None in found:
                unknown = (name for name, row in zip(names, found, strict=True) if row is None)
                strange = tuple(sorted(set(unknown)))
            self._last = names, nodes, newest
            self._found = ranges(np.array(rows, dtype=np.intp)), strange
        return self._found


def inquiry(asked: Asked, number: int, state: SchedulerState, names: Names) -> ExtenderInquired:
    """The stimulus that a request is. Raises InputError for a pod that cannot be read, and where
    the question is about another cluster."""
    nodes, strange = names.rows(asked.nodes, state)
    if len(strange) > _MOST_STRANGE:
        problem = f"is about {len(strange)} nodes that are not known"
        raise InputError(_ASKED, problem, "ask about the cluster that is watched here")
    more: dict[str, Any] = {}
    if asked.pod and asked.uid not in state.pods:
        more["sent"] = asked.sent()
    return ExtenderInquired(
        number=number,
        uid=asked.uid,
        verb=asked.verb,
        nodes=nodes,
        strange=strange,
        node=asked.node,
        candidates=dict(asked.candidates),
        **more,
    )
