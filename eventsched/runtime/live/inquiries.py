"""What other schedulers ask us over HTTP becomes a stimulus, and leaves as an answer when the
batch is committed that says it (docs/extender-server.md).

Only a leader answers. A bind is answered when its outcome is known and committed.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import msgspec
import numpy as np

from eventsched.cluster.extenders import requests
from eventsched.cluster.extenders.requests import Answer, Asked
from eventsched.cluster.extenders.wire import WrongShapeError
from eventsched.domain import records
from eventsched.domain.consultations import ranges
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.domain.inquiries import ExtenderInquired, ExtenderReplied
from eventsched.domain.state import SchedulerState
from eventsched.runtime.live.driver import Driver
from eventsched.scheduling.ledger import Logged

_ASKED = "the request"


class Inquiries:
    """The inquiries that wait for an answer."""

    def __init__(self, driver: Callable[[], Driver | None], patience: float) -> None:
        """``driver`` gives that of the term there is; an answer that takes longer than ``patience``
        (s) is none."""
        self._driver, self._patience = driver, patience
        self._numbers = count(1)
        self._open: dict[int, asyncio.Future[ExtenderReplied]] = {}
        self._binds: dict[str, list[ExtenderReplied]] = {}
        """By uid: replies to binds that are under way."""

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
        inquired = inquiry(asked, next(self._numbers), state)
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
        for each in committed:
            match each.record:
                case ExtenderReplied() as replied:
                    if replied.waits:
                        self._binds.setdefault(replied.uid, []).append(replied)
                    else:
                        self._settle(replied)
                case records.PodBound(uid=uid, node=node) if uid in self._binds:
                    self._ended(uid, node)
                case records.PodUpdated(pod=pod) if pod.uid in self._binds and pod.node_name:
                    self._ended(pod.uid, pod.node_name)
                case records.PodUnreserved(uid=uid, message=message) if uid in self._binds:
                    self._ended(uid, "", message or "the bind was given up")
                case records.PodDeleted(uid=uid) if uid in self._binds:
                    self._ended(uid, "", "the pod is gone")
                case records.TermBegan():
                    self._binds.clear()

    def _ended(self, uid: str, node: str, problem: str = "") -> None:
        for replied in self._binds.pop(uid):
            said = problem or ("" if node == replied.node else f"the pod is on {node}")
            self._settle(msgspec.structs.replace(replied, problem=said))

    def _settle(self, replied: ExtenderReplied) -> None:
        waiting = self._open.get(replied.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(replied)


def inquiry(asked: Asked, number: int, state: SchedulerState) -> ExtenderInquired:
    """The stimulus that a request is. Raises InputError for a pod that cannot be read."""
    rows, strange = [], []
    for name in asked.nodes:
        row = state.nodes.rows.get(name)
        if row is None:
            strange.append(name)
        else:
            rows.append(row)
    more: dict[str, Any] = {}
    if asked.pod and asked.uid not in state.pods:
        more["sent"] = asked.sent()
    return ExtenderInquired(
        number=number,
        uid=asked.uid,
        verb=asked.verb,
        nodes=ranges(np.unique(np.array(rows, dtype=np.intp))),
        strange=tuple(sorted(set(strange))),
        node=asked.node,
        candidates=dict(asked.candidates),
        **more,
    )
