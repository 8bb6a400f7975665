"""A cluster that is watched for one configuration, and then for another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from eventsched.cluster.kube.http.api import AnonymousAccess, ApiClient
from eventsched.cluster.kube.watch.resources import OPTIONAL
from eventsched.cluster.messages import Listed, PodSeen
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import InputError
from eventsched.process.kubernetes import Kube
from tests.kube.fakeapi import PODS, FakeApi, pod, refusal
from tests.kube.watched import run, until

NONE = KeptAnnotations()
TEAM = KeptAnnotations(["team"])


@asynccontextmanager
async def watching() -> AsyncIterator[tuple[FakeApi, Kube]]:
    """A fake API server with a pod, and what watches it."""
    server = FakeApi()
    annotated = pod(1)
    annotated["metadata"]["annotations"] = {"team": "blue"}
    server.put(PODS, annotated)
    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api = ApiClient(AnonymousAccess(f"http://127.0.0.1:{runner.addresses[0][1]}"), patience=0.0)
    kube = Kube(api, host="h", concurrency=8, annotations=NONE)
    try:
        await kube.start()
        yield server, kube
    finally:
        await kube.close()
        await runner.cleanup()


def lists(server: FakeApi, type_: str = PODS.type) -> int:
    """How often a resource was listed."""
    return sum(request[:2] == ("list", type_) for request in server.requests)


async def annotations(kube: Kube) -> dict[str, str]:
    """Those of the pod, as a term sees them."""
    received: list[object] = []
    assert await kube.list_cluster(received.append) == ""
    (listed,) = [each for each in received if isinstance(each, Listed)]
    (seen,) = [
        each for listing in listed.listings for each in listing.seen if isinstance(each, PodSeen)
    ]
    return dict(seen.pod.annotations)


def test_a_configuration_that_needs_the_same_lists_nothing() -> None:
    async def scenario() -> None:
        async with watching() as (server, kube):
            store, before = kube.store, lists(server)
            prepared = await kube.reconfigured((), "c", (), KeptAnnotations())
            kube.take_up(prepared, (), (), KeptAnnotations())
            assert kube.store is store
            assert lists(server) == before
            assert await annotations(kube) == {}

    run(scenario())


def test_other_annotations_are_listed_before_they_are_taken_up() -> None:
    """The first watch goes on until then; afterwards nothing waits for it."""

    async def scenario() -> None:
        async with watching() as (server, kube):
            before, store = lists(server), kube.store
            broken = asyncio.create_task(kube.broken())
            prepared = await kube.reconfigured((), "c", (), TEAM)
            assert lists(server) == before + 1
            assert await annotations(kube) == {}
            kube.unsubscribe()
            kube.take_up(prepared, (), (), TEAM)
            assert await annotations(kube) == {"team": "blue"}
            assert kube.calls._pods.decoder is kube.store.decoders[PODS.type]
            await until(lambda: store._running is not None and store._running.done())
            assert not broken.done()
            broken.cancel()
            await asyncio.gather(broken, return_exceptions=True)

    run(scenario())


def test_a_list_that_is_refused_leaves_everything_as_it_is() -> None:
    """A plugin reads a resource that this user may not list."""
    (quotas,) = [each for each in OPTIONAL if each.type == "ElasticQuota"]

    async def scenario() -> None:
        async with watching() as (server, kube):
            store = kube.store
            server.fail("list", quotas, refusal(403, "elasticquotas is forbidden"))
            with pytest.raises(InputError, match="forbidden"):
                await kube.reconfigured((), "c", {quotas.type}, NONE)
            assert kube.store is store
            assert await annotations(kube) == {}

    run(scenario())
