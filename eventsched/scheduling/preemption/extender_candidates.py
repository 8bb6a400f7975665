"""The extenders' preempt verb: it may remove candidates, and change the victims of the rest.

Upstream: framework/preemption/preemption.go callExtenders; extender.go convertToVictims.
"""

import numpy as np

from eventsched.domain.journal import Rows
from eventsched.domain.objects import Pod
from eventsched.domain.records import ExtenderAnswered, ExtenderAsked, Victims
from eventsched.domain.records.extender_records import PREEMPT
from eventsched.scheduling.cycle.cycle_keys import KEY_PASSES
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.cycle.extender_chain import ExtenderChain
from eventsched.scheduling.framework.extender import Extender, ExtenderError
from eventsched.scheduling.preemption.candidates import CandidateTable
from eventsched.scheduling.preemption.victims import Candidate, importance

NONE_LEFT = "no candidate node for preemption"


def ask_extenders(
    extender_chain: ExtenderChain,
    dry_run: DryRun,
    candidate_table: CandidateTable,
    candidates: Rows,
) -> tuple[CandidateTable, Rows]:
    """A table with the victims that extenders chose, and the remaining candidates, in order. Not
    valid if the chain has an open question. Raises ExtenderError."""
    for extender in extender_chain.interested:
        if not extender.preempts or not len(candidates):
            continue
        victims = {
            dry_run.table.names[row]: _victims(candidate_table, row) for row in candidates.tolist()
        }
        answer = extender_chain.answer(extender, PREEMPT, candidates, victims)
        if extender_chain.question is not None:
            break
        if answer is not None:
            candidate_table, candidates = _apply_answer(
                extender, dry_run, candidate_table, candidates, *answer
            )
    return candidate_table, candidates


def _victims(candidate_table: CandidateTable, row: int) -> Victims:
    candidate = candidate_table.by_row[row]
    assert candidate is not None
    return Victims(
        uids=tuple(pod.uid for pod in candidate.victims), violations=candidate.violations
    )


def _apply_answer(
    extender: Extender, dry_run: DryRun, candidate_table: CandidateTable, candidates: Rows,
    question: ExtenderAsked, answer: ExtenderAnswered,
) -> tuple[CandidateTable, Rows]:  # fmt: skip
    """Applies an extender's answer. Nodes that are not or no longer candidates are ignored. A node
    is dropped if one of its victims has gone since the question. Raises ExtenderError."""
    changed, left = _copy(candidate_table), []
    for row in candidates.tolist():
        name = dry_run.table.names[row]
        wanted = answer.victims.get(name)
        if wanted is None:
            continue
        if not wanted.uids:
            if extender.ignorable:
                continue
            raise ExtenderError(extender, f'expected at least one victim pod on node "{name}"')
        before = question.candidates.get(name, Victims(uids=()))
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
    """The victims; None if one is gone. Raises ExtenderError for a pod that was never on the node,
    or that is not less important and was not proposed to the extender."""
    pods = []
    for uid in wanted.uids:
        pod = dry_run.table.residents[row].get(uid)
        is_new = uid not in before.uids
        if pod is not None and is_new and pod.priority >= dry_run.pod.priority:
            problem = f"claims to preempt pod {pod.full_name}, which is not less important"
            raise ExtenderError(extender, problem)
        if pod is not None:
            pods.append(pod)
        elif uid in before.uids:
            return None
        else:
            raise ExtenderError(
                extender,
                f"extender: {extender.name} claims to preempt pod (UID: {uid}) on node: "
                f"{dry_run.table.names[row]}, but the pod is not found on that node",
            )
    return pods


def _copy(candidate_table: CandidateTable) -> CandidateTable:
    """A copy: an extender's choice must not be cached for the next pod."""
    copy = CandidateTable(candidate_table.rule)
    copy.by_row, copy.outcomes = list(candidate_table.by_row), candidate_table.outcomes.copy()
    copy.criteria, copy.stamps = candidate_table.criteria.copy(), candidate_table.stamps.copy()
    return copy
