"""PodTopologySpread: what its words are, whom it wakes, what follows from services and sets, and
pods that no API server would let in."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from eventsched.domain import records
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.nodes.pod_counts import PodQuery
from eventsched.domain.objects import (
    Node,
    Owner,
    Pod,
    Requirement,
    Selector,
    SpreadConstraint,
    Taint,
    Toleration,
)
from eventsched.domain.objects.registry import Service
from eventsched.domain.records import Outcome
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.plugins.pod_topology_spread import PodTopologySpread
from eventsched.scheduling.config.pluginargs import DefaultConstraint, PodTopologySpreadArgs
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Change, ClusterEvent, Cycle, Status
from eventsched.scheduling.rules.topology.spreading import size_weight
from tests.builders import (
    added,
    attempted,
    engine_of,
    make_node,
    make_pod,
    observed,
    parked,
    records_of,
    refused,
    woken,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SKEWED = "node(s) didn't match pod topology spread constraints"
NAME = "PodTopologySpread"


def has(**labels: str) -> tuple[Requirement, ...]:
    """A selector."""
    return tuple(Requirement(key=k, operator="In", values=(v,)) for k, v in labels.items())


OF_A = has(app="a")


def spreads(*constraints: SpreadConstraint, name: str = "p1", **fields: Any) -> Pod:
    """A pod labelled app=a with constraints."""
    spec = {"spread": constraints, **fields.pop("spec", {})}
    return make_pod(name, spec=spec, **{"labels": {"app": "a"}, **fields})


def hard(key: str = ZONE, skew: int = 1, selector: Selector = OF_A, **more: Any
         ) -> SpreadConstraint:  # fmt: skip
    """A constraint."""
    return SpreadConstraint(max_skew=skew, topology_key=key, selector=selector, **more)


def soft(**more: Any) -> SpreadConstraint:
    """A preference."""
    return hard(when_unsatisfiable="ScheduleAnyway", **more)


def zoned(name: str, zone: str = "", **more: str) -> Node:
    """A node in a zone."""
    labels = {HOST: name, **({ZONE: zone} if zone else {}), **more}
    return make_node(name, labels=labels)


def on(node: str, name: str, **fields: Any) -> Pod:
    """A pod that is there, labelled app=a."""
    return make_pod(name, node_name=node, **{"labels": {"app": "a"}, **fields})


def engine(*objects: Node | Pod, args: PodTopologySpreadArgs | None = None) -> Engine:
    """An engine with the plugin alone."""
    made = engine_of(PodTopologySpread(args))
    observed(made, *added(*objects))
    return made


# --- verdicts and waking -------------------------------------------------------------------------


def test_a_skew_that_is_too_large_and_a_label_that_is_missing() -> None:
    """Codes, reasons and the message."""
    waiting = engine(zoned("n1", "x"), zoned("n2", "y"), zoned("n3"), on("n1", "e1"), on("n2", "e"))
    observed(waiting, *added(spreads(hard(min_domains=3))))
    missing = f"{SKEWED} (missing required label)"
    skewed = Verdict(plugin=NAME, code=Code.UNSCHEDULABLE, reasons=(SKEWED,))
    lacks = Verdict(plugin=NAME, code=Code.UNRESOLVABLE, reasons=(missing,))
    assert attempted(waiting) == [
        records.VerdictDefined(number=1, verdict=skewed),
        records.VerdictDefined(number=2, verdict=lacks),
        refused(
            message=f"0/3 nodes are available: 1 {missing}, 2 {SKEWED}.",
            evaluated=3,
            counts=((1, 2), (2, 1)),
        ),
        parked("p1", NAME),
    ]


def test_pods_that_are_leaving_do_not_count() -> None:
    """Zone y looks empty."""
    leaving = on("n2", "e2", deleting=True)
    waiting = engine(zoned("n1", "x"), zoned("n2", "y"), on("n1", "e1"), leaving)
    observed(waiting, *added(spreads(hard())))
    [decided] = _decisions(waiting)
    assert (decided.node, decided.feasible) == ("n2", 1)


def test_a_pod_wakes_when_one_that_counts_goes() -> None:
    waiting = engine(
        zoned("n1", "x"), zoned("n2", "y"), on("n1", "e1"), on("n1", "e2"), on("n1", "b", labels={})
    )
    observed(waiting, records.NodeUpdated(node=make_node("n2", labels={HOST: "n2"}, cpu=0)))
    observed(waiting, *added(spreads(hard(min_domains=2))))
    attempted(waiting)

    unlike, like = records.PodDeleted(uid="b"), records.PodDeleted(uid="e1")
    assert observed(waiting, unlike, at=2_000_000) == [unlike]
    assert observed(waiting, like, at=2_000_000) == [like, woken("AssignedPodDelete", NAME)]


_PENDING = spreads(hard(node_taints_policy="Honor"), hard(HOST))
_NONE = np.zeros(0, dtype=np.intp)


def _node(**labels: str) -> Node:
    return Node(name="n", labels=labels)


_AT = {ZONE: "x", HOST: "n"}
_BOTH = Node(name="n", labels=_AT)


@pytest.mark.parametrize(
    ("event", "fields", "wakes"),
    [
        ("NODE_ADD", {"node": _BOTH}, True),
        ("NODE_ADD", {"node": Node(name="n", labels={ZONE: "x"})}, False),
        ("NODE_DELETE", {"old": _BOTH}, True),
        ("NODE_DELETE", {"old": Node(name="n")}, False),
        ("NODE_UPDATE_LABEL", {"old": Node(name="n"), "node": _BOTH}, True),
        ("NODE_UPDATE_LABEL", {"old": _BOTH, "node": Node(name="n")}, True),
        ("NODE_UPDATE_LABEL", {"old": _BOTH, "node": _node(**{**_AT, ZONE: "y"})}, True),
        ("NODE_UPDATE_LABEL", {"old": _BOTH, "node": _node(**{**_AT, "disk": "ssd"})}, False),
        (
            "NODE_UPDATE_TAINT",
            {"old": _BOTH, "node": Node(name="n", labels=_AT, taints=(Taint(key="k"),))},
            True,
        ),
        (
            "NODE_UPDATE_TAINT",
            {"old": Node(name="n"), "node": Node(name="n", taints=(Taint(key="k"),))},
            False,
        ),
        ("ASSIGNED_POD_ADD", {"pod": on("n", "e")}, True),
        ("ASSIGNED_POD_ADD", {"pod": on("n", "e", namespace="other")}, False),
        ("ASSIGNED_POD_DELETE", {"pod": on("n", "e", labels={"app": "b"})}, False),
        ("ASSIGNED_POD_UPDATE", {"pod": on("n", "e", labels={}), "old_pod": on("n", "e")}, True),
        (
            "ASSIGNED_POD_UPDATE",
            {"pod": on("n", "e", labels={"app": "a", "v": "1"}), "old_pod": on("n", "e")},
            False,
        ),
        ("ASSIGNED_POD_UPDATE", {"pod": on("n", "e")}, True),
        ("POD_UPDATE", {"pod": _PENDING, "old_pod": spreads(hard(), labels={})}, True),
        ("POD_UPDATE", {"pod": _PENDING, "old_pod": spreads(hard())}, False),
        (
            "POD_UPDATE",
            {
                "pod": _PENDING,
                "old_pod": spreads(hard(), spec={"tolerations": (Toleration(key="k"),)}),
            },
            True,
        ),
    ],
)
def test_hints(event: str, fields: dict[str, Any], wakes: bool) -> None:
    change = Change(ClusterEvent[event], NodeView(NodeTable(), _NONE), **fields)
    assert PodTopologySpread().hint(Cycle(now=0, seed=""), _PENDING, change) is wakes


# --- default constraints -------------------------------------------------------------------------

_LISTED = PodTopologySpreadArgs(
    default_constraints=(
        DefaultConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule"),
    ),
    defaulting_type="List",
)
_NO_DEFAULTS = PodTopologySpreadArgs(defaulting_type="List")


@pytest.mark.parametrize(
    ("args", "pod", "signed"),
    [
        (None, make_pod(), True),
        (None, make_pod(owner=Owner(kind="Job", name="j")), True),
        (None, make_pod(owner=Owner(kind="ReplicaSet", name="r", foreign=True)), True),
        (None, make_pod(labels={"app": "a"}), False),
        (None, make_pod(owner=Owner(kind="StatefulSet", name="s")), False),
        (_NO_DEFAULTS, make_pod(labels={"app": "a"}), True),
        (_NO_DEFAULTS, spreads(soft()), False),
    ],
)
def test_only_pods_that_can_be_spread_are_asked_about_one_by_one(
    args: PodTopologySpreadArgs | None, pod: Pod, signed: bool
) -> None:
    assert (PodTopologySpread(args).sign(pod) is not None) is signed


def test_default_constraints_follow_the_services() -> None:
    placed = engine(zoned("n1", "x"), zoned("n2", "y"), on("n1", "e1"), args=_LISTED)

    def node_of(name: str) -> str:
        observed(placed, *added(make_pod(name, labels={"app": "a"})))
        decided = attempted(placed)[-1]
        assert isinstance(decided, records.PodDecided)
        observed(placed, records.PodDeleted(uid=name))
        assert decided.outcome is Outcome.SCHEDULED
        return f"{decided.node} of {decided.feasible}"

    assert node_of("p1").endswith("of 2")
    service = Service(name="s", namespace="default", selector={"app": "a"})
    observed(placed, records.ObjectChanged(object=service))
    assert node_of("p2") == "n2 of 1"
    observed(placed, records.ObjectDeleted(type="Service", name="s", namespace="default"))
    assert node_of("p3").endswith("of 2")


# --- bad input -----------------------------------------------------------------------------------

_BAD = (Requirement(key="app", operator="Near", values=("a",)),)


@pytest.mark.parametrize(
    ("constraint", "outcome", "message"),
    [
        (hard(selector=_BAD), "error",
         "get constraints from pod: obtaining pod's hard topology spread constraints: "
         '"Near" is not a valid label selector operator'),
        (soft(selector=_BAD), "error",
         "plugin PodTopologySpread failed in pre_score: calculating preScoreState: obtaining pod's "
         'soft topology spread constraints: "Near" is not a valid label selector operator'),
        (hard(selector=_BAD, when_unsatisfiable="Never"), "scheduled", ""),
        (hard(skew=0), "unschedulable", f"0/2 nodes are available: 2 {SKEWED}."),
        (hard(skew=-7), "unschedulable", f"0/2 nodes are available: 2 {SKEWED}."),
        (hard(skew=0, selector=()), "unschedulable", f"0/2 nodes are available: 2 {SKEWED}."),
        (hard(skew=0, selector=None), "scheduled", ""),
        (hard(skew=0, min_domains=-1, selector=has(app="b")), "scheduled", ""),
        (soft(skew=0), "scheduled", ""),
        (soft(skew=-3, selector=None), "scheduled", ""),
        (hard(""), "unschedulable",
         f"0/2 nodes are available: 2 {SKEWED} (missing required label)."),
        (hard(node_affinity_policy="", node_taints_policy="Perhaps"), "scheduled", ""),
        (hard(match_label_keys=("", "app", "app", "none")), "scheduled", ""),
    ],
)  # fmt: skip
def test_bad_input_concerns_its_pod_alone(
    constraint: SpreadConstraint, outcome: str, message: str
) -> None:
    world = engine(zoned("n1", "x"), zoned("n2", "y"), spreads(constraint), make_pod("p2"))
    decisions = list(_decisions(world))
    assert (decisions[0].outcome, decisions[0].message) == (outcome, message)
    assert decisions[1].outcome is Outcome.SCHEDULED


def _decisions(world: Engine) -> Iterator[records.PodDecided]:
    while made := world.schedule_next():
        yield from (r for r in records_of(made) if isinstance(r, records.PodDecided))


def test_scores_below_0_are_an_error() -> None:
    """Where some domains have pods and others none, maxSkew 0 leads upstream out of 0..100."""
    odd = spreads(soft(skew=0))
    world = engine(zoned("n1", "x"), zoned("n2", "y"), on("n1", "e1"), on("n1", "e2"), odd)
    [decided] = _decisions(world)
    assert decided.outcome is Outcome.ERROR
    assert "a maxSkew is below 1" in decided.message


def test_a_thousand_constraints_leave_no_columns_behind() -> None:
    """Of labels that no node has."""
    constraints = [hard(f"k{number}", selector=has(app=f"a{number}")) for number in range(1000)]
    preferred = [soft(key=f"k{number}", selector=has(app=f"a{number}")) for number in range(1000)]
    nodes = [zoned(f"n{number}", "x") for number in range(5)]
    world = engine(*nodes, spreads(*constraints), spreads(*preferred, name="p2"))
    first, second = _decisions(world)
    assert first.message == f"0/5 nodes are available: 5 {SKEWED} (missing required label)."
    assert (second.outcome, second.feasible) == (Outcome.SCHEDULED, 5)
    table = world.state.nodes
    assert table.label("k1") is table.label("k999")
    observed(world, records.NodeUpdated(node=zoned("n0", "x", k999="here")))
    assert table.label("k999") is not table.label("k1")
    assert [table.label("k999").values[n] for n in table.label("k999").ids[:5]] == ["here"] + [
        None
    ] * 4


def test_a_label_may_be_read_with_the_empty_text_for_none() -> None:
    table = engine(zoned("n1", "x"), zoned("n2"), zoned("n3", "x")).state.nodes
    blank = table.label(ZONE, blank=True)
    assert [blank.values[number] for number in blank.ids[:3]] == ["x", "", "x"]
    tally = table.count(PodQuery(frozenset(("default",)), ()))
    assert tally.total == 0
    table.place(1, make_pod("e1"))
    table.place(2, make_pod("e2"))
    assert table.domain_sums("k", tally, ZONE, blank=True).tolist() == [1, 1]
    assert table.domain_sums("k", tally, ZONE).tolist() == [1, 1]
    assert table.domain_sums("k", tally, "rack", blank=True).tolist() == [2]


def test_weights_are_logarithms() -> None:
    for size in (0, 1, 3, 17, 5000, 100_000):
        assert math.isclose(size_weight(size), math.log(size + 2), rel_tol=1e-15)


def test_skip_and_words() -> None:
    plugin, cycle = PodTopologySpread(), Cycle(now=0, seed="")
    view = NodeView(NodeTable())
    assert plugin.pre_filter(cycle, spreads(soft()), view) == Status.skip()
    assert plugin.pre_score(cycle, spreads(hard()), view) == Status.skip()
    assert plugin.pre_filter(cycle, spreads(hard()), view) is None
    assert plugin.explain(cycle, spreads(hard()), 2) == Status.unschedulable(SKEWED)
