"""Takes a changed configuration file up while the process runs.

    the file has changed ─▶ checked completely ─▶ between two terms: in force
                                  ╰─▶ refused: what is in force stays

A check reads options, environment and file as at a start, builds an engine and lists what else has
to be watched. Only then the replica is asked to go on with it (runtime/live/replica.py). Every
outcome is a log line, a metric and an Event.
"""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import structlog

from eventsched.cluster.files import read_text
from eventsched.cluster.kube.calls.process_events import ProcessEvents
from eventsched.cluster.translate.kept_annotations import KeptAnnotations
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.process import service_plan
from eventsched.process.kubernetes import Reconfigured, WatchedKube
from eventsched.process.reload_check import needing_restart, needs_term
from eventsched.process.service_plan import ServiceOptions, kept_annotations
from eventsched.process_log import output
from eventsched.runtime.live.replica import Replica
from eventsched.runtime.live.replica_plan import Reload, ReplicaPlan
from eventsched.web.reload_metrics import ReloadMetrics

POLL_PERIOD = 2.0
"""Seconds between two looks at the files."""
LIST_TIMEOUT = 60.0
"""Seconds that the lists for another configuration may take."""
RETRY_AFTER = 30.0
"""Seconds after which a configuration is checked again that could not be checked."""
_SHOWN = 10
"""Problems that are logged of one file."""

logger = structlog.get_logger()


