"""Which calls of plugins are not made any more, as far as the log says so (see call_guard.py).

An attempt that a slow call makes void leaves nothing behind, so it is made again in the same term,
without that call. A slow call in a step that has begun to change the state (a hint, PreEnqueue,
Unreserve, PostBind…) spoils the engine: nothing of the step is in the log, its successor learns of
the call from the guard, writes it down first, and then nobody makes it.
"""

from eventsched.domain.records import PluginOverran
from eventsched.domain.units import SECOND
from eventsched.scheduling.framework.call_guard import OverrunError, guards_of
from eventsched.scheduling.queueing.engine_step import EngineStep


class Overruns:
    """Tells the guards of an engine's plugins what its state holds."""

    def __init__(self, step: EngineStep) -> None:
        self._step = step
        plugins = [plugin for each in step.profiles.values() for plugin in each.plugins]
        self._guards = guards_of(plugins)

    def apply(self, uid: str = "") -> None:
        """For the step that begins, which is an attempt of the pod of that uid, if any."""
        if not self._guards:
            return
        state = self._step.state
        attempt = state.pods[uid].attempts + 1 if uid else 0
        overrun = {
            (each.plugin, each.point): each.limit / SECOND
            for each in state.overruns
            if not each.uid or (each.uid, each.attempt) == (uid, attempt)
        }
        for guard in self._guards:
            guard.overrun = overrun

    def of_attempt(self, uid: str, overrun: OverrunError) -> PluginOverran:
        """What the log is told of a slow call in a pod's attempt."""
        for guard in self._guards:
            guard.unrecorded = [each for each in guard.unrecorded if each is not overrun]
        return PluginOverran(
            plugin=overrun.plugin,
            point=overrun.point,
            limit=round(overrun.seconds * SECOND),
            uid=uid,
            attempt=self._step.state.pods[uid].attempts + 1,
        )

    def unrecorded(self) -> list[PluginOverran]:
        """What the log is to be told of slow calls that spoilt an engine."""
        known = {(each.plugin, each.point) for each in self._step.state.overruns if not each.uid}
        found = {
            (each.plugin, each.point): PluginOverran(
                plugin=each.plugin, point=each.point, limit=round(each.seconds * SECOND)
            )
            for guard in self._guards
            for each in guard.unrecorded
        }
        return [each for place, each in found.items() if place not in known]
