"""Pods that end with their node or by a rollout, and begin again."""

from typing import Any

import msgspec

from eventsched.cluster.translate.manifest import pod_uid
from eventsched.domain.objects import Pod
from eventsched.domain.records import PodAdded, decode, encode

_AGAIN = "-again-"


class Drain:
    """The pods that exist, and the nodes that they are on."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._on: dict[str, dict[str, int | None]] = {}
        """Node → uid → when the pod ends by itself (µs); None for never."""
        self._node_of: dict[str, str] = {}

    def __contains__(self, uid: str) -> bool:
        """Whether a pod exists and was not asked to go."""
        return uid in self._pods

    def arrived(self, pod: Pod) -> None:
        """A pod has arrived."""
        self._pods[pod.uid] = pod

    def bound(self, uid: str, node: str, ends_at: int | None) -> None:
        """A pod is on a node, until a time (µs; None: without an end)."""
        self._node_of[uid] = node
        self._on.setdefault(node, {})[uid] = ends_at

    def ended(self, uid: str) -> None:
        """A pod is gone, or asked to go."""
        self._pods.pop(uid, None)
        node = self._node_of.pop(uid, None)
        if node is not None:
            del self._on[node][uid]
            if not self._on[node]:
                del self._on[node]

    def drained(self, node: str, at: int) -> list[tuple[str, Pod, int | None]]:
        """The uids of the pods that a node's end cuts short, each with its successor and the time
        (µs) for which that runs. They are no longer on the node."""
        drained = []
        for uid, ends_at in list(self._on.get(node, {}).items()):
            if ends_at is None or ends_at > at:
                pod = self._pods[uid]
                runs_for = None if ends_at is None else ends_at - at
                drained.append((uid, _successor(pod, at), runs_for))
                self.ended(uid)
        return drained

    def rolled(self, uid: str, at: int) -> tuple[Pod, bool, int | None]:
        """The successor of a pod that a rollout ends, whether the pod is on a node, and when it
        would have ended by itself (µs; None: never). It is gone."""
        node = self._node_of.get(uid)
        ends_at = None if node is None else self._on[node][uid]
        successor = _successor(self._pods[uid], at)
        self.ended(uid)
        return successor, node is not None, ends_at

    def snapshot(self) -> list[Any]:
        """The pods and their nodes, as JSON values, for ``restore``."""
        pods = [encode(PodAdded(pod=pod)).decode() for pod in self._pods.values()]
        return [pods, self._on]

    def restore(self, snapshot: list[Any]) -> None:
        """Continues from a snapshot."""
        pods, self._on = snapshot
        for text in pods:
            added = decode(text.encode())
            assert isinstance(added, PodAdded)
            self._pods[added.pod.uid] = added.pod
        self._node_of = {uid: node for node, uids in self._on.items() for uid in uids}


def _successor(pod: Pod, at: int) -> Pod:
    """The pod that a controller makes for a lost one."""
    base, _, again = pod.name.rpartition(_AGAIN)
    name = f"{base or pod.name}{_AGAIN}{int(again) + 1 if base else 1}"
    return msgspec.structs.replace(
        pod, uid=pod_uid(pod.namespace, name), name=name, created_at=at, node_name=""
    )
