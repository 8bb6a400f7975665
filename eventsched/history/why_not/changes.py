"""Changes of a pod, of the cluster or of a profile that could make a pod land on a node.

A change is a value. One of the pod gives another pod; one of the cluster is a list of stimuli; one
of a profile is a weight.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from eventsched.domain import records
from eventsched.domain.objects import (
    Container,
    HostPort,
    Node,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Requirement,
    Taint,
    Toleration,
)
from eventsched.domain.objects.registry import Registry
from eventsched.domain.records import Stimulus
from eventsched.history.closed_nodes import CONDITIONS, CORDON
from eventsched.history.why_not.change_value import ChangeValue, quantity
from eventsched.history.why_not.volume_changes import OfObjects, VolumeRemoved
from eventsched.scheduling.rules.selection import NAME_FIELD

_LEAST_PART = 20
"""A request is lowered drastically to less than this part of it."""


class RequestLimited(ChangeValue, frozen=True):
    """The pod requests at most ``limit`` of a resource instead of ``before``."""

    resource: str
    limit: int
    before: int

    @property
    def is_drastic(self) -> bool:
        """Whether hardly anything is left of the request, so that few pods could run with it."""
        return self.limit * _LEAST_PART < self.before

    @property
    def text(self) -> str:
        limit, before = (quantity(self.resource, amount) for amount in (self.limit, self.before))
        if not self.limit:
            return f"request no {self.resource} instead of {before}"
        drastic = ", which is hardly any" if self.is_drastic else ""
        return f"request at most {limit} of {self.resource} instead of {before}{drastic}"

    def changed(self, pod: Pod) -> Pod:
        return replace(pod, spec=_limited(pod.spec, self.resource, self.limit))


class TolerationAdded(ChangeValue, frozen=True):
    """The pod tolerates a taint of the node."""

    key: str
    value: str
    effect: str

    @property
    def text(self) -> str:
        return f"tolerate the taint {shown_taint(self.key, self.value, self.effect)}"

    def changed(self, pod: Pod) -> Pod:
        added = Toleration(key=self.key, operator="Equal", value=self.value, effect=self.effect)
        if not self.value:
            added = Toleration(key=self.key, operator="Exists", effect=self.effect)
        return _with_spec(pod, tolerations=(*pod.spec.tolerations, added))


class NodeSelectorEntryRemoved(ChangeValue, frozen=True):
    """The pod's nodeSelector does not have a key."""

    key: str
    value: str

    @property
    def text(self) -> str:
        return f"remove {self.key}={self.value} from nodeSelector"

    def changed(self, pod: Pod) -> Pod:
        selector = {key: value for key, value in pod.spec.node_selector.items() if key != self.key}
        return _with_spec(pod, node_selector=selector)


class RequiredNodeAffinityRemoved(ChangeValue, frozen=True):
    """The pod has no required node affinity."""

    @property
    def text(self) -> str:
        return "remove the required node affinity"

    def changed(self, pod: Pod) -> Pod:
        return _with_spec(pod, required_node_terms=None)


class NodeRequired(ChangeValue, frozen=True):
    """The pod requires the node, by a required node affinity for its name."""

    node: str

    @property
    def text(self) -> str:
        return f"pin the pod to it: node affinity, matchFields {NAME_FIELD} In [{self.node}]"

    def changed(self, pod: Pod) -> Pod:
        name = Requirement(key=NAME_FIELD, operator="In", values=(self.node,))
        terms = pod.spec.required_node_terms or (NodeSelectorTerm(),)
        named = tuple(replace(term, fields=(*term.fields, name)) for term in terms)
        return _with_spec(pod, required_node_terms=named)


class HostPortRemoved(ChangeValue, frozen=True):
    """The pod does not open a host port."""

    port: HostPort

    @property
    def text(self) -> str:
        return f"remove the host port {self.port.port}/{self.port.protocol}"

    def changed(self, pod: Pod) -> Pod:
        spec = pod.spec

        def without(container: Container) -> Container:
            kept = tuple(port for port in container.ports if port != self.port)
            return replace(container, ports=kept)

        return _with_spec(
            pod,
            containers=tuple(map(without, spec.containers)),
            init_containers=tuple(map(without, spec.init_containers)),
        )


