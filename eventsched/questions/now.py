"""What happens now: who waits and why, how fast decisions are, and how far the log is."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import RowMapping

from eventsched.domain.units import is_virtual
from eventsched.history.dominant_refusal import rank_sql
from eventsched.output.queues.group_keys import key_of_refusal
from eventsched.output.time_format import iso
from eventsched.questions.answer_shapes import (
    LogFacts,
    NodesFilled,
    Now,
    StreamLeader,
    WaitingReason,
    WaitingState,
    Waits,
)
from eventsched.questions.excluded_nodes import PLUGIN_TO_NAME, REASON_TO_NAME
from eventsched.questions.pods.pod_rows import JOIN_NAMED, PENDING_STATES, QUEUES, STATES
from eventsched.questions.streams import LoggedStream, present_after
from eventsched.questions.visibility import Visibility

_MINUTE = 60_000_000
MOST_REASONS = 20
"""Reasons that are listed, those of most pods first."""
_COUNTED = 5_000
"""Decisions that are looked at for their rate."""
_NEAR = 50_000
"""Records in which that many decisions are, as a rule."""
_MEASURED = 500
"""Placements whose waiting time is measured."""

_STATES = """
SELECT n.state, count(*) AS pods, min(n.waiting_since) AS since
FROM eventsched_log.pod_now n WHERE n.stream = :s{visible} GROUP BY n.state
"""
_OLDEST = """
SELECT n.namespace, n.name FROM eventsched_log.pod_now n
WHERE n.stream = :s AND n.state = :state AND n.waiting_since = :since{visible}
ORDER BY n.seq LIMIT 1
"""
# The verdict of most nodes is the dominant one, unless evictions cannot help there.
_REASONS_OF = f"""
WITH chosen AS (
    SELECT n.verdict, n.waiting_since, n.namespace, n.name, {PLUGIN_TO_NAME} AS plugin,
           {REASON_TO_NAME} AS reason,
           CASE WHEN n.verdict IS NOT NULL AND {rank_sql("most.plugin", "most.code")} > 0
                THEN n.decided_seq END AS unsure
    FROM eventsched_log.pod_now n
    LEFT JOIN eventsched_log.verdict most ON most.stream = n.stream AND most.number = n.verdict
    WHERE n.stream = :s AND n.state IN :states AND n.decided_seq IS NOT NULL{{visible}}
)
SELECT coalesce(named.number, n.verdict) AS verdict, n.plugin, n.reason,
       count(*) AS pods, min(n.waiting_since) AS since, min(n.namespace || '/' || n.name) AS example
FROM chosen n
{JOIN_NAMED}
GROUP BY 1, 2, 3 ORDER BY pods DESC, since LIMIT 200
"""
_LOG = """
SELECT h.next, h.epoch, h.holder FROM eventsched_log.head h WHERE h.stream = :s
"""
_LAST_BATCH = """
SELECT CAST(extract(epoch FROM b.written_at) * 1000000 AS bigint) AS written,
       CAST(b.body -> (b.count - 1) ->> 0 AS bigint) AS at
FROM eventsched_log.batch b WHERE b.stream = :s ORDER BY b.first DESC LIMIT 1
"""
_TERM = """
SELECT CAST(extract(epoch FROM e.started_at) * 1000000 AS bigint) AS since
FROM eventsched_log.epoch e WHERE e.stream = :s AND e.epoch = :epoch
"""
_RATE = """
SELECT count(*) AS looked, min(d.at) AS first,
       count(*) FILTER (WHERE d.at > :after{visible}) AS decisions
FROM eventsched_log.decision d {join}WHERE d.stream = :s AND d.seq >= :floor AND d.seq < :end
"""
_PLACED = """
SELECT placed.at - (SELECT min(m.at) FROM eventsched_log.queue_move m
                    WHERE m.stream = :s AND m.pod = placed.pod) AS waited
FROM (SELECT d.at, d.pod FROM eventsched_log.decision d
      {join}WHERE d.stream = :s AND d.seq >= :floor AND d.seq < :end
        AND d.outcome IN ('scheduled', 'waiting'){visible}
      ORDER BY d.seq DESC LIMIT :most) AS placed
