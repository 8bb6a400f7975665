"""The pods of a Deployment, Job or the like, grouped by why they are not on a node.

Everything comes from view ``pods_now``, which has a row for each pod that there is; the log is not
read. A pod names one controller, so a Deployment is found through its ReplicaSets: they are called
``DEPLOYMENT-HASH`` (pkg/controller/deployment/sync.go), and their pods carry the hash as
label ``pod-template-hash``. For each ReplicaSet whose name fits, the record that added its first
pod is looked up by its position: its label decides if it is there, else the form of the name's last
part does.
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
"""What a hash consists of: SafeEncodeString in apimachinery/pkg/util/rand/rand.go."""
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
    """What the argument of ``explain`` names: a workload, or a pod (``kind`` is ``Pod``).
    ``namespace`` is None if any will do, ``word`` the argument as it was given."""

    kind: str
    namespace: str | None
    name: str
    word: str

    @property
    def full_name(self) -> str:
        """``NAMESPACE/deploy/NAME``; of a pod ``NAMESPACE/NAME``."""
        short = () if self.kind == POD else (_SHORT[self.kind],)
        return "/".join((*((self.namespace,) if self.namespace else ()), *short, self.name))


@dataclass(frozen=True)
class WaitingGroup:
    """Pods of a workload that are not on a node for one reason. ``since`` (µs) is when the first of
    them came to wait. ``state`` is that of ``pods_now``, ``queued`` for all queues in which pods
    wait for an attempt; ``states`` counts them. ``plugin``, ``code`` and ``reason`` are as in
    ``pods_now``, "" if there is none. ``examples`` names the oldest."""

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
        """What would help, "" if that is not known."""
        return remedy(self.plugin, self.reason.split(", ")) if self.state == "queued" else ""


@dataclass(frozen=True)
class Workload:
    """A workload's pods. ``owners`` are the controllers that the pods name, ``nodes`` how many pods
    each node has, the most first."""

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
        """All of its pods."""
        return self.placed + sum(group.pods for group in self.groups)


def parse_target(word: str, namespace: str | None) -> ExplainTarget:
    """Reads the argument of ``explain``, as kubectl's users write it. Raises InputError."""
    *before, name = word.split("/")
    kind = POD
    if before and (len(before) > 1 or _bare(before[-1]) in (*_NAMES, *_OF_CRON)):
        kind = _kind(word, before.pop())
    if len(before) > 1:
        raise InputError("POD", f"{word} has too many parts", "write NAMESPACE/deploy/NAME")
    if before and namespace not in (None, before[0]):
        raise InputError(
            "--namespace", f"is {namespace}, and {word} names {before[0]}", "leave one of them out"
        )
    return ExplainTarget(kind, before[0] if before else namespace, name, word)


def _bare(kind: str) -> str:
    """Without the API group that ``kubectl get -o name`` prints: ``deployment.apps``."""
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
        raise InputError("POD", f"{word}: {short} is no kind of workload", f"there are {known}")
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


def find_workload(reader: Reader, asked: ExplainTarget) -> Workload:
    """The workload that is asked for. Raises NoPodError if no pod of it is known, and InputError if
    several namespaces have one of that name."""
    found = _owners(reader, asked)
    if not found:
        raise NoPodError(
            "POD",
            f"there is no pod of {asked.kind} {asked.full_name} in stream {reader.stream}",
            _near(reader, asked),
        )
    if len(found) > 1:
        names = sorted(asked._replace(namespace=each).full_name for each in found)
        raise InputError(
            "POD",
            f"{asked.word} is in {len(names)} namespaces",
            f"name one: {', '.join(names[:9])}",
        )
    [(namespace, owners)] = found.items()
    values: dict[str, Any] = {
        "stream": reader.stream, "namespace": namespace, "owners": owners,
        "kind": _owner_kind(asked.kind),
    }  # fmt: skip
    with reader.connection() as connection:
        nodes = {row.node: row.pods for row in connection.execute(text(_PLACED), values)}
        groups = tuple(
            _group(namespace, row._mapping) for row in connection.execute(text(_WAITING), values)
        )
    return Workload(asked.kind, namespace, asked.name, tuple(owners), nodes, groups)


def _group(namespace: str, row: Any) -> WaitingGroup:
    queues = ("active", "backoff", "unschedulable")
    states = {name: row[name] for name in queues if row[name]} or {row["state"]: row["pods"]}
    return WaitingGroup(
        row["pods"], row["state"], states, row["is_tried"], row["plugin"] or "", row["code"] or "",
        row["reason"] or "", row["since"], row["deleting"],
        tuple(f"{namespace}/{name}" for name in row["examples"]),
    )  # fmt: skip


def _owner_kind(kind: str) -> str:
    """The kind that the pods of such a workload name."""
    return REPLICA_SET if kind == DEPLOYMENT else kind


def _owners(reader: Reader, asked: ExplainTarget) -> dict[str, list[str]]:
    """The names of the controllers of a workload's pods, by namespace."""
    is_deployment = asked.kind == DEPLOYMENT
    rows = reader.rows(
        _FIND, stream=reader.stream, kind=_owner_kind(asked.kind), namespace=asked.namespace,
        name=asked.name, is_prefix=is_deployment,
    )  # fmt: skip
    if is_deployment:
        rows = [row for row in rows if deployment_of(row["owner_name"]) == asked.name]
        added = StoredEvidence(reader).records_at(row["seq"] for row in rows)
        rows = [
            row
            for row in rows
            if deployment_of(row["owner_name"], _hash_in(added[row["seq"]].record)) == asked.name
        ]
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["namespace"], []).append(row["owner_name"])
    return found


def deployment_of(replica_set: str, template_hash: str = "") -> str:
    """The Deployment that a ReplicaSet of that name is of, "" if it is of none. ``template_hash``
    is what its pods have as label; without one the last part of the name has to look like one."""
    name, _, last = replica_set.rpartition("-")
    fits = last == template_hash if template_hash else _HASH.fullmatch(last)
    return name if fits else ""


def _hash_in(record: records.AnyRecord) -> str:
    return record.pod.labels.get(_HASH_LABEL, "") if isinstance(record, records.PodAdded) else ""


def _near(reader: Reader, asked: ExplainTarget) -> str:
    """What may have been meant: that name of another kind or namespace, or one that is near."""
    known: list[ExplainTarget] = []
    for row in reader.rows(_ALL, stream=reader.stream, kinds=list(_SHORT)):
        names = {row["owner_kind"]: row["owner_name"]}
        if row["owner_kind"] == REPLICA_SET and (name := deployment_of(row["owner_name"])):
            names[DEPLOYMENT] = name
        known += (ExplainTarget(kind, row["namespace"], name, "") for kind, name in names.items())
    same_name = [each for each in known if each.name == asked.name]
    same_kind = [each for each in known if each.kind == asked.kind]
    both = [each for each in same_name if each.kind == asked.kind]
    likely = both or same_name or same_kind or known
    if not likely:
        return "no workload has pods now: they have ended, or it is scaled to 0"
    return suggestion(asked.full_name, sorted({each.full_name for each in likely}))
