"""The chart's CronJob that archives, on real kubelets: a job made from it writes the log of the
scheduler beside it to a volume, and the archive answers for its pods."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.plane import ControlPlane
from tests.kubelet.harness import images, workloads
from tests.kubelet.harness.arrivals import Arrivals
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster
from tests.kubelet.harness.release import Release

DATABASE = "archived"
FOLDER = "/var/lib/eventsched/archive"
PODS = 4
LONGEST_WAIT_SECONDS = 15.0
"""The longest wait of a pod, in seconds, with nothing broken."""
JOB_LIMIT = 180.0
"""Seconds for a job: its container starts, and reads the log of a minute."""
TOMORROW = """\
import time

now = time.time_ns
time.time_ns = lambda: now() + 86_400_000_000_000
"""
"""Python runs a module of this name when it starts. Only days that are over are archived, so the
job takes it to be tomorrow."""
VALUES = {
    "archive": {
        "enabled": True,
        "image": images.ARCHIVE.rpartition("/")[2],
        "existingClaim": "log-archive",
        "extraEnv": [{"name": "PYTHONPATH", "value": "/etc/tomorrow"}],
        "extraVolumes": [{"name": "tomorrow", "configMap": {"name": "tomorrow"}}],
        "extraVolumeMounts": [{"name": "tomorrow", "mountPath": "/etc/tomorrow"}],
    },
    "settings": {"retention": {"records": "2160h"}},
}
_WHERE = "--namespace=eventsched"


@pytest.fixture
def release(cluster: RealCluster, postgres: PostgresPod) -> Iterator[Release]:
    """Two replicas and the CronJob, in a namespace that refuses pods that may do more."""
    cluster.plane.admin.create(workloads.local_volume("archive", "node-b", folder="archive"))
    secrets = (postgres.make_database(DATABASE), postgres.make_archiver(DATABASE))
    with Release(cluster, *secrets, _claim(), _tomorrow(), values=VALUES) as installed:
        level = "pod-security.kubernetes.io/enforce=restricted"
        cluster.plane.kubectl("label", "namespace", "eventsched", level)
        yield installed
    cluster.plane.admin.delete("PersistentVolume", "archive")


def test_a_job_of_the_cron_job_archives_the_log_and_the_archive_explains_it(
    release: Release, cluster: RealCluster, postgres: PostgresPod, namespace: str
) -> None:
    plane = cluster.plane
    arrivals = Arrivals(cluster, namespace)
    with arrivals:
        arrivals.wait_placed(PODS)
    arrivals.check(postgres.url(DATABASE), "eventsched", LONGEST_WAIT_SECONDS)
    nodes = {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in plane.admin.list("Pod", namespace)
    }
    assert len(nodes) >= PODS

    first = _run(plane, "first-archive", "--from=cronjob/eventsched-archive").splitlines()
    assert len(first) >= 2
    assert first[-1].endswith(f"of stream eventsched archived in {FOLDER}")
    assert "are what was written" in _read(plane, "verify")
    for name in (min(nodes), max(nodes)):
        told = _read(plane, "explain", f"{namespace}/{name}")
        assert f"{namespace}/{name}" in told
        assert nodes[name] in told
    # The next night goes on after the last day that is there.
    next_night = _run(plane, "next-archive", "--from=cronjob/eventsched-archive")
    assert next_night.startswith(f"0 days of stream eventsched archived in {FOLDER}: ")


def _run(plane: ControlPlane, job: str, source: str) -> str:
    """What a job made from the CronJob prints. Raises TimeoutError, AssertionError."""
    plane.kubectl("create", _WHERE, "job", job, source)

    def ended() -> bool:
        status = json.loads(plane.kubectl("get", _WHERE, "job", job, "--output=json"))["status"]
        assert not status.get("failed"), plane.kubectl("logs", _WHERE, f"job/{job}")
        return bool(status.get("succeeded"))

    wait_for(ended, f"{job} has succeeded", JOB_LIMIT, 0.5)
    return plane.kubectl("logs", _WHERE, f"job/{job}")


def _read(plane: ControlPlane, *command: str) -> str:
    """What a command prints that reads the archive, in a pod that may do as little as the job's and
    that has neither the database's address nor the right to write to the volume."""
    job = json.loads(plane.kubectl("get", _WHERE, "job/first-archive", "--output=json"))
    spec: Object = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container |= {"args": [*command, f"--from-archive={FOLDER}"], "env": []}
    container["volumeMounts"] = [
        {"name": "archive", "mountPath": FOLDER, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
    ]
    spec["volumes"] = [each for each in spec["volumes"] if each["name"] in ("archive", "tmp")]
    manifest: Object = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    manifest["metadata"] = {"generateName": "reader-"}
    name = str(plane.admin.create(manifest, "eventsched")["metadata"]["name"])

    def ended() -> bool:
        phase = plane.admin.get("Pod", name, "eventsched")["status"].get("phase")
        assert phase != "Failed", plane.kubectl("logs", _WHERE, name)
        return bool(phase == "Succeeded")

    wait_for(ended, f"{command[0]} has read the archive", JOB_LIMIT, 0.5)
    return plane.kubectl("logs", _WHERE, name)


def _claim() -> Object:
    """As in docs/how-to/install-with-helm.md, for the one volume that is there."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "log-archive"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": "archive",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }


def _tomorrow() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "tomorrow"},
        "data": {"sitecustomize.py": TOMORROW},
    }
