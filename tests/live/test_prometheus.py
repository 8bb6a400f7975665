"""A real Prometheus and a real node exporter, where both are installed (on Debian: the packages
prometheus and prometheus-node-exporter); their programs are found on the path."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eventsched.domain.records import SamplesTaken
from eventsched.plugins.gallery.network_traffic import NetworkTraffic
from eventsched.runtime.live.prometheus import Prometheus
from eventsched.testing import typed

PROGRAMS = ("prometheus", "prometheus-node-exporter")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
DEVICES = sorted(set(os.listdir("/sys/class/net")) - {"lo"}) if not MISSING else []
"""The exporter leaves the loopback device out."""

pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.skipif(not MISSING and not DEVICES, reason="there is no network device"),
]
pytest.importorskip("prometheus_api_client", reason="prometheus-api-client is not installed")


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a Prometheus listens that reads a node exporter every second."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    exporter, port = free_port(), free_port()
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        "- job_name: node\n"
        f"  static_configs: [{{targets: ['127.0.0.1:{exporter}']}}]\n"
    )
    commands = [
        ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{exporter}"],
        [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
    ]  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "output").open("wb") as output:
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
    given = {"prometheusAddress": address, "deviceName": DEVICES[0], "timeRange": 30, **args}
    prometheus = Prometheus(typed(NetworkTraffic, **given).samples)
    try:
        return prometheus()
    finally:
        prometheus.close()


def awaited(address: str, **args: object) -> SamplesTaken:
    """The first values: two scrapes have to be there."""
    ends = time.monotonic() + 60
    while not (found := asked(address, **args)).values:
        assert time.monotonic() < ends, found.problem
        time.sleep(0.2)
    return found


@pytest.mark.parametrize("query", ["rate", "document"])
def test_the_traffic_of_this_machine(address: str, query: str) -> None:
    """Under its host name, as node_uname_info has it."""
    found = awaited(address, query=query)
    assert found.problem == ""
    assert list(found.values) == [os.uname().nodename]
    assert all(value >= 0 for value in found.values.values())


def test_a_device_that_is_not_there(address: str) -> None:
    """No values, and a hint."""
    awaited(address)
    found = asked(address, deviceName="none0")
    assert (found.values, found.problem) == (
        {},
        "no series: is the device named as on the nodes, and are they scraped?",
    )


def test_a_query_that_is_none(address: str) -> None:
    """Prometheus says where."""
    awaited(address)
    found = asked(address, query="rate(")
    assert found.values == {}
    assert "HTTP Status Code 400" in found.problem
    assert "parse error" in found.problem
