"""judge(): verdicts and scores of every node for a pod, without placing it.

``Engine.schedule_next``, ``evaluate`` and whatever asks "where would it go" stand on it. The common
case reads the class's columns as they are; what they do not hold is added by
pod_specific_verdicts.py.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.domain.state.preemptions import Preemptions
from eventsched.scheduling.cycle.cycle_keys import (
    CODES_A_FILTER,
    KEY_EXCLUDED,
    KEY_NO_NODE,
    KEY_NOT_EVALUATED,
    KEY_PASSES,
    NOT_FEASIBLE,
    CycleKey,
    Keys,
    Totals,
)
from eventsched.scheduling.cycle.dry_run import DryRun
from eventsched.scheduling.cycle.equivalence import ClassCache, EquivalenceClass
from eventsched.scheduling.cycle.extender_chain import ExtenderChain, Question
from eventsched.scheduling.cycle.nominated_pods import refused_for_nominated
from eventsched.scheduling.cycle.pod_specific_verdicts import (
    PodSpecificVerdicts,
    Scored,
    counted,
    weighted,
)
from eventsched.scheduling.cycle.prefilter import Refusal, ask_pre_filter, unsatisfiable
from eventsched.scheduling.framework import Cycle, PluginError
from eventsched.scheduling.framework.profile import SCORES, Profile


@dataclass
class Judgement:
    """What every node was told. ``keys``, ``totals`` and the scores are over all rows; ``counts``
    maps a key to its number of nodes. ``columns`` is the pod's class (None where PreFilter refused
    the pod), ``own`` whether all of this is the class's alone."""

    profile: Profile
    pod: Pod
    cycle: Cycle
    columns: EquivalenceClass | None
    own: bool
    refusal: Refusal | None
    narrowed_by: tuple[str, ...]
    keys: Keys
    counts: dict[CycleKey, int]
    scores: list[Scored]
    totals: Totals
    trials: DryRun | None = None
    """What nodes would say with other pods on them; None where nobody may ask."""
    problem: PluginError | None = None
    """What PreScore failed with; there are no scores then."""
    panel: ExtenderChain | None = None
    """The extenders that were asked; None where none is."""

    @property
    def question(self) -> Question | None:
        """What an extender has to be asked before there is a judgement; the rest means nothing
        then."""
        return None if self.panel is None else self.panel.question

    @property
    def feasible(self) -> int:
        """Nodes that can take the pod."""
        return self.counts.get(KEY_PASSES, 0)

    @property
    def evaluated(self) -> int:
        """Nodes that Filter was asked about."""
        if self.refusal is not None:
            return 0
        unasked = (KEY_NO_NODE, KEY_EXCLUDED, KEY_NOT_EVALUATED)
        return sum(n for key, n in self.counts.items() if key not in unasked)

    def verdict(self, key: CycleKey) -> Verdict:
        """The words of a key that stands for a refusal."""
        if key == KEY_EXCLUDED:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(self.narrowed_by)}]"
            return Verdict(plugin="", code=Code.UNRESOLVABLE, reasons=(reason,))
        position, code = divmod(key, CODES_A_FILTER)
        if position >= SCORES:
            return self.profile.scores[position - SCORES].verdict
        if position >= len(self.profile.filters) and self.panel is not None:
            return self.panel.verdict(position - len(self.profile.filters), code)
        return self.profile.filters[position].verdict(self.cycle, self.pod, code)

    def entry(self, key: CycleKey) -> Verdict:
        """The words of a key as they stand in the stream's dictionary."""
        position, code = divmod(key, CODES_A_FILTER)
        if len(self.profile.filters) <= position < SCORES and self.panel is not None:
            return self.panel.entry(position - len(self.profile.filters), code)
        return self.verdict(key)

    @cached_property
    def refusals(self) -> list[tuple[Verdict, int]]:
        """Each verdict with its number of nodes, in the order of filters."""
        return [
            (self.verdict(key), number)
            for key, number in sorted(self.counts.items())
            if key not in (KEY_PASSES, KEY_NO_NODE, KEY_NOT_EVALUATED)
        ]

    def rejectors(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The plugins that stood in the way, sorted; and those of them that answered Pending."""
        if self.refusal is not None:
            name, status = self.refusal
            return (name,), ((name,) if status.code is Code.PENDING else ())
        refusals = [verdict for verdict, _ in self.refusals if verdict.plugin]
        excluded = self.narrowed_by if KEY_EXCLUDED in self.counts else ()
        return (
            tuple(sorted({verdict.plugin for verdict in refusals} | set(excluded))),
            tuple(sorted({v.plugin for v in refusals if v.code is Code.PENDING})),
        )


def judge(
    table: NodeTable, cache: ClassCache, profile: Profile, pod: Pod, cycle: Cycle, start: int = 0,
    preemptions: Preemptions | None = None, nominated: str = "", panel: ExtenderChain | None = None,
) -> Judgement:  # fmt: skip
    """Verdicts and scores of all nodes. ``start`` is the node that a search begins with that may
    stop early; ``nominated`` the one that the pod is nominated to; ``panel`` are the extenders to
    be asked. Raises PluginError where a plugin or an extender fails, PreScore apart."""
    columns = cache.columns(profile, pod, cycle)
    refusal, narrowed = columns.refusal, list(columns.narrowed)
    skipped: set[str] = set()
    for plugin in profile.pre_filter:
        if plugin.name in columns.unsigned:
            refusal = ask_pre_filter(
                plugin, cycle, pod, NodeView(table), narrowed, skipped, refusal
            )
    refusal = refusal or unsatisfiable(narrowed)
    late = [each for each in columns.late_filters if each.name not in skipped]
    given = Preemptions() if preemptions is None else preemptions
    trials = DryRun(table, profile, pod, cycle, columns, late, given, nominated)
    if refusal is not None:
        return _refused(trials, refusal)
    columns.refresh(table, cycle, pod)
    more = PodSpecificVerdicts(table, profile, pod, cycle, columns)
    more.narrow(narrowed)
    more.filter(late)
    more.make_way(*refused_for_nominated(trials))
    more.stop_early(profile.percentage, start, nominated)
    panel = panel or ExtenderChain((), pod)
    panel.filter(more, len(profile.filters))
    by = tuple(sorted(name for name, _ in narrowed))
    problem = None if panel.question else more.pre_score()
    if problem is None and panel.question is None:
        more.ask_scores()
    extended = [] if problem else _extended(panel, more, nominated, table)
    if problem is not None or panel.question is not None:
        totals = np.full(table.size, NOT_FEASIBLE, dtype=np.int64)
        return Judgement(
            profile, pod, cycle, columns, False, None, by, more.keys, more.counts, [], totals,
            trials, problem, panel,
        )  # fmt: skip
    if not more.refused_more and not more.late_scores and not extended:
        scores = [Scored(each.column, each.raw) for each in columns.caches]
        own, totals = True, columns.totals
    else:
        own = False
        scores, totals = more.scored()
        for each in extended:
            totals[more.feasible] += weighted(each, more.feasible)
    return Judgement(
        profile, pod, cycle, columns, own, None, by, more.keys, more.counts, scores + extended,
        totals, trials, None, panel,
    )  # fmt: skip


def _extended(
    panel: ExtenderChain, more: PodSpecificVerdicts, nominated: str, table: NodeTable
) -> list[Scored]:
    """The extenders' scores, where there is a choice."""
    row = table.rows.get(nominated, -1)
    decided = row >= 0 and more.keys[row] == KEY_PASSES
    if panel.question is not None or decided or len(more.feasible) < 2:
        return []
    return panel.scores(more, table.size)


def _refused(trials: DryRun, refusal: Refusal) -> Judgement:
    table = trials.table
    keys = np.where(table.alive[: table.size], KEY_EXCLUDED, KEY_NO_NODE).astype(np.int32)
    totals = np.full(table.size, NOT_FEASIBLE, dtype=np.int64)
    return Judgement(
        trials.profile, trials.pod, trials.cycle, None, False, refusal, (), keys, counted(keys), [],
        totals, trials,
    )  # fmt: skip


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
