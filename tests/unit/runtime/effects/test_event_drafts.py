"""Events and pod status of each decision: upstream's texts, drafted from the records alone."""

from typing import Any

import pytest

from eventsched.cluster.messages import WriteEvent
from eventsched.domain import records
from eventsched.domain.records import Record, Stimulus
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import StoredRecord
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.effects.event_drafts import DraftedStatus, EventDrafter, cut
from eventsched.runtime.leader.followed_stream import StreamState
from eventsched.scheduling.framework import Status as Answer
from eventsched.scheduling.framework import Wait
from tests.builders import PROFILE, SECOND, added, engine_of, make_node, make_pod

FULL = "0/1 nodes are available: 1 Insufficient cpu."
HELPLESS = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


class DraftHarness:
    """An engine with these plugins, in a term, and the drafts that follow from its records."""

    def __init__(self, *plugins: Any) -> None:
        self.stream_state = StreamState(engine_of(*plugins), "main")
        self.now = SECOND
        self.records: list[Record] = []
        self.stored: list[StoredRecord] = []
        self.see(records.TermBegan(epoch=1, token="cafe0123"))

    def see(self, *stimuli: Stimulus) -> list[WriteEvent | DraftedStatus]:
        """Observes these stimuli; the Events and statuses that follow."""
        return [
            draft
            for stimulus in stimuli
            for draft in self._take(self.stream_state.engine.observe(stimulus, self.now))
        ]

    def attempt(self) -> list[WriteEvent | DraftedStatus]:
        """Attempts until the queue is empty; the Events and statuses that follow."""
        drafts: list[WriteEvent | DraftedStatus] = []
        while logged := self.stream_state.engine.schedule_next():
            drafts += self._take(logged)
        return drafts

    def position(self, kind: type[Record]) -> int:
        """The position of the newest record of a kind."""
        return max(number for number, record in enumerate(self.records) if isinstance(record, kind))

    def name(self, kind: type[Record]) -> str:
        """The id of the newest decision of a kind."""
        return f"main/{self.position(kind)}@cafe0123"

    def _take(self, logged: list[Any]) -> list[WriteEvent | DraftedStatus]:
        self.records += [entry.record for entry in logged]
        self.stored += [StoredRecord.of(entry) for entry in logged]
        drafts = self.stream_state.on_records(logged)
        assert {draft.position for draft in drafts} <= {entry.cause for entry in logged}
        return [
            content
            for draft in drafts
            for content in (draft.event, draft.status)
            if content is not None
        ]


def event(
    harness: DraftHarness, kind: type[Record], pod: str, reason: Any, note: str, **more: Any
) -> WriteEvent:
    """The event of a pod's decision."""
    action = {"Scheduled": "Binding", "FailedScheduling": "Scheduling", "Preempted": "Preempting"}
    return WriteEvent(
        key=harness.name(kind), namespace="default", name=pod, uid=pod, reason=reason,
        action=action[reason], type="Warning" if reason == "FailedScheduling" else "Normal",  # type: ignore[arg-type]
        note=note, related=more.get("related"), at=harness.now, controller=PROFILE,
    )  # fmt: skip


def test_a_pod_is_bound() -> None:
    """The Event has the id of its decision, like the binding."""
    harness = DraftHarness(NodeResourcesFit())
    harness.see(*added(make_node(), make_pod()))
    assert harness.attempt() == []
    drafts = harness.see(records.BindSucceeded(uid="p1", node="n1"))
    note = "Successfully assigned default/p1 to n1"
    assert drafts == [event(harness, records.PodDecided, "p1", "Scheduled", note)]


def test_no_node_fits() -> None:
    """FitError's text, in the Event and in the condition."""
    harness = DraftHarness(NodeResourcesFit(), DefaultPreemption())
    harness.see(*added(make_node(), make_pod(cpu=9000)))
    message = f"{FULL} {HELPLESS}"
    assert harness.attempt() == [
        event(harness, records.PodDecided, "p1", "FailedScheduling", message),
        DraftedStatus("p1", "Unschedulable", message, None, harness.now),
    ]


