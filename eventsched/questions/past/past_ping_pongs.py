"""What went back and forth before a position: workloads that were evicted and pods that were
nominated again and again. The rules are those of view ping_pongs, which is about the present.

As the view, it looks at the newest victims. Of these, records are read only of pods that are gone,
and only if there were enough evictions in their namespace.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from eventsched.domain.units import SECOND
from eventsched.history.past_state.anomalies import (
    AGAIN_MINUTES,
    AGAIN_TIMES,
    EVICTED,
    LOOKED_AT,
    NOMINATED,
    POD,
    Anomaly,
)
from eventsched.questions.past.past_pods import PastPods
from eventsched.questions.pods.gone_owners import owners_at_arrival
from eventsched.questions.streams import LoggedStream

_AGAIN = AGAIN_MINUTES * 60 * SECOND
_ACTING = """NOT EXISTS (SELECT FROM eventsched_log.record_count c
                  WHERE c.stream = :s AND c.kind = 'PlacementCompared')"""
"""Whether a stream is not that of a shadow, which evicts no pod."""
_VICTIMS = f"""
SELECT v.seq, v.at, CAST(v.pod AS text) AS uid, p.seq AS came, p.namespace, p.name,
       EXISTS (SELECT FROM eventsched_log.pod_end g
               WHERE g.stream = :s AND g.pod = v.pod AND g.seq > v.seq AND g.seq < :end) AS is_gone
FROM (
    SELECT seq, at, pod FROM eventsched_log.victim
    WHERE stream = :s AND seq < :end AND spared IS NULL AND {_ACTING}
    ORDER BY seq DESC LIMIT :most
) v
JOIN eventsched_log.pod p ON p.stream = :s AND p.uid = v.pod
ORDER BY v.seq, v.pod
"""
_NOMINATIONS = f"""
WITH nominated AS (
    SELECT DISTINCT preemptor, seq, at FROM (
        SELECT preemptor, seq, at FROM eventsched_log.victim
        WHERE stream = :s AND seq < :end AND {_ACTING} ORDER BY seq DESC LIMIT :most
    ) newest
), again AS (
    SELECT DISTINCT ON (n.preemptor) n.* FROM (
        SELECT n.*, lag(n.seq, :before) OVER w AS first, lag(n.at, :before) OVER w AS since
        FROM nominated n WINDOW w AS (PARTITION BY n.preemptor ORDER BY n.seq)
    ) n
    WHERE n.at - n.since <= :again
      AND NOT EXISTS (SELECT FROM eventsched_log.decision d
                      WHERE d.stream = :s AND d.pod = n.preemptor AND d.seq > n.first
                        AND d.seq < n.seq AND d.outcome IN ('scheduled', 'waiting'))
    ORDER BY n.preemptor, n.seq DESC
)
SELECT CAST(a.preemptor AS text) AS uid, a.seq, a.since, p.namespace, p.name,
       (SELECT count(DISTINCT v.seq) FROM eventsched_log.victim v
        WHERE v.stream = :s AND v.preemptor = a.preemptor AND v.at >= a.at - :again
          AND v.seq < :end) AS times
FROM again a JOIN eventsched_log.pod p ON p.stream = :s AND p.uid = a.preemptor
ORDER BY a.seq DESC
"""
_Workload = tuple[str, str, str]
"""Namespace, kind and name."""


class _Eviction(NamedTuple):
    """A victim: the position and time (µs) of the preemption, the pod and its arrival. ``is_gone``
    if it has left since."""

    seq: int
    at: int
    uid: str
    name: str
    came: int
    is_gone: bool


def past_ping_pongs(stream: LoggedStream, past: PastPods) -> Mapping[str, list[Anomaly]]:
    """The anomalies of both kinds before a position, the newest first. Raises UnavailableError."""
    return {EVICTED: _evicted_again(stream, past), NOMINATED: _nominated_again(stream, past)}


def _evicted_again(stream: LoggedStream, past: PastPods) -> list[Anomaly]:
    rows = stream.rows.all(_VICTIMS, end=past.position, most=LOOKED_AT)
    often = Counter(row["namespace"] for row in rows)
    rows = [row for row in rows if often[row["namespace"]] >= AGAIN_TIMES]
    owners = _owners(stream, past, rows)
    workloads: dict[_Workload, list[_Eviction]] = {}
    for row in rows:
        kind, owner = owners.get(row["uid"], (POD, row["name"]))
        victim = _Eviction(
            row["seq"], row["at"], row["uid"], row["name"], row["came"], row["is_gone"]
        )
        workloads.setdefault((row["namespace"], kind, owner), []).append(victim)
    found = []
    for (namespace, kind, owner), victims in workloads.items():
        again = _last_again(victims)
        if again is not None:
            last, first = again
            times = sum(last.at - _AGAIN <= each.at <= last.at for each in victims)
            facts = {"owner_kind": kind, "owner_name": owner, "times": times}
            found.append(
                Anomaly(EVICTED, namespace, last.name, last.uid, first.at, last.seq, facts)
            )
    return sorted(found, key=lambda each: -each.seq)


def _last_again(victims: Sequence[_Eviction]) -> tuple[_Eviction, _Eviction] | None:
    """The last eviction of a workload that was the third within the time, and the first of the
    three: of pods that were added one after the other had left. None if there was no such one.
    ``victims`` are in order."""
    left = [each for each in victims if each.is_gone]
    positions = [each.seq for each in left]
    victims_at: dict[int, list[_Eviction]] = {}
    for each in victims:
        victims_at.setdefault(each.seq, []).append(each)

    def before(eviction: _Eviction) -> list[_Eviction]:
        """The last eviction before the pod was added, if there was one."""
        place = bisect_right(positions, eviction.came)
        return left[max(0, place - 1) : place]

    found = [
        (third, first)
        for third in victims
        for second in before(third)
        for each in victims_at[second.seq]
        for first in before(each)
        if third.at - first.at <= _AGAIN
    ]
    return max(found, key=lambda pair: (pair[0].seq, pair[1].at), default=None)


def _owners(
    stream: LoggedStream, past: PastPods, rows: Sequence[Any]
) -> dict[str, tuple[str, str]]:
    """Uid → kind and name of the owner of pods that have one: of those that were there in the
    state, of others in the record of their arrival."""
    present = _present(past, rows)
    sought = {row["came"]: row["uid"] for row in rows if row["uid"] not in present}
    for position, owner in owners_at_arrival(stream, sought).items():
        present[sought[position]] = (owner.kind, owner.name)
    return {uid: owner for uid, owner in present.items() if owner[1]}


def _present(past: PastPods, rows: Sequence[Any]) -> dict[str, tuple[Any, Any]]:
    """Uid → kind and name of the owner, of the pods of rows that were there in the state."""
    sought = {row["uid"] for row in rows}
    there = [row for row in past.rows if row["uid"] in sought] if sought else []
    return {row["uid"]: (row["owner_kind"], row["owner_name"]) for row in there}


def _nominated_again(stream: LoggedStream, past: PastPods) -> list[Anomaly]:
    rows = stream.rows.all(
        _NOMINATIONS, end=past.position, most=LOOKED_AT, before=AGAIN_TIMES - 1, again=_AGAIN
    )
    present = _present(past, rows)
    found = []
    for row in rows:
        kind, owner = present.get(row["uid"], (None, None))
        facts = {"times": row["times"], "owner_kind": kind, "owner_name": owner}
        found.append(
            Anomaly(
                NOMINATED, row["namespace"], row["name"], row["uid"], row["since"], row["seq"],
                facts,
            )
        )  # fmt: skip
    return found
