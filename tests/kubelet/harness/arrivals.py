"""Pods that arrive one after the other while something happens to the scheduler, and how long each
waits for its node.

    with Arrivals(cluster, namespace) as arrivals:
        …
    arrivals.check(url, "eventsched", longest=30)
"""

import threading
import time
from contextlib import suppress
from subprocess import CalledProcessError
from typing import Self

from eventsched.eventlog.postgres.reader import Reader
from tests.cluster.harness.client import ApiError, Object, wait_for
from tests.cluster.harness.observer import Observer
from tests.cluster.harness.plane import ADMIN
from tests.cluster.harness.pods import phase
from tests.cluster.harness.scheduler import Log, check
from tests.kubelet.harness import workloads
from tests.kubelet.harness.real_cluster import RealCluster
from tests.waiting import joined

PAUSE = 0.7
"""Seconds between two pods, if nothing else is said: a container takes half a second of CPU time
to start."""


class Arrivals:
    """Creates pods from the begin of the block to its end."""

    def __init__(
        self,
        cluster: RealCluster,
        namespace: str,
        scheduler: str = "eventsched",
        *,
        pause: float = PAUSE,
    ) -> None:
        """``pause`` is the time between two pods (s)."""
        self.created: dict[str, float] = {}
        """Uid → time.time() when its creation was asked for."""
        self._cluster, self._namespace, self._scheduler = cluster, namespace, scheduler
        self._pause = pause
        self._client = cluster.plane.client(ADMIN, timeout=10.0)
        self._observer = Observer(cluster.plane, namespace, only_there=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._arrive, name="arrivals", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """No more pods arrive."""
        self._over.set()
        joined(self._thread)

    def close(self) -> None:
        """Ends watching."""
        self._client.close()
        self._observer.__exit__()

    def placed_after(self, moment: float) -> int:
        """How many pods that were created after a moment are on a node."""
        placed = set(self._observer.placed)
        return sum(begun > moment for uid, begun in dict(self.created).items() if uid in placed)

    def wait_placed_after(self, moment: float, within: float = 90.0) -> None:
        """Waits until a pod that was created after a moment is on a node: it is scheduled again.
        Raises TimeoutError."""
        wait_for(lambda: self.placed_after(moment) > 0, "pods are placed again", within)

    def wait_placed(self, count: int, within: float = 90.0) -> None:
        """Waits until that many pods are on a node. Raises TimeoutError."""
        wait_for(lambda: self.placed_after(0) >= count, f"{count} pods are placed", within)

    def wait_running(self, within: float = 120.0) -> None:
        """Waits until all pods that were created run on kubelets. Raises TimeoutError."""

        def run() -> bool:
            pods = self._client.list("Pod", self._namespace)
            there = {pod["metadata"]["uid"] for pod in pods if phase(pod) == "Running"}
            return set(self.created) <= there and set(self.created) <= set(self._observer.placed)

        wait_for(run, "all pods run", within)

    def longest(self) -> float:
        """The most seconds that a pod waited for its node."""
        placed = self._observer.placed
        return max(placed[uid].at - begun for uid, begun in self.created.items())

    def check(self, url: str, stream: str, longest: float) -> float:
        """After the block: all pods run; the log and the API server agree about every binding, and
        no pod was bound twice; and no pod waited longer for its node. Returns the longest wait.
        Raises AssertionError, TimeoutError."""
        try:
            self.wait_running()
            self._observer.check(Log(Reader(url, stream)))
        finally:
            self.close()
        check(url, stream)
        return self._check_waits(longest)

    def check_pods(self, longest: float) -> float:
        """The same without the log, which lacks decisions if its database was restored."""
        try:
            self.wait_running()
        finally:
            self.close()
        return self._check_waits(longest)

    def _check_waits(self, longest: float) -> float:
        waited = self.longest()
        print(f"{len(self.created)} pods, the longest wait {waited:.1f} s")
        assert waited < longest, f"a pod waited {waited:.1f} s"
        return waited

    def _arrive(self) -> None:
        number = 0
        while not self._over.wait(self._pause):
            number += 1
            begun = time.time()
            manifest = workloads.idle_pod(f"arrival-{number:03}", scheduler=self._scheduler)
            with suppress(ApiError, OSError, CalledProcessError):
                made: Object = self._client.create(manifest, self._namespace)
                self.created[made["metadata"]["uid"]] = begun
