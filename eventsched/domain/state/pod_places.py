"""Which pod is on which node: the part of the state that all books, columns and counts follow."""

from collections.abc import Iterable
from weakref import WeakValueDictionary

import msgspec

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Pod, PodSpec, intern
from eventsched.domain.objects.registry import Registry
from eventsched.domain.state.numa_zones import Topologies
from eventsched.domain.state.pod_state import PodState
from eventsched.domain.state.quota_usage import Quotas


class PodPlaces:
    """Nodes, pods and what follows from where these are. Changed by SchedulerState alone, of which
    it is the base."""

    def __init__(self) -> None:
        self.housed = 0
        """Times that a pod came to a node so far."""
        self.nodes = NodeTable()
        self.registry = Registry()
        self.pods: dict[str, PodState] = {}
        self.quotas = Quotas(self.registry, self.pods)
        self.topologies = Topologies(self.registry, self.pods, self._on_node)
        self._specs = WeakValueDictionary[bytes, PodSpec]()
        self._homeless: dict[str, dict[str, None]] = {}

    def _interned(self, pod: Pod) -> Pod:
        spec = intern(pod.spec, self._specs)
        return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)

    def _house(self, state: PodState, node: str) -> None:
        """Moves a pod's bookings to a node, from wherever they were; "" takes them off. A pod whose
        node is not known (yet, or any more) is booked as soon as a node of that name is there."""
        if state.row >= 0:
            self.nodes.place(state.row, state.pod, -1)
            state.row = -1
        elif state.home:
            homeless = self._homeless[state.home]
            del homeless[state.pod.uid]
            if not homeless:
                del self._homeless[state.home]
        if state.home:
            self.quotas.place(state, -1)
        state.home = node
        if node:
            self.quotas.place(state, 1)
            self.housed += 1
            state.came = self.housed
            self._lodge(state)

    def _rehouse(self, state: PodState, node: str) -> None:
        """Moves a pod's bookings to a node that a decision has chosen, or takes them off."""
        home = state.home
        self._house(state, node)
        self.topologies.move(state, home, reserved=True)

    def _on_node(self, name: str) -> Iterable[PodState]:
        """The pods on a node, whether it is known or not, and those that have it reserved."""
        row = self.nodes.rows.get(name)
        uids: Iterable[str] = self._homeless.get(name, {})
        if row is not None:
            uids = self.nodes.residents[row]
        return [self.pods[uid] for uid in uids]

    def put_back(self, state: PodState) -> None:
        """Books a pod from a snapshot, in the order in which pods came: that decides who goes."""
        state.pod = self._interned(state.pod)
        if state.row >= 0:
            self.nodes.place(state.row, state.pod)
        elif state.home:
            self._homeless.setdefault(state.home, {})[state.pod.uid] = None

    def _lodge(self, state: PodState) -> None:
        row = self.nodes.rows.get(state.home)
        if row is None:
            self._homeless.setdefault(state.home, {})[state.pod.uid] = None
        else:
            state.row = row
            self.nodes.place(row, state.pod)
