"""Reports: some at a time, the newest status of a pod, nothing out of date, nothing without end."""

from collections import Counter
from typing import Any

from eventsched.cluster.messages import (
    PatchStatus,
    PodAbsent,
    PodSeen,
    PodShown,
    Reported,
    WriteEvent,
)
from eventsched.domain import records
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.event_drafts import Draft, DraftedStatus
from eventsched.runtime.effects.event_outbox import DROPPED, REFUSED, EventOutbox
from eventsched.runtime.reconciliation.seen_versions import SeenVersions
from tests.builders import make_pod


def event(pod: str, reason: Any = "Scheduled", note: str = "", at: int = 0, key: str = "") -> Draft:
    """An event of a pod; it follows from the record at ``at``."""
    return Draft(
        at,
        event=WriteEvent(
            key=key or f"s/{at}@t", namespace="default", name=pod, uid=pod, reason=reason,
            action="Binding", type="Normal", note=note, related=None, at=at, controller="c",
        ),
    )  # fmt: skip


def status(pod: str, message: str = "", nominated: str | None = None, at: int = 0) -> Draft:
    """A status of a pod, without a reason if there is no message."""
    reason = "Unschedulable" if message else ""
    return Draft(at, status=DraftedStatus(pod, reason, message, nominated, at))


def patch(pod: str, message: str, nominated: str | None, version: int, at: int = 0) -> PatchStatus:
    """What that asks for."""
    reason = "Unschedulable" if message else ""
    return PatchStatus(pod, "default", pod, version, reason, message, nominated, at)


class OutboxHarness:
    """Reports about pods p0 … p9, all seen at resourceVersion 5."""

    def __init__(self, **limits: int) -> None:
        self.state, self.seen_versions = SchedulerState(), SeenVersions()
        self.reports = EventOutbox(self.state, self.seen_versions, Counter(), **limits)
        for number in range(10):
            self.state.apply(records.PodAdded(pod=make_pod(f"p{number}")), 0)
            self.seen_versions.note_answer(f"p{number}", 5)

    def add(self, *drafts: Draft) -> list[Any]:
        """Takes in drafts that are committed; what is sent."""
        self.reports.on_records((), drafts)
        self.reports.committed(10**9)
        return list(self.reports.next_requests())

    def answer(self, request: Any, **fields: Any) -> list[Any]:
        """A report is done; what is sent next."""
        self.reports.answered(Reported(request, **fields))
        return list(self.reports.next_requests())


def test_nothing_is_told_before_the_commit() -> None:
    """The mark says up to where all is reported."""
    harness = OutboxHarness()
    first, second = event("p1", at=3), event("p2", at=7)
    harness.reports.on_records((), [first, second])
    assert harness.reports.next_requests() == []
    assert harness.reports.done_before(10) == 3
    harness.reports.committed(7)
    assert harness.reports.next_requests() == [first.event]
    assert harness.reports.open == [first, second]
    assert harness.answer(first.event) == []
    assert harness.reports.done_before(10) == 7
    harness.reports.committed(10)
    assert harness.reports.next_requests() == [second.event]
    harness.answer(second.event)
    assert harness.reports.done_before(10) == 10
    assert not len(harness.reports)


def test_some_are_under_way_at_a_time() -> None:
    """In order."""
    harness = OutboxHarness(at_once=2)
    events = [event(f"p{number}", at=number) for number in range(4)]
    assert harness.add(*events) == [events[0].event, events[1].event]
    assert harness.answer(events[1].event) == [events[2].event]
    assert harness.reports.done_before(10) == 0
    assert harness.answer(events[0].event) == [events[3].event]


def test_a_status() -> None:
    """With the newest resourceVersion; it is not written again in the same words."""
    harness = OutboxHarness()
    [request] = harness.add(status("p1", "full", at=1))
    assert request == patch("p1", "full", None, 5, at=1)
    assert harness.answer(request) == []
    harness.seen_versions.note_answer("p1", 8)
    assert harness.add(status("p1", "full", at=2)) == []
    assert harness.add(status("p1", "other", at=3)) == [patch("p1", "other", None, 8, at=3)]


