"""Tries pods on a copy of a cluster: where they would go if they were submitted now, which pods
would have to leave for them, and how many more would fit.

It is a simulation (eventsched.runtime.simulation) that begins with the state of a log, or with the
objects of manifests, and has no log of its own. Running pods do not end in it, except for those
that are being deleted already.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from eventsched.cluster.in_memory.cluster import InMemoryCluster
from eventsched.cluster.sources.arrivals import GeneratedPods, TracePod
from eventsched.cluster.translate.metadata import pod_uid
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import AnyObject
from eventsched.domain.records import (
    Evict,
    PodDecided,
    PodQueued,
    PreemptionDecided,
    Queue,
    SamplesTaken,
)
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state import snapshot
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.simulation.simulation import DEFAULT_SEED, Simulation

MOST_MORE = 1_000_000
"""The largest number of further pods that is looked for."""
STEP = 1_000
"""Microseconds between the arrivals of two further pods."""
_CHUNK = 64
"""Further pods that are tried before it is looked whether one did not fit."""


@dataclass(frozen=True)
class TrialCluster:
    """What pods are tried on: copies of a ``state`` (None: none, runs begin with the objects)
    at a ``position``, and what there is at the time ``now`` (µs). ``leaving`` are pods that are
    being deleted or evicted, ``known`` the uids of all pods. ``each_step`` is called at each step
    of a run; what it raises ends the run."""

    assembly: Assembly
    nodes: Sequence[Node]
    objects: Sequence[AnyObject] = ()
    bound: Sequence[Pod] = ()
    waiting: Sequence[TracePod] = ()
    samples: Sequence[SamplesTaken] = ()
    leaving: Sequence[Pod] = ()
    state: SchedulerState | None = None
    position: int = 0
    now: int = 0
    seed: str = DEFAULT_SEED
    known: frozenset[str] = frozenset()
    each_step: Callable[[], None] = lambda: None


@dataclass
class TriedPod:
    """What came of a pod. ``node`` is "" if it is nowhere in the end. ``decided`` is its last
    decision with a node, or else its first one; None if it was never tried. ``victims`` are the
    pods that would be evicted for it from ``freed``. ``message`` says why it has no node."""

    pod: Pod
    node: str = ""
    decided: PodDecided | None = None
    victims: tuple[str, ...] = ()
    freed: str = ""
    message: str = ""


@dataclass
class _Watch:
    """Collects what a run decides about the tried pods."""

    tried: dict[str, TriedPod]
    pods: Mapping[str, PodState] = field(default_factory=dict)
    """All pods of the run. (Not the run: that refers to this, and would not be freed at once.)"""
    names: dict[str, str] = field(default_factory=dict)

    def records(self, logged: list[LogEntry]) -> None:
        """Takes the records of a step."""
        for entry in logged:
            match entry.record:
                case PodDecided(uid=uid) as decided if uid in self.tried:
                    tried = self.tried[uid]
                    if tried.decided is None or decided.node:
                        tried.decided = decided
                    tried.message = tried.message or decided.message
                case PreemptionDecided(uid=uid) as preemption if uid in self.tried:
                    tried = self.tried[uid]
                    tried.freed = preemption.node
                    tried.victims += tuple(map(self._name, preemption.victims))
                case PodQueued(uid=uid, queue=Queue.GATED) as gated if uid in self.tried:
                    self.tried[uid].message = gated.message or f"held by {gated.plugin}"

    def _name(self, uid: str) -> str:
        pod_state = self.pods.get(uid)
        return uid if pod_state is None else pod_state.pod.full_name


@dataclass(frozen=True)
class TrialRun:
    """A run to its end, and what came of the pods, in their order."""

    simulation: Simulation
    tried: tuple[TriedPod, ...]

    @property
    def pending(self) -> list[TriedPod]:
        """The pods that have no node in the end."""
        return [tried for tried in self.tried if not tried.node]

    @property
    def waiting(self) -> int:
        """How many pods wait in the end, others than the tried ones included."""
        return sum(self.simulation.engine.queue_lengths.values())

    @property
    def waiting_besides(self) -> int:
        """How many pods wait in the end that are not of the tried ones."""
        pods = self.simulation.engine.state.pods
        ours = {tried.pod.uid for tried in self.tried}
        return sum(uid not in ours and pod.queue is not None for uid, pod in pods.items())

    @property
    def refusals(self) -> list[str]:
        """Why the tried pods that are pending have no node, each message once, without the result
        of preemption."""
        messages = (tried.message.partition(", preemption: ")[0] for tried in self.pending)
        return list(dict.fromkeys(message or "it was not tried" for message in messages))


def run_trial(
    cluster: TrialCluster,
    pods: Sequence[TracePod],
    objects: Sequence[AnyObject] = (),
    more_nodes: Sequence[Node] = (),
) -> TrialRun:
    """Submits pods together, after what waits already, and runs until nothing more happens.
    ``objects`` come with them; ``more_nodes`` are added first. Raises InputError for a broken
    plugin's configuration."""
    watch = _Watch({arrival.pod.uid: TriedPod(arrival.pod) for arrival in pods})
    arrivals = [replace(arrival, arrives_at=cluster.now) for arrival in (*cluster.waiting, *pods)]
    simulation = _simulation(cluster, arrivals, objects, more_nodes, watch)
    simulation.run()
    for tried in watch.tried.values():
        _settle(simulation, tried)
    return TrialRun(simulation, tuple(watch.tried.values()))


