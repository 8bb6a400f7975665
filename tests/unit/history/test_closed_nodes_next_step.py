"""The next step of a pod that taints, cordons, node selectors or affinity keep from nodes."""

from typing import Any

import pytest

from eventsched.domain.objects import NodeSelectorTerm, Requirement, Taint
from eventsched.domain.records.verdicts import Code
from eventsched.history.closed_nodes import ClosedNodes, UnselectedNodes
from eventsched.history.explain.conclusions.remedies import Circumstances, next_step
from tests.builders import make_pod

GPU, DB = Taint("gpu", "present", "NoSchedule"), Taint("db", "", "NoExecute")


@pytest.mark.parametrize(
    ("closed", "wanted"),
    [
        ([ClosedNodes((GPU,), False, 1, "n7", 1, True)],
         "add a toleration for the taint gpu=present:NoSchedule of 1 node, if meant for such pods "
         "(it has room now; "),
        ([ClosedNodes((GPU, DB), False, 3, "n7", 3, True)],
         "add a toleration for the taints gpu=present:NoSchedule and db:NoExecute of 3 nodes, if "
         "meant for such pods (all have room now; "),
        ([ClosedNodes((), True, 1, "n7", 1), ClosedNodes((DB,), True, 3, "x", 1, True),
          ClosedNodes((GPU,), False, 9, "y", 9, True)],
         "uncordon 1 node or uncordon one of 3 nodes and add a toleration for the taint "
         "db:NoExecute, if meant for such pods (2 of them have room now; "),
    ],
)  # fmt: skip
def test_nodes_that_only_keep_the_pod_away_are_a_remedy(
    closed: list[ClosedNodes], wanted: str
) -> None:
    pod, seen = make_pod("a", cpu=1000), Circumstances(9, 9, "other", closed=closed)
    wanted += "`eventsched explain default/a --why-not n7` says what else it would take)"
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", pod)
    assert next_step(*lacking, circumstances=seen) == f"{next_step(*lacking)}; or {wanted}"
    too_small = next_step(*lacking, Code.UNRESOLVABLE)
    assert next_step(*lacking, Code.UNRESOLVABLE, seen) == f"{wanted}; or {too_small}"
    refused = ("TaintToleration", ["node(s) had untolerated taint(s)"], "default/a", pod)
    assert next_step(*refused, circumstances=seen) == wanted


def test_nodes_for_other_pods_are_a_remedy_only_if_there_is_no_other() -> None:
    """Their taint dedicates them, and the pod does not ask for what they offer."""
    pod, dedicated = make_pod("a", cpu=1000), ClosedNodes((GPU,), False, 4, "g", 4)
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", pod)
    for code in ("", Code.UNRESOLVABLE):
        step = next_step(*lacking, code, Circumstances(4, closed=[dedicated]))
        assert step == next_step(*lacking, code)
    cordoned = ClosedNodes((), True, 1, "c", 1)
    step = next_step(*OF_TAINTS, pod, circumstances=Circumstances(4, closed=[dedicated, cordoned]))
    assert step.startswith("uncordon 1 node, if meant for such pods (it has room now; ")
    assert "toleration" not in step
    step = next_step(*OF_TAINTS, pod, circumstances=Circumstances(4, closed=[dedicated]))
    assert step.startswith("add a toleration for the taint gpu=present:NoSchedule of 4 nodes, if ")


def test_full_nodes_are_opened_only_if_the_open_ones_are_too_small() -> None:
    pod, full = make_pod("a", cpu=1000), ClosedNodes((), True, 2, "c", 0)
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", pod)
    seen = Circumstances(closed=[full], too_small=lacking[1])
    assert next_step(*lacking, circumstances=seen) == next_step(*lacking)
    step = next_step("NodeUnschedulable", ["cordoned"], *lacking[2:], circumstances=seen)
    assert step == (
        "uncordon one of 2 nodes, if meant for such pods (all are full now, so the pod still waits "
        "for room; `eventsched explain default/a --why-not c` says what else it would take); or "
        "add a larger node, with 1 cpu, or lower its requests"
    )


def test_room_that_was_not_checked_is_not_promised() -> None:
    unknown = Circumstances(
        closed=[ClosedNodes((), True, 2, "c", 1), ClosedNodes((), True, 1, "d")]
    )
    step = next_step("NodeUnschedulable", ["cordoned"], "default/a", None, circumstances=unknown)
    says = (
        "`eventsched explain default/a --why-not c` says whether there is room now, and what else"
    )
    assert f"(large enough when empty; {says} it would take)" in step


NOT_READY = Taint("node.kubernetes.io/not-ready", "", "NoSchedule")
NOT_READY_NOW = Taint("node.kubernetes.io/not-ready", "", "NoExecute")
OF_TAINTS = ("TaintToleration", ["node(s) had untolerated taint(s)"], "default/a")
OF_LABELS = ("NodeAffinity", ["node(s) didn't match"], "default/a")


