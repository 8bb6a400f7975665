"""judge(): verdicts and scores of every node for a pod, without placing it.

``Engine.schedule_next``, ``evaluate`` and whatever asks "where would it go" stand on it. The common
case reads the class's columns as they are; a pod with PreFilter narrowing, unsigned plugins or
normalisations over the feasible nodes gets columns of its own.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsched.domain.columns import NodeTable
from eventsched.domain.draw import draw
from eventsched.domain.objects import Pod
from eventsched.domain.verdicts import Code, Normalization, ScoreColumn, Verdict, normalized
from eventsched.domain.views import NodeView
from eventsched.scheduling.classes import (
    NO_NODE,
    NOT_FEASIBLE,
    PASSES,
    ClassCache,
    ClassColumns,
    Keys,
    Totals,
    ask_pre_filter,
    skips_score,
)
from eventsched.scheduling.framework import (
    Cycle,
    Status,
)
from eventsched.scheduling.profile import Profile, Score

EXCLUDED = PASSES - 1
"""Key of a node that PreFilter left out."""


class Scored(NamedTuple):
    """One plugin's scores: ``raw`` over all rows (0 where not feasible), ``normalized`` likewise
    but only where the plugin normalises by its own code."""

    column: ScoreColumn
    raw: NDArray[Any]
    normalized: NDArray[np.int64] | None = None


@dataclass
class Judgement:
    """What every node was told. ``keys``, ``totals`` and the scores are over all rows; ``counts``
    maps a key to its number of nodes. ``columns`` is the class when all of this is its own."""

    profile: Profile
    pod: Pod
    cycle: Cycle
    columns: ClassColumns | None
    refusal: tuple[str, Status] | None
    narrowed_by: tuple[str, ...]
    keys: Keys
    counts: dict[int, int]
    scores: list[Scored]
    totals: Totals

    @property
    def feasible(self) -> int:
        """Nodes that can take the pod."""
        return self.counts.get(PASSES, 0)

    @property
    def evaluated(self) -> int:
        """Nodes that Filter was asked about."""
        if self.refusal is not None:
            return 0
        return sum(n for key, n in self.counts.items() if key not in (NO_NODE, EXCLUDED))

    def verdict(self, key: int) -> Verdict:
        """The words of a key that stands for a refusal."""
        if key == EXCLUDED:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(self.narrowed_by)}]"
            return Verdict(plugin="", code=Code.UNRESOLVABLE, reasons=(reason,))
        each = self.profile.filters[key // 65_536]
        return each.verdict(self.cycle, self.pod, key % 65_536)

    @cached_property
    def refusals(self) -> list[tuple[Verdict, int]]:
        """Each verdict with its number of nodes, in the order of filters."""
        return [
            (self.verdict(key), number)
            for key, number in sorted(self.counts.items())
            if key not in (PASSES, NO_NODE)
        ]

    def rejectors(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The plugins that stood in the way, sorted; and those of them that answered Pending."""
        if self.refusal is not None:
            name, status = self.refusal
            return (name,), ((name,) if status.code is Code.PENDING else ())
        refusals = [verdict for verdict, _ in self.refusals if verdict.plugin]
        excluded = self.narrowed_by if EXCLUDED in self.counts else ()
        return (
            tuple(sorted({verdict.plugin for verdict in refusals} | set(excluded))),
            tuple(sorted({v.plugin for v in refusals if v.code is Code.PENDING})),
        )


class Choice(NamedTuple):
    """The node chosen: its row and total, how many had the same total, the draw that decided among
    them (0 where there was nothing to decide), and the row that came next (-1: none)."""

    row: int
    score: int
    ties: int
    draw: int
    runner_up: int
    runner_up_score: int


