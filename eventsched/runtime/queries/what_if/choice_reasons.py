"""Whether a step came out as in history, and why an attempt did not: the plugin whose verdict or
score decided."""

import textwrap
from collections.abc import Sequence

import msgspec
import numpy as np

from eventsched.domain.records import (
    PodDecided,
    PreemptionDecided,
    Record,
    ScoringDefined,
    StreamStarted,
    TermBegan,
    TimePassed,
    VerdictDefined,
)
from eventsched.domain.records.log_entry import LogEntry
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
_DICTIONARY = frozenset((VerdictDefined, ScoringDefined))
_OF_DETAIL = {"digest": "", "scoring": 0, "parameters": (), "counts": ()}
"""Fields that depend on whether vectors are recorded."""


def are_equal(logged: Sequence[tuple[Record, int]], made: Sequence[LogEntry]) -> bool:
    """Whether both sides have the same records, except for entries of the dictionary and what
    vectors give."""
    old = [record for record, _ in logged if type(record) not in _DICTIONARY]
    new = [entry.record for entry in made if type(entry.record) not in _DICTIONARY]
    if len(old) != len(new):
        return False
    return all(
        _without_detail(before) == _without_detail(after)
        for before, after in zip(old, new, strict=True)
    )


def _without_detail(record: Record) -> Record:
    if isinstance(record, PodDecided):
        return msgspec.structs.replace(record, **_OF_DETAIL)
    if isinstance(record, PreemptionDecided):
        return msgspec.structs.replace(record, digest="")
    if isinstance(record, StreamStarted | TermBegan):
        return TimePassed()  # other rules alone are not a difference
    return record


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
    plugin, text, cause = _against(judgement, choice, row, table.names)
    return Reason(plugin, text, position, cause)


def _against(
    judgement: Judgement, choice: Choice, row: int, names: Sequence[str]
) -> tuple[str, str, Cause]:
    """Why the node of a row was not chosen; ``names`` are those of the rows."""
    name = names[row]
    if judgement.refusal is not None:
        plugin, status = judgement.refusal
        text = f"refuses the pod: {', '.join(status.reasons)}"
        return plugin, text, Cause.VERDICT
    key = CycleKey(judgement.keys.item(row))
    if key == KEY_NOT_EVALUATED:
        return "", f"the search ended before {name}", Cause.OTHER
    if key != KEY_PASSES:
        verdict = judgement.verdict(key)
        plugin = verdict.plugin
        if key == KEY_EXCLUDED:
            plugin = ", ".join(judgement.narrowed_by)
        return plugin, f"refuses {name}: {', '.join(verdict.reasons)}", Cause.VERDICT
    if nominated_row(judgement) == choice.row:
        return "", "room was made there for it", Cause.OTHER
    if judgement.totals.item(row) == choice.score:
        return "", f"drawn from {choice.ties} equally good nodes", Cause.DRAW
    return _by_scores(judgement, choice.row, row, names)


def _weighted(score: Scored, row: int) -> int:
    """The plugin's part of a row's total."""
    if score.normalized is None and score.column.normalization is Normalization.IDENTITY:
        raw: int = score.raw.item(row)
        return raw * score.column.weight
    return int(weighted(score, np.array([row]))[0])


def _by_scores(
    judgement: Judgement, chosen: int, row: int, names: Sequence[str]
) -> tuple[str, str, Cause]:
    """The plugin whose weighted score is most above that of the other row. The text has the scores
    before their weight, which people know as 0 to 100."""
    # The chosen row's total is larger, so a plugin that scores both alike is not the one.
    parts = [
        (score.column, _weighted(score, chosen), _weighted(score, row))
        for score in judgement.scores
        if score.normalized is not None or score.raw.item(chosen) != score.raw.item(row)
    ]
    column, own, other = max(parts, key=lambda part: part[1] - part[2])
    weight = column.weight or 1
    text = f"{names[chosen]} scores {own // weight} here, {names[row]} {other // weight}"
    if weight != 1:
        text += f", times the weight {weight}: {own} and {other}"
    totals = judgement.totals
    text += f"; with all plugins {totals.item(chosen)} and {totals.item(row)}"
    return column.plugin, text, Cause.SCORE
