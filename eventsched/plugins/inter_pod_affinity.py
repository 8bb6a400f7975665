"""InterPodAffinity: pods near to others, or away from them, by the domains of a node label.

Upstream: plugins/interpodaffinity/{plugin,filtering,scoring}.go.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import TrialView
from eventsched.domain.nodes.pod_counts import OwnedTerm, PodQuery, Role
from eventsched.domain.objects import Node, Pod
from eventsched.domain.objects.registry import Namespace
from eventsched.scheduling.config.pluginargs import InterPodAffinityArgs
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
from eventsched.scheduling.rules.topology.affinity import AffinityRules, MalformedTermError, Rules
from eventsched.scheduling.rules.topology.domain_sums import DomainSum, WeightedCounts, domain_sum

Codes = NDArray[np.uint8]

_EXISTING, _ANTI_AFFINITY, _AFFINITY = 1, 2, 3
"""Codes; where more than one rule is broken the largest counts, which upstream looks at first."""
_REASONS = {
    _ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    _EXISTING: "node(s) didn't satisfy existing pods anti-affinity rules",
}


class InterPodAffinity:
    """Filter by required terms: the pod's own, and those of pods on nodes that keep it away. Score
    by preferred terms in both directions, and by the required affinity of pods on nodes.

    It does not sign: any pod's verdict may hang on a term of a pod that is there. Where none does
    and the pod has no terms itself, PreFilter and PreScore skip.
    """

    name = "InterPodAffinity"
    depends_on = DependsOn.NODE | DependsOn.USAGE
    normalization = Normalization.RATIO
    wakes_on = (
        ClusterEvent.ASSIGNED_POD_ADD,
        ClusterEvent.ASSIGNED_POD_UPDATE,
        ClusterEvent.ASSIGNED_POD_DELETE,
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_UPDATE_LABEL,
        ClusterEvent.POD_UPDATE,
    )
    Args = InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs | None = None) -> None:
        self._args = args or InterPodAffinityArgs()
        self._rules = AffinityRules()

    # --- verdicts -------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Nothing to do for a pod without required terms that no pod on a node keeps away."""
        if not _is_concerned(cycle, pod, nodes.table):
            return Status.skip()
        try:
            found = self._surroundings(cycle, pod, nodes.table)
        except MalformedTermError as problem:
            return Status.unresolvable(f"parsing pod: {problem}")
        if found.near or found.away or any(each.touched for each in found.foes.values()):
            return None
        return Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """3 where the pods are not that it must be near to, 2 where some are that it must be away
        from, 1 where some are that must be away from it; None where nothing is in the way."""
        found = self._surroundings(cycle, pod, nodes.table)
        if isinstance(nodes, TrialView):
            return found.codes_of_trial(nodes)
        codes: Codes | None = None
        for label, by_domain in found.codes.items():
            here = by_domain.take(nodes.ids(nodes.table.label(label)))
            codes = here if codes is None else np.maximum(codes, here)
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words."""
        if code == _AFFINITY:
            return Status.unresolvable("node(s) didn't match pod affinity rules")
        return Status.unschedulable(_REASONS[code])

    # --- scores ---------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Nothing to score where no preference concerns a pod in a domain."""
        if not _is_concerned(cycle, pod, nodes.table):
            return Status.skip()
        own = pod.spec.preferred_affinity or pod.spec.preferred_anti_affinity
        if self._args.ignore_preferred_terms_of_existing_pods and not own:
            return Status.skip()
        try:
            gains = self._surroundings(cycle, pod, nodes.table).gains
        except MalformedTermError as problem:
            return Status.error(f"failed to parse pod: {problem}")
        return None if any(each.touched for each in gains) else Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The sum of the weights of all terms that are met in the node's domains, with the pods
        that are there (upstream scores no trials)."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for each in self._surroundings(cycle, pod, nodes.table).gains:
            total += each.of(nodes)
        return total

    def _surroundings(self, cycle: Cycle, pod: Pod, table: NodeTable) -> "_Surroundings":
        """Found once an attempt. Raises MalformedTermError."""
        now = (
            table.node_journal.end, table.usage_journal.end,
            cycle.registry.version(Namespace),
        )  # fmt: skip
        found = cycle.scratch.get(self.name)
        if found is None or found.pod is not pod or found.table is not table or found.time != now:
            rules = self._rules.of(pod, cycle.registry)
            labels = cycle.registry.namespace_labels(pod.namespace)
            hard = self._args.hard_pod_affinity_weight
            found = _Surroundings(pod, table, rules, labels, hard, now)
            cycle.scratch[self.name] = found
        assert isinstance(found, _Surroundings)
        return found

    # --- waking ---------------------------------------------------------------------------

    @staticmethod
    def hint_sign(pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.spec.key, pod.namespace, tuple(sorted(pod.labels.items()))

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Whether a change may let the pod pass. As upstream, a pod's namespace labels do not count
        here, and a malformed term wakes."""
        if change.event is ClusterEvent.POD_UPDATE:
            return change.old_pod is None or change.old_pod.labels != pod.labels
        near = self._rules.terms(pod, Role.REQUIRED)
        away = self._rules.terms(pod, Role.REQUIRED_ANTI)
        if near is None or away is None:
            return True
        if change.event in (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL):
            return _node_helps(near, away, change.node, change.old)
        if change.event is not ClusterEvent.ASSIGNED_POD_DELETE or change.pod is None:
            return _pod_helps(near, away, change)
        theirs = self._rules.terms(change.pod, Role.REQUIRED_ANTI)
        return theirs is None or _about_all(away, change.pod) or _about_all(theirs, pod)


def _is_concerned(cycle: Cycle, pod: Pod, table: NodeTable) -> bool:
    """Whether the pod has terms, or is what terms of pods that are there are about."""
    if pod.spec.has_affinity:
        return True
    tallies, labels = table.tallies, cycle.registry.namespace_labels(pod.namespace)
    return tallies.owning and bool(tallies.about(pod, labels))


class _Surroundings:
    """What the pods on nodes mean for a pod, by the domains of each topology key."""

    def __init__(
        self, pod: Pod, table: NodeTable, rules: Rules, labels: Mapping[str, str],
        hard: int, time: tuple[object, ...],
    ) -> None:  # fmt: skip
        """``labels`` are the namespace's, ``hard`` the weight of required affinity to the pod,
        ``time`` says how long all of this holds."""
        self.pod, self.table, self.time = pod, table, time
        self._rules, self._labels, self._hard = rules, labels, hard
        self._about = table.tallies.about(pod, labels)
        self.near: dict[str, DomainSum] = {}
        if rules.near is not None:
            part = WeightedCounts(rules.near, table.count(rules.near))
            self.near = {label: domain_sum(table, label, (part,)) for label in rules.near_keys}
        self._away: dict[str, list[PodQuery]] = {}
        for label, query in rules.away:
            self._away.setdefault(label, []).append(query)
        self.away = {
            label: domain_sum(
                table, label, (WeightedCounts(each, table.count(each)) for each in queries)
            )
            for label, queries in self._away.items()
        }
        foes = [
            (each.topology_key, WeightedCounts(each, tally))
            for each, tally in self._about
            if each.role is Role.REQUIRED_ANTI
        ]
        self.foes = _by_label(table, foes)

    # --- verdicts -------------------------------------------------------------------------

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """uint8[domains] of each topology key that matters: the code of what is in the way in a
        domain, or for nodes in none."""
        codes: dict[str, Codes] = {}
        for label, each in self.foes.items():
            _raise(codes, label, each.sums > 0, _EXISTING)
        for label, each in self.away.items():
            _raise(codes, label, each.sums > 0, _ANTI_AFFINITY)
        first = self._is_one_of_its_own and not any(each.touched for each in self.near.values())
        for label, each in self.near.items():
            lonely = np.zeros(len(each.sums), dtype=bool) if first else each.sums == 0
            if each.missing >= 0:
                lonely[each.missing] = True
            _raise(codes, label, lonely, _AFFINITY)
        return codes

    def codes_of_trial(self, nodes: TrialView) -> Codes:
        """uint8[n]: the same for rows with other pods than they have, each judged by itself."""
        codes = np.zeros(len(nodes), dtype=np.uint8)
        comers = {term.topology_key for step in nodes.steps for term in self._hostile(step.pod)}
        for label in comers | set(self.foes):
            foes = self.foes.get(label) or domain_sum(self.table, label, ())
            step = nodes.step(partial(self._hostility, label))
            codes[foes.of(nodes, step) > 0] = _EXISTING
        for label, away in self.away.items():
            step = nodes.step(_counter(self._away[label]))
            codes[away.of(nodes, step) > 0] = _ANTI_AFFINITY
        if self.near:
            codes[~self._near_in_trial(nodes)] = _AFFINITY
        return codes

    def _near_in_trial(self, nodes: TrialView) -> NDArray[np.bool_]:
        """bool[n]: whether a node has the labels of all required affinity terms, and in each of
        these domains is a pod that all terms are about; or there is none in any domain and the pod
        itself is one: the first of a group."""
        assert self._rules.near is not None
        step = nodes.step(self._rules.near.counts)
        labelled, met = np.ones((2, len(nodes)), dtype=bool)
        somewhere = np.zeros(len(nodes), dtype=bool)
        for each in self.near.values():
            here, has = each.of(nodes, step), each.has(nodes)
            labelled &= has
            met &= here > 0
            somewhere |= int(each.sums.sum()) + (0 if step is None else step * has) > 0
        if self._is_one_of_its_own:
            met |= ~somewhere
        return labelled & met

    @property
    def _is_one_of_its_own(self) -> bool:
        """Whether all required affinity terms are about the pod itself."""
        return self._rules.near is not None and self._rules.near.counts(self.pod)

    def _hostility(self, label: str, other: Pod) -> int:
        """How many terms by that key a pod has that keep ours away."""
        return sum(each.topology_key == label for each in self._hostile(other))

    def _hostile(self, other: Pod) -> list[OwnedTerm]:
        if not other.spec.required_anti_affinity:
            return []
        return [
            each
            for each in self.table.tallies.terms(other)
            if each.role is Role.REQUIRED_ANTI and each.selects(self.pod, self._labels)
        ]

    # --- scores ---------------------------------------------------------------------------

    @cached_property
    def gains(self) -> list[DomainSum]:
        """What a node's domains are worth, by topology key."""
        parts = [
            (label, WeightedCounts(query, self.table.count(query), weight))
            for label, query, weight in self._rules.wishes
        ]
        for each, tally in self._about:
            if each.role is Role.REQUIRED and self._hard:
                parts.append((each.topology_key, WeightedCounts(each, tally, self._hard)))
            elif each.role is Role.PREFERRED:
                parts.append((each.topology_key, WeightedCounts(each, tally, each.weight)))
            elif each.role is Role.PREFERRED_ANTI:
                parts.append((each.topology_key, WeightedCounts(each, tally, -each.weight)))
        return list(_by_label(self.table, parts).values())


def _counter(queries: list[PodQuery]) -> Callable[[Pod], int]:
    """How many queries count a pod. Each kind of pod is asked about once: a node's pods are few
    kinds, and the queries may be many."""
    known: dict[Hashable, int] = {}

    def counted(pod: Pod) -> int:
        kind = (pod.namespace, pod.deleting, tuple(pod.labels.items()))
        if kind not in known:
            known[kind] = sum(each.counts(pod) for each in queries)
        return known[kind]

    return counted


def _raise(codes: dict[str, Codes], label: str, where: NDArray[np.bool_], code: int) -> None:
    """Takes in a further code for some domains; of two the larger one counts."""
    more = where * np.uint8(code)
    codes[label] = np.maximum(codes[label], more) if label in codes else more


def _by_label(
    table: NodeTable, parts: Iterable[tuple[str, WeightedCounts]]
) -> dict[str, DomainSum]:
    grouped: dict[str, list[WeightedCounts]] = {}
    for label, part in parts:
        grouped.setdefault(label, []).append(part)
    return {label: domain_sum(table, label, each) for label, each in grouped.items()}


def _about_all(terms: tuple[OwnedTerm, ...], other: Pod) -> bool:
    """Whether all terms, of which there are any, are about a pod."""
    return bool(terms) and all(each.selects(other, {}) for each in terms)


def _pod_helps(near: tuple[OwnedTerm, ...], away: tuple[OwnedTerm, ...], change: Change) -> bool:
    """Whether another pod that came or changed may help (upstream: isSchedulableAfterPodChange)."""
    new, old = change.pod, change.old_pod
    if new is None:
        return True
    if change.event is ClusterEvent.ASSIGNED_POD_ADD:
        return _about_all(near, new)
    if old is None:
        return True
    comes = not _about_all(near, old) and _about_all(near, new)
    return comes or (_about_all(away, old) and not _about_all(away, new))


def _node_helps(
    near: tuple[OwnedTerm, ...], away: tuple[OwnedTerm, ...], node: Node | None, old: Node | None
) -> bool:
    """Whether a node that came, or whose labels changed, may help (upstream:
    isSchedulableAfterNodeChange)."""
    if node is None:
        return True
    keys = {each.topology_key for each in near}
    if old is None:
        return bool(away) or any(key in node.labels for key in keys)
    moved = {
        each.topology_key
        for each in near + away
        if node.labels.get(each.topology_key) != old.labels.get(each.topology_key)
    }
    return any(key in node.labels for key in moved & keys) or any(
        each.topology_key in old.labels for each in away if each.topology_key in moved
    )
