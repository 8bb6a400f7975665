"""Delegated authentication and authorization against a real API server: the serving side asks as
``system:kube-scheduler``, and readers come with tokens of ServiceAccounts. And what ``eventsched
run`` serves."""

import asyncio
import json
from pathlib import Path
from typing import Any

from eventsched.cluster.kube.http.access import connect
from eventsched.process_log.masking import masked
from eventsched.web import pages
from eventsched.web.authorization import Reviews
from eventsched.web.http import https_server
from eventsched.web.http.https_server import Options
from eventsched.web.metrics import Metrics
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.web.facts import Answer, Facts, ask, verifying

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
    """The answers, for (path, token), of a server whose API client has this kubeconfig."""
    api = await connect(kubeconfig)
    facts = Facts()

    async def review(path: str, body: bytes) -> tuple[int, bytes]:
        answer = await api.call("POST", path, body=body)
        return answer.status, answer.body

    try:
        app = pages.application(facts, Metrics(), dict, Reviews(review))
        async with https_server.serving(Options(port=0), app, pages.public(facts)) as at:
            found = []
            for path, token in requests:
                headers: dict[str, Any] = {"Authorization": f"Bearer {token}"} if token else {}
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
    who = f"system:serviceaccount:{namespace}:prometheus"
    asked = {"path": "/metrics", "verb": "get"}
    try:
        wait_for(lambda: admin.is_allowed(who, nonResourceAttributes=asked), "it may read metrics")
        kubeconfig = _kubeconfig(plane, "system:kube-scheduler")
        assert asyncio.run(_statuses(kubeconfig, list(expected))) == list(expected.values())
    finally:
        admin.delete("ClusterRoleBinding", f"reader-{namespace}")
        admin.delete("ClusterRole", "eventsched-metrics-reader")


def test_a_server_that_may_not_review_tokens_serves_no_metrics(plane: ControlPlane) -> None:
    kubeconfig = _kubeconfig(plane, "nobody")
    requests = [("/healthz", ""), ("/metrics", ""), ("/metrics", plane.token(ADMIN))]
    assert asyncio.run(_statuses(kubeconfig, requests)) == [200, 500, 500]


# --- eventsched run ------------------------------------------------------------------------------


def _asked(scheduler: Scheduler, path: str, *given: Any) -> Answer:
    """An answer of a scheduler; ``given`` as to ``ask``."""
    return asyncio.run(ask(f"https://127.0.0.1:{scheduler.secure}{path}", *given))


def test_a_scheduler_shows_its_configuration_with_the_certificate_it_was_given(
    plane: ControlPlane, schedulers: Schedulers
) -> None:
    """Values of options replace the file's fields; passwords are masked."""
    certificate, key = plane.authority.serving("scheduler")
    scheduler = schedulers.start(
        config={"podMaxBackoffSeconds": 7},
        settings={"serving": {"certFile": str(certificate), "keyFile": str(key)}},
        arguments=["--log-level=warning"],
    )
    trusting = verifying(plane.authority.certificate.read_text())
    shown = json.loads(_asked(scheduler, "/configz", "GET", None, trusting).text)
    first, second = shown["kubescheduler"], shown["eventsched"]
    assert first["profiles"][0]["schedulerName"] == "eventsched"
    assert (first["podInitialBackoffSeconds"], first["podMaxBackoffSeconds"]) == (1, 7)
    assert second["serving"]["certFile"] == str(certificate)
    assert second["batch"] == {"records": 256, "bytes": 4194304}
    url = masked(scheduler.database)
    assert second["database"] == {"url": url, "urlFile": "", "dataDir": ""}
    assert second["client"]["kubeconfig"] == str(plane.kubeconfig)
    assert second["logging"] == {"format": "json", "level": "warning"}


def test_the_log_level_is_that_of_the_option_until_it_is_changed(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    plane.admin.create(node("a"))
    pods = Pods(plane.admin, namespace)
    scheduler = schedulers.start(arguments=["--log-level=warning"])

    def events() -> set[str]:
        return {line["event"] for line in scheduler.lines() if line["level"] in ("debug", "info")}

    pods.create(pod("quiet"))
    pods.node("quiet")
    pods.wait_event("quiet", "Scheduled")
    assert events() == set()
    changed = _asked(scheduler, "/debug/flags/v", "PUT", "4")
    assert (changed.status, changed.text) == (200, "the log level is debug now\n")
    pods.create(pod("loud"))
    wait_for(lambda: {"PodDecided", "Scheduled"} <= events(), "everything is logged")
    assert _asked(scheduler, "/debug/flags/v", "PUT", "loud").status == 400
