"""A changed configuration of a running extender on a real API server: requests that come meanwhile
are answered, once each, and no pod is bound twice."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from eventsched.domain.records import BindIntended, PodBound, TermBegan
from tests.cluster.harness.asking import PROFILE, Extender, grouped
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.manifests import node
from tests.cluster.harness.plane import ADMIN, ControlPlane
from tests.cluster.harness.scheduler import Schedulers
from tests.cluster.test_reloads import REPORTED, Mount, events, reloads
from tests.waiting import joined

NODES = ("b0", "b1")
UNKNOWN_YET = "the pod is not known (yet)"


class Asked:
    """What a scheduler was answered: the favourite node of each pod, and each bind."""

    def __init__(self) -> None:
        self.best: list[str] = []
        self.unexpected: list[object] = []


def ask_for(extender: Extender, pod: dict[str, Any], asked: Asked) -> None:
    """Filters, scores and binds one pod, as kube-scheduler does."""
    metadata = pod["metadata"]
    body = {"Pod": pod, "NodeNames": list(NODES)}
    status, filtered = extender.ask("/filter", body)
    if status != 200 or filtered["NodeNames"] != list(NODES):
        asked.unexpected.append((status, filtered))
    status, scores = extender.ask("/prioritize", body)
    if status != 200:
        asked.unexpected.append((status, scores))
        return
    best = max(scores, key=lambda score: score["Score"])["Host"]
    binding = {
        "PodName": metadata["name"], "PodNamespace": metadata["namespace"],
        "PodUID": metadata["uid"], "Node": best,
    }  # fmt: skip
    status, bound = 200, {"Error": UNKNOWN_YET}
    while status == 200 and bound["Error"] == UNKNOWN_YET:
        status, bound = extender.ask("/bind", binding)
    if (status, bound) != (200, {"Error": ""}):
        asked.unexpected.append((status, bound))
    asked.best.append(best)


@contextmanager
def requests(plane: ControlPlane, namespace: str, extender: Extender) -> Iterator[Asked]:
    """While it lasts, pods come one after the other and are asked about."""
    asked, over, client = Asked(), threading.Event(), plane.client(ADMIN)

    def run() -> None:
        number = 0
        while not over.is_set():
            pod = client.create(grouped(f"p{number:04}", "b"), namespace)
            ask_for(extender, pod, asked)
            number += 1

    thread = threading.Thread(target=run, name="requests", daemon=True)
    thread.start()
    try:
        yield asked
    finally:
        over.set()
        joined(thread)
        client.close()


@pytest.fixture
def elections(plane: ControlPlane) -> Iterator[str]:
    """The namespace of the Lease, and of the Events about it."""
    with plane.namespace("elections") as name:
        yield name


def fixed(name: str) -> list[dict[str, Any]]:
    """The arguments by which a node is the favourite."""
    return [{"name": "FixedNode", "args": {"nodeName": name}}]


@pytest.mark.row(32)
def test_the_file_of_an_extender_changes_under_requests(
    plane: ControlPlane, schedulers: Schedulers, namespace: str, elections: str
) -> None:
    for name in NODES:
        plane.admin.create(node(name, "640", pods=2000, labels={"nodeGroup": "b"}))
    lease = {"resourceName": "reload", "resourceNamespace": elections}
    config = {"profiles": [PROFILE], "leaderElection": {"leaderElect": True, **lease}}
    extender = Extender(schedulers, timeout="15s", config=config)
    process = extender.process
    mount = Mount(process)
    process.start()
    pid = process.server.pid
    with requests(plane, namespace, extender) as asked:
        wait_for(lambda: len(asked.best) > 10, "answers", 60.0)
        mount.change(pluginConfig=fixed("b0"))
        wait_for(lambda: reloads(process, "applied") == 1, "the reload", 60.0)
        before = len(asked.best)
        wait_for(lambda: len(asked.best) > before + 10, "more answers", 60.0)
        mount.change(pluginConfig=[{"name": "FixedNode", "args": {"nodeNam": "b1"}}])
        wait_for(lambda: reloads(process, "refused") == 1, "the refusal", 60.0)
        mount.write(mount.text.replace(f"port: {extender.port}", f"port: {extender.port + 1}"))
        wait_for(lambda: reloads(process, "refused") == 2, "the other refusal", 60.0)
        refused = len(asked.best)
        wait_for(lambda: len(asked.best) > refused + 10, "more answers", 60.0)
    assert asked.unexpected == []
    assert set(asked.best[:10]) == {"b1"}
    assert set(asked.best[before + 1 :]) == {"b0"}
    assert process.server.pid == pid
    wait_for(lambda: len(process.log().of(PodBound)) == len(asked.best), "all are bound")
    log = process.log()
    assert [intent.node for intent in log.of(BindIntended)] == asked.best
    assert [bool(began.configuration) for began in log.of(TermBegan)] == [False, True]
    assert process.metric("eventsched_configuration_last_reload_successful") == 0
    lines = [line["where"] for line in process.lines() if "is refused" in line["event"]]
    fields = {where.rpartition(".")[2] for where in lines}
    assert fields == {"nodeNam", "nodeName", "port"}  # the second one is missing
    wait_for(lambda: events(plane.admin, elections).keys() >= REPORTED, "both are reported")


def test_another_profile_answers(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    for name in NODES:
        plane.admin.create(node(name, labels={"nodeGroup": "b"}))
    other = {**PROFILE, "schedulerName": "other", "pluginConfig": fixed("b0")}
    extender = Extender(schedulers, timeout="15s", config={"profiles": [PROFILE, other]})
    mount = Mount(extender.process)
    extender.process.start()
    pod = plane.admin.create(grouped("p", "b"), namespace)
    body = {"Pod": pod, "NodeNames": list(NODES)}
    assert favourite(extender, body) == (200, "b1")
    first, second = yaml.safe_load_all(mount.text)
    second["extender"]["profile"] = "other"
    mount.write(yaml.safe_dump_all([first, second]))
    wait_for(lambda: reloads(extender.process, "applied") == 1, "the reload", 60.0)
    assert favourite(extender, body) == (200, "b0")
    [_, began] = extender.process.log().of(TermBegan)
    assert began.inputs["serves"] == "other"


def favourite(extender: Extender, body: dict[str, Any]) -> tuple[int, str]:
    """The code of an answer, and the node with the best score."""
    status, scores = extender.ask("/prioritize", body)
    return status, max(scores, key=lambda score: score["Score"])["Host"]
