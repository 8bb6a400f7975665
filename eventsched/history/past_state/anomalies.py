"""Anomalies of a log in a database: pods that starve, pods that no node would take, workloads and
nominations that go back and forth, and preemptions that were for nothing. The views of schema 0020
and 0021 define them; docs/sql.md describes them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from eventsched.history.dominant_refusal import rank_sql
from eventsched.history.past_state.own_overtaking import overtaken_by_own

Ask = Callable[..., Sequence[Mapping[Any, Any]]]
"""Asks a query with named parameters; ``:s`` is the stream's number."""

STARVING, UNPLACEABLE, EVICTED, NOMINATED, FOR_NOTHING = (
    "starving", "unplaceable", "evicted again", "nominated again", "preempted for nothing",
)  # fmt: skip
KINDS = STARVING, UNPLACEABLE, EVICTED, NOMINATED, FOR_NOTHING
POD = "Pod"
"""The kind of the owner of pods without a controller: themselves."""
LOOKED_AT = 1_000
"""Victims of preemptions that are looked at, the newest, as the view ping_pongs does."""
LONG_WAIT_MINUTES, AGAIN_MINUTES, AGAIN_TIMES = 10, 60, 3
"""The thresholds of the views: from when a wait is long, and how often within how long is again."""
RULES = {
    STARVING: f"has waited {LONG_WAIT_MINUTES} minutes or longer for a node that other pods fill, "
    "while later pods of its priority or less, whatever they request, were placed and are still "
    "there",
    UNPLACEABLE: f"has waited {LONG_WAIT_MINUTES} minutes or longer, and at its last attempt no "
    "node would have taken it even without other pods",
    EVICTED: f"pods of one workload had to leave {AGAIN_TIMES} times within {AGAIN_MINUTES} "
    f"minutes, each added after the one before had left; among the last {LOOKED_AT:,} victims",
    NOMINATED: f"preempted {AGAIN_TIMES} times within {AGAIN_MINUTES} minutes without finding a "
    f"node in between; among the last {LOOKED_AT:,} victims",
    FOR_NOTHING: "had other pods evicted and then did not use the room. For example: web-1 has "
    "batch-7 evicted from node-3, batch-7 leaves, and then web-1 is placed on node-5, or deleted; "
    f"among the last {LOOKED_AT:,} victims",
}
"""Kind → when the views count something as one, in words. docs/sql.md has which victims count."""
NEXT_STEPS = {
    STARVING: "give it a higher priority, or nodes that only its kind may use, or add nodes; its "
    "page says what is lacking",
    UNPLACEABLE: "take the pod's own next step, which its page and eventsched explain name: "
    "another request, selector or toleration, or other nodes; waiting does not help",
    EVICTED: "see which pods evict it; if they should not, change the priority of either side, "
    "else add room for both",
    NOMINATED: "see in its attempts what refuses it on the node after the victims have left, or "
    "which pod takes the room first; a higher priority keeps that room for it",
    FOR_NOTHING: "none if it is rare, since the pod found room elsewhere sooner; if it is "
    "frequent, shorten the victims' grace periods or protect them by a PodDisruptionBudget",
}
"""Kind → what to do about it, in words."""

