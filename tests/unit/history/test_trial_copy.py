"""Which pods an engine with changes is made with."""

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.why_not.trial_copy import trial_copy
from tests.builders import make_node, make_pod
from tests.gangs import member


def test_pods_that_only_wait_are_left_out() -> None:
    """Those in a group count for its other members, and those with a node, or room on it, for the
    node."""
    state = SchedulerState()
    state.apply(records.NodeAdded(node=make_node("n1", cpu=9000)), 0)
    for pod in (
        make_pod("asked"), make_pod("waits"), make_pod("bound", node_name="n1"),
        make_pod("reserved"), make_pod("nominated"), member("grouped"), member("alone", None, "h"),
    ):  # fmt: skip
        state.apply(records.PodAdded(pod=pod), 0)
    state.apply(PodDecided(uid="reserved", attempt=1, outcome=Outcome.WAITING, node="n1", row=0), 0)
    preemption = records.PreemptionDecided(
        uid="nominated", attempt=1, node="n1", row=0, criterion="", victims=("bound",)
    )
    state.apply(preemption, 0)
    before = state.digest()
    copy = trial_copy(state, "asked")
    assert set(copy.pods) == {"asked", "bound", "reserved", "nominated", "grouped", "alone"}
    assert "waits" in state.pods
    assert state.digest() == before
