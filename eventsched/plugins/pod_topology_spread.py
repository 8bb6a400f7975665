"""PodTopologySpread: spreads similar pods over zones, nodes or other topology domains.

Upstream: plugins/podtopologyspread/{plugin,common,filtering,scoring}.go. Counts of pods and their
sums by domain are updated with each placement (domain/nodes/pod_counts.py). So the cost for a pod
depends on the domains and nodes, not on the number of pods.
"""

from collections.abc import Callable, Hashable
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.journal import Rows
from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.objects import Pod
from eventsched.domain.objects.selectors import selects
from eventsched.domain.records.verdicts import IGNORED
from eventsched.scheduling.config.pluginargs import PodTopologySpreadArgs
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
from eventsched.scheduling.rules.topology.eligibility import EVERYWHERE, TopologyDomains
from eventsched.scheduling.rules.topology.spread_plans import Plans, Rule, SpreadPlan
from eventsched.scheduling.rules.topology.spreading import (
    HOSTNAME,
    SYSTEM,
    Constraint,
    listed,
    size_weight,
)

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_MISSING, _SKEWED = 1, 2
_NOT_MATCHED = "node(s) didn't match pod topology spread constraints"
_NO_DOMAIN = 2**31 - 1
"""The smallest count if there is no domain (upstream: newCriticalPaths)."""


