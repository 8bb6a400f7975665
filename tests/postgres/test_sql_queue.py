"""What the views of the queue, reservations and placements say, against records read by Python."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from eventsched.domain import records
from eventsched.domain.records import AnyRecord, PodDecided, PodQueued
from eventsched.history.explain.evidence import uid_key
from eventsched.history.explain.record_text import pod_of
from tests.postgres.asked_views import Ask
from tests.postgres.histories import ODD
from tests.postgres.truth import PLACED, Row, Truth, time_of


def test_queue_stays(ask: Ask, truth: Truth) -> None:
    """From the move to a queue to the next record that takes the pod out of it."""
    query = (
        "SELECT pod_uid::text, queue, since, until, ended_seq FROM queue_stays"
        " WHERE stream = %s ORDER BY since, pod_uid::text, ended_seq"
    )
    found: list[Row] = []
    within: dict[str, tuple[str, int]] = {}
    for seq, at, _, record in truth.records:
        uid = pod_of(record)
        if uid is None:
            continue
        queue = _queue_after(record, within.get(uid, ("", 0))[0])
        if uid in within and queue != within[uid][0]:
            before, since = within.pop(uid)
            found.append((uid_key(uid), before, time_of(since), time_of(at), seq))
        if queue and uid not in within:
            within[uid] = queue, at
    found += [(uid_key(uid), queue, time_of(since), None, None)
              for uid, (queue, since) in within.items()]  # fmt: skip
    found.sort(key=lambda row: (row[2], row[0], row[4] is None, row[4] or 0))
    assert ask(query, truth.stream) == found
    assert len(found) > 10


def _queue_after(record: AnyRecord, queue: str) -> str:
    """The queue of the record's pod after it, "" if it is in none."""
    match record:
        case records.PodQueued():
            return record.queue.value
        case records.PodUpdated(pod=pod):
            return "" if pod.node_name else queue
        case (PodDecided() | records.PodDeleted() | records.PodSkipped() | records.PodBound()
              | records.PodUnreserved() | records.BindIntended()):  # fmt: skip
            return ""
        case records.ExtenderReplied():
            return "" if record.attempt > 0 else queue
        case _:
            return queue


def test_latency_from_decision_to_bind(ask: Ask, truth: Truth) -> None:
    query = (
        "SELECT sum(bound_at - decided_at), max(bound_at - decided_at) FROM bindings"
        " WHERE stream = %s"
    )
    decided = {(r.uid, r.attempt): at for _, at, _, r in truth.all(PodDecided)}
    took = [at - decided[r.uid, r.attempt] for _, at, _, r in truth.all(records.PodBound)]
    expected = (timedelta(microseconds=sum(took)), timedelta(microseconds=max(took)))
    assert ask(query, truth.stream) == [expected]


def test_queue_moves(ask: Ask, truth: Truth) -> None:
    query = "SELECT * FROM queue_moves WHERE stream = %s ORDER BY seq"
    expected = [
        (
            truth.stream, seq, time_of(at), *truth.who(r.uid), r.queue.value, r.cause, cause,
            r.plugin or None, list(r.rejectors), list(r.pending),
            time_of(r.until) if r.until else None, r.failures, r.errors, r.message or None,
        )
        for seq, at, cause, r in truth.all(PodQueued)
    ]  # fmt: skip
    assert ask(query, truth.stream) == expected


def test_how_long_pods_waited_by_queue(ask: Ask, truth: Truth) -> None:
    query = """
        SELECT queue, sum(until_at - at) FROM (
            SELECT kind, record ->> 'queue' AS queue, at,
                   lead(at) OVER (PARTITION BY pod_uid ORDER BY seq) AS until_at
            FROM events WHERE stream = %s AND kind IN ('PodQueued', 'PodDecided', 'PodDeleted')
        ) moves WHERE kind = 'PodQueued' GROUP BY queue
    """
    waited: dict[str, int | None] = {}
    since: dict[str, tuple[str, int]] = {}
    for _, at, _, r in truth.records:
        if isinstance(r, PodQueued | PodDecided | records.PodDeleted):
            if r.uid in since:
                queue, then = since.pop(r.uid)
                waited[queue] = (waited.get(queue) or 0) + at - then
            if isinstance(r, PodQueued):
                since[r.uid] = (r.queue.value, at)
    expected = {queue: timedelta(microseconds=each or 0) for queue, each in waited.items()}
    found = {queue: each for queue, each in ask(query, truth.stream) if each is not None}
    assert found == expected


