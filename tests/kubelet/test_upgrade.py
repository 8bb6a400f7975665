"""From version 0.1 to this one on two real kubelets, as docs/deploy.md says: all replicas are down
meanwhile. The schema allows neither a rolling update nor the way back."""

import time
from pathlib import Path

import pytest

from tests.cluster.harness.client import wait_for
from tests.kubelet.harness import builder, images
from tests.kubelet.harness.arrivals import Arrivals
from tests.kubelet.harness.installation import Installation, overlay
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster

DOWNTIME = 60.0
"""The longest wait of a pod, in seconds: no scheduler runs while the schema changes."""

REFUSAL = "is newer than this version of eventsched knows"
"""What 0.1 prints about the schema."""


def _release(folder: Path) -> str:
    """The overlay ``replicas`` of version 0.1 with its own image, as kubectl takes it."""
    tree = folder / "tree.tar"
    builder.run(["git", "archive", f"--output={tree}", images.RELEASE, "deploy"], 60, images.ROOT)
    builder.run(["tar", "-C", folder, "-xf", tree], 60)
    rendered = builder.run(["kubectl", "kustomize", folder / "deploy/overlays/replicas"], 60)
    return rendered.replace("image: eventsched:0.1.0", "image: eventsched:released")


def test_an_upgrade_from_0_1_under_load(
    cluster: RealCluster, postgres: PostgresPod, namespace: str, tmp_path: Path
) -> None:
    if not images.has_release():
        pytest.skip(f"this clone does not have the commit {images.RELEASE}")
    plane = cluster.plane
    secret = postgres.make_database("upgraded", images.RELEASED)
    where = "--namespace=eventsched"
    plane.kubectl("create", "namespace", "eventsched")
    plane.kubectl("apply", "--filename=-", given=_release(tmp_path))
    installed = Installation(cluster)
    plane.admin.create(secret, "eventsched")
    installed.wait_ready(2)
    arrivals = Arrivals(cluster, namespace)
    with arrivals:
        arrivals.wait_placed(4)
        plane.kubectl("scale", where, "deployment/eventsched", "--replicas=0")
        wait_for(lambda: not installed.pods(), "no replica of 0.1 is left", 60)
        moment = time.time()
        with overlay(cluster, "replicas"):
            installed.wait_ready(2)
            arrivals.wait_placed_after(moment)
            _refuses_the_way_back(installed)
            installed.wait_ready(2)
            arrivals.finish()
            arrivals.check(postgres.url("upgraded"), "eventsched", DOWNTIME)


def _refuses_the_way_back(installed: Installation) -> None:
    """A replica of 0.1 does not start on the new schema; the replicas of this version go on."""
    plane = installed.cluster.plane
    command = ("set", "image", "--namespace=eventsched", "deployment/eventsched")
    plane.kubectl(*command, "eventsched=eventsched:released", "migration=eventsched:released")

    def refused() -> bool:
        return any(REFUSAL in installed.logs(pod, container="migration") for pod in names())

    def names() -> list[str]:
        return [str(pod["metadata"]["name"]) for pod in installed.pods()]

    wait_for(refused, "0.1 refuses the schema", 60, 1.0)
    plane.kubectl("rollout", "undo", "--namespace=eventsched", "deployment/eventsched")
