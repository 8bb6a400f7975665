"""A store that watches a fake API server, and short texts for its events."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from aiohttp import web

from eventsched.cluster.kube.http.api import AnonymousAccess, ApiClient
from eventsched.cluster.kube.watch.cluster_store import ClusterStore
from eventsched.cluster.kube.watch.reconnecting import Pace
from eventsched.cluster.kube.watch.resources import Resource
from eventsched.cluster.messages import (
    Listed,
    Listing,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Relisted,
    WatchEvent,
)
from tests.kube.fakeapi import NODES, PODS, FakeApi


class Watched:
    """The store of one fake API server, with its ``events``, its ``reports`` for operators and the
    pauses (s) that it ``slept``."""

    def __init__(
        self, server: FakeApi, api: ApiClient, resources: tuple[Resource, ...], **pace: Any
    ):
        self.server, self.api = server, api
        self.events: list[WatchEvent | Listed] = []
        self.reports: list[tuple[str, str, dict[str, object]]] = []
        self.slept: list[float] = []
        self.now = 0.0
        paces: dict[str, Any] = {
            "attend": 0.0,
            "sleep": self._sleep,
            "clock": lambda: self.now,
            "draw": lambda: 0.5,
            **pace,
        }
        self.store = ClusterStore(api, self._report, resources=resources, pace=Pace(**paces))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def _report(self, level: str, event: str, **fields: object) -> None:
        self.reports.append((level, event, fields))

    def reports_of(self, event: str) -> list[dict[str, object]]:
        """The fields of the reports with a name."""
        return [fields for _, name, fields in self.reports if name == event]

    async def follow(self) -> Listed:
        """Starts the store and subscribes to its events."""
        await self.store.start()
        listed = await self.store.list_cluster(self.events.append)
        for resource_store in self.store.stores.values():
            await until(partial(self.server.watches.get, resource_store.resource.type))
        return listed

    async def caught_up(self) -> None:
        """Waits until the store has everything; bookmarks advance the quiet resources."""
        for name, resource_store in self.store.stores.items():
            await until(partial(self.server.watches.get, name))
            self.server.bookmark(resource_store.resource)
            await until(partial(self._is_caught_up, resource_store))

    def _is_caught_up(self, resource_store: Any) -> bool:
        return bool(resource_store.version >= self.server.version)


@asynccontextmanager
async def serving(
    *resources: Resource, timeout: float = 5.0, **pace: Any
) -> AsyncIterator[tuple[FakeApi, Watched]]:
    """A fake server and a store that has not been started."""
    server = FakeApi()
    app = web.Application()
    app.router.add_get("/{tail:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api = ApiClient(
        AnonymousAccess(f"http://127.0.0.1:{runner.addresses[0][1]}"), timeout=timeout, patience=0
    )
    watched = Watched(server, api, resources or (NODES, PODS), **pace)
    try:
        yield server, watched
    finally:
        await watched.store.close()
        await api.close()
        await runner.cleanup()


async def until(condition: Callable[[], object], within: float = 20.0) -> None:
    """Waits for a condition. Raises TimeoutError."""
    async with asyncio.timeout(within):
        while not condition():
            await asyncio.sleep(0.002)


def run(scenario: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(bounded())


def short(event: WatchEvent | Listed) -> Any:
    """An event as a short text."""
    match event:
        case PodSeen(pod=found, resource_version=version):
            return f"{found.name}@{version} {found.node_name}".rstrip()
        case PodGone(uid=gone, resource_version=version):
            return f"gone p{int(gone[-12:])}@{version}"
        case NodeSeen(node=found, resource_version=version):
            return f"{found.name}@{version} {found.allocatable['cpu'] // 1000}"
        case NodeGone(name=name, resource_version=version):
            return f"gone {name}@{version}"
        case Relisted(listing=listing, since=since):
            return f"{since} -> {listing.version}", sorted(short(each) for each in listing.seen)
        case _:
            return event


def listed(listing: Listing) -> Any:
    return listing.resource, listing.version, [short(each) for each in listing.seen]


def asked(server: FakeApi, kind: str, name: str) -> list[dict[str, str]]:
    return [query for what, type_, query in server.requests if (what, type_) == (kind, name)]
