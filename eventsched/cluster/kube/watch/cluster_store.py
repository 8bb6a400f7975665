"""The watched objects of a cluster, kept up to date from the first list on."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from eventsched.cluster.kube.http.api import Api
from eventsched.cluster.kube.watch.object_decoding import Decoder, Keeps
from eventsched.cluster.kube.watch.reconnecting import Pace, ReconnectSignal
from eventsched.cluster.kube.watch.reflector import Reflector
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
    """The objects of all resources, with one ``ResourceStore`` for each.

    The subscriber gets events in order: after ``list_cluster(subscriber)`` first the ``Listed``,
    then everything that happens after it. Changes that scheduling does not read are left out:
    heartbeats of nodes, and most updates of bound pods and other objects.
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
        """``keeps`` selects, by resource, the objects whose bytes are kept. ``annotations`` selects
        the annotations that are kept; None keeps all."""
        pace = pace or Pace()
        self._subscriber: Subscriber | None = None
        self.stores = {
            resource.type: ResourceStore(
                resource, self._publish, report, keeps.get(resource.type), annotations
            )
            for resource in resources
        }
        reconnect = ReconnectSignal()
        self._reflectors = [
            Reflector(api, store, report, pace, reconnect) for store in self.stores.values()
        ]
        self._attentive = pace.attend > 0
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins to list and watch; returns after the first list of every resource. Waits for a
        server that is unreachable. Raises InputError if the server refuses a list."""
        self._running = asyncio.create_task(self._run(), name="reflectors")
        listed = asyncio.ensure_future(self._listed())
        try:
            await asyncio.wait((self._running, listed), return_when=asyncio.FIRST_COMPLETED)
            if self._running.done():
                self._running.result()
        finally:
            listed.cancel()

    async def broken(self) -> None:
        """Waits forever, unless a reflector ends, which is a defect: raises what ended it."""
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
        """All objects as they were at the call or later: waits until each watch has passed the
        version of a consistent read. ``subscriber`` gets the answer too, and all events after it.
        Raises UnansweredError, WatchRefusedError.
        """
        await asyncio.gather(*(reflector.catch_up() for reflector in self._reflectors))
        listed = Listed([store.listing for store in self.stores.values()])
        if subscriber is not None:
            self._subscriber = subscriber
            subscriber(listed)
        return listed

    def subscribe(self, subscriber: Subscriber | None) -> None:
        """Sets the receiver of all further events; None for none."""
        self._subscriber = subscriber

    def pod(self, uid: str) -> bytes | None:
        """A pod's bytes, if they are kept."""
        return self.stores[POD].raw.get(uid)

    def node(self, name: str) -> bytes | None:
        """A node's bytes, if they are kept."""
        return self.stores[NODE].raw.get(name)

    @property
    def decoders(self) -> Mapping[str, Decoder]:
        """The decoder of each resource."""
        return {reflector.store.resource.type: reflector.decoder for reflector in self._reflectors}

    @property
    def undecodable(self) -> Iterator[UndecodableObject]:
        """The objects that cannot be decoded."""
        return (obj for store in self.stores.values() for obj in store.undecodable.values())

    @property
    def versions(self) -> Mapping[str, int]:
        """The resourceVersion up to which each resource is known; 0 before its first list."""
        return {name: store.version for name, store in self.stores.items()}

    @property
    def progress(self) -> Mapping[str, WatchProgress]:
        """The progress of each resource's watch."""
        return {name: store.progress for name, store in self.stores.items()}

    def _publish(self, event: WatchEvent) -> None:
        if self._subscriber is not None:
            self._subscriber(event)

    def _is_idle(self) -> bool:
        """Whether nobody is subscribed: a barrier may come at any time."""
        return self._subscriber is None

    async def _listed(self) -> None:
        await asyncio.gather(*(store.reached(1) for store in self.stores.values()))

    async def _run(self) -> None:
        tasks = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
        if self._attentive:
            waiting = (reflector.keep_probing(self._is_idle) for reflector in self._reflectors)
            tasks += [asyncio.create_task(probing) for probing in waiting]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
