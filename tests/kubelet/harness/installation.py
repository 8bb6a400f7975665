"""eventsched in the cluster: its pods, its leader, what it says."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import CalledProcessError

from tests.cluster.harness.client import ApiError, Object, wait_for
from tests.deploy.rendering import NAMESPACES
from tests.kubelet.harness import sweeper
from tests.kubelet.harness.images import ROOT
from tests.kubelet.harness.real_cluster import RealCluster

LABELS = "app.kubernetes.io/name=eventsched"
REMOVAL_LIMIT = 120.0
"""Seconds until an overlay's pods, and its namespace, are gone."""
READY_LIMIT = 120.0
"""Seconds for pods of eventsched to be ready."""


class Installation:
    """The Deployment ``eventsched`` of a namespace, and its Lease."""

    def __init__(
        self,
        cluster: RealCluster,
        namespace: str = "eventsched",
        *,
        lease: str = "eventsched",
        labels: str = LABELS,
    ) -> None:
        self.cluster, self.namespace, self.lease = cluster, namespace, lease
        self._labels = labels
        self._admin = cluster.plane.admin

    def pods(self) -> list[Object]:
        """Those that are not being deleted."""
        found = self._admin.list("Pod", self.namespace, labelSelector=self._labels)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def pod(self, name: str) -> Object | None:
        """The pod of that name; None if it is gone."""
        return self._admin.find("Pod", name, self.namespace)

    def wait_ready(self, count: int, within: float = READY_LIMIT) -> list[Object]:
        """The pods, once that number is there and ready. Raises TimeoutError."""

        def found() -> list[Object] | None:
            pods = self.pods()
            return pods if len(pods) == count and all(map(is_ready, pods)) else None

        return wait_for(found, f"{count} pods of eventsched are ready", within)

    def holder(self) -> str:
        """The name of the pod that holds the Lease; empty if none does."""
        lease = self._admin.find("Lease", self.lease, self.namespace)
        holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
        return str(holder).partition("_")[0]

    def wait_leader(self, other_than: str = "", within: float = READY_LIMIT) -> str:
        """The name of the pod that leads, once it is another one. Raises TimeoutError."""

        def found() -> str | None:
            holder = self.holder()
            return holder if holder not in ("", other_than) else None

        return wait_for(found, "there is a leader", within)

    def execute(self, pod: str, *command: str) -> str:
        """What a command prints in the pod. Raises CalledProcessError."""
        where = f"--namespace={self.namespace}"
        return self.cluster.plane.kubectl("exec", where, pod, "-c", "eventsched", "--", *command)

    def logs(self, pod: str, container: str = "eventsched") -> str:
        """What the pod has printed; empty while there is no container."""
        try:
            where = f"--namespace={self.namespace}"
            return self.cluster.plane.kubectl("logs", where, pod, "-c", container)
        except CalledProcessError:
            return ""

    def delete(self, pod: str) -> float:
        """Deletes a pod as users do, and returns the seconds until it was gone."""
        begun = time.monotonic()
        self._admin.delete("Pod", pod, self.namespace)
        wait_for(lambda: self.pod(pod) is None, f"{pod} is gone", 90, 0.05)
        return time.monotonic() - begun

    def kill(self, pod: Object) -> None:
        """Ends the process of the pod's container at once, and waits until kubelet has noticed."""
        name, restarts = pod["metadata"]["name"], _status(pod)["restartCount"]
        os.kill(first_process(_status(pod)["containerID"]), signal.SIGKILL)

        def restarted() -> bool:
            there = self.pod(name)
            return there is not None and _status(there)["restartCount"] > restarts

        wait_for(restarted, f"the container of {name} is started again", 60)


@contextmanager
def overlay(cluster: RealCluster, name: str, *before: Object) -> Iterator[None]:
    """Applies an overlay of deploy/, with more objects in its namespace before it; deletes all of
    it in the end."""
    folder, namespace = str(ROOT / "deploy" / "overlays" / name), NAMESPACES[name]
    plane = cluster.plane
    if plane.admin.find("Namespace", namespace) is None:
        plane.kubectl("create", "namespace", namespace)
    try:
        for manifest in before:
            plane.admin.create(manifest, namespace)
        plane.kubectl("apply", "--kustomize", folder)
        yield
    finally:
        plane.kubectl("delete", "--kustomize", folder, "--wait=false", "--ignore-not-found")
        for manifest in before:
            with suppress(ApiError):  # gone with its namespace
                plane.admin.delete(manifest["kind"], manifest["metadata"]["name"], namespace)
        wait_for(lambda: not _remains(cluster, namespace), f"{name} is gone", REMOVAL_LIMIT)


def _remains(cluster: RealCluster, namespace: str) -> bool:
    admin = cluster.plane.admin
    if namespace != "kube-system":
        return admin.find("Namespace", namespace) is not None
    return bool(admin.list("Pod", namespace, labelSelector=LABELS))


def is_ready(pod: Object) -> bool:
    """Whether kubelet reports it ready."""
    conditions = pod["status"].get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def is_started(pod: Object) -> bool:
    """Whether the process of the scheduler's container runs."""
    return "running" in _status(pod).get("state", {})


def _status(pod: Object) -> Object:
    """Of the container ``eventsched``; empty before there is one."""
    statuses: Sequence[Object] = pod["status"].get("containerStatuses", ())
    return next((each for each in statuses if each["name"] == "eventsched"), {})


def first_process(container: str) -> int:
    """The process 1 of a container (``containerd://ID``), as the machine numbers it."""
    name = container.rpartition("/")[2]
    for top in Path("/sys/fs/cgroup").glob(f"**/{sweeper.CGROUP}"):
        for members in top.rglob(f"{name}/cgroup.procs"):
            for pid in members.read_text().split():
                if _own_number(int(pid)) == 1:
                    return int(pid)
    raise LookupError(f"container {name} has no process")


def _own_number(pid: int) -> int:
    """Its number in its own namespace."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return 0
