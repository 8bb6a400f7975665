"""PriorityLabel: nodes without a label are left out, the largest number in it wins.

The rules and words of the plugin Priority (lixd/i-scheduler), which it also goes by. There a label
that is no number fails the whole attempt; here the node is refused and says why.
"""

from collections.abc import Hashable, Iterator

from eventsched.domain.errors import InputError
from eventsched.domain.objects import Node, Pod, labels
from eventsched.domain.objects.integers import integer
from eventsched.scheduling.config.pluginargs import Arguments
from eventsched.scheduling.framework import (
    Change,
    ClusterEvent,
    Cycle,
    DependsOn,
    IntColumn,
    NodeView,
    Normalization,
    Status,
)

LARGEST = 2**53
"""A score has to stay exact where it is multiplied."""
_WITHOUT, _NO_NUMBER, _FIRST_NAMED = 1, 2, 3
_MOST_NAMED = 65_000
"""Refusals that get a code of their own; codes end at 65,535. Later ones are counted."""


class PriorityLabelArgs(Arguments, frozen=True):
    """``label`` is the key on the nodes. With ``name_nodes`` each refused node is a reason of its
    own, as in the original; otherwise they are counted."""

    label: str = "priority.lixueduan.com"
    name_nodes: bool = False

    def problems(self) -> Iterator[InputError]:
        """What is no label's key."""
        if not labels.is_key(self.label):
            problem = f"{self.label!r} is not a label's key"
            yield InputError("label", problem, "name one such as example.com/priority")


class PriorityLabel:
    """Filter by a label that holds an integer from 0 to 2^53, Score by it."""

    name = "PriorityLabel"
    depends_on = DependsOn.NODE
    normalization = Normalization.DEFAULT
    wakes_on = (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL)
    Args: type[PriorityLabelArgs] = PriorityLabelArgs

    def __init__(self, args: PriorityLabelArgs | None = None) -> None:
        given = args or self.Args()
        self._label, self._names_nodes = given.label, given.name_nodes
        self._reasons: list[str] = []
        """Of named nodes: a code is the place here. Which code stands for a reason matters to
        nobody: the log's dictionary is by the words."""
        self._codes: dict[str, int] = {}

    def sign(self, pod: Pod) -> Hashable:
        """Nothing of the pod matters."""
        return ()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """Asked once for each value of the label, or each node where they are named."""
        if not self._names_nodes:
            return nodes.label(self._label, self._refusal)
        return nodes.answer((self.name, self._label), self._named_value, self._named_refusal)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The original's words where nodes are named. There a node's lack counts as one that
        evicting pods might mend; so preemption looks, and finds nobody."""
        if code >= _FIRST_NAMED:
            return Status.unschedulable(self._reasons[code - _FIRST_NAMED])
        if code == _WITHOUT:
            return Status.unschedulable(f"node(s) did not have label {self._label}")
        said = f"node(s) had no integer from 0 to {LARGEST} in label {self._label}"
        return Status.unschedulable(said)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The label's number; 0 where the filter is not asked and there is none."""
        return nodes.label(self._label, lambda value: _number(value) or 0)

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """A node that has a number now."""
        return change.node is None or not self._refusal(change.node.labels.get(self._label))

    def _refusal(self, value: str | None) -> int:
        if value is None:
            return _WITHOUT
        return 0 if _number(value) is not None else _NO_NUMBER

    def _named_value(self, node: Node) -> Hashable:
        return (node.name, node.labels.get(self._label))

    def _named_refusal(self, named: tuple[str, str | None] | None) -> int:
        if named is None or not self._refusal(named[1]):
            return 0
        node, value = named
        if value is None:
            reason = f"Node:Node: {node} does not have label {self._label}"
        else:
            reason = f"node {node} has priority {value!r}, no integer from 0 to {LARGEST}"
        if len(self._codes) == _MOST_NAMED and reason not in self._codes:
            return self._refusal(value)
        code = self._codes.setdefault(reason, len(self._codes) + _FIRST_NAMED)
        if code - _FIRST_NAMED == len(self._reasons):
            self._reasons.append(reason)
        return code


class PriorityArgs(PriorityLabelArgs, frozen=True):
    """As in the original, nodes are named."""

    name_nodes: bool = True


class Priority(PriorityLabel):
    """PriorityLabel under the name that it has in lixd/i-scheduler."""

    name = "Priority"
    Args = PriorityArgs


def _number(value: str | None) -> int | None:
    number = integer(value)
    return number if number is not None and 0 <= number <= LARGEST else None
