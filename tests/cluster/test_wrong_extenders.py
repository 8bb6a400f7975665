"""Wrong addresses of extenders: the pods that need them wait and report why; others are
scheduled."""

from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.cluster.harness.client import wait_for
from tests.cluster.harness.extender_thread import running
from tests.cluster.harness.manifests import node, pod
from tests.cluster.harness.plane import ControlPlane, free_ports
from tests.cluster.harness.pods import Pods
from tests.cluster.harness.scheduler import Scheduler, Schedulers
from tests.extenders.server import Handler, saying

PAGE = saying("<!DOCTYPE html><title>Log in</title>", kind="text/html")


async def offering(request: web.Request) -> web.StreamResponse:
    """The answer of a server that lists its features."""
    return web.Response(text="there are POST /scheduler/priority (prioritize)", status=404)


class Wrong:
    """Servers at wrong addresses."""

    handlers: Mapping[str, Handler] = {"/page/filter": PAGE, "/other/filter": offering}


def asked_for(resource: str, url: str) -> dict[str, Any]:
    """An extender that filters, for the pods that want a resource."""
    managed = {"name": resource, "ignoredByScheduler": True}
    return {"urlPrefix": url, "filterVerb": "filter", "managedResources": [managed]}


def test_addresses_that_are_wrong(
    plane: ControlPlane, schedulers: Schedulers, namespace: str
) -> None:
    pods = Pods(plane.admin, namespace)
    pods.client.create(node("a"))
    (unused_port,) = free_ports(1)
    with running(Wrong()) as url:
        places = {
            "page": f"{url}/page",
            "other": f"{url}/other",
            "refused": f"http://127.0.0.1:{unused_port}",
        }
        extenders = [asked_for(f"example.com/{name}", place) for name, place in places.items()]
        scheduler = schedulers.start(
            config={"profiles": [{"schedulerName": "eventsched"}], "extenders": extenders}
        )
        for name in places:
            pods.create(pod(name, **wanting(f"example.com/{name}")))
        pods.create(pod("plain"))
        assert pods.node("plain") == "a"
        notes = {name: pods.wait_event(name, "FailedScheduling")["note"] for name in places}
        wait_for(lambda: len(problems(scheduler)) == len(places), "each problem is logged")
        logged = problems(scheduler)  # before the extenders stop

    expected = {
        "page": f"POST {url}/page/filter: the answer is no JSON but text/html, and begins with "
        "'<!DOCTYPE html><title>Log in</title>'",
        "other": f"failed filter with extender at URL {url}/other/filter, code 404: the server "
        "does not offer this path; compare filterVerb with its own; it says: 'there are POST "
        "/scheduler/priority (prioritize)'",
        "refused": f"POST http://127.0.0.1:{unused_port}/filter: cannot connect: "
        "Connection refused",
    }
    assert logged == set(expected.values())
    assert [name for name, note in notes.items() if expected[name] not in note] == []
    assert {name: pods.nodes()[name] for name in places} == dict.fromkeys(places, "")


def problems(scheduler: Scheduler) -> set[str]:
    """The problems with extenders in its log."""
    lines = scheduler.lines()
    return {line["problem"] for line in lines if line["event"] == "ExtenderFailed"}


def wanting(resource: str) -> dict[str, Any]:
    """A pod's spec that asks for one of a resource."""
    requests = {"cpu": "100m", resource: "1"}
    resources = {"requests": requests, "limits": {resource: "1"}}
    return {"containers": [{"name": "main", "image": "a", "resources": resources}]}