def _simulation(
    cluster: TrialCluster,
    arrivals: Sequence[TracePod],
    objects: Sequence[AnyObject],
    more_nodes: Sequence[Node],
    watch: _Watch,
) -> Simulation:
    titles = {other.title for other in objects}
    known = [other for other in cluster.objects if other.title not in titles]
    in_memory = InMemoryCluster(
        [*cluster.nodes, *more_nodes],
        arrivals,
        cluster.bound,
        objects=[*known, *objects],
        samples=cluster.samples,
        known=[*cluster.nodes, *known] if cluster.state is not None else (),
    )
    begins = None if cluster.state is None else snapshot.duplicated(cluster.state)

    def step(logged: list[LogEntry]) -> None:
        cluster.each_step()
        watch.records(logged)

    simulation = Simulation(
        cluster.assembly, in_memory, None, seed=cluster.seed, begins=begins, watch=step
    )
    watch.pods = simulation.engine.state.pods
    for pod in cluster.leaving:
        eviction = Evict(
            uid=pod.uid, namespace=pod.namespace, name=pod.name, node=pod.node_name,
            preemptor="", decision=0,
        )  # fmt: skip
        in_memory.execute(eviction, cluster.now)
    return simulation


def _settle(simulation: Simulation, tried: TriedPod) -> None:
    """Notes where a pod is in the end."""
    pod_state = simulation.engine.state.pods.get(tried.pod.uid)
    tried.node = "" if pod_state is None else pod_state.booked_node
    if tried.node:
        tried.message = ""
    elif tried.decided is not None and tried.decided.node:
        tried.message = "it gave its node back: others of its group did not come in time"


@dataclass(frozen=True)
class Room:
    """How many pods fit one after the other without an eviction. ``is_limit`` says that the search
    ended before one did not fit; otherwise ``message`` is why the next one does not."""

    pods: int
    is_limit: bool = False
    message: str = ""


def room_for(
    cluster: TrialCluster,
    pods: Sequence[TracePod],
    objects: Sequence[AnyObject],
    more: Callable[[int], TracePod],
    most: int,
) -> Room:
    """How many of the pods that ``more`` makes (by their number, from 0) fit in addition to
    ``pods``; at most ``most`` are tried. No pod may have claims that are made for it."""
    watch = _Watch({})
    base = [replace(arrival, arrives_at=cluster.now) for arrival in (*cluster.waiting, *pods)]

    def arrival(number: int) -> TracePod:
        if number < len(base):
            return base[number]
        made = more(number - len(base))
        pod = msgspec.structs.replace(made.pod, preemption_policy="Never")
        return replace(made, pod=pod, arrives_at=cluster.now + (number - len(base) + 1) * STEP)

    arrivals = GeneratedPods(len(base) + most, arrival)
    simulation = _simulation(cluster, arrivals, objects, (), watch)
    done = 0
    while done < most:
        numbers = range(done, min(done + _CHUNK, most))
        chunk = [arrival(len(base) + number).pod for number in numbers]
        watch.tried.update({pod.uid: TriedPod(pod) for pod in chunk})
        simulation.run(until=cluster.now + (done + len(chunk)) * STEP)
        for pod in chunk:
            tried = watch.tried.pop(pod.uid)
            _settle(simulation, tried)
            if not tried.node:
                return Room(done, message=tried.message.partition(", preemption: ")[0])
            done += 1
    return Room(done, is_limit=True)


def copies_of(pod: Pod) -> Callable[[int], TracePod]:
    """Makes further pods like one, each by its number. They have its volumes, too."""

    def make(number: int) -> TracePod:
        name = f"{pod.name}-more-{number}"
        uid = pod_uid(pod.namespace, name)
        return TracePod(msgspec.structs.replace(pod, name=name, uid=uid))

    return make
