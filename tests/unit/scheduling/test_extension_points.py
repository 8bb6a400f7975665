"""Every extension point, with tiny plugins: order, arguments, and what each status code does."""

from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.records import Outcome, PodQueued, Queue
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.scheduling.framework import ClusterEvent, PreFilterResult, Status
from tests.builders import (
    SECOND,
    active,
    added,
    attempted,
    backing_off,
    defined,
    engine_of,
    identity,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    scheduled,
)
from tests.unit.scheduling.scripted_plugins import (
    NODES,
    Scripted,
    answering,
    decision,
    everywhere,
    none,
    on,
    waiting,
)


def test_all_points_run_in_upstreams_order() -> None:
    """Two plugins at each point; Unreserve and PostFilter have no part in a success."""
    trace: list[str] = []
    points = {
        "pre_enqueue": none, "pre_filter": none, "filter": none, "post_filter": none,
        "pre_score": none, "score": everywhere(0), "normalize_score": lambda c, p, scores: scores,
        "reserve": none, "unreserve": none, "permit": none, "pre_bind": none, "post_bind": none,
    }  # fmt: skip
    first, second = Scripted("One", trace, **points), Scripted("Two", trace, **points)
    engine = waiting(first, second, nodes=[make_node("n1")])
    attempted(engine)
    observed(engine, records.BindSucceeded(uid="p1", node="n1"))
    expected = []
    for point in (
        "pre_enqueue", "pre_filter", "filter", "pre_score", "score", "normalize_score",
        "reserve", "permit", "pre_bind", "post_bind",
    ):  # fmt: skip
        expected += [f"One.{point}", f"Two.{point}"]
    assert trace == expected


# --- before the nodes ----------------------------------------------------------------------------


def test_pre_enqueue_holds_a_pod_and_a_change_may_free_it() -> None:
    """A gate that opens by a node, since the plugin listens to all changes."""
    answers = [Status.unschedulable("shut"), Status.unschedulable("shut"), None]
    gate = Scripted("Gate", pre_enqueue=lambda pod: answers.pop(0))
    engine = engine_of(gate)
    shut = PodQueued(
        uid="p1", queue=Queue.GATED, cause="PodAdd", plugin="Gate", rejectors=("Gate",),
        message="shut",
    )  # fmt: skip
    assert observed(engine, *added(make_pod())) == [*added(make_pod()), shut]
    assert observed(engine, *added(NODES[0])) == added(NODES[0])
    assert observed(engine, *added(NODES[1])) == [
        *added(NODES[1]), active(cause="NodeAdd", plugin="Gate", rejectors=("Gate",)),
    ]  # fmt: skip


def test_pre_filter_narrows_to_the_nodes_that_all_name() -> None:
    """The others were not evaluated, and are counted as left out."""
    one = Scripted("One", pre_filter=lambda *_: PreFilterResult(frozenset(["a", "b", "gone"])))
    two = Scripted("Two", pre_filter=lambda *_: PreFilterResult(frozenset(["b", "c"])))
    engine = waiting(one, two)
    assert attempted(engine) == [scheduled(node="b", row=1, counts=((65533, 2),))]


def test_pre_filter_results_without_a_common_node() -> None:
    """Refused by the plugin that made it so."""
    one = Scripted("One", pre_filter=lambda *_: PreFilterResult(frozenset(["a"])))
    two = Scripted("Two", pre_filter=lambda *_: PreFilterResult(frozenset(["b"])))
    message = "0/3 nodes are available: node(s) didn't satisfy plugin(s) [One Two] simultaneously."
    assert attempted(waiting(one, two)) == [
        refused(message=message, evaluated=0, plugin="Two", counts=((65533, 3),)),
        parked("p1", "Two", plugin="Two"),
    ]


@pytest.mark.parametrize("status", [Status.unschedulable("no"), Status.unresolvable("no")])
def test_pre_filter_refuses_for_all_nodes(status: Status) -> None:
    """Its words alone, and no Filter."""
    trace: list[str] = []
    last = Scripted("Last", trace, filter=everywhere(1))
    assert attempted(waiting(Scripted("No", pre_filter=status), last)) == [
        refused(
            message="0/3 nodes are available: no.", evaluated=0, plugin="No", counts=((65533, 3),)
        ),
        parked("p1", "No", plugin="No"),
    ]
    assert trace == []


