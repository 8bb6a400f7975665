"""Preemption, nominations and evictions: given a full cluster, the whole list of records."""

from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.objects import Pod, Requirement
from eventsched.domain.objects.registry import PodDisruptionBudget, Registry
from eventsched.domain.records import (
    NominationCleared,
    Outcome,
    PodDecided,
    PreemptionDecided,
    Queue,
    Record,
)
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Status, Wait
from eventsched.scheduling.preemption.disruption_budgets import DisruptionBudgets
from tests.builders import (
    SECOND,
    active,
    added,
    attempted,
    defined,
    engine_of,
    identity,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    scheduled,
    woken,
)
from tests.displacing import budget

FULL = "0/1 nodes are available: 1 Insufficient cpu."
NO_ROOM = records.VerdictDefined(
    number=1,
    verdict=Verdict(
        plugin="NodeResourcesFit", code=Code.UNSCHEDULABLE, reasons=("Insufficient cpu",)
    ),
)


class Holding:
    """Pods named wait-… wait at Permit."""

    name = "Holding"
    wakes_on = ()

    def permit(self, cycle: Any, pod: Pod, node: str) -> Wait | None:
        return Wait(60) if pod.name.startswith("wait") else None


def engine(*plugins: Any) -> Engine:
    return engine_of(NodeResourcesFit(), *plugins, DefaultPreemption())


def low(name: str = "low", node: str = "n1", **fields: Any) -> Pod:
    return make_pod(name, **{"cpu": 4000, "memory": 0, "node_name": node, **fields})


def high(name: str = "p1", **fields: Any) -> Pod:
    return make_pod(name, **{"cpu": 2000, "memory": 0, "priority": 10, **fields})


def bare(made: list[Record]) -> list[Record]:
    """Records without digests and draws."""
    return [
        msgspec.structs.replace(each, digest="", draw=0)
        if isinstance(each, PreemptionDecided)
        else each
        for each in made
    ]


def preempted(*victims: str, **fields: Any) -> PreemptionDecided:
    filled: dict[str, Any] = {
        "uid": "p1", "attempt": 1, "node": "n1", "row": 0, "criterion": "only", "nodes": 1,
        "looked": 1, "candidates": 1, **fields,
    }  # fmt: skip
    return PreemptionDecided(victims=victims, **filled)


def made_by(engine: Engine) -> PreemptionDecided:
    [made] = [each for each in attempted(engine) if isinstance(each, PreemptionDecided)]
    return made


# --- from the refusal to the landing ------------------------------------------------------


def test_a_pod_displaces_another_one_and_lands_there() -> None:
    it = engine()
    observed(it, *added(make_node(), low(), high()))
    assert bare(attempted(it)) == [
        NO_ROOM,
        refused(message=FULL, counts=((1, 1),)),
        preempted("low"),
        parked("p1", "NodeResourcesFit"),
    ]
    assert it.state.preemptions.node("p1") == "n1"
    accepted = records.EvictionSucceeded(uid="low")
    assert observed(it, accepted, at=1000) == [accepted]
    assert it.state.pods["low"].pod.deleting
    assert it.state.pods["low"].pod.displaced
    gone = records.PodDeleted(uid="low")
    move = active(
        "p1", "AssignedPodDelete", plugin="NodeResourcesFit", rejectors=("NodeResourcesFit",),
        until=SECOND, failures=1,
    )  # fmt: skip
    assert observed(it, gone, at=2 * SECOND) == [gone, move]
    column = identity("NodeResourcesFit")
    landed = scheduled(score=73, scores=(column,), attempt=2, nominated=True)
    assert attempted(it) == [defined(column), landed]
    assert it.state.preemptions.node("p1") == ""


def test_it_waits_while_its_victims_leave() -> None:
    """Another change wakes it too early: it keeps its nomination and displaces no further pod."""
    it = engine()
    low_2 = low("other", "n2")
    observed(it, *added(make_node(), make_node("n2"), low(), low_2, high()))
    made = made_by(it)
    update = high(labels={"a": "b"})
    observed(it, records.PodUpdated(pod=update), records.TimePassed(), at=2 * SECOND)
    decided, move = attempted(it)
    assert isinstance(decided, PodDecided)
    assert decided.message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert isinstance(move, records.PodQueued)
    assert it.state.preemptions.node("p1") == made.node


def test_a_pod_that_must_not_displaces_nobody() -> None:
    it = engine()
    observed(it, *added(make_node(), low(), high(preemption_policy="Never")))
    message = f"{FULL} preemption: not eligible due to preemptionPolicy=Never."
    assert attempted(it)[1:] == [
        refused(message=message, counts=((1, 1),)),
        parked("p1", "NodeResourcesFit"),
    ]


def test_nobody_as_important_is_displaced() -> None:
    it = engine()
    observed(it, *added(make_node(), low(priority=10), high()))
    said = "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    assert attempted(it)[1:] == [
        refused(message=f"{FULL} {said}", counts=((1, 1),)),
        parked("p1", "NodeResourcesFit"),
    ]


