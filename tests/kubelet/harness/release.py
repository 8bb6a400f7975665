"""The chart in the namespace ``eventsched``, with the values of the overlay ``replicas`` and more.

with Release(cluster, secret) as release:
    release.installed.pods()
"""

from collections.abc import Mapping
from typing import Self

import pytest

from tests.cluster.harness import binaries
from tests.cluster.harness.client import Object, wait_for
from tests.deploy import chart
from tests.kubelet.harness.installation import Installation
from tests.kubelet.harness.real_cluster import RealCluster

_NAME = _NAMESPACE = "eventsched"


class Release:
    """A release with two ready replicas, for as long as the block runs. ``objects`` are in its
    namespace before it: the Secret with the addresses of its database, and what ``values`` name.
    Skips the test without Helm."""

    def __init__(
        self, cluster: RealCluster, *objects: Object, values: Mapping[str, object] | None = None
    ) -> None:
        try:
            self._program = binaries.helm()
        except binaries.MissingProgramError as missing:
            pytest.skip(str(missing))
        self._plane, self._objects, self._values = cluster.plane, objects, values or {}
        self.installed = Installation(cluster, labels=f"app.kubernetes.io/instance={_NAME}")

    def __enter__(self) -> Self:
        self._plane.kubectl("create", "namespace", _NAMESPACE)
        try:
            for each in self._objects:
                self._plane.admin.create(each, _NAMESPACE)
            values = f"--values={chart.CHART / 'overlays' / 'replicas.yaml'}"
            self.helm("install", str(chart.CHART), values, "--values=-")
            self.installed.wait_ready(2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.helm("uninstall", "--ignore-not-found")
        find = self._plane.admin.find
        self._plane.admin.delete("Namespace", _NAMESPACE)
        wait_for(lambda: find("Namespace", _NAMESPACE) is None, "it is gone", 120)

    def helm(self, command: str, *arguments: str) -> str:
        """What a command prints about the release. Raises AssertionError if Helm complains."""
        where = (f"--namespace={_NAMESPACE}", f"--kubeconfig={self._plane.kubeconfig}")
        return chart.helm(self._program, command, _NAME, *arguments, *where, given=self._values)