"""
_FLOOR = """
SELECT min(newest.seq) AS floor, count(*) AS decisions FROM (
    SELECT d.seq FROM eventsched_log.decision d
    WHERE d.stream = :s AND d.seq >= :low AND d.seq < :end ORDER BY d.seq DESC LIMIT :most
) AS newest
"""
_JOIN = "JOIN eventsched_log.pod p ON p.stream = :s AND p.uid = d.pod "
_LEFT_JOIN = f"LEFT {_JOIN}"


def now_of(
    stream: LoggedStream, sees: Visibility, nodes: NodesFilled | None, *, with_nodes: bool
) -> Now:
    """What happens now. ``nodes`` is shown to those who see everything; with None and
    ``with_nodes`` they are being read. Raises UnavailableError."""
    rows = stream.rows
    head, last = rows.one(_LOG), rows.one(_LAST_BATCH)
    assert head is not None
    clock = time.time_ns() // 1_000
    newest = clock if last is None else int(last["at"])
    virtual = is_virtual(newest) if last is not None else False
    present = present_after(newest)
    visible, values = sees.condition("n.namespace")
    states = _states(stream, visible, values, present)
    decisions = newest_decisions(stream, head["next"])
    return Now(
        stream=stream.name,
        position=head["next"],
        now=iso(present),
        pods=sum(state.pods for state in states),
        pending=sum(state.pods for state in states if state.state in PENDING_STATES),
        states=states,
        reasons=_reasons(stream, visible, values, present),
        decisions_per_second=decision_rate(stream, sees, present, decisions),
        waits=last_waits(stream, sees, decisions),
        log=_log(head, last, clock, virtual=virtual),
        leader=_leader(stream, head),
        nodes=nodes if sees.is_whole else None,
        reads_nodes=with_nodes and nodes is None and sees.is_whole and head["next"] > 0,
    )


def _states(
    stream: LoggedStream, visible: str, values: Mapping[str, Any], now: int
) -> list[WaitingState]:
    found = []
    for row in stream.rows.all(_STATES.format(visible=visible), **values):
        since, oldest = row["since"], None
        if since is not None:
            query = _OLDEST.format(visible=visible)
            oldest = stream.rows.one(query, state=row["state"], since=since, **values)
        found.append(
            WaitingState(
                state=row["state"],
                pods=row["pods"],
                oldest_seconds=None if since is None else (now - since) / 1e6,
                oldest_since=None if since is None else iso(since),
                oldest=None if oldest is None else f"{oldest['namespace']}/{oldest['name']}",
            )
        )
    return sorted(found, key=lambda each: STATES.index(each.state))


def _reasons(
    stream: LoggedStream, visible: str, values: Mapping[str, Any], now: int
) -> list[WaitingReason]:
    query = _REASONS_OF.format(visible=visible)
    rows = stream.rows.all(query, states=list(QUEUES), **values)
    meanings = stream.rows.refusals(row["verdict"] for row in rows if row["verdict"] is not None)
    found: dict[tuple[str | None, str | None], WaitingReason] = {}
    for row in rows:
        plugin, reason = row["plugin"] or None, row["reason"]
        if row["verdict"] is not None and reason is None:
            refusal = meanings[row["verdict"]]
            plugin, reason = refusal.plugin, refusal.reason
        waited = None if row["since"] is None else (now - row["since"]) / 1e6
        same = found.get((plugin, reason))
        found[plugin, reason] = WaitingReason(
            plugin=plugin,
            reason=reason,
            pods=row["pods"] + (same.pods if same else 0),
            oldest_seconds=max(waited or 0.0, same.oldest_seconds or 0.0) if same else waited,
            example=same.example if same else row["example"],
            group=key_of_refusal(plugin, reason),
        )
    return sorted(found.values(), key=lambda each: -each.pods)[:MOST_REASONS]


class NewestDecisions(NamedTuple):
    """Where the newest decisions before position ``end`` begin; 0 of none."""

    floor: int
    end: int


def newest_decisions(stream: LoggedStream, end: int) -> NewestDecisions:
    """The decisions before a position that are looked at."""
    # Near ones first: without statistics, as of a new partition, Postgres reads and sorts the whole
    # range for them.
    for low in (max(0, end - _NEAR), 0):
        [row] = stream.rows.all(_FLOOR, most=_COUNTED, low=low, end=end)
        if row["decisions"] == _COUNTED:
            break
    return NewestDecisions(row["floor"] or 0, end)


def decision_rate(
    stream: LoggedStream, sees: Visibility, now: int, newest: NewestDecisions
) -> float:
    """Decisions a second in the minute before ``now`` (µs), of the ``newest``; if there are too
    many to look at, in the time that these took."""
    visible, values = sees.condition("p.namespace")
    query = _RATE.format(visible=visible, join=_LEFT_JOIN if visible else "")
    after = now - _MINUTE
    row = stream.rows.one(query, after=after, **newest._asdict(), **values)
    assert row is not None
    if row["looked"] < _COUNTED or row["first"] <= after:
        return int(row["decisions"]) / 60
    return float(row["decisions"] * 1e6 / max(1, now - row["first"]))


def last_waits(stream: LoggedStream, sees: Visibility, newest: NewestDecisions) -> Waits:
    """How long the last pods of the ``newest`` decisions that got a node had waited."""
    visible, values = sees.condition("p.namespace")
    query = _PLACED.format(visible=visible, join=_JOIN if visible else "")
    rows = stream.rows.all(query, most=_MEASURED, **newest._asdict(), **values)
    waited = sorted(row["waited"] / 1e6 for row in rows if row["waited"] is not None)
    if not waited:
        return Waits(pods=0, p50_seconds=None, p99_seconds=None)
    middle, last = len(waited) // 2, min(len(waited) - 1, len(waited) * 99 // 100)
    return Waits(pods=len(waited), p50_seconds=waited[middle], p99_seconds=waited[last])


def _log(head: RowMapping, last: RowMapping | None, clock: int, *, virtual: bool) -> LogFacts:
    if last is None:
        return LogFacts(head=head["next"], written_at=None, lag_seconds=None, idle_seconds=None)
    return LogFacts(
        head=head["next"],
        written_at=iso(last["written"]),
        lag_seconds=None if virtual else max(0.0, (last["written"] - last["at"]) / 1e6),
        idle_seconds=None if virtual else max(0.0, (clock - last["written"]) / 1e6),
    )


def _leader(stream: LoggedStream, head: RowMapping) -> StreamLeader | None:
    if not head["holder"]:
        return None
    term = stream.rows.one(_TERM, epoch=head["epoch"])
    since = None if term is None else iso(term["since"])
    return StreamLeader(holder=head["holder"], epoch=head["epoch"], since=since)
