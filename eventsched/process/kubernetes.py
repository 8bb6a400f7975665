"""The ports of a live scheduler implemented for Kubernetes: ``Kube`` and ``LeaseElection``, and
``WatchedKube`` for a shadow, which only reads.
"""

import asyncio
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from eventsched.cluster.extenders.client import Extenders
from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.http.api import ApiClient, UnansweredError, WatchRefusedError
from eventsched.cluster.kube.http.refusals import Refusals, explained
from eventsched.cluster.kube.lease.candidate import Timing
from eventsched.cluster.kube.lease.election import LeaseParticipant
from eventsched.cluster.kube.watch.cluster_store import ClusterStore
from eventsched.cluster.kube.watch.object_decoding import Keeps
from eventsched.cluster.kube.watch.resources import Resource, watched
from eventsched.cluster.messages import (
    BindPod,
    CallExtender,
    ClusterAnswer,
    PodRequest,
    WriteEvent,
    WriteObject,
)
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import UnavailableError
from eventsched.process.extenders.extender_clients import bound, keeps
from eventsched.process.service_plan import ServiceOptions, kept_annotations
from eventsched.process.settings import seconds
from eventsched.runtime.live.ports import Election, NoElection, Subscriber
from eventsched.scheduling.config.sections import ExtenderSection, LeaderElection

_RETRY_AFTER = 2.0
"""Seconds between two attempts to reach an API server that is down."""

logger = structlog.get_logger()


class Reconfigured(NamedTuple):
    """What another configuration needs of the cluster: ``store`` is a new one only if other objects
    or annotations are kept."""

    store: ClusterStore
    extenders: Extenders


