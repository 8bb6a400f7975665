"""InterPodAffinity: required and preferred affinity and anti-affinity to other pods,
by the domains of a node label.

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
"""Codes. If several rules are broken the largest code counts, because upstream checks it first."""
_REASONS = {
    _ANTI_AFFINITY: "node(s) didn't match pod anti-affinity rules",
    _EXISTING: "node(s) didn't satisfy existing pods anti-affinity rules",
}


class InterPodAffinity:
    """Filter by required terms: the pod's own, and the anti-affinity of placed pods. Score by
    preferred terms in both directions, and by the required affinity of placed pods.

    There is no signature, because any pod's verdict may depend on a term of a placed pod. If none
    concerns the pod and the pod has no terms, PreFilter and PreScore skip.
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
        """Skips a pod without required terms that no placed pod's anti-affinity selects."""
        if not _is_concerned(cycle, pod, nodes.table):
            return Status.skip()
        try:
            state = self._state(cycle, pod, nodes.table)
        except MalformedTermError as problem:
            return Status.unresolvable(f"parsing pod: {problem}")
        if (
            state.affinity
            or state.anti_affinity
            or any(s.touched for s in state.existing_anti.values())
        ):
            return None
        return Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """3 if the pod's affinity is not met, 2 if its anti-affinity is violated, 1 if a placed
        pod's anti-affinity is; None if all nodes pass."""
        state = self._state(cycle, pod, nodes.table)
        if isinstance(nodes, TrialView):
            return state.trial_codes(nodes)
        codes: Codes | None = None
        for label, by_domain in state.codes.items():
            here = by_domain.take(nodes.ids(nodes.table.label(label)))
            codes = here if codes is None else np.maximum(codes, here)
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        if code == _AFFINITY:
            return Status.unresolvable("node(s) didn't match pod affinity rules")
        return Status.unschedulable(_REASONS[code])

    # --- scores ---------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> Status | None:
        """Skips if no term gives a placed pod's domain a score."""
        if not _is_concerned(cycle, pod, nodes.table):
            return Status.skip()
        own = pod.spec.preferred_affinity or pod.spec.preferred_anti_affinity
        if self._args.ignore_preferred_terms_of_existing_pods and not own:
            return Status.skip()
        try:
            sums = self._state(cycle, pod, nodes.table).score_sums
        except MalformedTermError as problem:
            return Status.error(f"failed to parse pod: {problem}")
        return None if any(domains.touched for domains in sums) else Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """The sum of the weights of all terms that are met in the node's domains. Preemption trials
        are not scored, as upstream."""
        total = np.zeros(len(nodes), dtype=np.int64)
        for sums in self._state(cycle, pod, nodes.table).score_sums:
            total += sums.of(nodes)
        return total

    def _state(self, cycle: Cycle, pod: Pod, table: NodeTable) -> "_AffinityState":
        """Computed once in an attempt. Raises MalformedTermError."""
        version = (
            table.node_journal.end, table.usage_journal.end,
            cycle.registry.version(Namespace),
        )  # fmt: skip
        state = cycle.scratch.get(self.name)
        if (
            state is None
            or state.pod is not pod
            or state.table is not table
            or state.version != version
        ):
            rules = self._rules.of(pod, cycle.registry)
            labels = cycle.registry.namespace_labels(pod.namespace)
            hard = self._args.hard_pod_affinity_weight
            state = _AffinityState(pod, table, rules, labels, hard, version)
            cycle.scratch[self.name] = state
        assert isinstance(state, _AffinityState)
        return state

    # --- hints ----------------------------------------------------------------------------

    @staticmethod
    def hint_sign(pod: Pod) -> Hashable:
        """All that ``hint`` reads of a pod."""
        return pod.spec.key, pod.namespace, tuple(sorted(pod.labels.items()))

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """Whether a change may let the pod pass. As upstream, namespace labels are ignored here,
        and a malformed term wakes the pod."""
        if change.event is ClusterEvent.POD_UPDATE:
            return change.old_pod is None or change.old_pod.labels != pod.labels
        affinity = self._rules.terms(pod, Role.REQUIRED)
        anti_affinity = self._rules.terms(pod, Role.REQUIRED_ANTI)
        if affinity is None or anti_affinity is None:
            return True
        if change.event in (ClusterEvent.NODE_ADD, ClusterEvent.NODE_UPDATE_LABEL):
            return _node_change_helps(affinity, anti_affinity, change.node, change.old)
        if change.event is not ClusterEvent.ASSIGNED_POD_DELETE or change.pod is None:
            return _pod_change_helps(affinity, anti_affinity, change)
        theirs = self._rules.terms(change.pod, Role.REQUIRED_ANTI)
        return theirs is None or _all_select(anti_affinity, change.pod) or _all_select(theirs, pod)


