"""Takes part in the election of a leader by a Lease: ``lease.Candidate`` with input and output.

Beside its own requests it watches the Lease, so that one that is released, deleted or taken by
another is known at once. Where it may not be watched it is looked at every few seconds.
"""

import asyncio
import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import aclosing, suppress

import msgspec
import structlog

from eventsched.cluster.kube.http.api import (
    Api,
    HttpAnswer,
    UnansweredError,
    WatchRefusedError,
    path,
)
from eventsched.cluster.kube.http.refusals import Refusals, is_absent, is_done, words
from eventsched.cluster.kube.lease.candidate import (
    Lease,
    LeaseCandidate,
    Look,
    Over,
    Timing,
    WaitUntil,
    Write,
)

_WATCH_PAUSE = 1.0
"""Seconds before a watch that has ended begins anew."""

logger = structlog.get_logger()
_lease = msgspec.json.Decoder(Lease).decode


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_event = msgspec.json.Decoder(_Event).decode


def own_identity() -> str:
    """A name for this process that no other has, nor it itself after a restart: host name and a
    UUID, as upstream's (cmd/kube-scheduler/app/options)."""
    return f"{socket.gethostname()}_{uuid.UUID(bytes=os.urandom(16), version=4)}"


def _microseconds() -> int:
    return time.time_ns() // 1000


