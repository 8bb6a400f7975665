"""The log of a custom scheduler: its contents over restarts, refusals and a second process."""

from typing import Any

import msgspec
import pytest

from eventsched.cluster.messages import (
    BindPod,
    Bound,
    Listed,
    Listing,
    NodeGone,
    NodeSeen,
    PodAbsent,
    PodGone,
    PodSeen,
    PodShown,
    Unknown,
)
from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod
from eventsched.domain.records.log_entry import LogEntry
from eventsched.eventlog.log_errors import FencedError
from eventsched.eventlog.port import Batch, StoredRecord
from eventsched.eventlog.postgres.reader import Reader
from eventsched.eventlog.postgres.writer import PostgresEventLog
from eventsched.runtime.logbook import Logbook
from tests.builders import make_node, make_pod
from tests.leader_harness import OPENING

NAME = "mine"
N1, N2 = make_node("n1"), make_node("n2")


def mine(name: str, **fields: Any) -> Pod:
    """A pod for this scheduler."""
    return make_pod(name, scheduler_name=NAME, **fields)


def on(pod: Pod, node: str) -> Pod:
    """The pod, bound."""
    return msgspec.structs.replace(pod, node_name=node)


def listed(*pods: Pod, version: int = 10) -> Listed:
    """Two nodes and some pods."""
    return Listed(
        [
            Listing("Pod", version, [PodSeen(pod, version) for pod in pods]),
            Listing("Node", version, [NodeSeen(node, version) for node in (N1, N2)]),
            Listing("Namespace", version, []),
        ]
    )


class Told:
    """The records appended to a stream since the last call."""

    def __init__(self, address: str) -> None:
        self._address, self._next = address, 0

    def kinds(self) -> list[str]:
        """The kinds of the records."""
        found = [stored.kind for stored in Reader(self._address, NAME).read(self._next)]
        self._next += len(found)
        return found


WEB = mine("web")
BIND = BindPod(WEB.uid, "default", "web", "n1", 10, "")


def named(promise: BindPod | None) -> BindPod | None:
    """A promise without the name of its decision."""
    return promise and BindPod(*promise_fields(promise))


def promise_fields(promise: BindPod) -> tuple[str, str, str, str, int, str]:
    """All fields except the decision's name."""
    return (
        promise.uid, promise.namespace, promise.name, promise.node, promise.resource_version, "",
    )  # fmt: skip


def test_from_a_list_to_a_bound_pod(database: str) -> None:
    """Nodes and its own pods are written down; a decision before its bind; what is not new, and
    pods of other schedulers, are not."""
    told = Told(database)
    with Logbook(database, NAME) as book:
        assert told.kinds() == ["StreamStarted", "TermBegan"]
        book.saw(listed(WEB, make_pod("other")))
        assert told.kinds() == ["NodeAdded", "NodeAdded", "PodAdded", "PodQueued"]
        assert (book.nodes, book.waiting, book.promise) == ([N1, N2], [WEB], None)

        book.decide(WEB, N1)
        assert told.kinds() == ["PodDecided"]
        promise = book.promise
        assert promise is not None
        assert (named(promise), book.waiting) == (BIND, [])
        assert promise.decision.startswith("mine/6@")

        assert not book.answered(Unknown(promise))
        assert (book.promise, told.kinds()) == (promise, [])
        assert book.answered(Bound(promise))
        assert told.kinds() == ["BindSucceeded", "PodBound"]
        book.saw(PodSeen(on(WEB, "n1"), 11))
        book.saw(NodeSeen(N1, 12))
        assert told.kinds() == []
        book.saw(PodGone(WEB.uid, 13))
        book.saw(NodeGone("n2", 14))
        assert told.kinds() == ["PodDeleted", "NodeDeleted"]
        assert (book.nodes, book.promise) == ([N1], None)


def test_pods_that_cannot_be_placed_now(database: str) -> None:
    """Pods that are gated, being deleted, or placed by another scheduler."""
    with Logbook(database, NAME) as book:
        gated, leaving = mine("gated", gates=("a",)), mine("leaving", deleting=True)
        book.saw(listed(gated, leaving, on(mine("placed"), "n2")))
        assert book.waiting == []
        book.saw(PodSeen(mine("gated"), 11))
        assert book.waiting == [mine("gated")]
        with pytest.raises(KeyError):
            book.decide(mine("unknown"), N1)


