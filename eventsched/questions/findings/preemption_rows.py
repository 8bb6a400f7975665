"""Who evicted whom: preemptions with their victims, by position."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from eventsched.domain.objects import Pod
from eventsched.domain.records import PodAdded, PodUpdated
from eventsched.history.evictor_outcomes import (
    ELSEWHERE,
    FOUND_NODE,
    GONE,
    ON_FREED_NODE,
    STILL_WAITING,
    evictor_outcome_sql,
)
from eventsched.output.time_format import iso
from eventsched.questions.answer_shapes import UnmatchedFilter
from eventsched.questions.findings.finding_answers import (
    EvictedPod,
    EvictionRow,
    EvictionsAnswer,
    EvictorCounts,
    VictimWorkload,
)
from eventsched.questions.findings.victim_workloads import VictimOwner, victim_workloads
from eventsched.questions.overviews.unmatched_filters import unmatched_filter
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

LOOKED_AT = 2_000
"""Preemptions that one page looks at. Each has as many victims as pods leave one node."""

_EDGE = """
SELECT min(w.seq) AS edge, count(*) AS looked FROM (
    SELECT DISTINCT v.seq FROM eventsched_log.victim v
    WHERE v.stream = :s AND v.seq >= :low AND v.seq < :high ORDER BY v.seq DESC LIMIT :most
) AS w
"""
_PREEMPTIONS = """
SELECT DISTINCT v.stream, v.seq, v.node, v.preemptor FROM eventsched_log.victim v
LEFT JOIN eventsched_log.pod p ON p.stream = v.stream AND p.uid = v.pod
LEFT JOIN eventsched_log.pod m ON m.stream = v.stream AND m.uid = v.preemptor
WHERE v.stream = :s AND v.seq >= :low AND v.seq < :high{conditions}
"""
_PAGE = f"""
SELECT v.seq FROM ({_PREEMPTIONS}) v ORDER BY v.seq DESC LIMIT :limit
"""
_LANDED = f"""
LEFT JOIN LATERAL (
    SELECT a.seq, a.node FROM eventsched_log.decision a
    WHERE a.stream = v.stream AND a.pod = v.preemptor AND a.seq > v.seq AND a.seq < :end
      AND a.outcome IN ({", ".join(f"'{each}'" for each in FOUND_NODE)})
    ORDER BY a.seq LIMIT 1
) l ON true
LEFT JOIN LATERAL (
    SELECT min(g.seq) AS seq FROM eventsched_log.pod_end g
    WHERE g.stream = v.stream AND g.pod = v.preemptor AND g.seq > v.seq AND g.seq < :end
) f ON true
"""
"""Where the pod was placed that a preemption was for (``l``), and its end (``f``)."""
_OUTCOME = evictor_outcome_sql("v.node", "l.node", "f.seq")
_PAGE_WITH_OUTCOME = f"""
SELECT v.seq FROM ({_PREEMPTIONS}) v {_LANDED}
WHERE {_OUTCOME} = :outcome ORDER BY v.seq DESC LIMIT :limit
"""
_COUNTS = f"""
SELECT {_OUTCOME} AS outcome, count(*) AS number FROM ({_PREEMPTIONS}) v {_LANDED} GROUP BY 1
"""
_NAMES = """
SELECT DISTINCT p.namespace, m.namespace AS evictor, v.node FROM eventsched_log.victim v
LEFT JOIN eventsched_log.pod p ON p.stream = v.stream AND p.uid = v.pod
LEFT JOIN eventsched_log.pod m ON m.stream = v.stream AND m.uid = v.preemptor
WHERE v.stream = :s AND v.seq >= :low AND v.seq < :high{conditions}
"""
"""What the filters of a namespace and of a node can be, of these preemptions."""
_VICTIMS = f"""
SELECT v.seq, v.at, v.node, v.spared, CAST(v.pod AS text) AS uid, p.namespace, p.name,
       CAST(v.preemptor AS text) AS preemptor, m.namespace AS preemptor_namespace,
       m.name AS preemptor_name, e.seq AS gone, e.at AS gone_at, d.seq AS decided,
       p.seq AS arrived, m.seq AS preemptor_arrived, pn.priority AS priority,
       pn.owner_kind, pn.owner_name,
       mn.priority AS preemptor_priority, l.seq AS landed, l.node AS landed_on,
       {_OUTCOME} AS outcome
