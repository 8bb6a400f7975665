"""API servers that are restored to earlier states, by seed."""

from collections import Counter

import pytest

from eventsched.runtime.leader import leader_term

from .invariants import ViolationError
from .restores import RestoredWorld

SEEDS = 100


def run(seeds: int) -> Counter[str]:
    """Runs worlds of ``seeds`` seeds; the counts of what happened in them."""
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        counts += RestoredWorld(seed).run().counts
    return counts


@pytest.mark.row(30)
def test_nothing_wrong_happens_when_a_cluster_is_restored() -> None:
    """Regardless of the changes since the backup: at the end all pods that fit are bound, and the
    log agrees with the cluster."""
    counts = run(SEEDS)
    assert counts["restore"] > SEEDS
    assert counts["deposed: the cluster's storage was restored to an earlier state"] > SEEDS // 10


def test_pods_that_a_restore_unbinds_must_become_pending(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without that rule at the start of a term, they would never be scheduled again."""
    monkeypatch.setattr(leader_term, "reverted", lambda *_: [])
    with pytest.raises(ViolationError, match="the log says"):
        run(20)