class PodTopologySpread:
    """Filter by constraints with DoNotSchedule, Score by those with ScheduleAnyway. Pods without
    constraints get the defaults if they belong to a service or a controller."""

    name = "PodTopologySpread"
    depends_on = DependsOn.NODE | DependsOn.USAGE
    normalization = Normalization.SPREAD
    wakes_on = (
        ClusterEvent.ASSIGNED_POD_ADD,
        ClusterEvent.ASSIGNED_POD_UPDATE,
        ClusterEvent.ASSIGNED_POD_DELETE,
        ClusterEvent.POD_UPDATE,
        ClusterEvent.NODE_ADD,
        ClusterEvent.NODE_DELETE,
        ClusterEvent.NODE_UPDATE_LABEL,
        ClusterEvent.NODE_UPDATE_TAINT,
    )
    Args = PodTopologySpreadArgs

    def __init__(self, args: PodTopologySpreadArgs | None = None) -> None:
        args = args or PodTopologySpreadArgs()
        system = args.defaulting_type == "System"
        defaults = SYSTEM if system else listed(args.default_constraints)
        self._plans = Plans(defaults, system=system)
        self._topologies: WeakKeyDictionary[NodeTable, TopologyDomains] = WeakKeyDictionary()

    def sign(self, pod: Pod) -> Hashable:
        """None for pods with constraints or possible defaults; the same for all others."""
        return None if self._plans.concern(pod) else ()

    # --- verdicts -------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView | None) -> Status | None:
        """Skips without hard constraints; an error if one is malformed."""
        plan = self._plan(cycle, pod)
        if plan.hard_problem:
            return Status.error(f"get constraints from pod: {plan.hard_problem}")
        return None if plan.hard else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """1 if a topology label is missing, 2 if the skew would be too large: the code of the first
        constraint that is not met."""
        codes: Int64s | None = None
        for rule in self._plan(cycle, pod).hard:
            rule_codes = self._codes(rule, pod, nodes)
            if rule_codes is None:
                continue
            codes = rule_codes if codes is None else np.where(codes, codes, rule_codes)
            if codes.all():
                break
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """The reason, in upstream's words."""
        if code == _MISSING:
            return Status.unresolvable(f"{_NOT_MATCHED} (missing required label)")
        return Status.unschedulable(_NOT_MATCHED)

    def _codes(self, rule: Rule, pod: Pod, nodes: NodeView) -> Int64s | None:
        """int64[n]: the codes of one constraint; None if all rows meet it."""
        table, constraint = nodes.table, rule.constraint
        topology = self._topology(table)
        column = table.label(constraint.topology_key)
        sums = self._sums(rule, table)
        inhabited = topology.inhabited(table, rule.where, constraint.topology_key)
        absent = column.number(None)
        steps = nodes.step(_step_counter(pod, constraint)) if nodes.trial else None
        if steps is not None and steps.any():
            ids = column.ids[nodes.rows]
            steps *= topology.eligible(table, rule.where)[nodes.rows]
            least = _smallest_with_steps(sums, inhabited, ids, steps)
            if len(inhabited) < constraint.min_domains:
                least[:] = 0
            skewed = sums[ids] + steps + rule.own - least > constraint.max_skew
            return np.where(ids == absent, _MISSING, np.where(skewed, _SKEWED, 0))
        enough = len(inhabited) >= constraint.min_domains
        smallest = _smallest(sums, inhabited) if enough else 0
        codes = np.where(sums + (rule.own - smallest) > constraint.max_skew, _SKEWED, 0)
        if absent >= 0:
            codes[absent] = _MISSING
        return codes[column.ids[nodes.rows]] if codes.any() else None

    # --- scores ---------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: Pod, nodes: NodeView | None) -> Status | None:
        """Skips without soft constraints; an error if one is malformed."""
        plan = self._plan(cycle, pod)
        if plan.soft_problem:
            return Status.error(f"calculating preScoreState: {plan.soft_problem}")
        return None if plan.soft else Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """int64[n]: the weighted number of pods in a node's domains, rounded; IGNORED for a node
        that lacks a label. ``nodes`` are all feasible nodes. Raises ValueError if normalised scores
        would be below 0, which only a maxSkew below 1 can cause."""
        plan, table = self._plan(cycle, pod), nodes.table
        scored = _with_all_labels(plan, table, nodes) if plan.whole else None
        if len(plan.soft) == 1 and plan.whole and plan.soft[0].constraint.topology_key != HOSTNAME:
            ids, by_domain = self._by_domain(plan.soft[0], nodes, scored, blank=False)
            scores = _rounded(by_domain)[ids]
        else:
            total = np.zeros(len(nodes), dtype=np.float64)
            for rule in plan.soft:
                total += self._rule_score(rule, nodes, scored, whole=plan.whole)
            scores = _rounded(total)
        if any(rule.constraint.max_skew < 1 for rule in plan.soft):
            scores = _with_invalid_skew(scores, scores if scored is None else scores[scored])
        if scored is not None:
            scores[~scored] = IGNORED
        return scores

    def _rule_score(
        self, rule: Rule, nodes: NodeView, scored: Bools | None, *, whole: bool
    ) -> Floats:
        """float64[n]: the score of one constraint. For the hostname the node's own pods are
        counted, without regard to eligibility. A node without the label gets 0."""
        table, constraint = nodes.table, rule.constraint
        if constraint.topology_key == HOSTNAME:
            size = len(nodes) if scored is None else int(np.count_nonzero(scored))
            counts = 0 if rule.query is None else table.count(rule.query).column[nodes.rows]
            scores = _score_of_counts(counts, constraint, size)
            scores = np.broadcast_to(scores, (len(nodes),))
        else:
            ids, by_domain = self._by_domain(rule, nodes, scored, blank=not whole)
            scores = by_domain[ids]
        column = table.label(constraint.topology_key)
        absent = -1 if whole else column.number(None)
        return scores if absent < 0 else np.where(column.ids[nodes.rows] == absent, 0.0, scores)

    def _by_domain(
        self, rule: Rule, nodes: NodeView, scored: Bools | None, *, blank: bool
    ) -> tuple[Rows, Floats]:
        """intp[n], the domain of each row, and float64[domains], the constraint's score there. With
        ``blank``, nodes without the label share the domain of nodes with an empty value."""
        table, label = nodes.table, rule.constraint.topology_key
        ids = table.label(label, blank=blank).ids[nodes.rows]
        if scored is None and len(nodes) == table.live:
            size = len(self._topology(table).inhabited(table, EVERYWHERE, label, blank=blank))
        else:
            size = int(np.count_nonzero(np.bincount(ids if scored is None else ids[scored])))
        return ids, _score_of_counts(self._sums(rule, table, blank=blank), rule.constraint, size)

    # --- hints ----------------------------------------------------------------------------

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """True for a node with the topology labels that is added, deleted, or changed in them or in
        its taints; for a counted pod that is added, deleted or relabelled; and for a new
        toleration of the pod."""
        plan = self._plan(cycle, pod)
        if plan.hard_problem:
            return True
        constraints = [rule.constraint for rule in plan.hard]
        if change.pod is None:
            return _node_change_matters(change, [c.topology_key for c in constraints])
        return _pod_change_matters(change, pod, constraints)

    # --- caches ---------------------------------------------------------------------------

    def _plan(self, cycle: Cycle, pod: Pod) -> SpreadPlan:
        """The pod's rules, looked up once in an attempt."""
        cached = cycle.scratch.get(self.name)
        if cached is not None and cached[0] is pod:
            plan: SpreadPlan = cached[1]
            return plan
        plan = self._plans.find(cycle.registry, pod)
        cycle.scratch[self.name] = (pod, plan)
        return plan

    def _sums(self, rule: Rule, table: NodeTable, *, blank: bool = False) -> Int64s:
        """int64[domains]: the number of pods that a rule counts for each value of its label."""
        label = rule.constraint.topology_key
        if rule.query is None:
            return np.zeros(len(table.label(label, blank=blank).values), dtype=np.int64)
        eligible = self._topology(table).eligible(table, rule.where)
        tally = table.count(rule.query)
        return table.domain_sums((rule.query, rule.where), tally, label, eligible, blank=blank)

    def _topology(self, table: NodeTable) -> TopologyDomains:
        topology = self._topologies.get(table)
        if topology is None:
            topology = self._topologies[table] = TopologyDomains()
        return topology


