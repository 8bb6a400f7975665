"""A workload (a Deployment, Job, …) as ``explain`` names it, and its pods by why they wait.

A pod names only one controller, so a Deployment is found through its ReplicaSets: they are called
``DEPLOYMENT-HASH`` (pkg/controller/deployment/sync.go), and their pods carry the hash as label
``pod-template-hash``. For each ReplicaSet whose name fits, the label of its oldest pod decides;
without the label, the form of the name's last part does.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from eventsched.domain import records
from eventsched.domain.errors import InputError
from eventsched.domain.records.exclusions import bare_reason
from eventsched.domain.workload_kinds import (
    DEPLOYMENT,
    GROUP,
    HASH_PATTERN,
    POD,
    REPLICA_SET,
    SHORT_KINDS,
    is_cron_job,
    kind_of,
)
from eventsched.history.explain.conclusions.headline import headline
from eventsched.history.explain.conclusions.named_refusal import named_refusal
from eventsched.history.explain.conclusions.node_opening import closed_text
from eventsched.history.explain.conclusions.remedies import remedy
from eventsched.history.explain.explanation import Explanation, NoPodError, suggestion

_HASH_LABEL = "pod-template-hash"
_HASH = re.compile(HASH_PATTERN)
OwnerName = tuple[str, str, str]
"""Namespace, kind and name of a controller."""
EXAMPLES = 3
"""Pods of a group that are named."""
_PHRASES = {
    "gated": "gated",
    "waiting": "has reserved a node and waits at Permit or PreBind",
    "binding": "is being bound",
}


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
        short = () if self.kind == POD else (SHORT_KINDS.get(self.kind, GROUP),)
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
    closed_by: str = ""
    """As in ``Headline``, if it is known."""

    @property
    def helps(self) -> str:
        """What would help; "" if that is not known."""
        if self.state != "queued":
            return ""
        return remedy(self.plugin, self.reason.split(", "), self.code, self.closed_by)

    @property
    def is_refused(self) -> bool:
        """Whether an attempt has failed, and why is known."""
        return self.state == "queued" and self.is_tried and self.reason != ""

    @property
    def why(self) -> str:
        """Why these pods wait, in the words of a pod's own explanation."""
        deleting = f"; {self.deleting} being deleted" if self.deleting else ""
        return f"{self._why()}{deleting}"

    def _why(self) -> str:
        if self.state == "unqueued":
            left = "is out of the queue and is no longer scheduled"
            return left if self.is_tried else "belongs to another scheduler"
        if self.state != "queued":
            return _PHRASES.get(self.state, self.state)
        if not self.is_tried:
            return "has not been tried yet"
        if not self.reason:
            return "gave up its node"
        if self.code:
            closed = f"; {closed_text(self.closed_by)}" if self.closed_by else ""
            return f"{self.plugin or 'PreFilter'} refuses nodes: {bare_reason(self.reason)}{closed}"
        return f"{self.plugin}: {self.reason}" if self.plugin else self.reason


@dataclass(frozen=True)
class Workload:
    """A workload's pods. ``owners`` are the controllers that the pods name; ``nodes`` maps nodes to
    their numbers of pods, the largest first. ``next_step``: what to do, as an imperative phrase, ""
    for nothing; of a pod group see ``group_verdict``."""

    kind: str
    namespace: str
    name: str
    owners: tuple[str, ...]
    nodes: dict[str, int] = field(default_factory=dict)
    groups: tuple[WaitingGroup, ...] = ()
    next_step: str = ""

    @property
    def needs_step(self) -> str:
        """The pod whose next step is that of the workload: the oldest of the largest group that a
        plugin keeps in a queue; "" if none does."""
        groups = (group for group in self.groups if group.is_refused or group.state == "gated")
        return next((group.examples[0] for group in groups), "")

    @property
    def placed(self) -> int:
        """Pods on nodes."""
        return sum(self.nodes.values())

    @property
    def pods(self) -> int:
        """All pods."""
        return self.placed + sum(group.pods for group in self.groups)


