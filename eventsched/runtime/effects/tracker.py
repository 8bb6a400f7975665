"""A tracker follows the effects of one kind to their outcome (effect_trackers.py has one of each).

    committed ─▶ request ─▶ answered ─▶ a stimulus: the outcome
                       ╲─▶ no answer ─▶ a follow-up request, a little later

The methods return actions. The promises are in the log: after a restart a tracker finds all that it
needs in the engine's state and in ``OpenDecisions``.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from eventsched.cluster.messages import ClusterRequest
from eventsched.domain.records import Stimulus
from eventsched.domain.records.log_entry import LogEntry

Action = ClusterRequest | Stimulus
"""A request to the cluster, or a stimulus for the engine."""


class Tracker(Protocol):
    """Follows the effects of one kind."""

    outcome_first: bool
    """Whether an answer's outcome is logged before the object in the answer."""

    def on_records(self, logged: Sequence[LogEntry]) -> None:
        """Takes in the records of the last step."""

    def resume(self) -> Iterable[Action]:
        """After a clean takeover: resumes the effects that the log promises."""

    def void(self, reason: str) -> Iterable[Action]:
        """After lost history: voids all open effects; no request under way can harm."""

    def committed(self, effect: Any) -> Iterable[Action]:
        """The record of an effect is durable: it may be requested."""

    def answered(self, answer: Any) -> Iterable[Action]:
        """The cluster has answered one of the tracker's requests."""

    def unanswered(self, request: Any) -> ClusterRequest | None:
        """The follow-up to a request whose outcome is unknown; None if none is needed."""

    def awaits(self, request: Any) -> bool:
        """Whether a request is still the next one for its effect."""
