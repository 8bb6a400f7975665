"""One pod through the engine: stimuli in, the whole list of records out."""

import pytest

from eventsched.domain import records
from eventsched.domain.draw import draw
from eventsched.domain.objects import Taint
from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.records.verdicts import Code, Normalization, ScoreColumn, Verdict
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.scheduling.engine import Engine
from tests.builders import (
    PROFILE,
    SECOND,
    active,
    added,
    attempted,
    defined,
    engine_of,
    engine_with,
    identity,
    make_node,
    make_pod,
    observed,
    parked,
    records_of,
    refused,
    scheduled,
)

FIT = (identity("NodeResourcesFit"),)
DEFINED = defined(*FIT)
NO_CPU = Verdict(plugin="NodeResourcesFit", code=Code.UNSCHEDULABLE, reasons=("Insufficient cpu",))
UNTOLERATED = Verdict(
    plugin="TaintToleration",
    code=Code.UNRESOLVABLE,
    reasons=("node(s) had untolerated taint(s)",),
)
TOO_SMALL = Verdict(
    plugin="NodeResourcesFit", code=Code.UNRESOLVABLE, reasons=("Insufficient cpu",)
)
TOLERATION = ScoreColumn(
    plugin="TaintToleration", weight=3, normalization=Normalization.REVERSED, parameters=(0,)
)


@pytest.fixture
def engine() -> Engine:
    """An engine that looks at resources only."""
    return engine_of(NodeResourcesFit())


def test_an_engine_has_timers_while_a_pod_waits_for_a_time(engine: Engine) -> None:
    observed(engine, *added(make_node("a", cpu=100), make_pod(cpu=500)))
    assert not engine.has_timers
    attempted(engine)
    assert engine.has_timers
    assert engine.flush_due is not None


def test_a_decision_says_everything_about_all_nodes() -> None:
    """Verdict counts, columns, ties, draw, winner, runner-up and digest, in one record."""
    engine = engine_with()
    tainted = make_node("tainted", taints=(Taint(key="k", effect="NoSchedule"),))
    observed(engine, *added(make_node("a"), make_node("b"), make_node("small", cpu=500), tainted))
    assert observed(engine, *added(make_pod())) == [*added(make_pod()), active()]
    number = draw("", "p1", 1, "tie-break")
    names = ["a", "b"]
    columns = (
        TOLERATION,
        identity("NodeResourcesFit"),
        identity("NodeResourcesBalancedAllocation"),
        identity("ImageLocality"),
    )
    logged = engine.schedule_next()
    assert records_of(logged) == [
        records.VerdictDefined(number=1, verdict=UNTOLERATED),
        records.VerdictDefined(number=2, verdict=TOO_SMALL),
        defined(*columns),
        PodDecided(
            uid="p1",
            attempt=1,
            profile=PROFILE,
            outcome=Outcome.SCHEDULED,
            node=names[number % 2],
            row=number % 2,
            score=300 + 75 + 75,
            runner_up=names[1 - number % 2],
            runner_up_score=300 + 75 + 75,
            feasible=2,
            evaluated=4,
            ties=2,
            draw=number,
            counts=((1, 1), (2, 1)),
            scoring=1,
            parameters=((0,), (), (), ()),
        ),
    ]
    decided = logged[-1]
    assert isinstance(decided.record, PodDecided)
    assert len(decided.record.digest) == 32
    assert decided.detail is not None
    assert decided.detail.codes.tolist() == [0, 0, 2, 1]
    assert [scores.tolist() for scores in decided.detail.scores] == [
        [0, 0, 0, 0], [75, 75, 0, 0], [75, 75, 0, 0], [0, 0, 0, 0],
    ]  # fmt: skip


def test_positions_are_consecutive_and_a_step_has_one_cause(engine: Engine) -> None:
    """All records of a step name the step's first position."""
    node_added, pod_added = added(make_node(), make_pod())
    first = engine.observe(node_added, 5)
    second = engine.observe(pod_added, 7)
    third = engine.schedule_next()
    placed = [(each.position, each.cause, each.at) for each in first + second + third]
    assert placed == [(0, 0, 5), (1, 1, 7), (2, 1, 7), (3, 3, 7), (4, 3, 7)]
    assert engine.position == 5


def test_the_best_node_wins_and_the_next_best_is_named(engine: Engine) -> None:
    """Without a tie there is no draw."""
    observed(engine, *added(make_node("small", cpu=2000), make_node("large"), make_pod()))
    assert attempted(engine) == [
        DEFINED,
        scheduled(
            node="large", row=1, score=75, feasible=2, evaluated=2, scores=FIT,
            runner_up="small", runner_up_score=62,
        ),
    ]  # fmt: skip


