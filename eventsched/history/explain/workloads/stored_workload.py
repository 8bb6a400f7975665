"""The pods of a workload in a database: view ``pods_now`` has one row for each existing pod.

The log is not read, except for the record that added the first pod of a ReplicaSet whose name fits.
"""

from dataclasses import replace
from typing import Any

from sqlalchemy import text

from eventsched.domain.records import PodUnreserved
from eventsched.domain.workload_kinds import DEPLOYMENT, WORKLOADS
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.dominant_refusal import rank_sql
from eventsched.history.explain.evidence import uid_key
from eventsched.history.explain.stored_evidence import StoredEvidence
from eventsched.history.explain.workloads.pod_group import GroupMembers
from eventsched.history.explain.workloads.workload import (
    EXAMPLES,
    ExplainTarget,
    OwnerName,
    WaitingGroup,
    Workload,
    deployment_of,
    labelled_hash,
    owner_kind,
    require_one,
)

_FIND = """
SELECT namespace, owner_name, min(seq) AS seq FROM eventsched.pods_now
WHERE stream = :stream AND owner_kind = :kind
  AND (CAST(:namespace AS text) IS NULL OR namespace = :namespace)
  AND (owner_name = :name OR :is_prefix AND starts_with(owner_name, :name || '-'))
GROUP BY namespace, owner_name ORDER BY seq
"""

_ALL = """
SELECT DISTINCT namespace, owner_kind, owner_name FROM eventsched.pods_now
WHERE stream = :stream AND owner_kind = ANY(:kinds)
"""

_ITS_PODS = """
stream = :stream AND namespace = :namespace AND (
    owner_kind = :kind AND owner_name = ANY(:owners) OR pod_uid = ANY(CAST(:uids AS uuid[])))
"""

_PLACED = f"""
SELECT node, count(*) AS pods FROM eventsched.pods_now WHERE {_ITS_PODS} AND state = 'bound'
GROUP BY node ORDER BY pods DESC, node
"""

# Pods that wait in different queues for the same reason are one group.
_WAITING = f"""
SELECT p.state, p.is_tried, plugin, code, reason, count(*) AS pods,
       count(*) FILTER (WHERE active) AS active, count(*) FILTER (WHERE backoff) AS backoff,
       count(*) FILTER (WHERE unschedulable) AS unschedulable,
       count(*) FILTER (WHERE deleting) AS deleting,
       (extract(epoch FROM min(began)) * 1000000)::bigint AS since,
       (array_agg(pod ORDER BY began, pod))[1:{EXAMPLES}] AS examples
FROM (
    SELECT pod, deleting, attempts > 0 AS is_tried,
           state = 'active' AS active, state = 'backoff' AS backoff,
           state = 'unschedulable' AS unschedulable,
           CASE WHEN is_queued THEN 'queued' ELSE state END AS state,
           CASE WHEN is_queued THEN coalesce(waiting_since, since) ELSE since END AS began,
           CASE WHEN is_queued THEN coalesce(named.plugin, n.plugin) END AS plugin,
           CASE WHEN is_queued THEN coalesce(named.code, n.code) END AS code,
           CASE WHEN is_queued THEN coalesce(named.reason, n.reason) END AS reason
    FROM eventsched.pods_now n
    CROSS JOIN LATERAL (SELECT state IN ('active', 'backoff', 'unschedulable') AS is_queued) q
    LEFT JOIN LATERAL (  -- as explain names it; the view has the refusal of most nodes
        SELECT v.plugin, v.code, array_to_string(v.reasons, ', ') AS reason
        FROM eventsched_log.stream s
        JOIN eventsched_log.refusal r ON r.stream = s.id AND r.seq = n.decided_seq
        JOIN eventsched_log.verdict v ON v.stream = r.stream AND v.number = r.number
        WHERE s.name = n.stream AND is_queued AND n.code IS NOT NULL AND v.plugin <> ''
        ORDER BY {rank_sql("v.plugin", "v.code")}, r.nodes DESC, r.number LIMIT 1
    ) named ON true
    WHERE {_ITS_PODS} AND state <> 'bound'
) p
GROUP BY 1, 2, 3, 4, 5 ORDER BY pods DESC, since, reason
"""


