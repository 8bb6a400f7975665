"""Attempts that ask extenders: the records of the engine, step by step."""

from typing import Any

import msgspec
import pytest

from eventsched.domain import records
from eventsched.domain.nodes.row_ranges import ranges, rows_of
from eventsched.domain.records import (
    ExtenderAnswered,
    ExtenderAsked,
    Outcome,
    PodDecided,
    PodQueued,
    Queue,
    VerdictDefined,
    Victims,
)
from eventsched.domain.records.extender_records import FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.plugins.default_binder import DefaultBinder
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.plugins.priority_sort import PrioritySort
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.framework.extender import Extender
from eventsched.scheduling.framework.profile import Profile
from tests.builders import (
    PROFILE,
    SECOND,
    active,
    added,
    attempted,
    backing_off,
    defined,
    identity,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    scheduled,
    woken,
)

URL = "http://extender"


def engine_of(
    *extenders: Extender, nodes: int = 3, cpu: int = 4000, preempts: bool = False
) -> Engine:
    """An engine with nodes n0, n1…, NodeResourcesFit, and these extenders."""
    fits = [NodeResourcesFit()] if preempts else []
    plugins: list[Any] = [PrioritySort(), *fits, DefaultBinder()]
    plugins += [DefaultPreemption()] if preempts else []
    points = {point: [p for p in plugins if point in points_of(p)] for point in POINTS}
    points["score"] = []
    engine = Engine({PROFILE: Profile(PROFILE, points, {})}, extenders=extenders)
    for stimulus in added(*(make_node(f"n{i}", cpu=cpu) for i in range(nodes))):
        engine.observe(stimulus, 0)
    return engine


def filtering(index: int = 0, **fields: Any) -> Extender:
    return Extender(index, f"{URL}/{index}", filters=True, **fields)


def asked(
    verb: str = FILTER, nodes: str = "0-2", number: int = 3, index: int = 0, **more: Any
) -> ExtenderAsked:
    fields = {"uid": "p1", "attempt": 1, **more}
    return ExtenderAsked(
        extender=index, name=f"{URL}/{index}", verb=verb, nodes=nodes, number=number, **fields
    )


def answer(verb: str = FILTER, index: int = 0, **fields: Any) -> ExtenderAnswered:
    return ExtenderAnswered(**{"uid": "p1", "attempt": 1, **fields}, extender=index, verb=verb)


def refusal(number: int, code: Code = Code.UNSCHEDULABLE, index: int = 0) -> VerdictDefined:
    reason = f"refused by extender {URL}/{index}"
    return VerdictDefined(
        number=number, verdict=Verdict(plugin="Extender", code=code, reasons=(reason,))
    )


# --- filter -----------------------------------------------------------------------------------


def test_an_attempt_waits_for_the_answer_and_goes_on_with_it() -> None:
    engine = engine_of(filtering())
    observed(engine, *added(make_pod()))
    assert attempted(engine) == [asked()]
    assert engine.idle
    assert attempted(engine) == []
    given = answer(failed={"busy": "0"}, unresolvable={"": "2"})
    assert observed(engine, given) == [given]
    assert attempted(engine) == [
        refusal(1),
        refusal(2, Code.UNRESOLVABLE),
        scheduled(node="n1", row=1, evaluated=3, counts=((1, 1), (2, 1))),
    ]
    assert engine.state.consultation is None


def test_who_is_refused_everywhere_waits_for_whatever_happens() -> None:
    engine = engine_of(filtering())
    observed(engine, *added(make_pod()))
    attempted(engine)
    observed(engine, answer(failed={"busy": "0-1"}, unresolvable={"": "2"}))
    silent = "node(s) were left out by the extender without a reason"
    assert attempted(engine) == [
        refusal(1),
        refusal(2, Code.UNRESOLVABLE),
        refused(
            message=f"0/3 nodes are available: 1 {silent}, 2 busy.",
            evaluated=3,
            counts=((1, 2), (2, 1)),
        ),
        parked("p1", "Extender"),
    ]
    changed = records.NodeUpdated(node=make_node("n0", annotations={"a": "b"}))
    assert observed(engine, changed, at=2 * SECOND) == [
        changed,
        woken("NodeUpdateOther", "Extender"),
    ]


