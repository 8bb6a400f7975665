"""The extenders' preempt verb: it may remove candidates, and change the victims of the rest.

Upstream: framework/preemption/preemption.go callExtenders; extender.go convertToVictims.
"""

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.objects import Pod
from eventsched.domain.records.extender_questions import (
    PREEMPT,
    ExtenderAnswered,
    ExtenderAsked,
    Victims,
)
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.cycle.extender_chain import ExtenderChain
from eventsched.scheduling.framework.extender import Extender, ExtenderError
from eventsched.scheduling.preemption.candidates import CandidateTable
from eventsched.scheduling.preemption.victims import Candidate, importance

NONE_LEFT = "no candidate node for preemption"


def consulted(
    extender_chain: ExtenderChain,
    dry_run: DryRun,
    candidate_table: CandidateTable,
    candidates: Rows,
) -> tuple[CandidateTable, Rows]:
    """The candidates that are left, in order, and a table with the victims that extenders chose;
    not valid if the chain has a question. Raises ExtenderError."""
    for each in extender_chain.interested:
        if not each.preempts or not len(candidates):
            continue
        told = {
            dry_run.table.names[row]: _victims(candidate_table, row) for row in candidates.tolist()
        }
        answer = extender_chain.answer(each, PREEMPT, candidates, told)
        if extender_chain.question is not None:
            break
        if answer is not None:
            candidate_table, candidates = _taken_in(
                each, dry_run, candidate_table, candidates, *answer
            )
    return candidate_table, candidates


def _victims(candidate_table: CandidateTable, row: int) -> Victims:
    candidate = candidate_table.by_row[row]
    assert candidate is not None
    return Victims(
        uids=tuple(pod.uid for pod in candidate.victims), violations=candidate.violations
    )


def _taken_in(
    extender: Extender, dry_run: DryRun, candidate_table: CandidateTable, candidates: Rows,
    asked: ExtenderAsked, answered: ExtenderAnswered,
) -> tuple[CandidateTable, Rows]:  # fmt: skip
    """Applies an extender's answer. Nodes that are no candidates (any more) are ignored; a node
    is dropped if one of its victims has gone since the question."""
    changed, left = _copied(candidate_table), []
    for row in candidates.tolist():
        name = dry_run.table.names[row]
        wanted = answered.victims.get(name)
        if wanted is None:
            continue
        if not wanted.uids:
            if extender.ignorable:
                continue
            raise ExtenderError(extender, f'expected at least one victim pod on node "{name}"')
        before = asked.candidates.get(name, Victims(uids=()))
        pods = _pods(extender, dry_run, row, wanted, before)
        if pods is not None:
            candidate = Candidate(
                KEY_PASSES, tuple(sorted(pods, key=importance)), wanted.violations
            )
            changed.by_row[row] = candidate
            changed.criteria[row] = candidate.criteria
            left.append(row)
    return changed, np.array(left, dtype=np.intp)


def _pods(
    extender: Extender, dry_run: DryRun, row: int, wanted: Victims, before: Victims
) -> list[Pod] | None:
    """The victims; None if one has gone. Raises ExtenderError for one that never was there."""
    found = []
    for uid in wanted.uids:
        pod = dry_run.table.residents[row].get(uid)
        is_new = uid not in before.uids
        if pod is not None and is_new and pod.priority >= dry_run.pod.priority:
            said = f"claims to preempt pod {pod.full_name}, which is not less important"
            raise ExtenderError(extender, said)
        if pod is not None:
            found.append(pod)
        elif uid in before.uids:
            return None
        else:
            raise ExtenderError(
                extender,
                f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: "
                f"{dry_run.table.names[row]}, but the pod is not found on that node",
            )
    return found


def _copied(candidate_table: CandidateTable) -> CandidateTable:
    """A copy, since an extender's choice is not cached for the next pod."""
    made = CandidateTable(candidate_table.rule)
    made.by_row, made.outcomes = list(candidate_table.by_row), candidate_table.outcomes.copy()
    made.criteria, made.stamps = candidate_table.criteria.copy(), candidate_table.stamps.copy()
    return made
