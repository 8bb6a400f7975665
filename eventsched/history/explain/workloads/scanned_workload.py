"""The pods of a workload in a log that is in no database, such as an archive or an exported log.

The log is read once. Each pod of a controller whose name fits is followed record by record, as view
``pods_now`` has it; memory grows with the pods that exist, not with the log.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from eventsched.domain import records
from eventsched.domain.objects import Pod
from eventsched.domain.records import AnyRecord, Outcome, PodDecided
from eventsched.domain.records.verdicts import Verdict
from eventsched.domain.workload_kinds import DEPLOYMENT
from eventsched.eventlog.port import StoredLog
from eventsched.history.explain.conclusions.headline import BOUND, Headline, dominant, take
from eventsched.history.explain.explanation import NodeRefusals, refusals_of
from eventsched.history.explain.record_text import pod_of
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

_QUEUES = ("active", "backoff", "unschedulable")
_Reason = tuple[str, bool, str, str, str]
"""State (``queued`` for the queues of _QUEUES), whether it was tried, plugin, code and reason."""


@dataclass
class _FollowedPod:
    pod: Pod
    owner: OwnerName
    standing: Headline = field(default_factory=Headline)
    decided: PodDecided | None = None
    given_up: records.PodUnreserved | None = None

    def follow(self, at: int, record: AnyRecord) -> None:
        take(self.standing, at, record)
        if isinstance(record, PodDecided):
            self.decided, self.given_up = record, None
        elif isinstance(record, records.PodUnreserved):
            self.given_up = record

    def reason(self, verdicts: Mapping[int, Verdict]) -> _Reason:
        state, is_tried = self.standing.state, self.standing.attempts > 0
        if state not in _QUEUES:
            return (state, is_tried, "", "", "")
        if self.decided is None:
            return ("queued", is_tried, "", "", "")
        refused = self._refused(verdicts)
        return ("queued", is_tried, refused.plugin, refused.code, ", ".join(refused.reasons))

    def _refused(self, verdicts: Mapping[int, Verdict]) -> NodeRefusals:
        """The dominant refusal of the last attempt, or what ended it, as in ``pods_now``."""
        decided = self.decided
        assert decided is not None
        refused = None
        if decided.outcome is Outcome.UNSCHEDULABLE:
            refused = dominant(refusals_of(decided, verdicts))
        if refused is not None:
            return refused
        ended = self.given_up or decided
        return NodeRefusals(ended.plugin, "", (ended.message,) if ended.message else (), 0)

    @property
    def began(self) -> int:
        """Since when it waits: in the queues since it first came into one."""
        standing = self.standing
        if standing.state in _QUEUES and standing.waiting_since is not None:
            return standing.waiting_since
        return standing.since


def scanned_workload(
    log: StoredLog, stream: str, target: ExplainTarget, members: GroupMembers | None = None
) -> Workload:
    """The workload that ``target`` names, at the end of the log; it is a pod group if there are
    ``members``. Raises NoPodError if it has no pods, and InputError if several namespaces have a
    workload of that name."""
    pods: dict[str, _FollowedPod] = {}
    owners: dict[str, OwnerName] = {}
    verdicts: dict[int, Verdict] = {}
    for stored in log.read():
        record = stored.record
        if isinstance(record, records.VerdictDefined):
            verdicts[record.number] = record.verdict
        uid = pod_of(record)
        if uid is None:
            continue
        if isinstance(record, records.PodAdded):
            owner = _owner(record.pod)
            if owner is not None:
                owners[uid] = owner
            if members is not None and uid in members.pods:
                pods[uid] = _FollowedPod(record.pod, ("", "", ""))
            elif owner is not None and _may_belong(owner, target):
                pods[uid] = _FollowedPod(record.pod, owner)
        if uid in pods:
            pods[uid].follow(stored.at, record)
        if isinstance(record, records.PodDeleted):
            pods.pop(uid, None)
            owners.pop(uid, None)
    if members is not None:
        return _workload(target, members.namespace, [], pods.values(), verdicts)
    found = _owners(pods.values(), target)
    namespace, names = require_one(found, target, stream, lambda: set(owners.values()))
    own = [pod for pod in pods.values() if pod.owner[0] == namespace and pod.owner[2] in names]
    return _workload(target, namespace, names, own, verdicts)


def _owner(pod: Pod) -> OwnerName | None:
    return None if pod.owner is None else (pod.namespace, pod.owner.kind, pod.owner.name)


def _may_belong(owner: OwnerName, target: ExplainTarget) -> bool:
    namespace, kind, name = owner
    if kind != owner_kind(target.kind) or target.namespace not in (None, namespace):
        return False
    is_prefix = target.kind == DEPLOYMENT and name.startswith(f"{target.name}-")
    return name == target.name or is_prefix


def _owners(pods: Iterable[_FollowedPod], target: ExplainTarget) -> dict[str, list[str]]:
    """The controllers of the workload's pods, by namespace. The hash that the oldest pod of a
    ReplicaSet carries decides whether it belongs to the Deployment."""
    owners: dict[OwnerName, _FollowedPod] = {}
    for pod in pods:
        owners.setdefault(pod.owner, pod)
    found: dict[str, list[str]] = {}
    for (namespace, _, name), oldest in owners.items():
        hashed = labelled_hash(records.PodAdded(pod=oldest.pod))
        if target.kind != DEPLOYMENT or deployment_of(name, hashed) == target.name:
            found.setdefault(namespace, []).append(name)
    return found


def _workload(
    target: ExplainTarget,
    namespace: str,
    owners: list[str],
    pods: Iterable[_FollowedPod],
    verdicts: Mapping[int, Verdict],
) -> Workload:
    nodes: Counter[str] = Counter()
    waiting: list[tuple[_Reason, _FollowedPod]] = []
    for pod in pods:
        if pod.standing.state == BOUND:
            nodes[pod.standing.node] += 1
        else:
            waiting.append((pod.reason(verdicts), pod))
    waiting.sort(key=lambda entry: (entry[0], entry[1].began, entry[1].pod.name))
    groups = [
        _group(namespace, reason, [pod for _, pod in entries])
        for reason, entries in groupby(waiting, key=lambda entry: entry[0])
    ]
    groups.sort(key=lambda group: (-group.pods, group.since, group.reason))
    on_nodes = dict(sorted(nodes.items(), key=lambda entry: (-entry[1], entry[0])))
    return Workload(target.kind, namespace, target.name, tuple(owners), on_nodes, tuple(groups))


def _group(namespace: str, reason: _Reason, pods: list[_FollowedPod]) -> WaitingGroup:
    state, is_tried, plugin, code, text = reason
    counts = Counter(pod.standing.state for pod in pods)
    states = {name: counts[name] for name in _QUEUES if counts[name]} or {state: len(pods)}
    return WaitingGroup(
        len(pods), state, states, is_tried, plugin, code, text, pods[0].began,
        sum(pod.standing.deleting for pod in pods),
        tuple(f"{namespace}/{pod.pod.name}" for pod in pods[:EXAMPLES]),
    )  # fmt: skip
