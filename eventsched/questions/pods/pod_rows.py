"""Pods, one row each: those that exist, or all with an attempt, by position or time."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from eventsched.domain.errors import InputError
from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.history.dominant_refusal import rank_sql
from eventsched.output.queues.group_keys import (
    LONGEST_REASON,
    OwnerGroup,
    ReasonGroup,
    read_group,
    reason_group,
)
from eventsched.output.time_format import iso
from eventsched.questions.answer_shapes import PodRow, Pods
from eventsched.questions.decisions import LOOKED_AT, dominant_refusals
from eventsched.questions.excluded_nodes import (
    IS_EXCLUDED,
    PLUGIN_TO_NAME,
    REASON_TO_NAME,
    refusal_to_name,
    refusals_at,
)
from eventsched.questions.pods.gone_owners import MOST_READ, owners_at_arrival
from eventsched.questions.pods.named_owners import read_owner
from eventsched.questions.pods.pod_orders import LAST, order_of, position_of_cursor
from eventsched.questions.rows import Refusal
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

_FAILED = ("unschedulable", "error")

JOIN_NAMED = f"""LEFT JOIN (
    SELECT DISTINCT ON (r.seq) r.seq, r.number FROM eventsched_log.refusal r
    LEFT JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number
    WHERE r.stream = :s AND r.seq IN (SELECT unsure FROM chosen)
      AND r.seq >= (SELECT min(unsure) FROM chosen)
    ORDER BY r.seq, {rank_sql("v.plugin", "v.code")}, r.nodes DESC, r.number
) named ON named.seq = n.unsure"""
"""``named.number``, the same for all rows n of a common table ``chosen`` at once: a million lookups
take minutes. Their ``unsure`` is the position of the decision if ``most`` is not of the lowest
rank, else null. What was refused before the oldest of these decisions is not read."""
_TABLE = "eventsched_log.pod_now"
_OF_REASON_GROUP = f"""(
    WITH candidates AS (
        SELECT r.seq FROM eventsched_log.refusal r
        WHERE r.stream = :s AND r.number IN :firsts AND r.seq >= (
            SELECT min(w.decided_seq) FROM {_TABLE} w
            WHERE w.stream = :s AND w.verdict IS NOT NULL)
        UNION ALL
        SELECT n.decided_seq FROM {_TABLE} n WHERE n.stream = :s AND n.verdict IN :firsts
    ), chosen AS (
        SELECT n.*, CASE WHEN {rank_sql("most.plugin", "most.code")} > 0
               THEN n.decided_seq END AS unsure
        FROM {_TABLE} n
        LEFT JOIN eventsched_log.verdict most
          ON most.stream = n.stream AND most.number = n.verdict
        WHERE n.stream = :s AND n.verdict IS NOT NULL AND NOT {IS_EXCLUDED}
          AND n.decided_seq IN (SELECT seq FROM candidates)
    )
    SELECT n.* FROM chosen n {JOIN_NAMED} WHERE coalesce(named.number, n.verdict) IN :firsts
    UNION ALL
    SELECT n.*, NULL FROM {_TABLE} n
    WHERE n.stream = :s AND (n.verdict IS NULL OR {IS_EXCLUDED})
      AND coalesce({PLUGIN_TO_NAME}, '') = :first_plugin
      AND left(coalesce({REASON_TO_NAME}, ''), {LONGEST_REASON}) = :first_reason)"""
"""The rows of pod_now that are of a group by reason. Those that could be of it are found at once,
then what is to be named first of them: to look that up for each of a million pods takes minutes."""
_PRESENT = """
SELECT CAST(n.uid AS text) AS uid, n.seq, n.since, n.waiting_since, n.decided_seq, n.attempts,
       n.priority, n.verdict, n.deleting, n.state, n.namespace, n.name, n.scheduler, n.owner_kind,
       n.owner_name, n.node, n.nominated, n.plugin, n.message
FROM {source} n
WHERE n.stream = :s{conditions} ORDER BY {key} {order}, n.seq {order} LIMIT :limit
"""
_COUNT = """
SELECT count(*) AS pods FROM {source} n WHERE n.stream = :s{conditions}
"""
# A lookup for each: without statistics, as of a new partition, Postgres reads all decisions.
_DECIDED = """
SELECT d.seq, d.at, CAST(d.outcome AS text) AS outcome, CAST(d.pod AS text) AS uid, d.node,
       (SELECT min(m.at) FROM eventsched_log.queue_move m
        WHERE m.stream = :s AND m.pod = d.pod) AS queued
