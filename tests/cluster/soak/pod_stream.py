"""Pods that come, end and go all the time in a cluster that is too small for them, whatever happens
to the API server."""

import http.client
import threading
from contextlib import suppress
from random import Random
from typing import Self

from tests.cluster.harness.client import ApiError, Object
from tests.cluster.harness.manifests import node, pod, priority_class
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.waiting import joined

NODES = 12
CPU = 2_000
"""Thousandths that a node has."""
MEMORY = 4_096
"""MiB that a node has."""
PODS = 5
"""Pods that a node takes."""
FULL = 1.1
"""The largest share of the cluster's CPU that is requested."""
PAUSE = 0.2
"""Seconds between two changes."""


def begin(plane: ControlPlane) -> None:
    """Makes the nodes and the priorities."""
    for number in range(NODES):
        plane.admin.create(node(f"n{number:02}", f"{CPU}m", f"{MEMORY}Mi", PODS))
    plane.admin.create(priority_class("important", 1000))


class PodStream:
    """Changes by seed, in a thread of its own, until ``stop``. No two pods have the same name."""

    def __init__(self, plane: ControlPlane, namespace: str, seed: int) -> None:
        self.done = {"created": 0, "deleted": 0, "terminated": 0, "failed": 0}
        self._client = plane.client(ADMIN, timeout=10.0)
        self._namespace = namespace
        self._random = Random(seed)
        self._number = 0
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="pod stream", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    def stop(self) -> None:
        """No more changes. Raises what went wrong."""
        self._over.set()
        joined(self._thread)
        if self._failure is not None:
            raise self._failure

    def leave_room(self) -> None:
        """After ``stop``: deletes pods until what is left fits, also by number. The API server has
        to answer."""
        found = self._there()
        while len(found) > NODES * PODS // 3 or _cpu(found) > NODES * CPU * 0.4:
            self._delete(found.pop())

    def _run(self) -> None:
        there: list[Object] = []
        while not self._over.wait(PAUSE):
            try:
                if self._number % 5 == 0:
                    there = self._there()
                self._change(there)
            except (OSError, http.client.HTTPException, ApiError):
                self.done["failed"] += 1  # the API server is down, or the pod was evicted
            except Exception as failure:  # noqa: BLE001 - it is raised again by ``stop``
                self._failure = failure
                return

    def _there(self) -> list[Object]:
        found = self._client.list("Pod", self._namespace)
        return [each for each in found if each.get("status", {}).get("phase") != "Succeeded"]

    def _change(self, there: list[Object]) -> None:
        self._number += 1
        is_full = _cpu(there) > NODES * CPU * FULL
        if there and (is_full or self._random.random() < 0.3):
            chosen = there.pop(self._random.randrange(len(there)))
            if "nodeName" in chosen["spec"] and self._random.random() < 0.3:
                self._terminate(chosen)
            self._delete(chosen)
            return
        self._client.create(self._draw(), self._namespace)
        self.done["created"] += 1

    def _draw(self) -> Object:
        name = f"pod-{self._number}"
        memory = f"{self._random.choice((64, 512, 1024, 2048))}Mi"
        kind = self._random.random()
        if kind < 0.2:
            cpu = self._random.choice((600, 900, 1400))
            return pod(name, f"{cpu}m", memory, priorityClassName="important")
        if kind < 0.3:
            waits = str(self._random.choice((1, 3, 10)))
            return pod(name, "200m", memory, labels={"waits": waits})
        return pod(name, f"{self._random.choice((100, 200, 400, 700, 1100))}m", memory)

    def _terminate(self, chosen: Object) -> None:
        """As a kubelet reports a pod whose containers have ended well."""
        name, status = chosen["metadata"]["name"], {"status": {"phase": "Succeeded"}}
        self._client.patch("Pod", name, status, self._namespace, subresource="status")
        self.done["terminated"] += 1

    def _delete(self, chosen: Object) -> None:
        with suppress(ApiError):  # it was evicted
            self._client.delete("Pod", chosen["metadata"]["name"], self._namespace, grace=0)
            self.done["deleted"] += 1


def _cpu(pods: list[Object]) -> int:
    found = (each["spec"]["containers"][0]["resources"]["requests"]["cpu"] for each in pods)
    return sum(_thousandths(each) for each in found)


def _thousandths(cpu: str) -> int:
    return int(cpu.removesuffix("m")) if cpu.endswith("m") else int(cpu) * 1000
