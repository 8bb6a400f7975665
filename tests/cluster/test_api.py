"""The HTTP API beside a scheduler: users of the cluster with different rights, and a process that
ends with the scheduler."""

import asyncio
import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ADMIN, ControlPlane, free_ports
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.web.facts import Answer, ask

START = 90.0
"""Seconds for the start of a process that serves the API."""
READER: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
    "metadata": {"name": "decisions-reader"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
}  # fmt: skip


def _user(plane: ControlPlane, namespace: str, name: str) -> str:
    """The token of a new ServiceAccount."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    plane.admin.create(account, namespace)
    return plane.service_account_token(namespace, name)


def _may_read(plane: ControlPlane, namespace: str, name: str) -> None:
    """Lets a ServiceAccount list the pods of its namespace."""
    plane.admin.create(READER, namespace)
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "decisions-reader",
    }
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    plane.admin.create(
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
         "metadata": {"name": name}, "roleRef": reference, "subjects": [subject]},
        namespace,
    )  # fmt: skip


class Api:
    """The API beside a scheduler."""

    def __init__(self, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}"

    def ask(self, path: str, token: str) -> Answer:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return asyncio.run(ask(self.url + path, "GET", None, None, **headers))

    def namespaces(self, token: str) -> Any:
        """Those of the pods that a user sees, or the status of a refusal."""
        answer = self.ask("/api/v1/pods", token)
        if answer.status != 200:
            return answer.status
        return {each["namespace"] for each in json.loads(answer.text)["pods"]}

    def is_served(self) -> bool:
        with suppress(OSError):
            return self.ask("/api/v1/streams", "").status == 401
        return False

    def is_gone(self) -> bool:
        try:
            self.ask("/api/v1/streams", "")
        except OSError:
            return True
        return False


def _children(scheduler: Scheduler) -> list[int]:
    """The processes that a scheduler has started."""
    stats = []
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            stats.append(each.read_text())
    parents = {int(stat.split()[0]): int(stat.rsplit(")", 1)[1].split()[1]) for stat in stats}
    return [child for child, parent in parents.items() if parent == scheduler.server.pid]


def test_users_see_the_namespaces_whose_pods_they_may_list(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    plane.admin.create(node("a"))
    with plane.namespace() as other:
        anna, guest = _user(plane, namespace, "anna"), _user(plane, namespace, "guest")
        _may_read(plane, namespace, "anna")
        for each in (namespace, other):
            pods = Pods(plane.admin, each)
            pods.create(pod("web"))
        (port,) = free_ports(1)
        scheduler = schedulers.start(arguments=[f"--api-port={port}", "--ui"])
        for each in (namespace, other):
            Pods(plane.admin, each).node("web")
        api = Api(port)
        wait_for(api.is_served, "the API", START)
        everyone = wait_for(lambda: api.namespaces(plane.token(ADMIN)), "pods in the log")
        assert everyone >= {namespace, other}
        assert api.namespaces(anna) == {namespace}
        refused = (api.namespaces(guest), api.namespaces("stolen"), api.namespaces(""))
        assert refused == (403, 401, 401)
        assert api.ask(f"/api/v1/pods/{namespace}/web/explain", anna).status == 200
        assert api.ask(f"/api/v1/pods/{other}/web/explain", anna).status == 403
        assert "<html" in api.ask("/pods", anna).text
        assert scheduler.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_api_ends_with_the_scheduler_and_comes_again_without_it(
    schedulers: Schedulers, number: signal.Signals
) -> None:
    (port,) = free_ports(1)
    scheduler = schedulers.start(arguments=[f"--api-port={port}"])
    api = Api(port)
    wait_for(api.is_served, "the API", START)
    (child,) = _children(scheduler)
    os.kill(child, signal.SIGKILL)
    wait_for(lambda: _children(scheduler) not in ([], [child]), "another process")
    wait_for(api.is_served, "the API again", START)
    scheduler.kill() if number is signal.SIGKILL else scheduler.stop()
    wait_for(api.is_gone, "the end of the API")
