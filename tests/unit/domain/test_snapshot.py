"""A snapshot gives the state back: an engine that begins with it goes on exactly like the one that
it was taken of, record for record."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.cluster.sources import generated
from eventsched.domain import records
from eventsched.domain.objects import CPU, MEMORY, Pod
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state import snapshot
from eventsched.domain.state.parts.reservations import Reservation
from eventsched.domain.state.pod_blocks import PodSnapshot
from eventsched.domain.state.scheduler_state import PodState, SchedulerState
from eventsched.domain.state.state_snapshot import ReservationSnapshot, StateSnapshot, copied
from eventsched.eventlog.port import StoredRecord
from eventsched.plugins import IN_TREE
from eventsched.runtime.assembly import assemble_loaded
from eventsched.scheduling.config import configuration
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Wait
from tests.builders import (
    GIB,
    SECOND,
    added,
    attempted,
    engine_with,
    make_node,
    make_pod,
    observed,
)
from tests.properties import driving, strategies
from tests.properties.driving import Driver, Operation


class Gang:
    """Every second pod waits at Permit; the others let some go and refuse some, in the order in
    which they wait, and remember it."""

    name = "Gang"

    def permit(self, cycle: Any, pod: Any, node: str) -> Wait | None:
        number = int(pod.uid.rpartition("-")[2])
        waiting = list(cycle.waiting)
        if number % 2:
            cycle.data["before"] = waiting
            return Wait(1 + number % 5)
        for place, uid in enumerate(waiting[:3]):
            if place:
                cycle.allow(uid)
            else:
                cycle.reject(uid, f"first of {len(waiting)}")
        cycle.remember(f"seen by {pod.uid}", {"waiting": waiting, "at": cycle.now / 2})
        cycle.remember(f"seen by pod-{number - 6}", None)
        return None


CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Gang}, {name: FirstScheduledNode}]}}
- schedulerName: second
"""
PROFILES = assemble_loaded(
    configuration.load(CONFIGURATION, "test.yaml"), "test.yaml", {**IN_TREE, "Gang": Gang}
).profiles


def engine() -> Engine:
    return Engine(PROFILES)


def restored(live: Engine) -> Engine:
    """An engine that begins with a snapshot of another."""
    other = engine()
    other.restore(live.snapshot(), live.position)
    return other


def stored(logged: list[LogEntry]) -> list[StoredRecord]:
    """All that the log gets to see of a step, byte for byte, the vectors apart."""
    return [StoredRecord.of(each) for each in logged]


def assert_alike(one: Engine, other: Engine) -> None:
    assert other.state.digest() == one.state.digest()
    assert other.position == one.position
    assert dict(other.queue_lengths) == dict(one.queue_lengths)
    assert (other.due, other.flush_due, other.idle) == (one.due, one.flush_due, one.idle)
    assert books(other) == books(one)
    assert kept(other) == kept(one)


def books(engine: Engine) -> dict[str, Any]:
    """What each resource's columns hold; their order does not matter."""
    nodes = engine.state.nodes
    return {
        name: (nodes.totals[:, index].tolist(), nodes.books[: nodes.size, :, index].tolist())
        for name, index in nodes.resource_index.items()
    }


def kept(engine: Engine) -> dict[str, Any]:
    """All of the state; the order of pods and resources does not matter, except for pods that
    wait."""
    found = msgspec.json.decode(engine.snapshot(), type=snapshot.EncodedState).decoded()
    waiting = [uid for uid, held in found.reservations.items() if held.waits]
    pods = {each.pod.uid: each for each in found.pods}
    return {**msgspec.structs.asdict(found), "pods": pods, "resources": set(found.resources),
            "waiting": waiting}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "stored"),
    [(PodState, PodSnapshot), (Reservation, ReservationSnapshot)],
)
def test_no_field_is_forgotten(kind: type[Any], stored: type[msgspec.Struct]) -> None:
    assert sorted(stored.__struct_fields__) == sorted(kind.__slots__)


def test_no_part_of_the_state_is_forgotten() -> None:
    """The parts that are not stored are derived from those that are."""
    derived = {
        "verdict_numbers",
        "scoring_numbers",
        "_specs",
        "_on_unknown_nodes",
        "quotas",
    }
    parts = set(vars(SchedulerState())) - derived - {"nodes"} | {
        "resources",
        "nodes",
        "free_rows",
        "samples",
    }
    assert set(StateSnapshot.__struct_fields__) == parts


plays = st.lists(
    st.one_of(
        driving.node_operations,
        driving.engine_operations,
        driving.engine_operations,
        driving.usage_operations,
    ),
    min_size=5,
    max_size=40,
)
shapes = st.lists(strategies.simple_specs, min_size=3, max_size=3)