@pytest.mark.parametrize(
    ("closed", "wanted"),
    [
        (ClosedNodes((NOT_READY, NOT_READY_NOW), False, 2, "n7"),
         "repair one of 2 nodes that are not ready, such as n7"),
        (ClosedNodes((NOT_READY,), False, 1, "n7"), "repair node n7 that is not ready"),
        (ClosedNodes((NOT_READY, GPU), False, 1, "n7", 0, True),
         "repair node n7 that is not ready and add a toleration for the taint "
         "gpu=present:NoSchedule of 1 node"),
        (ClosedNodes((NOT_READY,), True, 1, "n7"),
         "repair node n7 that is not ready and uncordon 1 node"),
    ],
)  # fmt: skip
def test_a_broken_node_is_repaired_after_all_else(closed: ClosedNodes, wanted: str) -> None:
    """No toleration is advised for what the node controller says about a node."""
    wanted += " (large enough when empty; `kubectl describe node n7` says why)"
    pod, only = make_pod("a", cpu=1000), Circumstances(closed=[closed])
    assert next_step(*OF_TAINTS, pod, circumstances=only) == wanted
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", pod)
    for code in ("", Code.UNRESOLVABLE):
        step = next_step(*lacking, code, only)
        assert step == f"{next_step(*lacking, code)}; or {wanted}"
    both = Circumstances(closed=[ClosedNodes((DB,), False, 1, "n1", 1, True), closed])
    first, _, last = next_step(*OF_TAINTS, pod, circumstances=both).partition("; or ")
    assert first.startswith("add a toleration for the taint db:NoExecute of 1 node, if meant")
    assert last == wanted
    other = Circumstances(closed=[ClosedNodes((DB,), False, 1, "n1", 1), closed])
    assert next_step(*OF_TAINTS, pod, circumstances=other) == wanted
    dedicated = ClosedNodes((NOT_READY, GPU), False, 1, "n7")
    step = next_step(*lacking, circumstances=Circumstances(closed=[dedicated]))
    assert step == next_step(*lacking)


def test_taints_are_not_the_remedy_if_the_pod_suits_none_of_the_nodes() -> None:
    pod = make_pod("a", cpu=1500, spec={"node_selector": {"disk": "ssd"}})
    step = next_step(*OF_TAINTS, pod, circumstances=Circumstances(3, closed=()))
    assert step == (
        "add a node labelled disk=ssd with 1500m cpu and 2048Mi memory: none of the nodes whose "
        "taints or cordon keep it away suits it"
    )
    unchecked = next_step(*OF_TAINTS, pod, circumstances=Circumstances(3, example="n1"))
    assert unchecked == (
        "add a toleration for the taints to the pod, or remove them from a node (whether a node is "
        "large enough and suits it otherwise was not checked; `eventsched explain default/a "
        "--why-not n1` says what else it would take)"
    )


def terms(*requirements: tuple[str, str, tuple[str, ...]]) -> dict[str, Any]:
    """A spec whose affinity is one term with these requirements."""
    expressions = tuple(Requirement(*each) for each in requirements)
    return {"required_node_terms": (NodeSelectorTerm(expressions=expressions),)}


ENOUGH = "`eventsched explain default/a --why-not w1` says what else it"


@pytest.mark.parametrize(
    ("spec", "known", "wanted"),
    [
        ({"node_selector": {"disk": "ssd"}}, None,
         "label a node with disk=ssd, or remove that from its nodeSelector"),
        ({"node_selector": {"disk": "ssd"}}, ("w1", "w2"),
         "label one of 2 open nodes, such as w1, with disk=ssd, or remove that from its "
         f"nodeSelector (1 of them has room now; {ENOUGH} would take)"),
        ({"node_selector": {"disk": "ssd"}}, ("w3", "w1"),
         "label w1 with disk=ssd, or remove that from its nodeSelector (it is full now, so the pod "
         f"still waits for room; {ENOUGH} would take)"),
        ({"node_selector": {"disk": "ssd"}}, ("w3", "w4"),
         "correct its nodeSelector, add a node labelled disk=ssd with 1 cpu and 2048Mi memory, or "
         "label one of 2 open nodes, such as w3, with disk=ssd instead of disk=hdd, which other "
         f"pods may select (1 of them has room now; {ENOUGH.replace('w1', 'w3')} would take)"),
        ({"node_selector": {"a": "1", "b": "2"}}, ("w1",),
         "label w1 with a=1, b=2, or remove these from its nodeSelector (it has room now; "
         f"{ENOUGH} would take)"),
        ({"node_selector": {"disk": "ssd"}}, (),
         "add a node labelled disk=ssd with 1 cpu and 2048Mi memory: no node that is open to it "
         "is large enough"),
        (terms(("zone", "In", ("a",))), None,
         "label a node with zone=a, or relax its node affinity"),
        (terms(("zone", "In", ("a", "b"))), None,
         "label a node as its node selector and affinity ask, or relax these"),
        (terms(("zone", "NotIn", ("a",))), ("w1",),
         "label w1 as its node selector and affinity ask, or relax these "
         f"(it has room now; {ENOUGH} would take)"),
    ],
)  # fmt: skip
def test_a_label_is_the_remedy_on_nodes_that_are_open(
    spec: dict[str, Any], known: tuple[str, ...] | None, wanted: str
) -> None:
    pod = make_pod("a", cpu=1000, spec=spec)
    seen = Circumstances() if known is None else seen_open(known)
    assert next_step(*OF_LABELS, pod, circumstances=seen) == wanted


