"""A world whose processes take up another configuration at random moments."""

from eventsched.domain.records import Stimulus, StreamStarted, TermBegan
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.queue_index import Backoff
from tests.builders import PROFILE

from . import cluster
from .invariants import Auditor
from .processes import Process
from .world import World

OTHER = "other"
"""The digest of the other configuration: without Pairs, so that no pod waits at Permit, and with a
longer backoff."""
FLAGS = cluster.OPENING.flags
"""The behaviours in force."""
_SETTLED, _ANY = 0.1, 0.01
"""Probability of a reload in a step: if a leader has committed all its records, and otherwise."""


def opening(configuration: str) -> StreamStarted:
    """What a term with this configuration names."""
    return StreamStarted(
        format=cluster.OPENING.format,
        engine=cluster.OPENING.engine,
        seed=cluster.OPENING.seed,
        flags=FLAGS,
        inputs={"configuration": configuration} if configuration else {},
    )


def engine_of(configuration: str) -> Engine:
    """A fresh engine of a configuration."""
    if not configuration:
        return cluster.engine()
    plugins = [
        PrioritySort(), SchedulingGates(), cluster.Openings(), NodeResourcesFit(),
        DefaultPreemption(), DefaultBinder(),
    ]  # fmt: skip
    points = {
        point: [plugin for plugin in plugins if point in points_of(plugin)] for point in POINTS
    }
    return Engine({PROFILE: Profile(PROFILE, points, {})}, Backoff(1, 8))


class ReloadAuditor(Auditor):
    """Replays each decision under the configuration that was in force."""

    def engine_for(self, stimulus: Stimulus, engine: Engine) -> Engine:
        """See Auditor."""
        if not isinstance(stimulus, StreamStarted | TermBegan) or not stimulus.engine:
            return engine
        successor = engine_of(stimulus.inputs.get("configuration", ""))
        if engine.position:
            successor.restore(engine.snapshot(), engine.position)
        return successor


class ReloadedWorld(World):
    """One run, with reloads."""

    audited_by = ReloadAuditor
    limits = cluster.LIMITS

    def _fault(self) -> bool:
        settled = [each for each in self.processes.values() if each.leader.all_committed]
        likely = settled or list(self.processes.values())
        if likely and self.rng.random() < (_SETTLED if settled else _ANY):
            self.reload(self.rng.choice(likely))
            return True
        return super()._fault()

    def reload(self, process: Process, configuration: str | None = None) -> None:
        """A process goes on under a configuration, or any of them. Its requests stay in flight, and
        their answers are not heard. If records are not committed, it reads the log again."""
        if configuration is None:
            configuration = self.rng.choice(["", OTHER])
        self.counts["reload"] += 1

        def make_engine() -> Engine:
            return engine_of(configuration)

        stream = FollowedStream(make_engine, cluster.STREAM)
        if process.leader.hand_over():
            self.counts["reload with the state"] += 1
            carried = process.leader._followed_stream.reconfigured(make_engine)
            assert carried is not None, "the state cannot be carried over"
            stream = carried
        self.crash(process)
        leader = Leader(stream, opening(configuration), self.limits)
        successor = self._new_process(process.name, process.number, stream, leader, process.skew)
        self.processes[process.name] = successor
        self._send(successor, leader.start())
