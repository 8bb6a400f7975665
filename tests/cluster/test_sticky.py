"""The first node is remembered, whatever happens to the scheduler: a stateful set's pod is deleted
while the scheduler is dead, another node would be better by now, and the pod comes back to where it
was first."""

import pytest

from eventsched.domain.records import MemoryChanged, PodBound
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import node, pod, stateful_set
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Scheduler, Schedulers

FAST = {"key": "disk", "operator": "In", "values": ["fast"]}
LIKES_FAST_DISKS: Object = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [FAST]}}
        ]
    }
}


def profile(**arguments: str) -> Object:
    """The profile with FirstScheduledNode. Its weight outdoes all other scores together, which
    matters in mode preferred only."""
    plugin = {"name": "FirstScheduledNode", "weight": 100}
    given = [{"name": plugin["name"], "args": arguments}] if arguments else []
    return {
        "schedulerName": "eventsched",
        "plugins": {"multiPoint": {"enabled": [plugin]}},
        "pluginConfig": given,
    }


@pytest.mark.parametrize(
    ("profile", "snapshot", "returns"),
    [
        pytest.param(profile(), 50_000, True, id="required"),
        pytest.param(profile(), 5, True, id="required, from a snapshot"),
        pytest.param(profile(mode="preferred"), 50_000, True, id="preferred"),
        pytest.param({"schedulerName": "eventsched"}, 50_000, False, id="without the plugin"),
    ],
)
def test_a_pod_returns_to_its_first_node(
    controllers: ControlPlane,
    schedulers: Schedulers,
    namespace: str,
    profile: Object,
    snapshot: int,
    returns: bool,
) -> None:
    pods = Pods(controllers.admin, namespace)
    for name in "abc":
        pods.client.create(node(name))
    scheduler = schedulers.start(
        config={"profiles": [profile]}, settings={"snapshot": {"records": snapshot}}
    )
    pods.create(stateful_set("db", affinity=LIKES_FAST_DISKS))
    (before,) = pods.wait_running(1)
    first = before["spec"]["nodeName"]
    wait_bound(scheduler, before, returns)
    if snapshot < 10:
        wait_for(lambda: scheduler.reader().snapshot(), "a snapshot is stored")

    scheduler.kill()
    better = min({"a", "b", "c"} - {first})
    pods.client.patch("Node", better, {"metadata": {"labels": {"disk": "fast"}}})
    for number in range(3):
        filler = pods.create(pod(f"filler-{number}", cpu="1", scheduler="nobody"))
        assert pods.client.bind(filler, first).status == 201
    uid = before["metadata"]["uid"]
    pods.client.delete("Pod", "db-0", namespace, uid=uid)
    pods.wait(lambda found: any(is_another(each, uid) for each in found), "db-0 is created again")
    scheduler.start()
    pods.wait_running(4)

    assert pods.node("db-0") == (first if returns else better)
    (decided,) = scheduler.log().decisions(pods.get("db-0")["metadata"]["uid"])
    assert decided.ties == 1
    begun = any(each["event"] == "begun with a snapshot" for each in scheduler.lines())
    assert begun is (snapshot < 10)


def wait_bound(scheduler: Scheduler, found: Object, remembers: bool) -> None:
    """Waits until the log has it that a pod is bound, and where it was first."""

    def is_logged() -> bool:
        log = scheduler.log()
        bound = [each.uid for each in log.of(PodBound)] == [found["metadata"]["uid"]]
        return bound and len(log.of(MemoryChanged)) == remembers

    wait_for(is_logged, "the pod's node is in the log")


def is_another(found: Object, uid: str) -> bool:
    metadata = found["metadata"]
    return metadata["name"] == "db-0" and metadata["uid"] != uid
