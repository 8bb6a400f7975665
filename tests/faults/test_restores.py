"""API servers that are put back to earlier states, by seed."""

from collections import Counter

import pytest

from eventsched.runtime.leader import leader

from .invariants import ViolationError
from .restores import RestoredWorld

SEEDS = 100


def run(seeds: int) -> Counter[str]:
    """So many worlds, and what happened in them."""
    counts: Counter[str] = Counter()
    for seed in range(seeds):
        counts += RestoredWorld(seed).run().counts
    return counts


@pytest.mark.row(30)
def test_nothing_wrong_happens_when_a_cluster_is_put_back() -> None:
    """Whatever was bound, deleted or changed since the backup: in the end all that fits is bound,
    and log and cluster agree."""
    counts = run(SEEDS)
    assert counts["restore"] > SEEDS
    assert counts["deposed: the cluster's storage was restored to an earlier state"] > SEEDS // 10


def test_a_pod_that_lost_its_node_would_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were it not taken in anew at the beginning of a term."""
    monkeypatch.setattr(leader, "unbound", lambda *_: [])
    with pytest.raises(ViolationError, match="the log says"):
        run(20)
