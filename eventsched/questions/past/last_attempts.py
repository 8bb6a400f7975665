"""The last attempts of pods before a position.

A folded state says how often each pod was tried, so the last attempt is known by its number. Most
pods that wait were tried not long before: their attempts are sought among the decisions before the
position first. The index by pod has all attempts of a pod, of which there can be a hundred.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import RowMapping

from eventsched.questions.past.past_pod import PastPod
from eventsched.questions.streams import LoggedStream

_AT_ONCE = 20_000
"""Pods or decisions that one query asks for. Of parts of them Postgres would read much again."""
_FEW = 64
"""Up to this number of pods, all attempts of each are read."""
_NEAR = (60_000, 240_000)
"""Records before the position in which attempts are sought first."""

_T = TypeVar("_T")

# One row of arrays: a row for each pod takes several times as long to read.
_NUMBERED = """
SELECT array_agg(a.n) AS n, array_agg(d.seq) AS seq, array_agg(d.at) AS at,
       array_agg(CAST(d.outcome AS text)) AS outcome, array_agg(d.feasible) AS feasible
FROM unnest(CAST(:uids AS uuid[]), CAST(:attempts AS integer[]), CAST(:came AS bigint[]))
     WITH ORDINALITY AS a (uid, attempt, came, n)
JOIN eventsched_log.decision d ON d.pod = a.uid AND d.attempt = a.attempt AND d.seq >= a.came
WHERE d.stream = :s AND d.seq >= :low AND d.seq < :end
"""
_OF_PODS = """
SELECT DISTINCT ON (d.pod) CAST(d.pod AS text) AS uid, d.seq, d.at,
       CAST(d.outcome AS text) AS outcome, d.feasible
FROM eventsched_log.decision d
WHERE d.stream = :s AND d.pod = ANY(CAST(:uids AS uuid[])) AND d.seq >= :begin AND d.seq < :end
ORDER BY d.pod, d.seq DESC
"""


class LastAttempt(NamedTuple):
    """The position and time (µs) of an attempt, its outcome, and how many nodes were feasible."""

    seq: int
    at: int
    outcome: str
    feasible: int


def last_attempts(
    stream: LoggedStream, pods: Iterable[PastPod], end: int
) -> dict[str, LastAttempt]:
    """Uid → the last attempt before position ``end``, of those of the pods that had one. Raises
    UnavailableError."""
    found: dict[str, LastAttempt] = {}
    left = [pod for pod in pods if pod.attempts]
    for near in _NEAR if len(left) > _FEW else ():
        low = max(0, end - near)
        found |= _numbered(stream, left, low, end)
        left = [pod for pod in left if pod.uid not in found]
        if len(left) <= _FEW or not low:
            break
    return found | attempts_of(stream, arrivals(left), end) if left else found


def attempts_of(stream: LoggedStream, came: Mapping[str, int], end: int) -> dict[str, LastAttempt]:
    """The last attempt of each pod that had one since it ``came`` and before position ``end``, of
    pods of which it is not said how often they were tried. Raises UnavailableError."""
    return {
        row["uid"]: LastAttempt(row["seq"], row["at"], row["outcome"], row["feasible"])
        for row in of_pods(stream, _OF_PODS, came, end)
    }


def arrivals(pods: Iterable[PastPod]) -> dict[str, int]:
    """Uid → position at which the pod came."""
    return {pod.uid: pod.seq for pod in pods}


def of_pods(
    stream: LoggedStream, query: str, came: Mapping[str, int], end: int
) -> Iterator[RowMapping]:
    """What a query finds of each pod since it came. An earlier pod may have had its uid: a restore
    of etcd brings pods back. That is rare, so those are asked for again, one by one."""
    for some in chunks(list(came)):
        for found in stream.rows.all(query, uids=_as_array(some), begin=0, end=end):
            begin = came[found["uid"]]
            if found["seq"] >= begin:
                yield found
            else:
                uids = _as_array([found["uid"]])
                yield from stream.rows.all(query, uids=uids, begin=begin, end=end)


def chunks(items: list[_T]) -> Iterator[list[_T]]:
    """Parts of a list, each for one query."""
    for first in range(0, len(items), _AT_ONCE):
        yield items[first : first + _AT_ONCE]


def _as_array(values: Iterable[object]) -> str:
    """Values as the text of an array: an array of texts is looked through for what has to be
    quoted, and a list of numbers takes longer to pass on."""
    return f"{{{','.join(map(str, values))}}}"


def _numbered(
    stream: LoggedStream, pods: Sequence[PastPod], low: int, end: int
) -> dict[str, LastAttempt]:
    """The attempts of pods from position ``low`` on, by their number."""
    row = stream.rows.one(
        _NUMBERED, low=low, end=end, uids=_as_array(pod.uid for pod in pods),
        attempts=_as_array(pod.attempts for pod in pods), came=_as_array(pod.seq for pod in pods),
    )  # fmt: skip
    if row is None or row["n"] is None:
        return {}
    columns = (row["seq"], row["at"], row["outcome"], row["feasible"])
    made = map(LastAttempt, *columns)
    return dict(zip([pods[n - 1].uid for n in row["n"]], made, strict=True))
