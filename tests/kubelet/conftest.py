"""Tests on two real kubelets: ``make test-kubelet``. If the machine lacks something for that, they
are skipped.

- ``cluster``: a control plane and two nodes, for all tests;
- ``postgres``: Postgres in the cluster;
- ``namespace``: an empty namespace for workloads.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.harness.binaries import MissingProgramError
from tests.cluster.harness.client import wait_for
from tests.kubelet.harness import reports, requirements
from tests.kubelet.harness.postgres_pod import PostgresPod
from tests.kubelet.harness.real_cluster import RealCluster

LIMIT = 3600
"""Seconds that a test may take, with the images that the first one builds."""
_clusters: list[RealCluster] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives tests of this folder their limit."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT))


@pytest.fixture(scope="session")
def cluster() -> Iterator[RealCluster]:
    """A control plane and two nodes."""
    if why := requirements.missing():
        pytest.skip(why)
    try:
        with RealCluster.running() as running:
            _clusters.append(running)
            yield running
            _clusters.remove(running)
    except MissingProgramError as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def postgres(cluster: RealCluster) -> PostgresPod:
    """Postgres in the cluster, for all tests."""
    made = PostgresPod(cluster)
    made.start()
    return made


@pytest.fixture
def namespace(cluster: RealCluster) -> Iterator[str]:
    """An empty namespace; its pods are gone afterwards."""
    admin = cluster.plane.admin
    with cluster.plane.namespace() as name:
        yield name
        for kind in ("Deployment", "Pod"):
            for found in admin.list(kind, name):
                admin.delete(kind, found["metadata"]["name"], name)
        wait_for(lambda: not admin.list("Pod", name), "the pods are gone", 120)
        admin.delete("Namespace", name)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Logs are shown from here on."""
    for each in _clusters:
        each.plane.mark_logs()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failure shows the pods, their logs, and the ends of the servers' logs."""
    report = yield
    if report.failed:
        for each in _clusters:
            with suppress(Exception):
                report.sections.extend(reports.sections(each))
    return report