def test_the_more_important_stay_where_that_is_enough() -> None:
    """Of three pods the least important goes that makes room; the others are put back first."""
    it = engine()
    pods = [low(f"low-{n}", cpu=1300, priority=n, started_at=n + 1) for n in range(3)]
    observed(it, *added(make_node(), *pods, high(cpu=1000)))
    assert made_by(it).victims == ("low-0",)


def test_one_that_leaves_already_is_not_asked_again() -> None:
    """A nomination without an eviction: the room is on its way."""
    it = engine()
    observed(it, *added(make_node(), low(deleting=True), high()))
    made = made_by(it)
    assert (made.victims, made.leaving, made.evicted) == (("low",), ("low",), ())
    assert not it.state.preemptions.evicting


def test_two_do_not_ask_the_same_pod_to_go() -> None:
    it = engine()
    observed(it, *added(make_node(), low(), high(), high("p2", priority=20, cpu=3000)))
    assert made_by(it).evicted == ("low",)
    second = attempted(it)
    assert not [each for each in second if isinstance(each, PreemptionDecided)]
    observed(it, *added(high("p3", priority=30, cpu=1000)))
    third = made_by(it)
    assert (third.leaving, third.evicted) == (("low",), ())


# --- which node ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("criterion", "worse", "better", "budgets"),
    [
        ("violations", [{"priority": 0, "labels": {"app": "a"}}], [{"priority": 5}], ["a"]),
        ("highest", [{"priority": 5}], [{"priority": 1, "cpu": 2000}, {"cpu": 2000}], []),
        ("total", [{"cpu": 2000}, {"cpu": 2000}], [{}], []),
        ("start", [{"started_at": 5}], [{"started_at": 7}], []),
        ("start", [{"started_at": 5}], [{"started_at": 0}], []),
        ("first", [{}], [{}], []),
    ],
)
def test_the_node_is_chosen_by_upstreams_criteria(
    criterion: str, worse: list[Any], better: list[Any], budgets: list[str]
) -> None:
    it = engine()
    for app in budgets:
        observed(it, records.ObjectChanged(object=budget(app, 0)))
    observed(it, *added(make_node("worse"), make_node("better")))
    for node, pods in (("worse", worse), ("better", better)):
        for number, fields in enumerate(pods):
            observed(it, *added(low(f"{node}-{number}", node, **fields)))
    observed(it, *added(high(cpu=4000)))
    made = made_by(it)
    assert made.criterion == criterion
    assert made.candidates == 2
    if criterion != "first":
        assert made.node == "better"


def test_budgets() -> None:
    """Each matching budget is used up; those counted as disrupted cost nothing; without labels, or
    for an empty selector, there is none."""
    registry = Registry()
    registry.put(budget("a", 1, disrupted=("d",)))
    registry.put(PodDisruptionBudget(name="all", namespace="default", selector=(), allowed=0))
    tier = (Requirement(key="tier", operator="Exists"),)
    registry.put(PodDisruptionBudget(name="t", namespace="default", selector=tier, allowed=1))
    pods = [
        make_pod("a1", labels={"app": "a"}),
        make_pod("d", labels={"app": "a"}),
        make_pod("a2", labels={"app": "a", "tier": "x"}),
        make_pod("a3", labels={"app": "a"}, namespace="other"),
        make_pod("t1", labels={"tier": "x"}),
        make_pod("bare"),
    ]
    breaking, others = DisruptionBudgets(registry).split(pods)
    assert [pod.name for pod in breaking] == ["a2", "t1"]
    assert [pod.name for pod in others] == ["a1", "d", "a3", "bare"]


# --- nominations --------------------------------------------------------------------------


def test_room_that_is_being_made_is_not_given_to_others() -> None:
    """A pod as important, or less, has to find another node while one is nominated there."""
    it = engine()
    observed(it, *added(make_node(), low(), high(cpu=3000)))
    made_by(it)
    observed(it, records.EvictionSucceeded(uid="low"), records.PodDeleted(uid="low"))
    observed(it, *added(make_pod("small", cpu=2000, memory=0, priority=10, created_at=5)))
    while made := attempted(it):
        if isinstance(made[-1], records.PodDecided) and made[-1].uid == "p1":
            break
        decided = made[-2] if len(made) > 1 else made[-1]
        assert isinstance(decided, PodDecided)
        assert (decided.uid, decided.outcome) == ("small", Outcome.UNSCHEDULABLE)


def test_a_more_important_pod_takes_the_room_and_the_nomination() -> None:
    it = engine()
    observed(it, *added(make_node(), low("a", cpu=2000), low("b", cpu=2000), high()))
    first = made_by(it)
    observed(it, *added(high("p2", priority=20, cpu=4000)))
    _, second, cleared, woken, move = bare(attempted(it))
    assert isinstance(woken, records.PodQueued)
    assert (woken.uid, woken.queue) == ("p1", Queue.BACKOFF)  # it may look for room elsewhere
    assert isinstance(second, PreemptionDecided)
    assert second.leaving == first.victims
    assert len(second.evicted) == 1
    assert cleared == NominationCleared(uid="p1", node="n1", cause="Preempted", by="p2")
    assert move == parked("p2", "NodeResourcesFit")


