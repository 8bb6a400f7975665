"""Requests of another scheduler under random faults: see extender_serving.py."""

from collections import Counter
from collections.abc import Sequence

import pytest

from eventsched.domain.records import ExtenderReplied
from eventsched.domain.records.log_entry import LogEntry
from eventsched.runtime.leader.leader_term import LeaderTerm

from .extender_serving import Answering, ServingWorld
from .invariants import ViolationError
from .test_faults import names

SEEDS = 80
REACHED = """
asked filter; asked prioritize; asked bind; answered filter; answered prioritize; answered bind;
answered bind: no; unanswered filter; unanswered bind; swallowed; no leader; crash;
crash after ExtenderInquired; crash after Committed; ghost BindPod;
late BindPod; lost BindPod; unanswered BindPod; deposed: fenced; start warm; start restored;
record ExtenderInquired; record ExtenderReplied; record BindIntended; record PodBound;
record BindRetried; record BindVoided; record PodUnreserved
"""


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_nothing_wrong_happens_to_inquiries(lossy: bool) -> None:
    """Every reply is committed before it is sent, confirmed binds are done, and the log replays. At
    the end all pods that fit are bound."""
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
    """Notifies the observer of records together with their batch, not after its commit."""

    def _append(self) -> None:
        super()._append()
        if self._under_way is not None and self._on_committed is not None:
            self._on_committed(list(self._uncommitted_records)[: self._under_way[0].count])


class Hasty(Answering):
    """Replies are sent together with their batch, not after its commit."""

    leader_term_type = HastyTerm


class Hopeful(Answering):
    """A bind is confirmed when its intent is committed, before the bind is done."""

    def _send_replies(self, committed: Sequence[LogEntry]) -> None:
        super()._send_replies([e for e in committed if not getattr(e.record, "waits", False)])
        replies = [e.record for e in committed if isinstance(e.record, ExtenderReplied)]
        self.sent += [reply for reply in replies if reply.waits]


@pytest.mark.parametrize(
    ("mutant", "violation"),
    [(Hasty, "but nothing was committed"), (Hopeful, "is said to be on")],
)
def test_seeds_catch_replies_that_are_sent_too_early(
    mutant: type[Answering], violation: str
) -> None:
    def violated(seed: int) -> str:
        try:
            ServingWorld(seed, make_leader=mutant).run()
        except ViolationError as error:
            return str(error)
        return ""

    assert any(violation in violated(seed) for seed in range(10))
