"""Delegated authentication and authorization against a real API server: the serving side asks as
``system:kube-scheduler``, and readers come with tokens of ServiceAccounts."""

import asyncio
from pathlib import Path

from eventsched.cluster.kube.access import connect
from eventsched.web import pages, server
from eventsched.web.authorization import Reviews
from eventsched.web.metrics import Metrics
from eventsched.web.server import Options
from tests.cluster.client import Object
from tests.cluster.plane import ADMIN, ControlPlane
from tests.web.facts import Facts, ask

READER: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "eventsched-metrics-reader"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}


def _binding(namespace: str) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"reader-{namespace}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "eventsched-metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": "prometheus", "namespace": namespace}],
    }


def _kubeconfig(plane: ControlPlane, user: str) -> Path:
    return plane.write_kubeconfig(user.replace(":", "-"), {"token": plane.token(user)})


async def _statuses(kubeconfig: Path, requests: list[tuple[str, str]]) -> list[int]:
    """What a server whose API client has this kubeconfig answers to (path, token)."""
    api = await connect(kubeconfig)
    facts = Facts()

    async def review(path: str, body: bytes) -> tuple[int, bytes]:
        answer = await api.call("POST", path, body=body)
        return answer.status, answer.body

    try:
        app = pages.application(facts, Metrics(), {}, Reviews(review))
        async with server.serving(Options(port=0), app, pages.public(facts)) as at:
            found = []
            for path, token in requests:
                headers = {"Authorization": f"Bearer {token}"} if token else {}
                found.append((await ask(at.secure + path, **headers)).status)
            return found
    finally:
        await api.close()


def test_readers_are_who_the_cluster_says(plane: ControlPlane, namespace: str) -> None:
    admin = plane.admin
    for name in ("prometheus", "other"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        admin.create(account, namespace)
    admin.apply(READER)
    admin.create(_binding(namespace))
    prometheus = plane.service_account_token(namespace, "prometheus")
    other = plane.service_account_token(namespace, "other")
    expected = {
        ("/healthz", ""): 200,
        ("/metrics", ""): 403,
        ("/metrics", "nonsense"): 401,
        ("/metrics", prometheus): 200,
        ("/metrics", other): 403,
        ("/configz", prometheus): 403,
        ("/configz", plane.token(ADMIN)): 200,
    }
    try:
        kubeconfig = _kubeconfig(plane, "system:kube-scheduler")
        assert asyncio.run(_statuses(kubeconfig, list(expected))) == list(expected.values())
    finally:
        admin.delete("ClusterRoleBinding", f"reader-{namespace}")
        admin.delete("ClusterRole", "eventsched-metrics-reader")


def test_one_who_may_not_ask_serves_nobody(plane: ControlPlane) -> None:
    kubeconfig = _kubeconfig(plane, "nobody")
    requests = [("/healthz", ""), ("/metrics", ""), ("/metrics", plane.token(ADMIN))]
    assert asyncio.run(_statuses(kubeconfig, requests)) == [200, 500, 500]
