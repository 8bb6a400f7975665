"""The rules of the election, step by step."""

import msgspec
import pytest

from eventsched.cluster.kube.lease.candidate import (
    Lease,
    LeaseCandidate,
    LeaseSpec,
    ReadLease,
    Timing,
    WaitUntil,
    Withdrawn,
    WriteLease,
)
from eventsched.domain.errors import InputError
from eventsched.scheduling.config.sections import LeaderElection

EARLIER = "2026-01-31T12:00:00.000000Z"
LATER = "2026-01-31T12:00:02.000000Z"


def new_candidate(name: str = "me", *, watched: bool = True) -> LeaseCandidate:
    candidate = LeaseCandidate(name, Timing(), lambda: 0.5)
    candidate.watched = watched
    return candidate


def lease(holder: str, version: int, *, renewed: str = EARLIER, transitions: int = 0) -> Lease:
    spec = LeaseSpec(holder, 15, EARLIER, renewed, transitions)
    return Lease({"name": "s", "namespace": "kube-system", "resourceVersion": str(version)}, spec)


def leader(at: float = 0.0) -> LeaseCandidate:
    """A candidate that leads, because it has created the lease."""
    candidate = new_candidate()
    candidate.step(at)
    candidate.saw(None, at)
    candidate.step(at)
    candidate.wrote(lease("me", 1), at, at + 0.1)
    return candidate


def test_a_missing_lease_is_created() -> None:
    candidate = new_candidate()
    assert candidate.step(0) == ReadLease()
    candidate.saw(None, 0.1)
    assert candidate.step(0.1) == WriteLease(None, "me", 15, 0)
    candidate.wrote(lease("me", 1), 0.1, 0.2)
    assert candidate.step(0.2) == WaitUntil(2.1)
    assert (candidate.leads(0.2), candidate.leads_until()) == (True, 10.1)


def test_a_lease_that_was_not_renewed_for_its_duration_is_taken() -> None:
    candidate = new_candidate()
    candidate.step(0)
    candidate.saw(lease("other", 5), 0)
    assert candidate.step(0) == WaitUntil(15)
    candidate.saw(lease("other", 6, renewed=LATER), 9)
    assert candidate.step(15) == WaitUntil(24)
    assert candidate.step(24) == WriteLease(lease("other", 6, renewed=LATER), "me", 15, 1)


def test_an_observer_takes_no_lease_but_measures_the_time_since_the_last_renewal() -> None:
    candidate = new_candidate()
    candidate.competes, candidate.watched = False, True
    candidate.step(0)
    candidate.saw(lease("other", 5), 0)
    assert isinstance(candidate.step(14), WaitUntil)
    assert isinstance(candidate.step(20), WaitUntil)
    candidate.competes = True
    assert candidate.step(20) == WriteLease(lease("other", 5), "me", 15, 1)


def test_an_observer_without_a_watch_reads_the_lease_periodically() -> None:
    candidate = new_candidate()
    candidate.competes = candidate.watched = False
    candidate.step(0)
    candidate.saw(lease("other", 5), 0)
    for at in (0, 20):
        waits = candidate.step(at)
        assert isinstance(waits, WaitUntil)
        assert waits.until > at
        assert candidate.step(waits.until) == ReadLease()
        candidate.saw(lease("other", 5), waits.until)


def test_a_change_of_metadata_alone_does_not_prolong_a_lease() -> None:
    candidate = new_candidate()
    candidate.step(0)
    candidate.saw(lease("other", 5), 0)
    candidate.saw(lease("other", 6), 9)
    assert candidate.step(15) == WriteLease(lease("other", 6), "me", 15, 1)


@pytest.mark.parametrize("free", [lease("", 6, renewed=LATER), None])
def test_a_released_or_deleted_lease_is_taken_at_once(free: Lease | None) -> None:
    candidate = new_candidate()
    candidate.step(0)
    candidate.saw(lease("other", 5), 0)
    if free is None:
        candidate.vanished(6, 3)
        assert candidate.step(3) == WriteLease(None, "me", 15, 0)
    else:
        candidate.saw(free, 3)
        assert candidate.step(3) == WriteLease(free, "me", 15, 1)


def test_a_leader_renews_and_keeps_the_acquire_time() -> None:
    candidate = leader()
    candidate.saw(lease("me", 1), 0.2)
    assert candidate.step(1.9) == WaitUntil(2)
    assert candidate.step(2) == WriteLease(lease("me", 1), "me", 15, 0, EARLIER)
    candidate.wrote(lease("me", 2, renewed=LATER), 2, 4)
    assert (candidate.step(4), candidate.leads_until()) == (
        WriteLease(lease("me", 2, renewed=LATER), "me", 15, 0, EARLIER),
        12,
    )


def test_a_leader_without_an_answer_reads_the_lease_and_leads_until_its_deadline() -> None:
    candidate = leader()
    assert isinstance(candidate.step(2), WriteLease)
    candidate.failed(7)
    assert candidate.step(7) == WaitUntil(9)
    assert candidate.step(9) == ReadLease()
    candidate.failed(9.5)
    assert candidate.step(9.5) == WaitUntil(10)
    assert (candidate.leads(9.99), candidate.leads(10)) == (True, False)
    assert candidate.step(10) == WaitUntil(11.5)


def test_a_leader_whose_unanswered_write_arrived_continues_to_lead() -> None:
    candidate = leader()
    candidate.step(2)
    candidate.failed(3)
    assert candidate.step(5) == ReadLease()
    candidate.saw(lease("me", 2, renewed=LATER), 5)
    assert candidate.step(5) == WriteLease(lease("me", 2, renewed=LATER), "me", 15, 0, EARLIER)
    candidate.wrote(lease("me", 3, renewed=LATER), 5, 5)
    assert candidate.leads_until() == 15