def test_which_event_woke_which_pod(ask: Ask, truth: Truth) -> None:
    query = """
        SELECT m.seq, e.kind FROM queue_moves m
        JOIN events e ON e.stream = m.stream AND e.seq = m.caused_by WHERE m.stream = %s
    """
    kinds = [stored.kind for stored in truth.stored]
    expected = {seq: kinds[cause] for seq, _, cause, _ in truth.all(PodQueued)}
    assert dict(ask(query, truth.stream)) == expected


def test_reservations(ask: Ask, truth: Truth) -> None:
    """Folded from the records as the state does it."""
    query = (
        "SELECT pod_uid, attempt, node, reserved_seq, ended_seq, ended_by FROM reservations"
        " WHERE stream = %s ORDER BY reserved_seq"
    )
    held: dict[str, list[Any]] = {}
    found = []
    for seq, _, _, r in truth.records:
        kind = type(r).__name__
        if isinstance(r, PodDecided) and r.outcome in PLACED:
            key = UUID(uid_key(r.uid))
            held[r.uid] = [key, r.attempt, r.node, seq, None, None]
            found.append(held[r.uid])
        ends = isinstance(r, records.PodBound | records.PodUnreserved | records.PodDeleted)
        if isinstance(r, records.PodUpdated) and r.pod.node_name:
            ends = r.pod.uid in held and held[r.pod.uid][2] != r.pod.node_name
        uid = pod_of(r)
        if ends and uid in held:
            held.pop(uid)[4:] = [seq, kind]
    assert ask(query, truth.stream) == [tuple(each) for each in found]
    if truth.stream == ODD:
        assert {each[5] for each in found} == {
            None, "PodBound", "PodUnreserved", "PodDeleted", "PodUpdated"
        }  # fmt: skip


def test_first_nodes(ask: Ask, truth: Truth) -> None:
    query = "SELECT key, node, seq, at FROM first_nodes WHERE stream = %s"
    memory = {
        r.key: (r.value["node"], seq, time_of(at))
        for seq, at, _, r in truth.all(records.MemoryChanged)
    }
    assert {key: rest for key, *rest in ask(query, truth.stream)} == {
        key: list(each) for key, each in memory.items()
    }
    assert bool(memory) == (truth.stream == ODD)


def test_which_pods_were_on_a_node_at_a_time(ask: Ask, truth: Truth) -> None:
    """Those that we had bound and that were not gone yet."""
    query = """
        SELECT b.pod_uid FROM bindings b LEFT JOIN events e
            ON e.stream = b.stream AND e.pod_uid = b.pod_uid AND e.kind = 'PodDeleted'
        WHERE b.stream = %s AND b.node = %s AND b.bound_at <= %s AND (e.at IS NULL OR e.at > %s)
    """
    middle = truth.records[len(truth.records) * 3 // 4][1]
    there: dict[str, str] = {}
    for _, at, _, r in truth.records:
        if at <= middle and isinstance(r, records.PodBound):
            there[r.uid] = r.node
        elif at <= middle and isinstance(r, records.PodDeleted):
            there.pop(r.uid, None)
    for node in set(truth.nodes):
        found = ask(query, truth.stream, node, time_of(middle), time_of(middle))
        expected = {UUID(uid_key(uid)) for uid, on in there.items() if on == node}
        assert {uid for (uid,) in found} == expected


def test_why_pods_are_pending(ask: Ask, truth: Truth) -> None:
    """Each pod that waits, in which queue, and what its last attempt said."""
    query = """
        SELECT DISTINCT ON (pod_uid) pod_uid, kind, record ->> 'queue' FROM events
        WHERE stream = %s AND kind IN ('PodQueued', 'PodDecided', 'PodDeleted')
        ORDER BY pod_uid, seq DESC
    """
    waiting: dict[UUID, str] = {}
    for *_, r in truth.records:
        if isinstance(r, PodDecided | records.PodDeleted):
            waiting.pop(UUID(uid_key(r.uid)), None)
        elif isinstance(r, PodQueued):
            waiting[UUID(uid_key(r.uid))] = r.queue.value
    found = {uid: queue for uid, kind, queue in ask(query, truth.stream) if kind == "PodQueued"}
    assert found == waiting
