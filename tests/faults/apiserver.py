"""An API server in memory: namespaces, nodes and pods with resourceVersions, the binding
subresource with its preconditions, statuses and Events, consistent reads, and the history that
watches are served from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from eventsched.cluster.messages import (
    BindPod,
    Bound,
    EvictPod,
    GetPod,
    Listing,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectSeen,
    PatchStatus,
    PodAbsent,
    PodAnswer,
    PodGone,
    PodSeen,
    PodShown,
    Reported,
    TouchPod,
    WatchEvent,
    WriteEvent,
)
from eventsched.domain.objects import CPU, Node, Pod
from eventsched.domain.objects.registry import Namespace

RESOURCES = ("Namespace", "Node", "Pod")
"""Each has a watch of its own."""


@dataclass
class Placed:
    """How a pod came to its node. ``decision`` is the annotation, "" if another scheduler bound it;
    ``version`` the resourceVersion of the bind."""

    node: str
    decision: str
    version: int


class ApiServer:
    """The cluster's truth. Calls take effect one after the other."""

    resources: tuple[str, ...] = RESOURCES

    def __init__(self) -> None:
        self.version = 0
        self.pods: dict[str, PodSeen] = {}
        self.nodes: dict[str, NodeSeen] = {}
        self.namespaces: dict[str, ObjectSeen] = {}
        self.placed: dict[str, Placed] = {}
        self.conditions: dict[str, tuple[str, str]] = {}
        """Reason and message of a pod's condition PodScheduled, while it is False."""
        self.events: dict[tuple[str, str], WriteEvent] = {}
        """Events by name and key."""
        self.histories: dict[str, list[WatchEvent]] = {kind: [] for kind in self.resources}
        """All watch events, by resource."""
        self.watchable_from = dict.fromkeys(self.resources, 0)
        """The first event of each history that a watch can still report."""

    # --- requests of leaders --------------------------------------------------------------

    def bind(self, request: BindPod) -> PodAnswer:
        """Creates a Binding; 409 and 404 as upstream (registry/core/pod/storage)."""
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

    def patch_status(self, request: PatchStatus) -> PodShown | PodAbsent | Reported:
        """Writes a status. Writing the present one changes nothing."""
        seen = self.pods.get(request.uid)
        if seen is None:
            return PodAbsent(request)
        if request.resource_version not in (0, seen.resource_version):
            return PodShown(request, seen)
        pod, before = seen.pod, self.conditions.get(request.uid, ("", ""))
        after = (request.reason, request.message) if request.reason else before
        if request.nominated_node is not None:
            pod = msgspec.structs.replace(pod, nominated_node=request.nominated_node)
        if pod != seen.pod or after != before:
            self.conditions[request.uid] = after
            self.put_pod(pod)
        return Reported(request, self.pods[request.uid])

    def write_event(self, request: WriteEvent) -> Reported:
        """Creates an event; an existing one stays unchanged."""
        self.events.setdefault((request.name, request.key), request)
        return Reported(request)

    def list(self, resource: str) -> Listing:
        """All objects of a resource."""
        objects: dict[str, dict[str, Any]] = {
            "Namespace": self.namespaces, "Node": self.nodes, "Pod": self.pods,
        }  # fmt: skip
        return Listing(resource, self.version, tuple(objects[resource].values()))

    # --- changes by others ----------------------------------------------------------------

    def put_pod(self, pod: Pod) -> None:
        """Creates or changes a pod."""
        self.version += 1
        self.pods[pod.uid] = PodSeen(pod, self.version)
        self.histories["Pod"].append(self.pods[pod.uid])

    def place(self, uid: str, node: str, decision: str = "") -> None:
        """Puts a pod on a node; its nomination ends and its condition is True (upstream:
        registry/core/pod/storage setPodHostAndAnnotations)."""
        pod = self.pods[uid].pod
        self.put_pod(msgspec.structs.replace(pod, node_name=node, nominated_node=""))
        self.placed[uid] = Placed(node, decision, self.version)
        self.conditions.pop(uid, None)

    def delete_pod(self, uid: str) -> None:
        """Deletes a pod."""
        del self.pods[uid]
        self.version += 1
        self.histories["Pod"].append(PodGone(uid, self.version))

    def put_node(self, node: Node) -> None:
        """Creates or changes a node."""
        self.version += 1
        self.nodes[node.name] = NodeSeen(node, self.version)
        self.histories["Node"].append(self.nodes[node.name])

    def delete_node(self, name: str) -> None:
        """Deletes a node; its pods stay until they are deleted."""
        del self.nodes[name]
        self.version += 1
        self.histories["Node"].append(NodeGone(name, self.version))

    def put_namespace(self, namespace: Namespace) -> None:
        """Creates or changes a namespace."""
        self.version += 1
        self.namespaces[namespace.name] = ObjectSeen(namespace, self.version)
        self.histories["Namespace"].append(self.namespaces[namespace.name])

    def delete_namespace(self, name: str) -> None:
        """Deletes a namespace, without its pods."""
        del self.namespaces[name]
        self.version += 1
        self.histories["Namespace"].append(ObjectGone("Namespace", "", name, self.version))

    # --- queries --------------------------------------------------------------------------

    def objects(self) -> Sequence[ObjectSeen]:
        """All objects except nodes and pods."""
        return tuple(self.namespaces.values())

    def was_placed(self, uid: str, node: str) -> bool:
        """Whether a pod was placed on a node."""
        placed = self.placed.get(uid)
        return placed is not None and placed.node == node

    def is_open(self, pod: Pod) -> bool:
        """Whether the pod's namespace is open (see cluster.Openings)."""
        seen = self.namespaces.get(pod.namespace)
        return seen is not None and "closed" not in seen.object.labels

    def cpu_of(self, uid: str) -> int:
        """The cpu requests of a pod, in millicores."""
        return sum(container.requests[CPU] for container in self.pods[uid].pod.spec.containers)

    def cpu_used(self, node: str, foreign_upto: int) -> int:
        """The cpu requests on a node, in millicores: of all pods that we bound, and of foreign pods
        that were bound up to a resourceVersion."""
        return sum(
            self.cpu_of(uid)
            for uid, placed in self.placed.items()
            if uid in self.pods
            and placed.node == node
            and (placed.decision or placed.version <= foreign_upto)
        )