_FLOOR = """
SELECT coalesce(min(seq), 0) AS floor FROM (
    SELECT seq FROM eventsched_log.victim WHERE stream = :s AND seq < :end
    ORDER BY seq DESC LIMIT :most
) AS newest
"""
# The views have the refusal of most nodes; shown is the one to name first.
_LONG_WAITS = f"""
SELECT v.*, v.waiting_since AS since, coalesce(named.plugin, v.plugin) AS first_plugin,
       coalesce(named.reason, v.reason) AS first_reason
FROM (SELECT v.*, count(*) OVER () AS total FROM eventsched.{{view}} v
      WHERE v.stream = :stream{{visible}}
      ORDER BY v.waiting_since, v.seq LIMIT :limit) AS v
LEFT JOIN LATERAL (
    SELECT w.plugin, array_to_string(w.reasons, ', ') AS reason FROM eventsched_log.refusal r
    JOIN eventsched_log.verdict w ON w.stream = r.stream AND w.number = r.number
    WHERE r.stream = :s AND r.seq = v.decided_seq
    ORDER BY {rank_sql("w.plugin", "w.code")}, r.nodes DESC, r.number LIMIT 1
) AS named ON true
ORDER BY v.waiting_since, v.seq
"""
_LONG_WAIT_VIEWS = {STARVING: "starving_pods", UNPLACEABLE: "unplaceable_pods"}
_PING_PONGS = """
SELECT * FROM (
    SELECT v.*, row_number() OVER (PARTITION BY v.kind ORDER BY v.seq DESC) AS place,
           count(*) OVER (PARTITION BY v.kind) AS total
    FROM eventsched.ping_pongs v WHERE v.stream = :stream{visible}
) newest WHERE place <= :limit ORDER BY kind, seq DESC
"""
_FOR_NOTHING = """
SELECT v.*, v.at AS since, n.owner_kind, n.owner_name, count(*) OVER () AS total
FROM eventsched.preempted_for_nothing v
LEFT JOIN eventsched_log.pod_now n ON n.stream = :s AND n.uid = v.pod_uid
WHERE v.stream = :stream AND v.seq >= :floor AND v.seq < :end AND v.ended_seq < :end{visible}
ORDER BY v.seq DESC LIMIT :limit
"""
_LAST = 2**62
"""Later than all positions."""
_FACTS = {
    STARVING: (
        "priority", "state", "attempts", "overtaken_by", "plugin", "reason", "owner_kind",
        "owner_name",
    ),
    UNPLACEABLE: (
        "priority", "state", "attempts", "plugin", "reason", "owner_kind", "owner_name",
    ),
    EVICTED: ("owner_kind", "owner_name", "times"),
    NOMINATED: ("times", "owner_kind", "owner_name"),
    FOR_NOTHING: (
        "node", "victims", "outcome", "landed_on", "ended_seq", "owner_kind", "owner_name",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Anomaly:
    """One anomaly: its ``kind`` (KINDS), the pod, since when (µs), a position of the log (of the
    pod's arrival if it waits, else of the last preemption), and what else is known."""

    kind: str
    namespace: str
    pod: str
    uid: str
    since: int
    seq: int
    facts: Mapping[str, Any]

    @property
    def subject(self) -> str:
        """What it is about: ``namespace/pod``; for evictions of a workload
        ``namespace/ReplicaSet/name``, because its pods have other names each time."""
        kind = self.facts.get("owner_kind", POD)
        if self.kind != EVICTED or kind == POD:
            return f"{self.namespace}/{self.pod}"
        return f"{self.namespace}/{kind}/{self.facts['owner_name']}"

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        facts = self.facts
        match self.kind:
            case "starving":
                later = f"{facts['overtaken_by']} later pods of its priority or less"
                placed = f"{later}, whatever they request, were placed"
                if own := facts["overtaken_by_own"]:
                    pods = "pod" if own == 1 else "pods"
                    placed = f"{own} later {pods} of the same {facts['owner_kind']}; {placed}"
                refusal = _refusal(facts).removeprefix(": ")
                return f"{placed}, but it was refused by {refusal}" if refusal else placed
            case "unplaceable":
                return f"no node would take it, even without other pods{_refusal(facts)}"
            case "evicted again":
                owner = f"{facts['owner_kind']}/{facts['owner_name']}"
                often = f"pods of {owner} evicted {facts['times']} times within an hour"
                return often if facts["owner_kind"] == POD else f"{often}, the last one {self.pod}"
            case "nominated again":
                return f"nominated {facts['times']} times within an hour, without finding a node"
        end = f"went to {facts['landed_on']}" if facts["landed_on"] else "was deleted"
        return f"{facts['victims']} left {facts['node']} for it, and it {end}"


class StoredAnomalies(NamedTuple):
    """Anomalies of a log, and how many there are of each kind that was looked for in ``totals``."""

    found: list[Anomaly]
    totals: Mapping[str, int]


def stored_anomalies(
    ask: Ask,
    stream: str,
    limit: int,
    visible: str = "",
    values: Mapping[str, Any] | None = None,
) -> StoredAnomalies:
    """The anomalies of a stream, at most ``limit`` of each kind: the pods that wait longest, then
    the newest preemptions. ``visible`` is a condition of SQL on ``v.namespace``, with ``values``.
    """
    named = {"stream": stream, "limit": limit, **(values or {})}
    rows = [
        (kind, row)
        for kind, view in _LONG_WAIT_VIEWS.items()
        for row in ask(_LONG_WAITS.format(view=view, visible=visible), **named)
    ]
    kinds = {"evicted": EVICTED, "nominated": NOMINATED}
    ping_pongs = ask(_PING_PONGS.format(visible=visible), **named)
    rows += [(kinds[row["kind"]], row) for row in ping_pongs]
    totals = dict.fromkeys(KINDS, 0) | {kind: row["total"] for kind, row in rows}
    wasted = wasted_preemptions(ask, stream, limit, visible, values)
    own = overtaken_by_own(ask, [str(row["pod_uid"]) for kind, row in rows if kind == STARVING])
    found = [_anomaly(kind, row, own) for kind, row in rows]
    return StoredAnomalies([*found, *wasted.found], totals | dict(wasted.totals))


def wasted_preemptions(
    ask: Ask,
    stream: str,
    limit: int,
    visible: str = "",
    values: Mapping[str, Any] | None = None,
    end: int = _LAST,
) -> StoredAnomalies:
    """The preemptions that were for nothing, as far as records before position ``end`` say it, the
    newest first; the rest as stored_anomalies."""
    floor = ask(_FLOOR, most=LOOKED_AT, end=end)[0]["floor"]
    named = {"stream": stream, "limit": limit, "floor": floor, "end": end, **(values or {})}
    rows = ask(_FOR_NOTHING.format(visible=visible), **named)
    total = rows[0]["total"] if rows else 0
    return StoredAnomalies([_anomaly(FOR_NOTHING, row) for row in rows], {FOR_NOTHING: total})


def _refusal(facts: Mapping[str, Any]) -> str:
    """The refusal of the last attempt that is named first."""
    return f": {facts['plugin']}: {facts['reason']}" if facts["plugin"] else ""


def _anomaly(
    kind: str, row: Mapping[Any, Any], own: Mapping[str, int] = MappingProxyType({})
) -> Anomaly:
    """The anomaly of a row of its view. ``own``: see overtaken_by_own."""
    facts = {name: row[name] for name in _FACTS[kind]}
    if kind == STARVING:
        facts["overtaken_by_own"] = own.get(str(row["pod_uid"]), 0)
    if kind in _LONG_WAIT_VIEWS:
        facts |= {name: row[f"first_{name}"] for name in ("plugin", "reason")}
    return Anomaly(
        kind, row["namespace"], row["pod"], str(row["pod_uid"]),
        round(row["since"].timestamp() * 1e6), row["seq"], facts,
    )  # fmt: skip