def test_there_is_no_node() -> None:
    """Upstream's text for that."""
    harness = DraftHarness(NodeResourcesFit())
    harness.see(*added(make_pod()))
    message = "no nodes available to schedule pods"
    assert harness.attempt() == [
        event(harness, records.PodDecided, "p1", "FailedScheduling", message),
        DraftedStatus("p1", "Unschedulable", message, None, harness.now),
    ]


class Guard:
    """Refuses pods at Permit, raises, or lets them wait there."""

    name = "Guard"
    wakes_on = ()

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def permit(self, cycle: Any, pod: Any, node: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_permit_refuses() -> None:
    """A FitError of one node (upstream: schedule_one.go prepareForBindingCycle)."""
    harness = DraftHarness(Guard(Answer.unschedulable("not today")))
    harness.see(*added(make_node(), make_pod()))
    message = "0/1 nodes are available: 1 not today."
    assert harness.attempt() == [
        event(harness, records.PodDecided, "p1", "FailedScheduling", message),
        DraftedStatus("p1", "Unschedulable", message, None, harness.now),
    ]


def test_a_plugin_breaks() -> None:
    """The condition's reason is SchedulerError then."""
    harness = DraftHarness(Guard(ValueError("oh")))
    harness.see(*added(make_node(), make_pod()))
    failed, status = harness.attempt()
    message = "plugin Guard failed in permit: raised ValueError: oh"
    assert failed == event(harness, records.PodDecided, "p1", "FailedScheduling", message)
    assert status == DraftedStatus("p1", "SchedulerError", message, None, harness.now)


def test_a_pod_waits_at_permit_and_is_refused_then() -> None:
    """While it waits its node is nominated, afterwards not (upstream: schedule_one.go bindingCycle
    and handleBindingCycleError)."""
    harness = DraftHarness(Guard(Wait(5)))
    harness.see(*added(make_node(), make_pod()))
    assert harness.attempt() == [DraftedStatus("p1", "", "", "n1", harness.now)]
    harness.now += 5 * SECOND
    message = (
        '0/1 nodes are available: 1 pod "default/p1" rejected while waiting on permit: '
        "rejected due to timeout at plugin Guard."
    )
    assert harness.see(records.TimePassed()) == [
        event(harness, records.PodUnreserved, "p1", "FailedScheduling", message),
        DraftedStatus("p1", "Unschedulable", message, "", harness.now),
    ]


def test_a_bind_is_given_up() -> None:
    """That does not count as a refusal."""
    harness = DraftHarness(NodeResourcesFit())
    harness.see(*added(make_node(), make_pod()))
    harness.attempt()
    drafts = harness.see(
        records.BindVoided(uid="p1", node="n1", attempt=1, reason="the node is gone")
    )
    assert drafts == [
        event(harness, records.PodUnreserved, "p1", "FailedScheduling", "the node is gone"),
        DraftedStatus("p1", "SchedulerError", "the node is gone", "", harness.now),
    ]


@pytest.mark.parametrize(("flags", "kind"), [((), records.PodDecided), ((1,), records.PodSkipped)])
def test_a_pod_that_is_being_deleted_is_skipped(flags: tuple[int, ...], kind: type[Record]) -> None:
    """An event, and no condition (upstream: schedule_one.go skipPodSchedule)."""
    harness = DraftHarness(NodeResourcesFit())
    opening = records.TermBegan(epoch=2, token="cafe0123", engine="2", flags=flags)
    harness.see(opening, *added(make_node(), make_pod(deleting=True)))
    message = "skip schedule deleting pod: default/p1"
    assert harness.attempt() == [event(harness, kind, "p1", "FailedScheduling", message)]


def preempting() -> tuple[DraftHarness, list[WriteEvent | DraftedStatus]]:
    """p2 preempts p1; the Events and statuses of that."""
    harness = DraftHarness(NodeResourcesFit(), DefaultPreemption())
    harness.see(*added(make_node(), make_pod(cpu=3000, node_name="n1")))
    harness.see(*added(make_pod("p2", cpu=3000, priority=1)))
    return harness, harness.attempt()


def preempted(harness: DraftHarness) -> WriteEvent:
    """The Event of p1's eviction, at the present time."""
    return event(
        harness, records.PreemptionDecided, "p1", "Preempted", "Preempted by pod p2 on node n1",
        related=("Pod", "default", "p2", "p2"),
    )  # fmt: skip


def test_a_preemption() -> None:
    """The preemptor is nominated. The victim gets its Event once the cluster accepts its
    eviction."""
    harness, drafts = preempting()
    assert drafts == [
        DraftedStatus("p2", "", "", "n1", harness.now),
        event(harness, records.PodDecided, "p2", "FailedScheduling", FULL),
        DraftedStatus("p2", "Unschedulable", FULL, None, harness.now),
    ]
    assert harness.see(records.EvictionSucceeded(uid="p1")) == [preempted(harness)]
    assert harness.see(records.PodDeleted(uid="p1")) == []


@pytest.mark.parametrize(
    "seen",
    [
        records.PodUpdated(pod=make_pod(cpu=3000, node_name="n1", deleting=True)),
        records.PodDeleted(uid="p1"),
    ],
)
def test_an_eviction_that_the_watch_shows_first(seen: Stimulus) -> None:
    """Its Event is drafted then, and only once."""
    harness, _ = preempting()
    assert harness.see(seen) == [preempted(harness)]
    assert harness.see(records.EvictionSucceeded(uid="p1")) == []


def test_an_eviction_that_fails_has_no_event() -> None:
    """The pod stays."""
    harness, _ = preempting()
    assert harness.see(records.EvictionFailed(uid="p1", message="no")) == []
    assert harness.see(records.PodDeleted(uid="p1")) == []


def test_a_nomination_that_ends() -> None:
    """It is cleared in the step of the attempt."""
    harness, _ = preempting()
    harness.see(records.EvictionFailed(uid="p1", message="no"))
    harness.see(records.PodUpdated(pod=make_pod(cpu=3000, node_name="n1", priority=1)))
    harness.now += 10 * SECOND
    harness.see(records.NodeUpdated(node=make_node(labels={"a": "b"})), records.TimePassed())
    harness.see(records.PodUpdated(pod=make_pod("p2", cpu=3000, priority=1, labels={"x": "y"})))
    assert harness.attempt()[:1] == [DraftedStatus("p2", "", "", "", harness.now)]


def test_each_fold_of_the_log_drafts_the_same() -> None:
    """Also if it begins with a snapshot in the middle."""
    harness, _ = preempting()
    at = len(harness.records)
    first = StreamState(engine_of(NodeResourcesFit(), DefaultPreemption()), "main")
    first.follow(harness.stored, Head(at, b"h"), b"null")
    second = StreamState(engine_of(NodeResourcesFit(), DefaultPreemption()), "main")
    assert second.restore(first.snapshot(first.head, first.drafts).finish())
    harness.see(records.EvictionSucceeded(uid="p1"))
    for stream_state in (first, second):
        stream_state.follow(
            harness.stored[at:], Head(len(harness.records), b"i"), b'{"reported":0}'
        )
    assert [draft.event for draft in first.drafts][-1] == preempted(harness)
    assert first.drafts == second.drafts
    first.follow([], first.head, b'{"seen":{},"reported":%d}' % at)
    assert [draft.event for draft in first.drafts] == [preempted(harness)]


def test_a_long_note_is_cut() -> None:
    """At upstream's length, and not inside a character."""
    assert cut("x" * 1024) == "x" * 1024
    assert cut("x" * 1025) == "x" * 1020 + " ..."
    assert len(cut("ü" * 1000).encode()) <= 1024


def test_most_records_have_no_event() -> None:
    """Such as those of an object that appears or goes."""
    harness = DraftHarness(NodeResourcesFit())
    assert harness.see(*added(make_node(), make_pod()), records.NodeDeleted(name="n1")) == []
    assert isinstance(harness.stream_state._drafter, EventDrafter)
