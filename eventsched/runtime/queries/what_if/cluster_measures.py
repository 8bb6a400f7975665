"""How well a cluster was used in a stretch of history: utilization, fragmentation, spread, nodes
without pods."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import ALLOCATABLE, REQUESTED
from eventsched.domain.objects import PODS, Pod, PodSpec
from eventsched.domain.objects.pod_requests import of as requests_of
from eventsched.domain.records import PodAdded, PodDecided, PodUnreserved, Record
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.runtime.simulation.utilization import Meter, Utilization

_RESOLUTION = 100_000
"""Microseconds between two readings of the utilization at least."""
_SPECS = 1_000
"""Different requests of pods that are counted at most, as samples of what is scheduled."""
_COMMON = 20
"""Of these, the most common ones whose room is looked for."""
_DAEMONS = "DaemonSet"
_TAKEN = frozenset((PodDecided, PodAdded, PodUnreserved))
"""The kinds of records that say where pods are."""
_Requests = frozenset[tuple[str, int]]


@dataclass(frozen=True)
class ClusterUse:
    """How a cluster was used.

    - ``samples``: how the cluster was at some times.
    - ``utilization``: by resource, the requested share of what nodes offer: mean over time, and
      peak.
    - ``fragmentation``: by resource, the share of what is free that lies on nodes which a pod of
      the range (that arrived in it, or waited when it began) does not fit on; pods are weighted by
      how common they are. Mean of the samples.
    - ``spread``: by resource, the standard deviation over nodes of the requested share. Mean of the
      samples.
    - ``empty``: nodes without pods at the end, and ``unused`` those without pods in all of the
      range; pods of DaemonSets do not count.
    """

    samples: tuple["UseSample", ...]
    utilization: dict[str, Utilization]
    fragmentation: dict[str, float]
    spread: dict[str, float]
    empty: tuple[str, ...]
    unused: tuple[str, ...]


class UseSample(NamedTuple):
    """A cluster at a time (µs): the requested shares by resource, and how many pods wait: in a
    queue, or for a profile that the rules do not have and history's had."""

    at: int
    requested: dict[str, float]
    waiting: int


@dataclass
class _Means:
    """Sums of samples by resource."""

    sums: dict[str, float] = field(default_factory=dict)
    number: int = 0

    def add(self, sample: dict[str, float]) -> None:
        self.number += 1
        for name, value in sample.items():
            self.sums[name] = self.sums.get(name, 0.0) + value

    def report(self) -> dict[str, float]:
        return {name: total / self.number for name, total in self.sums.items()}


class CommonPods:
    """Which pods are scheduled in the range: how often each sum of requests arrives, or waits when
    the range begins; and the schedulerNames of those that history has queued, ``schedulers``."""

    def __init__(self, state: SchedulerState) -> None:
        """``state`` is the one that the range begins with."""
        self._counts: Counter[_Requests] = Counter()
        self._specs: dict[_Requests, PodSpec] = {}
        self._keys: dict[bytes, _Requests] = {}
        """The requests of the first specs, by their keys."""
        self.schedulers: set[str] = set()
        for uid, pod_state in state.pods.items():
            if pod_state.queue is not None or uid in state.reservations:
                self.take(pod_state.pod, is_ours=True)

    def take(self, pod: Pod, *, is_ours: bool) -> None:
        """Counts a pod. Of more than ``_SPECS`` different requests, the later ones are left out.
        ``is_ours``: history's scheduler has queued it, not another one."""
        if is_ours:
            self.schedulers.add(pod.scheduler_name)
        key = self._keys.get(pod.spec.key)
        if key is None:
            key = frozenset(requests_of(pod.spec).effective.items())
            if key not in self._specs and len(self._specs) >= _SPECS:
                return
            self._specs.setdefault(key, pod.spec)
            if len(self._keys) < _SPECS:
                self._keys[pod.spec.key] = key
        self._counts[key] += 1

    def most(self) -> list[tuple[PodSpec, int]]:
        """A spec for each of the most common requests, and their numbers."""
        return [(self._specs[key], number) for key, number in self._counts.most_common(_COMMON)]


