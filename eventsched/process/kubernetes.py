"""The ports of a live scheduler implemented for Kubernetes: ``Kube`` and ``LeaseElection``."""

import asyncio
from collections.abc import Collection, Sequence
from pathlib import Path

import structlog

from eventsched.cluster.extenders.client import Extenders
from eventsched.cluster.kube.calls.dispatch import RequestDispatcher
from eventsched.cluster.kube.http.access import connect
from eventsched.cluster.kube.http.api import ApiClient, UnansweredError, WatchRefusedError
from eventsched.cluster.kube.http.refusals import explained
from eventsched.cluster.kube.lease.candidate import Timing
from eventsched.cluster.kube.lease.election import LeaseParticipant
from eventsched.cluster.kube.watch.cluster_store import ClusterStore
from eventsched.cluster.kube.watch.resources import watched
from eventsched.cluster.messages import (
    Announce,
    BindPod,
    CallExtender,
    ClusterAnswer,
    PodRequest,
    WriteObject,
)
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import UnavailableError
from eventsched.process.extender_clients import bound, keeps
from eventsched.runtime.live.ports import Subscriber
from eventsched.scheduling.config.sections import ExtenderSection, LeaderElection

_RETRY_AFTER = 2.0
"""Seconds between two attempts to reach an API server that is down."""

logger = structlog.get_logger()


class Kube:
    """The Cluster port over one connection."""

    def __init__(
        self,
        api: ApiClient,
        *,
        host: str,
        concurrency: int,
        extenders: Sequence[ExtenderSection] = (),
        source: str = "configuration",
        reads: Collection[str] = (),
        annotations: KeptAnnotations | None = None,
    ) -> None:
        """``host`` names this process in Events. ``source`` is where the extenders are configured.
        ``reads`` are the optional resources that the plugins read. ``annotations`` selects the
        annotations to keep; None keeps all. Raises InputError for an extender whose configuration
        can never work."""
        self.api = api
        self._listed = asyncio.Event()
        self.store = ClusterStore(
            api,
            report,
            resources=watched(reads),
            keeps=keeps(extenders),
            annotations=annotations,
        )
        self.extenders = Extenders(extenders, self.store, source)
        self.calls = RequestDispatcher(
            api, host=host, concurrency=concurrency, decoders=self.store.decoders
        )

    async def start(self) -> None:
        """Starts to list and watch, and returns once all lists are complete. Raises InputError if
        the server refuses one."""
        await self.store.start()
        self._listed.set()

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
        self, request: PodRequest | Announce | WriteObject | CallExtender
    ) -> ClusterAnswer:
        """See the port."""
        if isinstance(request, CallExtender):
            return await self.extenders.call(request)
        if isinstance(request, BindPod) and request.extender >= 0:
            return await bound(self.extenders, self.calls, request)
        return await self.calls.carry_out(request)


class LeaseElection:
    """The Election port over a Lease: a new candidate for each term."""

    def __init__(self, kube: Kube, section: LeaderElection, identity: str) -> None:
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
                refusals=self._kube.calls.refusals,
            )
            self._candidate.start(competes=False)
        return self._candidate

    async def lost(self) -> str:
        """Waits until this replica no longer holds the lease."""
        assert self._candidate is not None
        await self._candidate.lost.wait()
        return self._candidate.reason

    async def release(self) -> None:
        """Gives the lease back, if this replica holds it."""
        candidate, self._candidate = self._candidate, None
        if candidate is not None:
            await candidate.release()


async def reached(kubeconfig: Path | None, context: str | None, timeout: float) -> ApiClient:
    """Connects to the API server, and retries while it is down. Raises InputError for a problem
    that waiting cannot fix."""
    logged = ""
    while True:
        try:
            return await connect(kubeconfig, context, timeout=timeout)
        except UnavailableError as problem:
            if str(problem) != logged:
                logger.warning("the API server is waited for", reason=str(problem))
            logged = str(problem)
        await asyncio.sleep(_RETRY_AFTER)


def report(level: str, event: str, **fields: object) -> None:
    """Writes a message of the watches to the process's log."""
    getattr(logger, level)(event, **fields)
