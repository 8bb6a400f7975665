"""Writes Events and pod status ("reports") to the cluster, in order and at low priority.

    committed ─▶ waiting ─▶ under way ─▶ reported
                    ▲ ╲─▶ dropped (too many, or out of date)
                    ╰── the pod had changed (409)

Nothing depends on a report, and none changes the engine's state. The waiting reports are bounded:
if the cluster is slow, the oldest FailedScheduling Events are dropped and counted. ``done_before``
goes into the mark of each batch; the next leader repeats the reports after it.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from eventsched.cluster.messages import PatchStatus, PodAbsent, PodShown, Reported, WriteEvent
from eventsched.domain import records
from eventsched.domain.records.log_entry import LogEntry
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.event_drafts import Draft, DraftedStatus
from eventsched.runtime.reconciliation.seen_versions import SeenVersions

MAX_CONCURRENT_REPORTS = 32
"""Reports under way at most."""
MAX_WAITING_REPORTS = 10_000
"""Reports that wait at most; beyond that some are dropped."""
DROPPED, REFUSED = "reports dropped", "reports refused"
Report = PatchStatus | WriteEvent


class EventOutbox:
    """The reports of one term."""

    def __init__(
        self,
        state: SchedulerState,
        seen_versions: SeenVersions,
        counts: Counter[str],
        *,
        at_once: int = MAX_CONCURRENT_REPORTS,
        max_waiting: int = MAX_WAITING_REPORTS,
    ) -> None:
        """``seen_versions`` are those of pods. ``counts`` counts the reports that were dropped and
        those that the API server refused (``DROPPED``, ``REFUSED``)."""
        self.counts = counts
        self._state = state
        self._seen_versions = seen_versions
        self._at_once = at_once
        self._max_waiting = max_waiting
        self._number = 0
        self._open: dict[int, int] = {}
        """Number → position of the drafts that are not reported yet, oldest first."""
        self._new: list[tuple[int, Draft]] = []
        self._waiting: dict[int, Draft] = {}
        self._failures: dict[int, None] = {}
        """The numbers of the waiting FailedScheduling Events."""
        self._statuses: dict[str, int] = {}
        """By uid: the number of the waiting status."""
        self._calls: dict[Report, tuple[int, Draft]] = {}
        self._status_under_way: set[str] = set()
        """The pods whose status is under way."""
        self._reported: dict[str, DraftedStatus] = {}
        """By uid: the status that was written last."""

    # --- drafts ---------------------------------------------------------------------------

    def on_records(self, logged: Iterable[LogEntry], drafts: Iterable[Draft]) -> None:
        """Takes in records that are not committed yet, and their drafts."""
        for draft in drafts:
            self._number += 1
            self._open[self._number] = draft.position
            self._new.append((self._number, draft))
        for entry in logged:
            if isinstance(entry.record, records.PodDeleted | records.PodBound):
                self._reported.pop(entry.record.uid, None)

    def committed(self, position: int) -> None:
        """All records before a position are durable."""
        count = 0
        for number, draft in self._new:
            if draft.position >= position:
                break
            count += 1
            self._wait(number, draft)
        del self._new[:count]

    @property
    def open(self) -> list[Draft]:
        """The drafts that are not reported yet. All of them may be reported again."""
        numbered = [*self._calls.values(), *self._waiting.items(), *self._new]
        return [draft for _, draft in sorted(numbered, key=lambda pair: pair[0])]

    def done_before(self, end: int) -> int:
        """The position, at most ``end``, before which everything is reported."""
        return min(end, next(iter(self._open.values()), end))

    def __len__(self) -> int:
        return len(self._open)

    def _wait(self, number: int, draft: Draft) -> None:
        if draft.status is not None:
            self._wait_with_status(number, draft)
            return
        event = draft.event
        if event is not None and event.reason == "FailedScheduling":
            self._failures[number] = None
        self._waiting[number] = draft
        if len(self._waiting) > self._max_waiting:
            oldest = next(iter(self._failures), next(iter(self._waiting)))
            self._pop(oldest)
            del self._open[oldest]
            self.counts[DROPPED] += 1

    def _wait_with_status(self, number: int, draft: Draft) -> None:
        """A waiting status of the same pod is merged into this one."""
        assert draft.status is not None
        new, before = draft.status, self._statuses.get(draft.status.uid)
        if before is not None:
            del self._open[number]
            number, old = before, self._waiting[before]
            assert old.status is not None
            # The older position, because the draft stands for both.
            draft = Draft(old.position, status=_merged(old.status, new))
        self._waiting[number] = draft
        self._statuses[new.uid] = number

    def _pop(self, number: int) -> Draft:
        draft = self._waiting.pop(number)
        self._failures.pop(number, None)
        if draft.status is not None:
            del self._statuses[draft.status.uid]
        return draft

    # --- requests -------------------------------------------------------------------------

    def next_requests(self) -> list[Report]:
        """The reports that are to be requested now."""
        reports: list[Report] = []
        while (room := self._at_once - len(self._calls)) > 0:
            ready = (number for number, draft in self._waiting.items() if self._is_ready(draft))
            numbers = list(islice(ready, room))
            if not numbers:
                break
            for number in numbers:
                reports += self._send(number)
        return reports

    def _is_ready(self, draft: Draft) -> bool:
        """Whether a draft can be sent now: a pod's statuses are written one after the other."""
        return draft.status is None or draft.status.uid not in self._status_under_way

    def _send(self, number: int) -> list[Report]:
        draft = self._pop(number)
        report = self._request(draft.status) if draft.status is not None else draft.event
        if report is None:
            del self._open[number]
            return []
        self._calls[report] = number, draft
        if draft.status is not None:
            self._status_under_way.add(draft.status.uid)
        return [report]

    def _request(self, status: DraftedStatus) -> PatchStatus | None:
        """The request for a status; None if the pod is placed or gone, or shows the status
        already."""
        pod_state = self._state.pods.get(status.uid)
        if pod_state is None or pod_state.bound:
            return None
        reservation = self._state.reservations.get(status.uid)
        if reservation is not None and reservation.intended:
            return None
        pod, last = pod_state.pod, self._reported.get(status.uid)
        reason, nominated = status.reason, status.nominated
        if last is not None and (last.reason, last.message) == (reason, status.message):
            reason = ""
        if nominated == pod.nominated_node and (
            last is None or last.nominated in (None, nominated)
        ):
            nominated = None
        if not reason and nominated is None:
            return None
        return PatchStatus(
            uid=pod.uid,
            namespace=pod.namespace,
            name=pod.name,
            resource_version=self._seen_versions.version(pod.uid),
            reason=reason,
            message=status.message if reason else "",
            nominated_node=nominated,
            at=status.at,
        )

    # --- answers --------------------------------------------------------------------------

    def answered(self, answer: Reported | PodShown | PodAbsent) -> None:
        """The cluster has answered. A pod in the answer was observed before."""
        assert isinstance(answer.request, PatchStatus | WriteEvent)
        call = self._calls.pop(answer.request, None)
        if call is None:
            return
        number, draft = call
        status = draft.status
        if status is not None:
            self._status_under_way.remove(status.uid)
            if isinstance(answer, PodShown):
                # An earlier try that was not answered may have been written.
                self._reported.pop(status.uid, None)
                self._retry(number, draft, status)
                return
            if isinstance(answer, Reported) and not answer.refused:
                last = self._reported.get(status.uid)
                self._reported[status.uid] = status if last is None else _merged(last, status)
        if isinstance(answer, Reported) and answer.refused:
            self.counts[REFUSED] += 1
        del self._open[number]

    def _retry(self, number: int, draft: Draft, status: DraftedStatus) -> None:
        """Puts back a status that was not written because the pod had changed."""
        newer = self._statuses.get(status.uid)
        if newer is not None:
            later = self._pop(newer).status
            assert later is not None
            draft = Draft(draft.position, status=_merged(status, later))
            del self._open[newer]
        self._waiting[number] = draft
        self._statuses[status.uid] = number

    def awaits(self, request: Report) -> bool:
        """Whether a report is under way."""
        return request in self._calls


def _merged(old: DraftedStatus, new: DraftedStatus) -> DraftedStatus:
    """The newer status; what it leaves unchanged comes from the older one."""
    condition = new if new.reason else old
    nominated = old.nominated if new.nominated is None else new.nominated
    return DraftedStatus(new.uid, condition.reason, condition.message, nominated, new.at)
