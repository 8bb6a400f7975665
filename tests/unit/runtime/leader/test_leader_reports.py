"""A leader reports its decisions, and its binds are not disturbed by that."""

from dataclasses import replace
from typing import Any

from eventsched.cluster.messages import (
    BindPod,
    NodeSeen,
    PatchStatus,
    PodSeen,
    PodShown,
    Reported,
    Unknown,
    WriteEvent,
)
from eventsched.runtime.leader.leader_messages import Tick
from tests.builders import make_node, make_pod
from tests.leader_harness import (
    LeaderHarness,
    kinds,
)


def failing() -> tuple[LeaderHarness, PatchStatus]:
    """A leader that has found no room for p1, and what it writes into its status."""
    harness = LeaderHarness()
    harness.commit(harness.lead(make_node(cpu=500), make_pod()))
    [event, report] = harness.reports
    assert isinstance(event, WriteEvent)
    assert isinstance(report, PatchStatus)
    assert (event.reason, report.reason) == ("FailedScheduling", "Unschedulable")
    assert event.note == report.message == "0/1 nodes are available: 1 Insufficient cpu."
    assert report.resource_version == 11
    return harness, report


def test_reports_wait_for_the_commit_and_change_nothing() -> None:
    """Not even the log."""
    harness, report = failing()
    position = harness.leader.engine.position
    assert harness.send(Reported(report, PodSeen(make_pod(), 30))) == []
    assert harness.leader.engine.position == position


def test_a_bind_uses_the_resource_version_after_our_own_report() -> None:
    """It is in the answer, before the watch reports it."""
    harness, report = failing()
    harness.send(Reported(report, PodSeen(make_pod(), 30)))
    harness.commit(harness.send(NodeSeen(make_node(), 31)))
    [bind] = harness.commit(harness.send(Tick(), after=2), after=2)
    assert isinstance(bind, BindPod)
    assert bind.resource_version == 30


def test_a_bind_during_a_report_is_retried_once() -> None:
    """If it arrives first, the bind is refused, and goes on with the new number."""
    harness, report = failing()
    harness.commit(harness.send(NodeSeen(make_node(), 31)))
    bind: Any
    [bind] = harness.commit(harness.send(Tick(), after=2), after=2)
    requests = harness.send(PodShown(bind, PodSeen(make_pod(), 30)), after=2)
    assert kinds(requests) == ["BindRetried"]
    assert harness.commit(requests, after=2) == [replace(bind, resource_version=30)]
    assert harness.send(Reported(report, PodSeen(make_pod(), 30)), after=2) == []


def test_a_report_without_an_answer_is_repeated() -> None:
    """It says the same."""
    harness, report = failing()
    harness.reports.clear()
    assert harness.send(Unknown(report)) == []
    assert harness.send(Tick(), after=0.5) == []
    assert harness.reports == [report]
    assert harness.leader.counts["unknown PatchStatus"] == 1