def test_pre_filter_skip_leaves_out_the_filter_of_that_plugin_only() -> None:
    """Skip."""
    skips = Scripted("Skips", pre_filter=Status.skip(), filter=everywhere(1))
    other = Scripted("Other", filter=on(a=1, b=0, c=1))
    assert decision(waiting(skips, other)).node == "b"


# --- Filter and PostFilter -----------------------------------------------------------------------


def test_filter_stops_at_the_first_refusal_by_order() -> None:
    """A node that an earlier filter refused is not shown to a later one, nor counted for it."""
    shown: list[list[str]] = []

    def second(cycle: Any, pod: Any, nodes: Any) -> Any:
        shown.append(nodes.names)
        return np.ones(len(nodes), dtype=int)

    engine = waiting(
        Scripted("First", filter=on(a=1, b=0, c=0)), Scripted("Second", filter=second),
        Scripted("Third", filter=everywhere(1)),
    )  # fmt: skip
    *definitions, decided, queued = attempted(engine)
    assert definitions == [
        records.VerdictDefined(
            number=number,
            verdict=Verdict(
                plugin=name,
                code=Code.UNSCHEDULABLE,
                reasons=(f"node(s) were refused by {name}",),
            ),
        )
        for number, name in ((1, "First"), (2, "Second"))
    ]
    assert decided == refused(
        message="0/3 nodes are available: 1 node(s) were refused by First, "
        "2 node(s) were refused by Second.",
        evaluated=3,
        counts=((1, 1), (2, 2)),
    )
    assert queued == parked("p1", "First", "Second")
    assert shown == [["b", "c"]]


def test_post_filter_runs_only_when_nothing_fits() -> None:
    """Until one says Success; its words end the message."""
    trace: list[str] = []
    after = [
        Scripted("A", trace, post_filter=Status.unschedulable("nobody to evict")),
        Scripted("B", trace, post_filter=Status(Code.SUCCESS, ("evicted one",))),
        Scripted("C", trace, post_filter=Status.unschedulable("not asked")),
    ]
    attempted(waiting(*after))
    assert trace == []
    decided = decision(waiting(*after, Scripted("No", filter=everywhere(1))))
    assert decided.outcome is Outcome.UNSCHEDULABLE
    assert decided.message == ("0/3 nodes are available: 3 node(s) were refused by No. evicted one")
    assert trace == ["A.post_filter", "B.post_filter"]


class Colours:
    """Per node: refuses by uid, scores by uid."""

    name = "Colours"

    def filter_node(self, pod: Pod, node: Node) -> Status | str | None:
        refusals: dict[str, Status | str] = {
            "red": "too red", "dark": Status.unresolvable("too dark")
        }  # fmt: skip
        return refusals.get(node.uid)

    def score_node(self, pod: Pod, node: Node) -> int:
        return int(node.uid or 0)


def test_per_node_plugins_through_the_adapter() -> None:
    """A word is Unschedulable, a Status what it says; scores are one call a node."""
    uids = {"a": "red", "b": "dark", "c": "40", "d": "50"}
    engine = waiting(Colours(), nodes=[make_node(name, uid=uid) for name, uid in uids.items()])
    *definitions, scoring, decided = attempted(engine)
    assert scoring == defined(identity("Colours"))
    assert [each.verdict for each in definitions] == [
        Verdict(plugin="Colours", code=Code.UNRESOLVABLE, reasons=("too dark",)),
        Verdict(plugin="Colours", code=Code.UNSCHEDULABLE, reasons=("too red",)),
    ]
    assert decided == scheduled(
        node="d", row=3, score=50, feasible=2, evaluated=4, counts=((1, 1), (2, 1)),
        runner_up="c", runner_up_score=40, scores=(identity("Colours"),),
    )  # fmt: skip


# --- Reserve, Permit, PreBind, Bind --------------------------------------------------------------


@pytest.mark.parametrize("point", ["reserve", "permit"])
@pytest.mark.parametrize(
    ("status", "pending"),
    [
        (Status.unschedulable("no", "never"), ()),
        (Status.unresolvable("no", "never"), ()),
        (Status.pending("no", "never"), ("No",)),
    ],
)
def test_a_refusal_after_the_choice(point: str, status: Status, pending: tuple[str, ...]) -> None:
    """The decision names the node and who refused it; Unreserve runs in reverse order; the pod
    waits for a change."""
    trace: list[str] = []
    before = [Scripted(name, trace, reserve=none, unreserve=none) for name in ("A", "B")]
    engine = waiting(*before, answering("No", point, status), nodes=[make_node()])
    placed: dict[str, Any] = {"node": "n1", "row": 0, "ties": 1, "feasible": 1}
    assert attempted(engine) == [
        refused(message="no, never", plugin="No", **placed),
        parked("p1", "No", plugin="No", pending=pending),
    ]
    assert trace == ["A.reserve", "B.reserve", "B.unreserve", "A.unreserve"]
    assert engine.state.nodes.books[1, 0, 0] == 0


