"""Keeps the shelf of one resource true: lists, then watches, and goes on after whatever happens.

The rules are those of client-go (tools/cache/reflector.go), except that a list is always
a consistent one (never from an API server's cache of unknown age), and that a broken watch is
resumed from the version it had reached, whatever broke it; only 410 leads to a new list.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus

from eventsched.cluster.kube.http.api import (
    Api,
    HttpAnswer,
    Params,
    UnansweredError,
    WatchRefusedError,
    path,
)
from eventsched.cluster.kube.http.refusals import explained, words
from eventsched.cluster.kube.watch.decoded import Decoded
from eventsched.cluster.kube.watch.object_decoding import Decoder, ListPage, WatchError
from eventsched.cluster.kube.watch.resource_store import ReportProblem, ResourceStore
from eventsched.domain.errors import InputError

LIST_TIMEOUT = 60.0
"""Seconds for a page of a list."""
WATCH_SECONDS = 300
"""The server ends a watch after this many seconds, up to twice as many (client-go's bounds)."""
_GONE = 410
_FINAL = (400, 401, 403, 404, 405)
"""To be told so at the first list is a matter of configuration."""
_PROBES = 2
"""Short watches before a barrier gives up and lists."""
_LASTING = 5.0
"""Seconds; a watch that lasted as long is resumed at once when it breaks."""
_PROBE_SECONDS = 3
"""The shortest watch that gets a bookmark: it comes 2 s before the end (apiserver
storage/cacher/cache_watcher.go nextBookmarkTime)."""


@dataclass
class Pace:
    """How a reflector goes about time; all of it is injected in tests. ``page`` is how many objects
    one answer may hold; ``few`` how many are read anew rather than waited for; ``stall`` (s) the
    longest silence of a watch: an API server sends a bookmark about every minute; ``attend`` (s)
    how often a large, quiet resource is looked at while a barrier may come, 0 for never; ``absent``
    (s) how often it is asked for a resource whose definition is not installed."""

    page: int = 500
    few: int = 2000
    attend: float = 0.5
    stall: float = 120.0
    absent: float = 10.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random


@dataclass
class ReconnectBackoff:
    """Pauses that double: 0.8 s to 30 s, each up to twice as long by chance; back to the first when
    none was needed for two minutes (client-go's numbers)."""

    pace: Pace
    _next: float = field(default=0.8, init=False)
    _last: float = field(default=float("-inf"), init=False)

    def pause(self) -> float:
        """The next pause in seconds."""
        now = self.pace.clock()
        if now - self._last > 120:
            self._next = 0.8
        self._last = now
        pause = self._next * (1 + self.pace.draw())
        self._next = min(30.0, self._next * 2)
        return pause


class ReconnectSignal:
    """Shared by reflectors of one server: the first that finds it there again wakes the others."""

    def __init__(self) -> None:
        self._there = asyncio.Event()

    def rouse(self) -> None:
        """The server answers."""
        self._there.set()
        self._there = asyncio.Event()

    async def rest(self, sleep: Awaitable[None]) -> None:
        """Sleeps, or until another one rouses."""
        tasks = [asyncio.ensure_future(each) for each in (sleep, self._there.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()


class Reflector:
    """Lists and watches one resource."""

    def __init__(
        self,
        api: Api,
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
        self._current = False
        self._watched = False
        self._watching: asyncio.Task[None] | None = None
        self._mute = False
        self._spoke = 0.0
        self._absent = False
        """Whether the resource's definition was missing when it was last asked for."""

    async def run(self) -> None:
        """Until it is cancelled. Raises InputError where the server refuses the first list."""
        while True:
            began = self._pace.clock()
            try:
                if self._mute:
                    await self._look_back()
                if not self._current:
                    await self.relist()
                    self._current = True
                    began = self._pace.clock()
                if self._absent:
                    self._current = False
                    await self._pace.sleep(self._pace.absent)
                    continue
                busy = await self._watch()
            except (UnansweredError, WatchRefusedError, WatchError) as error:
                lasted = self._pace.clock() - began
                self._mute = lasted >= _LASTING and self._spoke <= began
                pause = self._fault(error, lasted)
                away = isinstance(error, UnansweredError)
            else:
                # One that ends at once, time after time, is no watch.
                short = not busy and self._pace.clock() - began < 1
                pause, away = self._backoff.pause() if short else 0, False
            if pause:
                sleep = self._pace.sleep(pause)
                await (self._reconnect.rest(sleep) if away else sleep)

    async def relist(self) -> None:
        """Reads everything anew. Raises RefusedError, UnansweredError."""
        asked = self.store.version
        told: list[Decoded] = []
        page = await self._page(self._pace.page)
        version = page.version
        while page.next:
            # The server prepares the next page while this one is decoded.
            following = asyncio.create_task(self._page(self._pace.page, page.next))
            try:
                await asyncio.sleep(0)
                told += self.decoder.objects(page)
                page = await following
            finally:
                following.cancel()
        told += self.decoder.objects(page)
        if self._absent and asked and not self.store.seen:
            return  # nothing is there still, which is no news
        if asked:
            self.store.progress.relists += 1
        self._replace(asked, version, told)

    async def settle(self) -> None:
        """Returns when the shelf holds all that had happened when this was called: the barrier of a
        takeover. Raises RefusedError, UnansweredError.

        A watch of a quiet resource does not say how far it is. So a small resource is read anew, in
        one answer; for a large one a second watch is opened where the first one is, whose bookmark
        comes in a second or two (sooner where ``attend`` has opened one before).
        """
        asked = self.store.version
        if not self._is_large:
            page = await self._page(self._pace.few)
            if not page.next:
                self._replace(asked, page.version, self.decoder.objects(page))
                return
        version = (await self._page(1)).version
        for _ in range(_PROBES):
            if version < asked:
                break
            if await self._overtakes(version):
                return
        await self.relist()

    async def _look_back(self) -> None:
        """After a watch that said nothing at all. One that begins at a version which the server has
        not reached is not refused, but told nothing (apiserver storage/cacher/cache_watcher.go,
        process): so it is where the server's storage was put back to an earlier state."""
        version = (await self._page(1)).version
        self._mute = False
        self._current = self._current and version >= self.store.version

    async def _overtakes(self, version: int) -> bool:
        """Whether a version is reached while a probe lives."""
        probe = asyncio.create_task(self._probe())
        reached = asyncio.create_task(self.store.reached(version))
        try:
            await asyncio.wait((probe, reached), return_when=asyncio.FIRST_COMPLETED)
        finally:
            probe.cancel()
            reached.cancel()
            await asyncio.wait((probe, reached))
        return self.store.version >= version

    async def attend(self, wanted: Callable[[], bool]) -> None:
        """Until it is cancelled: sees to it that a barrier can be passed soon, while it is wanted.

        Bookmarks of short watches are sent when the server's clock for them ticks, every second or
        so, but not before a second of the watch's life. So there is always one that is old enough.
        """
        probes: set[asyncio.Task[None]] = set()
        try:
            while True:
                await self._pace.sleep(self._pace.attend)
                quiet = self._pace.clock() - self._spoke >= 2 * self._pace.attend
                if self._current and self._is_large and quiet and wanted():
                    probe = asyncio.create_task(self._probe())
                    probes.add(probe)
                    probe.add_done_callback(probes.discard)
        finally:
            for probe in probes:
                probe.cancel()

    @property
    def _is_large(self) -> bool:
        return len(self.store.seen) >= self._pace.few

    def _replace(self, asked: int, version: int, told: list[Decoded]) -> None:
        """A consistent list cannot be older than what was known when it was asked for, unless the
        server's storage was put back to an earlier state."""
        if version < asked:
            self._report(
                "error",
                "cluster_went_back",
                resource=self._resource.type,
                known=asked,
                found=version,
            )
            if self._watching is not None:
                self._watching.cancel()  # it would say nothing up to where it began
        elif version <= self.store.version:
            return
        self.store.replace(version, told)

    async def _page(self, limit: int, next: str = "") -> ListPage:
        """Without a resourceVersion a read is consistent."""
        params: dict[str, str | int] = {**self._selection(), "limit": limit}
        if next:
            params["continue"] = next
        answer = await self._api.call(
            "GET", self._resource.path, params=params, timeout=LIST_TIMEOUT
        )
        if answer.status == HTTPStatus.NOT_FOUND and self._resource.optional:
            return await self._nothing()
        page = self._decoded(answer)
        if self._absent:
            self._absent = False
            definition = self._resource.definition
            self._report("info", "resource_installed", definition=definition)
        return page

    async def _nothing(self) -> ListPage:
        """The page of a resource that the server does not have. Its version is that of a list of
        something that every server has: up to there it is certain."""
        params: dict[str, str | int] = {"limit": 1}
        namespaces = path("api", "v1", "namespaces")
        answer = await self._api.call("GET", namespaces, params=params, timeout=LIST_TIMEOUT)
        version = self._decoded(answer).version
        definition = self._resource.definition
        if not self._absent:
            self._absent = True
            remedy = "install it; until then there are no such objects"
            self._report("warning", "resource_missing", definition=definition, remedy=remedy)
        self.store.progress.problem = f"CustomResourceDefinition {definition} is not installed"
        return ListPage(version, "", ())

    def _decoded(self, answer: HttpAnswer) -> ListPage:
        if answer.status != HTTPStatus.OK:
            raise WatchRefusedError(answer)
        try:
            return self.decoder.page(answer.body)
        except ValueError as error:
            raise WatchRefusedError(HttpAnswer(502, b"the answer is no list")) from error

    async def _watch(self) -> bool:
        """Until the server ends it; whether it said anything."""
        progress = self.store.progress
        progress.reconnects += self._watched
        self._watched = True
        lines = progress.lines
        seconds = round(WATCH_SECONDS * (1 + self._pace.draw()))
        self._watching = asyncio.create_task(self._follow(seconds, self._take, self._heard))
        try:
            await self._watching
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
        finally:
            self._watching = None
        return progress.lines > lines

    def _take(self, told: Decoded) -> bool:
        progress = self.store.progress
        progress.lines += 1
        progress.last_line = self._spoke = self._pace.clock()
        self.store.take(told)
        return True

    async def _probe(self) -> None:
        """A short watch, until its bookmark. What becomes of it is seen by the version that was
        reached."""

        def take(told: Decoded) -> bool:
            self.store.take(told)
            return bool(told.key)

        with contextlib.suppress(UnansweredError, WatchRefusedError, WatchError):
            await self._follow(_PROBE_SECONDS, take)

    async def _follow(
        self,
        seconds: int,
        take: Callable[[Decoded], bool],
        opened: Callable[[], None] | None = None,
    ) -> None:
        """A watch that begins where the shelf is: until ``take`` has enough, or the server ends
        it."""
        since = self.store.version
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
                told = self.decoder.line(line)
                if told.version and told.version < since:
                    raise WatchError(_GONE, "it tells of versions before the one it began with")
                if not take(told):
                    break

    def _heard(self) -> None:
        if self.store.progress.problem:
            self._reconnect.rouse()
        self.store.progress.problem = ""
        self.store.progress.last_line = self._pace.clock()

    def _selection(self) -> Params:
        selector = self._resource.selector
        return {"fieldSelector": selector} if selector else {}

    def _fault(
        self, error: UnansweredError | WatchRefusedError | WatchError, lasted: float
    ) -> float:
        """What follows from it; how long to wait (s)."""
        refused = error.answer if isinstance(error, WatchRefusedError) else None
        code = refused.status if refused else error.code if isinstance(error, WatchError) else 0
        if refused and not self.store.version and code in _FINAL:
            raise self._final(refused) from error
        reason = explained(refused) if refused else str(error)
        is_removed = code == HTTPStatus.NOT_FOUND and self._resource.optional
        if code == _GONE or is_removed:
            self._current = False
        pause = 0.0 if lasted >= _LASTING and not refused else self._backoff.pause()
        if refused and refused.retry_after:
            pause = max(pause, refused.retry_after)
        self.store.progress.problem = reason
        self._report(
            "info" if code == _GONE else "warning",
            "watch_broken",
            resource=self._resource.type,
            reason=reason,
            pause=round(pause, 3),
        )
        return pause

    def _final(self, refused: HttpAnswer) -> InputError:
        """What somebody has to change before this resource can be read."""
        group, plural = self._resource.group, self._resource.plural
        remedies = {
            401: "log in again, or check the user in the kubeconfig",
            403: "add to the scheduler's ClusterRole the rule "
            f'{{apiGroups: ["{group}"], resources: ["{plural}"], verbs: ["list", "watch"]}}',
        }
        return InputError(
            f"{plural} of the API server {self._api.access.server}",
            f"cannot be listed: {words(refused)}",
            remedies.get(refused.status, "check the URL, and that its Kubernetes is 1.26 or later"),
        )
