"""Prometheus finds the replicas by its Kubernetes discovery and scrapes them over TLS with a
token."""

from collections.abc import Iterator

import pytest

from tests.cluster.harness.client import wait_for
from tests.kubelet.harness.installation import Installation, overlay
from tests.kubelet.harness.monitoring import JOB, STRANGER, Prometheus
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
    with Prometheus(replicas, interval="1s") as prometheus:
        scraped, without = f'up{{job="{JOB}"}}', f'up{{job="{STRANGER}"}}'
        wait_for(
            lambda: prometheus.values(scraped) == ["1", "1"], "both replicas are scraped", 60, 0.5
        )
        wait_for(lambda: prometheus.values(without) == ["0", "0"], "a token is needed", 60, 0.5)
        assert len(prometheus.values("eventsched_build_info")) == 2
