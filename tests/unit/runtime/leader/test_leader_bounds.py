"""A leader under load and in trouble: batches, touches, attempts and questions are bounded."""

from eventsched.cluster.messages import (
    BindPod,
    ListCluster,
    PodAbsent,
    PodSeen,
    PodShown,
    TouchPod,
    Unknown,
)
from eventsched.runtime.leader.leader_messages import Append, Tick
from eventsched.runtime.leader.retry_queue import LONGEST_RETRY_DELAY, RETRY_DELAY
from tests.builders import SECOND, make_node, make_pod
from tests.leader_harness import BIND, GET, NOW, LeaderHarness, kinds, leading, listed, offered


def test_a_takeover_is_split_into_batches() -> None:
    """Steps stay whole, and attempts are made when the rest is on its way."""
    harness = LeaderHarness(records=5)
    nodes = [make_node(f"n{number}") for number in range(12)]
    requests = harness.lead(*nodes, make_pod())
    sizes: list[int] = []
    while any(isinstance(each, Append) for each in requests):
        sizes.append(len(offered(requests)))
        requests = harness.commit(requests)
    assert sizes == [5, 5, 6, 2]  # the pod comes and is queued in one step
    assert [each.name for each in requests if isinstance(each, BindPod)] == ["p1"]


def test_a_batch_is_closed_by_its_size() -> None:
    """In bytes of records."""
    harness = LeaderHarness(size=600)
    requests = harness.lead(*(make_node(f"n{number}") for number in range(12)))
    [append] = requests
    assert isinstance(append, Append)
    assert append.batch.count < 14
    assert 600 <= len(append.batch.body) < 900


def test_no_attempts_while_the_database_does_not_answer() -> None:
    """Once the next batch is full; what happens is observed all the same."""
    harness = LeaderHarness(records=10)
    first = harness.lead(make_node(pods=200, cpu=400_000, memory=10**15))
    for number in range(20):
        assert harness.send(PodSeen(make_pod(f"p{number}"), 30 + number)) == []
    state = harness.leader.engine.state
    assert len(state.pods) == 20
    assert len(state.reservations) < 10
    assert harness.leader.uncommitted > 20
    assert not harness.leader.can_attempt
    binds = [each for each in harness.commit_all(first) if isinstance(each, BindPod)]
    assert len(binds) == 20
    assert harness.leader.uncommitted == 0


def test_a_step_makes_at_most_the_given_number_of_attempts() -> None:
    """As many as the driver asks for; batches leave meanwhile."""
    harness = LeaderHarness()
    harness.commit(harness.lead(make_node(pods=200, cpu=400_000, memory=10**15)))
    seen = [PodSeen(make_pod(f"p{number}"), 30 + number) for number in range(5)]
    requests = harness.leader.step(seen, NOW, attempts=2)
    assert kinds(requests).count("PodDecided") == 2
    assert harness.leader.can_attempt
    assert harness.leader.step([], NOW, attempts=3) == []
    assert not harness.leader.can_attempt


def test_the_number_of_touches_under_way_is_limited() -> None:
    """The next one when one is answered, and then the second list."""
    harness = LeaderHarness(leading(), timeline="t2", touches=2)
    pods = [make_pod(f"p{number}") for number in range(4)]
    harness.send(harness.acquired)
    first, second = harness.send(listed(*pods))
    assert [first, second] == [TouchPod(f"p{n}", "default", f"p{n}") for n in (0, 1)]
    [third] = harness.send(PodShown(first, PodSeen(pods[0], 30)))  # type: ignore[arg-type]
    assert harness.send(Unknown(second)) == []
    assert harness.send(Tick(), after=1) == [second]
    [fourth] = harness.send(PodAbsent(second), after=1)  # type: ignore[arg-type]
    assert harness.send(PodAbsent(third), after=1) == []  # type: ignore[arg-type]
    assert harness.send(PodAbsent(fourth), after=1) == [ListCluster()]  # type: ignore[arg-type]


def test_the_delay_of_retries_grows_with_the_silence() -> None:
    """As long again as the silence lasts, five seconds at most."""
    harness = leading()
    now, waits = 0, []
    harness.send(Unknown(BIND))
    while now < 40 * SECOND:
        wake_at = harness.leader.wake_at
        assert wake_at is not None
        waits.append(wake_at - NOW - now)
        now = wake_at - NOW
        if harness.leader.handle(Tick(), NOW + now) == [GET]:
            harness.leader.handle(Unknown(GET), NOW + now)
        waits = [each for each in waits if each != 2 * SECOND]
    assert waits[0] == RETRY_DELAY
    assert max(waits) <= LONGEST_RETRY_DELAY
