"""Decisions and waiting times over the last hour, in steps."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from eventsched.domain.records import MoveCause
from eventsched.output.time_format import iso
from eventsched.questions.past.positions import record_time
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

HOUR, STEPS = 3_600_000_000, 60
"""The longest time that is shown (µs), and its steps at most."""
SHORTEST = 1_000_000
"""The shortest step (µs): of a shorter one, a single decision would be a high rate."""
LOOKED_AT = 20_000
"""Decisions that are looked at, the newest."""
NEAR = 300_000
"""Positions before the end in which arrivals of pods are read at once."""

_FIRST = """
SELECT min(d.at) AS first, count(*) AS looked FROM (
    SELECT d.at FROM eventsched_log.decision d
    WHERE d.stream = :s AND d.seq < :end ORDER BY d.seq DESC LIMIT :most
) AS d
"""
_BY_STEP = f"""
SELECT (d.at - :begin - 1) / :step AS step, count(*) AS decisions,
       count(*) FILTER (WHERE d.outcome IN ('unschedulable', 'error')) AS failed,
       count(w.waited) AS placed,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY w.waited) AS p50,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY w.waited) AS p99
FROM (
    SELECT e.at, e.pod, e.outcome, min(e.arrived) OVER (PARTITION BY e.pod) AS arrived FROM (
        (SELECT d.at, d.pod, d.outcome, NULL AS arrived FROM eventsched_log.decision d
         WHERE d.stream = :s AND d.seq < :end ORDER BY d.seq DESC LIMIT :most)
        UNION ALL
        SELECT NULL, m.pod, NULL, m.at FROM eventsched_log.queue_move m
        WHERE m.stream = :s AND m.seq >= :near AND m.seq < :end AND m.cause = '{MoveCause.POD_ADD}'
    ) AS e
) AS d {{join}}
LEFT JOIN LATERAL (
    SELECT d.at - coalesce(d.arrived, (
        SELECT min(m.at) FROM eventsched_log.queue_move m WHERE m.stream = :s AND m.pod = d.pod
    )) AS waited WHERE d.outcome IN ('scheduled', 'waiting')
) AS w ON true
WHERE d.at > :begin AND d.at <= :now{{visible}} GROUP BY 1 ORDER BY 1
"""
"""A pod's first move to a queue is that of its arrival. Those within the newest NEAR positions are
read at once: to look up each pod reads a page of the index for it, mostly from disk. A window joins
them: of a table that grows, the planner expects next to none of the newest rows, and would compare
each with each."""
_JOIN = "JOIN eventsched_log.pod p ON p.stream = :s AND p.uid = d.pod"


class ActivityStep(msgspec.Struct, frozen=True, kw_only=True):
    """What happened within a step, which ends at ``until``. ``failed`` of the ``decisions`` found
    no node. ``placed`` pods got one, after waiting since they came into a queue: the median and the
    99th percentile, null without such pods."""

    until: str
    decisions: int
    failed: int
    per_second: float
    placed: int
    p50_seconds: float | None
    p99_seconds: float | None


class RecentActivity(msgspec.Struct, frozen=True, kw_only=True):
    """What happened before the record at ``position`` in the hour until ``end``, or, ``is_cut``, as
    long as the newest 20,000 decisions took, in at most 60 steps of ``step_seconds``, 1 or more."""

    stream: str
    position: int
    begin: str
    end: str
    step_seconds: float
    is_cut: bool
    steps: list[ActivityStep]


def recent_activity(stream: LoggedStream, sees: Visibility, position: int | None) -> RecentActivity:
    """What happened in the hour before a position, by default before the present. Raises
    UnavailableError."""
    end = stream.rows.head if position is None else position
    now = stream.present if position is None else record_time(stream, position - 1) or 0
    first = stream.rows.one(_FIRST, end=end, most=LOOKED_AT)
    assert first is not None
    is_cut = first["looked"] == LOOKED_AT and first["first"] > now - HOUR
    begin = first["first"] - 1 if is_cut else max(0, now - HOUR)  # a simulation begins at 0
    step = max(SHORTEST, math.ceil((now - begin) / STEPS))
    steps = max(1, math.ceil((now - begin) / step))
    begin = now - steps * step
    visible, values = sees.condition("p.namespace")
    query = _BY_STEP.format(visible=visible, join=_JOIN if visible else "")
    bounds = {"begin": begin, "step": step, "now": now, "end": end, "most": LOOKED_AT}
    bounds["near"] = end - NEAR
    rows = {int(row["step"]): row for row in stream.rows.all(query, **bounds, **values)}
    empty = {"decisions": 0, "failed": 0, "placed": 0, "p50": None, "p99": None}
    return RecentActivity(
        stream=stream.name,
        position=end,
        begin=iso(max(0, begin)),  # steps are rounded up
        end=iso(now),
        step_seconds=step / 1e6,
        is_cut=is_cut,
        steps=[
            _step(begin + (number + 1) * step, step, rows.get(number, empty))
            for number in range(steps)
        ],
    )


def _step(until: int, length: int, row: Mapping[Any, Any]) -> ActivityStep:
    return ActivityStep(
        until=iso(until),
        decisions=row["decisions"],
        failed=row["failed"],
        per_second=row["decisions"] * 1e6 / length,
        placed=row["placed"],
        p50_seconds=_seconds(row["p50"]),
        p99_seconds=_seconds(row["p99"]),
    )


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / 1e6
