"""The watched objects of a cluster, up to date from the first list on."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from eventsched.cluster.kube.http.api import ApiClient
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


class ClusterStore:
    """The objects of all resources, with one ``ResourceStore`` for each.

    A subscriber gets events in order. ``list_cluster(subscriber)`` first passes it the ``Listed``,
    then every later event. Updates that change nothing scheduling reads are left out: heartbeats of
    nodes, and most updates of bound pods and other objects.
    """

    def __init__(
        self,
        api: ApiClient,
        report: ReportProblem,
        *,
        resources: Sequence[Resource] = RESOURCES,
        pace: Pace | None = None,
        keeps: Mapping[str, Keeps] = _NOTHING,
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``keeps`` selects, by type, the objects whose bytes are kept. ``annotations`` selects the
        annotations that are kept; None keeps all."""
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
        """Starts to list and watch, and returns after the first list of every resource. Waits while
        the server is unreachable. Raises InputError if the server refuses a list."""
        self._running = asyncio.create_task(self._run(), name="reflectors")
        listed = asyncio.ensure_future(self._listed())
        try:
            await asyncio.wait((self._running, listed), return_when=asyncio.FIRST_COMPLETED)
            if self._running.done():
                self._running.result()
        finally:
            listed.cancel()

    async def broken(self) -> None:
        """Waits until a reflector fails, which is a defect, and raises its exception."""
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
        """All objects as they were at the call or later. ``subscriber`` gets them too, and all
        later events. Waits until the store of each resource has reached the version of a consistent
        read. Raises UnansweredError, WatchRefusedError.
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
        """Whether there is no subscriber. ``list_cluster`` may be called at any time then, and is
        faster if probes are open."""
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
