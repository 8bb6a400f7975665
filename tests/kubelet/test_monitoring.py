"""Prometheus finds the replicas by its Kubernetes discovery and scrapes them over TLS with a token.
The scrape job is made of the component ``service-monitor``, as the Prometheus operator would."""

import json
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cluster.harness import binaries
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.plane import free_ports
from tests.deploy.rendering import DEPLOY
from tests.kubelet.harness.installation import Installation, overlay
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster


@pytest.fixture(scope="module")
def replicas(cluster: RealCluster, postgres: PostgresPod) -> Iterator[Installation]:
    """The overlay ``replicas``, ready."""
    with overlay(cluster, "replicas", postgres.make_database("monitored")):
        installed = Installation(cluster)
        installed.wait_ready(2)
        yield installed


def test_prometheus_scrapes_every_replica(replicas: Installation) -> None:
    plane = replicas.cluster.plane
    monitor = yaml.safe_load(
        (DEPLOY / "components/service-monitor/service-monitor.yaml").read_text()
    )
    (endpoint,) = monitor["spec"]["endpoints"]
    (port,) = free_ports(1)
    folder = plane.folder / "prometheus"
    folder.mkdir()
    (folder / "token").write_text(_token(replicas))
    (folder / "config.yaml").write_text(yaml.safe_dump(_scraping(replicas, endpoint)))
    server = plane.server(
        "prometheus",
        [
            str(binaries.prometheus()),
            f"--config.file={folder / 'config.yaml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
    )
    server.start()
    try:

        def values(query: str) -> list[str]:
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(
                {"query": query}
            )
            with urllib.request.urlopen(url, timeout=10) as answer:
                result: list[Any] = json.load(answer)["data"]["result"]
            return [value for each in result for value in each["value"][1:]]

        scraped = 'up{job="eventsched"}'
        wait_for(lambda: values(scraped) == ["1", "1"], "both replicas are scraped", 60, 0.5)
        without = 'up{job="without a token"}'
        wait_for(lambda: values(without) == ["0", "0"], "a token is needed", 60, 0.5)
        assert len(values("eventsched_build_info")) == 2
    finally:
        plane.discard(server)


def _token(replicas: Installation) -> str:
    """Of an account with the component's ClusterRole."""
    plane = replicas.cluster.plane
    role = yaml.safe_load((DEPLOY / "components/service-monitor/metrics-reader.yaml").read_text())
    account: Object = {"apiVersion": "v1", "kind": "ServiceAccount"}
    plane.admin.create({**account, "metadata": {"name": "prometheus"}}, "default")
    plane.admin.create(role)
    name = role["metadata"]["name"]
    plane.kubectl(
        "create", "clusterrolebinding", "prometheus", f"--clusterrole={name}",
        "--serviceaccount=default:prometheus",
    )  # fmt: skip
    return plane.service_account_token("default", "prometheus")


def _scraping(replicas: Installation, endpoint: Object) -> Object:
    """What the operator makes of the component."""
    plane = replicas.cluster.plane
    job = {
        "job_name": "eventsched",
        "scheme": endpoint["scheme"],
        "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
        "authorization": {"credentials_file": str(plane.folder / "prometheus" / "token")},
        "kubernetes_sd_configs": [
            {
                "role": "endpointslice",
                "kubeconfig_file": str(plane.kubeconfig),
                "namespaces": {"names": [replicas.namespace]},
            }
        ],
        "relabel_configs": [
            {
                "source_labels": ["__meta_kubernetes_endpointslice_port_name"],
                "regex": endpoint["port"],
                "action": "keep",
            }
        ],
    }
    stranger = {**job, "job_name": "without a token"}
    del stranger["authorization"]
    return {"global": {"scrape_interval": "1s"}, "scrape_configs": [job, stranger]}