def test_the_next_extender_is_asked_about_what_is_left() -> None:
    engine = engine_of(filtering(0), filtering(1), filtering(2))
    observed(engine, *added(make_pod()))
    assert attempted(engine) == [asked()]
    observed(engine, answer(failed={"busy": "1"}))
    assert attempted(engine) == [asked(nodes="0,2", number=2, index=1)]
    observed(engine, answer(index=1, failed={"busy": "0,2"}))
    [*_, decided, queued] = attempted(engine)
    assert isinstance(decided, PodDecided)
    assert (decided.outcome, decided.message) == (
        Outcome.UNSCHEDULABLE, "0/3 nodes are available: 3 busy.",
    )  # fmt: skip
    assert isinstance(queued, PodQueued)


def test_an_extender_looks_after_its_resources_alone() -> None:
    engine = engine_of(filtering(resources=frozenset({"example.com/gpu"})))
    observed(engine, *added(make_pod()))
    [decided] = attempted(engine)
    assert isinstance(decided, PodDecided)
    wants = make_pod("p2")
    container = msgspec.structs.replace(wants.spec.containers[0], requests={"example.com/gpu": 1})
    spec = msgspec.structs.replace(wants.spec, init_containers=(container,))
    observed(engine, *added(msgspec.structs.replace(wants, spec=spec)))
    assert attempted(engine) == [asked(uid="p2")]


def test_failing_ends_the_attempt_unless_the_extender_may_be_ignored() -> None:
    engine = engine_of(filtering())
    observed(engine, *added(make_pod()))
    attempted(engine)
    observed(engine, answer(problem="no answer within 5 s"))
    said = f"extender {URL}/0: no answer within 5 s"
    assert attempted(engine) == [
        refused(outcome=Outcome.ERROR, plugin="Extender", message=said, evaluated=0),
        backing_off(plugin="Extender"),
    ]
    engine = engine_of(filtering(ignorable=True))
    observed(engine, *added(make_pod()))
    attempted(engine)
    observed(engine, answer(problem="no answer within 5 s"))
    [decided] = attempted(engine)
    assert isinstance(decided, PodDecided)
    assert decided.outcome is Outcome.SCHEDULED


def test_who_fails_for_long_is_still_tried_by_its_backoff() -> None:
    engine = engine_of(filtering())
    observed(engine, *added(make_pod()))
    at = 0
    for number in range(1, 8):
        attempted(engine)
        observed(engine, answer(problem="away", attempt=number), at=at)
        [*_, queued] = attempted(engine)
        assert isinstance(queued, PodQueued)
        assert queued.queue is Queue.BACKOFF
        at = queued.until
        observed(engine, records.TimePassed(), at=at)


def test_nodes_that_come_meanwhile_are_not_taken_unasked() -> None:
    engine = engine_of(filtering(), nodes=1)
    observed(engine, *added(make_pod()))
    assert attempted(engine) == [asked(nodes="0", number=1)]
    observed(engine, *added(make_node("n9")))
    observed(engine, answer(failed={"busy": "0"}))
    [*_, decided, _] = attempted(engine)
    assert isinstance(decided, PodDecided)
    late = "node(s) came too late for the extender to be asked"
    assert decided.message == f"0/2 nodes are available: 1 busy, 1 {late}."


def test_a_node_that_goes_meanwhile_is_not_taken() -> None:
    engine = engine_of(filtering(), nodes=2)
    observed(engine, *added(make_pod()))
    attempted(engine)
    observed(engine, records.NodeDeleted(name="n0"), *added(make_node("n0")))
    observed(engine, answer(failed={"busy": "1"}))
    [*_, decided, _] = attempted(engine)
    assert isinstance(decided, PodDecided)
    assert (decided.node, decided.outcome) == ("", Outcome.UNSCHEDULABLE)


