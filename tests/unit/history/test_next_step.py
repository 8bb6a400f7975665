"""The next step for a refusal: every reason that a plugin of the package gives has one of its
own."""

from typing import Any

import pytest

from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.records.verdicts import Code
from eventsched.history.explain.conclusions import reason_codes
from eventsched.history.explain.conclusions.remedies import Circumstances, next_step, remedy
from eventsched.history.explain.explanation import ExplainedAttempt, NodeRefusals
from eventsched.output.headline_output import change_text, headline_json
from eventsched.plugins import IN_TREE
from eventsched.scheduling.preemption.preemption_messages import NEVER, NO_VICTIMS
from tests.builders import make_pod
from tests.unit.history.test_headline import BEGIN, REFUSED, told, tried

REFUSING = ("pre_enqueue", "pre_filter", "filter", "reserve", "permit", "pre_bind")
"""Beginnings of the names of methods that can refuse a pod."""
NEVER_NAMED = {"DefaultPreemption"}
"""Its PreEnqueue holds pods back until their victims are gone, and refuses none."""
ANY = "run `eventsched explain default/p1 --why-not NODE`, which looks for a change that helps"


def step(plugin: str, *reasons: str, **pod: Any) -> str:
    return next_step(plugin, reasons, "default/p1", make_pod(**pod))


def refusing_plugins() -> list[str]:
    found = {
        name
        for name, plugin in IN_TREE.items()
        if any(method.startswith(REFUSING) for method in dir(plugin))
    }
    return sorted(found - NEVER_NAMED - {"NodeResourcesFit"})


@pytest.mark.parametrize("plugin", refusing_plugins())
def test_every_plugin_that_refuses_has_a_next_step(plugin: str) -> None:
    found = step(plugin, "a reason")
    assert found != ANY or plugin == "InterPodAffinity"
    assert found[0].islower()
    assert not found.endswith(".")


@pytest.mark.parametrize(("plugin", "reason"), reason_codes._BY_REASON)
def test_every_reason_with_a_code_of_its_own_has_a_next_step(plugin: str, reason: str) -> None:
    """Not the step of the plugin's other reasons."""
    others = [key for key in reason_codes._BY_REASON if key[0] == plugin and key[1] != reason]
    assert step(plugin, reason) not in {ANY, *(step(*other) for other in others)}


@pytest.mark.parametrize(
    ("plugin", "reasons", "wanted"),
    [
        ("NodeResourcesFit", ["Insufficient cpu", "Insufficient memory"],
         "add a node with 1500m cpu and 512Mi memory free, delete pods on a node, or lower its "
         "requests"),
        ("NodeResourcesFit", ["Insufficient example.com/gpu"],
         "add a node with example.com/gpu free, delete pods on a node, or lower its requests"),
        ("NodeResourcesFit", ["Too many pods"],
         "delete pods on those nodes or add a node, they hold as many pods as they may"),
        ("VolumeBinding", ['persistentvolumeclaim "data" not found'],
         "create the PersistentVolumeClaim data in the pod's namespace"),
        ("Mine", ["no"], ANY),
        ("", ["PreFilter left the node out"], ANY),
    ],
)  # fmt: skip
def test_a_step_says_how_much(plugin: str, reasons: list[str], wanted: str) -> None:
    assert step(plugin, *reasons, cpu=1500, memory=512 * 1024**2) == wanted


def test_a_step_names_the_nodes_that_the_pod_selects() -> None:
    pod = make_pod("a", cpu=1500, spec={"node_selector": {"disk": "ssd", "zone": "a"}})
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", pod)
    assert next_step(*lacking) == (
        "add a node labelled disk=ssd, zone=a with 1500m cpu free, delete pods on one of those "
        "nodes, or lower its requests"
    )
    assert next_step(*lacking, Code.UNRESOLVABLE) == (
        "add a larger node labelled disk=ssd, zone=a, with 1500m cpu, or lower its requests"
    )


MORE = "add a node with 1 cpu free, delete pods on a node, lower its requests, or "
LESS = "so that it may evict less important pods"


@pytest.mark.parametrize(
    ("priority", "message", "wanted"),
    [
        (0, NO_VICTIMS, f"{MORE}give it a priority, {LESS}"),
        (7, NO_VICTIMS, f"{MORE}raise its priority above 7, {LESS}"),
        (7, NEVER, f"{MORE}set another preemptionPolicy than Never, {LESS}"),
        (0, "", "add a node with 1 cpu free, delete pods on a node, or lower its requests"),
    ],
)
def test_a_priority_helps_if_preemption_found_no_victims(
    priority: int, message: str, wanted: str
) -> None:
    pod, seen = make_pod("a", cpu=1000, priority=priority), Circumstances(message=message)
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", pod)
    assert next_step(*lacking, circumstances=seen) == wanted
    too_small = next_step(*lacking, Code.UNRESOLVABLE)
    assert too_small == "add a larger node, with 1 cpu, or lower its requests"


