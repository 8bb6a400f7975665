"""The roles in ``deploy/`` are enough for the scheduler, and its own role grants nothing else."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import structlog

from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.http.refusals import Refusals
from eventsched.cluster.kube.lease.election import LeaseParticipant
from eventsched.cluster.kube.watch.cluster_store import ClusterStore
from eventsched.cluster.kube.watch.resources import RESOURCES
from eventsched.cluster.messages import (
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    PatchStatus,
    PodAbsent,
    PodShown,
    Reported,
    TouchPod,
    WriteEvent,
    WriteObject,
    Written,
)
from eventsched.domain.records.object_writes import BindVolume, SelectNode, Write
from eventsched.eventlog.schema import migrations
from tests.cluster.harness.client import Client, Object, wait_for
from tests.cluster.harness.deployed import deployed
from tests.cluster.harness.manifests import claim, node, pod, volume
from tests.cluster.harness.plane import ADMIN, ControlPlane, free_ports
from tests.deploy.rendering import (
    NAMESPACES,
    configuration,
    rendered,
)
from tests.deploy.rights import EVERYWHERE, Right, at_home, rights
from tests.waiting import LIMIT
from tests.web.facts import ask

ROLES = {"external-postgres": "eventsched", "second-scheduler": "my-scheduler"}
"""Overlays with each of the two ways to give rights, and the names of their Leases."""
AUTHENTICATED = {
    Right("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
    Right("authorization.k8s.io", "selfsubjectrulesreviews", "create"),
    Right("authentication.k8s.io", "selfsubjectreviews", "create"),
}
"""Permissions of every user with a token."""


@pytest.fixture(params=list(ROLES))
def overlay(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.fixture
def account(plane: ControlPlane, overlay: str) -> Iterator[Client]:
    """A client with the token of the overlay's ServiceAccount."""
    with deployed(plane, overlay):
        token = plane.service_account_token(NAMESPACES[overlay], "eventsched")
        with closing(Client(plane.url, plane.tls(), token)) as client:
            wanted = EVERYWHERE | at_home(ROLES[overlay])
            home = NAMESPACES[overlay]
            wait_for(
                lambda: not wanted - set(rights(reviewed(client, home)["resourceRules"])),
                "the API server knows its roles",
            )
            yield client
    for lease in (ROLES[overlay], "other"):
        plane.admin.call("DELETE", plane.admin.path("Lease", lease, NAMESPACES[overlay]))


def reviewed(client: Client, namespace: str) -> Object:
    """What the API server says about the client's rights there."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "metadata": {},
        "spec": {"namespace": namespace},
    }
    status: Object = client.create(review)["status"]
    return status


def rules_for(client: Client, namespace: str) -> set[Right]:
    """All that the client may do there."""
    status = reviewed(client, namespace)
    assert not status["incomplete"]
    return set(rights(status["resourceRules"])) - AUTHENTICATED


def test_the_roles_are_enough_and_the_own_one_no_more(
    account: Client, overlay: str, namespace: str
) -> None:
    home = EVERYWHERE | at_home(ROLES[overlay])
    there, elsewhere = rules_for(account, NAMESPACES[overlay]), rules_for(account, namespace)
    if overlay == "second-scheduler":  # kube-scheduler's has more than we need
        assert not home - there
        assert not EVERYWHERE - elsewhere
        assert at_home("kube-scheduler") - elsewhere == set()
    else:
        assert there == home
        assert elsewhere == EVERYWHERE


def test_it_may_do_nothing_else(account: Client, plane: ControlPlane, namespace: str) -> None:
    plane.admin.create(node("a"))
    plane.admin.create(pod("web"), namespace)
    plane.admin.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}, namespace)
    here = f"/api/v1/namespaces/{namespace}"
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
    empty: Object = {"metadata": {"labels": {"x": "y"}}}
    asked: list[tuple[str, str, Any]] = [
        ("GET", "/api/v1/secrets", None),
        ("GET", f"{here}/secrets/s", None),
        ("GET", "/api/v1/configmaps", None),
        ("GET", "/api/v1/namespaces/kube-system/configmaps", None),
        ("POST", f"{here}/pods", pod("other")),
        ("PATCH", f"{here}/pods/web", empty),
        ("PUT", f"{here}/pods/web", pod("web")),
        ("DELETE", f"{here}/pods", None),
        ("POST", f"{here}/pods/web/eviction", empty),
        ("GET", f"{here}/pods/web/log", None),
        ("POST", f"{here}/pods/web/exec?command=ls", None),
        ("POST", f"{here}/serviceaccounts/default/token", empty),
        ("PATCH", "/api/v1/nodes/a", empty),
        ("PATCH", "/api/v1/nodes/a/status", empty),
        ("DELETE", "/api/v1/nodes/a", None),
        ("PATCH", f"/api/v1/namespaces/{namespace}", empty),
        ("GET", "/apis/apps/v1/deployments", None),
        ("GET", leases, None),
        ("GET", f"{leases}/eventsched", None),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", None),
        ("GET", "/metrics", None),
    ]
    content = "application/merge-patch+json"
    got = {
        (method, path): account.call(
            method, path, body, content if method == "PATCH" else "application/json"
        ).status
        for method, path, body in asked
    }
    assert got == {(method, path): 403 for method, path, _ in asked}


async def everything_watched(kubeconfig: Path) -> list[int]:
    """The adapter's own lists and watches; the version of each."""
    api = await connect(kubeconfig)
    store = ClusterStore(api, lambda *_, **__: None)
    try:
        async with asyncio.timeout(LIMIT):
            await store.start()
            listed = await store.list_cluster()
    finally:
        await store.close()
        await api.close()
    return [each.version for each in listed.listings]


