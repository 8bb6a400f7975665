"""What the controllers make of workloads, with eventsched as their scheduler: pods of deployments,
jobs, stateful sets and daemon sets come to nodes, run, and move when a node is drained."""

from collections import Counter

import pytest

from eventsched.domain.records import PodBound, PodDecided
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import daemon_set, deployment, job, node, stateful_set, taint
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import EVENT, Pods, decision, phase
from tests.cluster.harness.scheduler import Scheduler, Schedulers


@pytest.fixture
def pods(controllers: ControlPlane, namespace: str) -> Pods:
    """The pods of a namespace in a cluster of four nodes."""
    for name in "abcd":
        controllers.admin.create(node(name))
    return Pods(controllers.admin, namespace)


def names(found: list[Object]) -> set[str]:
    return {str(each["metadata"]["name"]) for each in found}


def uids(found: list[Object]) -> set[str]:
    return {str(each["metadata"]["uid"]) for each in found}


def places(found: list[Object]) -> set[str]:
    return {str(each["spec"]["nodeName"]) for each in found}


def assert_ours(scheduler: Scheduler, pods: Pods, found: list[Object]) -> None:
    """Each pod is on the node of one decision in the log, and names it; so does one Event."""
    wanted = {(each["metadata"]["uid"], decision(each)) for each in found}
    wait_for(lambda: wanted <= set(scheduled(pods)), "everything is reported")
    events = scheduled(pods)
    assert len(dict(events)) == len(events)
    wait_for(lambda: uids(found) <= bound_pods(scheduler).keys(), "the binds are in the log")
    log = scheduler.log()
    bound = bound_pods(scheduler)
    chosen = {
        (stored.position, each.uid): each.node
        for stored, each in zip(log.stored, log.records, strict=True)
        if isinstance(each, PodDecided) and each.node
    }
    for each in found:
        uid = each["metadata"]["uid"]
        position = int(decision(each).partition("/")[2].partition("@")[0])
        assert (chosen[position, uid], bound[uid]) == (each["spec"]["nodeName"], 1)


def scheduled(pods: Pods) -> list[tuple[str, str]]:
    """Uid and decision of each Event that says that a pod was bound."""
    return [
        (each["regarding"]["uid"], decision(each))
        for each in pods.client.list(EVENT, pods.namespace)
        if each["reason"] == "Scheduled"
    ]


def bound_pods(scheduler: Scheduler) -> Counter[str]:
    """How often the log has it that a pod was bound, by uid."""
    return Counter(each.uid for each in scheduler.log().of(PodBound))


def images(found: list[Object]) -> set[str]:
    return {str(each["spec"]["containers"][0]["image"]) for each in found}


def rolled_out(pods: Pods, name: str, image: str, replicas: int) -> list[Object]:
    """The pods, once the deployment has only ready ones of an image."""

    def done() -> bool:
        found = pods.client.get("Deployment", name, pods.namespace)
        status = found["status"]
        counts = [status.get(each, 0) for each in ("replicas", "updatedReplicas", "readyReplicas")]
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return is_seen and counts == [replicas] * 3

    wait_for(done, f"{name} is rolled out with {replicas} of {image}", 60.0)
    running = pods.wait_running(replicas)
    assert images(running) == {image}
    return running


def test_a_deployment_rolls_out_scales_and_rolls_back(
    controllers: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    scheduler = schedulers.start()
    made = pods.create(deployment("web", 10))
    old = made["spec"]["template"]["spec"]["containers"][0]["image"]
    first = rolled_out(pods, "web", old, 10)
    assert sorted(Counter(pods.nodes().values()).values()) == [2, 2, 3, 3]

    pods.client.patch("Deployment", "web", NEW, pods.namespace)
    second = rolled_out(pods, "web", "app:2", 10)
    assert not names(first) & names(second)
    for replicas in (16, 3):
        size = {"spec": {"replicas": replicas}}
        pods.client.patch("Deployment", "web", size, pods.namespace, subresource="scale")
        third = rolled_out(pods, "web", "app:2", replicas)
    controllers.kubectl("rollout", "undo", "deployment/web", f"--namespace={pods.namespace}")
    fourth = rolled_out(pods, "web", old, 3)

    for found in (first, second, third, fourth):
        assert_ours(scheduler, pods, found)
    assert len(scheduler.log().of(PodBound)) == 10 + 10 + 6 + 3


NEW = {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}}
"""A patch of whatever has a template."""


