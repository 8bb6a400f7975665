"""What a store reports about a cluster, and the barrier of a new leader."""

import asyncio
import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from eventsched.cluster.kube.watch.resources import RESOURCES
from eventsched.cluster.messages import (
    Listed,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PodGone,
    PodSeen,
)
from eventsched.domain.objects.registry import Service
from tests.kube.fakeapi import (
    NODES,
    PODS,
    SERVICES,
    FakeApi,
    node,
    pod,
    refusal,
    uid,
)
from tests.kube.watched import asked, listed, run, serving, short, until

# --- lists and news -----------------------------------------------------------------------


def test_a_list_is_read_in_pages_and_the_watch_continues_from_it() -> None:
    async def scenario() -> None:
        async with serving(page=2) as (server, watched):
            for number in range(5):
                server.put(PODS, pod(number))
            server.put(NODES, node("n1"))
            await watched.follow()
            server.put(PODS, pod(1, on="n1"))
            server.remove(PODS, "default/p0")
            server.put(NODES, node("n1", 8))
            server.remove(NODES, "n1")
            await watched.caught_up()

            first, *news = watched.events
            assert isinstance(first, Listed)
            assert [listed(each) for each in first.listings] == [
                ("Node", 16, ["n1@16 4"]),
                ("Pod", 16, ["p0@11", "p1@12", "p2@13", "p3@14", "p4@15"]),
            ]
            by_pods = [short(each) for each in news if isinstance(each, PodSeen | PodGone)]
            by_nodes = [short(each) for each in news if isinstance(each, NodeSeen | NodeGone)]
            assert by_pods == ["p1@17 n1", "gone p0@18"]
            assert by_nodes == ["n1@19 8", "gone n1@20"]
            selector = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
            assert asked(server, "list", "Pod")[:3] == [
                selector | {"limit": "2"},
                selector | {"limit": "2", "continue": "16/2"},
                selector | {"limit": "2", "continue": "16/4"},
            ]
            assert asked(server, "watch", "Pod") == [
                selector
                | {
                    "watch": "1",
                    "allowWatchBookmarks": "true",
                    "resourceVersion": "16",
                    "timeoutSeconds": "450",
                }
            ]
            assert watched.store.versions == {"Node": 20, "Pod": 20}
            assert watched.reports == []

    run(scenario())


def test_finished_pods_are_reported_as_deleted_or_not_at_all() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.put(PODS, pod(1))
            server.put(PODS, pod(2, phase="Succeeded"))
            first = await watched.follow()
            server.put(PODS, pod(1, on="n1", phase="Failed"))
            server.put(PODS, pod(3, phase="Failed"))
            server.remove(PODS, "default/p1")
            server.remove(PODS, "default/p2")
            await watched.caught_up()

            assert [listed(each) for each in first.listings] == [("Pod", 12, ["p1@11"])]
            assert [short(each) for each in watched.events[1:]] == ["gone p1@13"]
            assert watched.store.stores["Pod"].seen == {}

    run(scenario())


