"""Another scheduler's questions, while everything fails: see extender_serving.py."""

from collections import Counter
from collections.abc import Sequence

import pytest

from eventsched.domain.records.extender_replies import ExtenderReplied
from eventsched.domain.records.logged import Logged
from eventsched.runtime.leader.leader_term import LeaderTerm

from .extender_serving import Answering, ServingWorld
from .invariants import ViolationError
from .test_faults import names

SEEDS = 80
REACHED = """
asked filter; asked prioritize; asked bind; answered filter; answered prioritize; answered bind;
answered bind: no; unanswered filter; unanswered bind; swallowed; nobody leads; crash;
crash after ExtenderInquired; crash after Committed; ghost BindPod;
late BindPod; lost BindPod; unanswered BindPod; deposed: fenced; start warm; start restored;
record ExtenderInquired; record ExtenderReplied; record BindIntended; record PodBound;
record BindRetried; record BindVoided; record PodUnreserved
"""


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_nothing_wrong_happens_to_inquiries(lossy: bool) -> None:
    """Each answer that leaves is committed, a bind that is said to be done is done, and the stimuli
    alone give the same log again; in the end what fits is bound."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        counts += ServingWorld(seed, lossy=lossy).run().counts
    wanted = names(REACHED) | ({"record HistoryLost"} if lossy else set())
    assert not {name for name in wanted if not counts[name]}, "the seeds do not reach this"
    assert not counts["record PodDecided"] + counts["record PodQueued"]


def test_a_seed_runs_twice_alike() -> None:
    one, other = ServingWorld(7).run(), ServingWorld(7).run()
    assert one.trace == other.trace
    assert one.database.head == other.database.head


class HastyTerm(LeaderTerm):
    """Tells the observer of records with their batch, not after it."""

    def _append(self) -> None:
        super()._append()
        if self._under_way is not None and self._on_committed is not None:
            self._on_committed(list(self._uncommitted)[: self._under_way[0].count])


class Hasty(Answering):
    """Answers leave with their batch, not after it."""

    leader_term_type = HastyTerm


class Hopeful(Answering):
    """A bind is answered when its intent is committed."""

    def _tell(self, committed: Sequence[Logged]) -> None:
        super()._tell([each for each in committed if not getattr(each.record, "waits", False)])
        replies = [each.record for each in committed if isinstance(each.record, ExtenderReplied)]
        self.told += [reply for reply in replies if reply.waits]


@pytest.mark.parametrize(
    ("mutant", "said"),
    [(Hasty, "but nothing was committed"), (Hopeful, "is said to be on")],
)
def test_seeds_catch_what_is_answered_too_early(mutant: type[Answering], said: str) -> None:
    def violated(seed: int) -> str:
        try:
            ServingWorld(seed, make_leader=mutant).run()
        except ViolationError as violation:
            return str(violation)
        return ""

    assert any(said in violated(seed) for seed in range(10))
