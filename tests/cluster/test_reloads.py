"""A changed configuration of a running scheduler on a real API server: it decides otherwise from
then on, in the same process and with the same Lease, and no pod is bound twice."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest
import yaml

from eventsched.domain.records import TermBegan
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.waiting import joined

PAUSE = 0.02
"""Seconds between two pods."""
REPORTED = {"ConfigurationReloaded", "ConfigurationRefused"}
"""The reasons of Events about reloads."""
FAST = {"key": "disk", "operator": "In", "values": ["fast"]}
ONLY_FAST = {
    "name": "NodeAffinity",
    "args": {
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [FAST]}]
            }
        }
    },
}


class Mount:
    """A configuration file as a kubelet mounts a ConfigMap: the link to its folder is replaced."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.file = scheduler.config
        self._folder = Path(mkdtemp(".mount", dir=self.file.parent))  # tests share the plane
        self._versions = 0
        self.text = self.file.read_text()
        self._link(self.text)
        self.file.unlink()
        self.file.symlink_to(self._folder / "..data" / self.file.name)

    def _link(self, text: str) -> None:
        self._versions += 1
        version = self._folder / f"..{self._versions}"
        version.mkdir()
        (version / self.file.name).write_text(text)
        new = self._folder / "..data_tmp"
        new.symlink_to(version.name)
        os.replace(new, self._folder / "..data")

    def change(self, **profile: object) -> None:
        """Gives the profile other fields."""
        first, second = yaml.safe_load_all(self.text)
        first["profiles"][0].update(profile)
        self._link(yaml.safe_dump_all([first, second]))

    def write(self, text: str) -> None:
        """Writes any text."""
        self._link(text)


@pytest.fixture
def elections(plane: ControlPlane) -> Iterator[str]:
    """The namespace of the Lease. The observer takes all Events beside the pods for theirs."""
    with plane.namespace("elections") as name:
        yield name


@pytest.fixture
def scheduler(schedulers: Schedulers, elections: str) -> Scheduler:
    """One in an election, not started yet."""
    where = {"resourceName": "reload", "resourceNamespace": elections}
    return schedulers.make(config={"leaderElection": {"leaderElect": True, **where}})


def events(client: Client, namespace: str) -> dict[str, Object]:
    """The Events about the Lease, by reason."""
    return {
        each["reason"]: each
        for each in client.list("Event", namespace)
        if each["involvedObject"]["kind"] == "Lease"
    }


def lease(plane: ControlPlane, namespace: str) -> tuple[object, ...]:
    """Who holds the Lease, since when and after how many others."""
    spec = plane.admin.get("Lease", "reload", namespace)["spec"]
    return spec["holderIdentity"], spec["acquireTime"], spec.get("leaseTransitions")


def reloads(scheduler: Scheduler, result: str) -> float:
    """How many reloads had this result."""
    return scheduler.metric("eventsched_configuration_reloads_total", result=result)


@contextmanager
def _created(plane: ControlPlane, namespace: str) -> Iterator[list[str]]:
    """While it lasts, pods come, one after the other; the names of those that have come."""
    names: list[str] = []
    over, client = threading.Event(), plane.client(ADMIN)

    def create() -> None:
        while not over.wait(PAUSE):
            name = f"p{len(names):04}"
            client.create(pod(name, "10m"), namespace)
            names.append(name)

    thread = threading.Thread(target=create, name="pods", daemon=True)
    thread.start()
    try:
        yield names
    finally:
        over.set()
        joined(thread)
        client.close()


@pytest.mark.row(32)
def test_a_changed_file_decides_otherwise_without_a_restart(
    plane: ControlPlane, scheduler: Scheduler, namespace: str, elections: str
) -> None:
    for number in range(4):
        plane.admin.create(
            node(f"n{number}", "640", pods=2000, labels={"disk": "fast" if number == 3 else ""})
        )
    mount = Mount(scheduler)
    with Observer(plane, namespace) as observer:
        scheduler.start()
        pid, held = scheduler.server.pid, lease(plane, elections)
        with _created(plane, namespace) as names:
            wait_for(lambda: len(names) > 20, "pods", 60.0)
            mount.change(pluginConfig=[ONLY_FAST])
            wait_for(lambda: reloads(scheduler, "applied") == 1, "the reload", 60.0)
            before = len(names)
            wait_for(lambda: len(names) > before + 20, "more pods", 60.0)
            mount.change(pluginConfig=[{"name": "NodeAffinity", "args": {"addedAffinty": {}}}])
            wait_for(lambda: reloads(scheduler, "refused") == 1, "the refusal", 60.0)
            refused = len(names)
            wait_for(lambda: len(names) > refused + 20, "more pods", 60.0)
        observer.wait_placed()
        observer.check(scheduler.log())
    nodes = {
        each["metadata"]["name"]: each["spec"]["nodeName"]
        for each in plane.admin.list("Pod", namespace)
    }
    assert len({nodes[name] for name in names[:20]}) > 1
    assert {nodes[name] for name in names[before + 1 :]} == {"n3"}
    assert scheduler.server.pid == pid
    assert lease(plane, elections) == held
    assert [bool(began.configuration) for began in scheduler.log().of(TermBegan)] == [False, True]
    wait_for(lambda: events(plane.admin, elections).keys() >= REPORTED, "both are reported")
    seen = events(plane.admin, elections)
    assert {each["type"] for each in seen.values()} == {"Normal", "Warning"}
    assert "addedAffinty" in seen["ConfigurationRefused"]["message"]
    assert scheduler.metric("eventsched_configuration_last_reload_successful") == 0
    [line] = [line for line in scheduler.lines() if "is refused" in line["event"]]
    assert line["where"].endswith("addedAffinty")
    os.kill(pid, signal.SIGHUP)
    wait_for(lambda: reloads(scheduler, "refused") == 2, "the check that was asked for")
