"""Several schedulers for one cluster: kube-scheduler and eventsched beside each other, and two
names in one eventsched. Pods choose by ``schedulerName``."""

from collections import Counter

import pytest

from eventsched.domain.records import PodAdded, PodBound, PodDecided, PodUpdated
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.demos import DEFAULT
from tests.cluster.harness.manifests import SCHEDULER, node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Scheduler, Schedulers

NODES = ("a", "b", "c")
NAMES = ("likes-a", "likes-b", "without-scheduler")


@pytest.fixture
def pods(plane: ControlPlane, namespace: str) -> Pods:
    """Three nodes, each with room for two pods of 2 CPUs."""
    for name in NODES:
        plane.admin.create(node(name))
    return Pods(plane.admin, namespace)


def create(pods: Pods, scheduler: str, *names: str) -> list[str]:
    """Pods of 2 CPUs for a scheduler; their uids."""
    made = [pods.create(pod(name, cpu="2", scheduler=scheduler)) for name in names]
    return [each["metadata"]["uid"] for each in made]


def sees(scheduler: Scheduler, pods: Pods, *names: str) -> None:
    """Waits until the scheduler knows where pods are. Raises TimeoutError."""
    wanted = {pods.get(name)["metadata"]["uid"]: pods.node(name) for name in names}

    def is_seen() -> bool:
        log = scheduler.log()
        seen = {
            each.pod.uid: each.pod.node_name
            for each in log.records
            if isinstance(each, PodAdded | PodUpdated)
        }
        return wanted.items() <= seen.items()

    wait_for(is_seen, f"{names} are seen")


def by_scheduler(pods: Pods) -> dict[str, set[str]]:
    """The schedulers that reported binds, each with its pods."""
    found: dict[str, set[str]] = {}
    for each in pods.client.list("events.k8s.io/v1/Event", pods.namespace):
        if each["reason"] == "Scheduled":
            who = each["reportingController"]
            found.setdefault(who, set()).add(each["regarding"]["name"])
    return found


def waits(pods: Pods, name: str) -> None:
    """Waits for the report that there is no room for a pod. Raises TimeoutError."""
    note = pods.wait_event(name, "FailedScheduling")["note"]
    assert note.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert pods.nodes()[name] == ""


def test_each_binds_its_own_and_counts_the_others(
    pods: Pods, default_scheduler: object, schedulers: Schedulers
) -> None:
    """At last there is room for one more, and the one that has a pod waiting takes it."""
    scheduler = schedulers.start()
    create(pods, DEFAULT, "theirs-1", "theirs-2", "theirs-3")
    sees(scheduler, pods, "theirs-1", "theirs-2", "theirs-3")
    ours = create(pods, SCHEDULER, "ours-1", "ours-2", "ours-3")
    for name in ("ours-1", "ours-2", "ours-3"):
        pods.node(name)
    ours += create(pods, SCHEDULER, "ours-late")
    waits(pods, "ours-late")

    # kube-scheduler has seen ours once it reports a pod that came after their binds.
    pods.create(pod("nowhere", scheduler=DEFAULT, nodeSelector={"no": "such"}))
    pods.wait_event("nowhere", "FailedScheduling")
    create(pods, DEFAULT, "theirs-late")
    waits(pods, "theirs-late")
    assert Counter(pods.nodes().values()) == {"a": 2, "b": 2, "c": 2, "": 3}

    pods.delete("theirs-late")
    freed = pods.node("theirs-1")
    pods.delete("theirs-1")
    assert pods.node("ours-late") == freed
    expected = {DEFAULT: {f"theirs-{n}" for n in (1, 2, 3)}, SCHEDULER: {"ours-late"}}
    expected[SCHEDULER] |= {f"ours-{n}" for n in (1, 2, 3)}
    wait_for(lambda: by_scheduler(pods) == expected, "each reports its own binds")
    assert {each.uid for each in scheduler.log().of(PodDecided)} == set(ours)
    wait_for(lambda: len(scheduler.log().of(PodBound)) == 4, "four binds are in the log")


def test_two_names_in_one_process(pods: Pods, schedulers: Schedulers) -> None:
    """Each has plugins of its own; pods of a third name are ignored."""
    profiles = [profile("likes-a", "a"), profile("likes-b", "b")]
    scheduler = schedulers.start(config={"profiles": profiles})
    made = {name: pods.create(pod(f"pod-{name}", scheduler=name)) for name in NAMES}
    assert [pods.node(f"pod-likes-{node}") for node in "ab"] == ["a", "b"]
    profiles_by_uid = {d.uid: d.profile for d in scheduler.log().of(PodDecided)}
    assert profiles_by_uid == {made[name]["metadata"]["uid"]: name for name in NAMES[:2]}
    events = {name: pods.wait_event(f"pod-{name}", "Scheduled") for name in NAMES[:2]}
    assert {event["reportingController"] for event in events.values()} == set(NAMES[:2])
    assert pods.nodes()["pod-without-scheduler"] == ""


def profile(name: str, node: str) -> Object:
    """A profile that prefers a node."""
    return {
        "schedulerName": name,
        "plugins": {"score": {"enabled": [{"name": "FixedNode", "weight": 100}]}},
        "pluginConfig": [{"name": "FixedNode", "args": {"nodeName": node}}],
    }
