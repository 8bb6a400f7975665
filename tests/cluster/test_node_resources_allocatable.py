"""NodeResourcesAllocatable on a real API server: the smallest nodes first, or the largest, also
after a node has come to offer more; and the log has the scores."""

from eventsched.domain.records import NodeUpdated
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.demos import Demo, example
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.scheduler import Scheduler, Schedulers

LARGEST = "largest"
"""The schedulerName of a profile with the mode Most."""
SCORES = """
    SELECT s.node, s.raw, s.normalized
    FROM eventsched.decisions d, LATERAL eventsched.scores(d.stream, d.seq) s
    WHERE s.plugin = 'NodeResourcesAllocatable' AND d.pod_uid::text = :uid AND d.attempt = 1
"""


def both_modes() -> Object:
    """The example's configuration, with a second profile."""
    config = example("NodeResourcesAllocatable")
    (least,) = config["profiles"]
    most = {"name": "NodeResourcesAllocatable", "args": {"mode": "Most"}}
    config["profiles"].append({**least, "schedulerName": LARGEST, "pluginConfig": [most]})
    return config


def mean(processors: int, gib: int) -> int:
    """Of what a node offers: a millicore weighs as much as a MiB of memory."""
    return (processors * 1000 * 2**20 + gib * 2**30) // (2**20 + 1)


def scores(scheduler: Scheduler, uid: str) -> dict[str, tuple[int, int]]:
    """Node → raw and normalized score of a pod's first attempt."""
    rows = scheduler.reader().rows(SCORES, uid=uid)
    return {row["node"]: (row["raw"], row["normalized"]) for row in rows}


def test_nodes_by_their_size(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """The example's nodes and pods, then one for the largest node, which is another one later."""
    demo = Demo(plane, schedulers, namespace, "NodeResourcesAllocatable")
    demo.create("nodes")
    scheduler = demo.start(both_modes())
    made = demo.create("pods")
    placed = [demo.pods.node(each["metadata"]["name"]) for each in made]
    assert placed == ["small", "small", "medium"]
    large, medium, small = mean(16, 64), mean(4, 16), mean(2, 4)
    middle = 100 * (large - medium) // (large - small)
    assert scores(scheduler, made[0]["metadata"]["uid"]) == {
        "large": (-large, 0), "medium": (-medium, middle), "small": (-small, 100),
    }  # fmt: skip

    demo.pods.create(pod("before", scheduler=LARGEST))
    assert demo.pods.node("before") == "large"
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    plane.admin.patch(
        "Node",
        "medium",
        {"status": {"capacity": amounts, "allocatable": amounts}},
        subresource="status",
    )

    def is_seen() -> bool:
        seen = [each.node for each in scheduler.log().of(NodeUpdated)]
        return any((each.name, each.allocatable["cpu"]) == ("medium", 32_000) for each in seen)

    wait_for(is_seen, "medium is seen to be the largest")
    demo.pods.create(pod("after", scheduler=LARGEST))
    assert demo.pods.node("after") == "medium"
    demo.pod("least", cpu="1", memory="1Gi")
    assert demo.pods.node("least") == "large"
    assert scheduler.stop() == 0
