"""A node held for a pod: from the decision, over whatever its bind waits for, to the outcome."""

from typing import Any

from eventsched.domain.records import Outcome, PodDecided, PreparationIntended
from eventsched.domain.records.object_writes import Write


class Reservation:
    """A node held for a pod between the decision and the outcome of its bind. ``waits`` are the
    permit deadlines (µs) by plugin that are still open, ``preparing`` the ends (µs) by plugin of
    what PreBind waits for, ``writes`` what was asked of the cluster for that and has no outcome
    yet; ``intended`` whether the bind may leave."""

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
        """A node that somebody else has chosen; its bind is still to be intended."""
        waiting = Outcome.WAITING
        return cls(PodDecided(uid="", attempt=attempt, outcome=waiting, node=node))

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def prepare(self, intended: PreparationIntended) -> None:
        """Begins to wait for what PreBind needs."""
        self.preparing = dict(intended.deadlines)
        self.writes = dict(intended.writes)

    def written(self, write: Write) -> None:
        """Takes in that the cluster has made a change."""
        left = {
            plugin: tuple(each for each in writes if each != write)
            for plugin, writes in self.writes.items()
        }
        self.writes = {plugin: writes for plugin, writes in left.items() if writes}

    def intend(self) -> None:
        """Nothing is waited for any more: the bind may leave."""
        self.intended = True
        self.preparing, self.writes = {}, {}

    # --- questions ------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether the bind waits, at Permit or for what PreBind needs."""
        return bool(self.waits or self.preparing)

    def asked_by(self, write: Write) -> str:
        """The plugin that waits for a change to be made, "" where none does (any more)."""
        return next((plugin for plugin, each in self.writes.items() if write in each), "")

    def open_writes(self) -> list[Write]:
        """What was asked of the cluster and has no outcome yet, each once."""
        return list(dict.fromkeys(each for writes in self.writes.values() for each in writes))

    def summary(self) -> list[Any]:
        """What the state's digest covers."""
        found = [self.node, self.attempt, self.carry, self.waits, self.intended]
        return [*found, self.preparing, self.writes] if self.preparing else found
