"""Processes that take up another configuration at random moments, by seed."""

from collections import Counter

import pytest

from eventsched.domain.behaviours import Behaviour
from eventsched.runtime.leader.leader_term import LeaderTerm

from . import cluster, reloads
from .invariants import ViolationError
from .reloads import ReloadedWorld

SEEDS = 100


def run(seeds: int) -> Counter[str]:
    """Runs worlds of ``seeds`` seeds; the counts of what happened in them."""
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        counts += ReloadedWorld(seed, lossy=seed % 3 == 0).run().counts
    return counts


@pytest.mark.row(32)
def test_nothing_wrong_happens_when_a_configuration_is_reloaded() -> None:
    """Whatever else fails: each decision is replayed under the configuration that was in force, no
    pod is bound twice, and all pods that fit are bound in the end."""
    counts = run(SEEDS)
    assert counts["reload with the state"] > SEEDS
    assert counts["reload"] - counts["reload with the state"] > SEEDS // 2


def test_a_state_with_uncommitted_records_must_not_be_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next term would begin with decisions that the log does not have."""

    def careless(term: LeaderTerm) -> bool:
        term._stream_state.head, term._stream_state.drafts = term._head, term.trackers.outbox.open
        return True

    monkeypatch.setattr(LeaderTerm, "hand_over", careless)
    with pytest.raises(ViolationError):
        run(20)


def test_the_order_of_retries_must_not_depend_on_a_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without that rule a replay retries waiting pods in another order."""
    flags = tuple(set(cluster.OPENING.flags) - {Behaviour.RETRIES_IN_ORDER})
    monkeypatch.setattr(reloads, "FLAGS", flags)
    with pytest.raises(ViolationError, match="replayed, the records"):
        run(SEEDS)
