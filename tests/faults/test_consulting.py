"""Attempts that call extenders, under random faults: see consulting.py."""

from collections import Counter

import pytest

from eventsched.cluster.messages import CallExtender, ExtenderReply
from eventsched.domain.records import Consult
from eventsched.runtime.leader.followed_stream import FollowedStream
from eventsched.runtime.leader.leader_messages import Message

from .consulting import ConsultingAuditor, ConsultingWorld, followed_stream
from .invariants import ViolationError
from .mutants import Hasty, Mutant
from .processes import Flight
from .stage import Stage
from .test_faults import names

SEEDS = 60
REACHED = """
filter answer; filter problem; prioritize answer; prioritize problem; preempt answer;
preempt problem; crash; ghost CallExtender; late CallExtender; lost CallExtender;
unanswered CallExtender; crash before CallExtender; crash after ExtenderReply;
record ExtenderAsked; record ExtenderAnswered; record PodBound; record PreemptionDecided
"""


class AskFirst(Hasty):
    """Questions are sent together with their batch, not after its commit."""

    kind = Consult


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_nothing_wrong_happens_to_questions(lossy: bool) -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        counts += ConsultingWorld(seed, lossy=lossy).run().counts
    wanted = names(REACHED) | ({"record HistoryLost"} if lossy else set())
    assert not {name for name in wanted if not counts[name]}, "the seeds do not reach this"


def test_a_seed_runs_twice_alike() -> None:
    one, other = ConsultingWorld(7).run(), ConsultingWorld(7).run()
    assert one.trace == other.trace
    assert one.database.head == other.database.head


def test_seeds_catch_questions_that_are_sent_before_their_commit() -> None:
    def violated(seed: int) -> str:
        try:
            ConsultingWorld(seed, make_leader=Mutant(AskFirst).make_leader).run()
        except ViolationError as violation:
            return str(violation)
        return ""

    assert any("no record was committed" in violated(seed) for seed in range(10))


class ConsultingStage(Stage):
    """A scripted world in which one extender lets all nodes pass."""

    audited_by = ConsultingAuditor
    auditor: ConsultingAuditor

    def _carry_out(self, flight: Flight) -> Message | None:
        if not isinstance(flight.request, CallExtender):
            return super()._carry_out(flight)
        self.auditor.consulted(flight.request)
        self.counts["asked"] += 1
        return ExtenderReply(flight.request, passed=flight.request.nodes)


class Consulting(Mutant):
    """The product, with extenders."""

    def make_followed_stream(self) -> FollowedStream:
        return followed_stream()


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_new_leader_asks_the_open_question_again(snapshot: bool) -> None:
    stage = ConsultingStage(Consulting())
    one = stage.lead("A")
    stage.hold(one, CallExtender)
    stage.pod("web")
    stage.settle()
    assert stage.auditor.engine.state.consultation.question is not None
    stage.stand_by("B", snapshot=snapshot)
    stage.lead("B")
    stage.settle()
    assert "web" in stage.api.placed
    stage.finish()
    asked = stage.auditor.kinds["ExtenderAsked"]
    assert asked == 2, "each extender filters once; one node needs no scores"
    assert stage.counts["asked"] == asked + 1, "the late question of the first leader arrives too"