@strategies.deterministic(60)
@given(shapes, plays, st.integers(0, 40))
def test_engines_go_on_alike(shapes: list[Any], operations: list[Operation], middle: int) -> None:
    live = Driver(engine(), shapes)
    middle = min(middle, len(operations))
    for operation in operations[:middle]:
        live.play(operation)
    again = Driver(restored(live.engine), shapes)
    vars(again).update({k: v for k, v in vars(live).items() if k != "engine"})
    assert_alike(live.engine, again.engine)
    for operation in operations[middle:]:
        assert stored(again.play(operation)) == stored(live.play(operation))
    assert_alike(live.engine, again.engine)


class _Chances:
    """Nodes and pods by chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._specs = [
            arrival.pod.spec
            for arrival in generated.parse(f"nodes=1,pods=40,shape=mixed,seed={seed}").pods()
        ]
        self._born = 0

    def node(self, name: str) -> records.Stimulus:
        chance = self._chance
        extra = {f"example.com/{each}": 2 for each in chance.sample("abc", chance.randint(0, 2))}
        labels = {"topology.kubernetes.io/zone": f"zone-{chance.randint(0, 2)}"}
        made = make_node(name, cpu=chance.choice([2000, 4000]), extra=extra, labels=labels,
                         unschedulable=chance.random() < 0.1)  # fmt: skip
        return chance.choice([records.NodeAdded, records.NodeUpdated])(node=made)

    def pod(self) -> records.Stimulus:
        chance = self._chance
        self._born += 1
        return records.PodAdded(
            pod=msgspec.structs.replace(
                self._requests(),
                name=f"pod-{chance.randint(0, 20)}-{self._born}",
                priority=chance.choice([0, 0, 10]),
                gates=("g",) if chance.random() < 0.1 else (),
                node_name=chance.choice(["n1", "n9", "away"]) if chance.random() < 0.15 else "",
                scheduler_name=chance.choice(["default-scheduler"] * 4 + ["second", "theirs"]),
            )
        )

    def _requests(self) -> Pod:
        """The latest pod, with requests, ports or a whole spec by chance."""
        chance, name = self._chance, f"pod-{self._born}"
        made = make_pod(name, cpu=chance.choice([0, 500, 1000]), memory=GIB // 4)
        if chance.random() < 0.4:
            return msgspec.structs.replace(made, spec=chance.choice(self._specs))
        if chance.random() < 0.3:
            asked = {f"example.com/{chance.choice('dcba')}": 1, CPU: 100, MEMORY: GIB // 8}
            container = msgspec.structs.replace(made.spec.containers[0], requests=asked)
            spec = msgspec.structs.replace(made.spec, containers=(container,))
            return msgspec.structs.replace(made, spec=spec)
        if chance.random() < 0.3:
            return make_pod(name, cpu=100, memory=GIB // 8, ports=(80,))
        return made

    def moment(self, now: int) -> tuple[int, records.Stimulus | None]:
        """What happens next, and when: time may have passed."""
        chance = self._chance
        what = chance.random()
        name = f"n{chance.randint(1, 5)}"
        uid = f"pod-{chance.randint(1, self._born + 1)}"
        if what < 0.12:
            return now, self.node(name)
        if what < 0.17:
            return now, records.NodeDeleted(name=name)
        if what < 0.40:
            return now, self.pod()
        if what < 0.46:
            return now, records.PodDeleted(uid=uid)
        if what < 0.56:
            kind = chance.choice([records.BindSucceeded, records.BindSucceeded, records.BindFailed])
            more = {"message": "no"} if kind is records.BindFailed else {}
            return now, kind(uid=uid, node="?", **more)
        if what < 0.66:
            return now + int(chance.choice([0.3, 1, 2, 11, 301]) * SECOND), records.TimePassed()
        return now, None


def moments(seed: int) -> list[tuple[int, records.Stimulus | None]]:
    """Stimuli with their times (None: an attempt) in which everything occurs that a state can
    hold: nodes that go and come again, pods of others on nodes that are known or not, gates, ports,
    extended resources in an odd order, waits at Permit, outcomes of binds, priorities, profiles."""
    chances = _Chances(seed)
    now = 0
    found = []
    for _ in range(160):
        now, stimulus = chances.moment(now)
        found.append((now, stimulus))
    return found


def step(engine: Engine, at: int, stimulus: records.Stimulus | None) -> list[LogEntry]:
    """Makes one; a bind's outcome names the node where the pod is."""
    if stimulus is None:
        return engine.schedule_next()
    if isinstance(stimulus, records.BindSucceeded | records.BindFailed):
        held = engine.state.reservations.get(stimulus.uid)
        if held is None:
            return []
        stimulus = msgspec.structs.replace(stimulus, node=held.node)
    return engine.observe(stimulus, at)


@pytest.mark.properties
@pytest.mark.parametrize("seed", range(5))
def test_every_position_of_a_run(seed: int) -> None:
    """Restored after each step; each copy goes on for a while beside the original, and is then
    as it is, in all that a snapshot holds."""
    live, found = engine(), moments(seed)
    copies: list[Any] = []
    for number, (at, stimulus) in enumerate(found):
        expected = stored(step(live, at, stimulus))
        for copy in copies:
            assert stored(step(copy, at, stimulus)) == expected
        copies.append(restored(live))
        assert_alike(live, copies[-1])
        if len(copies) > 12:
            del copies[number % 12]  # some go on for long
    for copy in copies:
        assert_alike(live, copy)


