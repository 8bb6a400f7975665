"""kube-scheduler, killed and started again: until when nothing is bound."""

import itertools
import json
import time
from collections.abc import Mapping

from benchmarks.cluster.contenders import cpu_of
from tests.cluster.harness import commands
from tests.cluster.harness.manifests import UPSTREAM, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods


def first_bind(plane: ControlPlane, lease: Mapping[str, str], within: float) -> tuple[float, float]:
    """Seconds from its second start to its first bind, and CPU seconds until then. The first one
    is killed with -9, so that its lease has to run out. Raises TimeoutError."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": UPSTREAM}],
        "leaderElection": {"leaderElect": True, "resourceName": UPSTREAM, **lease},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig), "qps": 5000, "burst": 5000},
    }
    file = plane.folder / "kube-restart.json"
    file.write_text(json.dumps(config))
    server = plane.server("kube-restart", commands.scheduler(plane.programs, file))
    pods, numbers = Pods(plane.admin, "default"), itertools.count()

    def waiting() -> str:
        name = f"upstream-{next(numbers)}"
        pods.create(pod(name, scheduler=UPSTREAM))
        return name

    try:
        server.start()
        pods.node(waiting(), within)
        server.kill()
        name, began = waiting(), time.monotonic()
        server.start()
        pods.node(name, within)
        return time.monotonic() - began, cpu_of(server.pid)
    finally:
        server.kill()
        plane.discard(server)
