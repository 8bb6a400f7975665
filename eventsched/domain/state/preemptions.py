"""What preemption has set going and what is not over yet: nominations and evictions.

Part of SchedulerState, changed only by its ``apply``. Upstream: backend/queue/nominator.go, and
the set ``preempting`` of framework/preemption/executor.go.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from eventsched.domain.journal import Journal
from eventsched.domain.objects import Pod

_NOBODY: Mapping[str, Pod] = {}


class Eviction(NamedTuple):
    """A pod that is to go from its node to make room: for whom (a uid). The intent is committed or
    about to be; it ends when the pod is being deleted, is gone, or the cluster has refused."""

    node: str
    preemptor: str


class Preemptions:
    """Pods without a node by the node that they were nominated to, and the evictions under way.

    ``journal`` names the rows (-1: the node is not known) where a nomination came or went.
    """

    def __init__(self) -> None:
        self.evicting: dict[str, Eviction] = {}
        """Uid of the victim → its eviction."""
        self.journal = Journal()
        self._node_of: dict[str, str] = {}
        self._on: dict[str, dict[str, Pod]] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    # --- changes, called by SchedulerState.apply only -------------------------------------

    def nominate(self, pod: Pod, node: str, row: int) -> None:
        """Takes a nomination in; the pod has none."""
        self._node_of[pod.uid] = node
        self._on.setdefault(node, {})[pod.uid] = pod
        self.journal.touch(row)

    def withdraw(self, uid: str, row: int) -> None:
        """Ends a pod's nomination. Raises KeyError where it has none."""
        node = self._node_of.pop(uid)
        pods = self._on[node]
        del pods[uid]
        if not pods:
            del self._on[node]
        self.journal.touch(row)

    # --- questions ------------------------------------------------------------------------

    def node(self, uid: str) -> str:
        """The node that a pod is nominated to, "" for none."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> Mapping[str, Pod]:
        """The pods nominated to a node, by uid."""
        return self._on.get(node, _NOBODY)

    def needed(self, victim: Pod) -> bool:
        """Whether any pod that is nominated to the node counts on a victim's end: the preemptor (a
        quota may let it displace more important ones), or a more important one."""
        eviction = self.evicting.get(victim.uid)
        return eviction is not None and any(
            (each.priority > victim.priority or each.uid == eviction.preemptor)
            and not each.deleting
            for each in self.on(eviction.node).values()
        )

    def nodes(self) -> Iterator[str]:
        """The nodes that pods are nominated to."""
        return iter(self._on)