FROM unnest(CAST(:seqs AS bigint[])) AS asked (seq)
CROSS JOIN LATERAL (
    SELECT * FROM eventsched_log.decision e WHERE e.stream = :s AND e.seq = asked.seq OFFSET 0
) d
"""
_EDGE = """
SELECT min(w.seq) AS edge, count(*) AS looked FROM (
    SELECT d.seq FROM eventsched_log.decision d
    WHERE d.stream = :s AND d.seq < :high ORDER BY d.seq DESC LIMIT :most
) AS w
"""
_EVER = """
SELECT CAST(d.pod AS text) AS uid, d.seq AS decided_seq, d.attempt AS attempts,
       d.profile AS scheduler, d.node, p.seq, p.namespace, p.name, n.state, n.since,
       n.waiting_since, n.priority, n.verdict, n.deleting, n.owner_kind, n.owner_name,
       n.nominated, n.plugin, n.message, d.seq AS key
FROM eventsched_log.decision d
JOIN eventsched_log.pod p ON p.stream = d.stream AND p.uid = d.pod
LEFT JOIN eventsched_log.pod_now n ON n.stream = d.stream AND n.uid = d.pod
WHERE d.stream = :s AND d.seq >= :low AND d.seq < :high{conditions}
  AND NOT EXISTS (SELECT 1 FROM eventsched_log.decision e
                  WHERE e.stream = :s AND e.pod = d.pod AND e.seq > d.seq)
ORDER BY d.seq DESC LIMIT :limit
"""


QUEUES = ("active", "backoff", "unschedulable")
"""Queues of pods that are tried again."""
PENDING = "pending"
"""Stands for all queues, as in kube-scheduler's metric scheduler_pending_pods."""
PENDING_STATES = (*QUEUES, "gated")
STATES = (*PENDING_STATES, "waiting", "binding", "bound", "unqueued")
"""The states of pods, in the order in which they are shown."""


class PodRowFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods. ``plugin`` and ``reason``: the last attempt failed with such a refusal, on
    however few nodes; ``owner`` is its name, or KIND/NAME;
    ``reason`` is a part of its reason, in any case. ``name_contains`` is a part
    of the name, or with a / of namespace/name. ``group``: of this group of /pods/groups. ``low``
    and ``high``: the last attempt is at a position from the one to before the other. With ``ever``
    also those that are gone, if they were tried."""

    namespace: str | None = None
    name: str | None = None
    name_contains: str | None = None
    owner: str | None = None
    state: str | None = None
    reason: str | None = None
    plugin: str | None = None
    node: str | None = None
    profile: str | None = None
    group: str | None = None
    low: int | None = None
    high: int | None = None
    ever: bool = False


def pods_page(
    stream: LoggedStream,
    sees: Visibility,
    wanted: PodRowFilter,
    sort: str,
    cursor: str | None,
    limit: int,
) -> Pods:
    """A page of pods. Raises InputError and UnavailableError."""
    if wanted.namespace is not None:
        sees.require(wanted.namespace, "namespace")
    if wanted.ever:
        if sort not in ("", "-position"):
            remedy = "leave sort out: with ever the pods of the newest attempts come first"
            raise InputError("sort", "goes with pods that exist", remedy)
        if wanted.group is not None:
            raise InputError("group", "goes with pods that exist", "leave it out, or ever")
        rows, more = _ever(stream, sees, wanted, cursor, limit)
    else:
        rows, more = _present(stream, sees, wanted, sort, cursor, limit)
    found = pod_rows_of(stream, rows, stream.present)
    return Pods(stream=stream.name, head=stream.rows.head, pods=found, next=more)


def count_of_pods(stream: LoggedStream, sees: Visibility, wanted: PodRowFilter) -> int | None:
    """How many pods pass the filters; None for pods that are gone, of which only those of a bounded
    number of attempts are known. Raises InputError and UnavailableError."""
    if wanted.ever:
        return None
    conditions, values = conditions_of(stream, sees, wanted, "n")
    query = _COUNT.format(source=source_of(stream, wanted, values), conditions=conditions)
    row = stream.rows.one(query, **values)
    assert row is not None
    return int(row["pods"])


def _present(
    stream: LoggedStream,
    sees: Visibility,
    wanted: PodRowFilter,
    sort: str,
    cursor: str | None,
    limit: int,
) -> tuple[Sequence[Any], str | None]:
    order = order_of(sort)
    key, way = order.sql, "DESC" if order.is_descending else "ASC"
    conditions, values = conditions_of(stream, sees, wanted, "n")
    if cursor is not None:
        values["before"], values["before_seq"] = order.place(cursor)
        sign = "<" if order.is_descending else ">"
        conditions += f" AND ({key} {sign} :before OR {key} = :before AND n.seq {sign} :before_seq)"
    source = source_of(stream, wanted, values)
    query = _PRESENT.format(key=key, source=source, conditions=conditions, order=way)
    rows = stream.rows.all(query, limit=limit + 1, **values)
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], order.cursor(order.key(dict(rows[limit - 1])))


def _ever(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, cursor: str | None, limit: int
) -> tuple[Sequence[Any], str | None]:
    """The pods of the newest attempts, of a bounded number of these. Of an owner a page looks at
    MOST_READ pods: so it can be short, or empty, and another one come after it."""
    high = LAST if cursor is None else position_of_cursor(cursor)
    if cursor is None and wanted.high is not None:
        high = wanted.high
    edge = stream.rows.one(_EDGE, high=high, most=LOOKED_AT)
    assert edge is not None
    if not edge["looked"]:
        return (), None
    in_rows = msgspec.structs.replace(wanted, owner=None)  # they lack those of pods that are gone
    most = limit if wanted.owner is None else max(limit, MOST_READ)
    conditions, values = conditions_of(stream, sees, in_rows, "p")
    query = _EVER.format(conditions=conditions)
    found = stream.rows.all(query, low=edge["edge"], high=high, limit=most + 1, **values)
    rows = _with_owners(stream, found[:most])
    is_left = edge["looked"] == LOOKED_AT and edge["edge"] > (wanted.low or 0)
    cursor = str(edge["edge"]) if is_left else None
    if len(found) > most:
        cursor = str(rows[-1]["key"])
    if wanted.owner is not None:
        owner = read_owner(wanted.owner)
        rows = [row for row in rows if owner.has(row["owner_kind"], row["owner_name"])]
    if len(rows) > limit:
        return rows[:limit], str(rows[limit - 1]["key"])
    return rows, cursor


def _with_owners(stream: LoggedStream, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The rows, those of pods that are gone with their controllers, as far as the log has these."""
    gone = owners_at_arrival(stream, (row["seq"] for row in rows if row["state"] is None))
    return [
        {**row, "owner_kind": owner.kind, "owner_name": owner.name}
        if (owner := gone.get(row["seq"])) is not None
        else dict(row)
        for row in rows
    ]


