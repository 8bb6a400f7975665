"""PodTopologySpread: pods that are alike are spread over zones, nodes or other topology domains.

Upstream: plugins/podtopologyspread/{plugin,common,filtering,scoring}.go. Counts of pods and their
sums by domain follow each placement (domain/nodes/pod_counts.py), so that a pod costs a few steps
over the domains and one over the nodes, however many pods there are.
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
"""The smallest count where there is no domain (upstream: newCriticalPaths)."""


class PodTopologySpread:
    """Filter by constraints with DoNotSchedule, Score by those with ScheduleAnyway; pods without
    any get the default ones, where they belong to a service or a set."""

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
        """Nothing for pods that are to be spread or may be; the same for all others."""
        return None if self._plans.concern(pod) else ()

    # --- verdicts -------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: Pod, nodes: NodeView | None) -> Status | None:
        """Skip without hard constraints; an error for a malformed one."""
        plan = self._plan(cycle, pod)
        if plan.hard_problem:
            return Status.error(f"get constraints from pod: {plan.hard_problem}")
        return None if plan.hard else Status.skip()

    def filter(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn | None:
        """1 where a topology label is missing, 2 where the skew would be too large; of the first
        constraint that is not met."""
        codes: Int64s | None = None
        for rule in self._plan(cycle, pod).hard:
            found = self._codes(rule, pod, nodes)
            if found is None:
                continue
            codes = found if codes is None else np.where(codes, codes, found)
            if codes.all():
                break
        return codes

    def explain(self, cycle: Cycle, pod: Pod, code: int) -> Status:
        """Upstream's words."""
        if code == _MISSING:
            return Status.unresolvable(f"{_NOT_MATCHED} (missing required label)")
        return Status.unschedulable(_NOT_MATCHED)

    def _codes(self, rule: Rule, pod: Pod, nodes: NodeView) -> Int64s | None:
        """int64[n] verdicts of one constraint; None where all rows meet it."""
        table, constraint = nodes.table, rule.constraint
        topology = self._topology(table)
        column = table.label(constraint.topology_key)
        sums = self._sums(rule, table)
        inhabited = topology.inhabited(table, rule.where, constraint.topology_key)
        absent = column.number(None)
        steps = nodes.step(_counting(pod, constraint)) if nodes.trial else None
        if steps is not None and steps.any():
            ids = column.ids[nodes.rows]
            steps *= topology.eligible(table, rule.where)[nodes.rows]
            least = _least_with(sums, inhabited, ids, steps)
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
        """Skip without soft constraints; an error for a malformed one."""
        plan = self._plan(cycle, pod)
        if plan.soft_problem:
            return Status.error(f"calculating preScoreState: {plan.soft_problem}")
        return None if plan.soft else Status.skip()

    def score(self, cycle: Cycle, pod: Pod, nodes: NodeView) -> IntColumn:
        """int64[n]: the pods there are in a node's domains, weighed and rounded; IGNORED for a node
        without all labels. ``nodes`` are all that are feasible. Raises ValueError for scores that
        normalise to less than 0, which only a maxSkew below 1 can lead to."""
        plan, table = self._plan(cycle, pod), nodes.table
        scored = _labelled(plan, table, nodes) if plan.whole else None
        if len(plan.soft) == 1 and plan.whole and plan.soft[0].constraint.topology_key != HOSTNAME:
            ids, by_domain = self._by_domain(plan.soft[0], nodes, scored, blank=False)
            found = _rounded(by_domain)[ids]
        else:
            total = np.zeros(len(nodes), dtype=np.float64)
            for rule in plan.soft:
                total += self._weighed(rule, nodes, scored, whole=plan.whole)
            found = _rounded(total)
        if any(rule.constraint.max_skew < 1 for rule in plan.soft):
            found = _with_odd_skew(found, found if scored is None else found[scored])
        if scored is not None:
            found[~scored] = IGNORED
        return found

    def _weighed(self, rule: Rule, nodes: NodeView, scored: Bools | None, *, whole: bool) -> Floats:
        """float64[n]: what one constraint adds. On the hostname the node's own pods are counted,
        whatever makes nodes eligible; a node without the label gets nothing."""
        table, constraint = nodes.table, rule.constraint
        if constraint.topology_key == HOSTNAME:
            size = len(nodes) if scored is None else int(np.count_nonzero(scored))
            counts = 0 if rule.query is None else table.count(rule.query).column[nodes.rows]
            found = _credit(counts, constraint, size)
            found = np.broadcast_to(found, (len(nodes),))
        else:
            ids, by_domain = self._by_domain(rule, nodes, scored, blank=not whole)
            found = by_domain[ids]
        column = table.label(constraint.topology_key)
        absent = -1 if whole else column.number(None)
        return found if absent < 0 else np.where(column.ids[nodes.rows] == absent, 0.0, found)

    def _by_domain(
        self, rule: Rule, nodes: NodeView, scored: Bools | None, *, blank: bool
    ) -> tuple[Rows, Floats]:
        """intp[n], each row's domain, and float64[domains], what the constraint adds there. With
        ``blank``, nodes without the label are a domain too, the same as those where it is empty."""
        table, label = nodes.table, rule.constraint.topology_key
        ids = table.label(label, blank=blank).ids[nodes.rows]
        if scored is None and len(nodes) == table.live:
            size = len(self._topology(table).inhabited(table, EVERYWHERE, label, blank=blank))
        else:
            size = int(np.count_nonzero(np.bincount(ids if scored is None else ids[scored])))
        return ids, _credit(self._sums(rule, table, blank=blank), rule.constraint, size)

    # --- waking ---------------------------------------------------------------------------

    def hint(self, cycle: Cycle, pod: Pod, change: Change) -> bool:
        """A node with the topology labels that comes, goes or changes in them or in its taints; a
        pod that counts and comes, goes or changes in its labels; a toleration of the pod's own."""
        plan = self._plan(cycle, pod)
        if plan.hard_problem:
            return True
        constraints = [rule.constraint for rule in plan.hard]
        if change.pod is None:
            return _node_matters(change, [each.topology_key for each in constraints])
        return _pod_matters(change, pod, constraints)

    # --- what is kept ---------------------------------------------------------------------

    def _plan(self, cycle: Cycle, pod: Pod) -> SpreadPlan:
        """The pod's rules; looked up once an attempt."""
        asked = cycle.scratch.get(self.name)
        if asked is not None and asked[0] is pod:
            plan: SpreadPlan = asked[1]
            return plan
        plan = self._plans.find(cycle.registry, pod)
        cycle.scratch[self.name] = (pod, plan)
        return plan

    def _sums(self, rule: Rule, table: NodeTable, *, blank: bool = False) -> Int64s:
        """int64[domains]: the pods that a rule counts in each value of its topology label."""
        label = rule.constraint.topology_key
        if rule.query is None:
            return np.zeros(len(table.label(label, blank=blank).values), dtype=np.int64)
        eligible = self._topology(table).eligible(table, rule.where)
        tally = table.count(rule.query)
        return table.domain_sums((rule.query, rule.where), tally, label, eligible, blank=blank)

    def _topology(self, table: NodeTable) -> TopologyDomains:
        found = self._topologies.get(table)
        if found is None:
            found = self._topologies[table] = TopologyDomains()
        return found