def _is_concerned(cycle: Cycle, pod: Pod, table: NodeTable) -> bool:
    """Whether the pod has terms, or a term of a placed pod selects it."""
    if pod.spec.has_affinity:
        return True
    tallies = table.tallies
    return tallies.owning and bool(
        tallies.about(pod, cycle.registry.namespace_labels(pod.namespace))
    )


class _AffinityState:
    """The counts of placed pods that matter to a pod, by the domains of each topology key."""

    def __init__(
        self, pod: Pod, table: NodeTable, rules: Rules, labels: Mapping[str, str],
        hard: int, version: tuple[object, ...],
    ) -> None:  # fmt: skip
        """``labels`` are those of the pod's namespace; ``hard`` is the weight of placed pods'
        required affinity; ``version`` identifies the nodes, pods and namespaces counted."""
        self.pod, self.table, self.version = pod, table, version
        self._rules, self._labels, self._hard = rules, labels, hard
        self._about = table.tallies.about(pod, labels)
        self.affinity: dict[str, DomainSum] = {}
        if rules.required is not None:
            counts = WeightedCounts(rules.required, table.count(rules.required))
            self.affinity = {
                label: domain_sum(table, label, (counts,)) for label in rules.required_keys
            }
        self._anti_queries: dict[str, list[PodQuery]] = {}
        for label, query in rules.required_anti:
            self._anti_queries.setdefault(label, []).append(query)
        self.anti_affinity = {
            label: domain_sum(
                table, label, (WeightedCounts(query, table.count(query)) for query in queries)
            )
            for label, queries in self._anti_queries.items()
        }
        existing_anti = [
            (term.topology_key, WeightedCounts(term, tally))
            for term, tally in self._about
            if term.role is Role.REQUIRED_ANTI
        ]
        self.existing_anti = _sums_by_label(table, existing_anti)

    # --- verdicts -------------------------------------------------------------------------

    @cached_property
    def codes(self) -> dict[str, Codes]:
        """Topology key → uint8[domains]: the code of the broken rule in each domain, 0 for none.
        Nodes without the label are a domain as well."""
        codes: dict[str, Codes] = {}
        for label, pods in self.existing_anti.items():
            _merge_code(codes, label, pods.sums > 0, _EXISTING)
        for label, pods in self.anti_affinity.items():
            _merge_code(codes, label, pods.sums > 0, _ANTI_AFFINITY)
        # The first pod of a group that selects itself may go to any node with the label.
        is_first = self._matches_itself and not any(pods.touched for pods in self.affinity.values())
        for label, pods in self.affinity.items():
            unmet = np.zeros(len(pods.sums), dtype=bool) if is_first else pods.sums == 0
            if pods.missing >= 0:
                unmet[pods.missing] = True
            _merge_code(codes, label, unmet, _AFFINITY)
        return codes

    def trial_codes(self, nodes: TrialView) -> Codes:
        """uint8[n]: the codes of a trial's rows, each with its own hypothetical pods."""
        codes = np.zeros(len(nodes), dtype=np.uint8)
        step_keys = {
            term.topology_key for step in nodes.steps for term in self._anti_terms_against(step.pod)
        }
        for label in step_keys | set(self.existing_anti):
            pods = self.existing_anti.get(label) or domain_sum(self.table, label, ())
            step = nodes.step(partial(self._anti_count, label))
            codes[pods.of(nodes, step) > 0] = _EXISTING
        for label, pods in self.anti_affinity.items():
            step = nodes.step(_count_matches(self._anti_queries[label]))
            codes[pods.of(nodes, step) > 0] = _ANTI_AFFINITY
        if self.affinity:
            codes[~self._affinity_met_in_trial(nodes)] = _AFFINITY
        return codes

    def _affinity_met_in_trial(self, nodes: TrialView) -> NDArray[np.bool_]:
        """bool[n]: whether a node has the labels of all required affinity terms, and each of its
        domains has a pod that all terms select. If no domain has one, the pod itself may be it: the
        first of a group."""
        assert self._rules.required is not None
        step = nodes.step(self._rules.required.counts)
        labelled, met = np.ones((2, len(nodes)), dtype=bool)
        met_anywhere = np.zeros(len(nodes), dtype=bool)
        for pods in self.affinity.values():
            here, has = pods.of(nodes, step), pods.has(nodes)
            labelled &= has
            met &= here > 0
            met_anywhere |= int(pods.sums.sum()) + (0 if step is None else step * has) > 0
        if self._matches_itself:
            met |= ~met_anywhere
        return labelled & met

    @property
    def _matches_itself(self) -> bool:
        """Whether all required affinity terms select the pod itself."""
        return self._rules.required is not None and self._rules.required.counts(self.pod)

    def _anti_count(self, label: str, other: Pod) -> int:
        """How many anti-affinity terms with this key another pod has against this pod."""
        return sum(term.topology_key == label for term in self._anti_terms_against(other))

    def _anti_terms_against(self, other: Pod) -> list[OwnedTerm]:
        if not other.spec.required_anti_affinity:
            return []
        return [
            term
            for term in self.table.tallies.terms(other)
            if term.role is Role.REQUIRED_ANTI and term.selects(self.pod, self._labels)
        ]

    # --- scores ---------------------------------------------------------------------------

    @cached_property
    def score_sums(self) -> list[DomainSum]:
        """The weighted sums over the domains, one for each topology key."""
        weighted_counts = [
            (label, WeightedCounts(query, self.table.count(query), weight))
            for label, query, weight in self._rules.preferred
        ]
        for term, tally in self._about:
            if term.role is Role.REQUIRED and self._hard:
                weight = self._hard
            elif term.role is Role.PREFERRED:
                weight = term.weight
            elif term.role is Role.PREFERRED_ANTI:
                weight = -term.weight
            else:
                continue
            weighted_counts.append((term.topology_key, WeightedCounts(term, tally, weight)))
        return list(_sums_by_label(self.table, weighted_counts).values())


