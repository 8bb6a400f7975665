"""A pod that asks for more work than an attempt may take is parked; no other pod waits for it."""

from typing import Any

import pytest

from eventsched.domain.objects import (
    AffinityTerm,
    Container,
    HostPort,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PodVolume,
    Requirement,
    SpreadConstraint,
    Toleration,
)
from eventsched.domain.records import (
    ExtenderInquired,
    ExtenderReplied,
    NodeAdded,
    Outcome,
    PodDecided,
    PodQueued,
    PodUpdated,
    Queue,
    StreamStarted,
    TermBegan,
    TimePassed,
)
from eventsched.domain.records.extender_records import FILTER
from eventsched.domain.records.stimuli import SERVES, WORK_BUDGET
from eventsched.runtime.effects.decision_names import OpenDecisions
from eventsched.runtime.effects.event_drafts import WORK_BUDGET_EXCEEDED as REASON
from eventsched.runtime.effects.event_drafts import DraftedStatus, EventDrafter
from eventsched.scheduling.cycle import work_budget
from eventsched.scheduling.cycle.work_budget import FIXED_COST
from eventsched.scheduling.engine import Engine
from tests.builders import (
    PROFILE,
    SECOND,
    active,
    added,
    attempted,
    engine_with,
    make_node,
    make_pod,
    observed,
)

BUDGET = 10 * (FIXED_COST + 10)


def spread(count: int) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(max_skew=1, topology_key=f"key-{n}", when_unsatisfiable="ScheduleAnyway")
        for n in range(count)
    )


def heavy(uid: str = "p1", count: int = 12, **fields: Any) -> Pod:
    """A pod of 12 constraints, and one question for its container."""
    return make_pod(uid, spec={"spread": spread(count)}, **fields)


def started(budget: int | None = BUDGET) -> StreamStarted:
    inputs = {} if budget is None else {WORK_BUDGET: str(budget)}
    return StreamStarted(format=1, engine="0", seed="s", inputs=inputs)


def term_began(budget: int) -> TermBegan:
    return TermBegan(epoch=2, token="0" * 8, engine="1", inputs={WORK_BUDGET: str(budget)})


def begun(budget: int | None = BUDGET) -> Engine:
    engine = engine_with()
    observed(engine, started(budget), *added(make_node("n1")))
    return engine


def message(asked: int = 13, budget: int = BUDGET, nodes: int = 1) -> str:
    return (
        "the pod asks for more work than the budget of an attempt allows: "
        f"{asked} questions (terms, expressions, constraints, volumes, ports…) about "
        f"{nodes} nodes are {asked * (FIXED_COST + nodes):,} units, and workBudget is {budget:,}; "
        "ask for less in its manifest"
    )


def over(attempt: int = 1, **fields: Any) -> list[Any]:
    """What comes of an attempt of p1 that is over the budget."""
    errors = attempt
    filled = {"until": SECOND, "errors": errors, **fields}
    return [
        PodDecided(
            uid="p1", attempt=attempt, profile=PROFILE, outcome=Outcome.ERROR, message=message()
        ),
        PodQueued(
            uid="p1", queue=Queue.UNSCHEDULABLE, cause="OverBudget", rejectors=("eventsched",),
            **filled,
        ),
    ]  # fmt: skip


def test_a_pod_over_the_budget_is_parked_and_the_next_one_placed() -> None:
    engine = begun()
    hostile = heavy()
    assert observed(engine, *added(hostile)) == [*added(hostile), active("p1")]
    observed(engine, *added(make_pod("p2")))
    assert attempted(engine) == over()
    decided = [each for each in attempted(engine) if isinstance(each, PodDecided)]
    assert [(each.uid, each.outcome) for each in decided] == [("p2", Outcome.SCHEDULED)]
    assert engine.idle


def test_only_its_own_change_and_the_flush_bring_it_back() -> None:
    engine = begun()
    hostile = heavy()
    observed(engine, *added(hostile))
    attempted(engine)
    node = NodeAdded(node=make_node("n2"))
    (bound,) = added(make_pod("p2", node_name="n1"))
    assert observed(engine, node, bound, at=2 * SECOND) == [node, bound]
    labelled = PodUpdated(pod=heavy(labels={"a": "b"}))
    woken = active(
        "p1", cause="PodUpdate", plugin="eventsched", rejectors=("eventsched",), until=SECOND,
        errors=1,
    )  # fmt: skip
    assert observed(engine, labelled, at=2 * SECOND) == [labelled, woken]
    assert len(attempted(engine)) == 2
    assert engine.flush_due is not None
    moved = observed(engine, TimePassed(), at=engine.flush_due)[1]
    assert isinstance(moved, PodQueued)
    assert (moved.queue, moved.cause) == (Queue.ACTIVE, "Flush")