class LeaseParticipant:
    """One candidate. ``lost`` is set whenever it does not lead; it stays a candidate then, and
    ``won`` may be awaited again. To be used inside one event loop."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing | None = None,
        refusals: Refusals | None = None,
        now: Callable[[], int] = _microseconds,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """``now`` (µs since 1970) is what the Lease shows to people; ``clock`` (s) is what counts.
        ``refusals`` learns what the API server forbids."""
        self.lost = asyncio.Event()
        self.lost.set()
        self._won = asyncio.Event()
        self._timing = timing or Timing()
        self._candidate = LeaseCandidate(identity, self._timing, draw)
        self._api = api
        self._refusals = refusals or Refusals(clock)
        self._namespace, self._name = namespace, name
        self._leases = path("apis", "coordination.k8s.io", "v1", "namespaces", namespace, "leases")
        self._now, self._clock, self._draw = now, clock, draw
        self._changed = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self._stood_by = ""

    @property
    def leader(self) -> str:
        """Who holds the lease, as far as is known; "" for nobody."""
        lease = self._candidate.lease
        return "" if lease is None else lease.holder

    @property
    def reason(self) -> str:
        """Why this one does not lead, for people."""
        if self._candidate.withdrawn:
            return f"this one gives the lease {self._named} back"
        if self.leader == self._candidate.identity:
            return f"the lease {self._named} could not be renewed in time"
        return f"the lease {self._named} is held by {self.leader or 'nobody'}"

    @property
    def leading(self) -> bool:
        """Whether it is this one, right now."""
        return self._candidate.leads(self._clock())

    def start(self, *, stands: bool = True) -> None:
        """Begins to take part; without ``stands`` it only observes the Lease until ``stand``."""
        self._candidate.stands = stands
        self._running = asyncio.create_task(self._run(), name="election")

    def stand(self) -> None:
        """From now on it takes the Lease if that is free. How long its holder has been silent
        counts from when the Lease was first observed."""
        self._candidate.stands = True
        self._changed.set()

    async def won(self) -> None:
        """Waits until this one leads. Raises RuntimeError when it does not take part any more."""
        assert self._running is not None
        waiting = asyncio.ensure_future(self._won.wait())
        try:
            await asyncio.wait((waiting, self._running), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if not self._won.is_set():
            failure = None if self._running.cancelled() else self._running.exception()
            raise RuntimeError("the election is over") from failure

    async def release(self) -> None:
        """Leads no more, gives the lease back so that another can have it at once, and takes part
        no longer. Where the API server does not answer, the lease ends by itself."""
        self._candidate.withdraw()
        self._tell()
        self._changed.set()
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=self._timing.renew_deadline)
        await self.close()

    async def close(self) -> None:
        """Takes part no longer; a lease that is held stays until it is over."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def _run(self) -> None:
        watching = asyncio.create_task(self._watch(), name="election watch")
        try:
            while True:
                self._changed.clear()
                step = self._candidate.step(self._clock())
                self._tell()
                match step:
                    case Over():
                        return
                    case WaitUntil(until=until):
                        await self._wait(until)
                    case Look():
                        await self._look()
                    case Write():
                        await self._write(step)
                self._tell()
        finally:
            self._candidate.withdraw()
            self._tell()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    def _tell(self) -> None:
        """Says so where this one begins or ceases to lead, and whom it stands by for."""
        if self.leading == self._won.is_set():
            self._tell_leader()
            return
        if self.leading:
            self.lost.clear()
            self._won.set()
            logger.info("leading", lease=self._named)
        else:
            self._won.clear()
            self.lost.set()
            say = logger.info if self._candidate.withdrawn else logger.warning
            say("leading no more", lease=self._named, reason=self.reason)

    def _tell_leader(self) -> None:
        if self.leading or self._candidate.withdrawn or self.leader in ("", self._stood_by):
            return
        if self.leader != self._candidate.identity:
            self._stood_by = self.leader
            logger.info("standing by", lease=self._named, leader=self.leader)

    @property
    def _named(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def _wait(self, until: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(until - self._clock()):
                await self._changed.wait()

    # --- requests -------------------------------------------------------------------------

    async def _look(self) -> None:
        answer = await self._call("get", "GET", self._leases + path(self._name))
        if answer is None:
            return
        if is_absent(answer):
            self._candidate.saw(None, self._clock())
        elif not self._shown(answer, self._candidate.saw):
            self._candidate.failed(self._clock())

    async def _write(self, write: Write) -> None:
        asked = self._clock()
        body = write.body(self._namespace, self._name, self._now())
        if write.over is None:
            answer = await self._call("create", "POST", self._leases, body)
        else:
            answer = await self._call("update", "PUT", self._leases + path(self._name), body)
        if answer is None:
            return
        if not self._shown(answer, lambda lease, now: self._candidate.wrote(lease, asked, now)):
            self._candidate.failed(self._clock(), conflict=answer.status in (404, 409))

    def _shown(self, answer: HttpAnswer, tell: Callable[[Lease, float], None]) -> bool:
        """Hands on the lease that an answer holds; whether it holds one."""
        if not is_done(answer):
            return False
        try:
            lease = _lease(answer.body)
            tell(lease, self._clock())
        except (msgspec.DecodeError, KeyError, ValueError) as error:
            logger.error("the lease cannot be read", lease=self._named, error=str(error))
            return False
        return True

    async def _call(
        self, verb: str, method: str, target: str, body: bytes | None = None
    ) -> HttpAnswer | None:
        """An answer of any status; None where there was none in half the time that a holder has
        (client-go resourcelock NewFromKubeconfig), and never after that time is over."""
        now, asked = self._clock(), f"{verb} lease {self._named}"
        timeout = self._timing.renew_deadline / 2
        if self._candidate.leads(now):
            timeout = min(timeout, self._candidate.trusts_until() - now)
        try:
            answer = await self._api.call(method, target, body=body, timeout=timeout, patience=0)
        except UnansweredError as error:
            self._refusals.unanswered(asked, error.reason)
            self._candidate.failed(self._clock())
            return None
        self._refusals.saw(asked, answer)
        return answer

    # --- the watch ------------------------------------------------------------------------

    async def _watch(self) -> None:
        """A watch without a resourceVersion begins with the lease as it is."""
        selector = f"metadata.name={self._name}"
        params = {"watch": "true", "fieldSelector": selector, "allowWatchBookmarks": "true"}
        stall = self._timing.lease_duration
        while True:
            why = "ended"
            try:
                async with aclosing(self._api.lines(self._leases, params, stall=stall)) as lines:
                    async for line in lines:
                        if not self._told(line):
                            break
            except WatchRefusedError as error:
                why = words(error.answer)
                self._refusals.saw(f"watch lease {self._named}", error.answer)
            except UnansweredError as error:
                why = error.reason
            logger.debug("the watch of the lease is over", lease=self._named, why=why)
            self._candidate.unwatched(self._clock())
            self._changed.set()
            await asyncio.sleep(_WATCH_PAUSE * (1 + self._draw()))

    def _told(self, line: bytes) -> bool:
        """Takes in a line of the watch; False where the watch is of no use any more."""
        now = self._clock()
        try:
            event = _event(line)
            if event.type in ("ADDED", "MODIFIED"):
                self._candidate.saw(_lease(event.object), now)
            elif event.type == "DELETED":
                self._candidate.vanished(_lease(event.object).version, now)
            elif event.type != "BOOKMARK":
                return False
        except (msgspec.DecodeError, KeyError, ValueError):
            return False
        self._candidate.watched = True
        self._refusals.accepted(f"watch lease {self._named}")
        self._tell()
        self._changed.set()
        return True
