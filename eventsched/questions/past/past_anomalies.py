"""Anomalies of the past: the pods that starved or that no node would take, of the state at a
position, what went back and forth, and preemptions that had been for nothing before it. The rules
are those of the views starving_pods, unplaceable_pods, ping_pongs and preempted_for_nothing, which
are about the present.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eventsched.domain.records.verdicts import STORED_EXCLUDED, STORED_NOT_EVALUATED, Code
from eventsched.domain.units import SECOND
from eventsched.history.past_state.anomalies import (
    LONG_WAIT_MINUTES,
    STARVING,
    UNPLACEABLE,
    Anomaly,
    StoredAnomalies,
    wasted_preemptions,
)
from eventsched.history.past_state.own_overtaking import PlacedOfWorkloads
from eventsched.questions.past.last_attempts import arrivals
from eventsched.questions.past.now_at import refusal_of
from eventsched.questions.past.past_ping_pongs import past_ping_pongs
from eventsched.questions.past.past_pod import PastPod
from eventsched.questions.past.past_pods import PastPods, first_queued
from eventsched.questions.pods.pod_rows import QUEUES
from eventsched.questions.streams import LoggedStream
from eventsched.questions.visibility import Visibility
from eventsched.runtime import gc_tuning

_ON_NODES = ("bound", "binding", "waiting")
_FACTS = ("priority", "state", "attempts", "owner_kind", "owner_name")
_NEWEST = """
SELECT d.at FROM eventsched_log.decision d
WHERE d.stream = :s AND d.seq < :end ORDER BY d.seq DESC LIMIT 1
"""


@gc_tuning.paused()
def past_anomalies(
    stream: LoggedStream, sees: Visibility, past: PastPods, limit: int
) -> StoredAnomalies:
    """The anomalies before a position, at most ``limit`` of each kind, as those of the present.
    Raises UnavailableError."""
    anomalies: dict[str, list[Anomaly]] = {STARVING: [], UNPLACEABLE: []}
    long_waits = _long_waits(stream, past)
    on_nodes = _on_nodes(past) if long_waits else []
    placed, own = _placed(long_waits, on_nodes), PlacedOfWorkloads(on_nodes)
    for row, came, began in long_waits:
        if not sees.sees(row["namespace"]):
            continue
        facts = {name: row[name] for name in _FACTS}
        facts["plugin"], facts["reason"] = refusal_of(stream, row)
        kind = UNPLACEABLE
        if _could_fit(stream, row):
            kind, seqs = STARVING, placed.get(row["priority"], ())
            facts["overtaken_by"] = len(seqs) - bisect_right(seqs, came)
            if not facts["overtaken_by"]:
                continue
            facts["overtaken_by_own"] = own.later(row, came)
        found = Anomaly(
            kind, row["namespace"], row["name"], row["uid"], began, row["seq"], facts
        )  # fmt: skip
        anomalies[kind].append(found)
    for each in anomalies.values():
        each.sort(key=lambda found: (found.since, found.seq))
    for kind, again in past_ping_pongs(stream, past).items():
        anomalies[kind] = [each for each in again if sees.sees(each.namespace)]
    visible, values = sees.condition("v.namespace")
    wasted = wasted_preemptions(
        stream.rows.of_views, stream.name, limit, visible, values, past.position
    )
    totals = {kind: len(found) for kind, found in anomalies.items()} | dict(wasted.totals)
    listed = [each for found in anomalies.values() for each in found[:limit]]
    return StoredAnomalies([*listed, *wasted.found], totals)


class _LongWait(NamedTuple):
    """A pod, and the position and time (µs) at which it was first in a queue other than the gated
    one."""

    row: PastPod
    came: int
    began: int


def _long_waits(stream: LoggedStream, past: PastPods) -> list[_LongWait]:
    """The pods in a queue that had waited for long when the last attempt was made."""
    newest = stream.rows.one(_NEWEST, end=past.position)
    if newest is None:
        return []
    latest = newest["at"] - LONG_WAIT_MINUTES * 60 * SECOND
    waiting = {row["uid"]: row for row in _waiting_since(past, latest)}
    past.add_attempts(list(waiting.values()))
    began = {
        found["uid"]: (found["seq"], found["at"])
        for found in first_queued(stream, arrivals(waiting.values()), past.position)
    }
    past.add_waits([row for uid, row in waiting.items() if uid not in began])
    pods = [
        (row, *(began.get(uid) or (row["seq"], row["waiting_since"])))
        for uid, row in waiting.items()
    ]
    return [_LongWait(*each) for each in pods if each[2] <= latest]


def _waiting_since(past: PastPods, latest: int) -> Sequence[PastPod]:
    """The pods in a queue that have been tried and came to a queue at ``latest`` (µs) or before."""
    tried = [row for row in past.rows if row.state in QUEUES and row.attempts]

    def since(row: PastPod) -> Any:
        past.add_waits([row])
        return row["waiting_since"]

    if past.waits(tried) is not None:  # those that came first wait longest
        return tried[: bisect_right(tried, latest, key=since)]
    past.add_waits(tried)
    waited = [row for row in tried if row["waiting_since"] is not None]
    return [row for row in waited if row["waiting_since"] <= latest]


def _could_fit(stream: LoggedStream, row: Mapping[str, Any]) -> bool:
    """Whether the end of other pods could make room for a pod, by its last attempt."""
    if row["outcome"] != "unschedulable" or row["feasible"]:  # a plugin may refuse the chosen node
        return True
    numbers = row["numbers"] - {STORED_EXCLUDED}
    if STORED_NOT_EVALUATED in numbers:
        return True
    meanings = stream.rows.refusals(numbers)
    return any(meanings[number].code != Code.UNRESOLVABLE for number in numbers)


def _placed(
    long_waits: Sequence[_LongWait], on_nodes: Sequence[PastPod]
) -> Mapping[int, Sequence[int]]:
    """Priority of a pod that waits → the positions at which the pods of that priority or less came
    that were placed and are still there, in order."""
    levels = {wait.row["priority"] for wait in long_waits}
    return {
        level: sorted(row.seq for row in on_nodes if row.pod.priority <= level) for level in levels
    }


def _on_nodes(past: PastPods) -> list[PastPod]:
    """The rows of the pods that were placed and are still there."""
    return [row for row in past.rows if row.state in _ON_NODES and row.attempts]