# --- while an answer is awaited -----------------------------------------------------------------


def test_others_wait_and_a_pod_that_goes_ends_its_question() -> None:
    engine = engine_of(filtering())
    observed(engine, *added(make_pod(), make_pod("p2", priority=9)))
    assert attempted(engine) == [asked(uid="p2")]
    assert attempted(engine) == []
    gone = records.PodDeleted(uid="p2")
    assert observed(engine, gone) == [gone]
    assert observed(engine, answer(uid="p2")) == []
    assert attempted(engine) == [asked()]
    more = make_pod("p3", priority=99)
    assert observed(engine, *added(more)) == [records.PodAdded(pod=more), active("p3")]
    observed(engine, answer())
    [decided] = attempted(engine)
    assert isinstance(decided, PodDecided)
    assert decided.uid == "p1"
    assert attempted(engine) == [asked(uid="p3")]


@pytest.mark.parametrize(
    "other",
    [answer(attempt=2), answer(verb=PRIORITIZE), answer(index=1), answer(uid="p2")],
)
def test_what_was_not_asked_is_not_taken_in(other: ExtenderAnswered) -> None:
    engine = engine_of(filtering())
    assert observed(engine, other) == []
    observed(engine, *added(make_pod()))
    attempted(engine)
    assert observed(engine, other) == []
    assert engine.idle


def test_who_is_bound_by_somebody_else_is_asked_for_no_more() -> None:
    engine = engine_of(filtering())
    observed(engine, *added(make_pod()))
    attempted(engine)
    observed(engine, records.PodUpdated(pod=make_pod(node_name="n1")))
    assert engine.state.consultation is None
    assert attempted(engine) == []


def test_another_configuration_asks_anew() -> None:
    engine = engine_of(filtering())
    observed(engine, *added(make_pod()))
    attempted(engine)
    observed(engine, records.TermBegan(epoch=2, token="0a", engine="9"))
    assert attempted(engine) == [asked()]


def test_a_restart_in_between_changes_nothing() -> None:
    engine = engine_of(filtering(), Extender(1, f"{URL}/1", prioritizes=True))
    observed(engine, *added(make_pod()))
    attempted(engine)
    for given in (answer(failed={"busy": "1"}), answer(PRIORITIZE, 1, scores=((4, "2"),))):
        other = engine_of(filtering(), Extender(1, f"{URL}/1", prioritizes=True), nodes=0)
        other.restore(engine.snapshot(), engine.position)
        assert other.state.digest() == engine.state.digest()
        assert observed(other, given) == observed(engine, given)
        assert attempted(other) == attempted(engine)
        assert other.state.digest() == engine.state.digest()


# --- prioritize ---------------------------------------------------------------------------------


def test_scores_count_ten_times_their_weight() -> None:
    engine = engine_of(Extender(0, f"{URL}/0", prioritizes=True, weight=3))
    observed(engine, *added(make_pod()))
    assert attempted(engine) == [asked(PRIORITIZE)]
    observed(engine, answer(PRIORITIZE, scores=((2, "0"), (10, "1"))))
    column = identity(f"extender {URL}/0", 3)
    assert attempted(engine) == [
        defined(column),
        scheduled(
            node="n1", row=1, score=300, runner_up="n0", runner_up_score=60, feasible=3,
            evaluated=3, scores=(column,),
        ),
    ]  # fmt: skip


def test_one_node_needs_no_scores_and_a_failure_gives_none() -> None:
    engine = engine_of(Extender(0, f"{URL}/0", prioritizes=True), nodes=1)
    observed(engine, *added(make_pod()))
    assert attempted(engine) == [scheduled(node="n0")]
    engine = engine_of(Extender(0, f"{URL}/0", prioritizes=True), nodes=2)
    observed(engine, *added(make_pod()))
    attempted(engine)
    observed(engine, answer(PRIORITIZE, problem="away"))
    [decided] = attempted(engine)
    assert isinstance(decided, PodDecided)
    assert (decided.outcome, decided.ties, decided.scoring) == (Outcome.SCHEDULED, 2, 0)


