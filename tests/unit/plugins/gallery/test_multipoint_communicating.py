"""multipoint-communicating-plugin: one pod is never bound, while others are."""

from typing import Any

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided
from eventsched.plugins.gallery.multipoint_communicating import (
    MultipointCommunicating,
    MultipointCommunicatingArgs,
)
from eventsched.scheduling.framework import Status, Wait
from tests.builders import (
    PROFILE,
    SECOND,
    active,
    added,
    attempted,
    backing_off,
    engine_of,
    make_node,
    make_pod,
    observed,
    scheduled,
)

NAME = "multipoint-communicating-plugin"


def denied(attempt: int = 1, **fields: Any) -> PodDecided:
    """An attempt that PreBind ends."""
    return PodDecided(
        uid="my-test-pod", attempt=attempt, outcome=Outcome.UNSCHEDULABLE, profile=PROFILE,
        node="n1", row=0, feasible=1, evaluated=1, ties=1, plugin=NAME,
        message="pod is not permitted", **fields,
    )  # fmt: skip


def test_the_pod_is_never_bound_and_others_are() -> None:
    """However often it is tried; nothing of it stays on the node."""
    engine = engine_of(MultipointCommunicating())
    observed(engine, *added(make_node(), make_pod("my-test-pod"), make_pod("other")))
    assert attempted(engine) == [denied(), backing_off("my-test-pod", plugin=NAME)]
    assert attempted(engine) == [scheduled("other")]
    for attempt, due in ((2, 1), (3, 3)):
        tick = records.TimePassed()
        back = active("my-test-pod", "BackoffComplete", until=due * SECOND, errors=attempt - 1)
        assert observed(engine, tick, at=due * SECOND) == [tick, back]
        assert attempted(engine)[0] == denied(attempt)
    assert engine.state.nodes.residents[0].keys() == {"other"}


def test_another_pod() -> None:
    """As the arguments say."""
    engine = engine_of(MultipointCommunicating(MultipointCommunicatingArgs(pod_name="other")))
    observed(engine, *added(make_node(), make_pod("my-test-pod"), make_pod("other")))
    assert attempted(engine) == [scheduled("my-test-pod")]
    assert attempted(engine)[0].outcome is Outcome.UNSCHEDULABLE


class Doorkeeper:
    """Has every pod wait at Permit, and lets all of them go on for one that is named go."""

    name = "Doorkeeper"

    def permit(self, cycle: Any, pod: Any, node: str) -> Status | Wait | None:
        if pod.name != "go":
            return Wait(60)
        for uid in cycle.waiting:
            cycle.allow(uid)
        return None


def test_word_is_kept_while_the_pod_waits_also_over_a_restart() -> None:
    """What Reserve left is in the decision, and PreBind finds it there."""
    made = [engine_of(MultipointCommunicating(), Doorkeeper()) for _ in range(2)]
    logged = []
    for stimulus in added(make_node(), make_pod("my-test-pod")):
        logged += made[0].observe(stimulus, 0)
    logged += made[0].schedule_next()
    assert isinstance(logged[-1].record, PodDecided)
    assert logged[-1].record.carry == {NAME: "never bind"}
    for each in logged:
        made[1].apply(each)
    for engine in made:
        observed(engine, *added(make_pod("go")))
        said = attempted(engine)
        assert [type(each).__name__ for each in said] == [
            "PodDecided", "PermitGranted", "PodUnreserved", "PodQueued",
        ]  # fmt: skip
        assert said[2].message == "pod is not permitted"
        assert engine.state.reservations.keys() == {"go"}


def test_unreserve_may_be_called_twice() -> None:
    """It is idempotent."""
    engine = engine_of(MultipointCommunicating())
    cycle = engine._step.cycle(1)
    plugin, pod = MultipointCommunicating(), make_pod("my-test-pod")
    plugin.reserve(cycle, pod, "n1")
    plugin.unreserve(cycle, pod, "n1")
    plugin.unreserve(cycle, pod, "n1")
    assert (cycle.data, plugin.pre_bind(cycle, pod, "n1")) == ({}, None)
