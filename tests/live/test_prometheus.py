"""A real Prometheus that scrapes a real node exporter and some of the test's own, where both are
installed (tests/monitoring.py)."""

import os
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from eventsched.domain.records import SamplesTaken
from eventsched.plugins.gallery.network_traffic import NetworkTraffic
from eventsched.process.prometheus_samples import Prometheus
from eventsched.testing import typed
from tests import monitoring
from tests.cluster.harness.plane import free_ports
from tests.monitoring import Exporters

pytestmark = [
    *monitoring.needs(monitoring.PROMETHEUS, monitoring.NODE_EXPORTER),
    pytest.mark.process,
]
NO_SERIES = "no series: is the device named as on the nodes, and are they scraped?"
PERIOD = 20
"""Scrapes after which a counter is reset."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a Prometheus listens that reads the exporters five times a second."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    real, port = free_ports(2)
    steady, restarted = count(), count()
    node = {"job_name": "real", "static_configs": [{"targets": [f"127.0.0.1:{real}"]}]}
    started: list[subprocess.Popen[bytes]] = []
    with (
        Exporters(
            idle=lambda: 0,
            steady=lambda: 100 * next(steady),
            restarted=lambda: 100 * (next(restarted) % PERIOD),
            odd=lambda: float("nan"),
            silent=lambda: None,
        ) as exporters,
        (folder / "output").open("wb") as output,
    ):
        commands = [
            [monitoring.NODE_EXPORTER, f"--web.listen-address=127.0.0.1:{real}"],
            monitoring.command(folder, port, [node, *exporters.jobs()]),
        ]
        try:
            started.extend(
                subprocess.Popen(command, stdout=output, stderr=output) for command in commands
            )
            yield f"http://127.0.0.1:{port}"
        finally:
            for each in started:
                each.terminate()
            for each in started:
                each.wait(timeout=30)


def asked(address: str, **args: object) -> SamplesTaken:
    """What the plugin's query gives now."""
    given = {"prometheusAddress": address, "deviceName": monitoring.DEVICE, **args}
    prometheus = Prometheus(typed(NetworkTraffic, **given).samples)
    try:
        return prometheus()
    finally:
        prometheus.close()


def awaited(address: str, nodes: set[str], **args: object) -> SamplesTaken:
    """The first answer with values of all the nodes: two scrapes of each have to be there."""
    ends = time.monotonic() + 60
    while not nodes <= (found := asked(address, **args)).values.keys():
        assert time.monotonic() < ends, found
        time.sleep(0.2)
    return found


@pytest.mark.parametrize("query", ["rate", "document"])
def test_the_traffic_of_this_machine(address: str, query: str) -> None:
    """Under its host name, as node_uname_info has it."""
    # The exporter leaves the loopback device out.
    devices = sorted(set(os.listdir("/sys/class/net")) - {"lo"})
    if not devices:
        pytest.skip("there is no network device")
    here = os.uname().nodename
    found = awaited(address, {here}, query=query, deviceName=devices[0])
    assert (list(found.values), found.problem) == ([here], "")
    assert all(value >= 0 for value in found.values.values())


RESETS = (
    'sum by (nodename) (resets(node_network_receive_bytes_total{device="$device"}[${range}s])'
    " * on (instance) group_left (nodename) node_uname_info)"
)


def test_counters_without_usable_values(address: str) -> None:
    """A counter that is reset now and then shows the same traffic as one that is not. A value that
    is no number is reported and gives no sample. A node without the device is absent."""
    ends = time.monotonic() + 60
    while asked(address, query=RESETS).values.get("restarted", 0) < 2:
        assert time.monotonic() < ends
        time.sleep(0.2)
    found = asked(address)
    assert sorted(found.values) == ["idle", "restarted", "steady"]
    assert found.problem == "1 series hold no number, such as that of odd"
    assert found.values["idle"] == 0
    assert 0.5 < found.values["restarted"] / found.values["steady"] < 1.5


def test_a_missing_device(address: str) -> None:
    """No values, and a hint."""
    awaited(address, {"steady"})
    found = asked(address, deviceName="none0")
    assert (found.values, found.problem) == ({}, NO_SERIES)


def test_a_malformed_query(address: str) -> None:
    """Prometheus says where."""
    awaited(address, {"steady"})
    found = asked(address, query="rate(")
    assert found.values == {}
    assert "HTTP Status Code 400" in found.problem
    assert "parse error" in found.problem
