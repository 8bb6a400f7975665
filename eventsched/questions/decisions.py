"""Decisions by position: pages with filters, and one decision in full.

A page looks at a bounded number of decisions, so a filter that few of them pass gives short pages
and a place to go on from, and no answer takes longer in a longer log.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.eventlog.port import StoredRecord
from eventsched.history.decision_vectors import VectorSource
from eventsched.history.dominant_refusal import refusal_rank
from eventsched.output.time_format import iso
from eventsched.questions.answer_shapes import Decision, DecisionDetail, Decisions, RefusedNodes
from eventsched.questions.excluded_nodes import (
    attempts_that_name,
    refusals_at,
    refusals_in,
)
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import NotVisibleError, Visibility
from eventsched.runtime.queries.state_at import dropped_error

LOOKED_AT = 20_000
"""Decisions that one page looks at."""
_FAILED = ("unschedulable", "error")

_COLUMNS = """
d.seq, d.at, CAST(d.pod AS text) AS uid, d.attempt, d.profile, CAST(d.outcome AS text) AS outcome,
d.node, d.score, d.runner_up, d.runner_up_score, d.feasible, d.evaluated, d.ties, p.namespace,
p.name
"""
_LOOKED_AT = """
SELECT min(w.seq) AS first, max(w.seq) AS last, count(*) AS looked FROM (
    SELECT d.seq FROM eventsched_log.decision d
    WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high{of_pod}
    ORDER BY d.seq {order} LIMIT :most
) AS w
"""
_PAGE = """
SELECT {columns} FROM eventsched_log.decision d
LEFT JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high{conditions}
ORDER BY d.seq {order} LIMIT :limit
"""
# Of a list Postgres compares each element with each row. The row of arrays is read sooner than a
# row for each refusal.
_REFUSED = """
SELECT array_agg(r.seq) AS seqs, array_agg(r.number) AS numbers, array_agg(r.nodes) AS nodes
FROM eventsched_log.refusal r
WHERE r.stream = :s AND r.seq >= :low AND r.seq <= :high
  AND r.seq IN (SELECT unnest(CAST(:seqs AS bigint[])))
"""
_UIDS = """
SELECT CAST(p.uid AS text) AS uid FROM eventsched_log.pod p
WHERE p.stream = :s AND p.name = :name{namespace} ORDER BY p.seq DESC LIMIT 100
"""
_BESIDE = """
SELECT max(CASE WHEN d.seq < :seq THEN d.seq END) AS previous,
       min(CASE WHEN d.seq > :seq THEN d.seq END) AS following
FROM eventsched_log.decision d WHERE d.stream = :s AND d.pod = :uid
"""


class DecisionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which decisions. ``reason`` is a part of a refusal's reason, in any case; it and ``plugin``
    mean the same refusal. ``owner`` is the name of a controller of pods that still exist. Positions
    from ``low`` to before ``high``."""

    namespace: str | None = None
    pod: str | None = None
    owner: str | None = None
    reason: str | None = None
    plugin: str | None = None
    node: str | None = None
    profile: str | None = None
    outcome: str | None = None
    low: int = 0
    high: int | None = None


