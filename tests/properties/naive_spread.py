"""Upstream's rules of pod topology spread for one pod and a cluster, in plain Python.

Written from the Go sources (kubernetes v1.36 podtopologyspread/{common,filtering,scoring}.go,
plugins/helper/spread.go), with no code of eventsched but its data classes, and with naive.py's
rules of node affinity and taints. Everything is counted again from the pods on the nodes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eventsched.domain.objects import Node, Pod, Requirement, Selector, SpreadConstraint
from eventsched.domain.objects.registry import (
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

from . import naive
from .naive_selectors import Labels, MalformedError, check, selects

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
SKEWED = "node(s) didn't match pod topology spread constraints"
MISSING = f"{SKEWED} (missing required label)"
LARGEST = 2**31 - 1

Place = tuple[Node, list[Pod]]
Sets = ReplicaSet | StatefulSet | ReplicationController

SYSTEM = (
    SpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    SpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


@dataclass
class World:
    """Nodes with the pods on them, services and sets."""

    places: list[Place]
    services: list[Service]
    sets: list[Sets]


@dataclass(frozen=True)
class Constraint:
    """A topologySpreadConstraint with its selector parsed."""

    given: SpreadConstraint
    selector: Selector

    @property
    def key(self) -> str:
        return self.given.topology_key


def _requirements(labels: Labels) -> tuple[Requirement, ...]:
    return tuple(Requirement(key=k, operator="In", values=(v,)) for k, v in labels.items())


def default_selector(pod: Pod, world: World) -> tuple[Requirement, ...]:
    """DefaultSelector."""
    merged: dict[str, str] = {}
    for service in world.services:
        wanted = service.selector
        if service.namespace == pod.namespace and selects(_requirements(wanted), pod.labels):
            merged.update(wanted)
    owner = pod.owner
    for each in world.sets if owner and not owner.foreign else ():
        same = (each.namespace, each.name) == (pod.namespace, owner.name)
        if not same or type(each).__name__ != owner.kind:
            continue
        if isinstance(each, ReplicationController):
            merged.update({r.key: r.values[0] for r in each.selector or ()})
            return _requirements(merged)
        try:
            check(each.selector)
        except MalformedError:
            continue
        return _requirements(merged) + tuple(each.selector or ())
    return _requirements(merged)


class Attempt:
    """One pod in a world. ``defaults`` are the profile's constraints."""

    def __init__(
        self, world: World, pod: Pod, defaults: Sequence[SpreadConstraint] = SYSTEM
    ) -> None:
        self.world, self.pod = world, pod
        self.whole = bool(pod.spec.spread) or tuple(defaults) != SYSTEM
        self._defaults = defaults

    def constraints(self, action: str) -> list[Constraint]:
        """getConstraints and initPreScoreState."""
        own = self.pod.spec.spread
        found = [self._one(c) for c in own or self._defaults if c.when_unsatisfiable == action]
        if own or not found:
            return found
        selector = default_selector(self.pod, self.world)
        return [replace(each, selector=selector) for each in found] if selector else []

    def _one(self, given: SpreadConstraint) -> Constraint:
        check(given.selector)
        if given.selector is None:
            return Constraint(given, None)
        labels = self.pod.labels
        same = {key: labels[key] for key in given.match_label_keys if key in labels}
        return Constraint(given, _requirements(same) + given.selector)

    # --- nodes ----------------------------------------------------------------------------

    def _included(self, constraint: Constraint, node: Node) -> bool:
        place = naive.Place(node, [])
        if constraint.given.node_affinity_policy == "Honor" and naive.node_affinity(
            self.pod, place
        ):
            return False
        honor = constraint.given.node_taints_policy == "Honor"
        return not (honor and naive.taint_toleration(self.pod, place))

    def _has_all(self, node: Node, constraints: list[Constraint]) -> bool:
        return all(each.key in node.labels for each in constraints)

    def _count(self, constraint: Constraint, pods: list[Pod]) -> int:
        if constraint.selector == ():
            return 0
        return sum(
            not other.deleting
            and other.namespace == self.pod.namespace
            and selects(constraint.selector, other.labels)
            for other in pods
        )

    # --- filter ---------------------------------------------------------------------------

    def refusals(self, node: Node, steps: Sequence[tuple[Pod, int]] = ()) -> str:
        """Filter on a node, after AddPod (1) and RemovePod (-1) of some pods there; "" passes."""
        constraints = self.constraints(HARD)
        counts: list[dict[str, int]] = [{} for _ in constraints]
        for there, pods in self.world.places:
            if not self._has_all(there, constraints):
                continue
            for each, found in zip(constraints, counts, strict=True):
                if self._included(each, there):
                    value = there.labels[each.key]
                    found[value] = found.get(value, 0) + self._count(each, pods)
        paths = [_Paths(found) for found in counts]
        for other, sign in steps:
            self._step(node, other, sign, constraints, paths)
        for each, path in zip(constraints, paths, strict=True):
            if each.key not in node.labels:
                return MISSING
            domains = 1 if each.given.min_domains is None else each.given.min_domains
            least = 0 if len(path.counts) < domains else path.least
            number = path.counts.get(node.labels[each.key], 0)
            if number + selects(each.selector, self.pod.labels) - least > each.given.max_skew:
                return SKEWED
        return ""

    def _step(
        self, node: Node, other: Pod, sign: int, constraints: list[Constraint],
        paths: list["_Paths"],
    ) -> None:  # fmt: skip
        if other.namespace != self.pod.namespace or not self._has_all(node, constraints):
            return
        for each, path in zip(constraints, paths, strict=True):
            if selects(each.selector, other.labels) and self._included(each, node):
                path.add(node.labels[each.key], sign)

    # --- score ----------------------------------------------------------------------------

    def scores(self, nodes: list[Node]) -> list[int | None]:
        """Raw scores of the feasible nodes; None for one that is ignored."""
        constraints = self.constraints(SOFT)
        kept = [n for n in nodes if not self.whole or self._has_all(n, constraints)]
        weights, counts = [], []
        for each in constraints:
            seen = {node.labels.get(each.key, "") for node in kept}
            weights.append(math.log((len(kept) if each.key == HOSTNAME else len(seen)) + 2))
            found = dict.fromkeys(seen, 0)
            for there, pods in self.world.places:
                value = there.labels.get(each.key, "")
                inside = not self.whole or self._has_all(there, constraints)
                if inside and value in found and self._included(each, there):
                    found[value] += self._count(each, pods)
            counts.append(found)
        held = {node.name: pods for node, pods in self.world.places}
        return [
            self._score(node, held[node.name], constraints, counts, weights)
            if node in kept
            else None
            for node in nodes
        ]

    def _score(
        self, node: Node, pods: list[Pod], constraints: list[Constraint],
        counts: list[dict[str, int]], weights: list[float],
    ) -> int:  # fmt: skip
        total = 0.0
        for each, found, weight in zip(constraints, counts, weights, strict=True):
            if each.key in node.labels:
                by_host = each.key == HOSTNAME
                number = self._count(each, pods) if by_host else found[node.labels[each.key]]
                total += number * weight + (each.given.max_skew - 1)
        return math.floor(total + 0.5)


class _Paths:
    """criticalPaths: the two values that matter for the smallest count."""

    def __init__(self, counts: dict[str, int]) -> None:
        self.counts = counts
        self._two: list[tuple[str, int]] = [("", LARGEST), ("", LARGEST)]
        for value, number in counts.items():
            self._update(value, number)

    @property
    def least(self) -> int:
        return self._two[0][1]

    def add(self, value: str, sign: int) -> None:
        self.counts[value] = self.counts.get(value, 0) + sign
        self._update(value, self.counts[value])

    def _update(self, value: str, number: int) -> None:
        two = self._two
        for place in (0, 1):
            if two[place][0] == value:
                two[place] = (value, number)
                if two[0][1] > two[1][1]:
                    two.reverse()
                return
        if number < two[0][1]:
            two[1], two[0] = two[0], (value, number)
        elif number < two[1][1]:
            two[1] = (value, number)
