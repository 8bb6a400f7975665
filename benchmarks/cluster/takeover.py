"""``python -m benchmarks.cluster.takeover``: how long a replica needs to start, and to take over.

A cluster of nodes and bound pods on a real API server. A replica starts; another one stands by.
Then the leader is killed, again and again, each time with pods that wait to be bound.
"""

import argparse
import asyncio
import itertools
import sys
import time
from contextlib import ExitStack
from datetime import datetime

from benchmarks.cluster.intake import FLAGS, fill
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.manifests import pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.databases import migrate, servers, serving

_LEASE = {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"}
_ELECTION = {"leaderElect": True, "resourceName": "bench", "resourceNamespace": "default"}
_WAIT_SECONDS = 300.0
_AT_ONCE = 5
"""Pods that wait at a takeover."""


def main() -> int:
    """Prints seconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cluster.takeover")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--runs", type=int, default=3, help="takeovers")
    options = parser.parse_args()
    with ExitStack() as running:
        postgres = running.enter_context(serving(servers()[-1]))
        database = running.enter_context(postgres.fresh(migrate))
        plane = running.enter_context(ControlPlane(flags=FLAGS))
        asyncio.run(fill(plane, options.nodes, options.pods))
        schedulers = running.enter_context(Schedulers(plane, database))
        _measure(Trial(plane, schedulers), options.runs)
    return 0


class Trial:
    """Replicas that lead in turn, and the pods that they bind."""

    def __init__(self, plane: ControlPlane, schedulers: Schedulers) -> None:
        self.pods = Pods(plane.admin, "default")
        config = {"leaderElection": {**_ELECTION, **_LEASE}}
        self.leading = schedulers.make(config=config)
        self.standing_by = schedulers.make(config=config)
        self._admin, self._numbers = plane.admin, itertools.count()

    def free_at(self) -> float:
        """When (s since 1970) the Lease expires if it is not renewed."""
        renewed = self._admin.get("Lease", "bench", "default")["spec"]["renewTime"]
        return datetime.fromisoformat(renewed).timestamp() + float(_LEASE["leaseDuration"][:-1])

    def waiting(self) -> list[str]:
        """Pods that wait."""
        names = [f"late-{next(self._numbers)}" for _ in range(_AT_ONCE)]
        for name in names:
            self.pods.create(pod(name))
        return names

    def bound(self, names: list[str]) -> float:
        """When (s since 1970) the first of them was bound."""
        self.pods.node(names[0], _WAIT_SECONDS)
        return time.time()

    def swap(self) -> None:
        """The other replica leads now; the one that did is started again, and stands by."""
        self.leading, self.standing_by = self.standing_by, self.leading
        self.standing_by.server.start()
        wait_for(lambda: _is_ready(self.standing_by), "a replica stands by", _WAIT_SECONDS)


def _measure(trial: Trial, runs: int) -> None:
    began = time.time()
    trial.leading.start(_WAIT_SECONDS)
    print(f"from a process's start to its first attempts: {time.time() - began:.2f} s", flush=True)
    trial.standing_by.server.start()
    wait_for(lambda: _is_ready(trial.standing_by), "a replica stands by", _WAIT_SECONDS)
    for _ in range(runs):
        trial.leading.kill()
        names, free = trial.waiting(), trial.free_at()
        bound = trial.bound(names) - free
        began = trial.standing_by.metric("eventsched_takeover_duration_seconds_sum")
        print(
            f"takeover: attempts {began:.2f} s after the Lease was won, "
            f"first bind {bound:.2f} s after it was free",
            flush=True,
        )
        trial.swap()


def _is_ready(scheduler: Scheduler) -> bool:
    try:
        return scheduler.ask("/readyz")[0] == 200
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
