"""Which pods came to a queue as they arrived, from what a state says.

A scheduler puts a pod into a queue in the step in which it arrives, if one of its profiles has the
pod's schedulerName. So pods that arrived after the newest term began have waited since they
arrived, and those that came first have waited longest. Their moves between queues need not be read,
of which a pod that is tried again and again has hundreds.
"""

from collections.abc import Sequence

from eventsched.domain.errors import InputError
from eventsched.history.past_state.state_document import BOUND
from eventsched.questions.past.past_pod import PastPod
from eventsched.questions.streams import LoggedStream
from eventsched.runtime.queries.state_at import FoldedState, Opening
from eventsched.scheduling.config.configuration import default, load

UNQUEUED = "unqueued"
"""The state of a pod that is in no queue, and on no node."""


class ArrivalQueues:
    """What a state says about the waits of its pods. Threads may share it."""

    def __init__(self, stream: LoggedStream, folded: FoldedState) -> None:
        state = folded.state
        self._stream, self._position, self._opening = stream, folded.position, folded.opening
        self._is_scheduler = not state.serves and not state.shadows
        self._since, self._names = 0, frozenset[str]()
        self._is_read = False

    def waits(self, rows: Sequence[PastPod]) -> list[bool] | None:
        """Whether each pod has waited since it arrived; False for one on its node, or of another
        scheduler. None if the state does not say it about one of them. Raises
        UnavailableError."""
        unplaced = [row for row in rows if row.state != BOUND]
        if unplaced:
            self._read()
        if not self._is_scheduler or any(self._is_unknown(row) for row in unplaced):
            return None
        names = self._names
        return [row.state != BOUND and row.pod.scheduler_name in names for row in rows]

    def _is_unknown(self, row: PastPod) -> bool:
        if row.seq <= self._since:
            return True
        # A pod comes to its queue later in the step of its arrival, or of an attempt.
        is_ours, was_queued = row.pod.scheduler_name in self._names, row.state != UNQUEUED
        return is_ours != (was_queued or row.attempts > 0)

    def _read(self) -> None:
        """Reads since when the profiles are in force, and which there are."""
        if self._is_read or not self._is_scheduler:
            return
        log = self._stream.log
        terms = log.term_starts(self._position)
        names = None if self._opening is None else _profiles_of(self._opening)
        self._is_scheduler = bool(terms) and names is not None
        if terms and names is not None:
            self._since, self._names = max(terms[0], log.begin), names
        self._is_read = True


def _profiles_of(opening: Opening) -> frozenset[str] | None:
    """The names of the profiles of a configuration in a log; None if this version cannot read
    it."""
    try:
        text = opening.configuration
        loaded = load(text, "the configuration in force") if text else default()
    except InputError:
        return None
    return frozenset(profile.scheduler_name for profile in loaded.profiles)
