"""Which pod is booked on which node. Columns, quotas and NUMA reports follow from it."""

from collections.abc import Iterable, Mapping
from functools import partial
from operator import attrgetter
from weakref import WeakValueDictionary

import msgspec

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Pod, PodSpec, intern
from eventsched.domain.objects.registry import Registry
from eventsched.domain.state.numa_zones import Topologies
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.quota_usage import Quotas

_INTERNED_IN = "_interned_in"
"""The attribute of a PodSpec with the specs of the state that interned it last. Most pods of a copy
have a spec that an earlier pod had: looking it up by its content takes longer than booking it."""


class PodPlaces:
    """Nodes, pods, and everything that follows from where the pods are. The base class of
    SchedulerState, which alone changes it."""

    def __init__(self) -> None:
        self.bookings = 0
        """Pods booked on a node so far."""
        self.nodes = NodeTable()
        self.registry = Registry()
        self.pods: dict[str, PodState] = {}
        self.quotas = Quotas(self.registry, self.pods)
        self._specs = WeakValueDictionary[bytes, PodSpec]()
        self._on_unknown_nodes: dict[str, dict[str, None]] = {}
        # Not a method: a state that refers to itself is not freed when it is dropped.
        on_node = partial(_pods_on, self.nodes, self._on_unknown_nodes, self.pods)
        self.topologies = Topologies(self.registry, self.pods, on_node)

    def _interned(self, pod: Pod) -> Pod:
        if getattr(pod.spec, _INTERNED_IN, None) is self._specs:
            return pod
        spec = intern(pod.spec, self._specs)
        spec.__dict__[_INTERNED_IN] = self._specs
        return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)

    def _book(self, pod_state: PodState, node: str) -> None:
        """Books a pod's requests on a node instead of on the previous one; "" only removes them. If
        the node is unknown, they are booked on its row when it is added."""
        if pod_state.row >= 0:
            self.nodes.place(pod_state.row, pod_state.pod, -1)
            pod_state.row = -1
        elif pod_state.booked_node:
            uids = self._on_unknown_nodes[pod_state.booked_node]
            del uids[pod_state.pod.uid]
            if not uids:
                del self._on_unknown_nodes[pod_state.booked_node]
        if pod_state.booked_node:
            self.quotas.place(pod_state, -1)
        pod_state.booked_node = node
        if node:
            self.quotas.place(pod_state, 1)
            self.bookings += 1
            pod_state.booking_order = self.bookings
            self._book_on_row(pod_state)

    def _book_reservation(self, pod_state: PodState, node: str) -> None:
        """Books a pod on the node that a decision has chosen; "" if a decision takes it back."""
        previous_node = pod_state.booked_node
        self._book(pod_state, node)
        self.topologies.move(pod_state, previous_node, reserved=True)

    def put_back(self, pod_states: Iterable[PodState]) -> None:
        """Books the pods of a snapshot, by ``booking_order``: victims of equal importance are
        chosen by it."""
        placed: list[tuple[int, Pod]] = []
        for pod_state in sorted(pod_states, key=attrgetter("booking_order")):
            pod_state.pod = self._interned(pod_state.pod)
            if pod_state.row >= 0:
                placed.append((pod_state.row, pod_state.pod))
            elif pod_state.booked_node:
                uids = self._on_unknown_nodes.setdefault(pod_state.booked_node, {})
                uids[pod_state.pod.uid] = None
        self.nodes.place_all(placed)

    def take_places(self, source: "PodPlaces") -> None:
        """The places of another one's pods, which the nodes have already."""
        self._specs = source._specs
        self._on_unknown_nodes.update(
            (node, uids.copy()) for node, uids in source._on_unknown_nodes.items()
        )

    def _book_on_row(self, pod_state: PodState) -> None:
        row = self.nodes.rows.get(pod_state.booked_node)
        if row is None:
            self._on_unknown_nodes.setdefault(pod_state.booked_node, {})[pod_state.pod.uid] = None
        else:
            pod_state.row = row
            self.nodes.place(row, pod_state.pod)


def _pods_on(
    nodes: NodeTable,
    on_unknown_nodes: Mapping[str, Iterable[str]],
    pods: Mapping[str, PodState],
    name: str,
) -> Iterable[PodState]:
    """The pods that are bound to a node or have it reserved. The node may be unknown."""
    row = nodes.rows.get(name)
    uids = on_unknown_nodes.get(name, ()) if row is None else nodes.residents[row]
    return [pods[uid] for uid in uids]
