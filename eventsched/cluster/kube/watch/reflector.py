"""Keeps the store of one resource up to date: lists, then watches, and recovers from failures.

The rules are those of client-go (tools/cache/reflector.go), with two exceptions. A list is always
consistent: it never comes from an API server's cache of unknown age. A broken watch resumes from
the version that it had reached, whatever broke it; only 410 leads to a new list.
"""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import aclosing
from http import HTTPStatus

from eventsched.cluster.kube.http.api import (
    ApiClient,
    HttpAnswer,
    Params,
    UnansweredError,
    WatchRefusedError,
    path,
)
from eventsched.cluster.kube.http.refusals import explained, words
from eventsched.cluster.kube.watch.decoded import Decoded
from eventsched.cluster.kube.watch.object_decoding import Decoder, ListPage, WatchError
from eventsched.cluster.kube.watch.reconnecting import Pace, ReconnectBackoff, ReconnectSignal
from eventsched.cluster.kube.watch.resource_store import ReportProblem, ResourceStore
from eventsched.domain.errors import InputError

LIST_TIMEOUT = 60.0
"""Seconds for a page of a list."""
WATCH_SECONDS = 300
"""The server ends a watch after this many seconds, up to twice as many (client-go's bounds)."""
_GONE = 410
_FINAL = (400, 401, 403, 404, 405)
"""At the first list these statuses mean a wrong configuration: the reflector gives up."""
_PROBES = 2
"""Probes (short watches) that ``catch_up`` waits for before it lists."""
_LASTING_SECONDS = 5.0
"""Seconds; a watch that lasted this long resumes at once when it breaks."""
_PROBE_SECONDS = 3
"""The shortest watch that gets a bookmark: it comes 2 s before the end (apiserver
storage/cacher/cache_watcher.go nextBookmarkTime)."""