def judge(
    table: NodeTable, cache: ClassCache, profile: Profile, pod: Pod, cycle: Cycle
) -> Judgement:
    """Verdicts and scores of all nodes. Raises PluginError where a plugin fails."""
    columns = cache.columns(profile, pod, cycle)
    refusal, narrowed = columns.refusal, list(columns.narrowed)
    skipped: set[str] = set()
    for plugin in profile.points["preFilter"]:
        if plugin.name in columns.unsigned:
            refusal = ask_pre_filter(
                plugin, cycle, pod, NodeView(table), narrowed, skipped, refusal
            )
    refusal = refusal or _unsatisfiable(narrowed)
    if refusal is not None:
        return _refused(table, profile, pod, cycle, refusal)
    columns.refresh(table, cycle, pod)
    late_filters = [f for f in columns.late_filters if f.name not in skipped]
    if not narrowed and not late_filters and not columns.late_scores:
        if columns.score_problem is not None and columns.feasible:
            raise columns.score_problem
        scores = [Scored(each.column, each.raw) for each in columns.caches]
        return Judgement(
            profile, pod, cycle, columns, None, (), columns.keys, columns.counts,
            scores, columns.totals,
        )  # fmt: skip
    return _apart(table, profile, pod, cycle, columns, narrowed, late_filters)


def _unsatisfiable(narrowed: list[tuple[str, frozenset[str]]]) -> tuple[str, Status] | None:
    """The refusal where the plugins' sets of nodes have none in common (upstream:
    framework/runtime RunPreFilterPlugins)."""
    left: frozenset[str] | None = None
    names: list[str] = []
    for name, wanted in narrowed:
        left = wanted if left is None else left & wanted
        names.append(name)
        if not left:
            if len(names) == 1:
                reason = f"node(s) didn't satisfy plugin {name}"
            else:
                reason = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(names))}] "
                reason += "simultaneously"
            return name, Status.unresolvable(reason)
    return None


def _refused(
    table: NodeTable, profile: Profile, pod: Pod, cycle: Cycle, refusal: tuple[str, Status]
) -> Judgement:
    keys = np.where(table.alive[: table.size], EXCLUDED, NO_NODE).astype(np.int32)
    counts = _counted(keys)
    totals = np.full(table.size, NOT_FEASIBLE, dtype=np.int64)
    return Judgement(profile, pod, cycle, None, refusal, (), keys, counts, [], totals)