def test_a_pod_that_was_placed_counts_for_the_next(engine: Engine) -> None:
    """Reserved room is used room, before any bind."""
    observed(engine, *added(make_node(), make_pod("p1"), make_pod("p2"), make_pod("p3", cpu=2500)))
    assert attempted(engine) == [DEFINED, scheduled("p1", score=75, scores=FIT)]
    assert attempted(engine) == [scheduled("p2", score=50, scores=FIT)]
    assert attempted(engine) == [
        records.VerdictDefined(number=1, verdict=NO_CPU),
        refused("p3", "0/1 nodes are available: 1 Insufficient cpu.", counts=((1, 1),)),
        parked("p3", "NodeResourcesFit"),
    ]


def test_nothing_to_do(engine: Engine) -> None:
    """An attempt without a pod in the active queue adds no record."""
    assert engine.idle
    assert engine.schedule_next() == []


def test_the_words_of_a_refusal_are_defined_once(engine: Engine) -> None:
    """The second pod refused for the same reason refers to the first one's entry."""
    observed(engine, *added(make_node(), make_pod("p1", cpu=9000), make_pod("p2", cpu=9000)))
    message = "0/1 nodes are available: 1 Insufficient cpu."
    verdict = Verdict(
        plugin="NodeResourcesFit", code=Code.UNRESOLVABLE, reasons=("Insufficient cpu",)
    )
    assert attempted(engine) == [
        records.VerdictDefined(number=1, verdict=verdict),
        refused("p1", message, counts=((1, 1),)),
        parked("p1", "NodeResourcesFit"),
    ]
    assert attempted(engine) == [
        refused("p2", message, counts=((1, 1),)),
        parked("p2", "NodeResourcesFit"),
    ]


