"""The demo of multipoint-communicating-plugin: one pod is refused at PreBind at every
attempt and does not block others."""

from eventsched.domain.records import Outcome, PodBound
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.demos import Demo
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import Schedulers

PLUGIN = "multipoint-communicating-plugin"
MESSAGE = "pod is not permitted"


def test_one_pod_is_never_bound(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """Others are, though they need all the room that there is."""
    demo = Demo(plane, schedulers, namespace, PLUGIN)
    demo.create("nodes")
    scheduler = demo.start()
    demo.create("pods")
    assert demo.pods.node("another-pod")
    wait_for(lambda: len(demo.decisions("my-test-pod")) > 1, "it is tried again")
    demo.pods.delete("another-pod")
    large = [f"large-{number}" for number in range(3)]
    for name in large:
        demo.pod(name, cpu="4")
    assert {demo.pods.node(name) for name in large} == {"a", "b", "c"}

    refused = [each for each in demo.decisions("my-test-pod") if each.node]
    said = {(each.outcome, each.plugin, each.message) for each in refused}
    assert said == {(Outcome.UNSCHEDULABLE, PLUGIN, MESSAGE)}
    assert demo.pods.nodes()["my-test-pod"] == ""
    assert demo.pods.wait_event("my-test-pod", "FailedScheduling")["note"] == MESSAGE
    line = f"unschedulable by {PLUGIN} on {refused[-1].node}: {MESSAGE}"
    assert line in demo.explained("my-test-pod")
    uid = demo.pods.get("my-test-pod")["metadata"]["uid"]
    assert uid not in {each.uid for each in scheduler.log().of(PodBound)}
