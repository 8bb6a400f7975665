"""How many of the pods that overtook one that starves are of its own workload.

Pods of one controller mostly request the same, so these say more than later pods of any size.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MOST_SHOWN = 1_000
"""Pods that starve for which it is looked up, those that come first."""
_MOST_PLACED = 20_000
"""Placed pods of their workloads that are looked at: those that came last."""
_SHOWN = """
SELECT CAST(n.uid AS text) AS uid, n.namespace, n.owner_kind, n.owner_name, n.priority,
       (SELECT min(m.seq) FROM eventsched_log.queue_move m
        WHERE m.stream = n.stream AND m.pod = n.uid AND m.queue <> 'gated') AS came
FROM eventsched_log.pod_now n
WHERE n.stream = :s AND n.uid = ANY(CAST(:uids AS uuid[])) AND n.owner_name <> ''
"""
_PLACED = f"""
SELECT n.namespace, n.owner_kind, n.owner_name, n.priority, n.seq
FROM eventsched_log.pod_now n
JOIN (SELECT DISTINCT w.namespace, w.owner_kind, w.owner_name FROM eventsched_log.pod_now w
      WHERE w.stream = :s AND w.uid = ANY(CAST(:uids AS uuid[])) AND w.owner_name <> '') o
  ON o.namespace = n.namespace AND o.owner_kind = n.owner_kind AND o.owner_name = n.owner_name
WHERE n.stream = :s AND n.attempts > 0 AND n.state IN ('bound', 'binding', 'waiting')
ORDER BY n.seq DESC LIMIT {_MOST_PLACED}
"""


class _Workload(NamedTuple):
    namespace: str
    kind: str | None
    name: str | None


class PlacedOfWorkloads:
    """The placed pods of workloads, by the position at which they came; of rows that have the
    columns of table pod_now."""

    def __init__(self, rows: Iterable[Mapping[Any, Any]]) -> None:
        self._pods: dict[_Workload, list[tuple[int, int]]] = {}
        self._sorted: dict[tuple[_Workload, int], Sequence[int]] = {}
        for row in rows:
            self._pods.setdefault(_workload(row), []).append((row["priority"], row["seq"]))

    def later(self, pod: Mapping[Any, Any], came: int) -> int:
        """How many pods of the pod's workload, of its priority or less, came after a position."""
        workload, priority = _workload(pod), pod["priority"]
        if not workload.name:
            return 0
        positions = self._sorted.get((workload, priority))
        if positions is None:
            pods = self._pods.get(workload, ())
            positions = sorted(seq for level, seq in pods if level <= priority)
            self._sorted[workload, priority] = positions
        return len(positions) - bisect_right(positions, came)


def overtaken_by_own(
    ask: Callable[..., Sequence[Mapping[Any, Any]]], uids: Sequence[str]
) -> dict[str, int]:
    """Uid → how many later pods of its workload were placed and are still there, of the first
    MOST_SHOWN pods."""
    if not uids:
        return {}
    named = f"{{{','.join(uids[:MOST_SHOWN])}}}"
    placed = PlacedOfWorkloads(ask(_PLACED, uids=named))
    shown = ask(_SHOWN, uids=named)
    return {row["uid"]: placed.later(row, row["came"]) for row in shown if row["came"] is not None}


def _workload(row: Mapping[Any, Any]) -> _Workload:
    return _Workload(row["namespace"], row["owner_kind"], row["owner_name"])
