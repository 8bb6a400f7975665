"""What follows an effect to its end, one tracker for each kind; the leader gives each its turn.

    committed ─▶ request ─▶ answered ─▶ a stimulus: the outcome
                       ╲─▶ no answer ─▶ a request that follows it up, a little later

What is to be done comes back as steps. A tracker's promises stand in the log: whatever it needs of
them after a restart, it finds in the engine's state and in ``Decisions``.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from eventsched.cluster.messages import ClusterRequest
from eventsched.domain.records import Stimulus
from eventsched.domain.records.logged import Logged

Step = ClusterRequest | Stimulus
"""What to ask of the cluster, or what to tell the engine."""


class Tracker(Protocol):
    """Follows effects of some kinds."""

    outcome_first: bool
    """Whether an answer's outcome stands in the log before the object that came with it."""

    def follow(self, logged: Sequence[Logged]) -> None:
        """Takes in the records of a step that was just made."""

    def resume(self) -> Iterable[Step]:
        """After a clean takeover: goes on with what the log promises."""

    def void(self, reason: str) -> Iterable[Step]:
        """After lost history: no promise counts, and nothing is on its way that could matter."""

    def committed(self, effect: Any) -> Iterable[Step]:
        """The record that lets an effect leave is durable."""

    def answered(self, answer: Any) -> Iterable[Step]:
        """The cluster has answered one of the tracker's requests."""

    def unanswered(self, request: Any) -> ClusterRequest | None:
        """What to ask, a little later, after a request whose outcome is not known."""

    def awaits(self, request: Any) -> bool:
        """Whether a request is still the next one for its effect."""
