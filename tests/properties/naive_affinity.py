"""Upstream's rules of inter-pod affinity for one pod and a cluster, in plain Python.

Written from the Go sources (kubernetes v1.36 interpodaffinity/{plugin,filtering,scoring}.go,
kube-scheduler framework/types.go), with no code of eventsched but its data classes. Everything is
counted again from the pods on the nodes.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eventsched.domain.objects import AffinityTerm, Node, Pod, Selector

from .naive_selectors import Labels, MalformedError, check, selects

SKIP, MALFORMED = "skip", "malformed"
AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

Pairs = Counter[tuple[str, str]]


@dataclass
class World:
    """Nodes with the pods on them, and the labels of namespaces."""

    places: list[tuple[Node, list[Pod]]]
    namespaces: Mapping[str, Labels] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """AffinityTerm, processed."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    key: str
    weight: int = 0

    def matches(self, pod: Pod, namespace_labels: Labels) -> bool:
        inside = pod.namespace in self.namespaces
        return (inside or selects(self.namespace_selector, namespace_labels)) and selects(
            self.selector, pod.labels
        )


def _term(pod: Pod, term: AffinityTerm, weight: int = 0) -> Term:
    check(term.selector)
    check(term.namespace_selector)
    names = set(term.namespaces)
    if not term.namespaces and term.namespace_selector is None:
        names = {pod.namespace}
    return Term(frozenset(names), term.namespace_selector, term.selector, term.topology_key, weight)


def _merged(term: Term, world: World) -> Term:
    if term.namespace_selector == ():
        return term
    more = {n for n, labels in world.namespaces.items() if selects(term.namespace_selector, labels)}
    return Term(term.namespaces | more, None, term.selector, term.key, term.weight)


@dataclass
class Info:
    """PodInfo: a role with a malformed term has none at all."""

    near: list[Term] = field(default_factory=list)
    away: list[Term] = field(default_factory=list)
    likes: list[Term] = field(default_factory=list)
    dislikes: list[Term] = field(default_factory=list)
    malformed: bool = False

    @property
    def has_terms(self) -> bool:
        return bool(self.near or self.away or self.likes or self.dislikes)


def info_of(pod: Pod) -> Info:
    found, spec = Info(), pod.spec
    roles = (
        (found.near, [(term, 0) for term in spec.required_affinity]),
        (found.away, [(term, 0) for term in spec.required_anti_affinity]),
        (found.likes, [(each.term, each.weight) for each in spec.preferred_affinity]),
        (found.dislikes, [(each.term, each.weight) for each in spec.preferred_anti_affinity]),
    )
    for terms, given in roles:
        try:
            made = [_term(pod, term, weight) for term, weight in given]
        except MalformedError:
            found.malformed = True
        else:
            terms += made
    return found


class Attempt:
    """What PreFilter and PreScore find of a pod."""

    def __init__(self, world: World, pod: Pod, hard: int = 1, ignore: bool = False) -> None:
        self.world, self.pod = world, pod
        self.info = info_of(pod)
        self.near = [_merged(each, world) for each in self.info.near]
        self.away = [_merged(each, world) for each in self.info.away]
        self.labels = world.namespaces.get(pod.namespace, {})
        self.existing: Pairs = Counter()
        self.near_counts: Pairs = Counter()
        self.away_counts: Pairs = Counter()
        for node, pods in world.places:
            for other in pods:
                self.update(node, other, 1)
        self._hard, self._ignore = hard, ignore

    def update(self, node: Node, other: Pod, sign: int) -> None:
        """AddPod and RemovePod."""
        for term in info_of(other).away:
            if term.matches(self.pod, self.labels):
                _count(self.existing, node, term.key, sign)
        if self._is_near(other):
            for term in self.near:
                _count(self.near_counts, node, term.key, sign)
        for term in self.away:
            if term.matches(other, {}):
                _count(self.away_counts, node, term.key, sign)

    def _is_near(self, other: Pod) -> bool:
        return bool(self.near) and all(each.matches(other, {}) for each in self.near)

    @property
    def pre_filter(self) -> str:
        """ "" where nodes are to be looked at."""
        if self.info.malformed:
            return MALFORMED
        return "" if self.existing or self.near or self.away else SKIP

    def refusal(self, node: Node) -> str:
        """Filter's reason, "" where it passes."""
        exist = True
        for term in self.near:
            if term.key not in node.labels:
                return AFFINITY
            if self.near_counts[term.key, node.labels[term.key]] <= 0:
                exist = False
        if not exist and (any(self.near_counts.values()) or not self._is_near(self.pod)):
            return AFFINITY
        for term in self.away:
            if self.away_counts[term.key, node.labels.get(term.key, "")] > 0:
                return ANTI_AFFINITY
        if any(self.existing[pair] > 0 for pair in node.labels.items()):
            return EXISTING
        return ""

    def tried(self, node: Node, steps: Sequence[tuple[Pod, int]]) -> str:
        """Filter's reason after pods came to the node or left it."""
        for other, sign in steps:
            self.update(node, other, sign)
        found = self.refusal(node)
        for other, sign in steps:
            self.update(node, other, -sign)
        return found

    def worth(self) -> Pairs | str:
        """The topology scores, or why there are none."""
        spec = self.pod.spec
        if self._ignore and not (spec.preferred_affinity or spec.preferred_anti_affinity):
            return SKIP
        if self.info.malformed:
            return MALFORMED
        found: Pairs = Counter()
        for node, pods in self.world.places:
            for other in pods:
                self._process(found, node, other)
        return found or SKIP

    def _process(self, found: Pairs, node: Node, other: Pod) -> None:
        for terms, sign in ((self.info.likes, 1), (self.info.dislikes, -1)):
            for term in terms:
                if _merged(term, self.world).matches(other, {}):
                    _score(found, node, term.key, sign * term.weight)
        theirs = info_of(other)
        rewarded = [(term, self._hard) for term in theirs.near if self._hard]
        rewarded += [(term, term.weight) for term in theirs.likes]
        rewarded += [(term, -term.weight) for term in theirs.dislikes]
        for term, weight in rewarded:
            if term.matches(self.pod, self.labels):
                _score(found, node, term.key, weight)


def score(worth: Pairs, node: Node) -> int:
    return sum(worth[pair] for pair in node.labels.items() if pair in worth)


def _count(pairs: Pairs, node: Node, key: str, sign: int) -> None:
    if key in node.labels:
        pair = (key, node.labels[key])
        pairs[pair] += sign
        if not pairs[pair]:
            del pairs[pair]


def _score(pairs: Pairs, node: Node, key: str, weight: int) -> None:
    if key in node.labels:
        pairs[key, node.labels[key]] += weight
