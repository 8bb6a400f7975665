"""The other overlays, and the chart, on two real kubelets: their pods get ready, the pods that they
place run, and their logs agree with the API server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventsched.domain.records import ExtenderInquired
from eventsched.eventlog.postgres.reader import Reader
from tests.cluster.harness import commands
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.manifests import UPSTREAM
from tests.cluster.harness.pods import phase
from tests.cluster.harness.scheduler import Log, check
from tests.cluster.test_extender_deploy import documented
from tests.kubelet.harness import workloads
from tests.kubelet.harness.arrivals import Arrivals
from tests.kubelet.harness.installation import Installation, overlay
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster
from tests.kubelet.harness.release import Release

PODS = 6
LONGEST_WAIT_SECONDS = 15.0
"""The longest wait of a pod, in seconds, with nothing broken."""


def _schedules(installed: Installation, namespace: str, name: str, url: str) -> None:
    """Pods of the scheduler ``name`` run, and its log accounts for each."""
    arrivals = Arrivals(installed.cluster, namespace, name)
    with arrivals:
        arrivals.wait_placed(PODS)
    arrivals.check(url, name, LONGEST_WAIT_SECONDS)


def test_external_postgres(cluster: RealCluster, postgres: PostgresPod, namespace: str) -> None:
    with overlay(cluster, "external-postgres", postgres.make_database("external")):
        installed = Installation(cluster)
        installed.wait_ready(1)
        _schedules(installed, namespace, "eventsched", postgres.url("external"))


def test_second_scheduler(cluster: RealCluster, postgres: PostgresPod, namespace: str) -> None:
    with overlay(cluster, "second-scheduler", postgres.make_database("second")):
        installed = Installation(cluster, "kube-system", lease="my-scheduler")
        installed.wait_ready(1)
        _schedules(installed, namespace, "my-scheduler", postgres.url("second"))


def test_the_chart(cluster: RealCluster, postgres: PostgresPod, namespace: str) -> None:
    """The values of the overlay ``replicas``: installed, ``helm test``, uninstalled."""
    with Release(cluster, postgres.make_database("chart")) as release:
        assert "Phase:          Succeeded" in release.helm("test", "--timeout=60s")
        _schedules(release.installed, namespace, "eventsched", postgres.url("chart"))


def test_extender(cluster: RealCluster, postgres: PostgresPod, namespace: str) -> None:
    """kube-scheduler in the network of a node asks it at its cluster IP, over HTTPS, with the entry
    of docs/extender-server.md."""
    plane = cluster.plane
    for number, name in enumerate(("node-a", "node-b")):
        label = {"metadata": {"labels": {"nodeGroup": "ab"[number]}}}
        plane.admin.patch("Node", name, label)
    database = postgres.make_database("extender")
    with overlay(cluster, "extender", database, _certificates(cluster)):
        Installation(cluster).wait_ready(1)
        found = plane.admin.get("Service", "eventsched-extender", "eventsched")
        with _asking(cluster, found["spec"]["clusterIP"]):
            manifest = workloads.idle_pod("web", scheduler=UPSTREAM)
            manifest["metadata"]["labels"] = {"nodeGroup": "b"}
            plane.admin.create(manifest, namespace)

            def web() -> Object | None:
                pod = plane.admin.get("Pod", "web", namespace)
                return pod if phase(pod) == "Running" else None

            assert wait_for(web, "the pod runs", 60)["spec"]["nodeName"] == "node-b"
        log = Log(Reader(postgres.url("extender"), "eventsched-extender"))
        assert "filter" in {each.verb for each in log.of(ExtenderInquired)}
        check(postgres.url("extender"), "eventsched-extender")


def _certificates(cluster: RealCluster) -> Object:
    authority = cluster.plane.authority
    certificate, key = authority.serving("extender", names=[documented_name()])
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.certificate}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "eventsched-extender-tls"},
        "stringData": {name: path.read_text() for name, path in files.items()},
    }


def documented_name() -> str:
    """The server's name in the entry of the page."""
    return str(documented()["tlsConfig"]["serverName"])


@contextmanager
def _asking(cluster: RealCluster, address: str) -> Iterator[None]:
    """kube-scheduler for the pods of the scheduler ``upstream``, in the network of a node."""
    plane = cluster.plane
    certificate, key = plane.authority.client("kube-scheduler")
    entry = documented()
    files = {
        "caFile": str(plane.authority.certificate),
        "certFile": str(certificate),
        "keyFile": str(key),
    }
    entry["tlsConfig"] |= files
    entry["urlPrefix"] = f"https://{address}:8888"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.kubeconfig)},
        "profiles": [{"schedulerName": UPSTREAM}],
        "extenders": [entry],
    }
    file = Path(plane.folder, "asking.json")
    file.write_text(json.dumps(content))
    inside = ["nsenter", f"--target={cluster.nodes[0].pid}", "--net"]
    server = plane.server("asking", [*inside, *commands.scheduler(plane.programs, file)])
    server.start()
    try:
        yield
    finally:
        plane.discard(server)
