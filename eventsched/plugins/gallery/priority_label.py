"""PriorityLabel: refuses nodes without a label, and prefers the largest number in it.

The rules and messages are those of the plugin Priority (lixd/i-scheduler), which is also available
under that name. There a label that is not a number fails the whole attempt; here only that node is
refused, with a reason.
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

MAX_PRIORITY = 2**53
"""Scores up to this stay exact when they are multiplied."""
_MISSING, _NOT_A_NUMBER, _FIRST_NAMED = 1, 2, 3
_MAX_NAMED = 65_000
"""Refusals with a code of their own, because codes end at 65,535. Further ones are only counted."""


class PriorityLabelArgs(Arguments, frozen=True):
    """``label`` is the label key of the nodes. With ``name_nodes`` each refused node has its own
    reason, as in the original; otherwise refused nodes are counted."""

    label: str = "priority.lixueduan.com"
    name_nodes: bool = False

    def problems(self) -> Iterator[InputError]:
        """An invalid label key."""
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
        args = args or self.Args()
        self._label, self._names_nodes = args.label, args.name_nodes
        self._reasons: list[str] = []
        """The reasons of named nodes; a code is an index into them. The log stores reasons by their
        text, so the numbering does not matter."""
        self._codes: dict[str, int] = {}

    def sign(self, pod: Pod) -> Hashable:
        """The same for all pods."""
        return ()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """Computed once for each value of the label, or for each node if nodes are named."""
        if not self._names_nodes:
            return nodes.label(self._label, self._refusal)
        return nodes.answer((self.name, self._label), self._named_value, self._named_refusal)

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The original's words if nodes are named. As there, the refusal is not unresolvable, so
        preemption searches and finds no victims."""
        if code >= _FIRST_NAMED:
            return Status.unschedulable(self._reasons[code - _FIRST_NAMED])
        if code == _MISSING:
            return Status.unschedulable(f"node(s) did not have label {self._label}")
        reason = f"node(s) had no integer from 0 to {MAX_PRIORITY} in label {self._label}"
        return Status.unschedulable(reason)

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The label's number; 0 if there is none, which needs a disabled filter."""
        return nodes.label(self._label, lambda value: _number(value) or 0)

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True for a node with a number in its label."""
        return change.node is None or not self._refusal(change.node.labels.get(self._label))

    def drop_codes(self) -> bool:
        """Begins the numbering again once half of the codes are given: nodes come and go."""
        if 2 * len(self._reasons) <= _MAX_NAMED:
            return False
        self._reasons, self._codes = [], {}
        return True

    def _refusal(self, value: str | None) -> int:
        if value is None:
            return _MISSING
        return 0 if _number(value) is not None else _NOT_A_NUMBER

    def _named_value(self, node: Node) -> Hashable:
        return (node.name, node.labels.get(self._label))

    def _named_refusal(self, named: tuple[str, str | None] | None) -> int:
        if named is None or not self._refusal(named[1]):
            return 0
        node, value = named
        if value is None:
            reason = f"Node:Node: {node} does not have label {self._label}"
        else:
            reason = f"node {node} has priority {value!r}, no integer from 0 to {MAX_PRIORITY}"
        if len(self._codes) == _MAX_NAMED and reason not in self._codes:
            return self._refusal(value)
        code = self._codes.setdefault(reason, len(self._codes) + _FIRST_NAMED)
        if code - _FIRST_NAMED == len(self._reasons):
            self._reasons.append(reason)
        return code


class PriorityArgs(PriorityLabelArgs, frozen=True):
    """Nodes are named, as in the original."""

    name_nodes: bool = True


class Priority(PriorityLabel):
    """PriorityLabel under its original name."""

    name = "Priority"
    Args = PriorityArgs


def _number(value: str | None) -> int | None:
    number = integer(value)
    return number if number is not None and 0 <= number <= MAX_PRIORITY else None
