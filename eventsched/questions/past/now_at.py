"""What happened at a position: the answer of now.py about the past."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from eventsched.domain.records.verdicts import STORED_EXCLUDED
from eventsched.domain.units import is_virtual
from eventsched.history.past_state.state_document import BOUND
from eventsched.output.queues.group_keys import key_of_refusal
from eventsched.output.time_format import iso
from eventsched.questions.answer_shapes import (
    LogFacts,
    Now,
    StreamLeader,
    WaitingReason,
    WaitingState,
)
from eventsched.questions.excluded_nodes import refusal_to_name
from eventsched.questions.now import (
    MOST_REASONS,
    decision_rate,
    last_waits,
    newest_decisions,
)
from eventsched.questions.past.past_pod import PastPod
from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.past.positions import record_time
from eventsched.questions.pods.pod_rows import PENDING_STATES, QUEUES, STATES
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility
from eventsched.runtime import gc_tuning

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

PluginReason = tuple[str | None, str | None]
"""The plugin and the reason of a refusal, as far as there are any."""


@gc_tuning.paused()
def now_at(stream: LoggedStream, sees: Visibility, past: PastPods, *, with_nodes: bool) -> Now:
    """What happened before the record at a position. Nodes are shown to those who see everything.
    Raises UnavailableError."""
    rows = past.visible(sees)
    states = _states(past, rows)
    newest = newest_decisions(stream, past.position)
    return Now(
        stream=stream.name,
        position=past.position,
        now=iso(past.now),
        pods=len(rows),
        pending=sum(state.pods for state in states if state.state in PENDING_STATES),
        states=states,
        reasons=_reasons(stream, past, rows),
        decisions_per_second=decision_rate(stream, sees, past.now, newest),
        waits=last_waits(stream, sees, newest),
        log=_log(stream, past.position),
        leader=_leader(stream, past.position),
        nodes=past.nodes if with_nodes and sees.is_whole else None,
    )


def _states(past: PastPods, rows: Sequence[PastPod]) -> list[WaitingState]:
    by_state: dict[str, list[PastPod]] = {}
    for row in rows:
        by_state.setdefault(row.state, []).append(row)
    states = [state for state in STATES if state in by_state]
    oldest = past.oldest([[] if state == BOUND else by_state[state] for state in states])
    return [
        WaitingState(
            state=state,
            pods=len(by_state[state]),
            oldest_seconds=_seconds(past, first),
            oldest_since=None if first is None else iso(first["waiting_since"]),
            oldest=None if first is None else first.pod.full_name,
        )
        for state, first in zip(states, oldest, strict=True)
    ]


def _seconds(past: PastPods, row: PastPod | None) -> float | None:
    """How long a pod had waited."""
    return None if row is None else (past.now - row["waiting_since"]) / 1e6


def _reasons(stream: LoggedStream, past: PastPods, rows: Sequence[PastPod]) -> list[WaitingReason]:
    """The reasons of most pods first, with the one that has waited longest."""
    groups: dict[PluginReason, list[PastPod]] = {}
    queued = [row for row in rows if row.state in QUEUES]
    past.add_attempts(queued)
    tried = [row for row in queued if row.found["decided_seq"] is not None]
    for row, named in zip(tried, refusals_of(stream, tried), strict=True):
        groups.setdefault(named, []).append(row)
    oldest = past.oldest(list(groups.values()))
    found = [
        WaitingReason(
            plugin=plugin,
            reason=reason,
            pods=len(pods),
            oldest_seconds=_seconds(past, first),
            example=min(row.pod.full_name for row in pods),
            group=key_of_refusal(plugin, reason),
        )
        for ((plugin, reason), pods), first in zip(groups.items(), oldest, strict=True)
    ]
    found.sort(key=lambda each: (-each.pods, -(each.oldest_seconds or 0.0)))
    return found[:MOST_REASONS]


def refusals_of(stream: LoggedStream, rows: Iterable[PastPod]) -> Iterator[PluginReason]:
    """``refusal_of`` for each row: few verdicts are different."""
    known: dict[int, PluginReason] = {}
    for row in rows:
        number = row.found["verdict"]
        if number is None or number == STORED_EXCLUDED:
            yield refusal_of(stream, row)
        elif (named := known.get(number)) is not None:
            yield named
        else:
            known[number] = refusal_of(stream, row)
            yield known[number]


def refusal_of(stream: LoggedStream, row: Mapping[str, Any]) -> PluginReason:
    """The plugin and the reason of the dominant refusal of a row's last attempt."""
    number = row["verdict"]
    if number is None:
        return row["plugin"] or None, row["message"]
    refusal = refusal_to_name(stream.rows, number, row)
    return refusal.plugin, refusal.reason


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