_LAST_END = """
SELECT max(seq) AS seq FROM eventsched_log.reservation
WHERE stream = (SELECT id FROM eventsched_log.stream WHERE name = :stream)
  AND pod = CAST(:uid AS uuid)
"""


def stored_workload(
    reader: Reader, target: ExplainTarget, members: GroupMembers | None = None
) -> Workload:
    """The workload that ``target`` names, which is a pod group if there are ``members``. Raises
    NoPodError if it has no pods, and InputError if several namespaces have a workload of that
    name."""

    def known() -> list[OwnerName]:
        rows = reader.rows(_ALL, stream=reader.stream, kinds=list(WORKLOADS))
        return [(row["namespace"], row["owner_kind"], row["owner_name"]) for row in rows]

    owners: list[str] = []
    if members is None:
        namespace, owners = require_one(_owners(reader, target), target, reader.stream, known)
    else:
        namespace = members.namespace
    values: dict[str, Any] = {
        "stream": reader.stream, "namespace": namespace, "owners": owners,
        "kind": owner_kind(target.kind),
        "uids": [] if members is None else list(map(uid_key, members.pods)),
    }  # fmt: skip
    with reader.connection() as connection:
        nodes = {row.node: row.pods for row in connection.execute(text(_PLACED), values)}
        groups = tuple(
            _group(namespace, row._mapping) for row in connection.execute(text(_WAITING), values)
        )
    if members is not None:
        groups = tuple(_with_rejection(reader, group, members) for group in groups)
    return Workload(target.kind, namespace, target.name, tuple(owners), nodes, groups)


def _with_rejection(reader: Reader, group: WaitingGroup, members: GroupMembers) -> WaitingGroup:
    """The group with what took its oldest pod's reservation, which ``pods_now`` does not have: most
    often the same for all members, since they are rejected together."""
    if group.state != "queued" or not group.is_tried or group.reason:
        return group
    [uid] = [uid for uid, pod in members.pods.items() if pod.full_name == group.examples[0]]
    [row] = reader.rows(_LAST_END, stream=reader.stream, uid=uid_key(uid))
    ended = StoredEvidence(reader).records_at([row["seq"]]) if row["seq"] is not None else {}
    for stored in ended.values():
        if isinstance(record := stored.record, PodUnreserved):
            return replace(group, plugin=record.plugin, reason=record.message)
    return group


def _group(namespace: str, row: Any) -> WaitingGroup:
    queues = ("active", "backoff", "unschedulable")
    states = {name: row[name] for name in queues if row[name]} or {row["state"]: row["pods"]}
    return WaitingGroup(
        row["pods"], row["state"], states, row["is_tried"], row["plugin"] or "", row["code"] or "",
        row["reason"] or "", row["since"], row["deleting"],
        tuple(f"{namespace}/{name}" for name in row["examples"]),
    )  # fmt: skip


def _owners(reader: Reader, target: ExplainTarget) -> dict[str, list[str]]:
    """The names of the controllers of a workload's pods, by namespace."""
    is_deployment = target.kind == DEPLOYMENT
    rows = reader.rows(
        _FIND, stream=reader.stream, kind=owner_kind(target.kind), namespace=target.namespace,
        name=target.name, is_prefix=is_deployment,
    )  # fmt: skip
    if is_deployment:
        rows = [row for row in rows if deployment_of(row["owner_name"]) == target.name]
        added = StoredEvidence(reader).records_at(row["seq"] for row in rows)
        rows = [
            row
            for row in rows
            if deployment_of(row["owner_name"], labelled_hash(added[row["seq"]].record))
            == target.name
        ]
    owners: dict[str, list[str]] = {}
    for row in rows:
        owners.setdefault(row["namespace"], []).append(row["owner_name"])
    return owners