def _count_matches(queries: list[PodQuery]) -> Callable[[Pod], int]:
    """How many queries count a pod. Cached by what queries read of a pod: a node's pods are of few
    kinds, and there may be many queries."""
    known: dict[Hashable, int] = {}

    def counted(pod: Pod) -> int:
        kind = (pod.namespace, pod.deleting, tuple(pod.labels.items()))
        if kind not in known:
            known[kind] = sum(query.counts(pod) for query in queries)
        return known[kind]

    return counted


def _merge_code(codes: dict[str, Codes], label: str, where: NDArray[np.bool_], code: int) -> None:
    """Sets a code for some domains; the larger of two codes counts."""
    more = where * np.uint8(code)
    codes[label] = np.maximum(codes[label], more) if label in codes else more


def _sums_by_label(
    table: NodeTable, weighted_counts: Iterable[tuple[str, WeightedCounts]]
) -> dict[str, DomainSum]:
    grouped: dict[str, list[WeightedCounts]] = {}
    for label, part in weighted_counts:
        grouped.setdefault(label, []).append(part)
    return {label: domain_sum(table, label, counts) for label, counts in grouped.items()}


def _all_select(terms: tuple[OwnedTerm, ...], other: Pod) -> bool:
    """Whether there are terms and all of them select a pod."""
    return bool(terms) and all(term.selects(other, {}) for term in terms)


def _pod_change_helps(
    affinity: tuple[OwnedTerm, ...], anti_affinity: tuple[OwnedTerm, ...], change: Change
) -> bool:
    """Whether a new or changed pod may help (upstream: isSchedulableAfterPodChange)."""
    new, old = change.pod, change.old_pod
    if new is None:
        return True
    if change.event is ClusterEvent.ASSIGNED_POD_ADD:
        return _all_select(affinity, new)
    if old is None:
        return True
    begins = not _all_select(affinity, old) and _all_select(affinity, new)
    return begins or (_all_select(anti_affinity, old) and not _all_select(anti_affinity, new))


def _node_change_helps(
    affinity: tuple[OwnedTerm, ...],
    anti_affinity: tuple[OwnedTerm, ...],
    node: Node | None,
    old: Node | None,
) -> bool:
    """Whether a new node, or one with changed labels, may help (upstream:
    isSchedulableAfterNodeChange)."""
    if node is None:
        return True
    keys = {term.topology_key for term in affinity}
    if old is None:
        return bool(anti_affinity) or any(key in node.labels for key in keys)
    changed_keys = {
        term.topology_key
        for term in affinity + anti_affinity
        if node.labels.get(term.topology_key) != old.labels.get(term.topology_key)
    }
    return any(key in node.labels for key in changed_keys & keys) or any(
        term.topology_key in old.labels
        for term in anti_affinity
        if term.topology_key in changed_keys
    )
