"""What people are told of each decision: upstream's words, from the records alone."""

from typing import Any

import pytest

from eventsched.cluster.messages import Announce
from eventsched.domain import records
from eventsched.domain.records import Record, Stimulus
from eventsched.eventlog.chain import Head
from eventsched.eventlog.port import Stored
from eventsched.plugins.default_preemption import DefaultPreemption
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.effects.event_drafts import DraftedStatus, EventDrafter, cut
from eventsched.runtime.leader.catch_up import Fold
from eventsched.scheduling.framework import Status as Answer
from eventsched.scheduling.framework import Wait
from tests.builders import PROFILE, SECOND, added, engine_of, make_node, make_pod

FULL = "0/1 nodes are available: 1 Insufficient cpu."
HELPLESS = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."


class Teller:
    """An engine with these plugins whose term has begun, and what its records give to tell."""

    def __init__(self, *plugins: Any) -> None:
        self.fold = Fold(engine_of(*plugins), "main")
        self.now = SECOND
        self.records: list[Record] = []
        self.stored: list[Stored] = []
        self.see(records.TermBegan(epoch=1, token="cafe0123"))

    def see(self, *stimuli: Stimulus) -> list[Announce | DraftedStatus]:
        """Observes these; what is to be told then."""
        return [
            told
            for each in stimuli
            for told in self._take(self.fold.engine.observe(each, self.now))
        ]

    def attempt(self) -> list[Announce | DraftedStatus]:
        """Attempts until the queue is empty; what is to be told then."""
        told: list[Announce | DraftedStatus] = []
        while logged := self.fold.engine.schedule_next():
            told += self._take(logged)
        return told

    def position(self, kind: type[Record]) -> int:
        """That of the newest record of a kind."""
        return max(n for n, each in enumerate(self.records) if isinstance(each, kind))

    def name(self, kind: type[Record]) -> str:
        """The id of the newest decision of a kind."""
        return f"main/{self.position(kind)}@cafe0123"

    def _take(self, logged: list[Any]) -> list[Announce | DraftedStatus]:
        self.records += [each.record for each in logged]
        self.stored += [Stored.of(each) for each in logged]
        drafts = self.fold.take(logged)
        assert {draft.position for draft in drafts} <= {each.cause for each in logged}
        return [
            told for draft in drafts for told in (draft.event, draft.status) if told is not None
        ]


def event(
    teller: Teller, kind: type[Record], pod: str, reason: Any, note: str, **more: Any
) -> Announce:
    """The event of a pod's decision."""
    action = {"Scheduled": "Binding", "FailedScheduling": "Scheduling", "Preempted": "Preempting"}
    return Announce(
        key=teller.name(kind), namespace="default", name=pod, uid=pod, reason=reason,
        action=action[reason], type="Warning" if reason == "FailedScheduling" else "Normal",  # type: ignore[arg-type]
        note=note, related=more.get("related"), at=teller.now, controller=PROFILE,
    )  # fmt: skip


def test_a_pod_is_bound() -> None:
    """The event has the id of its decision, as the binding has."""
    teller = Teller(NodeResourcesFit())
    teller.see(*added(make_node(), make_pod()))
    assert teller.attempt() == []
    told = teller.see(records.BindSucceeded(uid="p1", node="n1"))
    note = "Successfully assigned default/p1 to n1"
    assert told == [event(teller, records.PodDecided, "p1", "Scheduled", note)]


def test_no_node_fits() -> None:
    """FitError's words, in the event and in the condition."""
    teller = Teller(NodeResourcesFit(), DefaultPreemption())
    teller.see(*added(make_node(), make_pod(cpu=9000)))
    words = f"{FULL} {HELPLESS}"
    assert teller.attempt() == [
        event(teller, records.PodDecided, "p1", "FailedScheduling", words),
        DraftedStatus("p1", "Unschedulable", words, None, teller.now),
    ]


def test_there_is_no_node() -> None:
    """Upstream's words for that."""
    teller = Teller(NodeResourcesFit())
    teller.see(*added(make_pod()))
    words = "no nodes available to schedule pods"
    assert teller.attempt() == [
        event(teller, records.PodDecided, "p1", "FailedScheduling", words),
        DraftedStatus("p1", "Unschedulable", words, None, teller.now),
    ]


class Guard:
    """Refuses at some point, raises, or lets pods wait there."""

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
    teller = Teller(Guard(Answer.unschedulable("not today")))
    teller.see(*added(make_node(), make_pod()))
    words = "0/1 nodes are available: 1 not today."
    assert teller.attempt() == [
        event(teller, records.PodDecided, "p1", "FailedScheduling", words),
        DraftedStatus("p1", "Unschedulable", words, None, teller.now),
    ]


def test_a_plugin_breaks() -> None:
    """Then the reason is another one."""
    teller = Teller(Guard(ValueError("oh")))
    teller.see(*added(make_node(), make_pod()))
    failed, status = teller.attempt()
    words = "plugin Guard failed in permit: raised ValueError: oh"
    assert failed == event(teller, records.PodDecided, "p1", "FailedScheduling", words)
    assert status == DraftedStatus("p1", "SchedulerError", words, None, teller.now)


def test_a_pod_waits_at_permit_and_is_refused_then() -> None:
    """Meanwhile its node is nominated, afterwards no more (upstream: schedule_one.go bindingCycle
    and handleBindingCycleError)."""
    teller = Teller(Guard(Wait(5)))
    teller.see(*added(make_node(), make_pod()))
    assert teller.attempt() == [DraftedStatus("p1", "", "", "n1", teller.now)]
    teller.now += 5 * SECOND
    words = (
        '0/1 nodes are available: 1 pod "default/p1" rejected while waiting on permit: '
        "rejected due to timeout at plugin Guard."
    )
    assert teller.see(records.TimePassed()) == [
        event(teller, records.PodUnreserved, "p1", "FailedScheduling", words),
        DraftedStatus("p1", "Unschedulable", words, "", teller.now),
    ]


