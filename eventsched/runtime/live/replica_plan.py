"""What a replica is to run: the same in all its terms, until a reload brings another plan."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace

import msgspec

from eventsched.domain import behaviours
from eventsched.domain.records import StreamStarted
from eventsched.eventlog.address_file import Address
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.checkpoint_signing import Checkpointer
from eventsched.runtime.live.driver import Driver
from eventsched.runtime.live.log_housekeeping import Retention
from eventsched.scheduling.engine import Engine

END_GRACE_SECONDS = 5.0
"""Seconds that requests under way may take after ``end``."""
DATABASE_PATIENCE_SECONDS = 45.0
"""Seconds that a leader waits for its database before it gives the lease back."""
STAND_DOWN_SECONDS = 15.0
"""Seconds for which it does not run for leader afterwards: as long as a Lease lasts."""


@dataclass(frozen=True)
class ReplicaPlan:
    """What all terms of a replica have in common. ``opening`` names the configuration and plugins
    in force; ``holder`` is the replica's name."""

    make_engine: Callable[[], Engine]
    opening: StreamStarted
    address: Address
    stream: str
    holder: str
    limits: Limits = field(default_factory=Limits)
    retention: Retention = field(default_factory=Retention)
    grace: float = END_GRACE_SECONDS
    database_patience: float = DATABASE_PATIENCE_SECONDS
    stand_down: float = STAND_DOWN_SECONDS
    checkpointer: Checkpointer | None = None
    sample: Callable[[Driver], Awaitable[None]] | None = None
    """Feeds a term's driver the samples that plugins want, until cancelled."""
    engine_as_of: Callable[[Collection[int]], Callable[[], Engine]] | None = None
    """Gives a ``make_engine`` with fewer behaviours than ``opening`` has; None if the replica has
    those of ``opening`` on every schema."""

    def on_schema(self, revision: str) -> "ReplicaPlan":
        """The same plan on a schema of this revision: with the behaviours that it allows."""
        modes = tuple(flag for flag in self.opening.flags if flag in behaviours.MODES)
        flags = (*behaviours.allowed(revision), *modes)
        if self.engine_as_of is None or flags == self.opening.flags:
            return self
        return replace(
            self,
            opening=msgspec.structs.replace(self.opening, flags=flags),
            make_engine=self.engine_as_of(flags),
        )


@dataclass(frozen=True)
class Reload:
    """Another plan for a replica. ``opening`` and ``make_engine`` may differ, and limits; stream,
    address and holder are the same."""

    plan: ReplicaPlan
    on_effective: Callable[[], None] = lambda: None
    """Called between two terms, when the plan takes effect."""
