"""What extenders make of the candidates of a preemption: they may take nodes out, and name other
victims on the rest.

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
    panel: ExtenderChain, trials: DryRun, sheet: CandidateTable, candidates: Rows
) -> tuple[CandidateTable, Rows]:
    """The candidates that are left, in their order, on a sheet with the victims that extenders
    want; meaningless where the panel has a question. Raises ExtenderError."""
    for each in panel.interested:
        if not each.preempts or not len(candidates):
            continue
        told = {trials.table.names[row]: _victims(sheet, row) for row in candidates.tolist()}
        answer = panel.answer(each, PREEMPT, candidates, told)
        if panel.question is not None:
            break
        if answer is not None:
            sheet, candidates = _taken_in(each, trials, sheet, candidates, *answer)
    return sheet, candidates


def _victims(sheet: CandidateTable, row: int) -> Victims:
    trial = sheet.trials[row]
    assert trial is not None
    return Victims(uids=tuple(pod.uid for pod in trial.victims), violations=trial.violations)


def _taken_in(
    extender: Extender, trials: DryRun, sheet: CandidateTable, candidates: Rows,
    asked: ExtenderAsked, answered: ExtenderAnswered,
) -> tuple[CandidateTable, Rows]:  # fmt: skip
    """What it says of nodes that are no candidates (any more) counts for nothing, and neither does
    a node of which a victim has gone meanwhile."""
    changed, left = _copied(sheet), []
    for row in candidates.tolist():
        name = trials.table.names[row]
        wanted = answered.victims.get(name)
        if wanted is None:
            continue
        if not wanted.uids:
            if extender.ignorable:
                continue
            raise ExtenderError(extender, f'expected at least one victim pod on node "{name}"')
        before = asked.candidates.get(name, Victims(uids=()))
        pods = _pods(extender, trials, row, wanted, before)
        if pods is not None:
            trial = Candidate(KEY_PASSES, tuple(sorted(pods, key=importance)), wanted.violations)
            changed.trials[row] = trial
            changed.criteria[row] = (
                trial.violations, trial.highest, trial.total, len(trial.victims), trial.start
            )  # fmt: skip
            left.append(row)
    return changed, np.array(left, dtype=np.intp)


def _pods(
    extender: Extender, trials: DryRun, row: int, wanted: Victims, before: Victims
) -> list[Pod] | None:
    """The victims; None where one has gone. Raises ExtenderError for one that never was there."""
    found = []
    for uid in wanted.uids:
        pod = trials.table.residents[row].get(uid)
        is_new = uid not in before.uids
        if pod is not None and is_new and pod.priority >= trials.pod.priority:
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
                f"{trials.table.names[row]}, but the pod is not found on that node",
            )
    return found


def _copied(sheet: CandidateTable) -> CandidateTable:
    """A sheet of one's own: what an extender wants is not remembered for the next pod."""
    made = CandidateTable(sheet.rule)
    made.trials, made.outcomes = list(sheet.trials), sheet.outcomes.copy()
    made.criteria, made.stamps = sheet.criteria.copy(), sheet.stamps.copy()
    return made
