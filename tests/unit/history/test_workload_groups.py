"""``explain deploy/NAME``: how its argument is read, and the text of the groups."""

from typing import Any

import pytest

from eventsched.domain.errors import InputError
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Taint
from eventsched.domain.records import PodAdded, StreamStarted
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.explain.conclusions.headline import with_closed_nodes
from eventsched.history.explain.explanation import NodeRefusals
from eventsched.history.explain.workloads.pod_group import (
    GROUPS_PLUGIN,
    GroupMembers,
    GroupVerdict,
    group_members,
    group_verdict,
)
from eventsched.history.explain.workloads.workload import (
    WaitingGroup,
    Workload,
    deployment_of,
    parse_target,
    with_step,
)
from eventsched.output.terminal.display import Display
from eventsched.output.workload_output import workload_json, workload_text
from tests.builders import SECOND, make_node, make_pod
from tests.gangs import member
from tests.unit.history.test_headline import AFFINITY, REFUSED, TAINT, added, told

BEGIN = 1_800_000_000 * SECOND


def group(pods: int = 3, **fields: Any) -> WaitingGroup:
    standard: dict[str, Any] = {
        "state": "queued", "states": {"unschedulable": pods}, "is_tried": True,
        "plugin": "NodeResourcesFit", "code": "Unschedulable",
        "reason": "Insufficient cpu, Insufficient memory", "since": BEGIN, "deleting": 0,
        "examples": ("shop/web-1", "shop/web-2"),
    }  # fmt: skip
    return WaitingGroup(pods=pods, **{**standard, **fields})


def text(*groups: WaitingGroup, width: int = 0, full: bool = False, **nodes: int) -> list[str]:
    """What is printed 250 seconds after BEGIN."""
    found = Workload("Deployment", "shop", "web", ("web-6d4cf56db6",), nodes, groups)
    return workload_text(
        found, "main", BEGIN + 250 * SECOND, Display(width), full=full
    ).splitlines()


def test_pods_on_nodes_and_groups() -> None:
    gated = group(1, state="gated", states={"gated": 1}, is_tried=False, plugin="", code="",
                  reason="", examples=("shop/web-9",))  # fmt: skip
    printed = text(group(), gated, n1=4, n2=1)
    assert printed[0] == (
        "Deployment shop/web has 9 pods: 5 on 2 nodes (n1 (4), n2 (1)), 4 without a node"
    )
    rows = [" ".join(line.split()) for line in printed[2:5]]
    assert rows == [
        "PODS WHY OLDEST SINCE SUCH AS",
        "3 NodeResourcesFit refuses nodes: Insufficient cpu, Insufficient memory"
        " 2027-01-15 08:00:00 UTC (4m10s ago) shop/web-1, shop/web-2",
        "1 gated 2027-01-15 08:00:00 UTC (4m10s ago) shop/web-9",
    ]
    assert printed[-2] == (
        "What would help against NodeResourcesFit: cpu and memory that pods on those nodes give"
        " back, another node, or smaller requests."
    )
    assert printed[-1] == "One of them: eventsched explain shop/web-1 --stream main"


def test_what_would_help_is_that_of_the_pods() -> None:
    """The end of other pods does not help if the nodes are too small when empty."""
    too_small = group(code="UnschedulableAndUnresolvable", reason="Insufficient cpu")
    assert too_small.helps.startswith("a larger node, or smaller requests")
    assert group(reason="Insufficient cpu").helps.startswith("cpu that pods on those nodes")
    assert group(state="binding").helps == ""


def test_the_next_step_is_that_of_the_largest_group_that_needs_one() -> None:
    binding = group(9, state="binding", examples=("shop/web-7",))
    new = group(5, is_tried=False, plugin="", code="", reason="", examples=("shop/web-8",))
    gated = group(1, state="gated", is_tried=False, examples=("shop/web-9",))

    def needs_step(*groups: WaitingGroup) -> str:
        return Workload("Job", "shop", "night", (), {}, groups).needs_step

    assert needs_step(binding, new, group(), gated) == "shop/web-1"
    assert needs_step(binding, new, gated) == "shop/web-9"
    assert needs_step(binding, new) == needs_step() == ""