@pytest.mark.parametrize(
    ("nodes", "example", "where"),
    [
        (1, "n2", "node n2 with room (`eventsched explain default/a --why-not n2` proves it)"),
        (3, "n2", "one of 3 nodes with room (`eventsched explain default/a --why-not n2` proves"),
        (1, "", "the node with room; or add"),
        (3, "", "one of 3 nodes with room; or add"),
    ],
)
def test_a_volume_is_needed_where_room_is(nodes: int, example: str, where: str) -> None:
    """A log with less detail names no node."""
    seen = Circumstances(without_volume=nodes, without_volume_example=example)
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", make_pod("a", cpu=1000))
    step = next_step(*lacking, circumstances=seen)
    assert step.startswith(f"create a volume that fits its claims on {where}")


def test_a_node_without_room_is_named_with_the_command_that_proves_what_helps() -> None:
    """Unless the step has such a command already, about a node that only a taint closes."""
    pod, seen = make_pod("a", cpu=1000), Circumstances(full="n1")
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", pod)
    proof = "(`eventsched explain default/a --why-not n1` says what it would take there)"
    assert next_step(*lacking, circumstances=seen) == (
        f"add a node with 1 cpu free, delete pods on a node, or lower its requests {proof}"
    )
    too_small = next_step(*lacking, Code.UNRESOLVABLE, seen)
    assert too_small == f"add a larger node, with 1 cpu, or lower its requests {proof}"
    tainted = seen._replace(cordoned=4, example="n2")
    step = next_step(*lacking, circumstances=tainted)
    assert "--why-not n2" in step
    assert "--why-not n1" not in step
    step = next_step(*lacking, circumstances=tainted._replace(closed=()))
    assert "--why-not n1" in step
    assert "--why-not n2" not in step


@pytest.mark.parametrize("code", ["", Code.UNRESOLVABLE])
def test_sizes_that_were_not_checked_are_not_promised(code: str) -> None:
    asked = make_pod("a", cpu=1000, spec={"node_selector": {"pool": "x"}})
    lacking = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", asked)
    step = next_step(*lacking, code, Circumstances(3, 2))
    assert step == (
        f"{next_step(*lacking, code)}; or uncordon 2 nodes or add a toleration for the taints of "
        "3 nodes, if meant for such pods (whether they are large enough was not checked; "
        "`eventsched explain default/a --why-not NODE` says what else it would take)"
    )
    plain = ("NodeResourcesFit", ["Insufficient cpu"], "default/a", make_pod("a", cpu=1000))
    assert next_step(*plain, code, Circumstances(3)) == next_step(*plain, code)


def test_no_end_of_pods_helps_where_nodes_are_too_small() -> None:
    lacking = ("NodeResourcesFit", ["Insufficient cpu"])
    step_of_large = next_step(*lacking, "default/a", make_pod("a", cpu=1500), Code.UNRESOLVABLE)
    assert step_of_large == "add a larger node, with 1500m cpu, or lower its requests"
    assert remedy(*lacking, Code.UNRESOLVABLE) == (
        "a larger node, or smaller requests: no node that is open to it is large enough, even if "
        "empty"
    )
    assert remedy(*lacking).startswith("cpu that pods on those nodes give back")


def test_no_step_is_for_a_code_that_does_not_exist() -> None:
    from eventsched.history.explain.conclusions.remedies import _OF_CODES

    codes = {*reason_codes._BY_REASON.values(), *reason_codes._BY_PLUGIN.values()}
    own = {f"{plugin}Refused" for plugin in refusing_plugins()}
    assert _OF_CODES.keys() - codes - own == set()


@pytest.mark.parametrize(
    ("outcome", "fields", "wanted"),
    [
        (Outcome.ERROR, {"plugin": "Mine", "message": "boom"},
         "fix what the message of Mine names, the pod is tried again by itself"),
        (Outcome.UNSCHEDULABLE, {"plugin": "NodeAffinity", "message": "no"},
         "label a node as its node selector and affinity ask, or relax these"),
        (Outcome.UNSCHEDULABLE, {"message": "no"}, None),
    ],
)  # fmt: skip
def test_the_step_of_an_attempt_without_refused_nodes(
    outcome: Outcome, fields: dict[str, str], wanted: str | None
) -> None:
    happened = (*REFUSED[:2], (0, tried(1, outcome, **fields)), REFUSED[3])
    assert headline_json(told(*happened))["next_step"] == wanted


def test_what_changed_since_the_attempt_before() -> None:
    def attempt(number: int, *refusals: NodeRefusals, message: str = "") -> ExplainedAttempt:
        decided = PodDecided(
            uid="p1", attempt=number, outcome=Outcome.UNSCHEDULABLE, message=message
        )
        return ExplainedAttempt(number, BEGIN, decided, refusals)

    def refusal(plugin: str, nodes: int, *reasons: str) -> NodeRefusals:
        return NodeRefusals(plugin, "Unschedulable", reasons, nodes)

    before = attempt(1, refusal("A", 5, "small"), refusal("B", 1, "x"), refusal("C", 1, "y"))
    after = attempt(2, refusal("A", 1, "small"), refusal("D", 4, "all"), message="all")
    assert change_text(before, after) == (
        "since attempt 1: A refuses 1 node instead of 5 (small), D refuses 4 nodes instead of 0, "
        "B refuses 0 nodes instead of 1 (x), and 1 more difference"
    )
    assert change_text(before, before) == ""
