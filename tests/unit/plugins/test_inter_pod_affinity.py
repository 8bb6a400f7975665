"""InterPodAffinity in an engine of its own: verdicts, scores and waking, as records.

Whether each rule is upstream's is held in tests/properties and tests/conformance.
"""

from typing import Any

import pytest

from eventsched.domain import records
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import AffinityTerm, Pod, Requirement, WeightedAffinityTerm
from eventsched.domain.objects.registry import Namespace
from eventsched.domain.records.verdicts import Code, Normalization, ScoreColumn, Verdict
from eventsched.plugins.inter_pod_affinity import InterPodAffinity
from eventsched.scheduling.config.pluginargs import InterPodAffinityArgs
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Cycle, Status
from tests.builders import (
    SECOND,
    added,
    attempted,
    defined,
    engine_of,
    make_node,
    make_pod,
    observed,
    parked,
    refused,
    woken,
)

PLUGIN = "InterPodAffinity"
NOT_NEAR = "node(s) didn't match pod affinity rules"
NOT_AWAY = "node(s) didn't match pod anti-affinity rules"
KEPT_AWAY = "node(s) didn't satisfy existing pods anti-affinity rules"


def where(key: str, *values: str) -> tuple[Requirement, ...]:
    """A label selector."""
    return (Requirement(key=key, operator="In", values=values),)


def term(app: str = "a", topology: str = "zone", **fields: Any) -> AffinityTerm:
    """About pods of an app."""
    return AffinityTerm(topology_key=topology, selector=where("app", app), **fields)


def wish(weight: int, **fields: Any) -> tuple[WeightedAffinityTerm, ...]:
    """A preference."""
    return (WeightedAffinityTerm(weight=weight, term=term(**fields)),)


def pod(name: str = "p1", app: str = "a", node: str = "", **spec: Any) -> Pod:
    """A pod of an app; ``spec`` are its terms."""
    return make_pod(name, labels={"app": app}, node_name=node, spec=spec)


NODES = [
    make_node(name, labels={"zone": zone, "host": name})
    for name, zone in (("n1", "x"), ("n2", "x"), ("n3", "y"))
]
BARE = make_node("bare")


def engine_on(*objects: Any, args: InterPodAffinityArgs | None = None) -> Engine:
    """An engine that has seen NODES and these."""
    engine = engine_of(InterPodAffinity(args))
    observed(engine, *added(*NODES, *objects))
    return engine


def verdict(number: int, reason: str, code: Code = Code.UNSCHEDULABLE) -> records.VerdictDefined:
    """The dictionary's entry."""
    return records.VerdictDefined(
        number=number, verdict=Verdict(plugin=PLUGIN, code=code, reasons=(reason,))
    )


# --- verdicts ------------------------------------------------------------------------------------


def test_the_first_of_a_group_may_go_where_the_labels_are() -> None:
    """No pod matches anywhere and the pod matches itself; a node without the label is out."""
    first = pod(required_affinity=(term(),))
    assert attempted(engine_on(BARE, first))[0] == verdict(1, NOT_NEAR, Code.UNRESOLVABLE)
    engine = engine_on(BARE, first)
    *_, decided = attempted(engine)
    assert (decided.feasible, decided.counts) == (3, ((1, 1),))


def test_the_first_of_another_group_may_not() -> None:
    """It does not match its own term."""
    engine = engine_on(pod(app="b", required_affinity=(term(),)))
    assert attempted(engine) == [
        verdict(1, NOT_NEAR, Code.UNRESOLVABLE),
        refused(message=f"0/3 nodes are available: 3 {NOT_NEAR}.", evaluated=3, counts=((1, 3),)),
        parked("p1", PLUGIN),
    ]


def test_near_to_all_at_once() -> None:
    """One pod has to match all terms; each of the two here matches one."""
    both = (term(), AffinityTerm(topology_key="host", selector=where("tier", "t")))
    halves = [make_pod("h1", labels={"app": "a"}, node_name="n1"),
              make_pod("h2", labels={"tier": "t"}, node_name="n1")]  # fmt: skip
    engine = engine_on(*halves, pod(app="b", required_affinity=both))
    assert attempted(engine)[1] == refused(
        message=f"0/3 nodes are available: 3 {NOT_NEAR}.", evaluated=3, counts=((1, 3),)
    )
    whole = make_pod("h3", labels={"app": "a", "tier": "t"}, node_name="n2")
    engine = engine_on(*halves, whole, pod(app="b", required_affinity=both))
    *_, decided = attempted(engine)
    assert (decided.node, decided.feasible) == ("n2", 1)