def _labelled(plan: SpreadPlan, table: NodeTable, nodes: NodeView) -> Bools | None:
    """bool[n]: which nodes have the labels of all soft constraints; None where all do."""
    found: Bools | None = None
    for rule in plan.soft:
        column = table.label(rule.constraint.topology_key)
        absent = column.number(None)
        if absent >= 0:
            has = column.ids[nodes.rows] != absent
            found = has if found is None else found & has
    return None if found is None or found.all() else found


def _credit(counts: Int64s | int, constraint: Constraint, size: int) -> Floats:
    """What counts of pods are worth in a topology of so many domains (upstream: scoring.go
    scoreForCount). A maxSkew that allows more makes differences matter less."""
    return np.asarray(counts * size_weight(size) + float(constraint.max_skew - 1))


def _rounded(scores: Floats) -> Int64s:
    """The nearest integers; halves go away from 0, as in Go's math.Round."""
    found = scores.astype(np.int64)
    rest = scores - found
    found += rest >= 0.5
    if rest.min(initial=0.0) <= -0.5:
        found -= rest <= -0.5
    return found


def _with_odd_skew(found: Int64s, scored: Int64s) -> Int64s:
    """int64[n]: the scores where a maxSkew is below 1, which no API server lets in; ``scored`` are
    those of nodes that are not ignored. Upstream takes -1 for ignored, gives 100 for what else is
    below 0 if nothing is above, and otherwise refuses what comes out. Raises ValueError."""
    if scored.min(initial=0) < 0 < scored.max(initial=0):
        raise ValueError("the scores of some nodes are below 0, because a maxSkew is below 1")
    return np.where(found < IGNORED, 0, found)


