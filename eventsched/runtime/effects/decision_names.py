"""The names of the decisions whose effects have no outcome yet: ``stream/position@token``.

The token is the term's. An epoch's number is not enough: it can be given out twice if a failover
loses history. The engine knows neither stream nor token. So these names are folded from the same
records beside the engine's state, and stored in a leader's snapshot.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from eventsched.domain import records
from eventsched.domain.records import Outcome
from eventsched.domain.records.log_entry import LogEntry


class OpenDecisionsSnapshot(msgspec.Struct):
    """The names in a snapshot."""

    token: str
    intents: dict[str, str]
    evictions: dict[str, str]


class OpenDecisions:
    """Follows the log. ``intents`` maps a pod's uid to the decision to bind it, ``evictions`` a
    victim's uid to the decision to evict it. If an effect ends without a record of its own, its
    name stays until the pod is gone."""

    def __init__(self, stream: str) -> None:
        self.intents: dict[str, str] = {}
        self.evictions: dict[str, str] = {}
        self._stream = stream
        self._token = ""
        self._branches: dict[type, Callable[[Any, int], None]] = {
            records.TermBegan: self._term_began,
            records.PodDecided: self._decided,
            records.BindIntended: self._intended,
            records.PodBound: self._ended,
            records.PodUnreserved: self._ended,
            records.PlacementCompared: self._ended,
            records.PodDeleted: self._gone,
            records.PreemptionDecided: self._preempts,
            records.EvictionSucceeded: self._evicted,
            records.EvictionFailed: self._evicted,
        }

    def name(self, position: int) -> str:
        """The name of a decision of the current term."""
        return f"{self._stream}/{position}@{self._token}"

    def on_record(self, logged: LogEntry) -> None:
        """Takes in the next record."""
        branch = self._branches.get(type(logged.record))
        if branch is not None:
            branch(logged.record, logged.position)

    def snapshot(self) -> OpenDecisionsSnapshot:
        """The names, for ``restore``."""
        return OpenDecisionsSnapshot(self._token, dict(self.intents), dict(self.evictions))

    def restore(self, snapshot: OpenDecisionsSnapshot) -> None:
        """Loads a snapshot."""
        self._token = snapshot.token
        self.intents, self.evictions = dict(snapshot.intents), dict(snapshot.evictions)

    def _term_began(self, began: records.TermBegan, _: int) -> None:
        self._token = began.token

    def _decided(self, decided: records.PodDecided, position: int) -> None:
        if decided.outcome is Outcome.SCHEDULED:
            self.intents[decided.uid] = self.name(position)

    def _intended(self, intended: records.BindIntended, position: int) -> None:
        self.intents[intended.uid] = self.name(position)

    def _ended(
        self, ended: records.PodBound | records.PodUnreserved | records.PlacementCompared, _: int
    ) -> None:
        self.intents.pop(ended.uid, None)

    def _gone(self, deleted: records.PodDeleted, position: int) -> None:
        self.intents.pop(deleted.uid, None)
        self.evictions.pop(deleted.uid, None)

    def _preempts(self, decided: records.PreemptionDecided, position: int) -> None:
        self.evictions.update(dict.fromkeys(decided.evicted, self.name(position)))

    def _evicted(self, ended: records.EvictionSucceeded | records.EvictionFailed, _: int) -> None:
        self.evictions.pop(ended.uid, None)