def test_the_cluster_refuses(database: str) -> None:
    """The pod has changed and waits again; or it is on a node, or gone."""
    told = Told(database)
    with Logbook(database, NAME) as book:
        book.saw(listed(WEB))
        book.decide(WEB, N1)
        promise = book.promise
        assert promise is not None
        told.kinds()
        changed = mine("web", labels={"a": "b"})
        assert book.answered(PodShown(promise, PodSeen(changed, 11)))
        assert told.kinds() == ["PodUpdated", "BindFailed", "PodUnreserved", "PodQueued"]
        assert (book.waiting, book.promise) == ([changed], None)

        book.decide(changed, N2)
        again = book.promise
        assert again is not None
        assert (again.node, again.resource_version) == ("n2", 11)
        assert book.answered(PodShown(again, PodSeen(on(changed, "n1"), 12)))
        assert told.kinds() == ["PodDecided", "PodUpdated"]
        assert (book.waiting, book.promise) == ([], None)

        other = mine("other")
        book.saw(PodSeen(other, 13))
        book.decide(other, N1)
        last = book.promise
        assert last is not None
        told.kinds()
        assert book.answered(PodAbsent(last))
        book.saw(PodSeen(other, 14))  # the watch is behind
        assert (told.kinds(), book.promise) == (["PodDeleted"], None)


def test_a_restart_keeps_its_promise(database: str) -> None:
    """The bind has not arrived and is repeated under the same name; or it has, and is known by the
    list."""
    with Logbook(database, NAME) as book:
        book.saw(listed(WEB))
        book.decide(WEB, N1)
        promise = book.promise
    told = Told(database)
    told.kinds()
    with Logbook(database, NAME) as book:
        book.saw(listed(WEB, version=20))
        again = book.promise
        assert promise is not None
        assert again is not None
        assert (again.decision, again.resource_version) == (promise.decision, 20)
        assert told.kinds() == ["TermBegan"]
    with Logbook(database, NAME) as book:
        book.saw(listed(on(WEB, "n1"), version=30))
        assert told.kinds() == ["TermBegan", "PodUpdated", "PodBound"]
        assert (book.promise, book.waiting) == (None, [])


def test_objects_deleted_between_runs(database: str) -> None:
    """The list says it."""
    told = Told(database)
    with Logbook(database, NAME) as book:
        book.saw(listed(WEB, mine("gone")))
        told.kinds()
    with Logbook(database, NAME) as book:
        book.saw(listed(WEB, version=20))
        assert told.kinds() == ["TermBegan", "PodDeleted"]
        assert book.waiting == [WEB]


def test_a_second_process_takes_over(database: str) -> None:
    """The first one's next decision is refused, before it can take effect."""
    told = Told(database)
    with Logbook(database, NAME) as first:
        first.saw(listed(WEB))
        with Logbook(database, NAME) as second:
            with pytest.raises(FencedError):
                first.decide(WEB, N1)
            second.saw(listed(WEB))
            second.decide(WEB, N2)
    assert told.kinds().count("PodDecided") == 1


def test_a_draw_follows_from_seed_and_attempt(database: str) -> None:
    """It is recorded if there was a choice."""
    with Logbook(database, NAME, seed="x") as book:
        book.saw(listed(WEB, mine("b")))
        drawn = book.draw(WEB)
        book.decide(WEB, [N1, N2][drawn % 2], ties=2)
        book.decide(mine("b"), N1)
        rows = Reader(database, NAME).rows(
            "SELECT draw::text, ties FROM eventsched.decisions ORDER BY seq"
        )
        assert [(row["draw"], row["ties"]) for row in rows] == [(str(drawn), 2), ("0", 1)]


def test_a_large_cluster_is_written_in_parts(database: str) -> None:
    """Whole steps in each: a pod that is known is in the queue, too."""
    with Logbook(database, NAME) as book:
        book.saw(listed(*(mine(f"p{number}") for number in range(700))))
        assert len(book.waiting) == 700
    batches = list(Reader(database, NAME).batches())
    assert len(batches) > 2
    ends = [batch.records[-1].kind for batch in batches[1:]]
    assert set(ends) <= {"PodQueued", "NodeAdded"}


def test_the_stream_of_another_scheduler(database: str) -> None:
    """Is left alone."""
    log = PostgresEventLog(database, NAME)
    log.begin(Batch([StoredRecord.of(LogEntry(0, 0, 0, OPENING))], {}))
    log.finish()
    log.close()
    with pytest.raises(InputError, match="stream mine: was begun by another scheduler"):
        Logbook(database, NAME)
    assert Told(database).kinds() == ["StreamStarted"]