def test_a_nomination_ends_where_no_eviction_helps_any_more() -> None:
    it = engine()
    observed(it, *added(make_node(), high(nominated_node="n1", cpu=9000)))
    *_, cleared, move = attempted(it)
    assert cleared == NominationCleared(uid="p1", node="n1", cause="NoCandidate")
    assert move == parked("p1", "NodeResourcesFit")


def test_a_nomination_comes_from_the_cluster_and_goes_with_it() -> None:
    it = engine()
    observed(it, *added(make_node(), low(), high(gates=("g",), nominated_node="n1")))
    assert it.state.preemptions.node("p1") == "n1"
    observed(it, records.PodUpdated(pod=high(gates=("g",), nominated_node="n1", labels={"a": ""})))
    assert it.state.preemptions.node("p1") == "n1"
    observed(it, records.PodUpdated(pod=high(gates=("g",))))
    assert it.state.preemptions.node("p1") == ""


def test_ours_stays_when_the_cluster_says_nothing() -> None:
    it = engine()
    observed(it, *added(make_node(), low(), high()))
    made_by(it)
    observed(it, records.PodUpdated(pod=high(labels={"a": "b"})))
    assert it.state.preemptions.node("p1") == "n1"
    assert [pod.labels for pod in it.state.preemptions.on("n1").values()] == [{"a": "b"}]


# --- evictions ----------------------------------------------------------------------------


def test_a_refused_eviction_wakes_the_pod() -> None:
    """After its backoff."""
    it = engine()
    observed(it, *added(make_node(), low(), high()))
    made_by(it)
    failed = records.EvictionFailed(uid="low", message="no")
    waits = {"rejectors": ("NodeResourcesFit",), "until": SECOND, "failures": 1}
    move = woken("EvictionFailed", "", Queue.BACKOFF, **waits)
    assert observed(it, failed) == [failed, move]
    assert not it.state.preemptions.evicting
    assert attempted(it) == []
    passed = records.TimePassed()
    assert observed(it, passed, at=SECOND) == [passed, active("p1", "BackoffComplete", **waits)]


def test_an_eviction_that_is_refused_each_time_fills_no_log() -> None:
    """Each attempt waits longer than the one before."""
    it = engine()
    observed(it, *added(make_node(), low(), high()))
    failed = records.EvictionFailed(uid="low", message="denied by a webhook")
    attempts = []
    for tenth in range(300):
        if any(isinstance(each, PreemptionDecided) for each in attempted(it)):
            attempts.append(tenth / 10)
        at = tenth * SECOND // 10
        observed(it, failed, at=at)
        observed(it, records.TimePassed(), at=at)
    assert attempts == [0.0, 1.1, 3.1, 7.1, 15.1, 25.1]


def test_a_pod_that_waits_at_permit_is_sent_back() -> None:
    it = engine(Holding())
    observed(it, *added(make_node(), make_pod("wait-1", cpu=4000, memory=0)))
    attempted(it)
    observed(it, *added(high()))
    _, _, made, _, given_up, back, woken = bare(attempted(it))
    assert made == preempted("wait-1", sent_back=("wait-1",))
    assert isinstance(given_up, records.PodUnreserved)
    assert (given_up.uid, given_up.plugin) == ("wait-1", "DefaultPreemption")
    moves = [m for m in (back, woken) if isinstance(m, records.PodQueued)]
    assert {(m.uid, m.queue) for m in moves} == {("p1", Queue.BACKOFF), ("wait-1", Queue.BACKOFF)}


# --- other plugins ------------------------------------------------------------------------


class Says:
    """A PostFilter with the given answers."""

    def __init__(self, name: str, answer: Any) -> None:
        self.name, self._answer = name, answer

    def post_filter(self, cycle: Any, pod: Pod, refused: Any) -> Any:
        return self._answer


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([Status.unschedulable("one"), Status.unschedulable("two")], "one, two"),
        ([Status.unschedulable("one"), Status(Code.SUCCESS)], ""),
        ([Status.unresolvable("sure"), Status.unschedulable("two")], "sure"),
        ([Status.unschedulable("one"), Status.error("broken")], "broken"),
    ],
)
def test_what_several_plugins_say(answers: list[Status], said: str) -> None:
    """Upstream: RunPostFilterPlugins."""
    plugins = [Says(f"Says{number}", answer) for number, answer in enumerate(answers)]
    it = engine_of(NodeResourcesFit(), *plugins)
    observed(it, *added(make_node(cpu=100), make_pod()))
    decided = attempted(it)[1]
    assert isinstance(decided, PodDecided)
    assert decided.message == f"{FULL} {said}".strip()


def test_the_nominated_node_is_among_those_without_a_victim() -> None:
    it = engine()
    held = [make_pod(f"h{i}", cpu=4000, priority=100, node_name=f"n{i}") for i in (1, 2)]
    nodes = [make_node("n1"), make_node("n2")]
    observed(it, *added(*nodes, *held, high(priority=5, cpu=2000, nominated_node="n1")))
    said = next(each.message for each in attempted(it) if isinstance(each, PodDecided))
    assert "preemption: 0/2 nodes are available: 2 No preemption victims found" in said
