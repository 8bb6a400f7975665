"""Demos of plugins that filter and score: the examples of the gallery on a real control plane, with
the outcome that their pages promise. The nodes are there before the scheduler starts, as it may
see a pod before a node that came earlier."""

from collections import Counter

import numpy as np
import pytest

from eventsched.domain.draw import draw, mixed, name_hash
from eventsched.domain.records import MemoryChanged, StreamStarted
from tests.cluster.harness.client import Object
from tests.cluster.harness.demos import DEFAULT, NOT_HELPFUL, Demo, example, sees, unplaceable
from tests.cluster.harness.manifests import deployment, node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Scheduler, Schedulers

SCORES = """
    SELECT d.pod_uid::text AS uid, d.attempt, s.node, s.raw
    FROM eventsched.decisions d, LATERAL eventsched.scores(d.stream, d.seq) s
    WHERE s.plugin = 'RandomScore' ORDER BY d.seq, s.node
"""


@pytest.mark.parametrize("plugin", ["NodeGroup", "MyCustomPlugin"])
def test_node_groups(
    controllers: ControlPlane, schedulers: Schedulers, namespace: str, plugin: str
) -> None:
    """A deployment for each of two groups; a pod of a third one waits until there is a node for
    it; pods without the label go anywhere, if need be to nodes of a group."""
    demo = Demo(controllers, schedulers, namespace, "NodeGroup")
    demo.create("nodes")
    demo.start(example("NodeGroup", NodeGroup=plugin))
    demo.create("pods")
    homes = {"1": "custom-scheduler-demo-m02", "2": "custom-scheduler-demo-m03"}
    for group in homes:
        labels = {"nodeGroup": group}
        demo.pods.create(deployment(f"hello-{group}", 3, labels=labels, scheduler=DEFAULT))
    demo.pods.wait(lambda found: placed(found) == 11, "11 pods have a node")
    for group, home in homes.items():
        assert list(demo.pods.nodes(nodeGroup=group).values()) == [home] * 5

    reasons = "1 node does not have required label, 2 nodeGroup of pod and node don't match"
    demo.wait_failed("hello-minikube-3-aaaaa", unplaceable(3, reasons, f"3 {NOT_HELPFUL}"))
    demo.label("custom-scheduler-demo", "nodeGroup", "3")
    assert demo.pods.node("hello-minikube-3-aaaaa") == "custom-scheduler-demo"
    for name in "xyz":
        demo.pod(name, cpu="3")
    assert {demo.pods.node(name) for name in "xyz"} == {"custom-scheduler-demo", *homes.values()}


def placed(found: list[Object]) -> int:
    """How many of the pods have a node."""
    return sum("nodeName" in each["spec"] for each in found)


