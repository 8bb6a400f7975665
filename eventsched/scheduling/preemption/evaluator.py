"""Preemption: whether a pod that found no node may evict less important pods, and on which node.

Upstream: framework/preemption/preemption.go Preempt,
plugins/defaultpreemption/default_preemption.go PodEligibleToPreemptOthers.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.draw import draw
from eventsched.domain.journal import Rows
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Code
from eventsched.scheduling.cycle.cycle_keys import (
    KEY_EXCLUDED,
    KEY_NO_NODE,
    KEY_NOT_EVALUATED,
    KEY_PASSES,
    CycleKey,
)
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.framework import PostFilterResult, Status
from eventsched.scheduling.framework.extender import ExtenderError
from eventsched.scheduling.preemption.candidates import CandidateTable, Window, candidate_table_of
from eventsched.scheduling.preemption.extender_candidates import NONE_LEFT, ask_extenders
from eventsched.scheduling.preemption.preemption_messages import (
    NEVER,
    NO_VICTIMS,
    NOT_HELPFUL,
    QUOTA,
)
from eventsched.scheduling.preemption.victim_rules import BY_PRIORITY, VictimRule
from eventsched.scheduling.preemption.victims import (
    FITS_WITHOUT_EVICTION,
    NOTHING_REMOVABLE,
    OVER_QUOTA,
)


class Preemption(NamedTuple):
    """The decision. ``victims`` are ordered from the most important. ``nodes`` is the number of
    nodes on which evictions might help. ``tried`` are the rows that were tried, in order, and
    ``candidates`` the rows that evictions make feasible. ``draw`` chose where the search began."""

    row: int
    criterion: str
    victims: tuple[Pod, ...]
    nodes: int
    tried: Rows
    candidates: Rows
    draw: int
    candidate_table: CandidateTable
    dry_run: DryRun


class _Search(NamedTuple):
    """The rows that were tried, the outcome of each (int64[n]), and the candidates among them;
    ``draw`` chose where the search began."""

    candidate_table: CandidateTable
    tried: Rows
    candidates: Rows
    outcomes: NDArray[np.int64]
    draw: int


def preempt(
    judgement: Judgement, percentage: int, absolute: int, rule: VictimRule = BY_PRIORITY
) -> PostFilterResult:
    """The PostFilter result for a pod that found no node. ``rule`` selects the possible victims.
    The search ends after ``absolute`` candidates or ``percentage`` of the potential nodes,
    whichever is more. Raises PluginError."""
    dry_run = judgement.dry_run
    assert dry_run is not None
    rows = potential_nodes(judgement)
    problem = _ineligible(judgement, dry_run, rule)
    if problem:
        return PostFilterResult(Status.unschedulable(problem))
    wanted = min(len(rows), max(absolute, len(rows) * percentage // 100))
    search = _search(judgement, dry_run, rows, wanted, rule)
    candidate_table, candidates = search.candidate_table, search.candidates
    if not len(candidates):
        return _without_candidate(judgement, search.tried, search.outcomes)
    if judgement.extender_chain is not None and judgement.extender_chain.interested:
        try:
            candidate_table, candidates = ask_extenders(
                judgement.extender_chain, dry_run, candidate_table, candidates
            )
        except ExtenderError as error:
            return PostFilterResult(Status.error(str(error)))
        if judgement.question is not None or not len(candidates):
            return PostFilterResult(Status.unschedulable(NONE_LEFT))
    row, criterion = candidate_table.best(candidates)
    candidate = candidate_table.by_row[row]
    assert candidate is not None
    preemption = Preemption(
        row,
        criterion,
        candidate.victims,
        len(rows),
        search.tried,
        candidates,
        search.draw,
        candidate_table,
        dry_run,
    )
    return PostFilterResult(Status(Code.SUCCESS), dry_run.table.names[row], preemption)


def _search(
    judgement: Judgement, dry_run: DryRun, rows: Rows, wanted: int, rule: VictimRule
) -> _Search:
    """Tries the potential ``rows`` in order, from a drawn one on, until ``wanted`` candidates are
    found. Raises PluginError."""
    candidate_table, number = candidate_table_of(dry_run, rule), 0
    if not len(rows):
        return _Search(candidate_table, rows, rows, np.zeros(0, dtype=np.int64), number)
    if not rule.begins_first:
        number = draw(
            judgement.cycle.seed, judgement.pod.uid, judgement.cycle.attempt, "preemption"
        )
    begin = number % len(rows)
    order = np.concatenate([rows[begin:], rows[:begin]])
    window, outcomes = _try_in_order(candidate_table, dry_run, order, wanted)
    return _Search(candidate_table, window.tried, window.candidates, outcomes, number)


def _try_in_order(
    candidate_table: CandidateTable, dry_run: DryRun, order: Rows, wanted: int
) -> tuple[Window, NDArray[np.int64]]:
    """The window of rows that were tried, and the outcome of each.

    The outcome of the pod's own nominated node is not shared with other pods: for them, this pod is
    one of the nominated pods there."""
    nominated_row = dry_run.table.rows.get(dry_run.preemptions.node(dry_run.pod.uid), -1)
    if nominated_row < 0:
        window = candidate_table.search(dry_run, order, wanted)
        return window, candidate_table.outcomes[window[0]]
    candidate_table.mark_stale(nominated_row)
    try:
        window = candidate_table.search(dry_run, order, wanted)
        return window, candidate_table.outcomes[window[0]]
    finally:
        candidate_table.mark_stale(nominated_row)


def potential_nodes(judgement: Judgement) -> Rows:
    """The rows, ascending, of the nodes that might accept the pod after evictions (upstream:
    NodeToStatus.NodesForStatusCode)."""
    if judgement.refusal is not None:
        is_resolvable = judgement.refusal[1].code is Code.UNSCHEDULABLE
        return np.flatnonzero((judgement.keys != KEY_NO_NODE) & is_resolvable)
    not_refused = (KEY_PASSES, KEY_NO_NODE, KEY_EXCLUDED, KEY_NOT_EVALUATED)
    keys = [
        key
        for key in judgement.counts
        if key not in not_refused and judgement.verdict(key).code is Code.UNSCHEDULABLE
    ]
    if not keys:
        return np.zeros(0, dtype=np.intp)
    if len(keys) == 1:
        return np.flatnonzero(judgement.keys == keys[0])
    return np.flatnonzero(np.isin(judgement.keys, keys))


def is_leaving(pod: Pod, dry_run: DryRun) -> bool:
    """Whether a pod is being deleted, or is about to be."""
    return pod.deleting or pod.uid in dry_run.preemptions.evicting


def _ineligible(judgement: Judgement, dry_run: DryRun, rule: VictimRule) -> str:
    """Why the pod may not preempt now; "" if it may."""
    pod, table = judgement.pod, dry_run.table
    if pod.preemption_policy == "Never":
        return NEVER
    row = table.rows.get(dry_run.nominated, -1)
    if row < 0 or _is_unresolvable(judgement, row):
        return ""  # the pod needs another node
    return rule.obstacle(dry_run, row)


def _is_unresolvable(judgement: Judgement, row: int) -> bool:
    if judgement.refusal is not None:
        return judgement.refusal[1].code is Code.UNRESOLVABLE
    key: CycleKey = judgement.keys[row].item()
    if key in (KEY_PASSES, KEY_NOT_EVALUATED):
        return False
    return key in (KEY_NO_NODE, KEY_EXCLUDED) or judgement.verdict(key).code is Code.UNRESOLVABLE


def _without_candidate(
    judgement: Judgement, tried: Rows, outcomes: NDArray[np.int64]
) -> PostFilterResult:
    """The result if evictions help on no node. It ends the pod's nomination."""
    assert judgement.dry_run is not None
    nodes = judgement.dry_run.table.live
    reasons: dict[str, int] = {}
    if nodes > len(tried):
        reasons[NOT_HELPFUL] = nodes - len(tried)
    values, numbers = np.unique(outcomes, return_counts=True)
    counted: Mapping[int, int] = dict(zip(values.tolist(), numbers.tolist(), strict=True))
    if FITS_WITHOUT_EVICTION in counted:
        return PostFilterResult(
            Status.error(
                _fits_without_eviction(judgement.dry_run, tried[outcomes == FITS_WITHOUT_EVICTION])
            )
        )
    reasons_by_outcome = {NOTHING_REMOVABLE: (NO_VICTIMS,), OVER_QUOTA: (QUOTA,)}
    for outcome, number in counted.items():
        for reason in (
            reasons_by_outcome.get(outcome) or judgement.verdict(CycleKey(outcome)).reasons
        ):
            reasons[reason] = reasons.get(reason, 0) + number
    summary = ", ".join(sorted(f"{number} {reason}" for reason, number in reasons.items()))
    return PostFilterResult(Status.unschedulable(f"0/{nodes} nodes are available: {summary}."), "")


def _fits_without_eviction(dry_run: DryRun, rows: Rows) -> str:
    """Upstream's message for nodes that refused the pod but accept it without any eviction."""
    names = [dry_run.table.names[row] for row in rows]
    errors = [f'expected at least one victim pod on node "{name}"' for name in names]
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