def test_a_leader_stops_at_once_if_another_holds_the_lease() -> None:
    candidate = leader()
    candidate.saw(lease("other", 3), 1)
    assert not candidate.leads(1)
    assert candidate.step(1) == WaitUntil(16)


def test_a_write_older_than_the_watch_does_not_make_a_leader() -> None:
    candidate = new_candidate()
    candidate.step(0)
    candidate.saw(lease("", 5), 0)
    assert isinstance(candidate.step(0), WriteLease)
    candidate.saw(lease("other", 7, renewed=LATER), 1)
    candidate.wrote(lease("me", 6, renewed=LATER), 0, 2)
    assert not candidate.leads(2)
    assert candidate.step(2) == WaitUntil(16)


def test_the_lease_is_read_at_once_after_a_conflict_and_later_after_a_second_one() -> None:
    candidate = new_candidate()
    candidate.step(0)
    candidate.saw(lease("", 5), 0)
    candidate.step(0)
    candidate.failed(1, conflict=True)
    assert candidate.step(1) == ReadLease()
    candidate.saw(lease("", 5), 1)
    assert isinstance(candidate.step(1), WriteLease)
    candidate.failed(1, conflict=True)
    assert candidate.step(1) == WaitUntil(1 + 2 * (1 + 1.2 * 0.5))


def test_without_a_watch_the_lease_is_read_every_few_seconds() -> None:
    candidate = new_candidate(watched=False)
    candidate.step(0)
    candidate.saw(lease("other", 5), 0)
    assert candidate.step(0) == WaitUntil(3.2)
    assert candidate.step(3.2) == ReadLease()
    candidate.saw(lease("other", 5), 3.2)
    assert candidate.step(14) == WaitUntil(15)
    assert candidate.step(15) == ReadLease()
    candidate.saw(lease("other", 5), 15)
    assert isinstance(candidate.step(15), WriteLease)


def test_the_lease_is_read_after_a_broken_watch() -> None:
    candidate = new_candidate()
    candidate.step(0)
    candidate.saw(lease("other", 5), 0)
    candidate.unwatched(1)
    assert candidate.step(1) == ReadLease()


def test_a_leader_recreates_a_lease_that_was_deleted() -> None:
    candidate = leader()
    candidate.vanished(4, 1)
    assert candidate.leads(1)
    assert candidate.step(1) == WriteLease(None, "me", 15, 0)


def test_a_leader_that_withdraws_releases_the_lease() -> None:
    candidate = leader()
    candidate.withdraw()
    assert not candidate.leads(0.2)
    assert candidate.step(0.2) == WriteLease(lease("me", 1), "", 1, 0)
    candidate.wrote(lease("", 2), 0.2, 0.3)
    assert candidate.step(0.3) == Withdrawn()


def test_a_lease_from_an_unanswered_write_is_released_too() -> None:
    candidate = new_candidate()
    candidate.step(0)
    candidate.saw(None, 0)
    candidate.step(0)
    candidate.withdraw()
    candidate.failed(5)
    assert candidate.step(8.2) == ReadLease()
    candidate.saw(lease("me", 1), 8.2)
    assert candidate.step(8.2) == WriteLease(lease("me", 1), "", 1, 0)


@pytest.mark.parametrize("shown", [None, lease("other", 9)])
def test_a_lease_that_is_not_held_is_not_released(shown: Lease | None) -> None:
    fresh = new_candidate()
    fresh.withdraw()
    assert fresh.step(0) == Withdrawn()
    candidate = leader()
    candidate.step(2)
    candidate.failed(3)
    candidate.withdraw()
    assert candidate.step(3) == ReadLease()
    candidate.saw(shown, 3)
    assert candidate.step(3) == Withdrawn()


def test_the_json_of_a_lease() -> None:
    now = 1_769_860_800_000_000
    assert msgspec.json.decode(WriteLease(None, "me", 15, 0).body("kube-system", "s", now)) == {
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
    old = lease("other", 6)
    old.metadata.update(labels={"a": "b"}, managedFields=[{}])
    body = msgspec.json.decode(
        WriteLease(old, "me", 15, 3, EARLIER).body("kube-system", "s", now + 1)
    )
    assert body["metadata"] == {
        "name": "s", "namespace": "kube-system", "resourceVersion": "6", "labels": {"a": "b"}
    }  # fmt: skip
    assert body["spec"]["acquireTime"] == EARLIER
    assert body["spec"]["renewTime"] == "2026-01-31T12:00:00.000001Z"


def test_annotations_of_a_lease() -> None:
    """Those of others stay."""
    for old, found in ((None, {"a": "1"}), (lease("me", 6), {"a": "1", "other": "2"})):
        if old is not None:
            old.metadata["annotations"] = {"a": "0", "other": "2"}
        written = WriteLease(old, "me", 15, 0).body("kube-system", "s", 0, {"a": "1"})
        assert msgspec.json.decode(written)["metadata"]["annotations"] == found


def test_timing_comes_from_the_configuration() -> None:
    assert Timing.of(LeaderElection()) == Timing(15, 10, 2)
    short = LeaderElection(lease_duration="1500ms", renew_deadline="1200ms", retry_period="500ms")
    assert Timing.of(short) == Timing(1.5, 1.2, 0.5)
    candidate = LeaseCandidate("me", Timing.of(short), lambda: 0.5)
    candidate.step(0)
    candidate.saw(None, 0)
    assert candidate.step(0) == WriteLease(None, "me", 2, 0)
    with pytest.raises(InputError, match=r"leaderElection\.renewDeadline: 2s is not above"):
        Timing.of(LeaderElection(renew_deadline="2s"))