class FirstList:
    """The first list of a resource while its pages are read. ``events`` are those that probes have
    shown since its ``version``, up to the end of the list; ``count`` is the number of objects."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.count = 0
        self.events: list[Decoded] = []
        self.is_stored = False


class Reflector:
    """Lists and watches one resource."""

    def __init__(
        self,
        api: ApiClient,
        store: ResourceStore,
        report: ReportProblem,
        pace: Pace,
        reconnect: ReconnectSignal,
    ) -> None:
        self.store = store
        self._reconnect = reconnect
        self._api = api
        self._report = report
        self._pace = pace
        self._resource = store.resource
        self.decoder = Decoder(store.resource, store.keeps, store.known, store.annotations)
        self._backoff = ReconnectBackoff(pace)
        self._is_listed = False
        self._first_list: FirstList | None = None
        self._has_watched = False
        self._watch_task: asyncio.Task[None] | None = None
        self._was_silent = False
        self._was_unreachable = False
        """Whether the server did not answer the last time that something failed."""
        self._last_line_at = 0.0
        self._definition_missing = False
        """Whether the resource's definition was missing at the last list."""

    async def run(self) -> None:
        """Runs until it is cancelled. Raises InputError if the server refuses the first list."""
        while True:
            began = self._pace.clock()
            try:
                if self._was_silent:
                    await self._check_for_restore()
                if not self._is_listed:
                    await self.relist()
                    self._is_listed = True
                    began = self._pace.clock()
                if self._definition_missing:
                    self._is_listed = False
                    await self._pace.sleep(self._pace.absent)
                    continue
                busy = await self._watch()
            except (UnansweredError, WatchRefusedError, WatchError) as error:
                lasted = self._pace.clock() - began
                self._was_silent = lasted >= _LASTING_SECONDS and self._last_line_at <= began
                pause = self._handle_failure(error, lasted)
                unreachable = isinstance(error, UnansweredError)
            else:
                # Back off from a server that ends every watch at once.
                short = not busy and self._pace.clock() - began < 1
                pause, unreachable = self._backoff.pause() if short else 0, False
            if pause:
                sleep = self._pace.sleep(pause)
                await (self._reconnect.wait(sleep) if unreachable else sleep)

    async def relist(self) -> None:
        """Lists all objects. Raises WatchRefusedError, UnansweredError."""
        version_before = self.store.version
        decoded: list[Decoded] = []
        page = await self._list_page(self._pace.page)
        version = page.version
        first_list = self._first_list = None if version_before else FirstList(version)
        try:
            while page.next:
                # The server prepares the next page while this one is decoded.
                following = asyncio.create_task(self._list_page(self._pace.page, page.next))
                try:
                    await asyncio.sleep(0)
                    decoded += self.decoder.objects(page)
                    if first_list is not None:
                        first_list.count = len(decoded)
                    page = await following
                finally:
                    following.cancel()
        finally:
            self._first_list = None
        decoded += self.decoder.objects(page)
        if self._definition_missing and version_before and not self.store.seen:
            return  # still no objects: nothing to report
        if version_before:
            self.store.progress.relists += 1
        self._store_list(version_before, version, decoded)
        if first_list is not None:
            first_list.is_stored = True
            for event in first_list.events:
                self.store.take(event)

    async def catch_up(self) -> None:
        """Returns when the store holds everything that happened before the call. A takeover waits
        for this barrier. Raises WatchRefusedError, UnansweredError.

        The watch of a resource without changes does not show which version it has reached. A small
        resource is therefore listed again, in one page. For a large one a probe is opened at the
        store's version: its bookmark comes within two seconds, or sooner if ``keep_probing`` has
        opened one before.
        """
        version_before = self.store.version
        if not self._is_large:
            page = await self._list_page(self._pace.few)
            if not page.next:
                self._store_list(version_before, page.version, self.decoder.objects(page))
                return
        version = (await self._list_page(1)).version
        for _ in range(_PROBES):
            if version < version_before:
                break
            if await self._reaches(version):
                return
        await self.relist()

    async def _check_for_restore(self) -> None:
        """Lists again if the server's storage was restored to an earlier state.

        The server does not refuse a watch from a version that it has not reached yet: it sends
        nothing (apiserver storage/cacher/cache_watcher.go, process). So this is called after a
        watch without any line."""
        version = (await self._list_page(1)).version
        self._was_silent = False
        self._is_listed = self._is_listed and version >= self.store.version

    async def _reaches(self, version: int) -> bool:
        """Opens a probe. Returns whether the store reaches the version before the probe ends."""
        probe = asyncio.create_task(self._probe())
        reached = asyncio.create_task(self.store.reached(version))
        try:
            await asyncio.wait((probe, reached), return_when=asyncio.FIRST_COMPLETED)
        finally:
            probe.cancel()
            reached.cancel()
            await asyncio.wait((probe, reached))
        return self.store.version >= version

    async def keep_probing(self, wanted: Callable[[], bool]) -> None:
        """Opens probes while ``wanted`` returns true, so that ``catch_up`` returns sooner. Runs
        until it is cancelled.

        The server sends the bookmarks of short watches about once a second, but only to watches
        that are at least a second old. Probes that overlap always include one of that age, also
        right after a long first list, because they begin with its first pages.
        """
        probes: set[asyncio.Task[None]] = set()
        try:
            while True:
                await self._pace.sleep(self._pace.attend)
                quiet = self._pace.clock() - self._last_line_at >= 2 * self._pace.attend
                can_watch = self._is_listed or self._first_list is not None
                if can_watch and self._is_large and quiet and wanted():
                    probe = asyncio.create_task(self._probe())
                    probes.add(probe)
                    probe.add_done_callback(probes.discard)
        finally:
            for probe in probes:
                probe.cancel()

    @property
    def _is_large(self) -> bool:
        listed = self._first_list.count if self._first_list is not None else 0
        return max(listed, len(self.store.seen)) >= self._pace.few

    def _store_list(self, version_before: int, version: int, decoded: list[Decoded]) -> None:
        """Stores a list. ``version_before`` is the store's version before the request. A consistent
        list has a lower version only if the server's storage was restored to an earlier state."""
        if version < version_before:
            self._report(
                "error",
                "cluster_went_back",
                resource=self._resource.type,
                known=version_before,
                found=version,
            )
            if self._watch_task is not None:
                # It would get no event until the server reaches its version again.
                self._watch_task.cancel()
        elif version <= self.store.version:
            return
        self.store.replace(version, decoded)

    async def _list_page(self, limit: int, next: str = "") -> ListPage:
        """One page of a list. A read without a resourceVersion is consistent."""
        params: dict[str, str | int] = {**self._selection(), "limit": limit}
        if next:
            params["continue"] = next
        answer = await self._api.call(
            "GET", self._resource.path, params=params, timeout=LIST_TIMEOUT
        )
        if answer.status == HTTPStatus.NOT_FOUND and self._resource.optional:
            return await self._empty_page()
        page = self._decoded_page(answer)
        if self._definition_missing:
            self._definition_missing = False
            definition = self._resource.definition
            self._report("info", "resource_installed", definition=definition)
        return page

    async def _empty_page(self) -> ListPage:
        """An empty page for a resource that the server does not have. Its version comes from a list
        of namespaces, which every server has: up to that version there were no objects."""
        params: dict[str, str | int] = {"limit": 1}
        namespaces = path("api", "v1", "namespaces")
        answer = await self._api.call("GET", namespaces, params=params, timeout=LIST_TIMEOUT)
        version = self._decoded_page(answer).version
        definition = self._resource.definition
        if not self._definition_missing:
            self._definition_missing = True
            remedy = "install it; until then there are no such objects"
            self._report("warning", "resource_missing", definition=definition, remedy=remedy)
        self.store.progress.problem = f"CustomResourceDefinition {definition} is not installed"
        return ListPage(version, "", ())

    def _decoded_page(self, answer: HttpAnswer) -> ListPage:
        if answer.status != HTTPStatus.OK:
            raise WatchRefusedError(answer)
        try:
            return self.decoder.page(answer.body)
        except ValueError as error:
            raise WatchRefusedError(HttpAnswer(502, b"the answer is not a list")) from error

    async def _watch(self) -> bool:
        """Watches until the server ends the watch. Returns whether any line came."""
        progress = self.store.progress
        progress.reconnects += self._has_watched
        self._has_watched = True
        lines = progress.lines
        seconds = round(WATCH_SECONDS * (1 + self._pace.draw()))
        self._watch_task = asyncio.create_task(
            self._read_watch(seconds, self._take, self._watch_opened)
        )
        try:
            await self._watch_task
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
        finally:
            self._watch_task = None
        return progress.lines > lines

    def _take(self, decoded: Decoded) -> bool:
        progress = self.store.progress
        progress.lines += 1
        progress.last_line = self._last_line_at = self._pace.clock()
        self.store.take(decoded)
        return True

    async def _probe(self) -> None:
        """A short watch that ends at its first bookmark. Errors are ignored: the store's version
        shows whether it helped. One that begins during the first list ends if that list fails:
        what it has shown by then is lost."""
        first_list = self._first_list
        if first_list is None and not self.store.version:
            return  # the first list has just failed, and a watch from version 0 is not a probe

        def take(decoded: Decoded) -> bool:
            if first_list is None or first_list.is_stored:
                self.store.take(decoded)
            elif first_list is self._first_list:
                first_list.events.append(decoded)
            else:
                return False
            return bool(decoded.key)  # a bookmark has no key

        with contextlib.suppress(UnansweredError, WatchRefusedError, WatchError):
            await self._read_watch(_PROBE_SECONDS, take)

    async def _read_watch(
        self,
        seconds: int,
        take: Callable[[Decoded], bool],
        opened: Callable[[], None] | None = None,
    ) -> None:
        """Watches from the store's version on, until ``take`` returns False or the server ends the
        watch. ``opened`` is called when the server accepts it."""
        since = self._first_list.version if self._first_list is not None else self.store.version
        params: dict[str, str | int] = {
            **self._selection(),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": since,
            "timeoutSeconds": seconds,
        }
        lines = self._api.lines(self._resource.path, params, stall=self._pace.stall, opened=opened)
        async with aclosing(lines):
            async for line in lines:
                decoded = self.decoder.line(line)
                if decoded.version and decoded.version < since:
                    raise WatchError(_GONE, "it sends versions older than the one it began with")
                if not take(decoded):
                    break

    def _watch_opened(self) -> None:
        if self.store.progress.problem:
            self._reconnect.notify()
        self.store.progress.problem = ""
        self.store.progress.last_line = self._pace.clock()

    def _selection(self) -> Params:
        selector = self._resource.selector
        return {"fieldSelector": selector} if selector else {}

    def _handle_failure(
        self, error: UnansweredError | WatchRefusedError | WatchError, lasted: float
    ) -> float:
        """Records and reports a failure. Returns the pause (s) before the next try."""
        refusal = error.answer if isinstance(error, WatchRefusedError) else None
        code = refusal.status if refusal else error.code if isinstance(error, WatchError) else 0
        if refusal and not self.store.version and code in _FINAL:
            raise self._configuration_error(refusal) from error
        reason = explained(refusal) if refusal else str(error)
        is_removed = code == HTTPStatus.NOT_FOUND and self._resource.optional
        if code == _GONE or is_removed:
            self._is_listed = False
        if code == _GONE and self._was_unreachable:
            # It is back, without its history: the pauses were for its return.
            self._backoff.restart()
        self._was_unreachable = isinstance(error, UnansweredError)
        pause = 0.0 if lasted >= _LASTING_SECONDS and not refusal else self._backoff.pause()
        if refusal and refusal.retry_after:
            pause = max(pause, refusal.retry_after)
        self.store.progress.problem = reason
        self._report(
            "info" if code == _GONE else "warning",
            "watch_broken",
            resource=self._resource.type,
            reason=reason,
            pause=round(pause, 3),
        )
        return pause

    def _configuration_error(self, refusal: HttpAnswer) -> InputError:
        """The error for a refusal that only an administrator can fix."""
        group, plural = self._resource.group, self._resource.plural
        remedies = {
            401: "log in again, or check the user in the kubeconfig",
            403: "add to the scheduler's ClusterRole the rule "
            f'{{apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["list", "watch"]}}',
        }
        return InputError(
            f"{plural} of the API server {self._api.access.server}",
            f"cannot be listed: {words(refusal)}",
            remedies.get(refusal.status, "check the URL, and that its Kubernetes is 1.26 or later"),
        )
