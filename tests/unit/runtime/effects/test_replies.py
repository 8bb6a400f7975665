"""When replies may leave, and what those to binds say then."""

import pytest

from eventsched.domain import records
from eventsched.domain.records import ExtenderReplied
from eventsched.domain.records.extender_records import BIND, FILTER
from eventsched.domain.records.log_entry import LogEntry
from eventsched.runtime.effects.replies import Replies
from tests.builders import make_pod


def observed(replies: Replies, *committed: records.Record) -> list[ExtenderReplied]:
    """What may leave once these are committed."""
    return replies.on_records([LogEntry(0, 0, 0, each) for each in committed])


def waiting(number: int, node: str = "n0") -> ExtenderReplied:
    return ExtenderReplied(number=number, uid="p1", verb=BIND, node=node, attempt=1, waits=True)


def test_most_replies_are_sent_at_once() -> None:
    reply = ExtenderReplied(number=1, uid="p1", verb=FILTER)
    refused = ExtenderReplied(number=2, uid="p1", verb=BIND, problem="no")
    assert observed(Replies(), reply, refused) == [reply, refused]


@pytest.mark.parametrize(
    ("end", "problem"),
    [
        (records.PodBound(uid="p1", node="n0", attempt=1), ""),
        (records.PodUpdated(pod=make_pod("p1", node_name="n0")), ""),
        (records.PodUpdated(pod=make_pod("p1", node_name="n1")), "the pod is on n1"),
        (records.PodUnreserved(uid="p1", node="n0", message="it is full"), "it is full"),
        (records.PodUnreserved(uid="p1", node="n0"), "the bind was given up"),
        (records.PodDeleted(uid="p1"), "the pod is gone"),
    ],
)
def test_the_reply_to_a_bind_waits_for_its_outcome(end: records.Record, problem: str) -> None:
    replies = Replies()
    assert observed(replies, waiting(1), records.PodUpdated(pod=make_pod("p1"))) == []
    assert observed(replies, waiting(2), records.PodDeleted(uid="p2")) == []
    told = observed(replies, end)
    assert [(each.number, each.problem) for each in told] == [(1, problem), (2, problem)]
    assert observed(replies, end) == []


def test_a_new_term_drops_replies_to_older_binds() -> None:
    """Their client gets no answer, and asks again."""
    replies = Replies()
    bound = records.PodBound(uid="p1", node="n0", attempt=1)
    assert observed(replies, waiting(1), records.TermBegan(epoch=2, token="t"), bound) == []