def test_ten_replicas_on_the_named_node(
    controllers: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """Though two others are empty."""
    demo = Demo(controllers, schedulers, namespace, "tonodename-scoring-plugin")
    demo.create("nodes")
    demo.start()
    demo.pods.create(deployment("web", 10, scheduler=DEFAULT))
    running = demo.pods.wait_running(10)
    assert Counter(each["spec"]["nodeName"] for each in running) == {"piworknode001": 10}
    assert "10000 = 100 x 100 (raw 80)" in demo.explained(running[0]["metadata"]["name"])


def test_the_first_scheduled_node(
    controllers: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """A deployment's next pod goes where the first one was, though other nodes are emptier."""
    demo = Demo(controllers, schedulers, namespace, "FirstScheduledNode")
    demo.create("nodes")
    scheduler = demo.start()
    demo.create("deployment")
    (first,) = demo.pods.wait_running(1)
    (remembered,) = scheduler.wait_log(MemoryChanged)
    assert remembered.key == f"{namespace}/Deployment/web"
    controllers.kubectl("rollout", "restart", "deployment/web", f"--namespace={namespace}")
    name = first["metadata"]["name"]
    (second,) = demo.pods.wait(
        lambda found: placed(found) == len(found) == 1 and found[0]["metadata"]["name"] != name,
        "another pod is there alone",
    )
    assert second["spec"]["nodeName"] == first["spec"]["nodeName"]


def test_the_fixed_node(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """The three pods of the example; one for which there is no room goes elsewhere."""
    demo = Demo(plane, schedulers, namespace, "FixedNode")
    demo.create("nodes")
    demo.start()
    demo.create("pods")
    assert [demo.pods.node(f"web-{number}") for number in range(3)] == ["b"] * 3
    demo.pod("large", cpu="3900m")
    assert demo.pods.node("large") in {"a", "c"}
    assert absent(demo.scheduler) == []


def absent(scheduler: Scheduler) -> list[tuple[str, str]]:
    """What it has said about nodes that plugins name and that are not there."""
    said = "a plugin names a node that is not there"
    lines = [each for each in scheduler.lines() if each["event"] == said]
    return [(each["plugin"], each["node"]) for each in lines]


def preferring(plugin: str, name: str) -> Object:
    """A profile whose plugin prefers a node."""
    return {
        "schedulerName": plugin.lower(),
        "plugins": {"score": {"enabled": [{"name": plugin, "weight": 100}]}},
        "pluginConfig": [{"name": plugin, "args": {"nodeName": name}}],
    }


def test_a_preferred_node_that_is_not_there(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """The other plugins decide, and the scheduler says at its start which names lead nowhere. Once
    the node comes it is preferred."""
    plugins = ["FixedNode", "tonodename-scoring-plugin"]
    pods = Pods(plane.admin, namespace)
    plane.admin.create(node("a"))
    scheduler = schedulers.start(config={"profiles": [preferring(p, "later") for p in plugins]})
    for plugin in plugins:
        pods.create(pod(f"before-{plugin.lower()}", scheduler=plugin.lower()))
    assert {pods.node(f"before-{plugin.lower()}") for plugin in plugins} == {"a"}
    assert absent(scheduler) == [(plugin, "later") for plugin in plugins]

    plane.admin.create(node("later"))
    sees(scheduler, "later")
    for plugin in plugins:
        pods.create(pod(f"after-{plugin.lower()}", scheduler=plugin.lower()))
    assert {pods.node(f"after-{plugin.lower()}") for plugin in plugins} == {"later"}


def test_hardware(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """The example: two pods come to the nodes that have what they need, one waits for hardware that
    comes later, one for words that can be read."""
    demo = Demo(plane, schedulers, namespace, "NodeHardware")
    demo.create("nodes")
    demo.start()
    demo.create("pods")
    assert demo.pods.node("trains-on-a100") == "a100"
    assert demo.pods.node("needs-four") == "h100"
    lacks = unplaceable(3, "3 node(s) didn't have the hardware gpu-model=V100", f"3 {NOT_HELPFUL}")
    demo.wait_failed("needs-v100", lacks)
    problem = (
        "annotation hardware.eventsched.io/needs: 'gpu=many' asks for no number of nvidia.com/gpu"
    )
    demo.wait_failed("misspelt", f"0/3 nodes are available: {problem}. not found")
    demo.label("plain", "nvidia.com/gpu.product", "V100")
    assert demo.pods.node("needs-v100") == "plain"


def test_random_scores(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """Those that a reader gets who follows the page; ``replay --verify`` does afterwards."""
    demo = Demo(plane, schedulers, namespace, "RandomScore")
    demo.create("nodes")
    scheduler = demo.start()
    made = [each["metadata"] for each in demo.create("pods")]
    for each in made:
        demo.pods.node(each["name"])
    (began,) = scheduler.log().of(StreamStarted)
    rows = scheduler.reader().rows(SCORES)
    found = [(row["uid"], row["node"], row["raw"]) for row in rows]
    assert sorted(found) == sorted(
        (each["uid"], name, by_the_page(began.seed, each["uid"], name))
        for each in made
        for name in "abc"
    )


def by_the_page(seed: str, uid: str, name: str) -> int:
    """The score at the first attempt."""
    hashes = np.array([name_hash(name)], dtype=np.int64).view(np.uint64)
    return 1 + int(mixed(draw(seed, uid, 1, "RandomScore"), hashes)[0]) % 10
