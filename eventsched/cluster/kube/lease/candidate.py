"""The rules of leader election by a Lease object, without I/O.

They are those of client-go (tools/leaderelection/leaderelection.go), so another candidate could be
a kube-scheduler. Clocks of different machines are never compared. A candidate takes a lease over
once it has seen no change of it for the lease's duration, by its own clock. A holder stops leading
earlier: ``renew_deadline`` after it *requested* the last renewal that succeeded.

    read ─▶ free, expired, or ours ─▶ write ─▶ leading ─▶ renew every retry_period ─▶ …
             held by another ─▶ wait until it expires, is released or is deleted

A write contains the resourceVersion of the lease that it replaces. If it is refused, or its outcome
is unknown, the next step reads the lease. Leading alone does not permit writes to the log: its
epoch fences out earlier leaders.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from eventsched.cluster.kube.calls.request_bodies import micros_text
from eventsched.domain.errors import InputError
from eventsched.domain.units import nanoseconds
from eventsched.scheduling.config.sections import LeaderElection

_JITTER = 1.2
"""A pause is retry_period plus at random up to this multiple of it (client-go JitterFactor)."""
_RELEASED_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long the other candidates leave a lease to its holder, how long the holder leads
    without renewing it, and the interval between two attempts."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    @classmethod
    def of(cls, section: LeaderElection) -> Self:
        """The timing of a configuration. Raises InputError if the renew deadline is too short for a
        retry (client-go NewLeaderElector)."""
        duration, deadline, retry = (
            nanoseconds(text) / 1e9
            for text in (section.lease_duration, section.renew_deadline, section.retry_period)
        )
        if deadline <= retry * _JITTER:
            raise InputError(
                "leaderElection.renewDeadline",
                f"{section.renew_deadline} is not above retryPeriod ({section.retry_period}) × 1.2",
                "make the renew deadline longer",
            )
        return cls(duration, deadline, retry)


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Lease (coordination.k8s.io/v1 LeaseSpec); times are RFC 3339."""

    holder_identity: str | None = ""
    lease_duration_seconds: int | None = 0
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = 0


class Lease(msgspec.Struct, frozen=True):
    """A Lease as returned by the API server."""

    metadata: dict[str, Any]
    spec: LeaseSpec = LeaseSpec()

    @property
    def version(self) -> int:
        """Its resourceVersion."""
        return int(self.metadata["resourceVersion"])

    @property
    def holder(self) -> str:
        """The identity of its holder, or ""."""
        return self.spec.holder_identity or ""


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the lease, then call ``saw`` or ``failed``."""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Replace the lease ``old``, or create one if that is None; then call ``wrote`` or ``failed``.
    ``acquired`` is the acquireTime; None means the time of the write."""

    old: Lease | None
    holder: str
    seconds: int
    transitions: int
    acquired: str | None = None

    def body(
        self, namespace: str, name: str, now: int, annotations: Mapping[str, str] | None = None
    ) -> bytes:
        """The lease's JSON at ``now``, in microseconds since 1970. The metadata stays, except
        managedFields, which the server maintains, and the ``annotations``, which are set."""
        old_metadata = {} if self.old is None else self.old.metadata
        metadata = {key: value for key, value in old_metadata.items() if key != "managedFields"}
        metadata = metadata or {"name": name, "namespace": namespace}
        if annotations:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
        time = micros_text(now)
        spec = LeaseSpec(self.holder, self.seconds, self.acquired or time, time, self.transitions)
        return msgspec.json.encode(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": metadata,
                "spec": spec,
            }
        )


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Wait until the time ``until`` or a change of the lease."""

    until: float


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The candidate has withdrawn and does not hold the lease."""


Step = ReadLease | WriteLease | WaitUntil | Withdrawn


