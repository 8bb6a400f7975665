"""What happened to the workloads whose pods were evicted: which pods of the same controllers came
after each preemption, and where these are.

A log does not say which pod replaces which. Of a controller it says what came later, a replacement
or more of them, and that is enough to see whether the work goes on.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from eventsched.questions.findings.finding_answers import VictimWorkload
from eventsched.questions.streams import LoggedStream

MOST_LATER = 20_000
"""Later pods that are looked at for one answer, those that came first."""

_LATER = f"""
SELECT n.seq, n.namespace, n.owner_kind, n.owner_name, n.name, n.node
FROM eventsched_log.pod_now n
JOIN (SELECT DISTINCT * FROM unnest(CAST(:namespaces AS text[]), CAST(:kinds AS text[]),
    CAST(:names AS text[])) AS o (namespace, kind, name)) w
  ON w.namespace = n.namespace AND w.kind = n.owner_kind AND w.name = n.owner_name
WHERE n.stream = :s AND n.seq > :low ORDER BY n.seq LIMIT {MOST_LATER}
"""


class VictimOwner(NamedTuple):
    """The controller of a victim; ``kind`` and ``name`` are "" if it has none."""

    namespace: str
    kind: str
    name: str


def victim_workloads(
    stream: LoggedStream, owners: Mapping[int, Sequence[VictimOwner]]
) -> dict[int, list[VictimWorkload]]:
    """By the position of a preemption the controllers of its victims, given as one for each victim.
    Raises UnavailableError."""
    named = sorted({owner for each in owners.values() for owner in each if owner.name})
    later: dict[VictimOwner, list[Any]] = {}
    if named:
        namespaces, kinds, names = zip(*named, strict=True)
        rows = stream.rows.all(
            _LATER, namespaces=namespaces, kinds=kinds, names=names, low=min(owners)
        )
        for row in rows:
            owner = VictimOwner(row["namespace"], row["owner_kind"], row["owner_name"])
            later.setdefault(owner, []).append(row)
    seen = {owner: _LaterPods(rows) for owner, rows in later.items()}
    return {
        position: [
            _workload(owner, victims, position, seen.get(owner, _NONE))
            for owner, victims in Counter(each).items()
        ]
        for position, each in owners.items()
    }


class _LaterPods:
    """The pods of a controller, in the order in which they came."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows
        self._positions = [row["seq"] for row in rows]
        self._placed = [0, *accumulate(bool(row["node"]) for row in rows)]

    def after(self, position: int) -> tuple[int, int, Any]:
        """How many came after a position, how many of these have a node, and the first one."""
        place = bisect_right(self._positions, position)
        first = self.rows[place] if place < len(self.rows) else None
        return len(self.rows) - place, self._placed[-1] - self._placed[place], first


_NONE = _LaterPods(())


def _workload(owner: VictimOwner, victims: int, position: int, later: _LaterPods) -> VictimWorkload:
    came, placed, first = later.after(position)
    return VictimWorkload(
        namespace=owner.namespace,
        kind=owner.kind or None,
        name=owner.name or None,
        victims=victims,
        came=came,
        placed=placed,
        first=None if first is None else first["name"],
        first_node=None if first is None else first["node"] or None,
    )