def test_the_next_step_comes_before_the_groups() -> None:
    found = Workload("Job", "shop", "night", (), {}, (group(),), "add a node")
    assert workload_text(found, "main", BEGIN, Display(), full=False).splitlines()[1:3] == [
        "Next step: add a node.", "",
    ]  # fmt: skip
    assert workload_json(found, "main")["next_step"] == "add a node"


def test_all_pods_on_nodes_are_one_line() -> None:
    assert text(n1=1) == ["Deployment shop/web has 1 pod: 1 on 1 node (n1 (1))"]
    nodes: dict[str, Any] = {f"n{number}": 2 for number in range(8)}
    assert text(**nodes) == [
        "Deployment shop/web has 16 pods: 16 on 8 nodes"
        " (n0 (2), n1 (2), n2 (2), n3 (2), n4 (2) and 3 more)"
    ]
    assert "n7 (2)" in text(full=True, **nodes)[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"is_tried": False, "plugin": "", "code": "", "reason": ""}, "has not been tried yet"),
        ({"plugin": "", "code": "", "reason": ""}, "gave up its node"),
        (
            {"plugin": "", "code": "Excluded", "reason": "PreFilter left the node out"},
            "PreFilter refuses nodes: PreFilter left the node out",
        ),
        ({"plugin": "Slow", "code": "", "reason": "it raised"}, "Slow: it raised"),
        ({"plugin": "", "code": "", "reason": "no nodes"}, "no nodes"),
        ({"state": "waiting"}, "has reserved a node and waits at Permit or PreBind"),
        ({"state": "binding"}, "is being bound"),
        ({"state": "unqueued", "is_tried": False}, "belongs to another scheduler"),
        ({"state": "unqueued"}, "is out of the queue and is no longer scheduled"),
        ({"deleting": 2}, "Insufficient cpu, Insufficient memory; 2 being deleted"),
    ],
)
def test_the_words_of_a_group(fields: dict[str, Any], words: str) -> None:
    assert f"{words}   2027-01-15" in text(group(**fields))[3]


def test_long_lists_are_cut_and_say_so() -> None:
    groups = [group(1, reason=f"reason {number}") for number in range(23)]
    short, whole = text(*groups), text(*groups, full=True)
    assert "… and 3 more reasons (--full lists all)" in short
    assert not any("reason 20" in line for line in short)
    assert any("reason 22" in line for line in whole)
    assert not any("more reasons" in line for line in whole)


def test_lines_keep_to_the_width() -> None:
    assert max(map(len, text(group(), width=80, n1=1))) <= 80


def test_the_object() -> None:
    found = Workload("Job", "shop", "night", ("night",), {"n1": 1}, (group(),))
    told = workload_json(found, "main")
    assert (told["pods"], told["placed"], told["nodes"]) == (4, 1, [{"node": "n1", "pods": 1}])
    [waiting] = told["groups"]
    assert waiting["states"] == {"unschedulable": 3}
    assert waiting["since"] == "2027-01-15T08:00:00+00:00"
    assert waiting["helps"].startswith("cpu and memory")


@pytest.mark.parametrize(
    ("word", "namespace", "kind", "full_name"),
    [
        ("web", None, "Pod", "web"),
        ("web", "shop", "Pod", "shop/web"),
        ("shop/web", None, "Pod", "shop/web"),
        ("shop/web", "shop", "Pod", "shop/web"),
        ("pod/web", "shop", "Pod", "shop/web"),
        ("shop/po/web", None, "Pod", "shop/web"),
        ("deploy/web", None, "Deployment", "deploy/web"),
        ("deployments/web", "shop", "Deployment", "shop/deploy/web"),
        ("deployment.apps/web", "shop", "Deployment", "shop/deploy/web"),
        ("shop/Deployment/web", None, "Deployment", "shop/deploy/web"),
        ("rs/web", None, "ReplicaSet", "rs/web"),
        ("statefulset/db", None, "StatefulSet", "sts/db"),
        ("ds/agent", None, "DaemonSet", "ds/agent"),
        ("job.batch/night", None, "Job", "job/night"),
        ("shop/gang/train", None, "PodGroup", "shop/group/train"),
        ("podgroup.scheduling.x-k8s.io/train", None, "PodGroup", "group/train"),
    ],
)
def test_what_an_argument_names(
    word: str, namespace: str | None, kind: str, full_name: str
) -> None:
    asked = parse_target(word, namespace)
    assert (asked.kind, asked.full_name) == (kind, full_name)