def test_a_bind_is_given_up() -> None:
    """That is no refusal."""
    teller = Teller(NodeResourcesFit())
    teller.see(*added(make_node(), make_pod()))
    teller.attempt()
    told = teller.see(records.BindVoided(uid="p1", node="n1", attempt=1, reason="the node is gone"))
    assert told == [
        event(teller, records.PodUnreserved, "p1", "FailedScheduling", "the node is gone"),
        DraftedStatus("p1", "SchedulerError", "the node is gone", "", teller.now),
    ]


@pytest.mark.parametrize(("flags", "kind"), [((), records.PodDecided), ((1,), records.PodSkipped)])
def test_a_pod_that_is_being_deleted_is_skipped(flags: tuple[int, ...], kind: type[Record]) -> None:
    """An event, and no condition (upstream: schedule_one.go skipPodSchedule)."""
    teller = Teller(NodeResourcesFit())
    opening = records.TermBegan(epoch=2, token="cafe0123", engine="2", flags=flags)
    teller.see(opening, *added(make_node(), make_pod(deleting=True)))
    words = "skip schedule deleting pod: default/p1"
    assert teller.attempt() == [event(teller, kind, "p1", "FailedScheduling", words)]


def preempting() -> tuple[Teller, list[Announce | DraftedStatus]]:
    """p2 is to have the room of p1; what was told of that."""
    teller = Teller(NodeResourcesFit(), DefaultPreemption())
    teller.see(*added(make_node(), make_pod(cpu=3000, node_name="n1")))
    teller.see(*added(make_pod("p2", cpu=3000, priority=1)))
    return teller, teller.attempt()


def preempted(teller: Teller) -> Announce:
    """The event of p1's eviction, as of now."""
    return event(
        teller, records.PreemptionDecided, "p1", "Preempted", "Preempted by pod p2 on node n1",
        related=("Pod", "default", "p2", "p2"),
    )  # fmt: skip


def test_a_preemption() -> None:
    """The preemptor is nominated; the victim is told when the cluster has taken the eviction."""
    teller, told = preempting()
    assert told == [
        DraftedStatus("p2", "", "", "n1", teller.now),
        event(teller, records.PodDecided, "p2", "FailedScheduling", FULL),
        DraftedStatus("p2", "Unschedulable", FULL, None, teller.now),
    ]
    assert teller.see(records.EvictionSucceeded(uid="p1")) == [preempted(teller)]
    assert teller.see(records.PodDeleted(uid="p1")) == []


@pytest.mark.parametrize(
    "seen",
    [
        records.PodUpdated(pod=make_pod(cpu=3000, node_name="n1", deleting=True)),
        records.PodDeleted(uid="p1"),
    ],
)
def test_an_eviction_that_the_watch_shows_first(seen: Stimulus) -> None:
    """It is told then, and once."""
    teller, _ = preempting()
    assert teller.see(seen) == [preempted(teller)]
    assert teller.see(records.EvictionSucceeded(uid="p1")) == []


def test_an_eviction_that_fails_is_not_told() -> None:
    """The pod stays."""
    teller, _ = preempting()
    assert teller.see(records.EvictionFailed(uid="p1", message="no")) == []
    assert teller.see(records.PodDeleted(uid="p1")) == []


def test_a_nomination_that_ends() -> None:
    """It is cleared in the same step as the attempt is told."""
    teller, _ = preempting()
    teller.see(records.EvictionFailed(uid="p1", message="no"))
    teller.see(records.PodUpdated(pod=make_pod(cpu=3000, node_name="n1", priority=1)))
    teller.now += 10 * SECOND
    teller.see(records.NodeUpdated(node=make_node(labels={"a": "b"})), records.TimePassed())
    teller.see(records.PodUpdated(pod=make_pod("p2", cpu=3000, priority=1, labels={"x": "y"})))
    assert teller.attempt()[:1] == [DraftedStatus("p2", "", "", "", teller.now)]


def test_whoever_folds_the_log_drafts_the_same() -> None:
    """Also where it begins in the middle, with a snapshot."""
    teller, _ = preempting()
    at = len(teller.records)
    first = Fold(engine_of(NodeResourcesFit(), DefaultPreemption()), "main")
    first.follow(teller.stored, Head(at, b"h"), b"null")
    second = Fold(engine_of(NodeResourcesFit(), DefaultPreemption()), "main")
    assert second.restore(first.snapshot(first.head, first.drafts))
    teller.see(records.EvictionSucceeded(uid="p1"))
    for fold in (first, second):
        fold.follow(teller.stored[at:], Head(len(teller.records), b"i"), b'{"reported":0}')
    assert [draft.event for draft in first.drafts][-1] == preempted(teller)
    assert first.drafts == second.drafts
    first.follow([], first.head, b'{"seen":{},"reported":%d}' % at)
    assert [draft.event for draft in first.drafts] == [preempted(teller)]


def test_a_long_note_is_cut() -> None:
    """At upstream's length, and not within a character."""
    assert cut("x" * 1024) == "x" * 1024
    assert cut("x" * 1025) == "x" * 1020 + " ..."
    assert len(cut("ü" * 1000).encode()) <= 1024


def test_records_that_tell_nothing() -> None:
    """Most do not."""
    teller = Teller(NodeResourcesFit())
    assert teller.see(*added(make_node(), make_pod()), records.NodeDeleted(name="n1")) == []
    assert isinstance(teller.fold._drafter, EventDrafter)
