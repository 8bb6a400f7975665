"""Other schedulers place pods too; their binds are an input. Their pods are counted and left alone,
and a pod of ours that another scheduler binds is accepted as it is."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from eventsched.domain.records import NodeOvercommitted, PodBound, PodDecided
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.faults import Hold
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.manifests import SCHEDULER, UPSTREAM, node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods, condition, decision
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.cluster.harness.servers import Server

OVERCOMMITTED = "eventsched_overcommitted_nodes"


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """The pods of a namespace."""
    return Pods(plane.admin, namespace)


def pending(scheduler: Scheduler) -> float:
    return scheduler.metric("scheduler_pending_pods")


def test_pods_that_others_bound_are_counted(pods: Pods, schedulers: Schedulers) -> None:
    """Before the scheduler starts, and while it works."""
    for name in "abc":
        pods.client.create(node(name))
    pods.client.bind(pods.create(pod("theirs-1", cpu="3", scheduler="other")), "a")
    scheduler = schedulers.start()
    pods.client.bind(pods.create(pod("theirs-2", cpu="3", scheduler="other")), "b")
    wait_for(lambda: scheduler.metric("scheduler_cache_size", type="pods") == 2, "both are seen")

    pods.create(pod("first", cpu="2"))
    assert pods.node("first") == "c"
    pods.create(pod("second", cpu="3"))
    assert "3 Insufficient cpu" in pods.wait_condition("second")["message"]
    pods.delete("theirs-1")
    assert pods.node("second") == "a"


def test_a_pod_bound_by_another_scheduler_is_accepted(pods: Pods, schedulers: Schedulers) -> None:
    pods.client.create(node("a"))
    pods.client.create(node("b", labels={"disk": "ssd"}))
    scheduler = schedulers.start()
    waits = pods.create(pod("waits", cpu="3", nodeSelector={"disk": "tape"}))
    pods.wait_condition("waits")
    attempts = len(scheduler.log().of(PodDecided))

    assert pods.client.bind(waits, "b").status == 201
    wait_for(lambda: not pending(scheduler), "nothing waits any more")
    pods.create(pod("after", cpu="3", nodeSelector={"disk": "ssd"}))
    assert "1 Insufficient cpu" in pods.wait_condition("after")["message"]
    log = scheduler.log()
    assert len(log.of(PodDecided)) == attempts + 1
    assert pods.events("waits", "Scheduled") == []
    assert (pods.node("waits"), decision(pods.get("waits"))) == ("b", "")


def test_another_scheduler_binds_a_pod_first(
    plane: ControlPlane, pods: Pods, schedulers: Schedulers
) -> None:
    """Our own bind is in flight."""
    pods.client.create(node("a"))
    with KubeProxy(plane) as proxy:
        scheduler = schedulers.start(kubeconfig=proxy.kubeconfig())
        held = proxy.on("POST", "/binding", Hold())
        made = pods.create(pod("web", cpu="3"))
        held.wait()
        pods.client.create(node("b"))
        assert pods.client.bind(made, "b").status == 201
        held.release()
        pods.create(pod("after", cpu="3"))

        assert pods.node("after") == "a"
        wait_for(lambda: not scheduler.metric("eventsched_open_binds"), "binds have outcomes")
        assert scheduler.stop() == 0
    assert (pods.node("web"), decision(pods.get("web"))) == ("b", "")
    bound = [each.uid for each in scheduler.log().of(PodBound)]
    assert bound == [pods.get("after")["metadata"]["uid"]]
    assert pods.events("web", "Scheduled") == []


def test_pods_of_other_schedulers_are_never_touched(pods: Pods, schedulers: Schedulers) -> None:
    theirs = [
        pods.create(pod("plain", scheduler="other")),
        pods.create(pod("default", scheduler="default-scheduler")),
        pods.create(pod("unknown", scheduler="eventsched-2")),
        pods.create(pod("selects", scheduler="other", nodeSelector={"disk": "tape"})),
    ]
    pods.client.create(node("a"))
    scheduler = schedulers.start()
    pods.create(pod("ours"))
    pods.create(pod("refused", cpu="100"))

    assert pods.node("ours") == "a"
    pods.wait_event("refused", "FailedScheduling")
    for made in theirs:
        now = pods.get(made["metadata"]["name"])
        assert now["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        assert pods.events(made["metadata"]["name"]) == []
    decided = {each.uid for each in scheduler.log().of(PodDecided)}
    assert not decided & {made["metadata"]["uid"] for made in theirs}


def test_an_overcommit_is_noticed_and_its_end_too(pods: Pods, schedulers: Schedulers) -> None:
    pods.client.create(node("a"))
    pods.client.create(node("b"))
    scheduler = schedulers.start()
    pods.create(pod("ours", cpu="3", nodeSelector={"kubernetes.io/hostname": "a"}))
    pods.node("ours")
    assert scheduler.metric(OVERCOMMITTED) == 0

    pods.client.bind(pods.create(pod("theirs", cpu="2", scheduler="other")), "a")
    wait_for(lambda: scheduler.metric(OVERCOMMITTED) == 1, "the over-commit is noticed")
    uid = pods.get("theirs")["metadata"]["uid"]
    assert scheduler.wait_log(NodeOvercommitted) == [
        NodeOvercommitted(node="a", by=uid, resources={"cpu": (5000, 4000)})
    ]
    wait_for(lambda: [x for x in scheduler.lines() if x["event"] == "NodeOvercommitted"], "said")
    pods.create(pod("next"))
    assert pods.node("next") == "b"
    pods.delete("theirs")
    wait_for(lambda: scheduler.metric(OVERCOMMITTED) == 0, "its end is noticed")


def test_two_schedulers_share_a_tight_cluster(
    upstream: Server, pods: Pods, schedulers: Schedulers
) -> None:
    """More pods than there is room for come to both at once."""
    rooms = {f"n{number}": 4 for number in range(10)}
    for name in rooms:
        pods.client.create(node(name))
    scheduler = schedulers.start()
    wanted = [
        pod(f"{name}-{number}", cpu="1", scheduler=name)
        for number in range(30)
        for name in (SCHEDULER, UPSTREAM)
    ]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(pods.create, wanted))
    pods.wait(lambda found: all(condition(each, "PodScheduled") for each in found), "fates")
    wait_for(lambda: settled(pods, scheduler), "it has seen all that is bound")

    used = Counter(pods.nodes().values())
    del used[""]
    over = [name for name, count in used.items() if count > rooms[name]]
    assert set(used) == set(rooms)
    assert scheduler.metric(OVERCOMMITTED) == len(over)
    signed = {
        (each["spec"]["schedulerName"], bool(decision(each)))
        for each in pods.all()
        if "nodeName" in each["spec"]
    }
    assert signed == {(SCHEDULER, True), (UPSTREAM, False)}


def settled(pods: Pods, scheduler: Scheduler) -> bool:
    """Whether the scheduler has seen all that is bound, and waits for room."""
    bound = sum(bool(each) for each in pods.nodes().values())
    known = scheduler.metric("scheduler_cache_size", type="pods")
    idle = scheduler.metric("scheduler_pending_pods", queue="active")
    return known == bound >= 40 and not idle
