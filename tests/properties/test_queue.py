"""The queue against a naive model: lists and dictionaries, looked through from end to end.

Pods ask for cpu only, so the model can compute what fits; a pod's ``errors`` label makes its first
attempts fail in Reserve. After every step all pods are in the same queues in the engine and in the
model.
"""

from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import CPU, PODS, Container, Node, Pod, PodSpec
from eventsched.domain.records import Outcome, PodDecided, PodQueued, Queue
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.units import SECOND
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.plugins.scheduling_gates import SchedulingGates
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle, Status
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.queueing.queue_index import Backoff

from .strategies import deterministic

INITIAL, LONGEST, FLUSH = 1 * SECOND, 10 * SECOND, 300 * SECOND
FIT = "NodeResourcesFit"


class Flaky:
    """Reserve is broken for the first attempts of a pod that says so."""

    name = "Flaky"

    def reserve(self, cycle: Cycle, pod: Pod, node: str) -> Status | None:
        broken = cycle.attempt <= int(pod.labels.get("errors", "0"))
        return Status.error("broken") if broken else None


def profile() -> Profile:
    fit = NodeResourcesFit()
    points: dict[str, list[Any]] = {
        "preEnqueue": [SchedulingGates()], "queueSort": [PrioritySort()], "filter": [fit],
        "score": [fit], "reserve": [Flaky()], "bind": [DefaultBinder()],
    }  # fmt: skip
    return Profile("default-scheduler", points, {})


@dataclass
class Known:
    """The model's state of a pod. ``place`` is a queue's name, "reserved" or "bound"."""

    pod: Pod
    cpu: int
    place: str = ""
    order: int = 0
    since: int = 0
    entered: int = 0
    until: int = 0
    failures: int = 0
    errors: int = 0
    attempts: int = 0
    node: str = ""
    lonely: bool = False
    """Whether there was no node to refuse it: any change of the cluster wakes it."""


