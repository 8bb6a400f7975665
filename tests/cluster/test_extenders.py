"""Extenders of ``eventsched run`` on a real control plane: the usual sample filters, prioritizes
and binds, over HTTP, and the log has what it said."""

import asyncio
from typing import Any

from aiohttp import web

from eventsched.domain.records import ExtenderAnswered, PodBound, PodDecided
from tests.cluster.harness.client import wait_for
from tests.cluster.harness.extender_thread import running
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Schedulers
from tests.extenders.server import Sample


class Binder(Sample):
    """The sample, which binds as configured."""

    def __init__(self, pods: Pods) -> None:
        super().__init__()
        self.pods = pods

    async def bind(self, request: web.Request) -> web.StreamResponse:
        """Creates the Binding."""
        args = await self._read(request)
        bound = {"metadata": {"name": args["PodName"], "namespace": args["PodNamespace"]}}
        await asyncio.to_thread(self.pods.client.bind, bound, args["Node"])
        return web.json_response({})


def extender(url: str, **fields: Any) -> dict[str, Any]:
    """A configuration with one."""
    section = {"urlPrefix": f"{url}/scheduler", "weight": 50, **fields}
    return {"profiles": [{"schedulerName": "eventsched"}], "extenders": [section]}


def test_an_extender_filters_prioritizes_and_binds(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    pods = Pods(plane.admin, namespace)
    sample = Binder(pods)
    with running(sample) as url:
        for name in ("a0", "a1", "a2"):
            pods.client.create(node(name, labels={"extender": "no" if name == "a0" else "yes"}))
        verbs = {"filterVerb": "filter", "prioritizeVerb": "priority", "bindVerb": "bind"}
        scheduler = schedulers.start(config=extender(url, **verbs))
        made = [pods.create(pod(f"web-{number}")) for number in range(3)]
        wait_for(lambda: len(scheduler.log().of(PodBound)) == 3, "three pods are bound")
        assert [pods.node(each["metadata"]["name"]) for each in made] == ["a2"] * 3

        log = scheduler.log()
        assert {each.binder for each in log.of(PodDecided)} == {f"{url}/scheduler"}
        answers = log.of(ExtenderAnswered)
        assert [each.verb for each in answers] == ["filter", "prioritize"] * 3
        assert not [each for each in answers if each.problem]
        path, asked = sample.requests[0]
        assert path == "/scheduler/filter"
        assert asked["Pod"]["spec"]["schedulerName"] == "eventsched"
        assert "managedFields" not in asked["Pod"]["metadata"]
        assert {each["metadata"]["name"] for each in asked["Nodes"]["items"]} == {"a0", "a1", "a2"}
        calls = scheduler.metric(
            "eventsched_extender_calls_total", extender=f"{url}/scheduler", verb="filter",
            result="answer",
        )  # fmt: skip
        assert calls == 3


def test_a_verb_that_the_server_does_not_have_is_said(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    pods = Pods(plane.admin, namespace)
    with running(Sample()) as url:
        for name in ("a0", "a1"):
            pods.client.create(node(name))
        verbs = {"prioritizeVerb": "prioritize", "nodeCacheCapable": True}
        scheduler = schedulers.start(config=extender(url, **verbs))
        pods.create(pod("web"))
        [answer] = scheduler.wait_log(ExtenderAnswered)
        assert answer.problem == (
            f"failed prioritize with extender at URL {url}/scheduler/prioritize, code 404: the "
            "server does not offer this path; compare prioritizeVerb with its own"
        )
        wait_for(lambda: pods.get("web")["spec"].get("nodeName"), "the pod is bound all the same")
        lines = [each for each in scheduler.lines() if each["event"] == "ExtenderFailed"]
        assert [each["problem"] for each in lines] == [answer.problem]
