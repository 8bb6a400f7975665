"""A term that leaves its state to the next one of the same process, under another configuration."""

import msgspec

from eventsched.cluster.messages import Bound, ListCluster
from eventsched.domain.records import PodDecided, TermBegan
from eventsched.eventlog.chain import Term
from eventsched.plugins.node_resources_fit import NodeResourcesFit
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.runtime.leader.leader_messages import Acquire, Acquired, Append, Committed
from eventsched.runtime.leader.limits import Limits
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import Status
from tests.builders import engine_of, make_node, make_pod
from tests.leader_harness import BIND, NOW, OPENING, LeaderHarness, leading, listed, offered

OTHER = msgspec.structs.replace(OPENING, inputs={"configuration": "2"})


class Never:
    """Refuses every node."""

    name = "Never"
    wakes_on = ()

    def filter_node(self, pod: object, node: object) -> Status:
        return Status.unschedulable("never")


def strict() -> Engine:
    """The engine of the other configuration."""
    return engine_of(NodeResourcesFit(), Never())


def stream_of(harness: LeaderHarness) -> FollowedStream:
    """What the harness's leader has handed over, under the other configuration."""
    assert harness.leader.hand_over()
    successor = harness.leader._followed_stream.reconfigured(strict)
    assert successor is not None
    return successor


def test_a_leader_with_uncommitted_records_hands_nothing_over() -> None:
    harness = LeaderHarness()
    assert not harness.leader.hand_over()
    requests = harness.lead(make_node(), make_pod())
    assert not harness.leader.hand_over()
    harness.commit(requests)
    assert harness.leader.hand_over()


def test_the_state_is_at_the_end_of_the_log() -> None:
    harness = leading()
    state = harness.leader.engine.state
    stream = stream_of(harness)
    assert stream.head == harness.batches[-1].head
    assert stream.stream_state.engine.position == stream.head.next
    assert stream.stream_state.engine.state.digest() == state.digest()
    assert stream.stream_state.engine is not harness.leader.engine


def test_the_next_term_begins_with_the_configuration_and_keeps_the_promise() -> None:
    """The bind of p1 had no answer yet: it is recorded and repeated, to the same node. p2, which
    came meanwhile, is judged by the new configuration."""
    harness = leading()
    stream = stream_of(harness)
    leader = Leader(stream, OTHER, Limits())
    assert leader.start() == [Acquire(stream.head)]
    acquired = Acquired(Term("main", 2, bytes([2]) * 16), stream.head, stream.head, (), "t1")
    assert leader.handle(acquired, NOW) == [ListCluster()]
    requests = leader.handle(listed(make_node(), make_pod(), make_pod("p2")), NOW)
    assert [type(record).__name__ for record in offered(requests)] == [
        "TermBegan", "PodAdded", "PodQueued", "BindRetried", "VerdictDefined", "PodDecided",
        "PodQueued",
    ]  # fmt: skip
    began, *_, decided, _ = offered(requests)
    assert isinstance(began, TermBegan)
    assert isinstance(decided, PodDecided)
    assert began.inputs == {"configuration": "2"}
    assert (decided.uid, decided.outcome) == ("p2", "unschedulable")
    assert any(isinstance(request, Append) for request in requests)
    [bind] = [
        request for request in leader.handle(Committed(), NOW) if isinstance(request, type(BIND))
    ]
    assert (bind.uid, bind.node, bind.decision) == (BIND.uid, BIND.node, BIND.decision)
    answered = leader.handle(Bound(bind), NOW)
    assert "PodBound" in [type(record).__name__ for record in offered(answered)]


def test_events_that_were_not_written_are_written_by_the_next_term() -> None:
    harness = leading()
    harness.commit(harness.send(Bound(BIND)))
    assert len(harness.reports) == 1  # under way; the answer will not be heard
    stream = stream_of(harness)
    assert [draft.event.reason for draft in stream.stream_state.drafts if draft.event] == [
        "Scheduled"
    ]