def conditions_of(
    stream: LoggedStream, sees: Visibility, wanted: PodRowFilter, table: str
) -> tuple[str, dict[str, Any]]:
    """What else a row has to be, as SQL, and the values in it. ``table`` has the name. Raises
    InputError."""
    visible, seen = sees.condition(f"{table}.namespace")
    text, values = visible, dict[str, Any](seen)
    node, profile = ("d.node", "d.profile") if wanted.ever else ("n.node", "n.scheduler")
    state = "coalesce(n.state, 'gone')" if wanted.ever else "n.state"
    columns = {
        f"{table}.namespace": wanted.namespace, f"{table}.name": wanted.name,
        node: wanted.node, profile: wanted.profile,
        state: None if wanted.state == PENDING else wanted.state,
    }  # fmt: skip
    for number, (column, value) in enumerate(columns.items()):
        if value is not None:
            text += f" AND {column} = :value{number}"
            values[f"value{number}"] = value
    if wanted.owner is not None:
        text += read_owner(wanted.owner).condition(values)
    if wanted.state == PENDING:
        text += " AND n.state IN :pending"
        values["pending"] = list(PENDING_STATES)
    if wanted.name_contains is not None:
        column = f"{table}.name"
        if "/" in wanted.name_contains:
            column = f"{table}.namespace || '/' || {table}.name"
        text += f" AND strpos(lower({column}), lower(:name_contains)) > 0"
        values["name_contains"] = wanted.name_contains
    decided = "d.seq" if wanted.ever else "n.decided_seq"
    for bound, sign, position in (("low", ">=", wanted.low), ("high", "<", wanted.high)):
        if position is not None:
            text += f" AND {decided} {sign} :{bound}_decided"
            values[f"{bound}_decided"] = position
    if wanted.group is not None:
        text += _of_owner(read_group(wanted.group), values)
    if wanted.plugin is None and wanted.reason is None:
        return text, values
    values["numbers"] = stream.rows.numbers(wanted.plugin, wanted.reason) or [-1]
    failed = "d.outcome IN ('unschedulable', 'error')" if wanted.ever else "n.verdict IS NOT NULL"
    refused = (
        f"{failed} AND EXISTS (SELECT FROM eventsched_log.refusal r WHERE r.stream = :s"
        f" AND r.seq = {decided} AND r.number IN :numbers)"
    )
    others = [f"(n.verdict IS NULL OR {IS_EXCLUDED})"]  # failed without a verdict on a node
    if wanted.plugin is not None:
        others.append(f"{PLUGIN_TO_NAME} = :plugin")
        values["plugin"] = wanted.plugin
    if wanted.reason is not None:
        others.append(f"strpos(lower({REASON_TO_NAME}), lower(:reason)) > 0")
        values["reason"] = wanted.reason
    return f"{text} AND ({refused} OR {' AND '.join(others)})", values