@pytest.mark.parametrize(
    ("word", "namespace", "words"),
    [
        ("cronjob/night", None, "name one of its jobs: job/NAME"),
        ("shop/svc/web", None, "svc is not a kind of workload; there are deploy, job, rs, sts, ds"),
        ("a/shop/deploy/web", None, "too many parts"),
        ("shop/web", "prod", "is prod, and shop/web names shop"),
        ("shop/deploy/web", "prod", "leave one of them out"),
    ],
)
def test_an_argument_that_means_nothing(word: str, namespace: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_target(word, namespace)


@pytest.mark.parametrize(
    ("replica_set", "label", "deployment"),
    [
        ("web-6d4cf56db6", "6d4cf56db6", "web"),
        ("web-6d4cf56db6", "", "web"),
        ("web-6d4cf56db6", "55", ""),
        ("web-frontend", "", ""),
        ("web-frontend", "frontend", "web"),
        ("web-bcd-44", "", "web-bcd"),
        ("web-6d4cf56db6xx", "", ""),
        ("web", "", ""),
        ("web-", "", ""),
    ],
)
def test_the_deployment_of_a_replica_set(replica_set: str, label: str, deployment: str) -> None:
    assert deployment_of(replica_set, label) == deployment


def verdict(minimum: int, *groups: WaitingGroup, **nodes: int) -> GroupVerdict:
    members = GroupMembers("shop", "train", minimum, {"a": make_pod("web-1", namespace="shop")})
    return group_verdict(Workload("PodGroup", "shop", "train", (), nodes, groups), members)


WAITS = {"plugin": "Coscheduling", "reason": "pod group shop/train waits for shop/web-1"}


@pytest.mark.parametrize(
    ("found", "reason", "step"),
    [
        (verdict(4, n1=3), "it has 3 of the 4 pods that it needs", "create the missing pod"),
        (verdict(9, n1=3), "it has 3 of the 9 pods that it needs", "create the missing 6 pods"),
        (
            verdict(5, group(2), group(3, **WAITS)),
            "2 of its pods (web-1, …) hold it: NodeResourcesFit refuses nodes: Insufficient cpu, "
            "Insufficient memory; 0 of the 5 that it needs have a node",
            "add a node with 1 cpu and 2048Mi memory free, delete pods on a node, or lower its "
            "requests; so for each of these 2 pods",
        ),
        (
            verdict(5, group(3, state="waiting"), group(1), n1=1),
            "its pod web-1 holds it: NodeResourcesFit refuses nodes: Insufficient cpu, "
            "Insufficient memory; 4 of the 5 that it needs have a node, 3 of them only reserved",
            "add a node",
        ),
        (
            verdict(5, group(5, is_tried=False, plugin="", code="", reason="")),
            "5 of its pods (web-1, …): has not been tried yet", "",
        ),
        (
            verdict(1, group(1), n1=1),
            "it has the 1 on nodes that it needs, but its pod web-1 holds it: ", "add a node",
        ),
    ],
)  # fmt: skip
def test_what_holds_a_group(found: GroupVerdict, reason: str, step: str) -> None:
    assert found.reason.startswith(reason)
    assert found.next_step.startswith(step)
    assert bool(found.next_step) == bool(step)


def test_a_group_without_the_plugin_is_a_workload() -> None:
    """Its label means nothing there, so none is advised."""
    why = "the profile plain lacks the plugin Coscheduling"
    members = GroupMembers("shop", "train", 0, {}, unscheduled=why)

    def found(*groups: WaitingGroup, step: str = "") -> GroupVerdict:
        workload = Workload("PodGroup", "shop", "train", (), {}, groups, step)
        return group_verdict(workload, members)

    begin = f"{why}, so its pods are scheduled one by one; "
    binding = group(9, state="binding", examples=("shop/web-7",))
    assert found(binding, group(2), step="add a node") == (
        f"{begin}2 of its pods (web-1, …): NodeResourcesFit refuses nodes: Insufficient cpu, "
        "Insufficient memory",
        "add a node",
        "shop/web-1",
    )
    assert found(binding) == (f"{begin}9 of its pods (web-7, …): is being bound", "", "shop/web-7")
    assert found() == (f"{begin}all of them are on nodes", "", "")


@pytest.mark.parametrize(
    ("shadows", "scheduler", "profiles", "lacking"),
    [
        ("", "plain", {"gangs": True, "plain": False}, "plain"),
        ("", "gangs", {"gangs": True, "plain": False}, ""),
        ("", "another", {"gangs": True, "plain": False}, ""),  # none of ours
        ("real", "real", {"plain": False, "gangs": True}, "plain"),  # decided with the first one
        ("real", "real", {"gangs": True, "plain": False}, ""),
        ("real gangs", "gangs", {"plain": False, "gangs": True}, ""),
        ("real", "plain", {"plain": False, "gangs": True}, ""),  # not followed
    ],
)
def test_the_profile_that_a_group_needs_the_plugin_in(
    shadows: str, scheduler: str, profiles: dict[str, bool], lacking: str
) -> None:
    state = SchedulerState()
    inputs = {"shadows": shadows} if shadows else {}
    state.apply(StreamStarted(format=1, engine="", seed="", inputs=inputs), 0)
    state.apply(PodAdded(pod=member("p1", scheduler_name=scheduler)), 0)
    found = group_members(state, parse_target("group/g", None), "s", profiles).unscheduled
    assert found == (f"the profile {lacking} lacks the plugin {GROUPS_PLUGIN}" if lacking else "")


def test_a_group_names_the_refusal_that_its_next_step_ends() -> None:
    """The rows of a log do not know the nodes, of which none with the taint has the label."""
    nodes = NodeTable()
    nodes.add(make_node("cp1", taints=(Taint("control-plane", "", "NoSchedule"),)))
    nodes.add(make_node("w1"))
    asks = added(spec={"node_selector": {"disk": "ssd"}})
    explained = told((0, asks), *REFUSED[1:], refusals=(TAINT, AFFINITY))
    by_taint = group(plugin="TaintToleration", code=TAINT.code, reason=", ".join(TAINT.reasons))
    other = group(1, examples=("shop/web-9",))
    rows = Workload("Job", "shop", "night", (), {}, (by_taint, other))
    found = with_step(rows, with_closed_nodes(explained, nodes))
    assert found.next_step.startswith("label w1 with disk=ssd, or remove that")
    assert (found.groups[0].plugin, found.groups[0].reason) == ("NodeAffinity", "no match")
    assert found.groups[0].helps.startswith("a node with the labels")
    assert found.groups[1] == other
    unknown = with_step(rows, explained)
    assert unknown.groups == rows.groups
    assert "was not checked" in unknown.next_step


def test_a_group_keeps_what_lists_name_beside_the_taint_of_its_next_step() -> None:
    nodes = NodeTable()
    nodes.add(make_node("g1", labels={"gpu": "a"}, taints=(Taint("gpu", "", "NoSchedule"),)))
    asks = added(spec={"node_selector": {"gpu": "a"}})
    small = NodeRefusals("NodeResourcesFit", TAINT.code, ("Insufficient cpu",), 5)
    explained = told((0, asks), *REFUSED[1:], refusals=(small, TAINT))
    rows = Workload("Job", "shop", "night", (), {}, (group(code=TAINT.code),))
    found = with_step(rows, with_closed_nodes(explained, nodes))
    assert found.next_step.startswith("add a toleration for the taint gpu:NoSchedule of 1 node")
    assert found.groups[0].why == (
        f"NodeResourcesFit refuses nodes: {rows.groups[0].reason}; "
        "TaintToleration alone refuses nodes that are large enough"
    )
    assert found.groups[0].helps.startswith("a toleration for the taints")
