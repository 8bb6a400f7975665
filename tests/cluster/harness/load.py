"""Pods that come and go all the time in a cluster that is too small for them: plain ones, important
ones that evict others, ones that return to their first node, ones that wait at Permit until another
pod is let through, and ones whose bind waits for a volume."""

import threading
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Self

from eventsched.domain.records import PodBound
from tests.cluster.harness.client import ApiError, Object, wait_for
from tests.cluster.harness.manifests import (
    claim,
    mounted,
    node,
    pod,
    priority_class,
    storage_class,
    volume,
)
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.scheduler import Log
from tests.cluster.harness.volume_binder import VolumeBinder
from tests.waiting import joined

NODES = 20
CPU = 2_000
"""Thousandths that a node has."""
FULL = 1.05
"""The largest share of the cluster that is requested."""
HOMES = 6
"""Pods that return to their first node."""
PAUSE = 0.08
"""Seconds between two changes."""
STORAGE = "disk"
"""The class of volumes."""

TURNSTILE = '''
from eventsched.scheduling.framework import Wait


class Turnstile:
    """Pods with the label waits wait for the next one without it."""

    name = "Turnstile"

    def permit(self, cycle, pod, node):
        if "waits" in pod.labels:
            return Wait(int(pod.labels["waits"]))
        for uid in cycle.waiting:
            cycle.allow(uid)
        return None
'''
PERMIT: Object = {"multiPoint": {"enabled": [{"name": "Turnstile"}]}}
HOME: Object = {"multiPoint": {"enabled": [{"name": "Turnstile"}, {"name": "FirstScheduledNode"}]}}
PROFILES: list[Object] = [
    {"schedulerName": "eventsched", "plugins": PERMIT},
    {"schedulerName": "home", "plugins": HOME},
]


def turnstile(plane: ControlPlane) -> Path:
    """The file with the plugin."""
    path = plane.folder / "turnstile.py"
    path.write_text(TURNSTILE)
    return path


def begin(plane: ControlPlane, nodes: int = NODES) -> None:
    """Makes the nodes, the priorities and the class of volumes."""
    for number in range(nodes):
        plane.admin.create(node(f"n{number:02}", f"{CPU}m", "64Gi"))
    plane.admin.create(priority_class("important", 1000))
    plane.admin.create(priority_class("home", 2000))
    plane.admin.create(storage_class(STORAGE))


class Load:
    """Changes by seed, in a thread of its own, until ``stop``. Claims are bound while the block
    lasts."""

    def __init__(self, plane: ControlPlane, namespace: str, seed: int, nodes: int = NODES) -> None:
        self.created = 0
        self._client = plane.client(ADMIN)
        self._namespace = namespace
        self._random = Random(seed)
        self._room = nodes * CPU
        self._pods: dict[str, int] = {}
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._volumes = VolumeBinder(plane, namespace)

    def __enter__(self) -> Self:
        self._volumes.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._volumes.close()
            self._client.close()

    def stop(self) -> None:
        """No more changes. Raises what went wrong."""
        self._over.set()
        joined(self._thread)
        if self._failure is not None:
            raise self._failure

    def come_to_rest(self, observer: Observer, within: float = 180.0) -> None:
        """No more changes, and room for all pods that are left: waits until each has a node. Call
        it in the block, as some still wait for their claims. Raises what went wrong,
        TimeoutError."""
        self.stop()
        self._leave_room()
        self._let_through()

        def all_placed() -> bool:
            try:
                observer.wait_placed(5.0)
            except TimeoutError:
                self._let_through()
                return False
            return True

        wait_for(all_placed, "the pods have nodes", within, 1.0)

    def _leave_room(self) -> None:
        """Deletes pods until all that are left fit somewhere."""
        self._look()
        while sum(self._pods.values()) > self._room * 0.4:
            self._delete()

    def _let_through(self) -> None:
        """One more pod, which releases those that wait at Permit."""
        self._create(f"next-{self.created}", pod(f"next-{self.created}", cpu="10m"))

    def _run(self) -> None:
        try:
            while not self._over.wait(PAUSE):
                with suppress(OSError):  # the API server is down
                    self._change()
        except Exception as failure:  # noqa: BLE001 - it is raised again by ``stop``
            self._failure = failure

    def _change(self) -> None:
        if self.created % 20 == 19:
            self._look()
        if sum(self._pods.values()) > self._room * FULL or self._random.random() < 0.2:
            self._delete()
        else:
            self._create(*self._draw())

    def _draw(self) -> tuple[str, Object]:
        kind, number = self._random.random(), self.created
        if kind < 0.15:
            name = f"home-{self._random.randrange(HOMES)}"
            return name, pod(name, "300m", scheduler="home", priorityClassName="home")
        if kind < 0.3:
            name, cpu = f"important-{number}", self._random.choice((600, 900, 1400))
            return name, pod(name, f"{cpu}m", priorityClassName="important")
        if kind < 0.4:
            name, waits = f"waits-{number}", str(self._random.choice((1, 3, 60)))
            return name, pod(name, "200m", labels={"waits": waits})
        if kind < 0.46:
            name = f"disk-{number}"
            return name, pod(name, "300m", volumes=mounted(name))
        name, cpu = f"plain-{number}", self._random.choice((200, 400, 700, 1100))
        return name, pod(name, f"{cpu}m")

    def _create(self, name: str, made: Object) -> None:
        self.created += 1
        if name in self._pods:
            self._delete(name)
            return
        if name.startswith("disk-"):
            # Both stay when the pod goes.
            self._client.create(volume(f"{self._namespace}-{name}", STORAGE))
            self._client.create(claim(name, STORAGE), self._namespace)
        with suppress(ApiError):  # it is being deleted
            created = self._client.create(made, self._namespace)
            self._pods[name] = _cpu(created)

    def _delete(self, name: str = "") -> None:
        if not self._pods:
            return
        name = name or self._random.choice(sorted(self._pods))
        del self._pods[name]
        with suppress(ApiError):  # it was evicted
            self._client.delete("Pod", name, self._namespace, grace=0)

    def _look(self) -> None:
        """Those that were evicted are gone."""
        found = self._client.list("Pod", self._namespace)
        self._pods = {each["metadata"]["name"]: _cpu(each) for each in found}


def _cpu(found: Object) -> int:
    requests = found["spec"]["containers"][0]["resources"]["requests"]
    return int(requests["cpu"].removesuffix("m"))


def strayed(log: Log) -> dict[str, set[str]]:
    """Pods of the profile ``home`` that the log has seen bound to more than one node."""
    names, nodes = log.names, dict[str, set[str]]()
    for each in log.of(PodBound):
        name = names[each.uid]
        if "/home-" in name:
            nodes.setdefault(name, set()).add(each.node)
    return {name: found for name, found in nodes.items() if len(found) > 1}
