"""Gangs under whatever happens: never placed in part, never too many on a node, always live."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import Outcome
from eventsched.domain.records.log_entry import LogEntry
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.framework.pod_groups import MINIMUM, NAMES, membership
from eventsched.scheduling.framework.profile import Profile
from tests.builders import PROFILE, SECOND, make_node, make_pod
from tests.gangs import Room

from .strategies import deterministic

MINIMA = {"a": 2, "b": 3, "c": 5}
ROOM = {"base": 5, "n1": 1, "n2": 2, "n3": 4}
"""How many pods each node takes; the first is always there."""

Operation = tuple[Any, ...]
OPERATIONS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(["a", "b", "c", ""]), st.sampled_from([0, 0, 5])),
    st.tuples(st.just("whole"), st.sampled_from(["a", "b", "c"])),
    st.tuples(st.just("pod gone"), st.integers(0, 20)),
    st.tuples(st.just("node"), st.sampled_from(["n1", "n2", "n3"])),
    st.tuples(st.just("node gone"), st.sampled_from(["n1", "n2", "n3"])),
    st.tuples(st.just("bound"), st.integers(0, 20)),
    st.tuples(st.just("bind failed"), st.integers(0, 20)),
    st.tuples(st.just("time"), st.sampled_from([0.5, 1, 3, 11, 31, 301])),
    st.tuples(st.just("restart")),
)
PLAYS = st.lists(st.tuples(OPERATIONS, st.integers(0, 6)), max_size=40)


def gang_engine() -> Engine:
    """With Coscheduling as the QueueSort, too."""
    plugins = [Coscheduling(), Room(), DefaultBinder()]
    points = {point: [each for each in plugins if point in points_of(each)] for point in POINTS}
    return Engine({PROFILE: Profile(PROFILE, points, {})})


class World:
    """An engine, its log, and what must hold after each step."""

    def __init__(self) -> None:
        self.engine = gang_engine()
        self.log: list[LogEntry] = []
        self.born = 0
        self.observe(records.NodeAdded(node=make_node("base", pods=ROOM["base"])))

    def observe(self, stimulus: records.Stimulus, at: int = 0) -> None:
        """One step."""
        self._take(self.engine.observe(stimulus, max(at, self.engine.state.now)))

    def attempt(self) -> None:
        """One step."""
        self._take(self.engine.schedule_next())

    def _take(self, logged: list[LogEntry]) -> None:
        self.log += logged
        for each in logged:
            self._check_release(each.record)
        nodes = self.engine.state.nodes
        for name, row in nodes.rows.items():
            assert len(nodes.residents[row]) <= ROOM[name]

    def _check_release(self, record: Any) -> None:
        is_decided = isinstance(record, records.PodDecided)
        if isinstance(record, records.PermitGranted) or (
            is_decided and record.outcome is Outcome.SCHEDULED
        ):
            own = membership(self.engine.state.pods[record.uid].pod)
            if own is not None:
                assert len(self.placed(own.group)) >= own.minimum

    def members(self, group: str) -> list[str]:
        """The pods of a group."""
        return [
            uid
            for uid, each in self.engine.state.pods.items()
            if (own := membership(each.pod)) is not None and own.group == group
        ]

    def placed(self, group: str) -> list[str]:
        """Those of them that have a node."""
        return [uid for uid in self.members(group) if self.engine.state.pods[uid].booked_node]

    def add(self, gang: str, priority: int = 0) -> None:
        """A pod of a gang, or of none."""
        self.born += 1
        labels = {NAMES[0]: gang, MINIMUM: str(MINIMA[gang])} if gang else {}
        name = f"{gang or 'single'}-{self.born}"
        pod: Pod = make_pod(name, labels=labels, priority=priority, created_at=self.born)
        self.observe(records.PodAdded(pod=pod))

    def check_restart(self) -> None:
        """Another engine reads the log and continues as this one would."""
        again = gang_engine()
        for each in self.log:
            stored = records.decode(records.encode(each.record))
            again.apply(each._replace(record=stored, detail=None))
        restored = gang_engine()
        restored.restore(self.engine.snapshot(), self.engine.position)
        for other in (again, restored):
            assert other.state.digest() == self.engine.state.digest()
            assert dict(other.queue_lengths) == dict(self.engine.queue_lengths)
            assert other.due == self.engine.due
        self.engine = restored if self.born % 2 else again

    def play(self, operation: Operation) -> None:
        """Makes an operation."""
        state, rows = self.engine.state, self.engine.state.nodes.rows
        match operation:
            case ("pod", gang, priority):
                self.add(gang, priority)
            case ("whole", gang):
                for _ in range(MINIMA[gang]):
                    self.add(gang)
            case ("pod gone", index) if state.pods:
                self.observe(records.PodDeleted(uid=sorted(state.pods)[index % len(state.pods)]))
            case ("node", name) if name not in rows:
                self.observe(records.NodeAdded(node=make_node(name, pods=ROOM[name])))
            case ("node gone", name) if name in rows:
                self.observe(records.NodeDeleted(name=name))
            case ("bound" | "bind failed", index):
                self.end(index, failed=operation[0] == "bind failed")
            case ("time", seconds):
                self.observe(records.TimePassed(), state.now + int(seconds * SECOND))
            case ("restart",):
                self.check_restart()

    def end(self, index: int, *, failed: bool) -> None:
        """The outcome of a bind that is under way."""
        held = self.engine.state.reservations
        intended = sorted(uid for uid, each in held.items() if each.intended)
        if intended:
            uid = intended[index % len(intended)]
            node = held[uid].node
            if failed:
                self.observe(records.BindFailed(uid=uid, node=node, message="no"))
            else:
                self.observe(records.BindSucceeded(uid=uid, node=node))

    def settle(self, group: str, enough: int) -> None:
        """Lets time go by, with the flush, until a group is placed."""
        for _ in range(200):
            while not self.engine.idle:
                self.attempt()
            if len(self.placed(group)) >= enough:
                return
            times = [t for t in (self.engine.due, self.engine.flush_due) if t is not None]
            assert times, "no pod would ever be tried again"
            self.observe(records.TimePassed(), min(times))


@deterministic(150)
@given(PLAYS)
def test_all_or_nothing_whatever_happens(plays: list[tuple[Operation, int]]) -> None:
    """With restarts anywhere; World looks after each step."""
    world = World()
    for operation, attempts in plays:
        world.play(operation)
        for _ in range(attempts):
            world.attempt()
    world.check_restart()


@deterministic(100)
@given(PLAYS, st.sampled_from(["a", "b", "c"]))
def test_a_gang_that_fits_goes_when_the_others_are_gone(
    plays: list[tuple[Operation, int]], gang: str
) -> None:
    """Whatever was before."""
    world = World()
    for operation, attempts in plays:
        world.play(operation)
        for _ in range(attempts):
            world.attempt()
    group = f"default/{gang}"
    kept = world.members(group)[: MINIMA[gang]]
    for uid in sorted(world.engine.state.pods):
        if uid not in kept:
            world.observe(records.PodDeleted(uid=uid))
    for _ in range(MINIMA[gang] - len(kept)):
        world.add(gang)
    world.settle(group, MINIMA[gang])
    assert len(world.placed(group)) == MINIMA[gang]


def test_many_gangs_cost_what_they_are() -> None:
    """A thousand gangs of eight, of which half have room: attempts grow with the pods, not with
    their square."""
    engine = gang_engine()
    logged = len(engine.observe(records.NodeAdded(node=make_node("big", pods=4000)), 0))
    for number in range(8000):
        labels = {NAMES[0]: f"g{number % 1000}", MINIMUM: "8"}
        pod = make_pod(f"p{number}", labels=labels, created_at=number)
        logged += len(engine.observe(records.PodAdded(pod=pod), 0))
    attempts = 0
    while not engine.idle:
        logged += len(engine.schedule_next())
        attempts += 1
    sizes = Counter(
        each.pod.labels[NAMES[0]] for each in engine.state.pods.values() if each.booked_node
    )
    assert sizes == dict.fromkeys((f"g{number}" for number in range(500)), 8)
    assert attempts < 2 * 8000
    assert logged < 10 * 8000