@dataclass
class LeaseCandidate:
    """A candidate for leader. ``now`` is always the time of its own monotonic clock, in seconds.
    ``draw`` gives random numbers in [0, 1)."""

    identity: str
    timing: Timing
    draw: Callable[[], float]
    lease: Lease | None = field(default=None, init=False)
    """The lease as last seen."""
    watched: bool = field(default=False, init=False)
    """Whether a watch reports changes of the lease as they happen."""
    competes: bool = field(default=True, init=False)
    """Whether it takes a free lease. If not, it only observes, and so knows when it begins to
    compete how long ago the lease was renewed."""
    withdrawn: bool = field(default=False, init=False)
    _is_current: bool = field(default=False, init=False)
    """Whether ``lease`` is current, so that a decision may rely on it."""
    _changed_at: float = field(default=0.0, init=False)
    _version: int = field(default=0, init=False)
    """The newest resourceVersion seen since the last read; older ones are ignored."""
    _leads_until: float = field(default=-math.inf, init=False)
    _next_step_at: float = field(default=-math.inf, init=False)
    _failures: int = field(default=0, init=False)
    """Consecutive failed requests."""
    _has_written: bool = field(default=False, init=False)

    def leads(self, now: float) -> bool:
        """Whether it holds the lease and ``renew_deadline`` has not passed."""
        return now < self._leads_until

    def leads_until(self) -> float:
        """The time at which it stops leading unless it renews the lease before."""
        return self._leads_until

    def withdraw(self) -> None:
        """Stops leading. The next steps release the lease."""
        self.withdrawn = True
        self._leads_until = self._next_step_at = -math.inf

    # --- the next step --------------------------------------------------------------------

    def step(self, now: float) -> Step:
        """The next step. After a ``ReadLease`` or ``WriteLease`` the caller must report the result
        before the next call."""
        if self.withdrawn and not self._may_hold():
            return Withdrawn()
        if now < self._next_step_at:
            until = self._next_step_at
            return WaitUntil(min(until, self._leads_until) if self.leads(now) else until)
        if not self._is_current:
            self._version = 0  # a restored API server may have a lower version
            return ReadLease()
        if self.withdrawn:
            return self._release()
        if not self.competes:
            return WaitUntil(now + self.timing.lease_duration) if self.watched else self._poll(now)
        free_at = self._free_at()
        if self.leads(now) or now >= free_at:
            return self._take()
        if self.watched:
            return WaitUntil(free_at)
        return self._poll(now)

    def _may_hold(self) -> bool:
        if not self._has_written:
            return False
        holds = self.lease is not None and self.lease.holder == self.identity
        return not self._is_current or holds

    def _free_at(self) -> float:
        """The time from which it may take the lease."""
        if self.lease is None or self.lease.holder in ("", self.identity):
            return -math.inf
        return self._changed_at + (self.lease.spec.lease_duration_seconds or 0)

    def _take(self) -> WriteLease:
        """The write that acquires or renews the lease."""
        self._has_written = True
        # Rounded up: the holder must stop leading before another candidate may take the lease.
        seconds = max(1, math.ceil(self.timing.lease_duration))
        if self.lease is None:
            return WriteLease(None, self.identity, seconds, 0)
        spec = self.lease.spec
        transitions = spec.lease_transitions or 0
        if self.lease.holder == self.identity:
            return WriteLease(self.lease, self.identity, seconds, transitions, spec.acquire_time)
        return WriteLease(self.lease, self.identity, seconds, transitions + 1)

    def _release(self) -> WriteLease:
        assert self.lease is not None
        return WriteLease(self.lease, "", _RELEASED_SECONDS, self.lease.spec.lease_transitions or 0)

    def _poll(self, now: float) -> WaitUntil:
        """Waits, then reads the lease again."""
        self._is_current = False
        self._next_step_at = now + self._pause()
        if self.competes:
            self._next_step_at = min(self._next_step_at, max(now, self._free_at()))
        return WaitUntil(self._next_step_at)

    def _pause(self) -> float:
        return self.timing.retry_period * (1 + _JITTER * self.draw())

    # --- results --------------------------------------------------------------------------

    def saw(self, lease: Lease | None, now: float) -> None:
        """A read or a watch returned the lease; None if there is none."""
        if lease is not None:
            if lease.version < self._version:
                return
            self._version = lease.version
        old, self.lease, self._is_current = self.lease, lease, True
        if (old and old.spec) == (lease and lease.spec):
            return
        self._changed_at = now
        self._failures = 0
        if lease is not None and lease.holder != self.identity:
            self._leads_until = -math.inf
        if not self.leads(now) or lease is None:
            self._next_step_at = now

    def vanished(self, version: int, now: float) -> None:
        """The watch reported that the lease was deleted at a resourceVersion."""
        if version >= self._version:
            self._version = version
            self.saw(None, now)

    def wrote(self, lease: Lease, requested_at: float, now: float) -> None:
        """A write that was requested at ``requested_at`` succeeded. ``lease`` is ignored if a watch
        has returned a newer one meanwhile."""
        self.saw(lease, now)
        if self.lease is None or self.lease.holder != self.identity or self.withdrawn:
            return
        self._failures = 0
        self._leads_until = requested_at + self.timing.renew_deadline
        self._next_step_at = requested_at + self.timing.retry_period

    def failed(self, now: float, *, conflict: bool = False) -> None:
        """A read or write failed, or its outcome is unknown. After a first ``conflict`` (another
        client has written) the lease is read again at once."""
        self._is_current = False
        self._failures += 1
        if conflict and self._failures == 1:
            self._next_step_at = now
        else:
            pause = self.timing.retry_period if self.leads(now) else self._pause()
            self._next_step_at = now + pause

    def unwatched(self, now: float) -> None:
        """The watch has ended, so the lease may have changed. A leader does not read it again,
        because its next write shows a change."""
        self.watched = False
        self._is_current = self._is_current and self.leads(now)