@pytest.mark.parametrize("seed", range(5))
def test_states_filled_from_one_copy_share_nothing_that_changes(seed: int) -> None:
    live, found = engine(), moments(seed)
    copies = []
    for number, (at, stimulus) in enumerate(found):
        if number % 10 == 9:
            copies.append((copied(live.state), live.position, live.snapshot(), number))
        step(live, at, stimulus)
    for copy, position, before, number in copies:
        for _ in range(2):
            filled = engine()
            filled.restore(copy, position)
            assert filled.snapshot() == before
            for at, stimulus in found[number:]:
                step(filled, at, stimulus)
            assert_alike(live, filled)


@pytest.mark.parametrize("seed", range(3))
def test_an_engine_of_a_state_is_as_the_one_that_made_it(seed: int) -> None:
    live = engine()
    for number, (at, stimulus) in enumerate(moments(seed)):
        step(live, at, stimulus)
        if number % 10 == 9:
            assert_alike(live, Engine(PROFILES, state=live.state))


def test_the_runs_have_everything() -> None:
    seen, held = set(), set()
    for seed in range(5):
        live = engine()
        for at, stimulus in moments(seed):
            seen |= {type(each.record).__name__ for each in step(live, at, stimulus)}
            state = live.state
            names = [name for name in state.nodes.names if name in state.nodes.rows]
            held |= {
                "a name on two rows" if len(names) > len(set(names)) else "",
                "an unknown node"
                if any(p.booked_node and p.row < 0 for p in state.pods.values())
                else "",
                *(f"{pod.queue} queue" for pod in state.pods.values()),
                *("carry" for each in state.reservations.values() if each.carry),
                *("waits" for each in state.reservations.values() if each.waits),
                *(f"memory of {plugin}" for plugin, memory in state.memory.items() if memory),
            }
    assert seen >= {
        "BindFailed", "MemoryChanged", "NodeDeleted", "NodeUpdated", "PermitGranted", "PodBound",
        "PodDeleted", "PodUnreserved", "ScoringDefined", "VerdictDefined",
    }  # fmt: skip
    assert held >= {
        "a name on two rows", "an unknown node", "active queue", "backoff queue", "gated queue",
        "unschedulable queue", "carry", "waits", "memory of Gang", "memory of FirstScheduledNode",
    }  # fmt: skip


def largest_part(pods: int) -> int:
    """The bytes of the largest part of a snapshot of pods that share nothing."""
    state = SchedulerState()
    for number in range(pods):
        pod = make_pod(f"p{number:05}", cpu=number + 1, labels={"own": "x" * 999 + f"{number:05}"})
        state.apply(records.PodAdded(pod=pod), 0)
    parts = list(snapshot.parts(copied(state)))
    assert len(restored_state(b"".join(parts)).pods) == pods
    return max(map(len, parts))


def restored_state(body: bytes) -> SchedulerState:
    state = SchedulerState()
    snapshot.restore(state, body)
    return state


def test_no_part_grows_with_the_number_of_pods() -> None:
    """A leader encodes a part at a time, and schedules in between."""
    assert largest_part(2_000) == pytest.approx(largest_part(1_000), rel=0.05)


def test_a_restored_state_equals_the_fold() -> None:
    found = moments(11)
    live, folded = engine(), engine()
    for at, stimulus in found:
        for each in step(live, at, stimulus):
            folded.apply(each._replace(record=StoredRecord.of(each).record, detail=None))
    assert_alike(folded, restored(live))


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[]", b'{"now": "x"}', b"\xff"])
def test_other_bytes_are_refused(body: bytes) -> None:
    with pytest.raises((msgspec.ValidationError, msgspec.DecodeError)):
        engine().restore(body, 0)


def test_the_order_in_which_pods_came_to_a_node_is_kept() -> None:
    """Among equals it decides who is evicted."""
    engine = engine_with()
    gated = make_pod("a", cpu=2000, gates=("g",))
    observed(engine, *added(make_node(), gated, make_pod("b", cpu=2000)))
    attempted(engine)
    observed(engine, records.BindSucceeded(uid="b", node="n1"))
    observed(engine, records.PodUpdated(pod=make_pod("a", cpu=2000)))
    attempted(engine)
    observed(engine, records.BindSucceeded(uid="a", node="n1"))
    again = engine_with()
    again.restore(engine.snapshot(), engine.position)
    assert again.state.digest() == engine.state.digest()
    assert list(again.state.nodes.residents[0]) == list(engine.state.nodes.residents[0])
    decided = []
    for each in (engine, again):
        observed(each, *added(make_pod("high", cpu=1000, priority=9)))
        decided.append(attempted(each))
    assert decided[0] == decided[1]
