"""A simulated API server: nodes and pods with resourceVersions, the binding subresource with its
preconditions, consistent reads, and the history that watches are served from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from eventsched.domain.objects import CPU, Node, Pod
from eventsched.runtime.messages import (
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    Listed,
    NodeGone,
    NodeSeen,
    PodAbsent,
    PodAnswer,
    PodGone,
    PodSeen,
    PodShown,
    TouchPod,
    WatchEvent,
)


@dataclass
class Placed:
    """How a pod came to its node. ``decision`` is the annotation, "" where somebody else bound it;
    ``version`` the resourceVersion of the bind."""

    node: str
    decision: str
    version: int


class ApiServer:
    """The cluster's truth. Calls take effect one after the other."""

    def __init__(self) -> None:
        self.version = 0
        self.pods: dict[str, PodSeen] = {}
        self.nodes: dict[str, NodeSeen] = {}
        self.placed: dict[str, Placed] = {}
        self.pod_history: list[WatchEvent] = []
        self.node_history: list[WatchEvent] = []

    # --- requests of leaders --------------------------------------------------------------

    def bind(self, request: BindPod) -> PodAnswer:
        """Creates a Binding; 409 and 404 as the real one (registry/core/pod/storage)."""
        seen = self.pods.get(request.uid)
        if seen is None:
            return PodAbsent(request)
        pod = seen.pod
        refused = pod.node_name or pod.deleting or pod.gates
        if refused or seen.resource_version != request.resource_version:
            return PodShown(request, seen)
        self.place(request.uid, request.node, request.decision)
        return Bound(request)

    def get(self, request: GetPod) -> PodAnswer:
        """A consistent read."""
        seen = self.pods.get(request.uid)
        return PodAbsent(request) if seen is None else PodShown(request, seen)

    def touch(self, request: TouchPod) -> PodAnswer:
        """A nonce in a condition of the pod's status: nothing that we read changes."""
        if request.uid not in self.pods:
            return PodAbsent(request)
        self.put_pod(self.pods[request.uid].pod)
        return PodShown(request, self.pods[request.uid])

    def evict(self, request: EvictPod) -> PodAnswer:
        """Begins to delete a pod; it ends later."""
        if request.uid not in self.pods:
            return PodAbsent(request)
        pod = self.pods[request.uid].pod
        if not pod.deleting:
            self.put_pod(msgspec.structs.replace(pod, deleting=True, displaced=True))
        return PodShown(request, self.pods[request.uid])

    def list_nodes(self) -> Listed:
        """The first half of a list: all nodes."""
        return Listed(self.version, 0, tuple(self.nodes.values()), ())

    def list_pods(self, half: Listed) -> Listed:
        """The second half: all pods, later."""
        return replace(half, pods_version=self.version, pods=tuple(self.pods.values()))

    # --- what others do -------------------------------------------------------------------

    def put_pod(self, pod: Pod) -> None:
        """Creates or changes a pod."""
        self.version += 1
        self.pods[pod.uid] = PodSeen(pod, self.version)
        self.pod_history.append(self.pods[pod.uid])

    def place(self, uid: str, node: str, decision: str = "") -> None:
        """Puts a pod on a node."""
        self.put_pod(msgspec.structs.replace(self.pods[uid].pod, node_name=node))
        self.placed[uid] = Placed(node, decision, self.version)

    def delete_pod(self, uid: str) -> None:
        """Ends a pod."""
        del self.pods[uid]
        self.version += 1
        self.pod_history.append(PodGone(uid, self.version))

    def put_node(self, node: Node) -> None:
        """Creates or changes a node."""
        self.version += 1
        self.nodes[node.name] = NodeSeen(node, self.version)
        self.node_history.append(self.nodes[node.name])

    def delete_node(self, name: str) -> None:
        """Ends a node; its pods stay until somebody deletes them."""
        del self.nodes[name]
        self.version += 1
        self.node_history.append(NodeGone(name, self.version))

    @property
    def histories(self) -> tuple[Sequence[WatchEvent], Sequence[WatchEvent]]:
        """What watches tell: of nodes, and of pods."""
        return self.node_history, self.pod_history

    # --- questions ------------------------------------------------------------------------

    def cpu_of(self, uid: str) -> int:
        """What a pod requests (millicores)."""
        return sum(each.requests[CPU] for each in self.pods[uid].pod.spec.containers)

    def cpu_used(self, node: str, foreign_upto: int) -> int:
        """What runs on a node (millicores): all that we have bound, and what somebody else has
        bound up to a resourceVersion."""
        return sum(
            self.cpu_of(uid)
            for uid, placed in self.placed.items()
            if uid in self.pods
            and placed.node == node
            and (placed.decision or placed.version <= foreign_upto)
        )