@pytest.mark.parametrize("point", ["pre_bind", "bind"])
def test_a_refusal_while_binding(point: str) -> None:
    """The pod backs off, as upstream: what it failed on is not a property of the nodes."""
    engine = waiting(answering("No", point, Status.unschedulable("no")), nodes=[make_node()])
    placed: dict[str, Any] = {"node": "n1", "row": 0, "ties": 1, "feasible": 1}
    assert attempted(engine) == [
        refused(message="no", plugin="No", **placed),
        backing_off(plugin="No"),
    ]


@pytest.mark.parametrize("point", ["reserve", "permit", "pre_bind", "bind"])
def test_an_error_after_the_choice(point: str) -> None:
    """The pod backs off and is tried again without waiting for a change."""
    engine = waiting(answering("No", point, Status.error("broken")), nodes=[make_node()])
    placed: dict[str, Any] = {"node": "n1", "row": 0, "ties": 1, "feasible": 1}
    assert attempted(engine) == [
        refused(message="broken", plugin="No", outcome=Outcome.ERROR, **placed),
        backing_off(plugin="No"),
    ]


def test_filter_says_pending_or_error_through_explain() -> None:
    """Pending is a refusal whose plugin wakes the pod at once; Error ends the attempt."""
    said = {1: Status.pending("soon"), 2: Status.error("cannot read")}
    for code, kind, pending in ((1, "unschedulable", ("Says",)), (2, "error", ())):
        explain: dict[str, Any] = {"explain": lambda cycle, pod, code: said[code]}
        engine = waiting(Scripted("Says", filter=everywhere(code), **explain))
        *_, decided, queued = attempted(engine)
        assert (decided.outcome, queued.pending) == (kind, pending)
    assert decided.message == "plugin Says failed in filter: cannot read"


def test_bind_skip_leaves_it_to_the_next_one() -> None:
    """The first that does not skip binds; later ones are not asked."""
    trace: list[str] = []
    binders = [
        Scripted("A", trace, bind=Status.skip()), Scripted("B", trace, bind=None),
        Scripted("C", trace, bind=None),
    ]  # fmt: skip
    assert decision(waiting(*binders)).outcome is Outcome.SCHEDULED
    assert trace == ["A.bind", "B.bind"]


def test_no_bind_plugin_takes_the_pod() -> None:
    """An error that names them all."""
    binders = [Scripted(name, bind=Status.skip()) for name in ("A", "B")]
    decided, queued = attempted(waiting(*binders, nodes=[make_node()]))
    assert decided.message == ("no bind plugin took the pod: all of A, B skipped it")
    assert queued == backing_off(plugin="A, B")


def test_post_bind_remembers_through_an_event_that_wakes() -> None:
    """The next attempt of another pod reads it."""

    def post_bind(cycle: Any, pod: Any, node: str) -> None:
        cycle.remember("last", node)

    def pre_filter(cycle: Any, pod: Any, nodes: Any) -> Status | None:
        first = not cycle.memory and pod.name != "p1"
        return Status.unschedulable("after p1") if first else None

    engine = engine_of(Scripted("Order", pre_filter=pre_filter, post_bind=post_bind))
    observed(engine, *added(make_node(), make_pod("p0"), make_pod("p1")))
    attempted(engine), attempted(engine)
    outcome = records.BindSucceeded(uid="p1", node="n1")
    assert observed(engine, outcome, at=SECOND) == [
        outcome,
        records.PodBound(uid="p1", node="n1", attempt=1),
        records.MemoryChanged(plugin="Order", key="last", value="n1"),
        active(
            "p0", ClusterEvent.MEMORY_CHANGE, plugin="Order", rejectors=("Order",),
            until=SECOND, failures=1,
        ),
    ]  # fmt: skip
    assert decision(engine).outcome is Outcome.SCHEDULED