def test_away_in_both_directions() -> None:
    """The pod's own anti-affinity is reported before that of existing pods."""
    hater = pod("hater", "b", "n1", required_anti_affinity=(term("a"),))
    engine = engine_on(hater, pod("other", "c", "n3"), pod(required_anti_affinity=(term("c"),)))
    assert attempted(engine) == [
        verdict(1, NOT_AWAY),
        verdict(2, KEPT_AWAY),
        refused(
            message=f"0/3 nodes are available: 1 {NOT_AWAY}, 2 {KEPT_AWAY}.",
            evaluated=3, counts=((1, 1), (2, 2)),
        ),
        parked("p1", PLUGIN),
    ]  # fmt: skip


def test_namespaces_are_selected_as_they_are_now() -> None:
    """The pods of a namespace count as soon as its labels say so."""
    elsewhere = make_pod("e", labels={"app": "a"}, namespace="far", node_name="n3")
    wanted = term(namespace_selector=where("team", "red"))
    engine = engine_on(elsewhere, pod(app="b", required_affinity=(wanted,)))
    assert attempted(engine)[1].feasible == 0
    red = records.ObjectChanged(object=Namespace(name="far", labels={"team": "red"}))
    observed(engine, red, records.TimePassed(), at=301 * SECOND)
    *_, decided = attempted(engine)
    assert (decided.node, decided.feasible) == ("n3", 1)


def test_nothing_is_kept_beyond_an_attempt() -> None:
    """A cycle that is used again after a placement sees it."""
    engine = engine_on()
    plugin, table = InterPodAffinity(), engine.state.nodes
    cycle, probe = Cycle(now=0, seed=""), pod(required_anti_affinity=(term(),))
    assert plugin.filter(cycle, probe, NodeView(table)).tolist() == [0, 0, 0]
    observed(engine, *added(pod("x", node="n3")))
    assert plugin.filter(cycle, probe, NodeView(table)).tolist() == [0, 0, 2]


# --- scores --------------------------------------------------------------------------------------


def test_preferences_in_both_directions() -> None:
    """Near to app b (10), away from c (4); a liking (3), a need (1, the default) and a dislike (5)
    of pods that are there."""
    there = [
        pod("b1", "b", "n1"), pod("c1", "c", "n3"),
        pod("likes", "d", "n2", preferred_affinity=wish(3, app="a", topology="host")),
        pod("needs", "d", "n2", required_affinity=(term("a"),)),
        pod("hates", "d", "n3", preferred_anti_affinity=wish(5, app="a")),
    ]  # fmt: skip
    asking = pod(preferred_affinity=wish(10, app="b"), preferred_anti_affinity=wish(4, app="c"))
    engine = engine_on(*there, asking)
    column = ScoreColumn(plugin=PLUGIN, weight=1, normalization=Normalization.RATIO)
    logged = engine.schedule_next()
    assert [each.record for each in logged[:-1]] == [defined(column)]
    decided: Any = logged[-1].record
    detail = logged[-1].detail
    # 10 + 1 and, on n2, 3 more; -4 - 5: shifted by the smallest.
    assert detail.scores[0].tolist() == [20, 23, 0]
    assert (decided.node, decided.score, decided.parameters) == ("n2", 100, ((0, 23),))


@pytest.mark.parametrize(
    ("hard", "ignores", "asks", "worst_to_best"),
    [
        (0, False, False, None),
        (7, False, False, 7),
        (7, True, False, None),
        (7, True, True, 8),
    ],
)
def test_arguments(hard: int, ignores: bool, asks: bool, worst_to_best: int | None) -> None:
    """A pod on n3 needs app a near; ignoring it is for pods without preferences of their own."""
    args = InterPodAffinityArgs(
        hard_pod_affinity_weight=hard, ignore_preferred_terms_of_existing_pods=ignores
    )
    spec: dict[str, Any] = {"preferred_affinity": wish(1, app="d")} if asks else {}
    needs = pod("needs", "d", "n3", required_affinity=(term("a"),))
    engine = engine_on(needs, pod(**spec), args=args)
    *_, decided = attempted(engine)
    assert decided.parameters == (() if worst_to_best is None else ((0, worst_to_best),))


