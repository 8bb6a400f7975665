"""What is said about a state does not depend on whether it was made from a snapshot."""

from eventsched.domain import records
from eventsched.domain.records import Outcome, PodDecided
from eventsched.domain.state import snapshot
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.history.past_state.state_differences import differences
from eventsched.history.past_state.state_document import state_document
from tests.builders import make_node, make_pod


def state_with(*pods: str) -> SchedulerState:
    """Pods that wait at Permit come before and after others."""
    state = SchedulerState()
    state.apply(records.NodeAdded(node=make_node("n0")), 1)
    for name in pods:
        state.apply(records.PodAdded(pod=make_pod(name)), 2)
        state.position += 1
        if name.startswith("waits"):
            decided = PodDecided(uid=name, attempt=1, outcome=Outcome.WAITING, node="n0", row=0)
            state.apply(decided, 3)
            state.position += 1
    return state


def restored(state: SchedulerState) -> SchedulerState:
    other = SchedulerState()
    snapshot.restore(other, snapshot.encode(state))
    return other


def test_documents_have_pods_in_the_order_in_which_they_came() -> None:
    state = state_with("a", "waits-1", "b", "waits-2", "c")
    other = restored(state)
    assert list(other.pods) != list(state.pods), "the snapshot has another order"
    assert state_document(other) == state_document(state)
    names = [pod["name"] for pod in state_document(other)["pods"]]
    assert names == ["a", "waits-1", "b", "waits-2", "c"]


def test_differences_too() -> None:
    """Those that went or changed, then those that came."""
    before = state_with("a", "waits-1", "b", "waits-2", "gone")
    after = state_with("a", "b", "waits-2", "new", "waits-3", "newer")
    found = differences(before, after)
    for one, other in ((restored(before), after), (before, restored(after))):
        assert differences(one, other) == found
    names = [each.name for each in found if each.change != "changed"]
    assert names == [f"default/{name}" for name in ("waits-1", "gone", "new", "waits-3", "newer")]