# --- preempt ------------------------------------------------------------------------------------


def full(*extenders: Extender) -> Engine:
    """Two full nodes with a, b and c, and a more important pod."""
    engine = engine_of(*extenders, nodes=2, cpu=2000, preempts=True)
    pods = [
        make_pod("a", cpu=2000, node_name="n0"),
        make_pod("b", cpu=1000, node_name="n1", priority=1),
        make_pod("c", cpu=1000, node_name="n1", priority=2),
        make_pod("p1", cpu=1000, priority=5),
    ]
    observed(engine, *added(*pods))
    return engine


CANDIDATES = {"n0": Victims(uids=("a",)), "n1": Victims(uids=("b",))}
PREEMPTING = Extender(0, f"{URL}/0", preempts=True)


def test_candidates_are_shown_and_what_is_left_of_them_counts() -> None:
    engine = full(PREEMPTING)
    [question] = attempted(engine)
    assert isinstance(question, ExtenderAsked)
    assert (question.verb, question.number, question.candidates) == (PREEMPT, 2, CANDIDATES)
    observed(engine, answer(PREEMPT, victims={"n1": Victims(uids=("c",), violations=0)}))
    [decided] = [r for r in attempted(engine) if isinstance(r, records.PreemptionDecided)]
    assert (decided.node, decided.victims, decided.candidates) == ("n1", ("c",), 1)


@pytest.mark.parametrize(
    ("victims", "said"),
    [
        ({"n1": Victims(uids=("x",))}, "claims to preempt pod (UID: x) on node: n1, but the pod"),
        ({"n1": Victims(uids=())}, 'expected at least one victim pod on node "n1"'),
        ({}, "no candidate node for preemption"),
        ({"n9": Victims(uids=("a",))}, "no candidate node for preemption"),
    ],
)
def test_nobody_is_evicted_for_a_lie(victims: dict[str, Victims], said: str) -> None:
    engine = full(PREEMPTING)
    attempted(engine)
    observed(engine, answer(PREEMPT, victims=victims))
    made = attempted(engine)
    assert not [each for each in made if isinstance(each, records.PreemptionDecided)]
    [decided] = [each for each in made if isinstance(each, PodDecided)]
    assert said in decided.message


def test_the_important_are_not_evicted_whoever_wants_it() -> None:
    engine = full(PREEMPTING)
    boss = make_pod("boss", cpu=0, memory=0, node_name="n1", priority=9)
    observed(engine, *added(boss))
    attempted(engine)
    observed(engine, answer(PREEMPT, victims={"n1": Victims(uids=("b", "boss"))}))
    [decided, *_] = [each for each in attempted(engine) if isinstance(each, PodDecided)]
    assert "claims to preempt pod default/boss, which is not less important" in decided.message


# --- bind ---------------------------------------------------------------------------------------


def test_an_extender_binds_in_place_of_plugins() -> None:
    binder = Extender(0, URL, binds=True)

    class Refusing:
        name = "Refusing"

        def bind(self, cycle: Any, pod: Any, node: str) -> None:
            raise AssertionError("nobody should ask")

    plugins = [PrioritySort(), Refusing()]
    points = {point: [p for p in plugins if point in points_of(p)] for point in POINTS}
    engine = Engine({PROFILE: Profile(PROFILE, points, {})}, extenders=(binder,))
    observed(engine, *added(make_node(), make_pod()))
    assert attempted(engine) == [scheduled(binder=URL)]
    assert engine.binder(make_pod()) is binder


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "0", "0-4", "0,2,4", "0-1,5-6,9"])
def test_rows_are_written_as_ranges(text: str) -> None:
    assert ranges(rows_of(text)) == text