def test_nothing_is_asked_of_pods_that_no_term_concerns() -> None:
    """Skip at both points, with terms about others there."""
    engine = engine_on(pod("x", "c", "n1", required_anti_affinity=(term("b"),)), pod())
    *_, decided = attempted(engine)
    assert (decided.feasible, decided.ties, decided.parameters) == (3, 3, ())


# --- malformed -----------------------------------------------------------------------------------

NEAR = (AffinityTerm(topology_key="zone", selector=(Requirement(key="a", operator="Near"),)),)
EMPTY = (AffinityTerm(topology_key="zone", namespace_selector=where("team")),)
SAYS = '"Near" is not a valid label selector operator'
EMPTY_SAYS = "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"required_affinity": NEAR}, f"requiredAffinityTerms: {SAYS}"),
        ({"required_anti_affinity": EMPTY}, f"requiredAntiAffinityTerms: {EMPTY_SAYS}"),
        (
            {"required_affinity": NEAR, "preferred_anti_affinity": (
                WeightedAffinityTerm(weight=1, term=EMPTY[0]),)},
            f"[requiredAffinityTerms: {SAYS}, preferredAntiAffinityTerms: {EMPTY_SAYS}]",
        ),
    ],
)  # fmt: skip
def test_a_malformed_term_refuses_its_pod_alone(spec: dict[str, Any], said: str) -> None:
    """Everything else goes on."""
    engine = engine_on(pod(**spec), pod("p2"))
    message = f"0/3 nodes are available: parsing pod: {said}."
    assert attempted(engine) == [
        refused(message=message, plugin=PLUGIN, evaluated=0, counts=((65533, 3),)),
        parked("p1", PLUGIN, plugin=PLUGIN),
    ]
    assert attempted(engine)[-1].uid == "p2"


def test_a_malformed_term_of_a_pod_that_is_there_counts_for_nothing() -> None:
    """Nor do the others of its role; other roles stand."""
    there = pod("x", "c", "n1", required_anti_affinity=(term("a"), *NEAR),
                preferred_affinity=wish(3, app="a", topology="host"))  # fmt: skip
    *_, decided = attempted(engine_on(there, pod()))
    assert (decided.node, decided.feasible, decided.parameters) == ("n1", 3, ((0, 3),))


def test_pre_score_says_so_where_pre_filter_was_not_asked() -> None:
    """A configuration may leave PreFilter out."""
    engine = engine_on()
    answer = InterPodAffinity().pre_score(
        Cycle(now=0, seed=""), pod(required_affinity=NEAR), NodeView(engine.state.nodes)
    )
    assert answer == Status.error(f"failed to parse pod: requiredAffinityTerms: {SAYS}")


def test_a_thousand_terms() -> None:
    """They are judged like one."""
    many = tuple(term(f"m{n}", "host" if n % 2 else "zone") for n in range(1000))
    wishes = tuple(
        WeightedAffinityTerm(weight=1 + n % 100, term=each) for n, each in enumerate(many)
    )
    spec: dict[str, Any] = {"required_anti_affinity": many, "preferred_affinity": wishes}
    engine = engine_on(pod("x", "m1", "n1"), pod("y", "m998", "n3"), pod(**spec))
    *_, decided = attempted(engine)
    assert (decided.node, decided.feasible) == ("n2", 1)


# --- waking --------------------------------------------------------------------------------------

NEEDS_B = pod(app="c", required_affinity=(term("b"),))
HATES = pod(required_anti_affinity=(term("b"),))
HATED = pod()
FULL = [pod(f"b{n}", "b", f"n{n}") for n in (1, 3)]
HATERS = [pod(f"b{n}", "b", f"n{n}", required_anti_affinity=(term("a"),)) for n in (1, 3)]
MOVED = make_node("n1", labels={"zone": "z", "host": "n1"})
UNLABELLED = make_node("n1", labels={"host": "n1"})
OTHER_LABEL = make_node("n1", labels={"zone": "x", "host": "n1", "more": "yes"})
FAR = Namespace(name="far", labels={"team": "red"})
IN_RED = pod(app="c", required_affinity=(term("b", namespace_selector=where("team", "red")),))