def test_changes_that_scheduling_does_not_read_are_not_published() -> None:
    async def scenario() -> None:
        async with serving(NODES, PODS, SERVICES) as (server, watched):
            service = {"metadata": {"name": "web", "namespace": "a"}, "spec": {}}
            server.put(NODES, node("n1"))
            server.put(PODS, pod(1))
            server.put(PODS, pod(2, on="n1"))
            server.put(SERVICES, service)
            await watched.follow()
            beating = node("n1")
            beating["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            server.put(NODES, beating)
            server.put(PODS, pod(1))
            server.put(PODS, pod(2, on="n1", phase="Running"))
            server.put(SERVICES, {**service, "status": {"loadBalancer": {}}})
            await watched.caught_up()

            # A bind names the resourceVersion of a pod that waits.
            assert [short(each) for each in watched.events[1:]] == ["p1@16"]
            stores = watched.store.stores
            assert [short(each) for each in stores["Pod"].seen.values()] == ["p1@16", "p2@17 n1"]
            assert [short(each) for each in stores["Node"].seen.values()] == ["n1@15 4"]

    run(scenario())


def test_other_objects_come_and_go() -> None:
    async def scenario() -> None:
        async with serving(SERVICES) as (server, watched):
            meta = {"metadata": {"name": "web", "namespace": "a"}}
            await watched.follow()
            server.put(SERVICES, meta | {"spec": {"selector": {"app": "web"}}})
            server.remove(SERVICES, "a/web")
            await watched.caught_up()

            found = Service(name="web", namespace="a", selector={"app": "web"})
            assert watched.events[1:] == [
                ObjectSeen(found, 11),
                ObjectGone("Service", "a", "web", 12),
            ]

    run(scenario())


def test_a_recreated_pod_of_the_same_name_is_another_pod() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.put(PODS, pod(1))
            await watched.follow()
            server.remove(PODS, "default/p1")
            again = pod(1)
            again["metadata"]["uid"] = uid(7)
            server.put(PODS, again)
            await watched.caught_up()

            assert [short(each) for each in watched.events[1:]] == ["gone p1@12", "p1@13"]
            assert set(watched.store.stores["Pod"].seen) == {uid(7)}

    run(scenario())


def test_all_resources_are_listed_and_watched() -> None:
    async def scenario() -> None:
        async with serving(*RESOURCES) as (server, watched):
            first = await watched.follow()
            assert [each.resource for each in first.listings] == [each.type for each in RESOURCES]
            assert set(watched.store.versions.values()) == {10}
            assert {name for kind, name, _ in server.requests if kind == "watch"} == {
                each.type for each in RESOURCES
            }

    run(scenario())


# --- the barrier --------------------------------------------------------------------------


def test_the_barrier_lists_small_resources_again() -> None:
    async def scenario() -> None:
        async with serving(PODS) as (server, watched):
            server.put(PODS, pod(1))
            await watched.follow()
            behind = server.watches["Pod"].pop()  # this watch gets no more events
            server.put(PODS, pod(2))
            server.remove(PODS, "default/p1")
            again = await watched.store.list_cluster()
            server.watches["Pod"].append(behind)
            # The late events of the watch are older than the list.
            for _, _, event in server.log[1:]:
                behind.put_nowait(json.dumps(event).encode() + b"\n")
            server.put(PODS, pod(3))
            await watched.caught_up()

            assert [listed(each) for each in again.listings] == [("Pod", 13, ["p2@12"])]
            assert [short(each) for each in watched.events[1:]] == [
                ("11 -> 13", ["p2@12"]),
                "p3@14",
            ]
            assert [query["limit"] for query in asked(server, "list", "Pod")] == ["500"] + [
                "2000"
            ] * 2

    run(scenario())


def test_the_barrier_waits_for_the_watches_of_large_resources() -> None:
    async def scenario() -> None:
        async with serving(PODS, few=0) as (server, watched):
            server.put(PODS, pod(1))
            await watched.follow()
            server.watches["Pod"].clear()
            server.put(PODS, pod(2))
            again = await watched.store.list_cluster()

            assert [listed(each) for each in again.listings] == [("Pod", 12, ["p1@11", "p2@12"])]
            # The second watch reports the changes as the first one would have.
            assert [short(each) for each in watched.events[1:]] == ["p2@12"]
            assert [query["limit"] for query in asked(server, "list", "Pod")] == ["500", "1", "1"]
            seconds = [query["timeoutSeconds"] for query in asked(server, "watch", "Pod")]
            assert sorted(seconds) == ["3", "3", "450"]

    run(scenario())


def test_large_resources_are_probed_while_a_barrier_may_come() -> None:
    rounds = 0

    async def sleep(seconds: float) -> None:
        nonlocal rounds
        rounds += seconds == 7
        await asyncio.sleep(0.002)

    async def scenario() -> None:
        async with serving(PODS, few=0, attend=7, sleep=sleep) as (server, watched):
            watched.now = 100.0
            await watched.store.start()
            await until(lambda: bool(server.watches.get("Pod")))
            server.watches["Pod"].clear()
            version = server.put(PODS, pod(1))
            await until(lambda: watched.store.versions["Pod"] == version)

            watched.store.subscribe(watched.events.append)
            begun = rounds
            await until(lambda: rounds > begun + 2)
            short_ones = [
                each for each in asked(server, "watch", "Pod") if each["timeoutSeconds"] == "3"
            ]
            assert 1 <= len(short_ones) <= begun + 1

    run(scenario())


def page_after_probes(server: FakeApi) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A page of a list that is sent when a probe has shown everything that happened since the
    first page."""

    async def page(request: web.Request) -> web.Response:
        server.put(PODS, pod(1, on="n1"))
        probes = len(probes_of(server))
        await until(lambda: len(probes_of(server)) > probes + 1 and not server.watches.get("Pod"))
        return server._list(request, PODS)

    return page


def probes_of(server: FakeApi) -> list[dict[str, str]]:
    """The probes of pods so far."""
    return [each for each in asked(server, "watch", "Pod") if each["timeoutSeconds"] == "3"]


def test_probes_begin_with_the_pages_of_a_long_first_list() -> None:
    """What they show is taken in after the list, so that the watch begins where they ended."""

    async def sleep(_: float) -> None:
        await asyncio.sleep(0.002)

    async def scenario() -> None:
        async with serving(PODS, few=1, page=1, attend=7, sleep=sleep) as (server, watched):
            for number in (1, 2, 3):
                server.put(PODS, pod(number))
            pages = [lambda request: server._list(request, PODS)] * 2
            server.fail("list", PODS, *pages, page_after_probes(server))
            watched.now = 100.0
            await watched.store.start()
            store = watched.store.stores["Pod"]
            assert sorted(short(each) for each in store.seen.values()) == [
                "p1@14 n1", "p2@12", "p3@13",
            ]  # fmt: skip
            assert probes_of(server)[0]["resourceVersion"] == "13"
            await until(lambda: len(asked(server, "watch", "Pod")) > len(probes_of(server)))
            watches = asked(server, "watch", "Pod")
            [watch] = [each for each in watches if each["timeoutSeconds"] != "3"]
            assert watch["resourceVersion"] == "14"

    run(scenario())


def test_what_probes_show_during_a_list_that_fails_is_forgotten() -> None:
    """The next list is as new as everything that they may have shown."""

    async def sleep(_: float) -> None:
        await asyncio.sleep(0.002)

    async def scenario() -> None:
        async with serving(PODS, few=1, page=1, attend=7, sleep=sleep) as (server, watched):
            for number in (1, 2, 3):
                server.put(PODS, pod(number))
            pages = [lambda request: server._list(request, PODS)] * 2

            async def failing(request: web.Request) -> web.Response:
                await page_after_probes(server)(request)
                server.remove(PODS, "default/p1")
                return refusal(500, "no")(request)

            server.fail("list", PODS, *pages, failing)
            watched.now = 100.0
            await watched.store.start()
            store = watched.store.stores["Pod"]
            assert sorted(short(each) for each in store.seen.values()) == ["p2@12", "p3@13"]

    run(scenario())


def test_the_barrier_lists_a_large_resource_if_probes_do_not_help() -> None:
    async def scenario() -> None:
        async with serving(PODS, few=0) as (server, watched):
            server.put(PODS, pod(1))
            await watched.follow()
            server.watches["Pod"].clear()
            server.put(PODS, pod(2))
            server.fail("watch", PODS, refusal(500, "no"), refusal(500, "no"))
            again = await watched.store.list_cluster()

            assert [listed(each) for each in again.listings] == [("Pod", 12, ["p1@11", "p2@12"])]
            assert [short(each) for each in watched.events[1:]] == [
                ("11 -> 12", ["p1@11", "p2@12"])
            ]

    run(scenario())
