"""Prometheus beside the cluster. It finds eventsched by its Kubernetes discovery and scrapes it
over TLS with a token. The scrape job is made of the component ``service-monitor``, and its rules
are those of the component ``prometheus-rule``, as the Prometheus operator would make them.

    with Prometheus(installed, interval="15s") as prometheus:
        prometheus.values('up{job="eventsched"}')
"""

import json
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, Self

import yaml

from tests.cluster.harness import binaries
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.plane import free_ports
from tests.deploy.rendering import DEPLOY
from tests.kubelet.harness.installation import Installation

JOB = "eventsched"
STRANGER = "without a token"
"""A job that scrapes the same without a token."""
_ACCOUNT = "prometheus"


class Prometheus:
    """The server, for as long as the block runs; ``interval`` is the time between two scrapes, and
    between two evaluations of the rules, as Prometheus writes it. Raises MissingProgramError."""

    def __init__(self, installed: Installation, interval: str) -> None:
        self._plane, self._namespace = installed.cluster.plane, installed.namespace
        self._interval = interval
        (port,) = free_ports(1)
        self._url = f"http://127.0.0.1:{port}"
        # Its own data: the series of an earlier server would count for some minutes.
        self._folder = Path(tempfile.mkdtemp(prefix="prometheus-", dir=self._plane.folder))
        self._monitor = _component("service-monitor/service-monitor.yaml")
        self._server = self._plane.server(
            "prometheus",
            [
                str(binaries.prometheus()),
                f"--config.file={self._folder / 'config.yaml'}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
        )

    def __enter__(self) -> Self:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": _ACCOUNT}}
        self._plane.admin.create(account, "default")
        self._role = _component("service-monitor/metrics-reader.yaml")
        self._plane.admin.create(self._role)
        self.allow()
        rules = _component("prometheus-rule/prometheus-rule.yaml")["spec"]
        (self._folder / "rules.yaml").write_text(yaml.safe_dump(rules))
        (self._folder / "token").write_text(self._plane.service_account_token("default", _ACCOUNT))
        (self._folder / "config.yaml").write_text(yaml.safe_dump(self._configuration()))
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._plane.discard(self._server)
        self.forbid()
        self._plane.admin.delete("ClusterRole", self._role["metadata"]["name"])
        self._plane.admin.delete("ServiceAccount", _ACCOUNT, "default")

    def allow(self) -> None:
        """Gives Prometheus the right to read metrics."""
        self._plane.kubectl(
            "create", "clusterrolebinding", _ACCOUNT,
            f"--clusterrole={self._role['metadata']['name']}",
            f"--serviceaccount=default:{_ACCOUNT}",
        )  # fmt: skip

    def forbid(self) -> None:
        """Takes that right away."""
        self._plane.kubectl("delete", "clusterrolebinding", _ACCOUNT, "--ignore-not-found")

    def values(self, query: str) -> list[str]:
        """What a query gives now, a value for each series."""
        url = f"{self._url}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(url, timeout=10) as answer:
            result: list[Any] = json.load(answer)["data"]["result"]
        return [value for each in result for value in each["value"][1:]]

    def is_firing(self, alert: str) -> bool:
        """Whether the alert fires, at any severity."""
        return bool(self.values(f'ALERTS{{alertname="{alert}",alertstate="firing"}}'))

    def wait_firing(self, alert: str, within: float) -> None:
        """Waits until the alert fires. Raises TimeoutError."""
        wait_for(lambda: self.is_firing(alert), f"{alert} fires", within, 1.0)

    def wait_ended(self, alert: str, within: float) -> None:
        """Waits until the alert no longer fires. Raises TimeoutError."""
        wait_for(lambda: not self.is_firing(alert), f"{alert} has ended", within, 1.0)

    def _configuration(self) -> Object:
        (endpoint,) = self._monitor["spec"]["endpoints"]
        job = {
            "job_name": JOB,
            "scheme": endpoint["scheme"],
            "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
            "authorization": {"credentials_file": str(self._folder / "token")},
            "kubernetes_sd_configs": [
                {
                    "role": "endpointslice",
                    "kubeconfig_file": str(self._plane.kubeconfig),
                    "namespaces": {"names": [self._namespace]},
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
        stranger = {**job, "job_name": STRANGER}
        del stranger["authorization"]
        times = {"scrape_interval": self._interval, "evaluation_interval": self._interval}
        return {
            "global": times,
            "rule_files": [str(self._folder / "rules.yaml")],
            "scrape_configs": [job, stranger],
        }


def _component(file: str) -> Object:
    read: Object = yaml.safe_load((DEPLOY / "components" / file).read_text())
    return read
