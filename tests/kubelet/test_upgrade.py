"""From version 0.1 to this one on two real kubelets, as docs/deploy.md says: all replicas are down
meanwhile. The schema allows neither a rolling update nor the way back without a dump."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.harness.client import Object, wait_for
from tests.kubelet.harness import builder, images
from tests.kubelet.harness.arrivals import Arrivals
from tests.kubelet.harness.installation import Installation, overlay
from tests.kubelet.harness.postgres_pod import ADDRESS, PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster
from tests.pages import Page

DOWNTIME = 60.0
"""The longest wait of a pod, in seconds: no scheduler runs while the schema changes."""

PAGE_WAIT = 180.0
"""The same while the commands of a page run, one after the other, between stop and start."""

REFUSED = 180.0
"""Seconds until a replica of 0.1 has started and said so; a busy machine takes a minute."""

REFUSAL = "is newer than this version of eventsched knows"
"""What 0.1 prints about the schema."""


def _release(folder: Path) -> str:
    """The overlay ``replicas`` of version 0.1 with its own image, as kubectl takes it."""
    tree = folder / "tree.tar"
    builder.run(["git", "archive", f"--output={tree}", images.RELEASE, "deploy"], 60, images.ROOT)
    builder.run(["tar", "-C", folder, "-xf", tree], 60)
    rendered = builder.run(["kubectl", "kustomize", folder / "deploy/overlays/replicas"], 60)
    return rendered.replace("image: eventsched:0.1.0", "image: eventsched:released")


@contextmanager
def _released(cluster: RealCluster, secret: Object, folder: Path) -> Iterator[Installation]:
    """Version 0.1 with two ready replicas; all of it is deleted in the end."""
    plane, rendered = cluster.plane, _release(folder)
    plane.kubectl("create", "namespace", "eventsched")
    try:
        plane.kubectl("apply", "--filename=-", given=rendered)
        plane.admin.create(secret, "eventsched")
        installed = Installation(cluster)
        installed.wait_ready(2)
        yield installed
    finally:
        plane.kubectl(
            "delete", "--filename=-", "--wait=false", "--ignore-not-found", given=rendered
        )
        gone = plane.admin.find
        wait_for(lambda: gone("Namespace", "eventsched") is None, "it is gone", 120)


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
    arrivals = Arrivals(cluster, namespace, pause=3.0)  # so that the nodes have room for all
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
    """kubectl's way back is 0.1 as it was installed. It does not start on the new schema, and the
    replicas of this version go on. In the manifests of this version 0.1 would not get as far: it
    does not know the arguments of their init container."""
    undo = ("rollout", "undo", "--namespace=eventsched", "deployment/eventsched")
    installed.cluster.plane.kubectl(*undo)

    def logs() -> list[str]:
        pods = [pod for pod in installed.pods() if images.RELEASED.endswith(_image(pod))]
        return [installed.logs(pod["metadata"]["name"], container="migration") for pod in pods]

    def refused() -> bool:
        return any(REFUSAL in log for log in logs())

    try:
        wait_for(refused, "0.1 refuses the schema", REFUSED, 1.0)
    except TimeoutError as late:
        raise AssertionError(f"replicas of 0.1 have not refused the schema: {logs()}") from late
    installed.cluster.plane.kubectl(*undo)


def _image(pod: Object) -> str:
    """That of its container ``migration``."""
    (container,) = pod["spec"]["initContainers"]
    return str(container["image"])


class Pages:
    """The how-tos about one database, with the addresses of this cluster."""

    def __init__(
        self, cluster: RealCluster, postgres: PostgresPod, secret: Object, folder: Path
    ) -> None:
        migrator = secret["stringData"]["migration-url"]
        here = migrator.replace(ADDRESS, postgres.pod()["status"]["podIP"])
        self._folder = folder
        self._environment = {
            "KUBECONFIG": str(cluster.plane.kubeconfig),
            "DATABASE_URL": here,
            "MAINTENANCE_URL": here.rpartition("/")[0] + "/postgres",
            "IMAGE": "eventsched:0.1.0",
            "OLD_IMAGE": "eventsched:released",
            **dict.fromkeys(("REPLICATION_URL", "RECOVERED_URL", "BACKUP", "ARCHIVE"), "unused"),
        }

    def run(self, name: str, until: str, arrivals: Arrivals) -> None:
        """Runs a page up to a heading, each command as it is written. Before the log is read, the
        scheduler leads: it has placed a pod."""

        def before(command: str) -> None:
            if command.startswith("eventsched log list"):
                arrivals.wait_placed_after(time.time())

        folder = self._folder / f"{len(list(self._folder.iterdir()))}"
        folder.mkdir()
        assert Page(f"how-to/{name}", folder, self._environment, before=before).run(until)


def test_the_how_tos_of_an_upgrade_the_way_back_and_a_dump(
    cluster: RealCluster, postgres: PostgresPod, namespace: str, tmp_path: Path
) -> None:
    """0.1, this version, 0.1 again by the dump; this version again, and a restored dump of it."""
    if not images.has_release():
        pytest.skip(f"this clone does not have the commit {images.RELEASE}")
    secret = postgres.make_database("eventsched", images.RELEASED)
    postgres.sql("alter role migrator_of_eventsched createdb")
    arrivals = Arrivals(cluster, namespace, pause=3.0)
    with _released(cluster, secret, tmp_path), arrivals:
        pages = Pages(cluster, postgres, secret, tmp_path)
        arrivals.wait_placed(2)
        pages.run("upgrade-from-0.1.md", "", arrivals)
        arrivals.wait_placed_after(time.time())
        pages.run("upgrade-from-0.1.md", "## Roll back", arrivals)
        arrivals.wait_placed_after(time.time())
        pages.run("back-up-and-restore.md", "## Base backup and WAL", arrivals)
        arrivals.finish()
        arrivals.check_pods(PAGE_WAIT)