async def led(kubeconfig: Path, namespace: str, lease: str) -> list[str]:
    """The adapter's own election, from the first word to the last; what was refused."""
    api = await connect(kubeconfig)
    refusals = Refusals(time.monotonic)
    election = LeaseParticipant(
        api, namespace=namespace, name=lease, identity="test", refusals=refusals
    )
    try:
        async with asyncio.timeout(LIMIT):
            election.start()
            await election.won()
            await election.release()
    finally:
        await election.close()
        await api.close()
    return refusals.present


async def everything_done(
    kubeconfig: Path, found: Object, writes: Sequence[Write]
) -> tuple[list[object], list[str]]:
    """The adapter's own requests about a pod, and what was refused."""
    api = await connect(kubeconfig)
    about = found["metadata"]
    of = {"uid": about["uid"], "namespace": about["namespace"], "name": about["name"]}
    calls = RequestDispatcher(api, host="test")
    key = "eventsched/1@0a1b2c3d"
    answers: list[object] = []
    try:
        async with asyncio.timeout(LIMIT):
            shown = await calls.carry_out(GetPod(**of))
            assert isinstance(shown, PodShown)
            version = shown.seen.resource_version
            report = PatchStatus(
                **of, resource_version=version, reason="Unschedulable", message="full",
                nominated_node="a", at=1,
            )  # fmt: skip
            answers.append(await calls.carry_out(report))
            notes = [
                WriteEvent(
                    key=f"{key}{at}", **of, reason="FailedScheduling", action="Scheduling",
                    type="Warning", note="full", related=None, at=at, controller="x",
                )
                for at in (1_000_000, 2_000_000)
            ]  # fmt: skip
            answers += [await calls.carry_out(each) for each in notes]
            touched = await calls.carry_out(TouchPod(**of))
            assert isinstance(touched, PodShown)
            bind = BindPod(
                **of, node="a", resource_version=touched.seen.resource_version, decision=key
            )
            answers.append(await calls.carry_out(bind))
            answers.append(await calls.carry_out(EvictPod(**of, decision=key)))
            answers += [
                await calls.carry_out(WriteObject(**of, attempt=1, write=w)) for w in writes
            ]
    finally:
        await api.close()
    return answers, calls.refusals.present


def test_the_adapter_works_with_it(
    account: Client, plane: ControlPlane, namespace: str, overlay: str
) -> None:
    token = plane.service_account_token(NAMESPACES[overlay], "eventsched")
    kubeconfig = plane.write_kubeconfig(f"account-{overlay}", {"token": token})
    plane.admin.create(node("a"))
    found = plane.admin.create(pod("web"), namespace)
    versions = asyncio.run(everything_watched(kubeconfig))
    assert len(versions) == len(RESOURCES)
    assert all(versions)
    plane.admin.create(volume("v", "local", node="a"))
    uids = [plane.admin.create(claim(each, "local"), namespace)["metadata"]["uid"] for each in "cd"]
    here = {"namespace": namespace}
    writes: list[BindVolume | SelectNode] = [
        BindVolume(volume="v", claim="c", claim_uid=uids[0], **here),
        SelectNode(claim="d", node="a", claim_uid=uids[1], **here),
    ]
    with structlog.testing.capture_logs():
        answers, refused = asyncio.run(everything_done(kubeconfig, found, writes))
        assert asyncio.run(led(kubeconfig, NAMESPACES[overlay], ROLES[overlay])) == []
    assert refused == []
    kinds = [type(each) for each in answers]
    assert kinds == [Reported, Reported, Reported, Bound, PodAbsent, Written, Written]
    assert [each.refused for each in answers if isinstance(each, Reported)] == ["", "", ""]


