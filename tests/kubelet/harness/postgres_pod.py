"""Postgres in the cluster: a pod with its data on a node, and the databases that tests make as
docs/deploy.md says."""

import json
import os
import secrets
import signal
import subprocess
import sys
from typing import Any

from tests.cluster.harness.client import MERGE, Object, wait_for
from tests.kubelet.harness import images, workloads
from tests.kubelet.harness.installation import first_process, is_ready
from tests.kubelet.harness.real_cluster import RealCluster

NAMESPACE = "database"
ADDRESS = "10.0.0.50"
"""Of its Service, for the pods."""
_NAME = "postgres"
_NODE = "node-a"
_LABELS = {"app": _NAME}


class PostgresPod:
    """One server; ``make_database`` makes a database for an installation."""

    def __init__(self, cluster: RealCluster) -> None:
        self.cluster = cluster
        self._admin = cluster.plane.admin
        self._password = secrets.token_hex(16)

    def start(self) -> None:
        """Makes it, and waits until it is ready."""
        self._admin.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        self._admin.create(workloads.local_volume("postgres", _NODE, folder="postgres"))
        for manifest in (_claim(), _service(), _deployment(self._password)):
            self._admin.create(manifest, NAMESPACE)
        self.wait_ready()

    def pod(self) -> Object:
        """Its pod."""
        (found,) = self._pods()
        return found

    def _pods(self) -> list[Object]:
        return self._admin.list("Pod", NAMESPACE, labelSelector=f"app={_NAME}")

    def wait_ready(self, within: float = 120.0) -> None:
        """Waits until it answers. Raises TimeoutError."""
        wait_for(
            lambda: [is_ready(pod) for pod in self._pods()] == [True], "Postgres is ready", within
        )

    def kill(self) -> None:
        """kill -9 of its first process; kubelet starts the container again."""
        os.kill(first_process(_status(self.pod())["containerID"]), signal.SIGKILL)

    def scale(self, replicas: int) -> None:
        """Ends the pod (0), or brings another one with the same data (1)."""
        spec = {"spec": {"replicas": replicas}}
        self._admin.patch("Deployment", _NAME, spec, NAMESPACE, content_type=MERGE)

    def is_gone(self) -> bool:
        """Whether no pod of it is left."""
        return not self._pods()

    def url(self, database: str, user: str = "postgres", password: str = "") -> str:
        """For this machine, which reaches pods and not Services."""
        address = self.pod()["status"]["podIP"]
        return _url(address, database, user, password or self._password)

    def sql(self, *statements: str, database: str = "postgres") -> str:
        """What psql prints, in the pod."""
        options = [option for statement in statements for option in ("-c", statement)]
        psql = ("psql", "-U", "postgres", "-d", database, "-qAt", "-v", "ON_ERROR_STOP=1", *options)
        where = (f"--namespace={NAMESPACE}", f"deploy/{_NAME}")
        return self.cluster.plane.kubectl("exec", *where, "--", *psql)

    def make_database(self, name: str, image: str | None = None) -> Object:
        """A database with its users and the schema, in the order of docs/deploy.md, by this tree or
        by an image; the Secret ``eventsched-database`` with the addresses, without a namespace."""
        # No names such as eventsched_migrator, which are roles of the product.
        migrator, scheduler = f"migrator_of_{name}", f"scheduler_of_{name}"
        password = secrets.token_hex(16)
        self.sql(
            f"create role {migrator} login createrole password '{password}'",
            f"create database {name} owner {migrator}",
        )
        if image is None:
            _upgrade(self.url(name, migrator, password))
        else:
            self._upgrade_in_pod(image, _url(ADDRESS, name, migrator, password))
        self.sql(f"create role {scheduler} login password '{password}' in role eventsched_writer")
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "eventsched-database"},
            "stringData": {
                "url": _url(ADDRESS, name, scheduler, password),
                "migration-url": _url(ADDRESS, name, migrator, password),
            },
        }

    def make_archiver(self, name: str) -> Object:
        """A login for the job that archives a database, as docs/how-to/install-with-helm.md makes
        it; the Secret ``eventsched-archive`` with its address, without a namespace."""
        user, password = f"archiver_of_{name}", secrets.token_hex(16)
        self.sql(f"create role {user} login password '{password}' in role eventsched_archiver")
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "eventsched-archive"},
            "stringData": {"url": _url(ADDRESS, name, user, password)},
        }

    def _upgrade_in_pod(self, image: str, url: str) -> None:
        environment = [{"name": "EVENTSCHED_DATABASE", "value": url}]
        container = {"name": "upgrade", "image": image, "imagePullPolicy": "Never"}
        manifest: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "upgrade-"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{**container, "args": ["db", "upgrade"], "env": environment}],
            },
        }
        pod = self._admin.create(manifest, NAMESPACE)["metadata"]["name"]

        def ended() -> bool:
            phase = self._admin.get("Pod", pod, NAMESPACE)["status"]["phase"]
            assert phase != "Failed", self.cluster.plane.kubectl("logs", pod, f"-n={NAMESPACE}")
            return bool(phase == "Succeeded")

        wait_for(ended, f"{image} has made the schema", 120)


def _upgrade(url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "eventsched", "db", "upgrade", "--database", url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _url(address: str, database: str, user: str, password: str) -> str:
    return f"postgresql://{user}:{password}@{address}:5432/{database}"


def _status(pod: Object) -> Object:
    (found,) = pod["status"]["containerStatuses"]
    status: Object = found
    return status


def _claim() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": _NAME},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": "postgres",
            "resources": {"requests": {"storage": "5Gi"}},
        },
    }


def _service() -> Object:
    ports: list[Any] = [{"port": 5432}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _NAME},
        "spec": {"clusterIP": ADDRESS, "selector": _LABELS, "ports": ports},
    }


def _deployment(password: str) -> Object:
    container = {
        "name": _NAME,
        "image": images.POSTGRES,
        "imagePullPolicy": "Never",
        "env": [
            {"name": "POSTGRES_PASSWORD", "value": password},
            # A folder below the mount: initdb wants an empty one with rights of its own.
            {"name": "PGDATA", "value": "/var/lib/postgresql/mount/data"},
        ],
        "readinessProbe": {
            # No process is started for it: that takes seconds if the machine is busy.
            "tcpSocket": {"port": 5432},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/postgresql/mount"}],
    }
    spec = {
        "terminationGracePeriodSeconds": 10,
        "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": _NAME}}],
    }
    made = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": _NAME},
        "spec": {
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _LABELS},
            "template": {"metadata": {"labels": _LABELS}, "spec": spec},
        },
    }
    return json.loads(json.dumps(made))