def with_step(workload: Workload, explained: Explanation) -> Workload:
    """The workload with the next step of its pod ``needs_step``, which is explained. If that names
    another plugin than the rows of the log do, or one besides, so does the pod's group: they would
    contradict each other."""
    pod, refused = headline(explained), named_refusal(explained)
    groups = workload.groups
    if refused is not None and pod.nodes:
        reason = ", ".join(refused.reasons)
        groups = tuple(
            group
            if workload.needs_step not in group.examples
            else replace(group, closed_by=refused.closed_by)
            if group.plugin == refused.plugin
            else replace(group, plugin=refused.plugin, code=refused.code, reason=reason)
            for group in groups
        )
    return replace(workload, groups=groups, next_step=pod.next_step)


def parse_target(word: str, namespace: str | None) -> ExplainTarget:
    """Parses the argument of ``explain``, in kubectl's notation. Raises InputError."""
    *prefix, name = word.split("/")
    kind = POD
    if prefix and (len(prefix) > 1 or kind_of(prefix[-1]) or is_cron_job(prefix[-1])):
        kind = _kind(word, prefix.pop())
    if len(prefix) > 1:
        raise InputError("POD", f"{word} has too many parts", "write NAMESPACE/deploy/NAME")
    if prefix and namespace not in (None, prefix[0]):
        raise InputError(
            "--namespace", f"is {namespace}, and {word} names {prefix[0]}", "leave one of them out"
        )
    return ExplainTarget(kind, prefix[0] if prefix else namespace, name, word)


def _kind(word: str, short: str) -> str:
    if is_cron_job(short):
        raise InputError(
            "POD",
            f"{word}: pods belong to the jobs of a cron job",
            "name one of its jobs: job/NAME",
        )
    if (kind := kind_of(short)) is None:
        known = ", ".join((*SHORT_KINDS.values(), GROUP, "pod"))
        raise InputError("POD", f"{word}: {short} is not a kind of workload", f"there are {known}")
    return kind


def require_one(
    owners_by_namespace: Mapping[str, Sequence[str]],
    target: ExplainTarget,
    stream: str,
    known: Callable[[], Iterable[OwnerName]],
) -> tuple[str, list[str]]:
    """The namespace and the controllers of the workload that ``target`` names. ``known`` gives the
    controllers of all pods. Raises NoPodError if there is no such workload, and InputError if
    several namespaces have one."""
    if not owners_by_namespace:
        raise NoPodError(
            "POD",
            f"there is no pod of {target.kind} {target.full_name} in stream {stream}",
            _suggest(known(), target),
        )
    if len(owners_by_namespace) > 1:
        names = sorted(target._replace(namespace=name).full_name for name in owners_by_namespace)
        raise InputError(
            "POD",
            f"{target.word} is in {len(names)} namespaces",
            f"name one: {', '.join(names[:9])}",
        )
    [(namespace, owners)] = owners_by_namespace.items()
    return namespace, list(owners)


def owner_kind(kind: str) -> str:
    """The kind of the controller that the pods of such a workload name."""
    return REPLICA_SET if kind == DEPLOYMENT else kind


def deployment_of(replica_set: str, template_hash: str = "") -> str:
    """The name of a ReplicaSet's Deployment; "" if it belongs to none. ``template_hash`` is the
    label of its pods; without it, the last part of the name has to look like a hash."""
    name, _, last = replica_set.rpartition("-")
    fits = last == template_hash if template_hash else _HASH.fullmatch(last)
    return name if fits else ""


def labelled_hash(record: records.AnyRecord) -> str:
    """The label of a pod that was added that names its ReplicaSet's hash; "" for none."""
    return record.pod.labels.get(_HASH_LABEL, "") if isinstance(record, records.PodAdded) else ""


def _suggest(owners: Iterable[OwnerName], target: ExplainTarget) -> str:
    """The remedy for an unknown workload: the same name of another kind or namespace, or a similar
    name."""
    known: list[ExplainTarget] = []
    for namespace, kind, owner in owners:
        names = {kind: owner}
        if kind == REPLICA_SET and (name := deployment_of(owner)):
            names[DEPLOYMENT] = name
        known += (ExplainTarget(kind, namespace, name, "") for kind, name in names.items())
    same_name = [workload for workload in known if workload.name == target.name]
    same_kind = [workload for workload in known if workload.kind == target.kind]
    both = [workload for workload in same_name if workload.kind == target.kind]
    likely = both or same_name or same_kind or known
    if not likely:
        return "no workload has pods now: they have ended, or it is scaled to 0"
    return suggestion(target.full_name, sorted({workload.full_name for workload in likely}))
