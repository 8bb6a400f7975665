"""The nominations and evictions of preemption that are not over yet.

Part of SchedulerState, changed only by its ``apply``. Upstream: backend/queue/nominator.go, and
the set ``preempting`` of framework/preemption/executor.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from eventsched.domain.journal import Journal
from eventsched.domain.objects import Pod

_NO_PODS: Mapping[str, Pod] = {}


class Eviction(NamedTuple):
    """An eviction that makes room for another pod: the victim's node and the preemptor's uid. It
    ends when the victim is being deleted or is gone, or when the cluster has refused."""

    node: str
    preemptor: str


class Preemptions:
    """The nominated pods by node, and the evictions under way.

    ``journal`` has the rows where a nomination was added or withdrawn; -1 for an unknown node.
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
        """Adds the nomination of a pod that has none."""
        self._node_of[pod.uid] = node
        self._on.setdefault(node, {})[pod.uid] = pod
        self.journal.note(row)

    def withdraw(self, uid: str, row: int) -> None:
        """Ends a pod's nomination. Raises KeyError if it has none."""
        node = self._node_of.pop(uid)
        pods = self._on[node]
        del pods[uid]
        if not pods:
            del self._on[node]
        self.journal.note(row)

    # --- questions ------------------------------------------------------------------------

    def node(self, uid: str) -> str:
        """The node that a pod is nominated to, "" for none."""
        return self._node_of.get(uid, "")

    def on(self, node: str) -> Mapping[str, Pod]:
        """The pods nominated to a node, by uid."""
        return self._on.get(node, _NO_PODS)

    def is_eviction_needed(self, victim: Pod) -> bool:
        """Whether a pod that is nominated to the node still needs a victim's end: the preemptor (a
        quota may let it displace more important pods), or a more important pod."""
        eviction = self.evicting.get(victim.uid)
        return eviction is not None and any(
            (pod.priority > victim.priority or pod.uid == eviction.preemptor) and not pod.deleting
            for pod in self.on(eviction.node).values()
        )

    def uids(self) -> Iterable[str]:
        """The pods that have a nomination."""
        return self._node_of

    def nodes(self) -> Iterator[str]:
        """The nodes that pods are nominated to."""
        return iter(self._on)
