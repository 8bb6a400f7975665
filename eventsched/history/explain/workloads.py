"""The pods of a workload (a Deployment, Job, …), grouped by the reason why they are not on a node.

Reads view ``pods_now``, which has one row for each existing pod, and not the log. A pod names only
one controller, so a Deployment is found through its ReplicaSets: they are called
``DEPLOYMENT-HASH`` (pkg/controller/deployment/sync.go), and their pods carry the hash as label
``pod-template-hash``. For each ReplicaSet whose name fits, the record that added its first pod is
looked up by position. Its label decides; without the label, the form of the name's last part does.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import text

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.eventlog.postgres.reader import Reader
from eventsched.history.explain.explanation import NoPodError, suggestion
from eventsched.history.explain.remedies import remedy
from eventsched.history.explain.stored_evidence import StoredEvidence

DEPLOYMENT, REPLICA_SET = "Deployment", "ReplicaSet"
POD = "Pod"
_HASH_LABEL = "pod-template-hash"
_HASH = re.compile(r"[bcdfghjklmnpqrstvwxz2456789]{1,10}")
"""The characters of a hash: SafeEncodeString in apimachinery/pkg/util/rand/rand.go."""
_SHORT = {
    DEPLOYMENT: "deploy",
    "Job": "job",
    REPLICA_SET: "rs",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
}
_NAMES = {
    **{short: kind for kind, short in _SHORT.items()},
    **{kind.lower(): kind for kind in (*_SHORT, POD)},
    **{f"{kind.lower()}s": kind for kind in (*_SHORT, POD)},
    "po": POD,
}
_OF_CRON = ("cj", "cronjob", "cronjobs")
_EXAMPLES = 3


class ExplainTarget(NamedTuple):
    """The argument of ``explain``, parsed: a workload, or a pod (``kind`` is ``Pod``).
    ``namespace`` is None for any; ``word`` is the argument as the user wrote it."""

    kind: str
    namespace: str | None
    name: str
    word: str

    @property
    def full_name(self) -> str:
        """``NAMESPACE/deploy/NAME``; for a pod ``NAMESPACE/NAME``."""
        short = () if self.kind == POD else (_SHORT[self.kind],)
        return "/".join((*((self.namespace,) if self.namespace else ()), *short, self.name))


@dataclass(frozen=True)
class WaitingGroup:
    """Pods of a workload that are not on a node for the same reason. ``since`` (µs): when the first
    of them began to wait. ``state``: as in ``pods_now``, but ``queued`` for all queues in which
    pods wait for an attempt; ``states`` counts the pods by queue. ``plugin``, ``code`` and
    ``reason``: as in ``pods_now``, "" if there is none. ``examples``: the names of the oldest."""

    pods: int
    state: str
    states: dict[str, int]
    is_tried: bool
    plugin: str
    code: str
    reason: str
    since: int
    deleting: int
    examples: tuple[str, ...]

    @property
    def helps(self) -> str:
        """What would help; "" if that is not known."""
        return remedy(self.plugin, self.reason.split(", ")) if self.state == "queued" else ""


@dataclass(frozen=True)
class Workload:
    """A workload's pods. ``owners`` are the controllers that the pods name; ``nodes`` maps nodes to
    their numbers of pods, the largest first."""

    kind: str
    namespace: str
    name: str
    owners: tuple[str, ...]
    nodes: dict[str, int] = field(default_factory=dict)
    groups: tuple[WaitingGroup, ...] = ()

    @property
    def placed(self) -> int:
        """Pods on nodes."""
        return sum(self.nodes.values())

    @property
    def pods(self) -> int:
        """All pods."""
        return self.placed + sum(group.pods for group in self.groups)


def parse_target(word: str, namespace: str | None) -> ExplainTarget:
    """Parses the argument of ``explain``, in kubectl's notation. Raises InputError."""
    *prefix, name = word.split("/")
    kind = POD
    if prefix and (len(prefix) > 1 or _bare(prefix[-1]) in (*_NAMES, *_OF_CRON)):
        kind = _kind(word, prefix.pop())
    if len(prefix) > 1:
        raise InputError("POD", f"{word} has too many parts", "write NAMESPACE/deploy/NAME")
    if prefix and namespace not in (None, prefix[0]):
        raise InputError(
            "--namespace", f"is {namespace}, and {word} names {prefix[0]}", "leave one of them out"
        )
    return ExplainTarget(kind, prefix[0] if prefix else namespace, name, word)


def _bare(kind: str) -> str:
    """The kind without the API group that ``kubectl get -o name`` prints (``deployment.apps``)."""
    return kind.lower().removesuffix(".apps").removesuffix(".batch")


def _kind(word: str, short: str) -> str:
    if _bare(short) in _OF_CRON:
        raise InputError(
            "POD",
            f"{word}: pods belong to the jobs of a cron job",
            "name one of its jobs: job/NAME",
        )
    if (kind := _NAMES.get(_bare(short))) is None:
        known = ", ".join((*_SHORT.values(), "pod"))
        raise InputError("POD", f"{word}: {short} is not a kind of workload", f"there are {known}")
    return kind


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
stream = :stream AND namespace = :namespace AND owner_kind = :kind AND owner_name = ANY(:owners)
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
       (array_agg(pod ORDER BY began, pod))[1:{_EXAMPLES}] AS examples
