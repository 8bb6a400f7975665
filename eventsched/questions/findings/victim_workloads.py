"""What happened to the workloads whose pods were evicted: which pods of the same controllers came
after each preemption, and where these are.

A log does not say which pod replaces which. Of a controller it says what came later, a replacement
or more of them, and that is enough to see whether the work goes on.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from eventsched.history.evictor_outcomes import FOUND_NODE
from eventsched.questions.findings.finding_answers import VictimWorkload
from eventsched.questions.pods.gone_owners import MOST_READ, owners_at_arrival
from eventsched.questions.streams import LoggedStream

MOST_LATER = 20_000
"""Later pods that exist, and attempts after the preemptions, that are looked at for one answer:
those that came first."""

_FOUND = ", ".join(f"'{outcome}'" for outcome in FOUND_NODE)
_EXISTING = """
SELECT CAST(n.uid AS text) AS uid, n.seq, n.namespace, n.owner_kind, n.owner_name, n.name, n.node,
       n.decided_seq
FROM eventsched_log.pod_now n
JOIN (SELECT DISTINCT * FROM unnest(CAST(:namespaces AS text[]), CAST(:kinds AS text[]),
    CAST(:names AS text[])) AS o (namespace, kind, name)) w
  ON w.namespace = n.namespace AND w.kind = n.owner_kind AND w.name = n.owner_name
WHERE n.stream = :s AND n.seq > :low AND n.seq < :end ORDER BY n.seq LIMIT :most
"""
# By their attempts: table pod has no index by position. Who was never tried is left out.
_GONE = """
SELECT CAST(p.uid AS text) AS uid, p.seq, p.namespace, p.name
FROM (SELECT DISTINCT f.pod FROM (
        SELECT d.pod FROM eventsched_log.decision d
        WHERE d.stream = :s AND d.seq > :low AND d.seq < :end ORDER BY d.seq LIMIT :most
    ) f) tried
JOIN eventsched_log.pod p ON p.stream = :s AND p.uid = tried.pod
LEFT JOIN eventsched_log.pod_now n ON n.stream = :s AND n.uid = p.uid
WHERE p.seq > :low AND n.uid IS NULL AND p.namespace = ANY(CAST(:namespaces AS text[]))
ORDER BY p.seq LIMIT :most_read
"""
_BEYOND = """
SELECT FROM eventsched_log.decision d
WHERE d.stream = :s AND d.seq > :low AND d.seq < :end ORDER BY d.seq OFFSET :most LIMIT 1
"""
"""Whether there are attempts that were not looked at."""
_PLACED = f"""
SELECT DISTINCT ON (d.pod) CAST(d.pod AS text) AS uid, d.node FROM eventsched_log.decision d
WHERE d.stream = :s AND d.pod = ANY(CAST(:uids AS uuid[])) AND d.seq < :end
  AND d.outcome IN ({_FOUND})
ORDER BY d.pod, d.seq DESC
"""
_ENDED = """
SELECT DISTINCT CAST(e.pod AS text) AS uid FROM eventsched_log.pod_end e
WHERE e.stream = :s AND e.pod = ANY(CAST(:uids AS uuid[])) AND e.seq < :end
"""


class LaterPod(NamedTuple):
    """A pod that came after a preemption; ``node`` is "" if it was on none."""

    position: int
    name: str
    node: str
    is_gone: bool


class VictimOwner(NamedTuple):
    """The controller of a victim; ``kind`` and ``name`` are "" if it has none."""

    namespace: str
    kind: str
    name: str


def victim_workloads(
    stream: LoggedStream, owners: Mapping[int, Sequence[VictimOwner]], end: int | None
) -> dict[int, list[VictimWorkload]]:
    """By the position of a preemption the controllers of its victims, given as one for each victim;
    what came of them before position ``end``, by default up to now. Raises UnavailableError."""
    named = {owner for each in owners.values() for owner in each if owner.name}
    later, is_cut = _later_pods(stream, sorted(named), min(owners), end) if named else ({}, False)
    return {
        position: [
            _workload(owner, victims, position, later.get(owner, ()), bool(owner.name) and is_cut)
            for owner, victims in Counter(each).items()
        ]
        for position, each in owners.items()
    }


def _later_pods(
    stream: LoggedStream, named: Sequence[VictimOwner], low: int, end: int | None
) -> tuple[dict[VictimOwner, list[LaterPod]], bool]:
    """The pods of the controllers that came after a position, in the order in which they came; and
    whether there may be more than were looked at."""
    bounds = {"low": low, "end": stream.rows.head if end is None else end}
    most = {"most": MOST_LATER}
    namespaces, kinds, names = zip(*named, strict=True)
    rows = [
        dict(row)
        for row in stream.rows.all(
            _EXISTING, namespaces=namespaces, kinds=kinds, names=names, **bounds, **most
        )
    ]
    left = stream.rows.all(
        _GONE, namespaces=tuple(set(namespaces)), most_read=MOST_READ, **bounds, **most
    )
    is_cut = len(rows) == MOST_LATER or len(left) == MOST_READ
    is_cut = is_cut or stream.rows.one(_BEYOND, **bounds, **most) is not None
    arrived = owners_at_arrival(stream, (row["seq"] for row in left))
    gone = [
        {**row, "owner_kind": owner.kind, "owner_name": owner.name, "decided_seq": row["seq"]}
        for row in left
        if (owner := arrived.get(row["seq"])) is not None
        and VictimOwner(row["namespace"], owner.kind or "", owner.name or "") in named
    ]
    ended = {row["uid"] for row in gone}
    uids = _array(row["uid"] for row in (gone if end is None else rows + gone))
    placed = stream.rows.all(_PLACED, uids=uids, end=bounds["end"])
    nodes = {row["uid"]: row["node"] for row in placed}
    if end is not None:
        found = stream.rows.all(_ENDED, uids=_array(ended), end=end)
        ended = {row["uid"] for row in found}
    later: dict[VictimOwner, list[LaterPod]] = {}
    for row in sorted(rows + gone, key=lambda each: each["seq"]):
        whose = VictimOwner(row["namespace"], row["owner_kind"], row["owner_name"])
        node = nodes.get(row["uid"])
        if node is None and (end is None or row["decided_seq"] is None):  # it may have come with it
            node = row.get("node")
        pod = LaterPod(row["seq"], row["name"], node or "", row["uid"] in ended)
        later.setdefault(whose, []).append(pod)
    return later, is_cut


def _array(uids: Iterable[str]) -> str:
    """Uids as the text of an array."""
    return f"{{{','.join(uids)}}}"


def _workload(
    owner: VictimOwner, victims: int, position: int, later: Sequence[LaterPod], is_cut: bool
) -> VictimWorkload:
    came = later[bisect_right(later, position, key=lambda pod: pod.position) :]
    first = came[0] if came else None
    return VictimWorkload(
        namespace=owner.namespace,
        kind=owner.kind or None,
        name=owner.name or None,
        victims=victims,
        came=len(came),
        placed=sum(pod.node != "" for pod in came),
        gone=sum(pod.is_gone for pod in came),
        at_least=is_cut,
        first=None if first is None else first.name,
        first_node=None if first is None else first.node or None,
    )
