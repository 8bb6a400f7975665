"""A work budget under random faults: pods above it are never placed, all others are."""

from collections import Counter
from random import Random

import msgspec
import pytest

from eventsched.domain.objects import Pod
from eventsched.domain.records import MoveCause, Outcome, PodAdded, PodDecided, PodQueued
from eventsched.domain.records.stimuli import WORK_BUDGET
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader import Leader
from eventsched.scheduling.cycle.work_budget import FIXED_COST

from . import cluster
from .database import stored_of
from .world import World

SEEDS = 60
HEAVY = {f"label-{number}": "" for number in range(65)}
"""With these labels a pod is above the budget."""
OPENING = msgspec.structs.replace(cluster.OPENING, inputs={WORK_BUDGET: str(FIXED_COST + 100)})

ordinary, is_to_be_bound = cluster.pod, cluster.is_to_be_bound


def budgeted(followed_stream: FollowedStream) -> Leader:
    return Leader(followed_stream, OPENING, cluster.LIMITS)


def is_heavy(pod: Pod) -> bool:
    return pod.labels.keys() >= HEAVY.keys()


def pods(rng: Random, number: int) -> list[Pod]:
    """Every third pod is heavy, except pairs."""
    created = ordinary(rng, number)
    if number % 3 or len(created) > 1:
        return created
    return [msgspec.structs.replace(pod, labels={**pod.labels, **HEAVY}) for pod in created]


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_nothing_wrong_happens_with_a_budget(monkeypatch: pytest.MonkeyPatch, lossy: bool) -> None:
    monkeypatch.setattr(cluster, "pod", pods)
    monkeypatch.setattr(
        cluster, "is_to_be_bound", lambda pod: is_to_be_bound(pod) and not is_heavy(pod)
    )
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        world = World(seed, lossy=lossy, make_leader=budgeted).run()
        counts += world.counts
        heavy: set[str] = set()
        for batch in world.database.batches:
            for stored in stored_of(batch):
                record = stored.record
                if isinstance(record, PodQueued) and record.cause == MoveCause.OVER_BUDGET:
                    counts["parked"] += 1
                if isinstance(record, PodAdded) and is_heavy(record.pod):
                    heavy.add(record.pod.uid)
                if isinstance(record, PodDecided) and record.outcome is Outcome.SCHEDULED:
                    counts["placed"] += 1
                    assert record.uid not in heavy
    wanted = {"parked", "placed", "crash", "start cold", "start warm", "start restored"}
    assert not {name for name in wanted if not counts[name]}, "the seeds do not reach this"
