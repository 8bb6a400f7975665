"""The control plane of the tests: its users, its controllers, its end."""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.cluster.harness.binaries import MissingProgramError, find
from tests.cluster.harness.client import ApiError, Client, wait_for
from tests.cluster.harness.manifests import deployment, job, node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.databases import ROOT

_READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "reader"},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}],
}
_BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {"name": "reader"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
    "subjects": [{"kind": "ServiceAccount", "name": "robot"}],
}


def _status(call: Callable[[], object]) -> int:
    try:
        call()
    except ApiError as refused:
        return refused.status
    return 200


def test_a_service_account_may_do_what_its_role_says(plane: ControlPlane, namespace: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    for each in (account, _READER, _BINDING):
        plane.admin.create(each, namespace)
    token = plane.service_account_token(namespace, "robot")

    with closing(Client(plane.url, plane.tls(), token)) as robot:
        wait_for(lambda: robot.list("Pod", namespace) == [], "the API server knows its role")
        statuses = [
            _status(lambda: robot.list("Pod", namespace)),
            _status(lambda: robot.create(pod("web"), namespace)),
            _status(lambda: robot.list("Pod")),
        ]

    assert statuses == [200, 403, 403]


def test_who_is_let_in(plane: ControlPlane) -> None:
    expired, key = plane.authority.client("late", ["system:masters"], seconds=-60)
    late = plane.tls()
    late.load_cert_chain(expired, key)
    fresh = plane.tls()
    fresh.load_cert_chain(*plane.authority.client("someone", ["system:masters"]))
    users = [
        (plane.tls(), plane.token("system:kube-scheduler")),
        (plane.tls(), plane.token("nobody")),
        (plane.tls(), "wrong"),
        (fresh, None),
        (late, None),
    ]

    statuses = []
    for context, token in users:
        with closing(Client(plane.url, context, token)) as client:
            statuses.append(client.call("GET", plane.admin.path("Node")).status)

    assert statuses == [200, 403, 401, 200, 401]


def test_others_do_not_trust_it(plane: ControlPlane) -> None:
    with (
        closing(Client(plane.url, ssl.create_default_context())) as stranger,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        stranger.list("Node")


def test_kubelets_and_controllers_do_their_part(controllers: ControlPlane, namespace: str) -> None:
    client = controllers.admin
    client.create(node("a"))
    client.create(deployment("web", replicas=2), namespace)
    client.create(job("once"), namespace)

    wait_for(lambda: len(client.list("Pod", namespace)) == 3, "three pods", 90.0)
    for each in client.list("Pod", namespace):
        client.bind(each, "a")
    wait_for(
        lambda: client.get("Deployment", "web", namespace)["status"].get("readyReplicas") == 2,
        "both replicas run",
        90.0,
    )
    wait_for(
        lambda: client.get("Job", "once", namespace)["status"].get("succeeded") == 1,
        "the job is done",
        90.0,
    )
    client.delete("Deployment", "web", namespace)
    wait_for(lambda: len(client.list("Pod", namespace)) == 1, "its pods are gone", 90.0)


def test_kwok_is_started_again_when_it_dies(own_plane: ControlPlane) -> None:
    kwok = own_plane.start_kwok()
    first = kwok.pid
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: kwok.restarts and kwok.running, "kwok runs again")
    own_plane.admin.create(node("a"))

    wait_for(lambda: own_plane.admin.get("Node", "a")["status"].get("conditions"), "a is ready")
    kwok.stop()

    assert kwok.pid != first
    assert not kwok.running


_KILLED = """
import os, signal
from tests.cluster.harness.plane import ControlPlane
with ControlPlane() as plane:
    plane.etcd.pause()
    print(plane.folder, *(each.pid for each in plane.servers), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.usefixtures("programs")
def test_nothing_is_left_when_a_test_is_killed() -> None:
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    folder, *pids = killed.stdout.split()

    assert killed.returncode == -signal.SIGKILL
    assert len(pids) == 2
    wait_for(lambda: not Path(folder).exists(), "the folder is gone")
    wait_for(lambda: not any(_runs(pid) for pid in pids), "the servers are gone")


def _runs(pid: str) -> bool:
    try:
        # There may be no process to reap an orphan: it has ended all the same.
        return Path("/proc", pid, "stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("EVENTSCHED_CONTROLPLANE", "EVENTSCHED_CONTROLPLANE: no etcd in"),
        ("KUBEBUILDER_ASSETS", "KUBEBUILDER_ASSETS: no etcd in"),
        ("PATH", "no control plane: install Go 1.26 or newer, or let"),
    ],
)
def test_what_is_missing_is_said(
    variable: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("EVENTSCHED_CONTROLPLANE", "KUBEBUILDER_ASSETS"):
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(variable, str(tmp_path))

    with pytest.raises(MissingProgramError, match=says):
        find()