def test_it_may_have_its_lease_and_no_other(account: Client, overlay: str) -> None:
    home, name = NAMESPACES[overlay], ROLES[overlay]
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": home},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15},
    }
    made = account.create(lease)
    made["spec"]["holderIdentity"] = "two"
    assert account.replace(made)["spec"]["holderIdentity"] == "two"
    only = {"fieldSelector": f"metadata.name={name}"}
    with closing(account.watch("Lease", home, seconds=30, **only)) as events:
        # It may begin with what the server had kept.
        holders = (each["object"]["spec"]["holderIdentity"] for each in events)
        assert "two" in holders
    other = account.create({**lease, "metadata": {"name": "other", "namespace": home}})
    for refused in (
        account.call("PUT", account.path("Lease", "other", home), other),
        account.call("GET", account.path("Lease", None, home)),
        account.call("DELETE", account.path("Lease", name, home)),
    ):
        assert refused.status == 403


def test_it_may_ask_who_reads_its_metrics(account: Client) -> None:
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "metadata": {},
        "spec": {"token": "nobody's"},
    }
    assert account.create(review)["status"].get("authenticated", False) is False
    access: Object = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {"user": "x", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
    }
    assert account.create(access)["status"]["allowed"] is False


def test_the_scheduler_runs_with_nothing_else(
    account: Client, plane: ControlPlane, namespace: str, overlay: str, database: str
) -> None:
    """``eventsched run`` with the overlay's configuration and its ServiceAccount's token. It asks
    the API server who may read its metrics."""
    migrations.upgrade(database)
    token = plane.service_account_token(NAMESPACES[overlay], "eventsched")
    kubeconfig = plane.write_kubeconfig(f"run-{overlay}", {"token": token})
    config = plane.folder / f"{overlay}.yaml"
    config.write_text(configuration(rendered(overlay)))
    (port,) = free_ports(1)
    command = [
        sys.executable, "-m", "eventsched", "run", f"--config={config}",
        f"--kubeconfig={kubeconfig}", f"--database={database}",
        "--bind-address=127.0.0.1", f"--secure-port={port}", "--log-format=json",
    ]  # fmt: skip
    plane.admin.create(node("a"))
    server = plane.server(f"eventsched-{overlay}", command)
    server.start()
    try:
        for name, cpu in (("small", "100m"), ("large", "100")):
            made = pod(name, cpu=cpu, scheduler=ROLES[overlay])
            plane.admin.create(made, namespace)

        def is_done() -> bool:
            small, large = (plane.admin.get("Pod", each, namespace) for each in ("small", "large"))
            events = plane.admin.list("events.k8s.io/v1/Event", namespace)
            return (
                small["spec"].get("nodeName") == "a"
                and any(each["reason"] == "Unschedulable" for each in conditions(large))
                and {each["reason"] for each in events} == {"Scheduled", "FailedScheduling"}
            )

        wait_for(is_done, "one pod is bound, the other one has an Event that says why not", 60.0)
        lease = plane.admin.get("Lease", ROLES[overlay], NAMESPACES[overlay])
        assert lease["spec"]["holderIdentity"]
        readers = {"": 403, "nonsense": 401, plane.token("nobody"): 403, plane.token(ADMIN): 200}
        assert {token: read_metrics(port, token) for token in readers} == readers
        assert server.stop() == 0
    finally:
        plane.discard(server)
    said = [json.loads(line) for line in server.log.read_text().splitlines()]
    assert [each for each in said if each["level"] in ("warning", "error")] == []
    assert {each.get("stream") for each in said} == {ROLES[overlay]}
    lease = plane.admin.get("Lease", ROLES[overlay], NAMESPACES[overlay])
    assert not lease["spec"].get("holderIdentity")


def read_metrics(port: int, token: str) -> int:
    """The status that a reader with a token gets, "" for none."""
    headers: dict[str, Any] = {"Authorization": f"Bearer {token}"} if token else {}
    return asyncio.run(ask(f"https://127.0.0.1:{port}/metrics", **headers)).status


def conditions(found: Object) -> list[Object]:
    """A pod's."""
    listed: list[Object] = found.get("status", {}).get("conditions", [])
    return listed
