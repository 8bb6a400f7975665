"""Why an attempt came out otherwise than in history: the plugin whose verdict or score decided."""

import textwrap
from collections.abc import Sequence

import numpy as np

from eventsched.domain.records import PodDecided
from eventsched.domain.records.verdicts import Normalization
from eventsched.runtime.queries.what_if.pod_fates import Cause, Reason
from eventsched.scheduling.cycle.choice import Choice
from eventsched.scheduling.cycle.cycle_keys import (
    KEY_EXCLUDED,
    KEY_NOT_EVALUATED,
    KEY_PASSES,
    CycleKey,
)
from eventsched.scheduling.cycle.judgement import Judgement
from eventsched.scheduling.cycle.pod_specific_verdicts import Scored, weighted
from eventsched.scheduling.preemption.nomination_step import nominated_row

_LONGEST = 200
"""Characters of a message at most."""


def reason_of(
    judgement: Judgement, choice: Choice, decided: PodDecided, position: int
) -> Reason | None:
    """Why the choice (row -1: none) is not the one that ``decided`` records; None if it is. Raises
    ValueError for a judgement without a dry run, whose table names the nodes."""
    if judgement.dry_run is None:
        raise ValueError(f"the judgement of {judgement.pod.full_name} has no dry run")
    table = judgement.dry_run.table
    node = table.names[choice.row] if choice.row >= 0 else ""
    if node == decided.node:
        return None
    if not decided.node:
        message, _, _ = decided.message.partition(", preemption: ")
        text = f"history found no node: {textwrap.shorten(message, _LONGEST, placeholder=' …')}"
        return Reason(decided.plugin, text, position, Cause.VERDICT)
    row = table.rows.get(decided.node)
    if row is None:
        return Reason("", f"{decided.node} is not there", position)
    return _against(judgement, choice, row, table.names)._replace(position=position)


def _against(judgement: Judgement, choice: Choice, row: int, names: Sequence[str]) -> Reason:
    """Why the node of a row was not chosen; ``names`` are those of the rows."""
    name = names[row]
    if judgement.refusal is not None:
        plugin, status = judgement.refusal
        text = f"refuses the pod: {', '.join(status.reasons)}"
        return Reason(plugin, text, cause=Cause.VERDICT)
    key = CycleKey(int(judgement.keys[row]))
    if key == KEY_NOT_EVALUATED:
        return Reason("", f"the search ended before {name}")
    if key != KEY_PASSES:
        verdict = judgement.verdict(key)
        plugin = verdict.plugin
        if key == KEY_EXCLUDED:
            plugin = ", ".join(judgement.narrowed_by)
        text = f"refuses {name}: {', '.join(verdict.reasons)}"
        return Reason(plugin, text, cause=Cause.VERDICT)
    if nominated_row(judgement) == choice.row:
        return Reason("", "room was made there for it")
    if int(judgement.totals[row]) == choice.score:
        return Reason("", f"drawn from {choice.ties} equally good nodes", cause=Cause.DRAW)
    return _by_scores(judgement, choice.row, row, names)


def _weighted(score: Scored, row: int) -> int:
    """The plugin's part of a row's total."""
    if score.normalized is None and score.column.normalization is Normalization.IDENTITY:
        return int(score.raw[row]) * score.column.weight
    return int(weighted(score, np.array([row]))[0])


def _by_scores(judgement: Judgement, chosen: int, row: int, names: Sequence[str]) -> Reason:
    """The plugin whose weighted score is most above that of the other row. The text has the scores
    before their weight, which people know as 0 to 100."""
    # The chosen row's total is larger, so a plugin that scores both alike is not the one.
    parts = [
        (score.column, _weighted(score, chosen), _weighted(score, row))
        for score in judgement.scores
        if score.normalized is not None or score.raw[chosen] != score.raw[row]
    ]
    column, own, other = max(parts, key=lambda part: part[1] - part[2])
    weight = column.weight or 1
    text = f"{names[chosen]} scores {own // weight} here, {names[row]} {other // weight}"
    if weight != 1:
        text += f", times the weight {weight}: {own} and {other}"
    text += f"; with all plugins {judgement.totals[chosen]} and {judgement.totals[row]}"
    return Reason(column.plugin, text, cause=Cause.SCORE)