def test_statuses_of_a_pod_wait_for_each_other() -> None:
    """And become one."""
    harness = OutboxHarness()
    [first] = harness.add(status("p1", "full", at=1))
    assert harness.add(status("p1", nominated="n1", at=2)) == []
    assert harness.add(status("p1", "fuller", at=3)) == []
    assert harness.reports.done_before(10) == 1
    assert [draft.position for draft in harness.reports.open] == [1, 2]
    assert harness.answer(first) == [patch("p1", "fuller", "n1", 5, at=3)]
    assert harness.reports.done_before(10) == 2


def test_a_nomination_is_written_where_it_is_another_one() -> None:
    """Than the pod shows, or was reported last."""
    harness = OutboxHarness()
    assert harness.add(status("p1", nominated="")) == []
    [request] = harness.add(status("p1", nominated="n1"))
    harness.answer(request)
    assert harness.add(status("p1", nominated="")) == [patch("p1", "", "", 5)]


def test_a_pod_that_is_placed_or_gone_has_no_status() -> None:
    """What waited is dropped, and counts as reported."""
    harness = OutboxHarness()
    harness.state.apply(records.PodUpdated(pod=make_pod("p1", node_name="n1")), 0)
    harness.state.apply(records.PodDeleted(uid="p2"), 0)
    decided = records.PodDecided(uid="p3", attempt=1, outcome=records.Outcome.SCHEDULED, node="n1")
    harness.state.apply(decided, 0)
    assert harness.add(*(status(f"p{number}", "full", at=1) for number in (1, 2, 3))) == []
    assert harness.reports.done_before(9) == 9


def test_a_pod_that_changed_meanwhile_is_tried_again() -> None:
    """With its new resourceVersion, and what came since."""
    harness = OutboxHarness()
    [request] = harness.add(status("p1", "full", nominated="n1", at=1))
    harness.add(status("p1", "fuller", at=2))
    harness.seen_versions.note_answer("p1", 8)
    harness.reports.answered(PodShown(request, PodSeen(make_pod("p1"), 8)))
    assert harness.reports.done_before(10) == 1
    assert harness.reports.next_requests() == [patch("p1", "fuller", "n1", 8, at=2)]


def test_what_was_reported_before_is_unknown_after_a_conflict() -> None:
    """The conflict may come from the first try of the same request: it was written, but its answer
    was lost. So the words before it are written once more."""
    harness = OutboxHarness()
    [first] = harness.add(status("p1", "closed", at=1))
    harness.answer(first)
    [second] = harness.add(status("p1", "full", at=2))
    harness.seen_versions.note_answer("p1", 8)
    harness.reports.answered(PodShown(second, PodSeen(make_pod("p1"), 8)))
    assert harness.add(status("p1", "closed", at=3)) == [patch("p1", "closed", None, 8, at=3)]


def test_a_pod_that_is_gone_needs_no_report() -> None:
    """Nor one whose report was refused; that is counted."""
    harness = OutboxHarness()
    gone, refused = harness.add(status("p1", "full"), status("p2", "full"))
    harness.reports.answered(PodAbsent(gone))
    assert harness.answer(refused, refused="forbidden") == []
    assert harness.reports.counts == {REFUSED: 1}
    assert not len(harness.reports)
    assert not harness.reports.awaits(refused)


def test_failures_are_dropped_first_where_there_are_too_many() -> None:
    """The oldest, and they are counted."""
    harness = OutboxHarness(at_once=1, max_waiting=2)
    events = [
        event("p0", at=0), event("p1", at=1), event("p2", "FailedScheduling", at=2),
        event("p3", "FailedScheduling", at=3), event("p4", at=4), event("p5", at=5),
    ]  # fmt: skip
    [first] = harness.add(events[0])
    assert first == events[0].event
    harness.add(*events[1:5])
    assert harness.reports.counts == {DROPPED: 2}
    assert [draft.position for draft in harness.reports.open] == [0, 1, 4]
    harness.add(events[5])
    assert [draft.position for draft in harness.reports.open] == [0, 4, 5]
    assert harness.reports.counts == {DROPPED: 3}