@pytest.mark.parametrize(
    ("there", "asking", "stimulus", "event"),
    [
        ([], NEEDS_B, records.PodAdded(pod=FULL[0]), "AssignedPodAdd"),
        ([], NEEDS_B, records.PodAdded(pod=pod("x", "d", "n1")), ""),
        ([pod("b1", "d", "n9")], NEEDS_B, records.PodUpdated(pod=FULL[0]), "AssignedPodUpdate"),
        ([pod("b1", "d", "n9")], NEEDS_B, records.PodUpdated(pod=pod("b1", "e", "n1")), ""),
        ([], NEEDS_B, records.NodeUpdated(node=MOVED), "NodeUpdateLabel"),
        ([], NEEDS_B, records.NodeUpdated(node=UNLABELLED), ""),
        ([], NEEDS_B, records.NodeUpdated(node=OTHER_LABEL), ""),
        ([], NEEDS_B, records.NodeAdded(node=make_node("n4", labels={"zone": "q"})), "NodeAdd"),
        ([], NEEDS_B, records.NodeAdded(node=make_node("n4", labels={"host": "q"})), ""),
        ([], NEEDS_B, records.PodUpdated(pod=pod(app="d", required_affinity=(term("b"),))),
         "PodUpdate"),
        ([], NEEDS_B, records.PodUpdated(
            pod=pod(app="c", required_affinity=(term("b"),), image_volumes=("i",))), ""),
        (FULL, HATES, records.PodDeleted(uid="b1"), "AssignedPodDelete"),
        ([*FULL, pod("x", "d", "n1")], HATES, records.PodDeleted(uid="x"), ""),
        (FULL, HATES, records.PodUpdated(pod=pod("b1", "c", "n1")), "AssignedPodUpdate"),
        (FULL, HATES, records.NodeUpdated(node=UNLABELLED), "NodeUpdateLabel"),
        (FULL, HATES, records.NodeUpdated(node=MOVED), "NodeUpdateLabel"),
        (FULL, HATES, records.NodeAdded(node=BARE), "NodeAdd"),
        (HATERS, HATED, records.PodDeleted(uid="b1"), "AssignedPodDelete"),
        (HATERS, HATED, records.PodAdded(pod=pod("x", "a", "n1")), ""),
        (HATERS, HATED, records.NodeAdded(node=BARE), ""),
        # As upstream, a selector of namespaces is held against no labels at all.
        ([], IN_RED, records.PodAdded(pod=make_pod(
            "x", labels={"app": "b"}, namespace="far", node_name="n1")), ""),
        ([], IN_RED, records.ObjectChanged(object=FAR), ""),
        ([], pod(required_affinity=NEAR), records.PodAdded(pod=FULL[0]), "AssignedPodAdd"),
    ],
)  # fmt: skip
def test_what_wakes(there: list[Pod], asking: Pod, stimulus: Any, event: str) -> None:
    """A pod that was refused wakes by what may help it, and by nothing else."""
    engine = engine_on(*there, asking)
    assert isinstance(attempted(engine)[-1], records.PodQueued)
    moves = [woken(event, PLUGIN)] if event else []
    assert observed(engine, stimulus, at=2 * SECOND) == [stimulus, *moves]


def test_pods_that_are_alike_wake_together() -> None:
    """And others that wait for the same do not, where their labels differ."""
    hater = pod("hater", "b", "n1", required_anti_affinity=(term("a", "none"), term("a")))
    asking = [pod(name, required_affinity=(term("b"),)) for name in ("p1", "p2")]
    shy = pod("p3", "c", required_anti_affinity=(term("d"),), required_affinity=(term("b"),))
    engine = engine_on(hater, pod("d1", "d", "n1"), *asking, shy)
    for _ in range(3):
        attempted(engine)
    gone = records.PodDeleted(uid="hater")
    found = observed(engine, gone, at=2 * SECOND)
    assert [each.uid for each in found[1:]] == ["p1", "p2"]