def _with_all_labels(plan: SpreadPlan, table: NodeTable, nodes: NodeView) -> Bools | None:
    """bool[n]: which nodes have the labels of all soft constraints; None if all do."""
    labelled: Bools | None = None
    for rule in plan.soft:
        column = table.label(rule.constraint.topology_key)
        absent = column.number(None)
        if absent >= 0:
            has = column.ids[nodes.rows] != absent
            labelled = has if labelled is None else labelled & has
    return None if labelled is None or labelled.all() else labelled


def _score_of_counts(counts: Int64s | int, constraint: Constraint, size: int) -> Floats:
    """The score of counts of pods in a topology of ``size`` domains (upstream: scoring.go
    scoreForCount). A larger maxSkew makes differences matter less."""
    return np.asarray(counts * size_weight(size) + float(constraint.max_skew - 1))


def _rounded(scores: Floats) -> Int64s:
    """The nearest integers; halves are rounded away from 0, as in Go's math.Round."""
    rounded = scores.astype(np.int64)
    rest = scores - rounded
    rounded += rest >= 0.5
    if rest.min(initial=0.0) <= -0.5:
        rounded -= rest <= -0.5
    return rounded


def _with_invalid_skew(scores: Int64s, scored: Int64s) -> Int64s:
    """int64[n]: the scores with a maxSkew below 1, which no API server accepts. ``scored`` are the
    scores of nodes that are not ignored. As upstream, -1 means ignored, and other negative scores
    become 0 (100 once normalised) if no score is positive. Raises ValueError if both signs
    occur."""
    if scored.min(initial=0) < 0 < scored.max(initial=0):
        raise ValueError("the scores of some nodes are below 0, because a maxSkew is below 1")
    return np.where(scores < IGNORED, 0, scores)


def _smallest(sums: Int64s, inhabited: Rows) -> int:
    if not len(inhabited):
        return _NO_DOMAIN
    return int(sums.min() if len(inhabited) == len(sums) else sums[inhabited].min())


def _smallest_with_steps(sums: Int64s, inhabited: Rows, ids: Rows, steps: Int64s) -> Int64s:
    """int64[n]: the smallest sum over the inhabited domains, with each row's step added to its own
    domain (upstream: filtering.go criticalPaths)."""
    first, smallest, second = -1, _NO_DOMAIN, _NO_DOMAIN
    if len(inhabited):
        inhabited_sums = sums[inhabited]
        place = int(inhabited_sums.argmin())
        first, smallest = int(inhabited[place]), int(inhabited_sums[place])
        second = int(np.delete(inhabited_sums, place).min(initial=_NO_DOMAIN))
    others = np.where(ids == first, second, smallest)
    return np.where(np.isin(ids, inhabited), np.minimum(others, sums[ids] + steps), smallest)


def _step_counter(pod: Pod, constraint: Constraint) -> Callable[[Pod], int]:
    """What another pod adds to a constraint's counts in a trial. A pod that is being deleted counts
    too, and so does an empty selector (upstream: filtering.go updateWithPod)."""
    return lambda other: int(
        other.namespace == pod.namespace and selects(constraint.selector, other.labels)
    )


def _node_change_matters(change: Change, labels: list[str]) -> bool:
    """Whether a node's change may help (upstream: plugin.go isSchedulableAfterNodeChange)."""
    had = change.old is not None and all(label in change.old.labels for label in labels)
    has = change.node is not None and all(label in change.node.labels for label in labels)
    if change.old is None or change.node is None:
        return had or has
    changed = any(change.old.labels.get(label) != change.node.labels.get(label) for label in labels)
    return had != has or (has and (changed or change.old.taints != change.node.taints))


def _pod_change_matters(change: Change, pod: Pod, constraints: list[Constraint]) -> bool:
    """Whether a pod's change may help (upstream: plugin.go isSchedulableAfterPodChange)."""
    other, old = change.pod, change.old_pod
    assert other is not None
    if other.uid != pod.uid and other.namespace != pod.namespace:
        return False

    def counts(labels: dict[str, str]) -> list[bool]:
        return [selects(c.selector, labels) for c in constraints]

    if change.event in (ClusterEvent.ASSIGNED_POD_ADD, ClusterEvent.ASSIGNED_POD_DELETE):
        return any(counts(other.labels))
    if old is None:
        return True
    tolerates_otherwise = other.spec.tolerations != old.spec.tolerations
    if other.uid == pod.uid and tolerates_otherwise and any(c.honors_taints for c in constraints):
        return True
    return counts(old.labels) != counts(other.labels)
