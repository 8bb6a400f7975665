"""How long pods ran in history, and when they end on the other side.

The log does not say why a pod ended. These signs distinguish pods that ended by themselves from
pods that something outside ended:

- A pod that completes or fails leaves the log without being deleted first: the watch shows it no
  longer. A deletion shows first, because the pod has its grace period.
- A deletion is a part of the run if the pod belongs to a Job (any kind whose name ends so, such as
  PyTorchJob) or to another pod (a driver of Spark): these delete what still runs when the work is
  over. It is not if the pod's node is cordoned or has a NoExecute taint by then, which is a drain.
- Evicted pods, and pods whose node was deleted before, did not end by themselves.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from eventsched.domain import records
from eventsched.domain.objects import Node, Pod
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.port import StoredRecord

_IS_DELETED = b'"deleting":true'
"""In the bytes of a PodUpdated, whose other ones need not be decoded."""


class PodRun(NamedTuple):
    """A run that ended by itself: when the pod was bound, and how long it ran (µs)."""

    bound_at: int
    length: int


def recorded_runs(state: SchedulerState, stretch: Iterable[StoredRecord]) -> dict[str, PodRun]:
    """The runs by uid that began and ended in a stretch of a log, whose state before is
    ``state``."""
    runs = _RunReader(state)
    for stored in stretch:
        if stored.kind == "PodUpdated" and _IS_DELETED not in stored.body:
            continue
        if stored.kind in _RunReader.KINDS:
            runs.take(stored.record, stored.at)
    return runs.ended


class OwnRuns:
    """Which pods end at times of the other side's own, because they began at other times there."""

    def __init__(self, recorded: Mapping[str, PodRun]) -> None:
        self._recorded = recorded
        self._as_recorded: set[str] = set()

    def bound(self, uid: str, at: int) -> int | None:
        """Call when a pod is bound on the other side. Returns when its run ends there (µs); None if
        that is as in history."""
        run = self._recorded.get(uid)
        if run is None:
            return None
        if run.bound_at == at:
            self._as_recorded.add(uid)
            return None
        return at + run.length

    def has(self, uid: str) -> bool:
        """Whether the end that history reports is not the pod's end on the other side: it began at
        another time there, or has not begun."""
        return uid in self._recorded and uid not in self._as_recorded


class _RunReader:
    """Finds the runs from records in order."""

    KINDS = frozenset({
        "PodBound", "PodUpdated", "PodDeleted", "PreemptionDecided", "EvictionFailed",
        "NodeAdded", "NodeUpdated", "NodeDeleted",
    })  # fmt: skip

    def __init__(self, state: SchedulerState) -> None:
        self.ended: dict[str, PodRun] = {}
        self._bound: dict[str, tuple[int, str]] = {}
        """Time and node by uid, of the pods that may still end by themselves."""
        self._on: dict[str, set[str]] = {}
        """Uids of these pods by node."""
        self._evicted = set(state.preemptions.evicting)
        self._drained = {node.name for node in state.nodes.nodes if node and _is_drained(node)}

    def take(self, record: records.Record, at: int) -> None:
        match record:
            case records.PodBound(uid=uid, node=node):
                self._bound[uid] = at, node
                self._on.setdefault(node, set()).add(uid)
            case records.PodUpdated(pod=pod) if pod.uid in self._bound:
                if not self._is_end_of_work(pod):
                    self._forget(pod.uid)
            case records.PodDeleted(uid=uid):
                bound = self._forget(uid)
                if bound is not None and uid not in self._evicted:
                    self.ended[uid] = PodRun(bound[0], at - bound[0])
                self._evicted.discard(uid)
            case records.PreemptionDecided(evicted=evicted):
                self._evicted.update(evicted)
            case records.EvictionFailed(uid=uid):
                self._evicted.discard(uid)
            case records.NodeAdded(node=node) | records.NodeUpdated(node=node):
                change = self._drained.add if _is_drained(node) else self._drained.discard
                change(node.name)
            case records.NodeDeleted(name=name):
                self._drained.discard(name)
                for uid in self._on.pop(name, ()):
                    del self._bound[uid]

    def _is_end_of_work(self, pod: Pod) -> bool:
        """Whether the deletion of a pod is the end of the work that it is a part of."""
        kind = "" if pod.owner is None else pod.owner.kind
        is_part_of_work = kind.endswith("Job") or kind == "Pod"
        return is_part_of_work and self._bound[pod.uid][1] not in self._drained

    def _forget(self, uid: str) -> tuple[int, str] | None:
        bound = self._bound.pop(uid, None)
        if bound is not None:
            self._on[bound[1]].discard(uid)
        return bound


def _is_drained(node: Node) -> bool:
    """Whether something takes the pods off a node: it is cordoned, or has a NoExecute taint."""
    return node.unschedulable or any(taint.effect == "NoExecute" for taint in node.taints)