FROM eventsched_log.victim v
LEFT JOIN eventsched_log.pod p ON p.stream = v.stream AND p.uid = v.pod
LEFT JOIN eventsched_log.pod m ON m.stream = v.stream AND m.uid = v.preemptor
LEFT JOIN eventsched_log.pod_now pn ON pn.stream = v.stream AND pn.uid = v.pod
LEFT JOIN eventsched_log.pod_now mn ON mn.stream = v.stream AND mn.uid = v.preemptor
LEFT JOIN LATERAL (
    SELECT g.seq, g.at FROM eventsched_log.pod_end g
    WHERE g.stream = v.stream AND g.pod = v.pod AND g.seq > v.seq AND g.seq < :end
    ORDER BY g.seq LIMIT 1
) e ON true
LEFT JOIN LATERAL (
    SELECT max(a.seq) AS seq FROM eventsched_log.decision a
    WHERE a.stream = v.stream AND a.pod = v.preemptor AND a.seq < v.seq
) d ON true
{_LANDED}
WHERE v.stream = :s AND v.seq IN :seqs
ORDER BY v.seq DESC, p.namespace, p.name, v.pod
"""


class EvictionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which preemptions: those with a pod of ``namespace``, as a victim or as the pod that it was
    for, those on ``node``, and those with an ``outcome`` (EVICTOR_OUTCOMES) for a pod that may be
    seen; at positions from ``low`` to before ``high``."""

    namespace: str | None = None
    node: str | None = None
    outcome: str | None = None
    low: int = 0
    high: int | None = None


