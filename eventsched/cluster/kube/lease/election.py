"""Takes part in leader election by a Lease: carries out the steps of a ``LeaseCandidate``.

The Lease is also watched, so that a release, a deletion or a new holder is known at once. If it
cannot be watched, it is read every few seconds.
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
    ApiClient,
    HttpAnswer,
    UnansweredError,
    WatchRefusedError,
    path,
)
from eventsched.cluster.kube.http.refusals import Refusals, is_absent, is_done, words
from eventsched.cluster.kube.lease.candidate import (
    Lease,
    LeaseCandidate,
    ReadLease,
    Timing,
    WaitUntil,
    Withdrawn,
    WriteLease,
)

_WATCH_PAUSE = 1.0
"""Seconds before a watch that has ended is opened again."""

logger = structlog.get_logger()
_lease = msgspec.json.Decoder(Lease).decode


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_event = msgspec.json.Decoder(_Event).decode


def own_identity() -> str:
    """A unique name for this process: the host name and a random UUID, as in upstream
    (cmd/kube-scheduler/app/options). A restarted process has another one."""
    return f"{socket.gethostname()}_{uuid.UUID(bytes=os.urandom(16), version=4)}"


def _microseconds() -> int:
    return time.time_ns() // 1000


class LeaseParticipant:
    """One candidate for a Lease. The event ``lost`` is set while it does not lead. A candidate that
    has lost keeps taking part, and ``won`` may be awaited again. For use within one event loop."""

    def __init__(
        self,
        api: ApiClient,
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
        """``now`` (µs since 1970) gives the times in the Lease, which are informative; the rules
        use ``clock`` (monotonic s). ``refusals`` records what the API server forbids."""
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
        self._logged_leader = ""
        self._annotations: dict[str, str] = {}
        """Those that the next write of the Lease sets."""

    @property
    def leader(self) -> str:
        """The holder of the lease as last seen; "" for none."""
        lease = self._candidate.lease
        return "" if lease is None else lease.holder

    @property
    def reason(self) -> str:
        """Why this replica does not lead, for people."""
        if self._candidate.withdrawn:
            return f"this replica is releasing the lease {self._lease_name}"
        if self.leader == self._candidate.identity:
            return f"the lease {self._lease_name} could not be renewed in time"
        return f"the lease {self._lease_name} is held by {self.leader or 'nobody'}"

    @property
    def leading(self) -> bool:
        """Whether this replica leads at this moment."""
        return self._candidate.leads(self._clock())

    def start(self, *, competes: bool = True) -> None:
        """Starts. Without ``competes`` it only observes the Lease until ``compete`` is called."""
        self._candidate.competes = competes
        self._running = asyncio.create_task(self._run(), name="election")

    def compete(self) -> None:
        """From now on takes the Lease once it is free. The time for which it has only observed the
        Lease counts: a Lease that was not renewed during it may be taken at once."""
        self._candidate.competes = True
        self._changed.set()

    def annotate(self, key: str, value: str) -> None:
        """Sets an annotation of the Lease with its next renewal. Does nothing if this replica does
        not lead then."""
        if self.leading:
            self._annotations[key] = value

    async def won(self) -> None:
        """Waits until this replica leads. Raises RuntimeError if it no longer takes part."""
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
        """Stops leading and taking part, and releases the lease so that another replica can take it
        at once. If the API server does not answer, the lease expires."""
        self._candidate.withdraw()
        self._update_leading()
        self._changed.set()
        if self._running is not None:
            await asyncio.wait((self._running,), timeout=self._timing.renew_deadline)
        await self.close()

    async def close(self) -> None:
        """Stops taking part. A lease that it holds is not released, but expires."""
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
                self._update_leading()
                match step:
                    case Withdrawn():
                        return
                    case WaitUntil(until=until):
                        await self._wait(until)
                    case ReadLease():
                        await self._read()
                    case WriteLease():
                        await self._write(step)
                self._update_leading()
        finally:
            self._candidate.withdraw()
            self._update_leading()
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    def _update_leading(self) -> None:
        """Updates ``won`` and ``lost``, and logs a change of the leader."""
        if self.leading == self._won.is_set():
            self._log_leader()
            return
        if self.leading:
            self.lost.clear()
            self._won.set()
            logger.info("leading", lease=self._lease_name)
        else:
            self._won.clear()
            self.lost.set()
            self._annotations.clear()
            log = logger.info if self._candidate.withdrawn else logger.warning
            log("no longer leading", lease=self._lease_name, reason=self.reason)

    def _log_leader(self) -> None:
        if self.leading or self._candidate.withdrawn or self.leader in ("", self._logged_leader):
            return
        if self.leader != self._candidate.identity:
            self._logged_leader = self.leader
            logger.info("standing by", lease=self._lease_name, leader=self.leader)

    @property
    def _lease_name(self) -> str:
        return f"{self._namespace}/{self._name}"

    async def _wait(self, until: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(until - self._clock()):
                await self._changed.wait()

    # --- requests -------------------------------------------------------------------------

    async def _read(self) -> None:
        answer = await self._call("get", "GET", self._leases + path(self._name))
        if answer is None:
            return
        if is_absent(answer):
            self._candidate.saw(None, self._clock())
        elif not self._pass_lease(answer, self._candidate.saw):
            self._candidate.failed(self._clock())

    async def _write(self, write: WriteLease) -> None:
        requested_at = self._clock()
        annotations = dict(self._annotations)
        body = write.body(self._namespace, self._name, self._now(), annotations)
        if write.old is None:
            answer = await self._call("create", "POST", self._leases, body)
        else:
            answer = await self._call("update", "PUT", self._leases + path(self._name), body)
        if answer is None:
            return

        def wrote(lease: Lease, now: float) -> None:
            self._candidate.wrote(lease, requested_at, now)
            for key, value in annotations.items():
                if self._annotations.get(key) == value:
                    del self._annotations[key]

        if not self._pass_lease(answer, wrote):
            self._candidate.failed(self._clock(), conflict=answer.status in (404, 409))

    def _pass_lease(self, answer: HttpAnswer, receive: Callable[[Lease, float], None]) -> bool:
        """Passes the lease in an answer to ``receive``. Returns False if the answer has none."""
        if not is_done(answer):
            return False
        try:
            lease = _lease(answer.body)
            receive(lease, self._clock())
        except (msgspec.DecodeError, KeyError, ValueError) as error:
            logger.error("the lease cannot be read", lease=self._lease_name, error=str(error))
            return False
        return True

    async def _call(
        self, verb: str, method: str, target: str, body: bytes | None = None
    ) -> HttpAnswer | None:
        """An answer of any status; None if none came in time. The timeout is half of
        ``renew_deadline`` (client-go resourcelock NewFromKubeconfig), and for a leader at most the
        time that it still leads."""
        now, request = self._clock(), f"{verb} lease {self._lease_name}"
        timeout = self._timing.renew_deadline / 2
        if self._candidate.leads(now):
            timeout = min(timeout, self._candidate.leads_until() - now)
        try:
            answer = await self._api.call(method, target, body=body, timeout=timeout, patience=0)
        except UnansweredError as error:
            self._refusals.unanswered(request, error.reason)
            self._candidate.failed(self._clock())
            return None
        self._refusals.saw(request, answer)
        return answer

    # --- the watch ------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Watches the lease until cancelled. Without a resourceVersion, a watch first sends the
        current state."""
        selector = f"metadata.name={self._name}"
        params = {"watch": "true", "fieldSelector": selector, "allowWatchBookmarks": "true"}
        stall = self._timing.lease_duration
        while True:
            why = "ended"
            try:
                async with aclosing(self._api.lines(self._leases, params, stall=stall)) as lines:
                    async for line in lines:
                        if not self._take_line(line):
                            break
            except WatchRefusedError as error:
                why = words(error.answer)
                self._refusals.saw(f"watch lease {self._lease_name}", error.answer)
            except UnansweredError as error:
                why = error.reason
            logger.debug("the watch of the lease is over", lease=self._lease_name, why=why)
            self._candidate.unwatched(self._clock())
            self._changed.set()
            await asyncio.sleep(_WATCH_PAUSE * (1 + self._draw()))

    def _take_line(self, line: bytes) -> bool:
        """Applies a line of the watch. Returns False if the watch must be opened again."""
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
        self._refusals.accepted(f"watch lease {self._lease_name}")
        self._update_leading()
        self._changed.set()
        return True