def test_fit_error_counts_each_reason_and_sorts_the_texts() -> None:
    """Upstream's FitError: one count a reason over all nodes, sorted as text."""
    engine = engine_with()
    tainted = make_node("tainted", taints=(Taint(key="k", effect="NoSchedule"),))
    nodes = [tainted, make_node("a", cpu=1, memory=1), make_node("b", cpu=1)]
    observed(engine, *added(*nodes, make_node("closed", unschedulable=True), make_pod()))
    *_, decided, queued = attempted(engine)
    assert decided == refused(
        message="0/4 nodes are available: 1 Insufficient memory, 1 node(s) had untolerated "
        "taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling.",
        evaluated=4,
        counts=((1, 1), (2, 1), (3, 1), (4, 1)),
    )
    assert queued == parked("p1", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration")


def test_a_pod_without_requests_shares_a_row_of_zero_scores() -> None:
    """Even a best total of 0 is a placement."""
    engine = engine_of(NodeResourcesFit())
    observed(engine, *added(make_node(cpu=100, memory=200 * 1024**2), make_pod(cpu=0, memory=0)))
    assert attempted(engine) == [DEFINED, scheduled(score=0, scores=FIT)]


def test_a_pod_of_another_scheduler_is_not_ours(engine: Engine) -> None:
    """It is known, but in no queue."""
    stranger = make_pod(scheduler_name="other")
    assert observed(engine, *added(make_node(), stranger)) == added(make_node(), stranger)
    assert attempted(engine) == []


def test_a_bound_pod_of_anybody_is_booked(engine: Engine) -> None:
    """A pod that another scheduler placed takes room."""
    foreign = make_pod("foreign", cpu=3500, node_name="n1", scheduler_name="other")
    assert observed(engine, *added(make_node(), foreign)) == added(make_node(), foreign)
    observed(engine, *added(make_pod()))
    assert attempted(engine) == [
        records.VerdictDefined(number=1, verdict=NO_CPU),
        refused(message="0/1 nodes are available: 1 Insufficient cpu.", counts=((1, 1),)),
        parked("p1", "NodeResourcesFit"),
    ]


def test_a_waiting_pod_that_somebody_else_binds_leaves_the_queue(engine: Engine) -> None:
    """Its update says that it is on a node: it is booked there and not tried again."""
    observed(engine, *added(make_node(), make_pod(cpu=3500)))
    update = records.PodUpdated(pod=make_pod(cpu=3500, node_name="n1"))
    assert observed(engine, update) == [update]
    assert engine.idle
    observed(engine, *added(make_pod("p2")))
    assert attempted(engine)[1] == refused(
        "p2", "0/1 nodes are available: 1 Insufficient cpu.", counts=((1, 1),)
    )


def test_pods_on_a_node_that_is_not_known_yet_are_booked_when_it_comes(engine: Engine) -> None:
    """The watch of pods may be ahead of that of nodes."""
    observed(engine, *added(make_pod("early", cpu=2000, node_name="n1"), make_node(), make_pod()))
    assert attempted(engine) == [DEFINED, scheduled(score=(25 + 50) // 2, scores=FIT)]


def test_a_node_that_comes_back_has_its_pods_again(engine: Engine) -> None:
    """Deleted and added again, under a new row."""
    observed(engine, *added(make_node(), make_pod("old", cpu=2000, node_name="n1")))
    gone = records.NodeDeleted(name="n1")
    assert observed(engine, gone) == [gone]
    observed(engine, *added(make_node(), make_pod()))
    assert attempted(engine) == [DEFINED, scheduled(row=1, score=(25 + 50) // 2, scores=FIT)]


def test_a_pod_deleted_while_its_node_is_away_is_not_booked_again(engine: Engine) -> None:
    """The node comes back empty."""
    observed(engine, *added(make_node(), make_pod("old", node_name="n1")))
    observed(engine, records.NodeDeleted(name="n1"), records.PodDeleted(uid="old"))
    observed(engine, *added(make_node(), make_pod()))
    assert attempted(engine) == [DEFINED, scheduled(row=1, score=75, scores=FIT)]


def test_updates_that_change_nothing_give_no_record(engine: Engine) -> None:
    """They do not even count as time that passed."""
    observed(engine, *added(make_node(), make_pod()))
    before = engine.position, engine.state.digest()
    assert observed(engine, records.NodeUpdated(node=make_node()), at=SECOND) == []
    assert observed(engine, records.PodUpdated(pod=make_pod()), at=SECOND) == []
    assert (engine.position, engine.state.digest(), engine.state.now) == (*before, 0)


def test_time_going_back_is_refused(engine: Engine) -> None:
    """Nothing is taken in then."""
    observed(engine, *added(make_node()), at=SECOND)
    with pytest.raises(ValueError, match="stimulus at 999999 µs after one at 1000000 µs"):
        engine.observe(added(make_pod())[0], SECOND - 1)
    assert "p1" not in engine.state.pods


def test_a_deleted_pod_is_not_tried(engine: Engine) -> None:
    """It leaves the active queue."""
    observed(engine, *added(make_node(), make_pod()))
    gone = records.PodDeleted(uid="p1")
    assert observed(engine, gone) == [gone]
    assert attempted(engine) == []


def test_the_seed_decides_between_equals() -> None:
    """Another seed, another draw; the same seed, the same choice."""

    def chosen(seed: str) -> list[str]:
        engine = engine_of(NodeResourcesFit())
        start = records.StreamStarted(format=1, engine="test", seed=seed)
        pods = [make_pod(f"p{i}", cpu=0, memory=0) for i in range(8)]
        observed(engine, start, *added(*(make_node(f"n{i}") for i in range(5)), *pods))
        return [attempted(engine)[-1].node for _ in pods]

    assert chosen("one") == chosen("one")
    assert chosen("one") != chosen("two")


def test_judge_changes_nothing(engine: Engine) -> None:
    """It gives every node's verdict and total without a record."""
    observed(engine, *added(make_node("a"), make_node("b", cpu=100)))
    before = engine.position, engine.state.digest()
    judged = engine.judge(make_pod())
    assert judged.refusals == [(
        Verdict(
            plugin="NodeResourcesFit", code=Code.UNRESOLVABLE, reasons=("Insufficient cpu",)
        ),
        1,
    )]  # fmt: skip
    assert judged.totals.tolist() == [75, -1]
    assert (engine.position, engine.state.digest()) == before


def test_without_detail_the_decision_is_the_same() -> None:
    """Only counts, columns, digest and vectors are missing."""
    first = engine_with()
    second = Engine(first._step.profiles, with_detail=False)
    stimuli = added(make_node("a"), make_node("b", cpu=2000), make_pod())
    for engine in (first, second):
        observed(engine, *stimuli)
    whole, bare = first.schedule_next()[-1], second.schedule_next()[-1]
    assert isinstance(whole.record, PodDecided)
    assert isinstance(bare.record, PodDecided)
    assert (bare.record.node, bare.record.score) == (whole.record.node, whole.record.score)
    assert (bare.record.scoring, bare.record.parameters) == (0, ())
    assert (bare.record.digest, bare.detail) == ("", None)