class QueueMachine(RuleBasedStateMachine):
    """The engine and the model, given the same."""

    def __init__(self) -> None:
        super().__init__()
        backoff = Backoff(INITIAL // SECOND, LONGEST // SECOND)
        self.engine = Engine({"default-scheduler": profile()}, backoff)
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Known] = {}
        self.now = self.clock = self.born = 0
        self.position = 0

    # --- the model's moves ------------------------------------------------------------------------

    def _move(self, known: Known, place: str) -> None:
        self.clock += 1
        known.place, known.order, known.entered = place, self.clock, self.now

    def _failed(self, known: Known, place: str, count: int) -> None:
        known.until = self.now + min(LONGEST, INITIAL * 2 ** (count - 1))
        known.since, known.node = self.now, ""
        self._move(known, place)

    def _up(self, known: Known) -> None:
        self._move(known, "backoff" if known.until > self.now else "active")

    def _free(self, name: str) -> tuple[int, int]:
        node = self.nodes[name]
        on = [k for k in self.pods.values() if k.node == name]
        return (
            node.allocatable[CPU] - sum(k.cpu for k in on),
            node.allocatable[PODS] - len(on),
        )

    def _fits(self, known: Known, name: str) -> bool:
        cpu, pods = self._free(name)
        return known.cpu <= cpu and pods >= 1

    def _wake(self, name: str, *, added: bool = False, listened: bool = True) -> None:
        """Whom a change on a node concerns, in the order in which they came."""
        parked = [k for k in self.pods.values() if k.place == "unschedulable"]
        for known in sorted(parked, key=lambda k: k.order):
            there = name in self.nodes
            if known.lonely or (listened and (not there or self._fits(known, name))):
                self._up(known)

    def _of(self, *places: str) -> list[Known]:
        return [known for known in self.pods.values() if known.place in places]

    # --- what is done to both ---------------------------------------------------------------------

    def _observe(self, stimulus: records.Stimulus) -> list[LogEntry]:
        logged = self.engine.observe(stimulus, self.now)
        self._check(logged)
        return logged

    def _check(self, logged: list[LogEntry]) -> None:
        for each in logged:
            assert (each.position, each.at) == (self.position, self.now)
            assert each.cause == logged[0].position
            self.position += 1

    @rule(
        cpu=st.sampled_from([0, 100, 400, 900]), priority=st.sampled_from([0, 0, 7]),
        gated=st.sampled_from([False, False, True]), errors=st.sampled_from([0, 0, 0, 1, 4]),
    )  # fmt: skip
    def pod_arrives(self, cpu: int, priority: int, gated: bool, errors: int) -> None:
        self.born += 1
        uid = f"p{self.born}"
        spec = PodSpec(containers=(Container(requests={CPU: cpu} if cpu else {}),))
        pod = Pod(
            uid=uid, name=uid, priority=priority, gates=("g",) if gated else (),
            labels={"errors": str(errors)} if errors else {}, spec=spec,
        )  # fmt: skip
        known = self.pods[uid] = Known(pod, cpu, since=self.now)
        self._move(known, "gated" if gated else "active")
        logged = self._observe(records.PodAdded(pod=pod))
        assert [type(each.record) for each in logged] == [records.PodAdded, PodQueued]

    @rule(data=st.data(), cpu=st.sampled_from([0, 100, 900, 2000]), pods=st.sampled_from([1, 3, 9]))
    def node_arrives_or_changes(self, data: st.DataObject, cpu: int, pods: int) -> None:
        name = data.draw(st.sampled_from(["a", "b", "c"]))
        node, old = Node(name=name, allocatable={CPU: cpu, PODS: pods}), self.nodes.get(name)
        self.nodes[name] = node
        if old is None:
            self._observe(records.NodeAdded(node=node))
        elif old != node:
            self._observe(records.NodeUpdated(node=node))
        if old != node:
            self._wake(name)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def node_leaves(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        del self.nodes[name]
        self._observe(records.NodeDeleted(name=name))
        self._wake(name, listened=False)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def pod_leaves(self, data: st.DataObject) -> None:
        known = self.pods.pop(data.draw(st.sampled_from(sorted(self.pods))))
        self._observe(records.PodDeleted(uid=known.pod.uid))
        if known.node in self.nodes:
            self._wake(known.node)

    @precondition(lambda self: self._of("gated", "backoff", "active", "unschedulable"))
    @rule(data=st.data(), number=st.integers(0, 99))
    def pod_changes(self, data: st.DataObject, number: int) -> None:
        waiting = self._of("gated", "backoff", "active", "unschedulable")
        known = data.draw(st.sampled_from(waiting))
        labels = {**known.pod.labels, "number": str(number)}
        changed = msgspec.structs.replace(known.pod, gates=(), labels=labels)
        if changed == known.pod:
            return
        known.pod = changed
        if known.place == "gated":
            self._move(known, "active")
        elif known.place == "unschedulable":
            self._up(known)
        self._observe(records.PodUpdated(pod=changed))

    @precondition(lambda self: self._of("reserved"))
    @rule(data=st.data(), succeeds=st.sampled_from([True, True, False]))
    def bind_ends(self, data: st.DataObject, succeeds: bool) -> None:
        known = data.draw(st.sampled_from(self._of("reserved")))
        uid, node = known.pod.uid, known.node
        if succeeds:
            known.place, known.failures, known.errors = "bound", 0, 0
            self._observe(records.BindSucceeded(uid=uid, node=node))
            self._wake(node, listened=False)
            return
        self._observe(records.BindFailed(uid=uid, node=node, message="no"))
        known.node = ""
        self._wake(node)
        known.errors += 1
        self._failed(known, "backoff", known.errors)

    @rule(seconds=st.sampled_from([0.25, 1, 2, 4, 10, 100, 301]))
    def time_passes(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        for known in sorted(self._of("backoff"), key=lambda k: (k.until, k.order)):
            if known.until <= self.now:
                self._move(known, "active")
        for known in sorted(self._of("unschedulable"), key=lambda k: (k.entered, k.order)):
            if known.entered + FLUSH <= self.now:
                self._up(known)
        logged = self._observe(records.TimePassed())
        moves: list[Any] = [each.record for each in logged[1:]]
        assert all(isinstance(move, PodQueued) for move in moves)
        assert len({move.uid for move in moves}) == len(moves)

    @rule(count=st.integers(1, 4))
    def attempts_are_made(self, count: int) -> None:
        for _ in range(count):
            self._attempt()

    def _attempt(self) -> None:
        logged = self.engine.schedule_next()
        self._check(logged)
        active = self._of("active")
        if not active:
            assert logged == []
            return
        known = min(active, key=lambda k: (-k.pod.priority, k.since, k.order))
        (decided,) = [e.record for e in logged if isinstance(e.record, PodDecided)]
        moves = [each.record for each in logged if isinstance(each.record, PodQueued)]
        known.attempts += 1
        assert (decided.uid, decided.attempt) == (known.pod.uid, known.attempts)
        assert known.until <= self.now
        fitting = sorted(name for name in self.nodes if self._fits(known, name))
        assert decided.feasible == len(fitting)
        broken = known.attempts <= int(known.pod.labels.get("errors", "0"))
        if fitting and not broken:
            assert (decided.outcome, moves) == (Outcome.SCHEDULED, [])
            assert decided.node in fitting
            known.place, known.node, known.until, known.lonely = "reserved", decided.node, 0, False
            return
        (move,) = moves
        assert (move.uid, move.cause) == (known.pod.uid, "AttemptFailed")
        if fitting:
            assert decided.outcome is Outcome.ERROR
            known.errors, known.lonely = known.errors + 1, True
            self._failed(known, "backoff", known.errors)
        else:
            assert decided.outcome is Outcome.UNSCHEDULABLE
            known.failures, known.errors, known.lonely = known.failures + 1, 0, not self.nodes
            assert move.rejectors == ((FIT,) if self.nodes else ())
            self._failed(known, "unschedulable", known.failures)

    # --- what holds after every step --------------------------------------------------------------

    @invariant()
    def every_pod_is_in_its_one_place(self) -> None:
        state = self.engine.state
        assert set(state.pods) == set(self.pods)
        for uid, known in self.pods.items():
            found = state.pods[uid]
            place = found.queue.value if found.queue else "bound" if found.bound else "reserved"
            assert place == known.place, uid
            assert (uid in state.reservations) == (place == "reserved")
            assert (found.until, found.failures, found.errors, found.attempts) == (
                known.until, known.failures, known.errors, known.attempts,
            ), uid  # fmt: skip
        lengths = {queue: len(self._of(queue.value)) for queue in Queue}
        assert dict(self.engine.queue_lengths) == lengths
        assert self.engine.idle == (lengths[Queue.ACTIVE] == 0)

    @invariant()
    def timers_are_the_earliest(self) -> None:
        assert self.engine.due == min((k.until for k in self._of("backoff")), default=None)
        flushes = [k.entered + FLUSH for k in self._of("unschedulable")]
        assert self.engine.flush_due == min(flushes, default=None)

    @invariant()
    def books_are_right(self) -> None:
        table = self.engine.state.nodes
        view = NodeView(table)
        requested, pods = view.requested((CPU,))[0], view.pods
        nonzero = view.nonzero_requested((CPU,))[0]
        assert min(requested.min(initial=0), pods.min(initial=0), nonzero.min(initial=0)) == 0
        for row in np.flatnonzero(~table.alive[: table.size]).tolist():
            assert (requested[row], pods[row], nonzero[row]) == (0, 0, 0)
        for name, row in table.rows.items():
            on = [k for k in self.pods.values() if k.node == name]
            assert requested[row] == sum(k.cpu for k in on)
            assert nonzero[row] == sum(k.cpu or 100 for k in on)
            assert pods[row] == len(on)


TestQueue = QueueMachine.TestCase
TestQueue.settings = deterministic(60, stateful_step_count=40)
