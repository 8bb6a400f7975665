"""Who leads, decided over one Lease object: the rules, without input and output.

Semantics are those of client-go (tools/leaderelection/leaderelection.go), so that a kube-scheduler
could stand on the other side. Clocks of different machines are never compared: a lease is over when
it was not seen to change for its duration on the own clock. A holder trusts its lease from the
moment it *asked* for the last renewal that was granted, for ``renew_deadline``, which is shorter.

    look ─▶ free, over, or ours ─▶ write ─▶ leading ─▶ renew every retry_period ─▶ …
             held by another ─▶ wait until it is over, released or deleted

A write carries the resourceVersion that it was decided on. When it is refused, or its outcome is
not known, the lease is looked at again first. Leading is not enough to change anything: the log's
epoch is the fence.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from eventsched.cluster.kube.calls.request_bodies import micros_text
from eventsched.domain.errors import InputError
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.sections import LeaderElection

_JITTER = 1.2
"""A candidate pauses up to so much longer than retry_period (client-go JitterFactor)."""
_RELEASED_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long a lease counts for others, for its holder, and between two attempts."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @classmethod
    def of(cls, section: LeaderElection) -> Self:
        """Those of a configuration. Raises InputError where the renew deadline leaves no room for a
        retry (client-go NewLeaderElector)."""
        duration, deadline, retry = (
            nanoseconds(each) / 1e9
            for each in (section.lease_duration, section.renew_deadline, section.retry_period)
        )
        if deadline <= retry * _JITTER:
            raise InputError(
                "leaderElection.renewDeadline",
                f"{section.renew_deadline} is not above retryPeriod ({section.retry_period}) × 1.2",
                "make the renew deadline longer",
            )
        return cls(duration, deadline, retry)


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a Lease says (coordination.k8s.io/v1 LeaseSpec); times are RFC 3339."""

    holder_identity: str | None = ""
    lease_duration_seconds: int | None = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = 0


