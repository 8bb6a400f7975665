"""Creates Events (events.k8s.io/v1), and keeps their number bounded.

A pod that cannot be placed fails every ten seconds, for days. Upstream's recorder (client-go
tools/events) writes the first two failures and counts the others in memory for half an hour, under
the words of the first. Here a pod's failures are written five times at once and then every five
minutes: the same words as a further occurrence in the Event's series, other words as an Event of
their own; what happens in between is counted. The annotation names the decision written last. Names
are those of the decisions, so a repeated request makes no second Event. The memory is this
process's: after a restart a pod that goes on failing gets a new Event.
"""

from asyncio import Lock
from dataclasses import dataclass, field
from functools import lru_cache

from eventsched.cluster.kube.calls import request_bodies
from eventsched.cluster.kube.http.api import MERGE_PATCH, Api, path
from eventsched.cluster.kube.http.refusals import Refusals, is_absent, is_done, is_refused, words
from eventsched.cluster.messages import Announce, Reported, Unknown

REMEMBERED = 10_000
"""Pods whose failures are counted; the one longest unused is forgotten first."""
INTERVAL = 300_000_000
"""Microseconds from one written failure of a pod to the next, when it fails for long."""
BURST = 5
"""Failures of a pod that are written at once."""
_REPEATED = "FailedScheduling"


@dataclass(slots=True)
class _Series:
    """The failures of one pod: those that the newest Event stands for, and when more may be
    written. All times are those of decisions (µs)."""

    name: str = ""
    note: str = ""
    count: int = 0
    last: int = -1
    written: int = -1
    earned: int = 0
    """When a pod that has written so often has earned it (a leaky bucket)."""
    lock: Lock = field(default_factory=Lock)

    def happened(self, at: int) -> None:
        """Counts an occurrence, once."""
        if at > self.last:
            self.last = at
            self.count += 1

    def may_write(self, at: int) -> bool:
        """Whether there is room for another write."""
        return self.earned <= at + (BURST - 1) * INTERVAL

    def wrote(self, at: int) -> None:
        """An occurrence was written."""
        self.written = at
        self.earned = max(self.earned, at) + INTERVAL


class EventCalls:
    """Carries out ``Announce``."""

    def __init__(self, api: Api, refusals: Refusals, host: str) -> None:
        self._api = api
        self._refusals = refusals
        self._host = host
        self._series: dict[tuple[str, str], _Series] = {}

    async def announce(self, request: Announce) -> Reported | Unknown:
        """Creates an Event, or counts it. Raises UnansweredError."""
        if request.reason != _REPEATED:
            return await self._create(request)
        series = self._series_of(request)
        async with series.lock:
            return await self._go_on(series, request)

    async def _go_on(self, series: _Series, request: Announce) -> Reported | Unknown:
        if request.at < series.last or request.at == series.written:
            return Reported(request)  # it was counted when it came before
        series.happened(request.at)
        if not series.may_write(request.at):
            return Reported(request)
        if series.name and request.note == series.note:
            done = await self._add(series, request)
        else:
            done = await self._create(request)
            if isinstance(done, Reported):
                series.name, series.note = request_bodies.event_name(request), request.note
                series.count = 1
        if isinstance(done, Reported):
            series.wrote(request.at)
        return done

    async def _create(self, request: Announce, count: int = 1) -> Reported | Unknown:
        body = request_bodies.event(request, self._host, count)
        answer = await self._api.call("POST", _events(request.namespace), body=body)
        self._refusals.saw("create events.k8s.io events", answer, pod=_pod(request))
        if is_done(answer) or answer.status == 409:
            return Reported(request)
        return Reported(request, refused=words(answer)) if is_refused(answer) else Unknown(request)

    async def _add(self, series: _Series, request: Announce) -> Reported | Unknown:
        target = _events(request.namespace) + path(series.name)
        body = request_bodies.series_patch(request, series.count)
        answer = await self._api.call("PATCH", target, body=body, content_type=MERGE_PATCH)
        self._refusals.saw("patch events.k8s.io events", answer, pod=_pod(request))
        if is_done(answer):
            return Reported(request)
        if is_absent(answer):  # the server drops Events after an hour
            series.name = request_bodies.event_name(request)
            return await self._create(request, series.count)
        return Reported(request, refused=words(answer)) if is_refused(answer) else Unknown(request)

    def _series_of(self, request: Announce) -> _Series:
        key = request.uid, request.controller
        series = self._series.pop(key, None) or _Series()
        self._series[key] = series
        if len(self._series) > REMEMBERED:
            del self._series[next(iter(self._series))]
        return series


@lru_cache
def _events(namespace: str) -> str:
    return path("apis", "events.k8s.io", "v1", "namespaces", namespace, "events")


def _pod(request: Announce) -> str:
    return f"{request.namespace}/{request.name}"
