"""A world in which leaders fail. One seed determines everything that happens.

Processes (at most two at a time) run the real leader and engine. Each of their requests is a
``Flight``: it is lost, delayed, executed late, executed without an answer, or works. There are two
phases, as in TigerBeetle's VOPR: first anything may fail, and no invariant may be violated; then
nothing fails, and one leader has to finish.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

from eventsched.cluster.messages import (
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    ListCluster,
    Listed,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PatchStatus,
    PodAbsent,
    PodGone,
    PodShown,
    Relisted,
    Reported,
    TouchPod,
    Unknown,
    WriteEvent,
)
from eventsched.domain.units import SECOND
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import (
    Acquire,
    Acquired,
    Append,
    Committed,
    Message,
    Renew,
    Request,
    StoreSnapshot,
    Tick,
)
from eventsched.runtime.reconciliation import breaks
from eventsched.scheduling import seen_stimuli

from . import cluster, rates
from .apiserver import ApiServer
from .database import Database
from .happenings import ACTIONS
from .invariants import Auditor, ViolationError
from .processes import Flight, MakeLeader, Process, ordinary_leader, standing_by

MILLISECOND = 1_000
CALM_STEPS = 4_000
DELICATE = (
    Acquired, Listed, Bound, PodShown, PodAbsent, PodGone, NodeSeen, NodeGone, ObjectSeen,
    ObjectGone, Relisted, Reported,
)  # fmt: skip
"""Rare messages after which a crash is most interesting."""


class World:
    """One run."""

    server: type[ApiServer] = ApiServer
    audited_by: type[Auditor] = Auditor
    row_rests = (seen_stimuli.ROW_REST, 200 * MILLISECOND, 0)
    """How long the rows of deleted nodes stay free, by the seed."""

    def __init__(
        self,
        seed: int,
        *,
        lossy: bool = False,
        make_leader: MakeLeader = ordinary_leader,
        make_followed_stream: Callable[[], FollowedStream] = cluster.followed_stream,
        database: type[Database] = Database,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.now = 1_700_000_000 * SECOND
        self.steps = 0
        self.counts: Counter[str] = Counter()
        self.trace: list[tuple[Any, ...]] = []
        self.faults = True
        self.api = self.server()
        self.database = database(self.rng)
        self.auditor = self.audited_by(self.database, self.api)
        self.processes: dict[str, Process] = {}
        self.flights: list[Flight] = []
        self._make_leader, self._make_followed_stream = make_leader, make_followed_stream
        self.born = 0
        self.node_names = [f"n{number}" for number in range(self.rng.randint(2, 4))]
        for name in self.node_names:
            self.api.put_node(cluster.node(name))
        for name in cluster.NAMESPACES:
            self.api.put_namespace(cluster.namespace(name))
        self._rates = rates.drawn(self.rng, lossy)
        self._pace = self.rng.choice([5, 20, 40]) * MILLISECOND

    # --- a run ----------------------------------------------------------------------------

    def run(self, steps: int = 500) -> "World":
        """Both phases. Raises ViolationError, which names seed and step."""
        with (
            patch.object(seen_stimuli, "ROW_REST", self.row_rests[self.seed % 3]),
            patch.object(breaks, "ITEMS_BETWEEN_BREAKS", 1),
        ):
            return self._run(steps)

    def _run(self, steps: int) -> "World":
        try:
            for _ in range(steps):
                self.step()
            self._calm_down()
            self._until_converged()
        except ViolationError as violation:
            raise ViolationError(f"seed {self.seed} step {self.steps}: {violation}") from None
        except Exception as error:  # any exception of the leader or the engine is a finding
            message = f"seed {self.seed} step {self.steps}: {type(error).__name__}: {error}"
            raise ViolationError(message) from error
        self.counts["runs"] += 1
        self.counts["steps"] += self.steps
        self.counts.update({f"record {kind}": n for kind, n in self.auditor.kinds.items()})
        return self

    def step(self) -> None:
        """Executes one event."""
        self.steps += 1
        self.now += self.rng.randint(1, self._pace)
        if self.faults and self._fault():
            return
        able = self._able()
        if not able:
            self._skip_ahead()
            return
        able[self.rng.randrange(len(able))]()

    def _able(self) -> list[Callable[[], None]]:
        """The possible next events, without faults."""
        events: list[Callable[[], None]] = []
        for flight in self.flights:
            waits = flight.answer is not None and flight.process.paused_until > self.now
            if flight.held_until <= self.now and not waits:
                events.append(partial(self._move, flight))
        for process in self.processes.values():
            if process.paused_until > self.now:
                continue
            for resource in self.api.resources if process.watching else ():
                ahead = process.cursors[resource] < len(self.api.histories[resource])
                if ahead or resource in process.gaps:
                    events.append(partial(self._watch, process, resource))
            wake_at = process.leader.wake_at
            if wake_at is not None and wake_at <= self._clock(process):
                events.append(partial(self.deliver, process, Tick()))
        for uid, seen in self.api.pods.items():
            if seen.pod.deleting and (seen.pod.displaced or not self.faults):
                events.append(partial(self.api.delete_pod, uid))
        return events

    def _skip_ahead(self) -> None:
        times = [flight.held_until for flight in self.flights]
        for process in self.processes.values():
            times.append(process.paused_until)
            if process.leader.wake_at is not None:
                times.append(self._when(process, process.leader.wake_at))
        self.now = min((time for time in times if time > self.now), default=self.now)

    def _calm_down(self) -> None:
        """Begins the second phase: no faults, and at most one process is left."""
        self.faults = False
        for name in list(self.processes):
            self.processes[name].paused_until = 0
            if name != min(self.processes):
                self.crash(self.processes[name])
        for flight in self.flights:
            flight.held_until = 0

    def _until_converged(self) -> None:
        for _ in range(CALM_STEPS):
            if not self.processes:
                self.start("A")
            self.step()
            [process] = self.processes.values() or [None]
            if process is not None and self._is_done(process):
                self.auditor.converged(process.leader)
                return
        raise ViolationError(f"not converged {CALM_STEPS} steps after the last fault")

    def _is_done(self, process: Process) -> bool:
        leader = process.leader
        return (
            not self.flights
            and leader.all_committed
            and self.database.is_current(leader.term)
            and not process.gaps
            and process.cursors == {r: len(history) for r, history in self.api.histories.items()}
            and not leader.outbox
            and leader.engine.due is None
            and not leader.engine.state.reservations
            and not leader.engine.state.preemptions.evicting
        )

    # --- processes ------------------------------------------------------------------------

    def start(self, name: str) -> Process:
        """Starts a process, which tries to become the leader."""
        skew = self.rng.choice([0, 0, -3600, 3600]) * SECOND
        self.counts["start"] += 1
        followed_stream = self._followed_stream(name)
        leader = self._make_leader(followed_stream)
        process = self._new_process(name, self.counts["start"], followed_stream, leader, skew)
        self.processes[name] = process
        self._send(process, process.leader.start())
        return process

    def _new_process(
        self, name: str, number: int, followed_stream: FollowedStream, leader: Leader, skew: int
    ) -> Process:
        return Process(name, number, leader, skew)

    def _clock(self, process: Process) -> int:
        """The time (µs) by a process's clock."""
        return self.now + process.skew

    def _when(self, process: Process, time: int) -> int:
        """When a process's clock shows a time, or some time before."""
        return time - process.skew

    def _followed_stream(self, name: str) -> FollowedStream:
        followed_stream, kind = standing_by(self.rng, self.database, self._make_followed_stream)
        self.counts[f"start {kind}"] += 1
        return followed_stream

    def crash(self, process: Process) -> None:
        """Ends a process; its requests stay in flight."""
        process.alive = False
        if self.processes.get(process.name) is process:
            del self.processes[process.name]

    def deliver(self, process: Process, message: Message) -> None:
        """Delivers a message to a process, and sends its requests. It may crash in between."""
        was_reconciling = process.leader.reconciling
        now = self._clock(process)
        requests = process.leader.step([message], now, is_time_up=self._is_time_up)
        kind = type(message).__name__
        if was_reconciling:
            self.counts[f"{kind} among lists"] += 1
        self.trace.append((self.steps, self.now, process.number, kind, len(requests)))
        if process.leader.stopped:
            self.counts[f"deposed: {process.leader.stopped}"] += 1
            self.crash(process)
            return
        if process.leader.leading:
            self._compare(process)
        delicate = isinstance(message, DELICATE)
        if self._happens("crash when delicate" if delicate else "crash in step"):
            self.counts["crash"] += 1
            self.counts[f"crash after {kind}"] += 1
            self.counts["crash among lists"] += was_reconciling
            sent = self.rng.randint(0, len(requests))
            for request in requests[sent:]:
                self.counts[f"crash before {type(request).__name__}"] += 1
            self._send(process, requests[:sent])
            self.crash(process)
            return
        self._send(process, requests)

    def _is_time_up(self) -> bool:
        """Whether a leader that takes in lists has to go on in another step."""
        return self.rng.random() < 0.1

    def _compare(self, process: Process) -> None:
        if self.database.is_current(process.leader.term):
            self.auditor.compare(process.leader)

    def _watch(self, process: Process, resource: str) -> None:
        """Delivers the next event of one of a process's watches; sometimes the last ones are
        repeated. After a gap it is a list."""
        history, at = self.api.histories[resource], process.cursors[resource]
        if resource in process.gaps:
            relisted = process.gaps.pop(resource)
            if relisted is None:
                since = history[at - 1].resource_version if at else 0
                process.gaps[resource] = Relisted(self.api.list(resource), since)
                process.cursors[resource] = len(history)
            else:
                self.deliver(process, relisted)
            return
        if self._happens("repeat watch"):
            at = max(self.api.watchable_from[resource], at - self.rng.randint(1, 3))
        process.cursors[resource] = at + 1
        self.deliver(process, history[at])

    # --- the network ----------------------------------------------------------------------

    def _send(self, process: Process, requests: list[Request]) -> None:
        for request in requests:
            held_until = 0
            failure = rates.HELD.get(type(request))
            if failure is not None and self._happens(failure):
                held_until = self.now + self.rng.randint(0, 4 * SECOND)
            self.flights.append(Flight(process, request, held_until))

    def _move(self, flight: Flight) -> None:
        if flight.answer is None:
            self._arrive(flight)
        else:
            self._answer(flight)

    def _arrive(self, flight: Flight) -> None:
        """Executes a request, unless it is lost. The sender may time out before."""
        kind = type(flight.request).__name__
        is_bind = isinstance(flight.request, BindPod)
        if self._happens("lose bind" if is_bind else "lose request"):
            self.counts[f"lost {kind}"] += 1
            self.flights.remove(flight)
            self._time_out(flight)
            return
        if not flight.abandoned and self._happens("give up waiting"):
            self.counts[f"late {kind}"] += 1
            self._time_out(flight)
            return
        if flight.abandoned or not flight.process.alive:
            self.counts[f"ghost {kind}"] += 1
        flight.answer = self._carry_out(flight)
        if isinstance(flight.request, StoreSnapshot):
            self.flights.remove(flight)
        if flight.answer is None:
            return
        if flight.abandoned or not flight.process.alive:
            self.flights.remove(flight)
        elif self._happens("lose answer"):
            self.counts[f"unanswered {kind}"] += 1
            self.flights.remove(flight)
            self._time_out(flight)

    def _time_out(self, flight: Flight) -> None:
        if (
            flight.process.alive
            and not flight.abandoned
            and not isinstance(flight.request, StoreSnapshot)
        ):
            flight.abandoned = True
            silence = Flight(flight.process, flight.request, 0)
            silence.answer = Unknown(flight.request)
            self.flights.append(silence)

    def _answer(self, flight: Flight) -> None:
        self.flights.remove(flight)
        process, answer = flight.process, flight.answer
        assert answer is not None
        if not process.alive:
            return
        match answer:
            case Listed():
                process.watching, process.cursors, process.gaps = True, flight.cursors, {}
            case Acquired(since=since):
                process.barrier = flight.barrier
                self.counts["start over"] += since != flight.request.known
        self.deliver(process, answer)
        if isinstance(answer, Committed) and self._happens("fail over after commit"):
            self.counts["acknowledged and lost"] += ACTIONS["fail over"](self)

    def _carry_out(self, flight: Flight) -> Message | None:
        request = flight.request
        match request:
            case Acquire(known=known):
                flight.barrier = self.api.version
                return self.database.acquire(known)
            case Append(batch=batch):
                answer: Message = self.database.append(batch)
                self.auditor.read()
                return answer
            case Renew(term=term):
                return self.database.renew(term)
            case StoreSnapshot(term=term, snapshot=snapshot):
                self.database.store_snapshot(term, snapshot)
                return None
            case ListCluster():
                return self._list(flight)
            case GetPod():
                return self.api.get(request)
            case TouchPod():
                return self.api.touch(request)
            case EvictPod():
                self.auditor.evicted(request)
                return self.api.evict(request)
            case PatchStatus():
                return self.api.patch_status(request)
            case WriteEvent():
                self.auditor.announced(request)
                return self.api.write_event(request)
            case BindPod():
                answer = self.api.bind(request)
                if isinstance(answer, Bound):
                    self.auditor.bound(request, flight.process.barrier)
                return answer
        raise AssertionError(request)

    def _list(self, flight: Flight) -> Message | None:
        """Lists one resource per call; answers after the last one."""
        resources = self.api.resources
        resource = resources[len(flight.listings)]
        flight.listings.append(self.api.list(resource))
        flight.cursors[resource] = len(self.api.histories[resource])
        return flight.listed if len(flight.listings) == len(resources) else None

    # --- faults ---------------------------------------------------------------------------

    def _happens(self, name: str) -> bool:
        return self.faults and self.rng.random() < self._rates[name]

    def _fault(self) -> bool:
        """Perhaps one of the HAPPENINGS, which the scheduler does not cause. Returns whether."""
        drawn = self.rng.random()
        for name, action in ACTIONS.items():
            drawn -= self._rates[name]
            if drawn < 0:
                if action(self):
                    self.counts[name] += 1
                    self.trace.append((self.steps, self.now, name, self.api.version))
                return True
        return False
