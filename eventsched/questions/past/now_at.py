"""What happened at a position: the answer of now.py about the past."""

from collections.abc import Mapping, Sequence
from typing import Any

from eventsched.cli.output.time_format import iso
from eventsched.domain.units import is_virtual
from eventsched.questions.answer_shapes import (
    LogFacts,
    Now,
    StreamLeader,
    WaitingReason,
    WaitingState,
)
from eventsched.questions.now import (
    MOST_REASONS,
    decision_rate,
    last_waits,
)
from eventsched.questions.overviews.excluded_nodes import refusal_to_name
from eventsched.questions.overviews.group_keys import key_of_refusal
from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.past.positions import record_time
from eventsched.questions.pod_rows import PENDING_STATES, QUEUES, STATES
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility

_WRITTEN = """
SELECT CAST(extract(epoch FROM b.written_at) * 1000000 AS bigint) AS written
FROM eventsched_log.batch b
WHERE b.stream = :s AND b.first < :end ORDER BY b.first DESC LIMIT 1
"""
_TERM = """
SELECT e.holder, e.epoch, CAST(extract(epoch FROM e.started_at) * 1000000 AS bigint) AS since
FROM eventsched_log.epoch e
WHERE e.stream = :s AND e.first < :end ORDER BY e.epoch DESC LIMIT 1
"""


def now_at(stream: LoggedStream, sees: Visibility, past: PastPods, *, with_nodes: bool) -> Now:
    """What happened before the record at a position. Nodes are shown to those who see everything.
    Raises UnavailableError."""
    rows = [row for row in past.rows if sees.sees(row["namespace"])]
    states = _states(rows, past.now)
    return Now(
        stream=stream.name,
        position=past.position,
        now=iso(past.now),
        pods=len(rows),
        pending=sum(state.pods for state in states if state.state in PENDING_STATES),
        states=states,
        reasons=_reasons(stream, rows, past.now),
        decisions_per_second=decision_rate(stream, sees, past.now, past.position),
        waits=last_waits(stream, sees, past.position),
        log=_log(stream, past.position),
        leader=_leader(stream, past.position),
        nodes=past.nodes if with_nodes and sees.is_whole else None,
    )


def _states(rows: Sequence[Mapping[str, Any]], now: int) -> list[WaitingState]:
    found = []
    for state in STATES:
        pods = [row for row in rows if row["state"] == state]
        if not pods:
            continue
        waiting = [row for row in pods if row["waiting_since"] is not None]
        oldest = min(waiting, key=lambda row: (row["waiting_since"], row["seq"]), default=None)
        since = None if oldest is None else oldest["waiting_since"]
        found.append(
            WaitingState(
                state=state,
                pods=len(pods),
                oldest_seconds=None if since is None else (now - since) / 1e6,
                oldest_since=None if since is None else iso(since),
                oldest=None if oldest is None else _name(oldest),
            )
        )
    return found


def _reasons(
    stream: LoggedStream, rows: Sequence[Mapping[str, Any]], now: int
) -> list[WaitingReason]:
    """The reasons of most pods first, with the one that has waited longest."""
    groups: dict[tuple[str | None, str | None], list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["state"] in QUEUES and row["decided_seq"] is not None:
            groups.setdefault(refusal_of(stream, row), []).append(row)
    found = []
    for (plugin, reason), pods in groups.items():
        since = [row["waiting_since"] for row in pods if row["waiting_since"] is not None]
        found.append(
            WaitingReason(
                plugin=plugin,
                reason=reason,
                pods=len(pods),
                oldest_seconds=(now - min(since)) / 1e6 if since else None,
                example=min(map(_name, pods)),
                group=key_of_refusal(plugin, reason),
            )
        )
    found.sort(key=lambda each: (-each.pods, -(each.oldest_seconds or 0.0)))
    return found[:MOST_REASONS]


def refusal_of(stream: LoggedStream, row: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The plugin and the reason of the dominant refusal of a row's last attempt."""
    number = row["verdict"]
    if number is None:
        return row["plugin"] or None, row["message"]
    refusal = refusal_to_name(stream.rows, number, row)
    return refusal.plugin, refusal.reason


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['namespace']}/{row['name']}"


def _log(stream: LoggedStream, end: int) -> LogFacts:
    """When the last record before a position was written, and how long after its time."""
    head, last = stream.rows.head, stream.rows.one(_WRITTEN, end=end)
    if last is None:
        return LogFacts(head=head, written_at=None, lag_seconds=None, idle_seconds=None)
    at = record_time(stream, end - 1)
    lag = None if at is None or is_virtual(at) else max(0.0, (last["written"] - at) / 1e6)
    return LogFacts(head=head, written_at=iso(last["written"]), lag_seconds=lag, idle_seconds=None)


def _leader(stream: LoggedStream, end: int) -> StreamLeader | None:
    term = stream.rows.one(_TERM, end=end)
    if term is None or not term["holder"]:
        return None
    return StreamLeader(holder=term["holder"], epoch=term["epoch"], since=iso(term["since"]))
