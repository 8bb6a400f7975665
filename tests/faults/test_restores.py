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
    """Whatever was bound, deleted or changed since the backup: in the end all that fits is bound,
    and log and cluster agree."""
    counts = run(SEEDS)
    assert counts["restore"] > SEEDS
    assert counts["deposed: the cluster's storage was restored to an earlier state"] > SEEDS // 10


def test_a_pod_that_lost_its_node_would_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the beginning of a term did not take it as a new pod."""
    monkeypatch.setattr(leader_term, "unbound", lambda *_: [])
    with pytest.raises(ViolationError, match="the log says"):
        run(20)
