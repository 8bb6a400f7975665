"""Which change ``explain --why-not`` finds for each refusal."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from eventsched.domain.errors import InputError
from eventsched.domain.objects import (
    AffinityTerm,
    Container,
    HostPort,
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredTerm,
    Requirement,
    SpreadConstraint,
    Taint,
)
from eventsched.history.why_not.changes import AnyChange, NodeLabelSet, PodRemoved
from eventsched.history.why_not.hypothesis import Hypothesis
from eventsched.history.why_not.search import Remedy, remedies
from eventsched.history.why_not.shortfall import Shortfall, shortfall
from eventsched.scheduling.engine import Engine
from eventsched.testing import added, engine_with, make_node, make_pod, observed

WEB = (Requirement(key="app", operator="In", values=("web",)),)


def _found(pod: Pod, nodes: Sequence[Node], present: Sequence[Pod] = ()) -> list[Remedy]:
    """The remedies for the first of the nodes."""

    def make_engine(weights: Mapping[str, int]) -> Engine:
        engine = engine_with(weights=weights)
        observed(engine, *added(*nodes, *present))
        return engine

    return remedies(Hypothesis(make_engine, pod, nodes[0].name))


def _texts(found: list[Remedy]) -> list[list[str]]:
    return [[change.text for change in remedy.changes] for remedy in found]


def _spec(cpu: int = 100, **fields: Any) -> PodSpec:
    return PodSpec(containers=(Container(requests={"cpu": cpu}),), **fields)


def _on(node: str, name: str, cpu: int = 100, priority: int = 0, **fields: Any) -> Pod:
    return Pod(
        uid=name, name=name, node_name=node, spec=_spec(cpu, **fields), priority=priority,
        labels={"app": "web"},
    )  # fmt: skip


def _pod(cpu: int = 100, **fields: Any) -> Pod:
    return Pod(uid="p", name="p", labels={"app": "web"}, spec=_spec(cpu, **fields))


def test_a_pod_that_lands_there_needs_nothing() -> None:
    [remedy] = _found(make_pod(), [make_node("n1")])
    assert remedy.landing.lands
    assert remedy.changes == ()


@pytest.mark.parametrize(
    ("pod", "node", "present", "texts"),
    [
        (
            _pod(),
            Node(name="n1", allocatable={"cpu": 4000, "pods": 9}, taints=(Taint(
                key="dedicated", value="gpu", effect="NoSchedule"),)),
            (),
            [["tolerate the taint dedicated=gpu:NoSchedule"],
             ["remove the node's taint dedicated=gpu:NoSchedule"]],
        ),
        (
            _pod(),
            Node(name="n1", allocatable={"cpu": 4000, "pods": 9}, unschedulable=True),
            (),
            [["tolerate the taint node.kubernetes.io/unschedulable:NoSchedule"],
             ["uncordon the node"]],
        ),
        (
            _pod(2000),
            Node(name="n1", allocatable={"cpu": 1800, "pods": 9}),
            (_on("n1", "a", 300), _on("n1", "b", 500, priority=5)),
            [["request at most 1 of cpu instead of 2"]],
        ),
        (
            _pod(1500),
            Node(name="n1", allocatable={"cpu": 1800, "pods": 9}),
            (_on("n1", "a", 300), _on("n1", "b", 500, priority=5)),
            [["request at most 1 of cpu instead of 1500m"],
             ["remove the pod default/b (priority 5)"]],
        ),
        (
            _pod(500),
            Node(name="n1", allocatable={"cpu": 800, "pods": 9}),
            (_on("n1", "a", 300), _on("n1", "b", 500, priority=5)),
            [["remove the pod default/b (priority 5)"]],
        ),
        (
            _pod(),
            Node(name="n1", allocatable={"cpu": 4000, "pods": 1}),
            (_on("n1", "a"),),
            [["remove the pod default/a (priority 0)"]],
        ),
        (
            Pod(uid="p", name="p", spec=PodSpec(
                containers=(Container(requests={"example.com/gpu": 2}),))),
            Node(name="n1", allocatable={"cpu": 4000, "pods": 9}),
            (),
            [["request no example.com/gpu instead of 2"]],
        ),
        (
            _pod(node_selector={"disk": "ssd"}),
            Node(name="n1", allocatable={"cpu": 4000, "pods": 9}),
            (),
            [["remove disk=ssd from nodeSelector"], ["label the node disk=ssd"]],
        ),
        (
            _pod(required_node_terms=(NodeSelectorTerm(expressions=(
                Requirement(key="zone", operator="In", values=("a", "b")),)),)),
            Node(name="n1", allocatable={"cpu": 4000, "pods": 9}),
            (),
            [["remove the required node affinity"], ["label the node zone=a"]],
        ),
        (
            Pod(uid="p", name="p", spec=PodSpec(
                containers=(Container(ports=(HostPort(port=80),)),))),
            Node(name="n1", allocatable={"cpu": 4000, "pods": 9}),
            (Pod(uid="a", name="a", node_name="n1", spec=PodSpec(
                containers=(Container(ports=(HostPort(port=80),)),))),),
            [["remove the host port 80/TCP"], ["remove the pod default/a (priority 0)"]],
        ),
        (
            _pod(required_anti_affinity=(AffinityTerm(topology_key="host", selector=WEB),)),
            Node(name="n1", labels={"host": "n1"}, allocatable={"cpu": 4000, "pods": 9}),
            (_on("n1", "a"),),
            [["remove required pod anti-affinity term 1 (host)"]],
        ),
        (
            _pod(),
            Node(name="n1", labels={"host": "n1"}, allocatable={"cpu": 4000, "pods": 9}),
            (_on("n1", "a", required_anti_affinity=(
                AffinityTerm(topology_key="host", selector=WEB),)),),
            [["remove the pod's label app=web"]],
        ),
    ],
)  # fmt: skip
def test_the_change_for_a_refusal(
    pod: Pod, node: Node, present: tuple[Pod, ...], texts: list[list[str]]
) -> None:
    assert _texts(_found(pod, [node], present)) == texts


def test_a_request_of_which_hardly_anything_is_left_comes_only_if_nothing_else_helps() -> None:
    """Less than a twentieth of what is asked for; and then it says so."""
    node = Node(name="n1", allocatable={"cpu": 2000, "pods": 9})
    full = [_on("n1", "a", 1950)]
    assert _texts(_found(_pod(2000), [node], full)) == [["remove the pod default/a (priority 0)"]]
    both = _texts(_found(_pod(2000), [node], [_on("n1", "a", 1900)]))
    assert both == [
        ["request at most 100m of cpu instead of 2"],
        ["remove the pod default/a (priority 0)"],
    ]
    small = Node(name="n1", allocatable={"cpu": 50, "pods": 9})
    assert _texts(_found(_pod(2000), [small])) == [
        ["request at most 50m of cpu instead of 2, which is hardly any"]
    ]


def test_a_pod_that_preemption_may_evict() -> None:
    node = Node(name="n1", allocatable={"cpu": 2000, "pods": 9})
    important, present = replace(_pod(2000), priority=100), [_on("n1", "a", 1950)]
    [remedy] = _found(important, [node], present)
    assert [change.text for change in remedy.changes] == [
        "remove the pod default/a (priority 0; preemption may do so for this pod, which has 100, "
        "once nothing else refuses the node)"
    ]
    for pod in (replace(important, preemption_policy="Never"), replace(important, priority=0)):
        [remedy] = _found(pod, [node], present)
        assert remedy.changes[0].text == "remove the pod default/a (priority 0)"


def test_room_that_is_kept_for_a_nominated_pod() -> None:
    """A less important one does not keep it, so it stays."""
    nominated = [
        Pod(uid=name, name=name, spec=_spec(1500), priority=priority, nominated_node="n1",
            gates=("wait",))
        for name, priority in (("a", -1), ("b", 5))
    ]  # fmt: skip
    found = _found(_pod(1000), [make_node("n1", cpu=2000)], nominated)
    assert _texts(found) == [
        ["request at most 500m of cpu instead of 1"], ["remove the pod default/b (priority 5)"],
    ]  # fmt: skip


def test_few_pods_are_removed_for_room() -> None:
    """The newest ones first would be three. More important ones stay, even if one is enough."""
    node = replace(make_node("n1"), allocatable={"cpu": 3400, "memory": 2**30, "pods": 110})
    present = [
        _on("n1", "critical", 1500, priority=100), _on("n1", "large", 1000),
        *(_on("n1", f"small{number}", 300) for number in range(3)),
    ]  # fmt: skip
    assert _texts(_found(_pod(900), [node], present)) == [
        ["remove the pod default/large (priority 0)"]
    ]
    more = [replace(each, priority=50) if each.name == "large" else each for each in present]
    assert _texts(_found(_pod(600), [node], more)) == [
        [f"remove the pod default/small{number} (priority 0)" for number in (2, 1)]
    ]


def test_more_pods_are_removed_if_the_node_then_has_the_largest_total() -> None:
    """Without the large one the pod fits, but n2 has a higher total. One more, the next largest,
    is enough; the newest ones first would be four."""
    nodes = [make_node("n1", cpu=4000), make_node("n2", cpu=4000)]
    sizes = {"large": 2000, "tiny": 250, "half": 500, "one": 1000, "new": 250}
    present = [_on("n1", name, cpu) for name, cpu in sizes.items()]
    present += [_on("n2", "other", 1500)]
    assert _texts(_found(_pod(2000), nodes, present)) == [[
        "remove the pod default/large (priority 0)", "remove the pod default/one (priority 0)",
    ]]  # fmt: skip


def test_the_smallest_skew_with_which_it_lands() -> None:
    constraint = SpreadConstraint(max_skew=1, topology_key="zone", selector=WEB)
    nodes = [
        Node(name=name, labels={"zone": zone}, allocatable={"cpu": 4000, "pods": 9}, taints=taints)
        for name, zone, taints in (
            ("n1", "a", ()),
            ("n2", "b", (Taint(key="k", effect="NoSchedule"),)),
        )
    ]
    present = [_on("n1", f"a{number}") for number in range(3)]
    found = _found(_pod(spread=(constraint,)), nodes, present)
    assert _texts(found) == [["raise maxSkew of topology spread constraint 1 (zone) to 4"]]


def _of_two(first: Pod | None, second: Pod | None, weights: Mapping[str, int]) -> Hypothesis:
    """A pod and node n1 of three like ones; ``first`` is on n1, ``second`` on n2 and n3."""

    def make_engine(more: Mapping[str, int]) -> Engine:
        engine = engine_with(weights={**weights, **more})
        nodes = [make_node(name, cpu=4000) for name in ("n1", "n2", "n3")]
        observed(engine, *added(*nodes))
        for node, present in (("n1", first), ("n2", second), ("n3", second)):
            if present is not None:
                name = f"{present.name}-{node}"
                observed(engine, *added(replace(present, uid=name, name=name, node_name=node)))
        return engine

    return Hypothesis(make_engine, _pod(), "n1")


def test_a_node_with_a_lower_total_is_short_of_points_by_plugin() -> None:
    """Each part is a score times its weight, and together they are the whole."""
    hypothesis = _of_two(_on("n1", "a", 2000), None, {"NodeResourcesFit": 2})
    behind = hypothesis.landing(()).behind
    for chosen in ("n2", "n3"):
        short = shortfall(hypothesis, chosen)
        assert short is not None
        assert (short.points, short.best) == (behind, chosen)
        assert sum(part.difference for part in short.scores) == -behind < 0
        [fit, *_] = [part for part in short.scores if part.plugin == "NodeResourcesFit"]
        assert fit.difference == fit.score - fit.best < 0
        assert fit.score % 2 == fit.best % 2 == 0
        costs = [part.difference for part in short.scores]
        assert costs == sorted(costs)
        assert 0 not in costs
    elsewhere = shortfall(hypothesis, "n1")
    assert elsewhere is not None
    assert elsewhere.best == "n2"


def test_a_node_that_is_as_good_is_short_of_no_point() -> None:
    short = shortfall(_of_two(None, None, {}), "n3")
    assert short == Shortfall(0, "n3", ())


def test_a_node_that_takes_or_refuses_the_pod_has_no_shortfall() -> None:
    assert shortfall(_of_two(None, _on("n2", "a", 2000), {}), "n1") is None
    assert shortfall(_of_two(_on("n1", "a", 4000), None, {}), "n2") is None


def test_a_weight_comes_before_a_pinned_node() -> None:
    """A pod that is pinned to a node waits as soon as that node is full."""
    emptier = Node(name="n1", allocatable={"cpu": 4000, "memory": 2**33, "pods": 9})
    preferred = replace(emptier, name="n2", labels={"app": "web"})
    term = PreferredTerm(weight=1, term=NodeSelectorTerm(expressions=WEB))
    pod = _pod(preferred_node_terms=(term,))
    found = _found(pod, [emptier, preferred], [_on("n2", "a", 2000)])
    assert found[0].landing.behind > 0
    [[weight], [pinned]] = _texts(found)
    assert re.fullmatch("give NodeResources[A-Za-z]+ the weight [0-9]+ instead of 1", weight)
    assert pinned == "pin the pod to it: node affinity, matchFields metadata.name In [n1]"


def test_a_refusal_by_a_plugin_without_proposals_is_named() -> None:
    class Never:
        name = "Never"

        def filter(self, cycle: object, pod: Pod, nodes: object) -> object:
            import numpy as np

            return np.ones(len(nodes), dtype=np.int64)  # type: ignore[arg-type]

    def make_engine(weights: Mapping[str, int]) -> Engine:
        engine = engine_with(Never(), weights=weights)
        observed(engine, *added(make_node("n1")))
        return engine

    [remedy] = remedies(Hypothesis(make_engine, make_pod(), "n1"))
    assert remedy.changes == ()
    assert remedy.stuck is not None
    assert remedy.stuck.plugins == ("Never",)


def test_an_unknown_node_is_refused_with_the_nearest_names() -> None:
    with pytest.raises(InputError, match=r"node-1 was not there.*did you mean node-01"):
        Hypothesis(lambda weights: _with_node("node-01"), make_pod(), "node-1")


def _with_node(name: str) -> Engine:
    engine = engine_with()
    observed(engine, *added(make_node(name)))
    return engine


def test_a_pod_is_removed_from_the_engine_that_has_the_other_changes() -> None:
    """It lands as with an engine of its own: changes of the node come first there, too."""
    made: list[Engine] = []
    nodes = [make_node("n1", cpu=1000), make_node("n2", cpu=1000)]
    present = [_on("n1", "a", 900), _on("n1", "b", 100), _on("n2", "c", 1000)]

    def make_engine(weights: Mapping[str, int]) -> Engine:
        engine = engine_with(weights=weights)
        observed(engine, *added(*nodes, *present))
        made.append(engine)
        return engine

    wanted = _pod(900, node_selector={"zone": "z"})
    label, gone = NodeLabelSet("zone", "z"), [PodRemoved(name, name, 0) for name in "ab"]
    hypothesis = Hypothesis(make_engine, wanted, "n1")
    steps: list[tuple[AnyChange, ...]] = [(), (label,), (label, gone[0]), (label, *gone)]
    landings = [hypothesis.landing(step) for step in steps]
    assert len(made) == 2  # without a change, and with the label
    own = [Hypothesis(make_engine, wanted, "n1").landing(step) for step in steps]
    assert landings == own
    assert [landing.plugins for landing in landings] == [
        ("NodeAffinity",), ("NodeResourcesFit",), (), (),
    ]  # fmt: skip
    assert hypothesis.engine.state.nodes.residents[0].keys() == {"a", "b"}