def test_a_pod_that_was_made_smaller_is_placed() -> None:
    engine = begun()
    observed(engine, *added(heavy()))
    attempted(engine)
    observed(engine, PodUpdated(pod=heavy(count=2)), at=2 * SECOND)
    decided = [each for each in attempted(engine) if isinstance(each, PodDecided)]
    assert [each.outcome for each in decided] == [Outcome.SCHEDULED]


def test_a_log_without_a_budget_has_none_and_a_term_may_bring_one() -> None:
    engine = begun(None)
    observed(engine, *added(heavy()))
    assert any(isinstance(each, PodDecided) and each.node == "n1" for each in attempted(engine))
    observed(engine, term_began(BUDGET))
    observed(engine, *added(heavy("p2")))
    assert attempted(engine)[0].message == message()


def test_another_budget_tries_what_was_parked() -> None:
    engine = begun()
    observed(engine, *added(heavy()))
    attempted(engine)
    observed(engine, term_began(100 * BUDGET), at=SECOND)
    decided = [each for each in attempted(engine) if isinstance(each, PodDecided)]
    assert [each.outcome for each in decided] == [Outcome.SCHEDULED]


def test_a_snapshot_holds_the_budget() -> None:
    engine = begun()
    other = engine_with()
    other.restore(engine.snapshot(), engine.position)
    assert other.state.work_budget == BUDGET
    assert other.state.digest() == engine.state.digest()
    assert begun(BUDGET + 1).state.digest() != engine.state.digest()


def test_the_condition_says_so_under_a_reason_of_its_own() -> None:
    engine = begun()
    told = EventDrafter(engine.state, OpenDecisions("s"))
    observed(engine, *added(heavy()))
    drafts = [draft for logged in engine.schedule_next() for draft in told.on_record(logged)]
    assert [draft.status for draft in drafts if draft.status] == [
        DraftedStatus("p1", REASON, message(), None, 0)
    ]


REQUIREMENT = Requirement(key="k", operator="In", values=("v",))
TERM = AffinityTerm(topology_key="k", selector=(REQUIREMENT,))


@pytest.mark.parametrize(
    ("pod", "questions"),
    [
        ({}, 0),
        ({"spread": spread(5)}, 5),
        ({"required_anti_affinity": (TERM,) * 100}, 126),
        ({"required_node_terms": (NodeSelectorTerm(expressions=(REQUIREMENT,) * 3),) * 2}, 7),
        ({"required_node_terms": (NodeSelectorTerm(),) * 2}, 2),
        ({"node_selector": {f"k{n}": "v" for n in range(7)}}, 7),
        ({"tolerations": (Toleration(operator="Exists"),) * 160}, 10),
        ({"containers": (Container(ports=(HostPort(port=80),) * 39),)}, 10),
        ({"init_containers": (Container(),) * 40}, 10),
        ({"init_containers": (Container(requests={"a": 1, "b": 2}),) * 40}, 30),
    ],
)
def test_what_counts(pod: dict[str, Any], questions: int) -> None:
    found = Pod(uid="p1", name="p1", spec=PodSpec(**pod))
    assert work_budget.questions(found) == questions
    assert work_budget.work(found, 1_000) == questions * (1_000 + FIXED_COST)


def test_volumes_count() -> None:
    claims = (PodVolume(claim="c"),) * 9
    pod = Pod(uid="p1", name="p1", volumes=claims, resource_claims=("a", "b"))
    assert work_budget.questions(pod) == 11


def test_no_usual_pod_is_over_the_default_budget() -> None:
    """Twenty terms with three requirements each, ten containers, volumes and tolerations, in a
    cluster of 15,000 nodes."""
    three = (REQUIREMENT,) * 3
    spec = PodSpec(
        required_anti_affinity=(AffinityTerm(topology_key="k", selector=three),) * 20,
        spread=spread(5),
        required_node_terms=(NodeSelectorTerm(expressions=three),) * 5,
        tolerations=(Toleration(operator="Exists"),) * 10,
        containers=(Container(requests={"cpu": 1, "memory": 1}, ports=(HostPort(port=1),)),) * 10,
    )
    volumes, labels = (PodVolume(claim="c"),) * 10, {f"l{n}": "v" for n in range(20)}
    pod = Pod(uid="p1", name="p1", spec=spec, volumes=volumes, labels=labels)
    assert not work_budget.over_budget_message(pod, 15_000, work_budget.DEFAULT_BUDGET)
    assert work_budget.work(pod, 15_000) * 2 < work_budget.DEFAULT_BUDGET


def test_an_extender_says_so_too() -> None:
    inputs = {SERVES: PROFILE, WORK_BUDGET: str(BUDGET)}
    engine = engine_with()
    observed(engine, StreamStarted(format=1, engine="0", seed="s", inputs=inputs))
    observed(engine, *added(make_node("n1")), *added(heavy()))
    asked = ExtenderInquired(number=7, uid="p1", verb=FILTER, nodes="0")
    assert observed(engine, asked) == [
        asked,
        ExtenderReplied(number=7, uid="p1", verb=FILTER, problem=message()),
    ]
