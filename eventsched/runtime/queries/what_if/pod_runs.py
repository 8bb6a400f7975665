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

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from eventsched.domain.objects import Node, Pod
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.eventlog.log_errors import CorruptLogError
from eventsched.eventlog.port import StoredLog
from eventsched.eventlog.postgres.reader import Reader

_IS_DELETED = b'"deleting":true'
"""In the bytes of a pod, whose other ones need not be decoded."""
_NOTHING = msgspec.Raw(b"")


class RunRecord(msgspec.Struct):
    """What a record says about runs. The fields are those of its kind; reading the others would
    take most of the time."""

    kind: str
    uid: str = ""
    name: str = ""
    node: msgspec.Raw = _NOTHING
    """The name of a node, or the node itself."""
    pod: msgspec.Raw = _NOTHING
    victims: msgspec.Raw = _NOTHING
    leaving: tuple[str, ...] = ()
    sent_back: tuple[str, ...] = ()


_name = msgspec.json.Decoder(str)
_record = msgspec.json.Decoder(RunRecord)
_records = msgspec.json.Decoder(list[tuple[int, int, int, RunRecord]])


def run_records(log: StoredLog, first: int, end: int) -> Iterator[tuple[RunRecord, int]]:
    """The records of a log from position ``first`` up to ``end``, and their times (µs). Raises
    CorruptLogError."""
    if first >= end:
        return
    position = first
    try:
        if not isinstance(log, Reader):
            for stored in log.read(first):
                if (position := stored.position) >= end:
                    return
                yield _record.decode(stored.body), stored.at
            return
        for batch in log.batches(first, end):
            position = batch.first
            items = _records.decode(batch.body)
            for at, _, _, record in items[max(0, first - position) : end - position]:
                yield record, at
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise CorruptLogError(position, f"does not fit: {problem!r}") from problem


class PodRun(NamedTuple):
    """A run that ended by itself: when the pod was bound, and how long it ran (µs)."""

    bound_at: int
    length: int


def recorded_runs(
    state: SchedulerState, stretch: Iterable[tuple[RunRecord, int]]
) -> dict[str, PodRun]:
    """The runs by uid that began and ended in a stretch of a log, whose state before is
    ``state``. Raises CorruptLogError for a record of another shape."""
    runs, kinds = _RunReader(state), _RunReader.KINDS
    for position, (record, at) in enumerate(stretch, state.position):
        if record.kind in kinds:
            try:
                runs.take(record, at)
            except (msgspec.MsgspecError, LookupError) as problem:
                raise CorruptLogError(position, f"does not fit: {problem!r}") from problem
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

    def take(self, record: RunRecord, at: int) -> None:
        uid = record.uid
        match record.kind:
            case "PodBound":
                node_name = _name.decode(record.node)
                self._bound[uid] = at, node_name
                self._on.setdefault(node_name, set()).add(uid)
            case "PodUpdated" if _IS_DELETED in bytes(record.pod):
                pod = msgspec.json.decode(record.pod, type=Pod)
                if pod.uid in self._bound and not self._is_end_of_work(pod):
                    self._forget(pod.uid)
            case "PodDeleted":
                bound = self._forget(uid)
                if bound is not None and uid not in self._evicted:
                    self.ended[uid] = PodRun(bound[0], at - bound[0])
                self._evicted.discard(uid)
            case "PreemptionDecided":
                victims = msgspec.json.decode(record.victims, type=set[str])
                self._evicted |= victims.difference(record.leaving, record.sent_back)
            case "EvictionFailed":
                self._evicted.discard(uid)
            case "NodeAdded" | "NodeUpdated":
                node = msgspec.json.decode(record.node, type=Node)
                change = self._drained.add if _is_drained(node) else self._drained.discard
                change(node.name)
            case "NodeDeleted":
                self._drained.discard(record.name)
                for uid in self._on.pop(record.name, ()):
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
