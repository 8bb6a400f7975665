"""The process behind ``eventsched run``: its parts put together, and how it ends.

    web (health, metrics) ─▶ API server reached ─▶ watches ─▶ replica: follow, lead, follow …

An unreachable dependency is waited for, and readiness reports it. A problem that waiting cannot fix
ends the process.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from eventsched import __version__, signals
from eventsched.cluster.kube.http.api import ApiClient
from eventsched.cluster.kube.lease.election import own_identity
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.eventlog.address_file import last_read
from eventsched.eventlog.addresses import shown
from eventsched.process.api_child import api_beside
from eventsched.process.exit_codes import STOPPED
from eventsched.process.extenders.extender_server_requests import Inquiries
from eventsched.process.kubernetes import WatchedKube, connected, election_of, kube_of
from eventsched.process.prometheus_samples import Prometheus
from eventsched.process.reloading import Reloader, ReloadTarget, announcer_of
from eventsched.process.replica_status import LiveStatus
from eventsched.process.sections.shadow_settings import NO_REVIEWS
from eventsched.process.service_observer import ServiceObserver
from eventsched.process.service_plan import (
    PublishedCheckpoints,
    ServiceOptions,
    kept_annotations,
    plan_of,
    shown_configuration,
)
from eventsched.process.settings import ExtenderSettings, ServingSettings, Settings, seconds
from eventsched.process.start_times import StartClock
from eventsched.process_log import output
from eventsched.runtime import gc_tuning
from eventsched.runtime.assembly import Assembly
from eventsched.runtime.live.clock import Clock
from eventsched.runtime.live.driver import Driver
from eventsched.runtime.live.ports import Election
from eventsched.runtime.live.replica import Replica
from eventsched.runtime.live.replica_plan import ReplicaPlan
from eventsched.runtime.live.request_source import StimulusReceiver
from eventsched.runtime.live.sample_source import sample
from eventsched.web import extender_paths, pages
from eventsched.web.authorization import Reviews
from eventsched.web.http import descriptors, https_server
from eventsched.web.http.https_server import Options, answering, serving
from eventsched.web.metrics import Metrics
from eventsched.web.reload_metrics import ReloadMetrics

if TYPE_CHECKING:  # the SDK is imported only if tracing is on
    from eventsched.process.tracing.span_export import Tracing

logger = structlog.get_logger()


def begin_logging(settings: Settings, warnings: Sequence[str]) -> None:
    """Configures logging; from here on the process writes log lines."""
    output.configure(settings.logging.format, settings.logging.level)
    for warning in warnings:
        logger.warning(warning, stream=settings.stream)


def require_free(settings: ServingSettings) -> None:
    """Raises InputError or UnavailableError if the port for health and metrics cannot be bound."""
    https_server.require_free(_options(settings))


def serve(job: ServiceOptions) -> int:
    """Runs until a signal stops it, and returns the exit code. Raises InputError, UnavailableError
    and CorruptLogError."""
    with structlog.contextvars.bound_contextvars(stream=job.settings.stream):
        return asyncio.run(_Process(job).run())


def _sampling(
    assembly: Assembly, now: Callable[[], int]
) -> Callable[[StimulusReceiver], Awaitable[None]] | None:
    """A function that feeds a leader the samples that plugins want; None if no plugin wants any."""
    samplings = assembly.samplings
    if not samplings:
        return None
    for sampling in samplings:
        logger.info(
            "samples",
            source=sampling.source,
            server=sampling.address,
            query=sampling.query,
            interval=sampling.interval,
        )
    return lambda leader: sample(samplings, Prometheus, leader, now)


class _Process:
    def __init__(self, job: ServiceOptions) -> None:
        self._job = job
        self._stopping = False
        self._start_clock = StartClock()
        self._main: asyncio.Task[Any] | None = None
        election = job.assembly.configuration.leader_election
        lease = election.resource_name if election.leader_elect and not job.shadows else ""
        self._status = LiveStatus(lease)
        self._metrics = Metrics()
        self._api: ApiClient | None = None
        self._most = descriptors.MAX_CONNECTIONS

    async def run(self) -> int:
        """Runs the process from start to end, and returns its exit code."""
        self._start_clock.note("imported")
        self._main = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        if signals.asked_to_end():
            return 0
        logger.info(
            "eventsched",
            version=__version__,
            database=shown(last_read(self._job.address)),
        )
        self._share_descriptors()
        try:
            await self._live()
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            # The first signal came during the start, or this is the second one.
            return STOPPED if self._status.replica is not None else 0
        logger.info("ended")
        return 0

    def _share_descriptors(self) -> None:
        """Limits the connections of each port, so that descriptors remain for the API server and
        the database."""
        settings = self._job.settings
        serving = settings.serving
        ports = bool(serving.port) + bool(serving.plain_health_port) + self._job.serves
        budget = descriptors.shared(ports, 2 * settings.client.concurrency)
        self._most = budget.connections
        log = logger.warning if budget.are_few else logger.info
        log(
            "few files may be open; raise the limit (ulimit -n)"
            if budget.are_few
            else "file descriptors",
            limit=budget.limit,
            reserved=budget.reserved,
            connections_per_port=budget.connections,
        )

    def _signalled(self) -> None:
        """The first signal stops the replica in order; a second one ends the process."""
        replica = self._status.replica
        if replica is not None and not self._stopping:
            replica.end()
        elif self._main is not None:
            self._main.cancel()
        self._stopping = True

    async def _live(self) -> None:
        async with AsyncExitStack() as running:
            tracing = self._traced(running)
            await self._serve(running)
            await running.enter_async_context(api_beside(self._job))
            # Requests are held until they can be answered, so that their pods need not back off.
            inquiries = await self._answer(running) if self._job.serves else None
            kube, election = await self._reach(running, identity := own_identity())
            clock = Clock()
            observer = ServiceObserver(
                self._metrics,
                self._job.settings.stream,
                self._status,
                self._job.assembly,
                self._start_clock,
                inquiries,
                tracing,
            )

            checkpoints = PublishedCheckpoints(self._metrics, election)

            def plan(job: ServiceOptions) -> ReplicaPlan:
                made = plan_of(job, identity, checkpoints)
                return replace(made, sample=_sampling(job.assembly, clock.now))

            replica = Replica(plan(self._job), kube, election, observer, clock.now)
            self._status.replica = replica
            if self._stopping:
                return

            def taken_up(job: ServiceOptions) -> None:
                self._job = job
                observer.reloaded(job.assembly)
                if inquiries is not None:
                    inquiries.reloaded(KeptAnnotations(kept_annotations(job)))

            reloader = self._new_reloader(ReloadTarget(kube, replica, plan, taken_up))
            # The log is read and the cluster is listed at the same time; leading needs both.
            working = asyncio.create_task(replica.run())
            watching = asyncio.create_task(self._watch(kube, reloader))
            try:
                await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (working, watching):
                    task.cancel()
                ended = await asyncio.gather(working, watching, return_exceptions=True)
            for outcome in ended:
                if isinstance(outcome, Exception):
                    raise outcome

    def _traced(self, running: AsyncExitStack) -> "Tracing | None":
        """The traces of attempts, closed after everything else; None if they are off."""
        if not self._job.settings.tracing.enabled:
            return None
        from eventsched.process.tracing.span_export import Tracing, provider_of_environment

        status, stream = self._status, self._job.settings.stream
        tracing = Tracing(provider_of_environment(), stream, status.pod_name, status.verdict)
        running.callback(tracing.close)
        return tracing

    async def _serve(self, running: AsyncExitStack) -> None:
        settings = self._job.settings.serving
        if not settings.port and not settings.plain_health_port:
            return
        self._metrics.attach(self._status)
        reviews = Reviews(self._ask) if settings.authorization == "delegated" else None
        application = pages.application(
            self._status, self._metrics, lambda: shown_configuration(self._job), reviews
        )
        addresses = await running.enter_async_context(
            serving(_options(settings, self._most), application, pages.public(self._status))
        )
        logger.info("serving", secure=addresses.secure, plain=addresses.plain)

    async def _answer(self, running: AsyncExitStack) -> Inquiries:
        """Opens the port on which other schedulers send their requests."""
        settings = self._job.settings.extender
        annotations = KeptAnnotations(kept_annotations(self._job))
        timeout = seconds(settings.timeout)
        inquiries = Inquiries(self._driver, timeout, self._leader, annotations)
        application = extender_paths.application(
            msgspec.structs.asdict(settings.paths), inquiries.ask
        )
        address = await running.enter_async_context(
            answering(extender_options(settings, self._most), application)
        )
        running.callback(inquiries.close)
        logger.info("answering", at=address, profile=settings.profile)
        return inquiries

    def _driver(self) -> Driver | None:
        replica = self._status.replica
        return None if replica is None else replica.accepting_driver

    def _leader(self) -> str:
        replica = self._status.replica
        return "" if replica is None else replica.leader

    async def _ask(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Sends a token or access review over the scheduler's own connection."""
        if self._api is None:
            raise ConnectionError("the API server is not reached yet")
        if self._job.shadows:
            raise ConnectionError(NO_REVIEWS)
        answer = await self._api.call("POST", path, body=body, patience=0)
        return answer.status, answer.body

    async def _reach(self, running: AsyncExitStack, identity: str) -> tuple[WatchedKube, Election]:
        """Connects to the API server. Nothing is listed yet, but the lease is observed already:
        after a crash the old leader's lease then expires while this process starts."""
        self._status.waiting = "the API server is not reached yet"
        self._api = await connected(self._job)
        self._start_clock.note("connected")
        running.push_async_callback(self._api.close)
        kube = kube_of(self._job, self._api)
        running.push_async_callback(kube.close)
        self._status.kube = kube
        election = election_of(self._job, kube, identity)
        running.push_async_callback(election.release)
        election.watch_leader()
        self._status.waiting = "the cluster's objects are being listed"
        return kube, election

    def _new_reloader(self, target: ReloadTarget) -> Reloader | None:
        """Takes changes of the configuration file up; None without a file."""
        job = self._job
        if job.files is None:
            return None
        metrics = ReloadMetrics(self._metrics.registry, time.time())
        reloader = Reloader(job, target, metrics, announcer_of(job, target.kube))
        if not job.settings.database.data_dir:  # an embedded database ends with its terminal
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)
        return reloader

    async def _watch(self, kube: WatchedKube, reloader: Reloader | None) -> None:
        """Lists and watches the cluster and the configuration file for as long as this process
        lives. Raises InputError if the server refuses a list. Any other exception that ends a watch
        is a defect."""
        gc_tuning.freeze(collect=False)
        await kube.start()
        self._start_clock.note("listed")
        logger.info("the cluster is watched", server=kube.api.access.server)
        self._status.waiting = ""
        gc_tuning.freeze(collect=False)
        tasks = [asyncio.create_task(kube.broken())]
        if reloader is not None:
            tasks.append(asyncio.create_task(reloader.run()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def extender_options(
    settings: ExtenderSettings, most: int = descriptors.MAX_CONNECTIONS
) -> Options:
    """The port on which other schedulers send their requests."""
    return Options(
        settings.bind_address,
        settings.port if settings.tls else None,
        Path(settings.cert_file) if settings.cert_file else None,
        Path(settings.key_file) if settings.key_file else None,
        None if settings.tls else settings.port,
        Path(settings.client_ca_file) if settings.client_ca_file else None,
        most,
    )


def _options(settings: ServingSettings, most: int = descriptors.MAX_CONNECTIONS) -> Options:
    return Options(
        settings.bind_address,
        settings.port or None,
        Path(settings.cert_file) if settings.cert_file else None,
        Path(settings.key_file) if settings.key_file else None,
        settings.plain_health_port or None,
        most=most,
    )
