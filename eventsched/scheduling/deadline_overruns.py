"""Plugin calls that exceeded their deadline and are skipped from then on (see call_guard.py).

A slow call in an attempt makes the attempt void: it has no effect and is run again in the same
term, without that call. A slow call in a step that has begun to change the state (a hint,
PreEnqueue, Unreserve, PostBind…) makes the engine unusable: nothing of that step is in the log. The
next engine gets the call from the guard, logs it first, and skips it.
"""

from eventsched.domain.records import PluginOverran
from eventsched.domain.units import SECOND
from eventsched.scheduling.framework.call_guard import OverrunError, guards_of
from eventsched.scheduling.queueing.engine_step import EngineStep


class DeadlineOverruns:
    """Passes the overruns in an engine's state to the guards of its plugins."""

    def __init__(self, step: EngineStep) -> None:
        self._step = step
        plugins = [plugin for profile in step.profiles.values() for plugin in profile.plugins]
        self._guards = guards_of(plugins)

    def apply(self, uid: str = "") -> None:
        """Prepares the guards for a step: an attempt of the pod ``uid``, or another step ("")."""
        if not self._guards:
            return
        state = self._step.state
        attempt = state.pods[uid].attempts + 1 if uid else 0
        overrun = {
            (record.plugin, record.point): record.limit / SECOND
            for record in state.overruns
            if not record.uid or (record.uid, record.attempt) == (uid, attempt)
        }
        for guard in self._guards:
            guard.overrun = overrun

    def of_attempt(self, uid: str, overrun: OverrunError) -> PluginOverran:
        """The record of a slow call in a pod's attempt."""
        for guard in self._guards:
            guard.unrecorded = [error for error in guard.unrecorded if error is not overrun]
        return PluginOverran(
            plugin=overrun.plugin,
            point=overrun.point,
            limit=round(overrun.seconds * SECOND),
            uid=uid,
            attempt=self._step.state.pods[uid].attempts + 1,
        )

    def unrecorded(self) -> list[PluginOverran]:
        """The records of slow calls that made an earlier engine unusable."""
        overruns = self._step.state.overruns
        known = {(record.plugin, record.point) for record in overruns if not record.uid}
        records = {
            (error.plugin, error.point): PluginOverran(
                plugin=error.plugin, point=error.point, limit=round(error.seconds * SECOND)
            )
            for guard in self._guards
            for error in guard.unrecorded
        }
        return [record for call, record in records.items() if call not in known]