FROM (
    SELECT pod, deleting, attempts > 0 AS is_tried,
           state = 'active' AS active, state = 'backoff' AS backoff,
           state = 'unschedulable' AS unschedulable,
           CASE WHEN is_queued THEN 'queued' ELSE state END AS state,
           CASE WHEN is_queued THEN coalesce(waiting_since, since) ELSE since END AS began,
           CASE WHEN is_queued THEN plugin END AS plugin,
           CASE WHEN is_queued THEN code END AS code,
           CASE WHEN is_queued THEN reason END AS reason
    FROM eventsched.pods_now
    CROSS JOIN LATERAL (SELECT state IN ('active', 'backoff', 'unschedulable') AS is_queued) q
    WHERE {_ITS_PODS} AND state <> 'bound'
) p
GROUP BY 1, 2, 3, 4, 5 ORDER BY pods DESC, since, reason
"""


def find_workload(reader: Reader, target: ExplainTarget) -> Workload:
    """The workload that ``target`` names. Raises NoPodError if it has no pods, and InputError if
    several namespaces have a workload of that name."""
    owners_by_namespace = _owners(reader, target)
    if not owners_by_namespace:
        raise NoPodError(
            "POD",
            f"there is no pod of {target.kind} {target.full_name} in stream {reader.stream}",
            _suggest(reader, target),
        )
    if len(owners_by_namespace) > 1:
        names = sorted(target._replace(namespace=name).full_name for name in owners_by_namespace)
        raise InputError(
            "POD",
            f"{target.word} is in {len(names)} namespaces",
            f"name one: {', '.join(names[:9])}",
        )
    [(namespace, owners)] = owners_by_namespace.items()
    values: dict[str, Any] = {
        "stream": reader.stream, "namespace": namespace, "owners": owners,
        "kind": _owner_kind(target.kind),
    }  # fmt: skip
    with reader.connection() as connection:
        nodes = {row.node: row.pods for row in connection.execute(text(_PLACED), values)}
        groups = tuple(
            _group(namespace, row._mapping) for row in connection.execute(text(_WAITING), values)
        )
    return Workload(target.kind, namespace, target.name, tuple(owners), nodes, groups)


def _group(namespace: str, row: Any) -> WaitingGroup:
    queues = ("active", "backoff", "unschedulable")
    states = {name: row[name] for name in queues if row[name]} or {row["state"]: row["pods"]}
    return WaitingGroup(
        row["pods"], row["state"], states, row["is_tried"], row["plugin"] or "", row["code"] or "",
        row["reason"] or "", row["since"], row["deleting"],
        tuple(f"{namespace}/{name}" for name in row["examples"]),
    )  # fmt: skip


def _owner_kind(kind: str) -> str:
    """The kind of the controller that the pods of such a workload name."""
    return REPLICA_SET if kind == DEPLOYMENT else kind


def _owners(reader: Reader, target: ExplainTarget) -> dict[str, list[str]]:
    """The names of the controllers of a workload's pods, by namespace."""
    is_deployment = target.kind == DEPLOYMENT
    rows = reader.rows(
        _FIND, stream=reader.stream, kind=_owner_kind(target.kind), namespace=target.namespace,
        name=target.name, is_prefix=is_deployment,
    )  # fmt: skip
    if is_deployment:
        rows = [row for row in rows if deployment_of(row["owner_name"]) == target.name]
        added = StoredEvidence(reader).records_at(row["seq"] for row in rows)
        rows = [
            row
            for row in rows
            if deployment_of(row["owner_name"], _hash_in(added[row["seq"]].record)) == target.name
        ]
    owners: dict[str, list[str]] = {}
    for row in rows:
        owners.setdefault(row["namespace"], []).append(row["owner_name"])
    return owners


def deployment_of(replica_set: str, template_hash: str = "") -> str:
    """The name of a ReplicaSet's Deployment; "" if it belongs to none. ``template_hash`` is the
    label of its pods; without it, the last part of the name has to look like a hash."""
    name, _, last = replica_set.rpartition("-")
    fits = last == template_hash if template_hash else _HASH.fullmatch(last)
    return name if fits else ""


def _hash_in(record: records.AnyRecord) -> str:
    return record.pod.labels.get(_HASH_LABEL, "") if isinstance(record, records.PodAdded) else ""


def _suggest(reader: Reader, target: ExplainTarget) -> str:
    """The remedy for an unknown workload: the same name of another kind or namespace, or a similar
    name."""
    known: list[ExplainTarget] = []
    for row in reader.rows(_ALL, stream=reader.stream, kinds=list(_SHORT)):
        names = {row["owner_kind"]: row["owner_name"]}
        if row["owner_kind"] == REPLICA_SET and (name := deployment_of(row["owner_name"])):
            names[DEPLOYMENT] = name
        known += (ExplainTarget(kind, row["namespace"], name, "") for kind, name in names.items())
    same_name = [workload for workload in known if workload.name == target.name]
    same_kind = [workload for workload in known if workload.kind == target.kind]
    both = [workload for workload in same_name if workload.kind == target.kind]
    likely = both or same_name or same_kind or known
    if not likely:
        return "no workload has pods now: they have ended, or it is scaled to 0"
    return suggestion(target.full_name, sorted({workload.full_name for workload in likely}))
