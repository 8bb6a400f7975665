"""The demo of Coscheduling: a gang goes to its nodes whole or not at all, whatever happens to the
scheduler meanwhile."""

import asyncio
import re
import threading
import time
from collections.abc import Mapping

from aiohttp import web

from eventsched.domain.records import (
    BindIntended,
    BindVoided,
    ExtenderAsked,
    Outcome,
    PodDecided,
    PodUnreserved,
)
from eventsched.scheduling.framework.pod_groups import MINIMUM, NAMES
from tests.cluster.harness.client import Object, wait_for
from tests.cluster.harness.demos import Demo, example
from tests.cluster.harness.extender_thread import running
from tests.cluster.harness.faults import Hold
from tests.cluster.harness.kube_proxy import KubeProxy
from tests.cluster.harness.manifests import IMAGE, node
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import condition
from tests.cluster.harness.scheduler import Log, Schedulers
from tests.extenders.server import Handler

GANG = [f"train-{number}" for number in range(4)]
LABELS = {NAMES[0]: "train", MINIMUM: "4"}
ASKED = "example.com/asked"
"""A resource that nothing offers: who requests it is asked about."""
SECONDS, LONG = 3, 900
"""How long its pods wait for each other: in the first life of a scheduler, and in its next one."""


def gone(log: Log) -> list[tuple[int, str]]:
    """When (µs) it was decided to bind which pod; in the order of names."""
    found = [
        (stored.at, log.names[each.uid].partition("/")[2])
        for stored, each in zip(log.stored, log.records, strict=True)
        if isinstance(each, BindIntended)
        or (isinstance(each, PodDecided) and each.outcome is Outcome.SCHEDULED)
    ]
    return sorted(found, key=lambda each: each[1])


def all_go(demo: Demo) -> None:
    """All four are bound, by one step."""
    for name in GANG:
        assert demo.pods.node(name)
    found = gone(demo.scheduler.log())
    assert [name for _, name in found] == GANG
    assert len({at for at, _ in found}) == 1


def test_four_where_three_fit(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """None is bound, and those that had a node can be asked who was in the way; with a node more
    all of them go."""
    demo = Demo(plane, schedulers, namespace, "Coscheduling")
    for name in "abc":
        plane.admin.create(node(name))
    scheduler = demo.start({**example("Coscheduling"), "podMaxBackoffSeconds": 1})
    for name in GANG:
        demo.pod(name, cpu="3", labels=LABELS)
    unreserved = wait_for(lambda: scheduler.log().of(PodUnreserved)[2:], "three have gone back")
    assert gone(scheduler.log()) == []
    assert demo.pods.nodes() == dict.fromkeys(GANG, "")
    pattern = rf"pod group {namespace}/train goes together, {namespace}/(train-\d) found no node"
    found = re.fullmatch(pattern, unreserved[0].message)
    assert found is not None
    others = [name for name in GANG if name != found[1]]
    assert all(found[0] in demo.explained(name) for name in others)
    wait_for(lambda: any(blames(demo, name) for name in GANG), "an Event reports it")

    plane.admin.create(node("d"))
    all_go(demo)


def blames(demo: Demo, name: str) -> bool:
    """Whether a pod's status says that another one found no node."""
    found = condition(demo.pods.get(name), "PodScheduled")
    return found is not None and " goes together, " in found["message"]


class Hesitant:
    """An extender that takes its time for its first answers."""

    def __init__(self) -> None:
        self.may_answer = threading.Event()

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by path."""
        return {"/filter": self.filter}

    async def filter(self, request: web.Request) -> web.StreamResponse:
        """All nodes pass."""
        asked = await request.json()
        while not self.may_answer.is_set():
            await asyncio.sleep(0.02)
        return web.json_response({"NodeNames": asked["NodeNames"]})


def configuration(url: str, seconds: int) -> Object:
    """The example, with another wait, and an extender for one kind of pod."""
    config = example("Coscheduling")
    (section,) = config["profiles"][0]["pluginConfig"]
    section["args"]["permitWaitingTimeSeconds"] = seconds
    extender = {
        "urlPrefix": url,
        "filterVerb": "filter",
        "nodeCacheCapable": True,
        "httpTimeout": "60s",
        "managedResources": [{"name": ASKED, "ignoredByScheduler": True}],
    }
    return {**config, "extenders": [extender], "podMaxBackoffSeconds": 1}


def test_killed_while_three_wait(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    """The attempt of the fourth pod does not end. The timeouts of the others continue while the
    scheduler is dead, so they release their nodes after the restart, although the new configuration
    has a longer timeout. All are bound once the fourth pod can be."""
    extender = Hesitant()
    demo = Demo(plane, schedulers, namespace, "Coscheduling")
    for name in "abcd":
        plane.admin.create(node(name))
    for name in GANG[:3]:
        demo.pod(name, cpu="3", labels=LABELS)
    wanted = {"requests": {"cpu": "3", ASKED: "1"}, "limits": {ASKED: "1"}}
    last = {"name": "app", "image": IMAGE, "resources": wanted}
    demo.pod(GANG[3], cpu=None, labels=LABELS, containers=[last])
    with running(extender) as url:
        first = demo.start(configuration(url, SECONDS))
        first.wait_log(ExtenderAsked)
        waiting = [each for each in first.log().of(PodDecided) if each.deadlines]
        assert len(waiting) == 3
        first.kill()
        deadline = max(end for each in waiting for end in each.deadlines.values())
        wait_for(lambda: time.time() * 1e6 > deadline, "their time is over")
        assert demo.pods.nodes() == dict.fromkeys(GANG, "")

        second = demo.start(configuration(url, LONG))
        wait_for(lambda: len(second.log().of(PodUnreserved)) == 3, "they go back")
        log = second.log()
        late = {each.uid for each in log.of(PodUnreserved) if "due to timeout" in each.message}
        assert late
        assert late <= {each.uid for each in waiting}
        assert gone(log) == []
        assert demo.pods.nodes() == dict.fromkeys(GANG, "")
        extender.may_answer.set()
        all_go(demo)


def test_killed_while_four_go(plane: ControlPlane, schedulers: Schedulers, namespace: str) -> None:
    """Two have their nodes, and the binds of two are still on their way: afterwards all of them do,
    by the same decisions."""
    demo = Demo(plane, schedulers, namespace, "Coscheduling")
    for name in "abcd":
        plane.admin.create(node(name))
    with KubeProxy(plane) as proxy:
        scheduler = demo.start(kubeconfig=proxy.kubeconfig())
        late = proxy.on("POST", "/train-[01]/binding$", Hold())
        for name in GANG:
            demo.pod(name, cpu="3", labels=LABELS)
        assert all(demo.pods.node(name) for name in GANG[2:])
        late.wait(2)
        assert [demo.pods.nodes()[name] for name in GANG[:2]] == ["", ""]
        scheduler.kill()
        late.remove()
        scheduler.start()
        all_go(demo)
        late.release()
    assert scheduler.log().of(BindVoided) == []
