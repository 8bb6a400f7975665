"""kube-scheduler as it is, with ``eventsched extender`` as its extender: pods go where the plugins
say, and the log has every question and answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from eventsched.domain.inquiries import ExtenderInquired, ExtenderReplied
from eventsched.domain.records import BindIntended, PodBound, PodDecided, PodQueued
from tests.cluster.binaries import MissingProgramError
from tests.cluster.client import wait_for
from tests.cluster.manifests import UPSTREAM, node, pod
from tests.cluster.plane import ControlPlane, free_ports
from tests.cluster.pods import Pods
from tests.cluster.scheduler import Scheduler, Schedulers

ONLY = ("PrioritySort", "NodeGroup", "FixedNode", "DefaultBinder")
PROFILE = {
    "schedulerName": "answers",
    "plugins": {
        "multiPoint": {"enabled": [{"name": n} for n in ONLY], "disabled": [{"name": "*"}]},
    },
    "pluginConfig": [{"name": "FixedNode", "args": {"nodeName": "b1"}}],
}


@contextmanager
def both(plane: ControlPlane, schedulers: Schedulers, **fields: Any) -> Iterator[Scheduler]:
    """An extender that answers, and kube-scheduler that asks it."""
    (port,) = free_ports(1)
    settings = {"stream": "audit", "extender": {"port": port}}
    config = {"profiles": [PROFILE]}
    extender = schedulers.start(command="extender", config=config, settings=settings)
    section = {
        "urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "weight": 100,
        "prioritizeVerb": "prioritize", **fields,
    }  # fmt: skip
    config = {"profiles": [{"schedulerName": UPSTREAM}], "extenders": [section]}
    try:
        asking = plane.start_kube_scheduler(config)
    except MissingProgramError as missing:
        pytest.skip(str(missing))
    try:
        yield extender
    finally:
        plane.discard(asking)


def grouped(name: str, group: str) -> dict[str, Any]:
    return pod(name, scheduler=UPSTREAM, labels={"nodeGroup": group})


@pytest.mark.parametrize("caches", [True, False])
def test_kube_scheduler_asks_and_binds(
    plane: ControlPlane, schedulers: Schedulers, namespace: str, caches: bool
) -> None:
    pods = Pods(plane.admin, namespace)
    for name in ("a0", "b0", "b1", "b2"):
        pods.client.create(node(name, labels={"nodeGroup": name[0]}))
    with both(plane, schedulers, nodeCacheCapable=caches) as extender:
        for name in ("one", "two"):
            pods.create(grouped(name, "b"))
            assert pods.node(name) == "b1"
        pods.create(grouped("nowhere", "c"))
        condition = pods.wait_condition("nowhere")
        assert condition["message"].startswith("0/4 nodes are available: 4 ")
        log = extender.log()
        assert {each.verb for each in log.of(ExtenderInquired)} == {"filter", "prioritize"}
        assert not [each.problem for each in log.of(ExtenderReplied) if each.problem]
        assert log.of(PodDecided) == log.of(PodQueued) == []
        counted = extender.metric(
            "eventsched_extender_inquiries_total", verb="filter", result="answer"
        )
        assert counted >= 3


def test_kube_scheduler_has_it_bind(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    pods = Pods(plane.admin, namespace)
    for name in ("b0", "b1"):
        pods.client.create(node(name, labels={"nodeGroup": "b"}))
    with both(plane, schedulers, nodeCacheCapable=True, bindVerb="bind") as extender:
        names = [f"web-{number}" for number in range(5)]
        for name in names:
            pods.create(grouped(name, "b"))
        assert [pods.node(name) for name in names] == ["b1"] * 5
        log = wait_for(
            lambda: len((found := extender.log()).of(PodBound)) == 5 and found, "5 are bound"
        )
        assert [each.node for each in log.of(BindIntended)] == ["b1"] * 5
        assert not [each.problem for each in log.of(ExtenderReplied) if each.problem]
        told = pods.wait_event("web-0", "Scheduled")
        assert told["reportingController"] == UPSTREAM
