"""What an extender's answer means for the nodes that it was asked about."""

from typing import Any

import pytest

from eventsched.cluster.messages import CallExtender, ExtenderReply
from eventsched.domain import records
from eventsched.domain.records import Consult, ExtenderAnswered, ExtenderAsked, Victims
from eventsched.domain.records.extender_records import FILTER, PREEMPT, PRIORITIZE
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.effects.extender_call_tracker import (
    MAX_REASON_LENGTH,
    MAX_REASONS,
    ExtenderCallTracker,
    outcome,
)
from tests.builders import make_node, make_pod

NAMES = [f"n{number}" for number in range(300)]


def meant(verb: str, nodes: str = "0-3", **reply: Any) -> ExtenderAnswered:
    """The answer to a question about n0 to n3, or others."""
    candidates = {"n0": Victims(uids=("a",)), "n1": Victims(uids=("b",))}
    asked = ExtenderAsked(
        uid="p", attempt=2, extender=0, name="http://x", verb=verb, nodes=nodes,
        candidates=candidates,
    )  # fmt: skip
    request = CallExtender("p", "default", "p", 2, 0, verb, (), candidates)
    return outcome(asked, ExtenderReply(request, duration=7, **reply), NAMES)


def answered(verb: str, **fields: Any) -> ExtenderAnswered:
    return ExtenderAnswered(
        uid="p", attempt=2, extender=0, name="http://x", verb=verb, duration=7, **fields
    )


@pytest.mark.parametrize(
    ("reply", "fields"),
    [
        ({"passed": ("n0", "n1", "n2", "n3")}, {}),
        ({"passed": ("n0", "n3"), "failed": {"n1": "busy", "n2": "busy"}},
         {"failed": {"busy": "1-2"}}),
        ({"passed": ("n0",), "failed": {"n1": "busy", "n2": "busy"},
          "unresolvable": {"n2": "broken"}},
         {"failed": {"busy": "1"}, "unresolvable": {"broken": "2", "": "3"}}),
        # Who passes passes.
        ({"passed": ("n0", "n1", "n2", "n3"), "failed": {"n0": "busy"}}, {}),
        ({"passed": ("n0", "n1", "n2", "n3"), "failed": {"n7": "busy"}},
         {"remark": "it names nodes that it was not asked about: n7"}),
        ({}, {"unresolvable": {"": "0-3"}}),
        ({"passed": ("n0", "n9")},
         {"problem": 'extender "http://x" claims a filtered node "n9" which is not found in the '
          "input node list"}),
        ({"problem": "away"}, {"problem": "away"}),
    ],
)  # fmt: skip
def test_filter(reply: dict[str, Any], fields: dict[str, Any]) -> None:
    assert meant(FILTER, **reply) == answered(FILTER, **fields)


def test_a_reason_for_each_node_is_kept_for_some() -> None:
    reasons = {name: f"{name} " + "x" * 1000 for name in NAMES}
    found = meant(FILTER, nodes="0-299", failed=reasons)
    assert len(found.failed) == MAX_REASONS + 1
    assert found.failed["other reasons"] == f"{MAX_REASONS}-299"
    assert {len(reason) for reason in found.failed} == {MAX_REASON_LENGTH, len("other reasons")}


@pytest.mark.parametrize(
    ("scores", "fields"),
    [
        ([("n0", 3), ("n2", 10), ("n1", 3), ("n3", 0)], {"scores": ((3, "0-1"), (10, "2"))}),
        ([], {}),
        ([("n0", 11)], {"problem": "the score 11 of node n0 is not between 0 and 10: none of its "
                        "scores is used"}),
        ([("n0", 1), ("n9", -1)], {"problem": "the score -1 of node n9 is not between 0 and 10: "
                                   "none of its scores is used"}),
        ([("n0", 1), *((f"n{i}", 1) for i in range(5, 10))],
         {"scores": ((1, "0"),),
          "remark": "it names nodes that it was not asked about: n5, n6, n7 and 2 more"}),
    ],
)  # fmt: skip
def test_prioritize(scores: list[tuple[str, int]], fields: dict[str, Any]) -> None:
    assert meant(PRIORITIZE, scores=tuple(scores)) == answered(PRIORITIZE, **fields)


def test_preempt() -> None:
    kept = Victims(uids=("b", "c"), violations=1)
    assert meant(PREEMPT, victims={"n1": kept, "n9": kept}) == answered(
        PREEMPT,
        victims={"n1": kept},
        remark="it names nodes that it was not asked about: n9",
    )


def test_an_answer_about_a_deleted_pod_is_not_used_for_the_next() -> None:
    """The question of another pod can be open by the time of the answer."""
    state = SchedulerState()
    tracker = ExtenderCallTracker(state)
    state.apply(records.NodeAdded(node=make_node("n0")), 0)
    state.apply(records.PodAdded(pod=make_pod("p1")), 0)
    state.apply(records.PodAdded(pod=make_pod("p2")), 0)
    state.apply(asked_about("p1"), 0)
    [call] = tracker.committed(Consult(uid="p1", attempt=1, decision=3))
    assert isinstance(call, CallExtender)
    state.apply(records.PodDeleted(uid="p1"), 0)
    state.apply(asked_about("p2"), 0)
    assert not tracker.awaits(call)
    assert tracker.unanswered(call) is None
    assert list(tracker.answered(ExtenderReply(call, passed=("n0",)))) == []
    [call] = tracker.committed(Consult(uid="p2", attempt=1, decision=5))
    assert isinstance(call, CallExtender)
    [answer] = tracker.answered(ExtenderReply(call, passed=("n0",)))
    assert isinstance(answer, ExtenderAnswered)
    assert answer.uid == "p2"


def asked_about(uid: str) -> ExtenderAsked:
    return ExtenderAsked(uid=uid, attempt=1, extender=0, name="http://x", verb=FILTER, nodes="0")
