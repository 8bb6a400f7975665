"""The overlay ``trial`` on real kubelets: eventsched with an embedded Postgres on a volume."""

from collections.abc import Iterator

import pytest

from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.pods import Pods
from tests.kubelet.harness import workloads
from tests.kubelet.harness.installation import Installation, is_ready, is_started, overlay
from tests.kubelet.harness.real_cluster import RealCluster

END = 15.0
"""Seconds in which a deleted pod is gone; after 60 kubelet would kill it."""


@pytest.fixture(scope="module")
def trial(cluster: RealCluster) -> Iterator[Installation]:
    """The overlay, with a volume for its claim on one node."""
    cluster.plane.admin.create(workloads.local_volume("log", "node-a"))
    with overlay(cluster, "trial"):
        installed = Installation(cluster)
        installed.wait_ready(1)
        yield installed
    cluster.plane.admin.delete("PersistentVolume", "log")


def _run(pods: Pods, name: str, count: int, within: float = 60.0) -> dict[str, str]:
    """Makes idle pods, waits until all are ready, and returns their nodes."""
    pods.create(workloads.idle(name, count))

    def nodes() -> dict[str, str] | None:
        there = pods.all(app=name)
        ready = len(there) == count and all(map(is_ready, there))
        return pods.nodes(app=name) if ready else None

    return wait_for(nodes, f"{count} pods of {name} are ready", within)


def test_pods_start_on_both_nodes_and_are_explained(trial: Installation, namespace: str) -> None:
    pods = Pods(trial.cluster.plane.admin, namespace)
    with Observer(trial.cluster.plane, namespace, only_there=True) as observer:
        nodes = _run(pods, "web", 6)
        assert sorted(nodes.values()) == ["node-a"] * 3 + ["node-b"] * 3
        assert observer.wrong == []
    (leader,) = trial.pods()
    for name, node in nodes.items():
        asked = ("eventsched", "explain", f"{namespace}/{name}")
        told = trial.execute(leader["metadata"]["name"], *asked)
        assert f"{namespace}/{name}" in told
        assert node in told


def test_it_runs_without_rights_on_its_machine(trial: Installation) -> None:
    """As the manifests ask: an account without capabilities, on a read-only root, with seccomp."""
    (pod,) = trial.pods()
    name = pod["metadata"]["name"]
    read = "print(open('/proc/1/status').read())"
    status = dict(
        line.split(":\t", 1)
        for line in trial.execute(name, "python3", "-c", read).splitlines()
        if ":\t" in line
    )
    assert status["Uid"].split() == ["65532"] * 4
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    written = "try:\n open('/opt/x', 'w')\nexcept OSError as e:\n print(e.strerror)"
    assert trial.execute(name, "python3", "-c", written) == "Read-only file system\n"


def test_a_killed_container_continues_from_its_log(trial: Installation, namespace: str) -> None:
    """kill -9 of the process: Postgres recovers, and pods made meanwhile are placed."""
    pods = Pods(trial.cluster.plane.admin, namespace)
    with Observer(trial.cluster.plane, namespace, only_there=True) as observer:
        before = _run(pods, "before", 4)
        (pod,) = trial.pods()
        trial.kill(pod)
        _run(pods, "after", 4, 90)
        trial.wait_ready(1)
        assert {name: pods.nodes()[name] for name in before} == before
        assert observer.wrong == []
    _is_whole(trial)


def _is_created(pod: Object, _: str) -> bool:
    return bool(pod["spec"].get("nodeName"))


def _is_started(pod: Object, _: str) -> bool:
    return is_started(pod)


def _has_spoken(_: Object, logs: str) -> bool:
    return logs != ""


def _is_ready(pod: Object, _: str) -> bool:
    return is_ready(pod)


@pytest.mark.parametrize("moment", [_is_created, _is_started, _has_spoken, _is_ready])
def test_a_pod_deleted_during_its_start_ends(trial: Installation, moment: object) -> None:
    """At once, not after its grace period, at whatever moment; and the next pod starts."""
    assert callable(moment)
    (pod,) = trial.wait_ready(1)
    trial.delete(pod["metadata"]["name"])

    def come() -> str | None:
        for each in trial.pods():
            name = str(each["metadata"]["name"])
            if moment(each, trial.logs(name)):
                return name
        return None

    name = wait_for(come, "the moment is there", 60, 0.02)
    took = trial.delete(name)
    assert took < END, f"{name} was gone after {took:.1f} s"
    (following,) = trial.wait_ready(1)
    assert following["metadata"]["name"] != name
    _is_whole(trial)


def _is_whole(trial: Installation) -> None:
    """The log is what was written, and leads to the same decisions again."""
    (pod,) = trial.wait_ready(1)
    name = pod["metadata"]["name"]
    assert "are what was written" in trial.execute(name, "eventsched", "verify")
    replayed = trial.execute(name, "eventsched", "replay", "--verify")
    assert "every decision came out as it is written" in replayed
