"""kube-scheduler as it is, with ``eventsched extender`` as its extender."""

import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError

import pytest

from tests.cluster.harness.binaries import MissingProgramError
from tests.cluster.harness.manifests import UPSTREAM, pod
from tests.cluster.harness.plane import ControlPlane, free_ports
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.waiting import LIMIT

ONLY = ("PrioritySort", "NodeGroup", "FixedNode", "DefaultBinder")
PROFILE = {
    "schedulerName": "answers",
    "plugins": {
        "multiPoint": {"enabled": [{"name": n} for n in ONLY], "disabled": [{"name": "*"}]},
    },
    "pluginConfig": [{"name": "FixedNode", "args": {"nodeName": "b1"}}],
}


class Extender:
    """An extender that is not started yet; ``timeout`` is its setting, ``options`` are those of
    ``Scheduler``."""

    def __init__(self, schedulers: Schedulers, timeout: str = "4s", **options: Any) -> None:
        (self.port,) = free_ports(1)
        settings = {"stream": "audit", "extender": {"port": self.port, "timeout": timeout}}
        options = {"config": {"profiles": [PROFILE]}, "settings": settings, **options}
        self.process: Scheduler = schedulers.make(command="extender", **options)

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        """Status, and JSON or text."""
        try:
            with urllib.request.urlopen(
                f"{self.url}{path}", json.dumps(body).encode(), timeout=LIMIT
            ) as answer:
                return answer.status, json.load(answer)
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()


def section(url: str, **fields: Any) -> dict[str, Any]:
    """An entry of ``extenders``."""
    return {
        "urlPrefix": url, "filterVerb": "filter", "weight": 100, "prioritizeVerb": "prioritize",
        **fields,
    }  # fmt: skip


@contextmanager
def asking(plane: ControlPlane, entry: Mapping[str, Any]) -> Iterator[None]:
    """kube-scheduler, for pods of the scheduler ``upstream``; skips the test if it is not
    running."""
    config = {"profiles": [{"schedulerName": UPSTREAM}], "extenders": [entry]}
    try:
        server = plane.start_kube_scheduler(config)
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    try:
        yield
    finally:
        plane.discard(server)


@contextmanager
def both(plane: ControlPlane, schedulers: Schedulers, **fields: Any) -> Iterator[Scheduler]:
    """An extender that answers, and kube-scheduler that asks it."""
    extender = Extender(schedulers)
    extender.process.start()
    with asking(plane, section(extender.url, **fields)):
        yield extender.process


def grouped(name: str, group: str, **more: Any) -> dict[str, Any]:
    """A pod of a node group."""
    return pod(name, scheduler=UPSTREAM, labels={"nodeGroup": group}, **more)
