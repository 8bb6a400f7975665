"""The rules of the election, step by step."""

import msgspec
import pytest

from eventsched.cluster.kube.lease.candidate import (
    Lease,
    LeaseCandidate,
    LeaseSpec,
    Look,
    Over,
    Timing,
    WaitUntil,
    Write,
)
from eventsched.domain.errors import InputError
from eventsched.scheduling.config.sections import LeaderElection

EARLIER = "2026-01-31T12:00:00.000000Z"
LATER = "2026-01-31T12:00:02.000000Z"


def candidate(name: str = "me", *, watched: bool = True) -> LeaseCandidate:
    made = LeaseCandidate(name, Timing(), lambda: 0.5)
    made.watched = watched
    return made


def lease(holder: str, version: int, *, renewed: str = EARLIER, transitions: int = 0) -> Lease:
    spec = LeaseSpec(holder, 15, EARLIER, renewed, transitions)
    return Lease({"name": "s", "namespace": "kube-system", "resourceVersion": str(version)}, spec)


def leader(at: float = 0.0) -> LeaseCandidate:
    """One that has taken a lease that was not there."""
    made = candidate()
    made.step(at)
    made.saw(None, at)
    made.step(at)
    made.wrote(lease("me", 1), at, at + 0.1)
    return made


def test_a_lease_that_is_not_there_is_created() -> None:
    made = candidate()
    assert made.step(0) == Look()
    made.saw(None, 0.1)
    assert made.step(0.1) == Write(None, "me", 15, 0)
    made.wrote(lease("me", 1), 0.1, 0.2)
    assert made.step(0.2) == WaitUntil(2.1)
    assert (made.leads(0.2), made.trusts_until()) == (True, 10.1)


def test_a_lease_of_another_is_taken_when_it_was_not_renewed_for_its_duration() -> None:
    made = candidate()
    made.step(0)
    made.saw(lease("other", 5), 0)
    assert made.step(0) == WaitUntil(15)
    made.saw(lease("other", 6, renewed=LATER), 9)
    assert made.step(15) == WaitUntil(24)
    assert made.step(24) == Write(lease("other", 6, renewed=LATER), "me", 15, 1)


def test_one_that_only_observes_takes_nothing_and_knows_how_long_a_holder_was_silent() -> None:
    made = candidate()
    made.stands, made.watched = False, True
    made.step(0)
    made.saw(lease("other", 5), 0)
    assert isinstance(made.step(14), WaitUntil)
    assert isinstance(made.step(20), WaitUntil)
    made.stands = True
    assert made.step(20) == Write(lease("other", 5), "me", 15, 1)


def test_one_that_only_observes_and_may_not_watch_looks_now_and_then() -> None:
    made = candidate()
    made.stands = made.watched = False
    made.step(0)
    made.saw(lease("other", 5), 0)
    for at in (0, 20):
        waits = made.step(at)
        assert isinstance(waits, WaitUntil)
        assert waits.until > at
        assert made.step(waits.until) == Look()
        made.saw(lease("other", 5), waits.until)


def test_a_change_of_metadata_alone_does_not_prolong_a_lease() -> None:
    made = candidate()
    made.step(0)
    made.saw(lease("other", 5), 0)
    made.saw(lease("other", 6), 9)
    assert made.step(15) == Write(lease("other", 6), "me", 15, 1)


@pytest.mark.parametrize("free", [lease("", 6, renewed=LATER), None])
def test_a_released_or_deleted_lease_is_taken_at_once(free: Lease | None) -> None:
    made = candidate()
    made.step(0)
    made.saw(lease("other", 5), 0)
    if free is None:
        made.vanished(6, 3)
        assert made.step(3) == Write(None, "me", 15, 0)
    else:
        made.saw(free, 3)
        assert made.step(3) == Write(free, "me", 15, 1)


def test_a_leader_renews_and_keeps_since_when_it_leads() -> None:
    made = leader()
    made.saw(lease("me", 1), 0.2)
    assert made.step(1.9) == WaitUntil(2)
    assert made.step(2) == Write(lease("me", 1), "me", 15, 0, EARLIER)
    made.wrote(lease("me", 2, renewed=LATER), 2, 4)
    assert (made.step(4), made.trusts_until()) == (
        Write(lease("me", 2, renewed=LATER), "me", 15, 0, EARLIER),
        12,
    )


def test_a_leader_without_an_answer_looks_and_goes_on_until_its_deadline() -> None:
    made = leader()
    assert isinstance(made.step(2), Write)
    made.failed(7)
    assert made.step(7) == WaitUntil(9)
    assert made.step(9) == Look()
    made.failed(9.5)
    assert made.step(9.5) == WaitUntil(10)
    assert (made.leads(9.99), made.leads(10)) == (True, False)
    assert made.step(10) == WaitUntil(11.5)


def test_a_leader_whose_write_did_arrive_goes_on() -> None:
    made = leader()
    made.step(2)
    made.failed(3)
    assert made.step(5) == Look()
    made.saw(lease("me", 2, renewed=LATER), 5)
    assert made.step(5) == Write(lease("me", 2, renewed=LATER), "me", 15, 0, EARLIER)
    made.wrote(lease("me", 3, renewed=LATER), 5, 5)
    assert made.trusts_until() == 15


