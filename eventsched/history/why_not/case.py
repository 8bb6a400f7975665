"""A refusal for which changes are looked for, and what may be changed."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from eventsched.domain.objects import NodeSelectorTerm, Pod, Requirement
from eventsched.domain.objects.registry import Registry
from eventsched.domain.state.pod_state import PodState
from eventsched.history.why_not.changes import AnyChange, NodeLabelSet, PodRemoved, changed_pod
from eventsched.history.why_not.hypothesis import Hypothesis, Landing
from eventsched.history.why_not.volume_changes import OfObjects


class Side(Enum):
    """What is changed if there is a choice."""

    POD = "pod"
    CLUSTER = "cluster"


class Case(NamedTuple):
    """A refusal: what was tried so far (``made``), and how it ended."""

    hypothesis: Hypothesis
    made: tuple[AnyChange, ...]
    landing: Landing
    side: Side
    is_thrifty: bool = True
    """Whether few pods are removed for room; otherwise the least important ones."""

    @property
    def pod(self) -> Pod:
        """The pod with the changes so far."""
        return changed_pod(self.hypothesis.pod, self.made)

    @property
    def removed_pods(self) -> set[str]:
        """The uids of the pods that are removed so far."""
        return {change.uid for change in self.made if isinstance(change, PodRemoved)}

    @property
    def registry(self) -> Registry:
        """The objects with the changes so far."""
        if any(isinstance(change, OfObjects) for change in self.made):
            return self.hypothesis.state_with(self.made).registry
        return self.hypothesis.engine.state.registry

    def residents(self) -> list[PodState]:
        """The pods that take room on the node, the least important first, without those that are
        removed: pods on it, and pods that are nominated to it and not less important."""
        state, gone = self.hypothesis.engine.state, self.removed_pods
        row, least = self.hypothesis.row, self.hypothesis.pod.priority
        on_node = dict.fromkeys(state.nodes.residents[row])
        nominated = state.preemptions.on(self.hypothesis.node.name)
        uids = on_node | dict.fromkeys(
            uid for uid in nominated if state.pods[uid].pod.priority >= least
        )
        uids.pop(self.hypothesis.pod.uid, None)
        residents = [state.pods[uid] for uid in uids if uid not in gone]
        return sorted(residents, key=lambda each: (each.pod.priority, -each.booking_order))

    def removed(self, other: Pod) -> PodRemoved:
        """The change that removes another pod."""
        own = self.hypothesis.pod
        may_evict = own.preemption_policy != "Never" and other.priority < own.priority
        evictor = own.priority if may_evict else None
        return PodRemoved(other.uid, other.full_name, other.priority, evictor)

    def refuses(self, plugin: str, more: Sequence[AnyChange]) -> bool:
        """Whether a plugin still refuses the node with ``more`` changes."""
        return plugin in self.hypothesis.landing((*self.made, *more)).plugins


def missing_labels(labels: dict[str, str], terms: Sequence[NodeSelectorTerm]) -> list[NodeLabelSet]:
    """The labels that a node with these lacks for the first term that labels can satisfy."""
    for term in terms:
        if term.fields:
            continue
        missing = [requirement for requirement in term.expressions if not has(labels, requirement)]
        if missing and all(requirement.operator in ("In", "Exists") for requirement in missing):
            return [
                NodeLabelSet(requirement.key, (*requirement.values, "")[0])
                for requirement in missing
            ]
    return []


def has(labels: dict[str, str], requirement: Requirement) -> bool:
    """Whether labels meet a requirement; False for Gt and Lt, which labels cannot be set for."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
