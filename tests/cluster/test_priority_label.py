"""The demo of PriorityLabel, or Priority, from its beginning to its end on two nodes."""

import pytest

from tests.cluster.harness.client import Object
from tests.cluster.harness.demos import DEFAULT, NO_VICTIMS, Demo, example, unplaceable
from tests.cluster.harness.manifests import deployment, node
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import Schedulers

LABEL = "priority.lixueduan.com"
NAMES = ["scheduler-1", "scheduler-2"]
COUNTED = f"2 node(s) did not have label {LABEL}"
NAMED = ", ".join(f"1 Node:Node: {name} does not have label {LABEL}" for name in NAMES)


def only_pod(found: list[Object]) -> bool:
    """Whether one pod is left, and runs."""
    return [each["status"]["phase"] for each in found] == ["Running"]


@pytest.mark.parametrize(("plugin", "reasons"), [("PriorityLabel", COUNTED), ("Priority", NAMED)])
def test_the_whole_story(
    controllers: ControlPlane,
    schedulers: Schedulers,
    namespace: str,
    plugin: str,
    reasons: str,
) -> None:
    demo = Demo(controllers, schedulers, namespace, "PriorityLabel")
    for name in NAMES:
        controllers.admin.create(node(name))
    demo.start(example("PriorityLabel", PriorityLabel=plugin))

    # No node has the label.
    demo.pods.create(deployment("test", 1, scheduler=DEFAULT))
    (waits,) = demo.pods.wait(lambda found: len(found) == 1, "there is a pod")
    first = waits["metadata"]["name"]
    demo.wait_failed(first, unplaceable(2, reasons, f"2 {NO_VICTIMS}"))
    assert demo.pods.get(first)["status"]["phase"] == "Pending"

    # Node 1 gets 10: the pod is placed there without a change to the pod.
    demo.label("scheduler-1", LABEL, "10")
    assert demo.pods.node(first) == "scheduler-1"
    scheduled = demo.pods.wait_event(first, "Scheduled")["note"]
    assert scheduled == f"Successfully assigned {namespace}/{first} to scheduler-1"

    # Node 2 gets 20: the next pod goes there.
    demo.label("scheduler-2", LABEL, "20")
    demo.pod("next")
    assert demo.pods.node("next") == "scheduler-2"
    demo.pods.delete("next")

    # Node 1 gets 30: a restart brings the deployment there, where node 2 would have been better.
    demo.label("scheduler-1", LABEL, "30")
    controllers.kubectl("rollout", "restart", "deployment/test", f"--namespace={namespace}")
    (second,) = demo.pods.wait(
        lambda found: only_pod(found) and found[0]["metadata"]["name"] != first, "it is restarted"
    )
    assert second["spec"]["nodeName"] == "scheduler-1"


ODD = {"abc": "abc", "empty": "", "exponent": "1e9"}
NO_NUMBER = f"no integer from 0 to {2**53}"
ODD_COUNTED = f"3 node(s) had {NO_NUMBER} in label {LABEL}"
ODD_NAMED = ", ".join(
    f"1 node {node} has priority {value!r}, {NO_NUMBER}" for node, value in ODD.items()
)


@pytest.mark.parametrize(
    ("plugin", "reasons"), [("PriorityLabel", ODD_COUNTED), ("Priority", ODD_NAMED)]
)
def test_labels_that_are_no_numbers(
    plane: ControlPlane, schedulers: Schedulers, namespace: str, plugin: str, reasons: str
) -> None:
    """Their nodes are excluded with a reason; other nodes are unaffected, and a corrected label
    takes effect."""
    demo = Demo(plane, schedulers, namespace, "PriorityLabel")
    for name, value in ODD.items():
        plane.admin.create(node(name, labels={LABEL: value}))
    demo.start(example("PriorityLabel", PriorityLabel=plugin))
    demo.pod("waits")
    demo.wait_failed("waits", unplaceable(3, reasons, f"3 {NO_VICTIMS}"))
    demo.label("exponent", LABEL, "1000000000")
    demo.label("abc", LABEL, "7")
    assert demo.pods.node("waits") == "exponent"
    demo.pod("next")
    assert demo.pods.node("next") == "exponent"
