"""All that is watched of a cluster, kept true from the first list on."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from eventsched.cluster.kube.http.api import Api
from eventsched.cluster.kube.watch.object_decoding import Decoder, Keeps
from eventsched.cluster.kube.watch.reflector import Pace, ReconnectSignal, Reflector
from eventsched.cluster.kube.watch.resource_store import (
    ReportProblem,
    ResourceStore,
    UndecodableObject,
    WatchProgress,
)
from eventsched.cluster.kube.watch.resources import NODE, POD, RESOURCES, Resource
from eventsched.cluster.messages import Listed, WatchEvent
from eventsched.cluster.translate.kept_annotations import KeptAnnotations

_NOTHING: Mapping[str, Keeps] = {}
Subscriber = Callable[[WatchEvent | Listed], None]


class Store:
    """The objects of all resources, each in a shelf, by resource.

    News reach the subscriber in the order in which they come: with ``list_cluster(subscriber)``
    first the ``Listed``, then everything that happens after it. Heartbeats of nodes, and changes of
    bound pods and other objects that scheduling does not read, are no news.
    """

    def __init__(
        self,
        api: Api,
        report: ReportProblem,
        *,
        resources: Sequence[Resource] = RESOURCES,
        pace: Pace | None = None,
        keeps: Mapping[str, Keeps] = _NOTHING,
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``keeps`` says by resource of which objects the bytes are kept, ``annotations`` which of
        these are: all, for None."""
        pace = pace or Pace()
        self._subscriber: Subscriber | None = None
        self.stores = {
            each.type: ResourceStore(each, self._tell, report, keeps.get(each.type), annotations)
            for each in resources
        }
        reconnect = ReconnectSignal()
        self._reflectors = [
            Reflector(api, store, report, pace, reconnect) for store in self.stores.values()
        ]
        self._attentive = pace.attend > 0
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to list and watch; returns when all lists are there. Raises InputError where the
        server refuses one of them. A server that is away is waited for."""
        self._running = asyncio.create_task(self._run(), name="reflectors")
        listed = asyncio.ensure_future(self._listed())
        try:
            await asyncio.wait((self._running, listed), return_when=asyncio.FIRST_COMPLETED)
            if self._running.done():
                self._running.result()
        finally:
            listed.cancel()

    async def broken(self) -> None:
        """Waits for ever, unless a reflector ends, which is a defect: raises what ended it."""
        assert self._running is not None
        await asyncio.shield(self._running)

    async def close(self) -> None:
        """Ends all watches."""
        self._subscriber = None
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(self._running, return_exceptions=True)

    async def list_cluster(self, subscriber: Subscriber | None = None) -> Listed:
        """All objects, as they were after the call or later: each resource is asked how far it is,
        and the watches are waited for. ``subscriber`` gets the answer too, and from then on all
        news. Raises UnansweredError, RefusedError.
        """
        await asyncio.gather(*(each.settle() for each in self._reflectors))
        listed = Listed([store.listing for store in self.stores.values()])
        if subscriber is not None:
            self._subscriber = subscriber
            subscriber(listed)
        return listed

    def subscribe(self, subscriber: Subscriber | None) -> None:
        """Who gets the news from now on; None for nobody."""
        self._subscriber = subscriber

    def pod(self, uid: str) -> bytes | None:
        """A pod's bytes, where they are kept."""
        return self.stores[POD].raw.get(uid)

    def node(self, name: str) -> bytes | None:
        """A node's bytes, where they are kept."""
        return self.stores[NODE].raw.get(name)

    @property
    def decoders(self) -> Mapping[str, Decoder]:
        """What reads the objects of each resource."""
        return {each.store.resource.type: each.decoder for each in self._reflectors}

    @property
    def undecodable(self) -> Iterator[UndecodableObject]:
        """The objects that cannot be read."""
        return (each for store in self.stores.values() for each in store.undecodable.values())

    @property
    def versions(self) -> Mapping[str, int]:
        """The resourceVersion up to which each resource is known; 0 before its first list."""
        return {name: store.version for name, store in self.stores.items()}

    @property
    def progress(self) -> Mapping[str, WatchProgress]:
        """How the watch of each resource gets on."""
        return {name: store.progress for name, store in self.stores.items()}

    def _tell(self, event: WatchEvent) -> None:
        if self._subscriber is not None:
            self._subscriber(event)

    def _is_idle(self) -> bool:
        """Whether nobody has the news: a barrier may come at any time."""
        return self._subscriber is None

    async def _listed(self) -> None:
        await asyncio.gather(*(store.reached(1) for store in self.stores.values()))

    async def _run(self) -> None:
        tasks = [asyncio.create_task(each.run()) for each in self._reflectors]
        if self._attentive:
            waiting = (each.attend(self._is_idle) for each in self._reflectors)
            tasks += [asyncio.create_task(each) for each in waiting]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