class Announcer(Protocol):
    """Writes Events about the process."""

    async def announce(self, type_: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """Creates an Event. What cannot be written is only logged."""


class NoAnnouncer:
    """Writes no Events, for a shadow. Log lines and metrics say the same."""

    async def announce(self, type_: Literal["Normal", "Warning"], reason: str, note: str) -> None:
        """Does nothing."""


class ReloadTarget(NamedTuple):
    """What a reload works on. ``plan_of`` makes the plan of a configuration; ``taken_up`` is called
    when one is in force."""

    kube: WatchedKube
    replica: Replica
    plan_of: Callable[[ServiceOptions], ReplicaPlan]
    taken_up: Callable[[ServiceOptions], None]


def announcer_of(job: ServiceOptions, kube: WatchedKube) -> Announcer:
    """The writer of Events about the process."""
    if job.shadows:
        return NoAnnouncer()
    section = job.assembly.configuration.leader_election
    lease = (section.resource_namespace, section.resource_name)
    return ProcessEvents(
        kube.api, kube.refusals, socket.gethostname(), lease if section.leader_elect else None
    )


class _RefusedError(Exception):
    """A configuration was refused, for these reasons."""

    def __init__(self, problems: list[InputError]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class Reloader:
    """Watches the files of a process, and takes up what they say. ``job`` is what is in force."""

    def __init__(
        self,
        job: ServiceOptions,
        running: ReloadTarget,
        metrics: ReloadMetrics,
        announcer: Announcer,
        *,
        period: float = POLL_PERIOD,
    ) -> None:
        """``job`` has files."""
        assert job.files is not None
        self.job = job
        self._files = job.files
        self._running, self._metrics, self._announcer = running, metrics, announcer
        self._period = period
        self._asked = asyncio.Event()
        self._check_again_at: float | None = None

    def ask(self) -> None:
        """Checks the files at once, also a configuration that was refused before."""
        self._asked.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._period):
                    await self._asked.wait()
            except TimeoutError:
                pass
            is_asked = self._asked.is_set()
            self._asked.clear()
            if is_asked or self._is_due() or self._files.changed():
                await self._handle()

    def _is_due(self) -> bool:
        return self._check_again_at is not None and time.monotonic() >= self._check_again_at

    async def _handle(self) -> None:
        content = self._files.content()
        before, self._files.handled = self._files.handled, content
        self._check_again_at = None
        if content == self._files.in_force:
            if before != content:
                logger.info("the configuration file is again as it is in force")
                self._metrics.restored()
            else:
                logger.info("the configuration file has not changed")
            return
        try:
            self._files.require_same_plugins(content)
            changed = self._checked()
            if self._files.content() != content:  # while it was read: the next look finds it
                self._files.handled = before
                return
            await self._take_up(changed)
        except _RefusedError as refused:
            await self._refused(refused.problems)
        except InputError as problem:
            await self._refused([problem])
        except UnavailableError as problem:
            self._check_again_at = time.monotonic() + RETRY_AFTER
            await self._refused([InputError(problem.where, problem.problem, problem.remedy)])
        else:
            self._files.in_force = content

    def _checked(self) -> ServiceOptions:
        """The configuration that the files hold, checked as far as possible without the cluster.
        Raises InputError and _RefusedError."""
        try:
            changed = self.job.again()
            self._running.plan_of(changed).make_engine()
        except InputError as first:
            raise _RefusedError(self._all_problems() or [first]) from first
        except Exception as defect:
            # Of a plugin, or ours. A scheduler that runs goes on with what it has.
            logger.exception("a changed configuration cannot be checked")
            problem = f"cannot be checked: {type(defect).__name__}: {defect}"
            remedy = "see the traceback in the process log, or restore the file"
            raise _RefusedError([InputError(self.job.source, problem, remedy)]) from defect
        if problems := list(needing_restart(self.job, changed)):
            raise _RefusedError(problems)
        return changed

    def _all_problems(self) -> list[InputError]:
        try:
            text = read_text(self._files.config)
        except InputError as unreadable:
            return [unreadable]
        return service_plan.problems_of(self.job, text)

    async def _take_up(self, changed: ServiceOptions) -> None:
        """Puts a checked configuration in force. Raises InputError and UnavailableError."""
        is_for_terms = needs_term(self.job, changed)
        if is_for_terms:
            await self._reload(changed)
        else:
            self._running.taken_up(changed)
        before, after = self.job.settings.logging, changed.settings.logging
        if before != after:
            output.configure(after.format, after.level)
        self.job = changed
        self._metrics.applied(time.time())
        for warning in changed.assembly.warnings:
            logger.warning(warning)
        logger.info(
            "the configuration is in force",
            file=changed.source,
            configuration=changed.assembly.digest,
            decides_otherwise=is_for_terms,
        )
        note = f"{changed.source} is in force (configuration {changed.assembly.digest})"
        await self._announcer.announce("Normal", "ConfigurationReloaded", note)

    async def _reload(self, changed: ServiceOptions) -> None:
        kube, replica = self._running.kube, self._running.replica
        plan = self._running.plan_of(changed)
        prepared = await self._prepared(changed)
        in_force = asyncio.Event()

        def take_up() -> None:
            assembly = changed.assembly
            kube.take_up(
                prepared,
                assembly.configuration.extenders,
                assembly.optional_types,
                KeptAnnotations(kept_annotations(changed)),
            )
            self._running.taken_up(changed)
            in_force.set()

        replica.reload(Reload(plan, take_up))
        try:
            await in_force.wait()
        except asyncio.CancelledError:
            await kube.drop(prepared)
            raise

    async def _prepared(self, changed: ServiceOptions) -> Reconfigured:
        """What the configuration needs of the cluster. Raises InputError and UnavailableError."""
        assembly = changed.assembly
        try:
            async with asyncio.timeout(LIST_TIMEOUT):
                return await self._running.kube.reconfigured(
                    assembly.configuration.extenders,
                    changed.source,
                    assembly.optional_types,
                    KeptAnnotations(kept_annotations(changed)),
                )
        except TimeoutError:
            raise UnavailableError(
                changed.source,
                f"the cluster could not be listed for it in {LIST_TIMEOUT:g} s",
                f"it is tried again in {RETRY_AFTER:g} s",
            ) from None

    async def _refused(self, problems: list[InputError]) -> None:
        """Reports a configuration that is not taken up."""
        self._metrics.refused()
        for problem in problems[:_SHOWN]:
            logger.error(
                "the configuration is refused; the one before stays in force",
                where=problem.where,
                problem=problem.problem,
                remedy=problem.remedy,
            )
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        await self._announcer.announce("Warning", "ConfigurationRefused", f"{problems[0]}{more}")