class ClusterMeasures:
    """Measures a state while history goes on."""

    def __init__(self, state: SchedulerState, pods: CommonPods) -> None:
        self._state, self._pods = state, pods
        self._meter = Meter(state.nodes)
        self._measured = -_RESOLUTION
        self._fragmentation, self._spread = _Means(), _Means()
        self._samples: list[UseSample] = []
        self._used = {name for name, row in state.nodes.rows.items() if self._is_used(row)}
        self._unplaced = [uid for uid, pod_state in state.pods.items() if not pod_state.booked_node]
        """The pods that had no node at the last sample, or have lost it since, or are new."""

    def advance(self, now: int) -> None:
        """Reads the utilization at a time (µs), before anything of that time is applied."""
        if now - self._measured >= _RESOLUTION:
            self._meter.advance(now)
            self._measured = now

    def take(self, records: Iterable[tuple[Record, int]]) -> None:
        """Notes the nodes that records bring pods to, after they were applied."""
        for record, _ in records:
            if type(record) not in _TAKEN:
                continue
            if isinstance(record, PodDecided):
                node = record.node
                if node and node not in self._used:
                    self._use(node, self._state.pods[record.uid].pod)
            elif isinstance(record, PodAdded):
                if record.pod.node_name:
                    self._use(record.pod.node_name, record.pod)
                else:
                    self._unplaced.append(record.pod.uid)
            elif isinstance(record, PodUnreserved):
                self._unplaced.append(record.uid)

    def _use(self, node: str, pod: Pod) -> None:
        if not _is_daemon(pod):
            self._used.add(node)

    def go_on(self, state: SchedulerState) -> None:
        """The state goes on in a new object."""
        meter = Meter(state.nodes)
        meter.restore(self._meter.snapshot())
        self._state, self._meter = state, meter

    def sample(self) -> None:
        """Takes a sample of everything that is not measured all the time."""
        nodes = self._state.nodes
        rows = np.flatnonzero(nodes.alive[: nodes.size])
        if not len(rows):
            return
        offered, requested = nodes.books[rows, ALLOCATABLE], nodes.books[rows, REQUESTED]
        columns = {
            name: index
            for name, index in nodes.resource_index.items()
            if name != PODS and offered[:, index].any()
        }
        self._spread.add(
            {name: _deviation(offered[:, i], requested[:, i]) for name, i in columns.items()}
        )
        shares = {name: _total_share(requested[:, i], offered[:, i]) for name, i in columns.items()}
        self._samples.append(UseSample(self._state.now, shares, self._waiting()))
        free = np.maximum(offered - requested, 0)
        stranded = self._stranded(free)
        if stranded is not None:
            self._fragmentation.add(
                {name: _share(free[:, i], stranded) for name, i in columns.items()}
            )

    def report(self, now: int) -> ClusterUse:
        """What was measured up to a time (µs)."""
        self._meter.advance(max(now, self._measured))
        self.sample()
        rows = self._state.nodes.rows
        empty = [name for name, row in rows.items() if not self._is_used(row)]
        return ClusterUse(
            tuple(self._samples),
            self._meter.report(),
            self._fragmentation.report(),
            self._spread.report(),
            tuple(sorted(empty)),
            tuple(sorted(name for name in rows if name not in self._used)),
        )

    def _stranded(self, free: NDArray[np.int64]) -> NDArray[np.float64] | None:
        """float64[n]: the share of the common pods that does not fit on each node; None without
        pods."""
        common = self._pods.most()
        if not common:
            return None
        stranded = np.zeros(len(free))
        total = sum(number for _, number in common)
        by_resource = np.ascontiguousarray(free.T)
        for spec, number in common:
            usage = self._state.nodes.columns.usage_of(spec)
            fits = np.full(len(free), not usage.other)
            for column, amount in enumerate(usage.load[0].tolist()):
                if amount > 0:
                    fits &= by_resource[column] >= amount
            stranded[~fits] += number / total
        return stranded

    def _waiting(self) -> int:
        """How many pods wait for a node. Rules without a profile of a pod's schedulerName do not
        queue it, which must not look as if it had a node."""
        pods, waiting = self._state.pods, 0
        unplaced = [uid for uid in dict.fromkeys(self._unplaced) if uid in pods]
        self._unplaced = [uid for uid in unplaced if not pods[uid].booked_node]
        for pod_state in map(pods.__getitem__, self._unplaced):
            pod = pod_state.pod
            if pod_state.queue is not None:
                waiting += 1
            elif not pod_state.bound:
                waiting += pod.scheduler_name in self._pods.schedulers and not pod.deleting
        return waiting

    def _is_used(self, row: int) -> bool:
        pods = self._state.nodes.residents[row].values()
        return any(not _is_daemon(pod) for pod in pods)


def _is_daemon(pod: Pod) -> bool:
    return pod.owner is not None and pod.owner.kind == _DAEMONS


def _deviation(offered: NDArray[np.int64], requested: NDArray[np.int64]) -> float:
    """The standard deviation of the requested share over the nodes that offer the resource."""
    has = offered > 0
    return float((requested[has] / offered[has]).std()) if has.any() else 0.0


def _total_share(requested: NDArray[np.int64], offered: NDArray[np.int64]) -> float:
    total = int(offered.sum())
    return int(requested.sum()) / total if total else 0.0


def _share(free: NDArray[np.int64], stranded: NDArray[np.float64]) -> float:
    total = int(free.sum())
    return float((free * stranded).sum() / total) if total else 0.0