def _apart(
    table: NodeTable, profile: Profile, pod: Pod, cycle: Cycle, columns: ClassColumns,
    narrowed: list[tuple[str, frozenset[str]]], late_filters: list[Any],
) -> Judgement:  # fmt: skip
    """The judgement of a pod that the class's columns alone do not answer."""
    keys = columns.keys.copy()
    if narrowed:
        names = frozenset.intersection(*(wanted for _, wanted in narrowed))
        inside = np.zeros(table.size, dtype=bool)
        inside[[table.rows[name] for name in names if name in table.rows]] = True
        keys[~inside & (keys != NO_NODE)] = EXCLUDED
    for each in late_filters:
        # Rows that an earlier filter refused are not asked about, as upstream stops there too.
        rows = np.flatnonzero((keys != NO_NODE) & (keys != EXCLUDED))
        rows = rows[keys[rows] // 65_536 > each.position]
        codes = each(cycle, pod, NodeView(table, rows))
        if codes is None:
            continue
        refused = codes > 0
        keys[rows[refused]] = codes[refused] + each.position * 65_536
    counts = _counted(keys)
    totals = np.full(table.size, NOT_FEASIBLE, dtype=np.int64)
    scores: list[Scored] = []
    if counts.get(PASSES):
        if columns.score_problem is not None:
            raise columns.score_problem
        rows = np.flatnonzero(keys == PASSES)
        scores = _scores(table, profile, pod, cycle, columns, rows)
        totals[rows] = 0
        for each in scores:
            totals[rows] += weighted(each, rows)
    by = tuple(sorted(name for name, _ in narrowed))
    return Judgement(profile, pod, cycle, None, None, by, keys, counts, scores, totals)


def _scores(
    table: NodeTable, profile: Profile, pod: Pod, cycle: Cycle, columns: ClassColumns,
    rows: NDArray[np.intp],
) -> list[Scored]:  # fmt: skip
    cached = {each.score.name: each.raw for each in columns.caches}
    late = {each.name for each in columns.late_scores}
    late -= _skipped_late(profile, late, cycle, pod, table, rows)
    view = NodeView(table, rows)
    scores = []
    for each in profile.scores:
        if each.name in late:
            found = each(cycle, pod, view)
        elif each.name in cached:
            found = cached[each.name][rows].astype(np.int64)
        else:
            continue
        raw = np.zeros(table.size, dtype=each.width)
        raw[rows] = found
        own = None
        if each.normalization is Normalization.OWN:
            own = np.zeros(table.size, dtype=np.int64)
            own[rows] = each.normalize(cycle, pod, found)
        scores.append(Scored(_column(each, found), raw, own))
    return scores


def _skipped_late(
    profile: Profile, late: set[str], cycle: Cycle, pod: Pod, table: NodeTable,
    rows: NDArray[np.intp],
) -> set[str]:  # fmt: skip
    skipped = set()
    for plugin in profile.points["preScore"]:
        if plugin.name in late and skips_score(plugin, cycle, pod, NodeView(table, rows)):
            skipped.add(plugin.name)
    return skipped


def _column(score: Score, raw: NDArray[np.int64]) -> ScoreColumn:
    """The column's description, with the parameters that its normalisation takes from the raw
    scores of the feasible nodes."""
    parameters: tuple[int, ...] = ()
    if score.normalization in (Normalization.DEFAULT, Normalization.REVERSED):
        parameters = (max(0, int(raw.max())),)
    elif score.normalization is Normalization.MIN_MAX:
        parameters = (int(raw.min()), int(raw.max()))
    return score.column(parameters)


def weighted(scored: Scored, rows: NDArray[np.intp]) -> NDArray[np.int64]:
    """int64[n]: what the plugin added to the totals of feasible rows."""
    if scored.normalized is not None:
        return scored.normalized[rows] * scored.column.weight
    return normalized(scored.column, scored.raw[rows]) * scored.column.weight


def _counted(keys: Keys) -> dict[int, int]:
    values, numbers = np.unique(keys, return_counts=True)
    return dict(zip(values.tolist(), numbers.tolist(), strict=True))


def choose(judgement: Judgement, cycle: Cycle) -> Choice:
    """The node with the largest total; among equals the draw decides (design 9.4)."""
    totals = judgement.totals
    first = int(totals.argmax())
    best = int(totals[first])
    equal = totals == best
    ties = int(np.count_nonzero(equal))
    if ties == 1:
        totals[first] = NOT_FEASIBLE
        second = int(totals.argmax())
        second_score = int(totals[second])
        totals[first] = best
        if second_score < 0:
            second, second_score = -1, 0
        return Choice(first, best, 1, 0, second, second_score)
    number = draw(cycle.seed, judgement.pod.uid, cycle.attempt, "tie-break")
    rows = equal.nonzero()[0]
    picked = number % ties
    return Choice(int(rows[picked]), best, ties, number, int(rows[1 if picked == 0 else 0]), best)


def fit_error(judgement: Judgement, nodes: int, post_filter: str = "") -> str:
    """Why no node is left, in upstream's words (framework/types.go FitError)."""
    text = f"0/{nodes} nodes are available:"
    if judgement.refusal is not None:
        text += f" {', '.join(judgement.refusal[1].reasons)}."
    else:
        reasons: dict[str, int] = {}
        for verdict, number in judgement.refusals:
            for reason in verdict.reasons:
                reasons[reason] = reasons.get(reason, 0) + number
        if reasons:
            text += f" {', '.join(sorted(f'{n} {reason}' for reason, n in reasons.items()))}."
    return f"{text} {post_filter}" if post_filter else text
