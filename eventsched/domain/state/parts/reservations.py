"""A node reserved for a pod, from the decision to the outcome of the bind."""

from typing import Any

from eventsched.domain.records import Outcome, PodDecided, PreparationIntended
from eventsched.domain.records.object_writes import Write


class Reservation:
    """A node reserved for a pod.

    ``carry`` is the cycle's data that the decision stored for PreBind. ``waits`` are the open
    Permit deadlines (µs) by plugin, ``preparing`` the deadlines (µs) of PreBind by plugin,
    ``writes`` the changes to the cluster that PreBind asked for and that have no outcome yet, by
    plugin. ``intended`` says that the bind may be sent.
    """

    __slots__ = ("attempt", "carry", "intended", "node", "preparing", "waits", "writes")

    def __init__(self, decided: PodDecided) -> None:
        self.node = decided.node
        self.attempt = decided.attempt
        self.carry: dict[str, Any] = dict(decided.carry)
        self.waits: dict[str, int] = dict(decided.deadlines)
        self.intended = decided.outcome is Outcome.SCHEDULED
        self.preparing: dict[str, int] = {}
        self.writes: dict[str, tuple[Write, ...]] = {}

    @classmethod
    def of(cls, node: str, attempt: int) -> "Reservation":
        """A node that another scheduler has chosen; its bind is not intended yet."""
        return cls(PodDecided(uid="", attempt=attempt, outcome=Outcome.WAITING, node=node))

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def prepare(self, intended: PreparationIntended) -> None:
        """Starts to wait for what PreBind needs."""
        self.preparing = dict(intended.deadlines)
        self.writes = dict(intended.writes)

    def close_write(self, succeeded: Write) -> None:
        """Notes that the cluster has made a change."""
        remaining = {
            plugin: tuple(write for write in writes if write != succeeded)
            for plugin, writes in self.writes.items()
        }
        self.writes = {plugin: writes for plugin, writes in remaining.items() if writes}

    def intend_bind(self) -> None:
        """Notes that nothing is waited for any more: the bind may be sent."""
        self.intended = True
        self.preparing, self.writes = {}, {}

    # --- questions ------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether the bind waits, at Permit or for what PreBind needs."""
        return bool(self.waits or self.preparing)

    def asked_by(self, write: Write) -> str:
        """The plugin that waits for a change, "" for none."""
        return next((plugin for plugin, writes in self.writes.items() if write in writes), "")

    def open_writes(self) -> list[Write]:
        """The distinct changes to the cluster that have no outcome yet."""
        return list(dict.fromkeys(write for writes in self.writes.values() for write in writes))