def seen_open(names: tuple[str, ...]) -> Circumstances:
    """These nodes are open, and only the first has room; w3 and w4 have other disks."""
    hdd = tuple((name, "disk=hdd") for name in names if name in ("w3", "w4"))
    return Circumstances(closed=(), unselected=UnselectedNodes(names, 1, hdd))


def on(*names: str, **spec: Any) -> dict[str, Any]:
    """A spec whose affinity names these nodes, and with a node selector."""
    field = Requirement("metadata.name", "In", names)
    found = tuple(Requirement(*each) for each in spec.pop("expressions", ()))
    return {"required_node_terms": (NodeSelectorTerm(expressions=found, fields=(field,)),), **spec}


SSD = {"node_selector": {"disk": "ssd"}}
ENDS = "says what else it would take)"


@pytest.mark.parametrize(
    ("spec", "known", "wanted"),
    [
        (on("n5", **SSD), None,
         "label node n5 with disk=ssd, or remove that from its nodeSelector"),
        (on("n5", "n9", **SSD), None,
         "label one of the nodes that its node affinity names with disk=ssd, or remove that from "
         "its nodeSelector"),
        (on("n5", expressions=[("zone", "In", ("a",))]), None,
         "label node n5 with zone=a, or relax its node affinity"),
        (on("n5", **SSD), ("n1", "n5"),
         "label n5 with disk=ssd, or remove that from its nodeSelector (it is full now, so the pod "
         "still waits for room; "
         f"`eventsched explain default/a --why-not n5` {ENDS}"),
        (on("n5", **SSD), ("n1",),
         "relax its node affinity: no node that it names is open to the pod and large enough"),
    ],
)  # fmt: skip
def test_a_node_that_the_affinity_names_and_that_exists_is_labelled(
    spec: dict[str, Any], known: tuple[str, ...] | None, wanted: str
) -> None:
    pod = make_pod("a", cpu=1000, spec=spec)
    seen = Circumstances() if known is None else seen_open(known)
    assert next_step(*OF_LABELS, pod, circumstances=seen) == wanted
    missing = ["node(s) didn't satisfy plugin(s) [NodeAffinity]"]
    step = next_step("NodeAffinity", missing, "default/a", pod, circumstances=seen)
    assert step.startswith("add node n5")


def test_another_term_may_select_other_nodes() -> None:
    """Then the affinity does not say which node is meant."""
    either = (*on("n5")["required_node_terms"], *terms(("a", "Exists", ()))["required_node_terms"])
    pod = make_pod("a", spec={"required_node_terms": either})
    assert next_step(*OF_LABELS, pod) == (
        "label a node as its node selector and affinity ask, or relax these"
    )


def test_the_names_in_a_command_are_quoted() -> None:
    """A shell takes them as names, whatever they are."""
    name, odd = "n1; rm -rf ~", "default/$(id)"
    seen = Circumstances(closed=[ClosedNodes((GPU,), False, 1, name)])
    step = next_step(*OF_TAINTS[:2], odd, make_pod("a"), circumstances=seen)
    assert "`eventsched explain 'default/$(id)' --why-not 'n1; rm -rf ~'` says whether" in step
    seen = Circumstances(closed=[ClosedNodes((NOT_READY,), False, 1, name)])
    step = next_step(*OF_TAINTS, make_pod("a"), circumstances=seen)
    assert "`kubectl describe node 'n1; rm -rf ~'` says why" in step
    assert "`eventsched explain 'default/$(id)' --why-not NODE`" in next_step("X", [], odd, None)


def test_nodes_that_only_keep_the_pod_away_and_are_too_small_are_none() -> None:
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", make_pod("a", cpu=1000))
    seen = Circumstances(3, 2, "n7", closed=())
    assert next_step(*lacking, circumstances=seen) == next_step(*lacking)
