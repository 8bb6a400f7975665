"""NodeGroup: a pod with a group label goes only to nodes with the same label value.

The rule and its messages are those of MyCustomPlugin (rossgray/custom-k8s-scheduler), which is also
available under that name. A pod without the label may go anywhere.
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

_MISSING, _OTHER = 1, 2


class NodeGroupArgs(Arguments, frozen=True):
    """``label`` is the label key of pods and nodes."""

    label: str = "nodeGroup"

    def problems(self) -> Iterator[InputError]:
        """An invalid label key."""
        if not labels.is_key(self.label):
            problem = f"{self.label!r} is not a label's key"
            yield InputError("label", problem, "name one such as nodeGroup or example.com/group")


class NodeGroup:
    """Filter by equal labels. Preemption would not help, so refusals are unresolvable."""

    name = "NodeGroup"
    depends_on = DependsOn.NODE
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL, ClusterEvent.POD_UPDATE)
    Args = NodeGroupArgs

    def __init__(self, args: NodeGroupArgs | None = None) -> None:
        self._label = (args or NodeGroupArgs()).label

    def sign(self, pod: Pod) -> Hashable:
        """The pod's group, or False: None would mean that the pod has no signature."""
        return pod.labels.get(self._label, False)

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """1 if the node has no label, 2 if it has another group; computed once for each group."""
        group = pod.labels.get(self._label)
        if group is None:
            return None

        def refusal(value: str | None) -> int:
            return _MISSING if value is None else 0 if value == group else _OTHER

        return nodes.label(self._label, refusal)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in the original's words."""
        if code == _MISSING:
            return Status.unresolvable("node does not have required label")
        return Status.unresolvable(f"{self._label} of pod and node don't match")

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True for a node of the pod's group, and for a change of the pod."""
        group = pod.labels.get(self._label)
        if group is None or change.node is None:
            return True
        return change.node.labels.get(self._label) == group


class MyCustomPlugin(NodeGroup):
    """NodeGroup under its original name."""

    name = "MyCustomPlugin"