class TermRemoved(ChangeValue, frozen=True):
    """The pod lacks one of its required terms. ``field`` is that of ``PodSpec`` and ``index`` the
    place in the pod as it is."""

    field: str
    index: int
    topology_key: str

    @property
    def text(self) -> str:
        term = {"required_affinity": "pod affinity", "required_anti_affinity": "pod anti-affinity"}
        return f"remove required {term[self.field]} term {self.index + 1} ({self.topology_key})"

    def changed(self, pod: Pod) -> Pod:
        terms = getattr(pod.spec, self.field)
        return _with_spec(pod, **{self.field: _without(terms, self.index)})


class SpreadConstraintChanged(ChangeValue, frozen=True):
    """A constraint of the pod allows a larger skew, or is not there (``max_skew`` 0)."""

    index: int
    topology_key: str
    max_skew: int = 0

    @property
    def text(self) -> str:
        constraint = f"topology spread constraint {self.index + 1} ({self.topology_key})"
        return (
            f"raise maxSkew of {constraint} to {self.max_skew}"
            if self.max_skew
            else (f"remove {constraint}")
        )

    def changed(self, pod: Pod) -> Pod:
        constraints = pod.spec.spread
        if not self.max_skew:
            return _with_spec(pod, spread=_without(constraints, self.index))
        raised = replace(constraints[self.index], max_skew=self.max_skew)
        spread = (*constraints[: self.index], raised, *constraints[self.index + 1 :])
        return _with_spec(pod, spread=spread)


class PodLabelRemoved(ChangeValue, frozen=True):
    """The pod lacks a label."""

    key: str
    value: str

    @property
    def text(self) -> str:
        return f"remove the pod's label {self.key}={self.value}"

    def changed(self, pod: Pod) -> Pod:
        labels = {key: value for key, value in pod.labels.items() if key != self.key}
        return replace(pod, labels=labels)


class ResourceClaimRemoved(ChangeValue, frozen=True):
    """The pod has no resource claim of a name, and so none of its devices."""

    name: str

    @property
    def text(self) -> str:
        return f"remove the resource claim {self.name}, and with it the devices"

    def changed(self, pod: Pod) -> Pod:
        claims = tuple(name for name in pod.resource_claims if name != self.name)
        return replace(pod, resource_claims=claims)


class PodRemoved(ChangeValue, frozen=True):
    """Another pod is gone. ``evictor_priority`` is that of the pod in question, if it is more
    important and may evict others; else None."""

    uid: str
    full_name: str
    priority: int
    evictor_priority: int | None = None

    @property
    def text(self) -> str:
        evicts = ""
        if self.evictor_priority is not None:
            evicts = f"; preemption may do so for this pod, which has {self.evictor_priority}"
            evicts += ", once nothing else refuses the node"
        return f"remove the pod {self.full_name} (priority {self.priority}{evicts})"


class TaintRemoved(ChangeValue, frozen=True):
    """The node lacks a taint."""

    taint: Taint

    @property
    def text(self) -> str:
        taint = self.taint
        shown = shown_taint(taint.key, taint.value, taint.effect)
        if condition := CONDITIONS.get(taint.key):
            return f"repair the node, which is {condition}: that ends its taint {shown}"
        if taint.key == CORDON:
            return f"uncordon the node: that ends its taint {shown}"
        return f"remove the node's taint {shown}"

    def changed_node(self, node: Node) -> Node:
        return replace(node, taints=tuple(taint for taint in node.taints if taint != self.taint))


class NodeUncordoned(ChangeValue, frozen=True):
    """The node is schedulable."""

    @property
    def text(self) -> str:
        return "uncordon the node"

    def changed_node(self, node: Node) -> Node:
        return replace(node, unschedulable=False)