class Lease(msgspec.Struct, frozen=True):
    """A Lease as the API server shows it."""

    metadata: dict[str, Any]
    spec: LeaseSpec = LeaseSpec()

    @property
    def version(self) -> int:
        """Its resourceVersion."""
        return int(self.metadata["resourceVersion"])

    @property
    def holder(self) -> str:
        """Who holds it, "" when nobody does."""
        return self.spec.holder_identity or ""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the lease; tell ``saw`` or ``failed``."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write the lease, in place of ``over`` (None: it is created); tell ``wrote`` or ``failed``.
    ``acquired`` None is now."""

    over: Lease | None
    holder: str
    seconds: int
    transitions: int
    acquired: str | None = None

    def body(self, namespace: str, name: str, now: int) -> bytes:
        """The object's JSON at microseconds since 1970. What others wrote into its metadata stays;
        who manages which field is the server's own affair."""
        kept = {} if self.over is None else self.over.metadata
        metadata = {key: value for key, value in kept.items() if key != "managedFields"}
        time = micros_text(now)
        spec = LeaseSpec(self.holder, self.seconds, self.acquired or time, time, self.transitions)
        return msgspec.json.encode(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": metadata or {"name": name, "namespace": namespace},
                "spec": spec,
            }
        )


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Nothing to do before ``until``, unless the lease changes."""

    until: float


@dataclass(frozen=True, slots=True)
class Over:
    """The candidate has withdrawn, and holds nothing."""


Step = Look | Write | WaitUntil | Over


@dataclass
class LeaseCandidate:
    """One that wants to lead. ``now`` is always its own clock, in seconds that only grow; ``draw``
    gives numbers in [0, 1)."""

    identity: str
    timing: Timing
    draw: Callable[[], float]
    lease: Lease | None = field(default=None, init=False)
    """The lease as last seen."""
    watched: bool = field(default=False, init=False)
    """Whether changes of the lease are told as they happen."""
    stands: bool = field(default=True, init=False)
    """Whether it takes the lease if that is free. If not, it only observes: how long a lease has
    not been renewed is then known when it stands."""
    withdrawn: bool = field(default=False, init=False)
    _known: bool = field(default=False, init=False)
    _changed_at: float = field(default=0.0, init=False)
    _upto: int = field(default=0, init=False)
    _until: float = field(default=-math.inf, init=False)
    _next: float = field(default=-math.inf, init=False)
    _failures: int = field(default=0, init=False)
    _has_written: bool = field(default=False, init=False)

    def leads(self, now: float) -> bool:
        """Whether it holds the lease, and may trust that."""
        return now < self._until

    def trusts_until(self) -> float:
        """When leading ends, unless the lease is renewed before."""
        return self._until

    def withdraw(self) -> None:
        """Leads no more, and gives the lease back."""
        self.withdrawn = True
        self._until = self._next = -math.inf

    # --- what to do -----------------------------------------------------------------------

    def step(self, now: float) -> Step:
        """What is to be done now. A ``Look`` or a ``Write`` is asked for once and answered."""
        if self.withdrawn and not self._holds_perhaps():
            return Over()
        if now < self._next:
            return WaitUntil(min(self._next, self._until) if self.leads(now) else self._next)
        if not self._known:
            self._upto = 0  # whatever is told from here on is newer (or another history)
            return Look()
        if self.withdrawn:
            return self._release()
        if not self.stands:
            return WaitUntil(now + self.timing.lease_duration) if self.watched else self._poll(now)
        free_at = self._free_at()
        if self.leads(now) or now >= free_at:
            return self._take()
        if self.watched:
            return WaitUntil(free_at)
        return self._poll(now)

    def _holds_perhaps(self) -> bool:
        if not self._has_written:
            return False
        return not self._known or (self.lease is not None and self.lease.holder == self.identity)

    def _free_at(self) -> float:
        """When the lease may be taken."""
        if self.lease is None or self.lease.holder in ("", self.identity):
            return -math.inf
        return self._changed_at + (self.lease.spec.lease_duration_seconds or 0)

    def _take(self) -> Write:
        """To take the lease, or to keep it."""
        self._has_written = True
        # Rounded up: for others it must not end before its holder stops to trust it.
        seconds = max(1, math.ceil(self.timing.lease_duration))
        if self.lease is None:
            return Write(None, self.identity, seconds, 0)
        spec = self.lease.spec
        transitions = spec.lease_transitions or 0
        if self.lease.holder == self.identity:
            return Write(self.lease, self.identity, seconds, transitions, spec.acquire_time)
        return Write(self.lease, self.identity, seconds, transitions + 1)

    def _release(self) -> Write:
        assert self.lease is not None
        return Write(self.lease, "", _RELEASED_SECONDS, self.lease.spec.lease_transitions or 0)

    def _poll(self, now: float) -> WaitUntil:
        self._known = False
        self._next = now + self._pause()
        if self.stands:
            self._next = min(self._next, max(now, self._free_at()))
        return WaitUntil(self._next)

    def _pause(self) -> float:
        return self.timing.retry_period * (1 + _JITTER * self.draw())

    # --- what came of it ------------------------------------------------------------------

    def saw(self, lease: Lease | None, now: float) -> None:
        """The lease as it is, from a read or a watch; None where there is none."""
        if lease is not None:
            if lease.version < self._upto:
                return
            self._upto = lease.version
        old, self.lease, self._known = self.lease, lease, True
        if (old and old.spec) == (lease and lease.spec):
            return
        self._changed_at = now
        self._failures = 0
        if lease is not None and lease.holder != self.identity:
            self._until = -math.inf
        if not self.leads(now) or lease is None:
            self._next = now

    def vanished(self, version: int, now: float) -> None:
        """The watch says that the lease was deleted at a resourceVersion."""
        if version >= self._upto:
            self._upto = version
            self.saw(None, now)

    def wrote(self, lease: Lease, asked: float, now: float) -> None:
        """The write that was asked for at a time was granted. What a watch has told meanwhile is
        newer."""
        self.saw(lease, now)
        if self.lease is None or self.lease.holder != self.identity or self.withdrawn:
            return
        self._failures = 0
        self._until = asked + self.timing.renew_deadline
        self._next = asked + self.timing.retry_period

    def failed(self, now: float, *, conflict: bool = False) -> None:
        """Nothing was read or written, or that is not known. After a first ``conflict`` (somebody
        else has written) the lease is looked at at once."""
        self._known = False
        self._failures += 1
        if conflict and self._failures == 1:
            self._next = now
        else:
            self._next = now + (self.timing.retry_period if self.leads(now) else self._pause())

    def unwatched(self, now: float) -> None:
        """The watch has ended; what happened since is not known. (A leader's next write shows.)"""
        self.watched = False
        self._known = self._known and self.leads(now)