def _smallest(sums: Int64s, inhabited: Rows) -> int:
    if not len(inhabited):
        return _NO_DOMAIN
    return int(sums.min() if len(inhabited) == len(sums) else sums[inhabited].min())


def _least_with(sums: Int64s, inhabited: Rows, ids: Rows, steps: Int64s) -> Int64s:
    """int64[n]: the smallest sum of the inhabited domains, for each row with its step added to the
    sum of its own domain (upstream: filtering.go criticalPaths)."""
    first, smallest, second = -1, _NO_DOMAIN, _NO_DOMAIN
    if len(inhabited):
        there = sums[inhabited]
        place = int(there.argmin())
        first, smallest = int(inhabited[place]), int(there[place])
        second = int(np.delete(there, place).min(initial=_NO_DOMAIN))
    others = np.where(ids == first, second, smallest)
    return np.where(np.isin(ids, inhabited), np.minimum(others, sums[ids] + steps), smallest)


def _counting(pod: Pod, constraint: Constraint) -> Callable[[Pod], int]:
    """What another pod adds to a constraint's counts when it comes or goes in a trial: also where
    it is being deleted, and for an empty selector (upstream: filtering.go updateWithPod)."""
    return lambda other: int(
        other.namespace == pod.namespace and selects(constraint.selector, other.labels)
    )


def _node_matters(change: Change, labels: list[str]) -> bool:
    """Upstream: plugin.go isSchedulableAfterNodeChange."""
    had = change.old is not None and all(each in change.old.labels for each in labels)
    has = change.node is not None and all(each in change.node.labels for each in labels)
    if change.old is None or change.node is None:
        return had or has
    moved = any(change.old.labels.get(each) != change.node.labels.get(each) for each in labels)
    return had != has or (has and (moved or change.old.taints != change.node.taints))


def _pod_matters(change: Change, pod: Pod, constraints: list[Constraint]) -> bool:
    """Upstream: plugin.go isSchedulableAfterPodChange."""
    other, old = change.pod, change.old_pod
    assert other is not None
    if other.uid != pod.uid and other.namespace != pod.namespace:
        return False

    def counts(labels: dict[str, str]) -> list[bool]:
        return [selects(each.selector, labels) for each in constraints]

    if change.event in (ClusterEvent.ASSIGNED_POD_ADD, ClusterEvent.ASSIGNED_POD_DELETE):
        return any(counts(other.labels))
    if old is None:
        return True
    tolerates_otherwise = other.spec.tolerations != old.spec.tolerations
    if other.uid == pod.uid and tolerates_otherwise and any(c.honors_taints for c in constraints):
        return True
    return counts(old.labels) != counts(other.labels)