class NodeLabelSet(ChangeValue, frozen=True):
    """The node has a label."""

    key: str
    value: str

    @property
    def text(self) -> str:
        return f"label the node {self.key}={self.value}"

    def changed_node(self, node: Node) -> Node:
        return replace(node, labels={**node.labels, self.key: self.value})


class WeightChanged(ChangeValue, frozen=True):
    """A score plugin of the pod's profile has another weight."""

    plugin: str
    weight: int
    before: int

    @property
    def text(self) -> str:
        return f"give {self.plugin} the weight {self.weight} instead of {self.before}"


OfPod = (
    RequestLimited | TolerationAdded | NodeSelectorEntryRemoved | RequiredNodeAffinityRemoved
    | NodeRequired | HostPortRemoved | TermRemoved | SpreadConstraintChanged | PodLabelRemoved
    | VolumeRemoved | ResourceClaimRemoved
)  # fmt: skip
OfNode = TaintRemoved | NodeUncordoned | NodeLabelSet
AnyChange = OfPod | OfNode | OfObjects | PodRemoved | WeightChanged


def changed_pod(pod: Pod, changes: Sequence[AnyChange]) -> Pod:
    """The pod with the changes of pods among these. Those with a place in the pod (``index``) are
    applied from the last place on, so that each finds its own."""
    own = [change for change in changes if isinstance(change, OfPod)]
    for change in sorted(own, key=lambda change: -getattr(change, "index", -1)):
        pod = change.changed(pod)
    return pod


def stimuli(node: Node, registry: Registry, changes: Sequence[AnyChange]) -> list[Stimulus]:
    """What an engine observes if the changes of the cluster among these are made. ``registry`` has
    the objects without them."""
    observed: list[Stimulus] = [
        records.PodDeleted(uid=change.uid) for change in changes if isinstance(change, PodRemoved)
    ]
    observed += [
        records.ObjectChanged(object=changed)
        for change in changes
        if isinstance(change, OfObjects)
        for changed in change.changed_objects(registry)
    ]
    changed = node
    for change in changes:
        if isinstance(change, OfNode):
            changed = change.changed_node(changed)
    return observed if changed == node else [*observed, records.NodeUpdated(node=changed)]


def weights(changes: Sequence[AnyChange]) -> dict[str, int]:
    """The changed weights by plugin."""
    return {each.plugin: each.weight for each in changes if isinstance(each, WeightChanged)}


def shown_taint(key: str, value: str, effect: str) -> str:
    """A taint as kubectl writes it: key=value:effect."""
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _with_spec(pod: Pod, **fields: Any) -> Pod:
    return replace(pod, spec=replace(pod.spec, **fields))


def _without(values: tuple[Any, ...], index: int) -> tuple[Any, ...]:
    return values[:index] + values[index + 1 :]


def _limited(spec: PodSpec, resource: str, limit: int) -> PodSpec:
    """A spec that requests at most ``limit`` of a resource, as far as the overhead allows it."""
    rest = max(0, limit - spec.overhead.get(resource, 0))
    requests = spec.requests
    if requests is not None and resource in requests:
        requests = {**requests, resource: min(requests[resource], rest)}
    containers, left = [], rest
    sidecars = 0
    init_containers = []
    for container in spec.init_containers:
        amount = min(container.requests.get(resource, 0), rest - sidecars)
        init_containers.append(_asking(container, resource, amount))
        if container.restarts:
            sidecars += amount
    left -= sidecars
    for container in spec.containers:
        amount = min(container.requests.get(resource, 0), left)
        left -= amount
        containers.append(_asking(container, resource, amount))
    return replace(
        spec,
        containers=tuple(containers),
        init_containers=tuple(init_containers),
        requests=requests,
    )


def _asking(container: Container, resource: str, amount: int) -> Container:
    if container.requests.get(resource, 0) <= amount:
        return container
    return replace(container, requests={**container.requests, resource: amount})
