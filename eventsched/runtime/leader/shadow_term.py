"""The term of a shadow, which follows another scheduler: it decides, and asks the cluster for
nothing.

What it decides for a pod is compared with what the cluster shows later
(scheduling/followed_placements.py). Only extenders are asked, as for any attempt.
"""

from eventsched.cluster.messages import Gone, Listed, PodSeen, Seen
from eventsched.domain.errors import InputError
from eventsched.domain.records import Consult, Queue, Stimulus, StreamStarted
from eventsched.domain.records.stimuli import shadows
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.extender_call_tracker import ExtenderCallTracker
from eventsched.runtime.effects.tracker import Tracker
from eventsched.runtime.leader.effect_trackers import EffectTrackers
from eventsched.runtime.leader.followed_stream import StreamState
from eventsched.runtime.leader.leader_term import LeaderTerm
from eventsched.runtime.reconciliation import takeover

_NOTHING_LISTED = Listed([])


def require_same_mode(stream: str, state: SchedulerState, opening: StreamStarted) -> None:
    """Raises InputError if a shadow is to continue the stream of a scheduler that binds, or the
    other way round. ``state`` has followed the stream."""
    if not state.position or bool(state.shadows) == bool(shadows(opening)):
        return
    if state.shadows:
        problem = f"is the log of a shadow of {', '.join(state.shadows)}: nothing in it was bound"
        raise InputError(
            f"stream {stream}", problem, "give the scheduler another --stream, or add --shadow"
        )
    problem = "is the log of a scheduler that binds pods, which a shadow must not continue"
    raise InputError(f"stream {stream}", problem, "give the shadow a --stream of its own")


class ShadowTrackers(EffectTrackers):
    """The trackers of a shadow. There is none that could change the cluster."""

    def _new_trackers(self, stream_state: StreamState) -> dict[type, Tracker]:
        return {Consult: ExtenderCallTracker(stream_state.engine.state)}


class ShadowTerm(LeaderTerm):
    """A term whose decisions have no effect."""

    def _new_trackers(self) -> EffectTrackers:
        return ShadowTrackers(self._stream_state, self._seen, self._new_outbox())

    def pod_toucher(self, listed: Listed) -> takeover.PodToucher:
        """Touches nothing: a shadow has no bind that could still succeed."""
        return takeover.PodToucher(_NOTHING_LISTED, self._limits.touches)

    def watched(self, event: Seen | Gone | Stimulus) -> None:
        """Decides for a pod that is still to be decided when its placement arrives: the other
        scheduler may take less time than the watch. Not while the database is behind."""
        if isinstance(event, PodSeen) and event.pod.node_name:
            pod_state = self._state.pods.get(event.pod.uid)
            while (
                pod_state is not None
                and self._state.is_followed(pod_state)
                and pod_state.queue is Queue.ACTIVE
                and self.can_attempt
            ):
                self._distribute(self._engine.schedule_next())
        super().watched(event)