@pytest.mark.parametrize(
    ("kind", "made", "count"),
    [("StatefulSet", stateful_set("db", 3), 3), ("DaemonSet", daemon_set("db"), 4)],
    ids=["stateful set", "daemon set"],
)
def test_sets_roll_out_and_roll_back(
    controllers: ControlPlane,
    pods: Pods,
    schedulers: Schedulers,
    kind: str,
    made: Object,
    count: int,
) -> None:
    """One pod after the other gives way; each new one has a decision of its own. Those of a daemon
    set come to the node where the old ones were, those of a stateful set keep their names."""
    scheduler = schedulers.start()
    old = pods.create(made)["spec"]["template"]["spec"]["containers"][0]["image"]
    first = pods.wait_running(count)
    pods.client.patch(kind, "db", NEW, pods.namespace)
    second = all_run(pods, "app:2", count)
    where = f"--namespace={pods.namespace}"
    controllers.kubectl("rollout", "undo", f"{kind.lower()}/db", where)
    controllers.kubectl("rollout", "status", f"{kind.lower()}/db", where, "--timeout=50s")
    third = all_run(pods, old, count)

    same = names if kind == "StatefulSet" else places
    assert same(first) == same(second) == same(third)
    assert not uids(first) & uids(second) | uids(second) & uids(third)
    for found in (first, second, third):
        assert_ours(scheduler, pods, found)
    assert len(scheduler.log().of(PodBound)) == 3 * count


def all_run(pods: Pods, image: str, count: int) -> list[Object]:
    """The pods, once the number runs, all of an image."""

    def run(found: list[Object]) -> bool:
        running = [each for each in found if phase(each) == "Running"]
        return len(found) == len(running) == count and images(found) == {image}

    return pods.wait(run, f"{count} pods run {image}")


def test_a_job_completes_as_room_comes_free(pods: Pods, schedulers: Schedulers) -> None:
    """Each node has room for one of its pods; those that are done make room for the next."""
    scheduler = schedulers.start()
    pods.create(job("sums", completions=12, parallelism=12, cpu="3"))

    def is_complete() -> bool:
        status = pods.client.get("Job", "sums", pods.namespace)["status"]
        return any(each["type"] == "Complete" for each in status.get("conditions", []))

    wait_for(is_complete, "the job is complete", 60.0)
    done = pods.all()
    assert [phase(each) for each in done] == ["Succeeded"] * 12
    assert_ours(scheduler, pods, done)


def test_a_stateful_set_goes_in_order(pods: Pods, schedulers: Schedulers) -> None:
    scheduler = schedulers.start()
    wanted = stateful_set("db", 4)
    wanted["spec"]["podManagementPolicy"] = "OrderedReady"
    pods.create(wanted)

    found = pods.wait_running(4)
    wait_for(lambda: len(scheduler.log().of(PodBound)) == 4, "the log knows all binds")
    log = scheduler.log()
    order = [log.names[each.uid] for each in log.of(PodBound)]
    assert order == [f"{pods.namespace}/db-{n}" for n in range(4)]
    assert_ours(scheduler, pods, found)
    size = {"spec": {"replicas": 1}}
    pods.client.patch("StatefulSet", "db", size, pods.namespace, subresource="scale")
    assert names(pods.wait_running(1)) == {"db-0"}


def test_a_daemon_set_is_on_all_nodes_and_on_those_that_join(
    pods: Pods, schedulers: Schedulers
) -> None:
    """Its pods bear the affinity to one node each, and tolerate a cordon."""
    scheduler = schedulers.start()
    pods.client.create(node("tainted", taints=[taint("reserved")]))
    pods.client.patch("Node", "d", {"spec": {"unschedulable": True}})
    pods.create(daemon_set("agent"))
    pods.wait_running(4)
    pods.client.create(node("e"))
    found = pods.wait_running(5)

    assert sorted(pods.nodes().values()) == list("abcde")
    assert_ours(scheduler, pods, found)


def test_pods_move_off_a_drained_node(
    controllers: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    scheduler = schedulers.start()
    pods.create(deployment("web", 8))
    before = pods.wait_running(8)
    assert set(pods.nodes().values()) == set("abcd")

    controllers.kubectl("drain", "a", "--timeout=30s")
    after = pods.wait_running(8)
    assert set(pods.nodes().values()) == set("bcd")
    assert len(names(before) & names(after)) == 6
    assert_ours(scheduler, pods, after)

    controllers.kubectl("uncordon", "a")
    size = {"spec": {"replicas": 12}}
    pods.client.patch("Deployment", "web", size, pods.namespace, subresource="scale")
    pods.wait_running(12)
    assert set(pods.nodes().values()) == set("abcd")
