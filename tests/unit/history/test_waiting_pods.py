"""Which pods wait: in the order in which the engine tries them, and with what could end it."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsched.domain import records
from eventsched.domain.objects import PodSpec
from eventsched.domain.records import Queue
from eventsched.history.past_state.state_document import AT_PERMIT, pod_document
from eventsched.history.past_state.waiting_pods import WaitingPod, WakingPlugin, waiting_pods
from eventsched.output.queues.queue_output import queue_text, waiting_json
from eventsched.output.state_output import pod_text, with_times
from eventsched.plugins.gallery.coscheduling import Coscheduling
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.taint_toleration import TaintToleration
from eventsched.runtime.assembly import assemble
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.queueing.queue_index import FLUSH_AFTER
from tests.builders import PROFILE, SECOND, engine_of, make_node, make_pod
from tests.gangs import member
from tests.properties.driving import Driver, engine_operations, node_operations, usage_operations
from tests.properties.strategies import deterministic, simple_specs


def waiting(engine: Engine) -> list[WaitingPod]:
    return waiting_pods(engine.state, engine._step.profiles)


@deterministic(60)
@given(
    st.lists(simple_specs, min_size=3, max_size=3),
    st.lists(engine_operations | usage_operations | node_operations, max_size=25),
)
def test_the_first_active_pod_is_tried_next(shapes: list[PodSpec], operations: list[Any]) -> None:
    driver = Driver(engine_of(NodeResourcesFit(), TaintToleration()), shapes)
    for operation in operations:
        driver.observe(operation)
    engine = driver.engine
    while True:
        pods = waiting(engine)
        active = [each for each in pods if each.place == Queue.ACTIVE]
        assert [each.number for each in active] == list(range(1, len(active) + 1))
        assert len(pods) == sum(engine.queue_lengths.values())
        decided = [e.record for e in engine.schedule_next()]
        if not decided:
            assert active == []
            return
        tried = next(r for r in decided if isinstance(r, records.PodDecided | records.PodSkipped))
        assert tried.uid == active[0].pod_state.pod.uid


def test_what_a_pod_waits_for() -> None:
    engine = assemble().engine()
    engine.observe(records.NodeAdded(node=make_node("n1", cpu=1000)), 0)
    for name, fields in (
        ("huge", {"cpu": 5000}), ("held", {"gates": ("example.com/later",)}), ("next", {}),
    ):  # fmt: skip
        pod = msgspec.structs.replace(make_pod(name, **fields), scheduler_name="default-scheduler")
        engine.observe(records.PodAdded(pod=pod), SECOND)
    engine.schedule_next()
    pods = {each.pod_state.pod.name: each for each in waiting(engine)}
    assert {name: each.place for name, each in pods.items()} == {
        "huge": Queue.UNSCHEDULABLE, "held": Queue.GATED, "next": Queue.ACTIVE,
    }  # fmt: skip
    fit = next(p for p in pods["huge"].plugins if p.plugin == "NodeResourcesFit")
    assert "NodeAdd" in fit.events
    assert pods["huge"].until == SECOND + FLUSH_AFTER
    assert pods["held"].plugins[0].plugin == "SchedulingGates"
    assert (pods["next"].until, pods["next"].added, pods["next"].plugins) == (0, SECOND, ())


def test_a_gang_waits_for_its_others() -> None:
    engine = engine_of(Coscheduling())
    engine.observe(records.NodeAdded(node=make_node("n1")), 0)
    for name in ("a", "b", "c"):
        engine.observe(records.PodAdded(pod=member(name)), 0)
    engine.schedule_next()
    [first, *others] = sorted(waiting(engine), key=lambda each: each.place != AT_PERMIT)
    assert (first.place, first.entered) == (AT_PERMIT, None)
    assert first.until > 0
    assert [p.plugin for p in first.plugins] == [Coscheduling.name]
    assert [each.place for each in others] == [Queue.ACTIVE, Queue.ACTIVE]


@pytest.mark.parametrize("created", [0, 1_700_000_000 * SECOND])
def test_a_pod_of_a_simulation_that_came_at_its_beginning(created: int) -> None:
    """Whether its manifest has the time of a real cluster, or none; tried or not."""
    engine = engine_of(NodeResourcesFit())
    engine.observe(records.NodeAdded(node=make_node("n1", cpu=1)), 0)
    pod = msgspec.structs.replace(make_pod("a", cpu=10), created_at=created)
    engine.observe(records.PodAdded(pod=pod), 0)
    for _ in range(2):
        [alone] = waiting(engine)
        assert (alone.added, alone.entered) == (0, 0)
        shown = waiting_json(alone, 90 * SECOND)
        assert (shown["age_seconds"], shown["waiting_seconds"]) == (90, 90)
        assert queue_text([alone], 90 * SECOND, {}).splitlines()[2].split()[3:5] == ["1m30s"] * 2
        engine.schedule_next()
    assert alone.place == Queue.UNSCHEDULABLE


def test_a_state_at_the_beginning_of_a_simulation_has_its_times() -> None:
    engine = engine_of(NodeResourcesFit())
    engine.observe(records.PodAdded(pod=make_pod("a", cpu=10)), 0)
    document = pod_document(engine.state, next(iter(engine.state.pods.values())))
    shown = with_times({"now": 0, **document})
    beginning = "1970-01-01T00:00:00+00:00"
    assert [shown[name] for name in ("now", "since", "backoff_until")] == [*[beginning] * 2, None]
    assert "since            00:00:00.000" in pod_text(document)


def test_a_pod_whose_arrival_is_unknown_has_no_age() -> None:
    engine = engine_of(NodeResourcesFit())
    now = 1_700_000_000 * SECOND
    engine.observe(records.NodeAdded(node=make_node("n1", cpu=1)), now)
    engine.observe(records.PodAdded(pod=make_pod("a", cpu=10)), now)
    assert [each.added for each in waiting(engine)] == [now]
    engine.schedule_next()
    [alone] = waiting(engine)
    assert (alone.added, alone.entered) == (None, now)
    assert waiting_json(alone, now)["age_seconds"] is None


def test_a_plugin_that_is_gone_has_no_events() -> None:
    engine = engine_of(NodeResourcesFit())
    engine.observe(records.NodeAdded(node=make_node("n1", cpu=1)), 0)
    engine.observe(records.PodAdded(pod=make_pod("a", cpu=10)), 0)
    engine.schedule_next()
    [alone] = waiting_pods(engine.state, engine_of(TaintToleration())._step.profiles)
    assert alone.plugins == (WakingPlugin("NodeResourcesFit"),)
    assert alone.pod_state.pod.scheduler_name == PROFILE


def test_names_that_users_choose_are_not_taken_for_times() -> None:
    labels = {"now": "x", "since": "2024", "backoff_until": "", "waits_for": "y"}
    document = {"now": 0, "node": {"labels": labels, "allocatable": {"now": 5}}}
    assert with_times(document)["node"] == document["node"]
    assert with_times(document)["now"] == "1970-01-01T00:00:00+00:00"