def test_a_leader_that_sees_another_hold_the_lease_has_lost_at_once() -> None:
    made = leader()
    made.saw(lease("other", 3), 1)
    assert not made.leads(1)
    assert made.step(1) == WaitUntil(16)


def test_an_answer_that_is_older_than_what_the_watch_told_wins_nothing() -> None:
    made = candidate()
    made.step(0)
    made.saw(lease("", 5), 0)
    assert isinstance(made.step(0), Write)
    made.saw(lease("other", 7, renewed=LATER), 1)
    made.wrote(lease("me", 6, renewed=LATER), 0, 2)
    assert not made.leads(2)
    assert made.step(2) == WaitUntil(16)


def test_a_conflict_is_looked_at_at_once_and_a_second_one_later() -> None:
    made = candidate()
    made.step(0)
    made.saw(lease("", 5), 0)
    made.step(0)
    made.failed(1, conflict=True)
    assert made.step(1) == Look()
    made.saw(lease("", 5), 1)
    assert isinstance(made.step(1), Write)
    made.failed(1, conflict=True)
    assert made.step(1) == WaitUntil(1 + 2 * (1 + 1.2 * 0.5))


def test_without_a_watch_the_lease_is_looked_at_every_few_seconds() -> None:
    made = candidate(watched=False)
    made.step(0)
    made.saw(lease("other", 5), 0)
    assert made.step(0) == WaitUntil(3.2)
    assert made.step(3.2) == Look()
    made.saw(lease("other", 5), 3.2)
    assert made.step(14) == WaitUntil(15)
    assert made.step(15) == Look()
    made.saw(lease("other", 5), 15)
    assert isinstance(made.step(15), Write)


def test_a_broken_watch_is_followed_by_a_look() -> None:
    made = candidate()
    made.step(0)
    made.saw(lease("other", 5), 0)
    made.unwatched(1)
    assert made.step(1) == Look()


def test_a_leader_recreates_a_lease_that_was_deleted() -> None:
    made = leader()
    made.vanished(4, 1)
    assert made.leads(1)
    assert made.step(1) == Write(None, "me", 15, 0)


def test_whoever_withdraws_gives_the_lease_back() -> None:
    made = leader()
    made.withdraw()
    assert not made.leads(0.2)
    assert made.step(0.2) == Write(lease("me", 1), "", 1, 0)
    made.wrote(lease("", 2), 0.2, 0.3)
    assert made.step(0.3) == Over()


def test_a_lease_whose_taking_was_not_answered_is_given_back_too() -> None:
    made = candidate()
    made.step(0)
    made.saw(None, 0)
    made.step(0)
    made.withdraw()
    made.failed(5)
    assert made.step(8.2) == Look()
    made.saw(lease("me", 1), 8.2)
    assert made.step(8.2) == Write(lease("me", 1), "", 1, 0)


@pytest.mark.parametrize("shown", [None, lease("other", 9)])
def test_what_is_not_held_is_not_given_back(shown: Lease | None) -> None:
    fresh = candidate()
    fresh.withdraw()
    assert fresh.step(0) == Over()
    made = leader()
    made.step(2)
    made.failed(3)
    made.withdraw()
    assert made.step(3) == Look()
    made.saw(shown, 3)
    assert made.step(3) == Over()


def test_what_a_lease_looks_like() -> None:
    now = 1_769_860_800_000_000
    assert msgspec.json.decode(Write(None, "me", 15, 0).body("kube-system", "s", now)) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "s", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-31T12:00:00.000000Z",
            "renewTime": "2026-01-31T12:00:00.000000Z",
            "leaseTransitions": 0,
        },
    }
    held = lease("other", 6)
    held.metadata.update(labels={"a": "b"}, managedFields=[{}])
    body = msgspec.json.decode(Write(held, "me", 15, 3, EARLIER).body("kube-system", "s", now + 1))
    assert body["metadata"] == {
        "name": "s", "namespace": "kube-system", "resourceVersion": "6", "labels": {"a": "b"}
    }  # fmt: skip
    assert body["spec"]["acquireTime"] == EARLIER
    assert body["spec"]["renewTime"] == "2026-01-31T12:00:00.000001Z"


def test_timing_comes_from_the_configuration() -> None:
    assert Timing.of(LeaderElection()) == Timing(15, 10, 2)
    short = LeaderElection(lease_duration="1500ms", renew_deadline="1200ms", retry_period="500ms")
    assert Timing.of(short) == Timing(1.5, 1.2, 0.5)
    made = LeaseCandidate("me", Timing.of(short), lambda: 0.5)
    made.step(0)
    made.saw(None, 0)
    assert made.step(0) == Write(None, "me", 2, 0)
    with pytest.raises(InputError, match=r"leaderElection\.renewDeadline: 2s is not above"):
        Timing.of(LeaderElection(renew_deadline="2s"))