def evictions_page(
    stream: LoggedStream,
    sees: Visibility,
    wanted: EvictionFilter,
    limit: int,
    end: int | None = None,
) -> EvictionsAnswer:
    """A page of preemptions, the newest first: those with a pod that may be seen, and what came of
    them before position ``end``, by default up to now. Raises UnavailableError and
    NotVisibleError."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    head = stream.rows.head
    until = head if end is None else min(end, head)
    high = until if wanted.high is None else min(wanted.high, until)
    edge = stream.rows.one(_EDGE, low=wanted.low, high=high, most=LOOKED_AT)
    assert edge is not None
    found: list[EvictionRow] = []
    more = edge["edge"] if edge["looked"] == LOOKED_AT else None
    counts: dict[str, int] = {}
    unmatched: list[UnmatchedFilter] = []
    if edge["looked"]:
        conditions, values = _conditions(sees, wanted)
        seen = conditions + sees.condition("m.namespace")[0]
        values |= {"low": edge["edge"], "high": high}
        counts = {
            row["outcome"]: row["number"]
            for row in stream.rows.all(_COUNTS.format(conditions=seen), end=until, **values)
        }
        query = _PAGE.format(conditions=conditions)
        if wanted.outcome is not None:
            query = _PAGE_WITH_OUTCOME.format(conditions=seen)
            values |= {"outcome": wanted.outcome, "end": until}
        rows = stream.rows.all(query, limit=limit + 1, **values)
        seqs = [row["seq"] for row in rows]
        if len(seqs) > limit:
            seqs = seqs[:limit]
            more = seqs[-1]
        found = _preemptions(stream, sees, seqs, end)
        if not found:
            unmatched = _unmatched(stream, sees, wanted, edge["edge"], high)
    return EvictionsAnswer(
        stream=stream.name, head=head, evictors=_counts(counts), preemptions=found,
        unmatched=unmatched, next=more,
    )  # fmt: skip


def _unmatched(
    stream: LoggedStream, sees: Visibility, wanted: EvictionFilter, low: int, high: int
) -> list[UnmatchedFilter]:
    """The filters that alone match none of the preemptions from ``low`` to before ``high``."""
    if wanted.namespace is None and wanted.node is None:
        return []
    conditions, values = _conditions(sees, EvictionFilter())
    rows = stream.rows.all(_NAMES.format(conditions=conditions), low=low, high=high, **values)
    namespaces = {row[side] for row in rows for side in ("namespace", "evictor") if row[side]}
    names = {
        "namespace": {name for name in namespaces if sees.sees(name)},
        "node": {row["node"] for row in rows},
    }
    asked = {"namespace": wanted.namespace, "node": wanted.node}
    return [
        unmatched_filter(name, value, names[name])
        for name, value in asked.items()
        if value is not None and value not in names[name]
    ]


def _counts(numbers: Mapping[str, int]) -> EvictorCounts:
    return EvictorCounts(
        preemptions=sum(numbers.values()),
        freed_node=numbers.get(ON_FREED_NODE, 0),
        elsewhere=numbers.get(ELSEWHERE, 0),
        waiting=numbers.get(STILL_WAITING, 0),
        gone=numbers.get(GONE, 0),
    )


def _conditions(sees: Visibility, wanted: EvictionFilter) -> tuple[str, dict[str, Any]]:
    """What else a row has to be, as SQL, and the values in it."""
    visible, seen = sees.condition("p.namespace")
    other, _ = sees.condition("m.namespace")
    text, values = "", dict[str, Any](seen)
    if visible:
        text += f" AND (true{visible} OR true{other})"
    if wanted.namespace is not None:
        text += " AND :namespace IN (p.namespace, m.namespace)"
        values["namespace"] = wanted.namespace
    if wanted.node is not None:
        text += " AND v.node = :node"
        values["node"] = wanted.node
    return text, values


def _preemptions(
    stream: LoggedStream, sees: Visibility, seqs: Sequence[int], end: int | None
) -> list[EvictionRow]:
    if not seqs:
        return []
    by_position: dict[int, list[Any]] = {}
    until = stream.rows.head if end is None else end
    rows = stream.rows.all(_VICTIMS, seqs=list(seqs), end=until)
    for row in rows:
        by_position.setdefault(row["seq"], []).append(row)
    arrived = _arrived(stream, rows)
    priorities = {uid: pod.priority for uid, pod in arrived.items()}
    for row in rows:
        own = ((row["uid"], row["priority"]), (row["preemptor"], row["preemptor_priority"]))
        priorities |= {uid: priority for uid, priority in own if priority is not None}
    owners = {
        position: [
            owner
            for row in victims
            if _names(sees, row["namespace"], row["name"], row["uid"])[2] is not None
            and (owner := _owner(row, arrived)) is not None
        ]
        for position, victims in by_position.items()
    }
    workloads = victim_workloads(stream, owners, end)
    return [
        _preemption(sees, priorities, rows, workloads[position])
        for position, rows in by_position.items()
    ]


def _arrived(stream: LoggedStream, rows: Sequence[Any]) -> Mapping[str, Pod]:
    """Uid → the pods of preemptions that are gone, by the record of their arrival, as far as the
    log still has that. Neither priority nor controller ever changes."""
    sides = [(row["uid"], row["priority"], row["arrived"]) for row in rows]
    sides += [
        (row["preemptor"], row["preemptor_priority"], row["preemptor_arrived"]) for row in rows
    ]
    sought = {at: uid for uid, priority, at in sides if priority is None and at is not None}
    return {
        sought[position]: stored.record.pod
        for position, stored in stream.evidence().records_at(sought).items()
        if isinstance(stored.record, PodAdded | PodUpdated)
    }


def _owner(row: Any, arrived: Mapping[str, Pod]) -> VictimOwner | None:
    """The controller of a victim; None if the log no longer has it."""
    if row["priority"] is not None:  # it exists
        kind, name = row["owner_kind"], row["owner_name"]
    elif (pod := arrived.get(row["uid"])) is not None:
        kind, name = (None, None) if pod.owner is None else (pod.owner.kind, pod.owner.name)
    else:
        return None
    return VictimOwner(row["namespace"], kind or "", name or "")


def _preemption(
    sees: Visibility,
    priorities: Mapping[str, int],
    rows: Sequence[Any],
    workloads: list[VictimWorkload],
) -> EvictionRow:
    first = rows[0]
    names = _names(sees, first["preemptor_namespace"], first["preemptor_name"], first["preemptor"])
    is_seen = names[2] is not None
    return EvictionRow(
        position=first["seq"],
        at=iso(first["at"]),
        node=first["node"],
        namespace=names[0],
        pod=names[1],
        uid=names[2],
        priority=None if names[2] is None else priorities.get(names[2]),
        decided=first["decided"] if is_seen else None,
        outcome=first["outcome"] if is_seen else None,
        landed_on=first["landed_on"] if is_seen else None,
        landed=first["landed"] if is_seen else None,
        victims=[_victim(sees, priorities, row) for row in rows],
        workloads=workloads,
    )


def _victim(sees: Visibility, priorities: Mapping[str, int], row: Any) -> EvictedPod:
    namespace, name, uid = _names(sees, row["namespace"], row["name"], row["uid"])
    return EvictedPod(
        namespace=namespace,
        pod=name,
        uid=uid,
        priority=None if uid is None else priorities.get(uid),
        outcome=row["spared"] or ("open" if row["gone"] is None else "gone"),
        gone=row["gone"],
        gone_at=None if row["gone_at"] is None else iso(row["gone_at"]),
    )


def _names(
    sees: Visibility, namespace: str | None, name: str | None, uid: str
) -> tuple[str | None, str | None, str | None]:
    """Namespace, name and uid of a pod, None each if it may not be seen."""
    if sees.is_whole or (namespace is not None and sees.sees(namespace)):
        return namespace, name, uid
    return None, None, None