def decisions_page(
    stream: LoggedStream, sees: Visibility, wanted: DecisionFilter, limit: int, *, newest: bool
) -> Decisions:
    """A page of decisions, the newest or the oldest first. Raises UnavailableError, and
    NotVisibleError."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    head = stream.rows.head
    high = head if wanted.high is None else min(wanted.high, head)
    uids = None if wanted.pod is None else _uids(stream, wanted)
    looked = _looked_at(stream, uids, wanted.low, high, newest=newest)
    if looked is None:
        return Decisions(stream=stream.name, head=head, decisions=[], next=None)
    low, top, more = looked
    conditions, values = _conditions(wanted, sees, stream, low, top)
    if uids is not None:
        conditions, values["uids"] = f"{conditions} AND d.pod IN :uids", uids
    order = "DESC" if newest else "ASC"
    text = _PAGE.format(columns=_COLUMNS, conditions=conditions, order=order)
    rows = stream.rows.all(text, low=low, high=top, limit=limit + 1, **values)
    if len(rows) > limit:
        rows = rows[:limit]
        more = rows[-1]["seq"] if newest else rows[-1]["seq"] + 1
    return Decisions(stream=stream.name, head=head, decisions=decisions_of(stream, rows), next=more)


def _looked_at(
    stream: LoggedStream, uids: list[str] | None, low: int, high: int, *, newest: bool
) -> tuple[int, int, int | None] | None:
    """The positions from where to where a page looks, of the attempts of some pods or of all, and
    the position to go on from. None if there is no attempt."""
    if uids is not None and not uids:
        return None
    of_pod, values = (" AND d.pod IN :uids", {"uids": uids}) if uids else ("", {})
    query = _LOOKED_AT.format(of_pod=of_pod, order="DESC" if newest else "ASC")
    row = stream.rows.one(query, low=low, high=high, most=LOOKED_AT, **values)
    assert row is not None
    if not row["looked"]:
        return None
    first, end = row["first"], row["last"] + 1
    if row["looked"] < LOOKED_AT:
        return first, end, None
    return first, end, first if newest else end


def _uids(stream: LoggedStream, wanted: DecisionFilter) -> list[str]:
    namespace = "" if wanted.namespace is None else " AND p.namespace = :namespace"
    values = {} if wanted.namespace is None else {"namespace": wanted.namespace}
    rows = stream.rows.all(_UIDS.format(namespace=namespace), name=wanted.pod, **values)
    return [row["uid"] for row in rows]


def _conditions(
    wanted: DecisionFilter, sees: Visibility, stream: LoggedStream, low: int, high: int
) -> tuple[str, dict[str, Any]]:
    """What else a row at a position from ``low`` to before ``high`` has to be, as SQL, and the
    other values in it."""
    visible, seen = sees.condition("p.namespace")
    text, values = visible, dict[str, Any](seen)
    columns = {
        "d.node": wanted.node, "d.profile": wanted.profile, "p.namespace": wanted.namespace,
        "CAST(d.outcome AS text)": wanted.outcome,
    }  # fmt: skip
    for number, (column, value) in enumerate(columns.items()):
        if value is not None:
            text += f" AND {column} = :value{number}"
            values[f"value{number}"] = value
    if wanted.owner is not None:
        text += (
            " AND d.pod IN (SELECT n.uid FROM eventsched_log.pod_now n"
            " WHERE n.stream = :s AND n.owner_name = :owner)"
        )
        values["owner"] = wanted.owner
    if wanted.plugin is not None or wanted.reason is not None:
        numbers = stream.rows.numbers(wanted.plugin, wanted.reason)
        text += (
            " AND (d.seq IN (SELECT r.seq FROM eventsched_log.refusal r"
            " WHERE r.stream = :s AND r.seq >= :low AND r.seq < :high AND r.number IN :numbers)"
            " OR d.seq = ANY(CAST(:excluding AS bigint[])))"
        )
        values["numbers"] = numbers or [-1]
        names = attempts_that_name(stream, wanted.plugin, wanted.reason, low, high)
        values["excluding"] = tuple(names)
    return text, values


def decisions_of(stream: LoggedStream, rows: Sequence[Any]) -> list[Decision]:
    """Decisions of rows, with the dominant refusals of those that failed."""
    failed = [row["seq"] for row in rows if row["outcome"] in _FAILED]
    dominant = dominant_refusals(stream, failed)
    meanings = stream.rows.refusals(dominant.values())
    excluding = [seq for seq, number in dominant.items() if number == STORED_EXCLUDED]
    named = {seq: meanings[number] for seq, number in dominant.items()}
    named |= refusals_at(stream, excluding) if excluding else {}
    found = []
    for row in rows:
        refusal = named.get(row["seq"])
        placed = bool(row["node"])
        found.append(
            Decision(
                position=row["seq"],
                at=iso(row["at"]),
                namespace=row["namespace"],
                pod=row["name"],
                uid=row["uid"],
                attempt=row["attempt"],
                profile=row["profile"],
                outcome=row["outcome"],
                node=row["node"] or None,
                score=row["score"] if placed else None,
                runner_up=row["runner_up"] or None,
                runner_up_score=row["runner_up_score"] if row["runner_up"] else None,
                feasible=row["feasible"],
                evaluated=row["evaluated"],
                ties=row["ties"],
                plugin=None if refusal is None else refusal.plugin,
                code=None if refusal is None else refusal.code,
                reason=None if refusal is None else refusal.reason,
            )
        )
    return found


def dominant_refusals(stream: LoggedStream, seqs: Sequence[int]) -> dict[int, int]:
    """The number of the verdict to name first, by position of the decision: see
    dominant_refusal.py."""
    return {seq: numbers[0] for seq, numbers in refused_numbers(stream, seqs).items()}


def refused_numbers(stream: LoggedStream, seqs: Sequence[int]) -> dict[int, list[int]]:
    """The numbers of the verdicts of decisions that refused a node, by position; the one to name
    first is the first."""
    if not seqs:
        return {}
    found: dict[int, list[tuple[int, int, int]]] = {}
    asked = f"{{{','.join(map(str, seqs))}}}"  # a list takes longer to pass on
    row = stream.rows.one(_REFUSED, low=min(seqs), high=max(seqs), seqs=asked)
    if row is None or row["seqs"] is None:
        return {}
    numbers = set(row["numbers"])
    meanings = stream.rows.refusals(numbers)
    ranks = {each: refusal_rank(meanings[each].plugin, meanings[each].code) for each in numbers}
    for seq, number, nodes in zip(row["seqs"], row["numbers"], row["nodes"], strict=True):
        found.setdefault(seq, []).append((ranks[number], -nodes, number))
    return {
        seq: [each[0][2]] if len(each) == 1 else [number for *_, number in sorted(each)]
        for seq, each in found.items()
    }


# --- one decision -----------------------------------------------------------------------------


def _pod_page(stream: LoggedStream, sees: Visibility, uid: str | None) -> str:
    """The remedy for a position whose record is not a decision."""
    name = stream.evidence().names([uid]).get(uid, "") if uid is not None else ""
    if "/" in name and (sees.is_whole or sees.sees(name.partition("/")[0])):
        return f"its pod is {name}, whose page has its decisions"
    return "a pod's page has those of its attempts, GET /api/v1/decisions has all"


def stored_decision(
    stream: LoggedStream, sees: Visibility, position: int
) -> tuple[StoredRecord, PodDecided]:
    """The record at a position. Raises InputError if it is not a decision, and NotVisibleError."""
    where = f"position {position}"
    head = stream.log.head.next
    if not 0 <= position < head:
        raise InputError(where, f"the log ends at position {head}", "name one before that")
    stored = next(stream.log.read(position))
    if stored.position != position:
        raise dropped_error(stream.log, position, where)
    record = stored.record
    if not isinstance(record, PodDecided):
        remedy = _pod_page(stream, sees, getattr(record, "uid", None))
        raise InputError(where, f"is a {stored.kind}, not a decision", remedy)
    if not sees.is_whole:
        name = stream.evidence().names([record.uid]).get(record.uid, "")
        if not sees.sees(name.partition("/")[0]):
            remedy = "ask about pods of your own namespaces"
            raise NotVisibleError(where, "is about a pod of another namespace", remedy)
    return stored, record


def decision_detail(
    stream: LoggedStream, sees: Visibility, position: int, end: int | None = None
) -> DecisionDetail:
    """A decision in full, as it was known before position ``end``. Raises what ``stored_decision``
    raises."""
    detail = detail_of(stream, *stored_decision(stream, sees, position))
    if end is None or detail.following is None or detail.following < end:
        return detail
    return msgspec.structs.replace(detail, following=None)


def detail_of(stream: LoggedStream, stored: StoredRecord, record: PodDecided) -> DecisionDetail:
    """The decision of a stored record in full."""
    position = stored.position
    text = _PAGE.format(columns=_COLUMNS, conditions="", order="ASC")
    row = stream.rows.one(text, low=position, high=position + 1, limit=1)
    assert row is not None
    beside = stream.rows.one(_BESIDE, seq=position, uid=row["uid"])
    assert beside is not None
    meanings = refusals_in(stream.rows, record)
    return DecisionDetail(
        stream=stream.name,
        decision=decisions_of(stream, [row])[0],
        cause=stored.cause,
        message=record.message or None,
        draw=str(record.draw),
        nominated=record.nominated,
        refusals=[
            RefusedNodes(
                plugin=meanings[number].plugin, code=meanings[number].code,
                reason=meanings[number].reason, nodes=nodes,
            )
            for number, nodes in sorted(record.counts, key=lambda count: -count[1])
        ],
        waits_until={plugin: iso(end) for plugin, end in record.deadlines.items()},
        vectors=vector_source(stream, position, record).value,
        previous=beside["previous"],
        following=beside["following"],
    )  # fmt: skip


def vector_source(stream: LoggedStream, position: int, record: PodDecided) -> VectorSource:
    """What the log has of a decision's verdicts and scores."""
    detail = stream.log.detail(position)
    if detail is not None:
        return VectorSource.BEST if detail.is_partial else VectorSource.ALL
    return VectorSource.DIGEST if record.digest else VectorSource.NONE
