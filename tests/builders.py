"""Nodes, pods, engines and expected records for tests: what is beside the point is filled in.

Times are microseconds, cpu millicores, memory bytes. A pod's uid is its name.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from eventsched.domain import records
from eventsched.domain.objects import CPU, MEMORY, PODS, Container, HostPort, Node, Pod, PodSpec
from eventsched.domain.records import (
    Outcome,
    PodDecided,
    PodQueued,
    Queue,
    Record,
    ScoringDefined,
    Stimulus,
)
from eventsched.domain.verdicts import ScoreColumn
from eventsched.plugins import IN_TREE
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.runtime.assembly import assembled
from eventsched.scheduling.adapter import adapted
from eventsched.scheduling.config import configuration
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.ledger import Logged
from eventsched.scheduling.profile import Profile
from eventsched.scheduling.queue import Backoff

GIB = 1024**3
SECOND = 1_000_000
PROFILE = "default-scheduler"


def make_node(name: str = "n1", *, cpu: int = 4000, memory: int = 8 * GIB, pods: int = 110,
              extra: Mapping[str, int] | None = None, **fields: Any) -> Node:  # fmt: skip
    """A node with 4 cpu, 8 GiB and room for 110 pods; ``extra`` are further resources."""
    room = {CPU: cpu, MEMORY: memory, PODS: pods, **(extra or {})}
    return Node(name=name, allocatable=room, **fields)


def make_pod(name: str = "p1", *, cpu: int = 1000, memory: int = 2 * GIB,
             ports: Iterable[int] = (), spec: Mapping[str, Any] | None = None,
             **fields: Any) -> Pod:  # fmt: skip
    """A pod of one container that requests 1 cpu and 2 GiB; ``spec`` are further fields of its
    PodSpec."""
    requests = {name: amount for name, amount in ((CPU, cpu), (MEMORY, memory)) if amount}
    container = Container(requests=requests, ports=tuple(HostPort(port=p) for p in ports))
    made = PodSpec(containers=(container,), **(spec or {}))
    return Pod(**{"uid": name, "name": name, "spec": made, **fields})


def added(*objects: Node | Pod) -> list[Stimulus]:
    """The stimuli that bring nodes and pods in."""
    return [
        records.NodeAdded(node=each) if isinstance(each, Node) else records.PodAdded(pod=each)
        for each in objects
    ]


def engine_with(*plugins: Any, points: Mapping[str, list[Any]] | None = None,
                config: str | None = None, weights: Mapping[str, int] | None = None,
                backoff: Backoff | None = None) -> Engine:  # fmt: skip
    """An engine with the default profile, or those of a configuration's text; ``plugins`` stand at
    the end of every point that they serve, ``points`` replaces whole points."""
    loaded = configuration.default() if config is None else configuration.load(config, "test.yaml")
    assembly = assembled(loaded, "test.yaml", IN_TREE)
    profiles = {}
    for name, profile in assembly.profiles.items():
        chosen = {**profile.points, **(points or {})}
        for plugin in map(adapted, plugins):
            for point in points_of(plugin):
                chosen[point] = [*chosen[point], plugin]
        weighed = {each.name: each.weight for each in profile.scores} | dict(weights or {})
        profiles[name] = Profile(name, chosen, weighed, percentage=profile.percentage)
    backoff = backoff or Backoff(
        loaded.pod_initial_backoff_seconds or 0, loaded.pod_max_backoff_seconds or 0
    )
    return Engine(profiles, backoff)


def engine_of(*plugins: Any, weights: Mapping[str, int] | None = None,
              backoff: Backoff | None = None) -> Engine:  # fmt: skip
    """An engine with these plugins and nothing else but PrioritySort and, where none of them
    binds, DefaultBinder."""
    made = [PrioritySort(), *map(adapted, plugins)]
    if not any(hasattr(plugin, "bind") for plugin in made):
        made.append(DefaultBinder())
    points = {point: [each for each in made if point in points_of(each)] for point in POINTS}
    return Engine({PROFILE: Profile(PROFILE, points, weights or {})}, backoff)


def records_of(logged: Iterable[Logged]) -> list[Record]:
    """The records alone, decisions without the digest of their vectors."""
    return [
        msgspec.structs.replace(each.record, digest="")
        if isinstance(each.record, PodDecided)
        else each.record
        for each in logged
    ]


def observed(engine: Engine, *stimuli: Stimulus, at: int = 0) -> list[Record]:
    """Observes stimuli at one time; all records that came of them."""
    return [r for stimulus in stimuli for r in records_of(engine.observe(stimulus, at))]


def attempted(engine: Engine) -> list[Record]:
    """Makes one attempt; its records."""
    return records_of(engine.schedule_next())


def scheduled(uid: str = "p1", node: str = "n1", *, scores: Iterable[ScoreColumn] = (),
              **fields: Any) -> PodDecided:  # fmt: skip
    """A decision for the only node there is, at the first attempt. ``scores`` are the columns that
    the stream's first ScoringDefined names."""
    filled: dict[str, Any] = {"attempt": 1, "row": 0, "feasible": 1, "evaluated": 1, "ties": 1}
    if columns := tuple(scores):
        filled.update(scoring=1, parameters=tuple(each.parameters for each in columns))
    filled.update(fields)
    return PodDecided(
        **{"uid": uid, "profile": PROFILE, "outcome": Outcome.SCHEDULED, "node": node, **filled}
    )


def refused(uid: str = "p1", message: str = "", **fields: Any) -> PodDecided:
    """A decision that the pod has to wait, at the first attempt, after a look at one node."""
    filled = {"attempt": 1, "evaluated": 1, "message": message, **fields}
    return PodDecided(
        **{"uid": uid, "profile": PROFILE, "outcome": Outcome.UNSCHEDULABLE, **filled}
    )


def active(uid: str = "p1", cause: str = "PodAdd", **fields: Any) -> PodQueued:
    """A move to the active queue."""
    return PodQueued(uid=uid, queue=Queue.ACTIVE, cause=cause, **fields)


def parked(uid: str = "p1", *rejectors: str, until: int = SECOND, **fields: Any) -> PodQueued:
    """A move to the unschedulable queue after a first failed attempt at time 0."""
    filled = {"cause": "AttemptFailed", "failures": 1, **fields}
    return PodQueued(uid=uid, queue=Queue.UNSCHEDULABLE, rejectors=rejectors, until=until, **filled)


def woken(cause: str, plugin: str, queue: Queue = Queue.ACTIVE, **fields: Any) -> PodQueued:
    """p1's move up, which still names who refused it and when its backoff ends or ended."""
    filled: dict[str, Any] = {"rejectors": (plugin,), "until": SECOND, "failures": 1, **fields}
    return PodQueued(uid="p1", queue=queue, cause=cause, plugin=plugin, **filled)


def backing_off(uid: str = "p1", until: int = SECOND, **fields: Any) -> PodQueued:
    """A move to the backoff queue, after a first error at time 0 where nothing else is said."""
    filled = {"cause": "AttemptFailed", "errors": 1, **fields}
    return PodQueued(uid=uid, queue=Queue.BACKOFF, until=until, **filled)


def identity(plugin: str, weight: int = 1) -> ScoreColumn:
    """A score column whose raw scores are used as they are."""
    return ScoreColumn(plugin=plugin, weight=weight)


def defined(*columns: ScoreColumn, number: int = 1) -> ScoringDefined:
    """The dictionary's entry for score columns, which leaves out their parameters."""
    bare = (msgspec.structs.replace(each, parameters=()) for each in columns)
    return ScoringDefined(number=number, columns=tuple(bare))
