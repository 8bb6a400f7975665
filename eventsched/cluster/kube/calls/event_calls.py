"""Creates Events (events.k8s.io/v1), and limits their rate.

A pod that cannot be placed may fail every ten seconds, for days. Upstream's recorder (client-go
tools/events) writes the first two failures, then counts the others in memory for half an hour under
the note of the first.

Here the first five failures of a pod are written at once, then one every five minutes; the others
are only counted. If the note is the same as in the pod's last Event, that Event's count is updated;
otherwise a new Event is created. The annotation names the decision that was written last. An
Event's name is derived from its decision, so a repeated request creates no second Event. The counts
are in memory: after a restart a pod that still fails gets a new Event.
"""

from asyncio import Lock
from dataclasses import dataclass, field
from functools import lru_cache

from eventsched.cluster.kube.calls import request_bodies
from eventsched.cluster.kube.http.api import MERGE_PATCH, ApiClient, path
from eventsched.cluster.kube.http.refusals import Refusals, is_absent, is_done, is_refused, words
from eventsched.cluster.messages import Reported, Unknown, WriteEvent

MAX_COUNTED_PODS = 10_000
"""Pods whose failures are counted. Beyond that the least recently used is dropped."""
WRITE_INTERVAL = 300_000_000
"""Microseconds between two written failures of a pod after the burst."""
BURST = 5
"""Failures of a pod that are written without a pause."""
_REPEATED_REASON = "FailedScheduling"


@dataclass(slots=True)
class _Series:
    """The failures of one pod. ``name``, ``note`` and ``count`` are those of its newest Event. The
    times (µs) are those of decisions, not of writes."""

    name: str = ""
    note: str = ""
    count: int = 0
    counted_at: int = -1
    written_at: int = -1
    bucket_empty_at: int = 0
    """When the leaky bucket that limits writes is empty: each write adds ``WRITE_INTERVAL``."""
    lock: Lock = field(default_factory=Lock)

    def add_occurrence(self, at: int) -> None:
        """Counts a failure, unless it has been counted already."""
        if at > self.counted_at:
            self.counted_at = at
            self.count += 1

    def may_write(self, at: int) -> bool:
        """Whether the rate limit allows another write."""
        return self.bucket_empty_at <= at + (BURST - 1) * WRITE_INTERVAL

    def add_write(self, at: int) -> None:
        """Records that a failure was written."""
        self.written_at = at
        self.bucket_empty_at = max(self.bucket_empty_at, at) + WRITE_INTERVAL


class EventCalls:
    """Carries out ``WriteEvent``."""

    def __init__(self, api: ApiClient, refusals: Refusals, host: str) -> None:
        self._api = api
        self._refusals = refusals
        self._host = host
        self._series: dict[tuple[str, str], _Series] = {}

    async def write_event(self, request: WriteEvent) -> Reported | Unknown:
        """Creates an Event, or counts a repeated failure. Raises UnansweredError."""
        if request.reason != _REPEATED_REASON:
            return await self._create(request)
        series = self._series_of(request)
        async with series.lock:
            return await self._announce_failure(series, request)

    async def _announce_failure(self, series: _Series, request: WriteEvent) -> Reported | Unknown:
        if request.at < series.counted_at or request.at == series.written_at:
            return Reported(request)  # a repeated request: the failure has been counted
        series.add_occurrence(request.at)
        if not series.may_write(request.at):
            return Reported(request)
        if series.name and request.note == series.note:
            outcome = await self._extend(series, request)
        else:
            outcome = await self._create(request)
            if isinstance(outcome, Reported):
                series.name, series.note = request_bodies.event_name(request), request.note
                series.count = 1
        if isinstance(outcome, Reported):
            series.add_write(request.at)
        return outcome

    async def _create(self, request: WriteEvent, count: int = 1) -> Reported | Unknown:
        body = request_bodies.event(request, self._host, count)
        answer = await self._api.call("POST", _events_path(request.namespace), body=body)
        self._refusals.saw("create events.k8s.io events", answer, pod=_pod_name(request))
        if is_done(answer) or answer.status == 409:
            return Reported(request)
        return Reported(request, refused=words(answer)) if is_refused(answer) else Unknown(request)

    async def _extend(self, series: _Series, request: WriteEvent) -> Reported | Unknown:
        """Writes the count of a series into its Event; creates the Event again if it is gone."""
        target = _events_path(request.namespace) + path(series.name)
        body = request_bodies.series_patch(request, series.count)
        answer = await self._api.call("PATCH", target, body=body, content_type=MERGE_PATCH)
        self._refusals.saw("patch events.k8s.io events", answer, pod=_pod_name(request))
        if is_done(answer):
            return Reported(request)
        if is_absent(answer):  # the server drops Events after an hour
            series.name = request_bodies.event_name(request)
            return await self._create(request, series.count)
        return Reported(request, refused=words(answer)) if is_refused(answer) else Unknown(request)

    def _series_of(self, request: WriteEvent) -> _Series:
        key = request.uid, request.controller
        series = self._series.pop(key, None) or _Series()
        self._series[key] = series
        if len(self._series) > MAX_COUNTED_PODS:
            del self._series[next(iter(self._series))]
        return series


@lru_cache
def _events_path(namespace: str) -> str:
    return path("apis", "events.k8s.io", "v1", "namespaces", namespace, "events")


def _pod_name(request: WriteEvent) -> str:
    return f"{request.namespace}/{request.name}"
