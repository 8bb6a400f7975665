"""NodeGroup: a pod that names a group of nodes in a label goes to nodes that carry the same label.

The rule and its words are those of MyCustomPlugin (rossgray/custom-k8s-scheduler), which it also
goes by. A pod without the label may go anywhere, as there.
"""

from collections.abc import Hashable, Iterator

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Pod, labels
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Status,
)

_WITHOUT, _OTHER = 1, 2


class NodeGroupArgs(Arguments, frozen=True):
    """``label`` is the key that pods and nodes have in common."""

    label: str = "nodeGroup"

    def problems(self) -> Iterator[InputError]:
        """What is no label's key."""
        if not labels.is_key(self.label):
            problem = f"{self.label!r} is not a label's key"
            yield InputError("label", problem, "name one such as nodeGroup or example.com/group")


class NodeGroup:
    """Filter by equal labels. Evicting pods would not change that, so preemption does not try."""

    name = "NodeGroup"
    depends_on = DependsOn.NODE
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL, ClusterEvent.POD_UPDATE)
    Args = NodeGroupArgs

    def __init__(self, args: NodeGroupArgs | None = None) -> None:
        self._label = (args or NodeGroupArgs()).label

    def sign(self, pod: Pod) -> Hashable:
        """The pod's group; False for none, as None would say that nothing is known."""
        return pod.labels.get(self._label, False)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """Asked once for each group that there is."""
        group = pod.labels.get(self._label)
        if group is None:
            return None

        def refusal(value: str | None) -> int:
            return _WITHOUT if value is None else 0 if value == group else _OTHER

        return nodes.label(self._label, refusal)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The original's words."""
        if code == _WITHOUT:
            return Status.unresolvable("node does not have required label")
        return Status.unresolvable(f"{self._label} of pod and node don't match")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """A node of the pod's group, or a pod that has changed."""
        group = pod.labels.get(self._label)
        if group is None or change.node is None:
            return True
        return change.node.labels.get(self._label) == group


class MyCustomPlugin(NodeGroup):
    """NodeGroup under the name that it has in rossgray/custom-k8s-scheduler."""

    name = "MyCustomPlugin"