class WatchedKube:
    """The Cluster port of a shadow, over one connection: it lists, watches and asks extenders.
    ``refusals`` are the API server's, of requests other than those."""

    def __init__(
        self,
        api: ApiClient,
        *,
        extenders: Sequence[ExtenderSection] = (),
        source: str = "configuration",
        reads: Collection[str] = (),
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``source`` is where the extenders are configured. ``reads`` are the optional resources
        that the plugins read. ``annotations`` selects the annotations to keep; None keeps all.
        Raises InputError for an extender whose configuration can never work."""
        self.api = api
        self._listed = asyncio.Event()
        self._replaced = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        self._kept = _kept(extenders, reads, annotations)
        self.store = self._new_store(self._kept)
        self.extenders = Extenders(extenders, self.store, source)
        self.refusals = Refusals(time.monotonic)

    async def start(self) -> None:
        """Starts to list and watch, and returns once all lists are complete. Raises InputError if
        the server refuses one."""
        await self.store.start()
        self._listed.set()

    def _new_store(self, kept: "_Kept") -> ClusterStore:
        resources, keeps_by_resource, annotations = kept
        return ClusterStore(
            self.api,
            report,
            resources=resources,
            keeps=keeps_by_resource,
            annotations=annotations,
        )

    async def broken(self) -> None:
        """Waits until a watch fails, which is a defect, and raises its exception."""
        while True:
            self._replaced.clear()
            breaking = asyncio.ensure_future(self.store.broken())
            replaced = asyncio.ensure_future(self._replaced.wait())
            try:
                await asyncio.wait((breaking, replaced), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (breaking, replaced):
                    task.cancel()
            if not self._replaced.is_set():
                breaking.result()

    async def reconfigured(
        self,
        extenders: Sequence[ExtenderSection],
        source: str,
        reads: Collection[str],
        annotations: KeptAnnotations,
    ) -> Reconfigured:
        """Prepares another configuration, for ``take_up``. If it keeps other objects or
        annotations, the cluster is listed and watched a second time until then. Raises InputError
        if an extender cannot work or the server refuses a list."""
        kept = _kept(extenders, reads, annotations)
        if kept == self._kept:
            return Reconfigured(self.store, Extenders(extenders, self.store, source))
        store = self._new_store(kept)
        prepared = Reconfigured(store, Extenders(extenders, store, source))
        try:
            await store.start()
        except BaseException:
            await self.drop(prepared)
            raise
        return prepared

    async def drop(self, prepared: Reconfigured) -> None:
        """Closes what was prepared and is not taken up."""
        await prepared.extenders.close()
        if prepared.store is not self.store:
            await prepared.store.close()

    def take_up(
        self,
        prepared: Reconfigured,
        extenders: Sequence[ExtenderSection],
        reads: Collection[str],
        annotations: KeptAnnotations,
    ) -> None:
        """Goes on with what was prepared. Only between two terms."""
        before = Reconfigured(self.store, self.extenders)
        self._kept = _kept(extenders, reads, annotations)
        self.store, self.extenders = prepared
        if before.store is not self.store:
            self._store_replaced()
            self._replaced.set()
        closing = asyncio.create_task(self.drop(before))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _store_replaced(self) -> None:
        """Objects are decoded otherwise from here on."""

    async def listed(self) -> None:
        """See the port."""
        await self._listed.wait()

    async def close(self) -> None:
        """Closes watches and connections."""
        await self.store.close()
        await self.extenders.close()
        await self.api.close()

    async def list_cluster(self, subscriber: Subscriber) -> str:
        """See the port."""
        try:
            await self.store.list_cluster(subscriber)
        except UnansweredError as problem:
            return problem.reason
        except WatchRefusedError as problem:
            return explained(problem.answer)
        return ""

    def unsubscribe(self) -> None:
        """See the port."""
        self.store.subscribe(None)

    async def carry_out(
        self, request: PodRequest | WriteEvent | WriteObject | CallExtender
    ) -> ClusterAnswer:
        """Asks an extender. Raises TypeError for any other request, which would be a defect."""
        if not isinstance(request, CallExtender):
            raise TypeError(f"a shadow makes no {type(request).__name__}")
        return await self.extenders.call(request)


class Kube(WatchedKube):
    """The Cluster port over one connection."""

    def __init__(self, api: ApiClient, *, host: str, concurrency: int, **watched: Any) -> None:
        """``host`` names this process in Events; at most ``concurrency`` requests are under way.
        ``watched`` are the other arguments of WatchedKube."""
        super().__init__(api, **watched)
        self.calls = RequestDispatcher(
            api, host=host, concurrency=concurrency, decoders=self.store.decoders
        )
        self.refusals = self.calls.refusals

    def _store_replaced(self) -> None:
        self.calls.decode_with(self.store.decoders)

    async def carry_out(
        self, request: PodRequest | WriteEvent | WriteObject | CallExtender
    ) -> ClusterAnswer:
        """See the port."""
        if isinstance(request, CallExtender):
            return await self.extenders.call(request)
        if isinstance(request, BindPod) and request.extender >= 0:
            return await bound(self.extenders, self.calls, request)
        return await self.calls.carry_out(request)


_Kept = tuple[Sequence[Resource], Mapping[str, Keeps], KeptAnnotations | None]
"""The resources of a store, which of their objects' bytes are kept, and which annotations."""


def _kept(
    extenders: Sequence[ExtenderSection],
    reads: Collection[str],
    annotations: KeptAnnotations | None,
) -> _Kept:
    return watched(reads), keeps(extenders), annotations


class LeaseElection:
    """The Election port over a Lease: a new candidate for each term."""

    def __init__(self, kube: WatchedKube, section: LeaderElection, identity: str) -> None:
        """Raises InputError if the durations of the section contradict each other."""
        self._kube, self._section, self._identity = kube, section, identity
        self._timing = Timing.of(section)
        self._candidate: LeaseParticipant | None = None

    @property
    def leader(self) -> str:
        """The holder of the lease, as far as is known."""
        return "" if self._candidate is None else self._candidate.leader

    def watch_leader(self) -> None:
        """See the port."""
        self._watching_candidate()

    async def won(self) -> None:
        """Waits until this replica holds the lease."""
        candidate = self._watching_candidate()
        candidate.compete()
        await candidate.won()

    def _watching_candidate(self) -> LeaseParticipant:
        if self._candidate is None:
            self._candidate = LeaseParticipant(
                self._kube.api,
                namespace=self._section.resource_namespace,
                name=self._section.resource_name,
                identity=self._identity,
                timing=self._timing,
                refusals=self._kube.refusals,
            )
            self._candidate.start(competes=False)
        return self._candidate

    async def wait_until_lost(self) -> str:
        """Waits until this replica no longer holds the lease."""
        assert self._candidate is not None
        await self._candidate.lost.wait()
        return self._candidate.reason

    def annotate(self, key: str, value: str) -> None:
        """See the port."""
        if self._candidate is not None:
            self._candidate.annotate(key, value)

    async def release(self) -> None:
        """Gives the lease back, if this replica holds it."""
        candidate, self._candidate = self._candidate, None
        if candidate is not None:
            await candidate.release()


async def reached(
    kubeconfig: Path | None, context: str | None, timeout: float, *, reads_only: bool = False
) -> ApiClient:
    """Connects to the API server, and retries while it is down. With ``reads_only`` the client has
    no way to write. Raises InputError for a problem that waiting cannot fix."""
    logged = ""
    while True:
        try:
            return await connect(kubeconfig, context, timeout=timeout, reads_only=reads_only)
        except UnavailableError as problem:
            if str(problem) != logged:
                logger.warning("the API server is waited for", reason=str(problem))
            logged = str(problem)
        await asyncio.sleep(_RETRY_AFTER)


async def connected(job: ServiceOptions) -> ApiClient:
    """Connects, and waits while the API server is down. Raises InputError for a problem that
    waiting cannot fix."""
    client = job.settings.client
    return await reached(
        job.kubeconfig, client.context or None, seconds(client.timeout), reads_only=job.shadows
    )


def kube_of(job: ServiceOptions, api: ApiClient) -> WatchedKube:
    """The cluster, which is not listed yet. Raises InputError for an extender that cannot work."""
    configuration = job.assembly.configuration
    annotations = KeptAnnotations(kept_annotations(job))
    if job.shadows:
        return WatchedKube(
            api, extenders=configuration.extenders, reads=job.assembly.optional_types,
            annotations=annotations,
        )  # fmt: skip
    return Kube(
        api, host=socket.gethostname(), concurrency=job.settings.client.concurrency,
        extenders=configuration.extenders, reads=job.assembly.optional_types,
        annotations=annotations,
    )  # fmt: skip


def election_of(job: ServiceOptions, kube: WatchedKube, identity: str) -> Election:
    """The election. A shadow has no Lease, which would be a write: the log lets only one process
    write."""
    section = job.assembly.configuration.leader_election
    if job.shadows or not section.leader_elect:
        return NoElection()
    return LeaseElection(kube, section, identity)


def report(level: str, event: str, **fields: object) -> None:
    """Writes a message of the watches to the process's log."""
    getattr(logger, level)(event, **fields)