def _of_owner(group: OwnerGroup | ReasonGroup, values: dict[str, Any]) -> str:
    """The condition on rows n of a group by owner; its values are added to ``values``. Those of a
    group by reason are a table of their own: see source_of."""
    if isinstance(group, ReasonGroup):
        return ""
    values |= {f"owner_{name}": part for name, part in group._asdict().items()}
    return (
        " AND n.namespace = :owner_namespace AND coalesce(n.owner_kind, '') = :owner_kind"
        " AND coalesce(n.owner_name, '') = :owner_name"
    )


def source_of(stream: LoggedStream, wanted: PodRowFilter, values: dict[str, Any]) -> str:
    """The table of the pods that exist, or the part of it that is a group by reason, whose values
    are added to ``values``. Raises InputError."""
    group = None if wanted.group is None else read_group(wanted.group)
    if not isinstance(group, ReasonGroup):
        return _TABLE
    values |= {"firsts": numbers_of_group(stream, group) or [-1]}
    values |= {"first_plugin": group.plugin, "first_reason": group.reason}
    return _OF_REASON_GROUP


def numbers_of_group(stream: LoggedStream, group: ReasonGroup) -> list[int]:
    """The verdicts of a group."""
    numbers = stream.rows.numbers(group.plugin or None, None)
    meanings = stream.rows.refusals(numbers)
    return [
        number
        for number in numbers
        if reason_group(meanings[number].plugin, meanings[number].reason) == group
    ]


def pod_rows_of(stream: LoggedStream, rows: Sequence[Any], present: int) -> list[PodRow]:
    """The answer's rows for those of pod_now. ``present`` is the time up to which pods wait."""
    seqs = [row["decided_seq"] for row in rows if row["decided_seq"] is not None]
    decided = {row["seq"]: row for row in stream.rows.all(_DECIDED, seqs=tuple(seqs))}
    failed = [seq for seq, row in decided.items() if row["outcome"] in _FAILED]
    named = _refusals(stream, rows, dominant_refusals(stream, failed))
    return [_pod(row, decided.get(row["decided_seq"]), named, present) for row in rows]


def _refusals(
    stream: LoggedStream, rows: Sequence[Any], numbers: Mapping[int, int]
) -> Mapping[int, Refusal]:
    """Position of a failed last attempt → the refusal to name."""
    pods = [row for row in rows if row["decided_seq"] in numbers]
    gone = [
        row["decided_seq"]
        for row in pods
        if row["message"] is None and numbers[row["decided_seq"]] == STORED_EXCLUDED
    ]
    named = {
        row["decided_seq"]: refusal_to_name(stream.rows, numbers[row["decided_seq"]], row)
        for row in pods
    }
    return {**named, **(refusals_at(stream, gone) if gone else {})}


def _pod(row: Any, decided: Any, named: Mapping[int, Refusal], now: int) -> PodRow:
    refusal = named.get(row["decided_seq"])
    waiting = row["waiting_since"]
    waited = None if waiting is None else now - waiting
    if waited is None and decided is not None and decided["node"] and decided["queued"] is not None:
        waited = decided["at"] - decided["queued"]
    return PodRow(
        position=row["seq"],
        namespace=row["namespace"],
        name=row["name"],
        uid=row["uid"],
        state=row["state"] or "gone",
        since=None if row["since"] is None else iso(row["since"]),
        waiting_since=None if waiting is None else iso(waiting),
        wait_seconds=None if waited is None else waited / 1e6,
        attempts=row["attempts"],
        outcome=None if decided is None else decided["outcome"],
        plugin=(row["plugin"] or None) if refusal is None else refusal.plugin,
        code=None if refusal is None else refusal.code,
        reason=row["message"] if refusal is None else refusal.reason,
        message=row["message"] or None,
        node=row["node"] or None,
        nominated=row["nominated"] or None,
        owner_kind=row["owner_kind"],
        owner_name=row["owner_name"],
        priority=row["priority"],
        profile=row["scheduler"],
        deleting=bool(row["deleting"]),
        decided=row["decided_seq"],
        decided_at=None if decided is None else iso(decided["at"]),
    )
