"""Faults that an operator meets, on two real kubelets: the chart is installed, three faults happen
under load, each alert fires at its real times, and what its runbook says ends the fault."""

import time
from collections.abc import Callable, Iterator

import pytest

from tests.cluster.harness.client import MERGE, wait_for
from tests.kubelet.harness.arrivals import Arrivals
from tests.kubelet.harness.installation import Installation
from tests.kubelet.harness.monitoring import JOB, Prometheus
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster
from tests.kubelet.harness.release import Release

PAUSE = 10.0
"""Seconds between two pods: those of the whole test have room on the nodes."""
MOUNTED = 120.0
"""Seconds until a kubelet has passed on a changed ConfigMap."""
OUTAGE = 600.0
"""The longest wait of a pod, in seconds: it arrived when the database went away, which came back
when the alert had fired."""
CONFIGURATION = "eventsched-config"
FILE = "eventsched.yaml"


@pytest.fixture
def installed(cluster: RealCluster, postgres: PostgresPod) -> Iterator[Installation]:
    """Two replicas by the chart, ready."""
    with Release(cluster, postgres.make_database("operated")) as release:
        yield release.installed


def test_alerts_fire_and_their_runbooks_end_the_faults(
    installed: Installation, postgres: PostgresPod, namespace: str
) -> None:
    with Arrivals(installed.cluster, namespace, pause=PAUSE) as arrivals:
        # There is a leader at the first scrape: seconds without one would be a large share.
        arrivals.wait_placed(1)
        with Prometheus(installed, interval="15s") as prometheus:
            scraped = f'up{{job="{JOB}"}}'
            wait_for(lambda: prometheus.values(scraped) == ["1", "1"], "it is scraped", 90, 1.0)
            _faults(installed, prometheus, postgres, arrivals)
    arrivals.check(postgres.url("operated"), "eventsched", OUTAGE)


def _faults(
    installed: Installation, prometheus: Prometheus, postgres: PostgresPod, arrivals: Arrivals
) -> None:
    """One after the other. The database comes first: in a history of minutes, one evaluation
    between the scrapes of the two replicas looks like a time without a leader, and is a large
    share."""
    _no_database(prometheus, postgres, arrivals)
    _wrong_configuration(installed, prometheus)
    _no_right_to_scrape(prometheus)


def _wrong_configuration(installed: Installation, prometheus: Prometheus) -> None:
    """A field of the ConfigMap is misspelt. The Event names it, and the right file ends the
    fault."""
    plane, alert = installed.cluster.plane, "EventschedConfigurationRefused"
    right = plane.admin.get("ConfigMap", CONFIGURATION, "eventsched")["data"][FILE]
    assert "leaderElect:" in right
    _configure(installed, right.replace("leaderElect:", "leaderElct:"))
    _timed(f"{alert} fires", lambda: prometheus.wait_firing(alert, MOUNTED + 240.0))
    selected = "--field-selector=reason=ConfigurationRefused"
    assert "leaderElct" in plane.kubectl("get", "events", "--namespace=eventsched", selected)
    _configure(installed, right)
    _timed(f"{alert} has ended", lambda: prometheus.wait_ended(alert, MOUNTED + 60.0))


def _configure(installed: Installation, text: str) -> None:
    data = {"data": {FILE: text}}
    installed.cluster.plane.admin.patch(
        "ConfigMap", CONFIGURATION, data, "eventsched", content_type=MERGE
    )


def _no_right_to_scrape(prometheus: Prometheus) -> None:
    """Prometheus' binding is deleted, and recreated."""
    alert = "EventschedDown"
    prometheus.forbid()
    _timed(f"{alert} fires", lambda: prometheus.wait_firing(alert, 540.0))
    prometheus.allow()
    _timed(f"{alert} has ended", lambda: prometheus.wait_ended(alert, 120.0))


def _no_database(prometheus: Prometheus, postgres: PostgresPod, arrivals: Arrivals) -> None:
    """Postgres ends, and starts again. The alert looks back for half an hour, so what ends at once
    is the fault: a replica leads, and pods are placed."""
    alert, leads = "EventschedLeaderless", f'max(leader_election_master_status{{job="{JOB}"}})'
    assert not prometheus.is_firing(alert)
    postgres.scale(0)
    _timed(f"{alert} fires", lambda: prometheus.wait_firing(alert, 420.0))
    assert postgres.is_gone()
    moment = time.time()
    postgres.scale(1)
    _timed(
        "a replica leads again",
        lambda: wait_for(lambda: prometheus.values(leads) == ["1"], "a replica leads", 240.0, 1.0),
    )
    arrivals.wait_placed_after(moment)


def _timed(what: str, wait: Callable[[], object]) -> None:
    begun = time.monotonic()
    wait()
    print(f"{what} after {time.monotonic() - begun:.0f} s")
