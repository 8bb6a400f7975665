"""Tells the cluster what was decided: some reports at a time, in order, and never in the way.

    committed ─▶ waiting ─▶ under way ─▶ reported
                    ▲ ╲─▶ dropped (there are too many, or it is out of date)
                    ╰── changed meanwhile (409)

Nothing depends on a report, and none changes the engine's state. What is waiting is bounded: where
the cluster is slow, the oldest FailedScheduling events are dropped, and counted. ``done_before``
goes into the mark of each batch; the next leader repeats what follows it.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import islice

from eventsched.cluster.messages import Announce, PodAbsent, PodShown, Reported, ReportPod
from eventsched.domain import records
from eventsched.domain.records.logged import Logged
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.event_drafts import Draft, DraftedStatus
from eventsched.runtime.reconciliation.seen_versions import SeenVersions

AT_ONCE = 32
"""Reports under way."""
BACKLOG = 10_000
"""Reports that wait to be sent; beyond that some are dropped."""
DROPPED, REFUSED = "reports dropped", "reports refused"
Report = ReportPod | Announce


class EventOutbox:
    """The reports of one term."""

    def __init__(
        self,
        state: SchedulerState,
        sight: SeenVersions,
        counts: Counter[str],
        *,
        at_once: int = AT_ONCE,
        backlog: int = BACKLOG,
    ) -> None:
        """``sight`` is how new the pods are that were seen. ``counts`` has how many were given up
        for want of room, and how many the API server would not take (``DROPPED``, ``REFUSED``)."""
        self.counts = counts
        self._state = state
        self._seen_versions = sight
        self._at_once = at_once
        self._backlog = backlog
        self._number = 0
        self._open: dict[int, int] = {}
        """Number → position: what is not told yet, oldest first."""
        self._new: list[tuple[int, Draft]] = []
        self._waiting: dict[int, Draft] = {}
        self._failures: dict[int, None] = {}
        """The FailedScheduling events among those."""
        self._statuses: dict[str, int] = {}
        """By uid: the status that waits, also for the one before it to be told."""
        self._calls: dict[Report, tuple[int, Draft]] = {}
        self._busy: set[str] = set()
        """The pods whose status is under way."""
        self._told: dict[str, DraftedStatus] = {}

    # --- what there is to tell ------------------------------------------------------------

    def follow(self, logged: Iterable[Logged], drafts: Iterable[Draft]) -> None:
        """Takes in records that are not committed yet, and what they give to tell."""
        for draft in drafts:
            self._number += 1
            self._open[self._number] = draft.position
            self._new.append((self._number, draft))
        for each in logged:
            if isinstance(each.record, records.PodDeleted | records.PodBound):
                self._told.pop(each.record.uid, None)

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
        """What is not told yet; all of it can be told again."""
        found = [*self._calls.values(), *self._waiting.items(), *self._new]
        return [draft for _, draft in sorted(found, key=lambda each: each[0])]

    def done_before(self, end: int) -> int:
        """The position, ``end`` at most, up to which everything is told."""
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
        if len(self._waiting) > self._backlog:
            oldest = next(iter(self._failures), next(iter(self._waiting)))
            self._take(oldest)
            del self._open[oldest]
            self.counts[DROPPED] += 1

    def _wait_with_status(self, number: int, draft: Draft) -> None:
        """Only the newest is told; what it says nothing of, it takes over."""
        assert draft.status is not None
        new, before = draft.status, self._statuses.get(draft.status.uid)
        if before is not None:
            del self._open[number]
            number, old = before, self._waiting[before]
            assert old.status is not None
            # It stands for the older one too: whoever repeats it begins there.
            draft = Draft(old.position, status=_merged(old.status, new))
        self._waiting[number] = draft
        self._statuses[new.uid] = number

    def _take(self, number: int) -> Draft:
        draft = self._waiting.pop(number)
        self._failures.pop(number, None)
        if draft.status is not None:
            del self._statuses[draft.status.uid]
        return draft

    # --- telling --------------------------------------------------------------------------

    def more(self) -> list[Report]:
        """The reports that are to be sent now."""
        found: list[Report] = []
        while (room := self._at_once - len(self._calls)) > 0:
            ready = list(islice((n for n, each in self._waiting.items() if self._may(each)), room))
            if not ready:
                break
            for number in ready:
                found += self._send(number)
        return found

    def _may(self, draft: Draft) -> bool:
        """A pod's statuses are written one after the other."""
        return draft.status is None or draft.status.uid not in self._busy

    def _send(self, number: int) -> list[Report]:
        draft = self._take(number)
        report = self._request(draft.status) if draft.status is not None else draft.event
        if report is None:
            del self._open[number]
            return []
        self._calls[report] = number, draft
        if draft.status is not None:
            self._busy.add(draft.status.uid)
        return [report]

    def _request(self, status: DraftedStatus) -> ReportPod | None:
        """What has to be written; None where the pod is placed or gone, or shows it already."""
        found = self._state.pods.get(status.uid)
        if found is None or found.bound:
            return None
        held = self._state.reservations.get(status.uid)
        if held is not None and held.intended:
            return None
        pod, told = found.pod, self._told.get(status.uid)
        reason, nominated = status.reason, status.nominated
        if told is not None and (told.reason, told.message) == (reason, status.message):
            reason = ""
        if nominated == pod.nominated_node and (
            told is None or told.nominated in (None, nominated)
        ):
            nominated = None
        if not reason and nominated is None:
            return None
        return ReportPod(
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
        """The cluster has answered; a pod that came with it was observed before."""
        assert isinstance(answer.request, ReportPod | Announce)
        call = self._calls.pop(answer.request, None)
        if call is None:
            return
        number, draft = call
        status = draft.status
        if status is not None:
            self._busy.remove(status.uid)
            if isinstance(answer, PodShown):
                self._again(number, draft, status)
                return
            if isinstance(answer, Reported) and not answer.refused:
                told = self._told.get(status.uid)
                self._told[status.uid] = status if told is None else _merged(told, status)
        if isinstance(answer, Reported) and answer.refused:
            self.counts[REFUSED] += 1
        del self._open[number]

    def _again(self, number: int, draft: Draft, status: DraftedStatus) -> None:
        """A pod had changed when its status was to be written."""
        newer = self._statuses.get(status.uid)
        if newer is not None:
            later = self._take(newer).status
            assert later is not None
            draft = Draft(draft.position, status=_merged(status, later))
            del self._open[newer]
        self._waiting[number] = draft
        self._statuses[status.uid] = number

    def awaits(self, request: Report) -> bool:
        """Whether a report is under way."""
        return request in self._calls


def _merged(old: DraftedStatus, new: DraftedStatus) -> DraftedStatus:
    """What the newer one says, and of the older one what that says nothing of."""
    kept = new if new.reason else old
    nominated = old.nominated if new.nominated is None else new.nominated
    return DraftedStatus(new.uid, kept.reason, kept.message, nominated, new.at)
