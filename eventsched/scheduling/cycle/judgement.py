"""judge(): verdicts and scores of every node for a pod, without placing it.

``Engine.schedule_next`` and ``evaluate`` are built on it. The common case uses the columns of the
pod's equivalence class as they are; pod_specific_verdicts.py adds what they do not hold.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from eventsched.domain.nodes.node_table import NodeTable
from eventsched.domain.nodes.node_views import NodeView
from eventsched.domain.objects import Pod
from eventsched.domain.records.verdicts import Code, Verdict
from eventsched.domain.state.parts.preemptions import Preemptions
from eventsched.scheduling.cycle.class_cache import ClassCache
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
from eventsched.scheduling.cycle.equivalence import EquivalenceClass
from eventsched.scheduling.cycle.extender_chain import ExtenderChain, Question
from eventsched.scheduling.cycle.nominated_pods import refused_for_nominated
from eventsched.scheduling.cycle.pod_specific_verdicts import (
    PodSpecificVerdicts,
    Scored,
    counted,
    weighted,
)
from eventsched.scheduling.cycle.prefilter import NodeSets, Refusal, ask_pre_filter, unsatisfiable
from eventsched.scheduling.framework import Cycle, PluginError
from eventsched.scheduling.framework.profile import FIRST_SCORE_POSITION, Filter, Profile


@dataclass
class Judgement:
    """The verdict of every node. ``keys``, ``totals`` and the scores are over all rows; ``counts``
    maps a key to its number of nodes. ``equivalence_class`` is the pod's (None if PreFilter refused
    the pod); ``is_class_result`` says that keys and scores are the class's columns, with nothing
    added."""

    profile: Profile
    pod: Pod
    cycle: Cycle
    equivalence_class: EquivalenceClass | None
    is_class_result: bool
    refusal: Refusal | None
    narrowed_by: tuple[str, ...]
    keys: Keys
    counts: dict[CycleKey, int]
    scores: list[Scored]
    totals: Totals
    dry_run: DryRun | None = None
    """Verdicts with other pods on the nodes, for preemption."""
    problem: PluginError | None = None
    """The error of PreScore; there are no scores then."""
    extender_chain: ExtenderChain | None = None
    """The extenders that were called; None if PreFilter refused the pod."""

    @property
    def question(self) -> Question | None:
        """The call to an extender that has to be answered first. If there is one, the rest of
        the judgement is not valid."""
        return None if self.extender_chain is None else self.extender_chain.question

    @property
    def feasible(self) -> int:
        """Nodes that can take the pod."""
        return self.counts.get(KEY_PASSES, 0)

    @property
    def evaluated(self) -> int:
        """Nodes for which Filter ran."""
        if self.refusal is not None:
            return 0
        unasked = (KEY_NO_NODE, KEY_EXCLUDED, KEY_NOT_EVALUATED)
        return sum(n for key, n in self.counts.items() if key not in unasked)

    def verdict(self, key: CycleKey) -> Verdict:
        """The verdict of a key that stands for a refusal."""
        if key == KEY_EXCLUDED:
            reason = f"node(s) didn't satisfy plugin(s) [{' '.join(self.narrowed_by)}]"
            return Verdict(plugin="", code=Code.UNRESOLVABLE, reasons=(reason,))
        position, code = divmod(key, CODES_A_FILTER)
        if position >= FIRST_SCORE_POSITION:
            return self.profile.scores[position - FIRST_SCORE_POSITION].verdict
        if position >= len(self.profile.filters) and self.extender_chain is not None:
            return self.extender_chain.verdict(position - len(self.profile.filters), code)
        return self.profile.filters[position].verdict(self.cycle, self.pod, code)

    def entry(self, key: CycleKey) -> Verdict:
        """The verdict of a key as an entry of the stream's dictionary."""
        position, code = divmod(key, CODES_A_FILTER)
        if (
            len(self.profile.filters) <= position < FIRST_SCORE_POSITION
            and self.extender_chain is not None
        ):
            return self.extender_chain.entry(position - len(self.profile.filters), code)
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
        """The plugins that refused nodes or the pod, sorted; and those that returned Pending."""
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
    preemptions: Preemptions | None = None, nominated: str = "",
    extender_chain: ExtenderChain | None = None,
) -> Judgement:  # fmt: skip
    """Verdicts and scores of all nodes. ``start`` is the first node of a search that may stop
    early, ``nominated`` the pod's nominated node ("" for none), ``extender_chain`` the extenders to
    call. Raises PluginError if a plugin or an extender fails, except in PreScore."""
    equivalence_class = cache.get(profile, pod, cycle)
    refusal, narrowed, uncached = _pre_filter(equivalence_class, table, profile, pod, cycle)
    preemptions = Preemptions() if preemptions is None else preemptions
    dry_run = DryRun(
        table, profile, pod, cycle, equivalence_class, uncached, preemptions, nominated
    )  # fmt: skip
    if refusal is not None:
        return _refused(dry_run, refusal)
    equivalence_class.refresh(table, cycle, pod)
    verdicts = PodSpecificVerdicts(table, profile, pod, cycle, equivalence_class)
    verdicts.narrow(narrowed)
    verdicts.filter(uncached)
    verdicts.refuse_for_nominated(*refused_for_nominated(dry_run))
    verdicts.stop_early(profile.percentage, start, nominated)
    chain = extender_chain or ExtenderChain((), pod)
    chain.filter(verdicts, len(profile.filters))
    problem = None if chain.question else verdicts.pre_score()
    extender_scores: list[Scored] = []
    if problem is None and chain.question is None:
        verdicts.ask_scores()
        extender_scores = _extender_scores(chain, verdicts, nominated, table)
    is_class_result = False
    scores: list[Scored]
    if problem is not None or chain.question is not None:
        scores, totals = [], np.full(table.size, NOT_FEASIBLE, dtype=np.int64)
    elif verdicts.refused_more or verdicts.uncached_scores or extender_scores:
        scores, totals = verdicts.scored()
        for scored in extender_scores:
            totals[verdicts.feasible] += weighted(scored, verdicts.feasible)
        scores += extender_scores
    else:
        is_class_result, totals = True, equivalence_class.totals
        scores = [Scored(cached.column, cached.raw) for cached in equivalence_class.caches]
    narrowed_by = tuple(sorted(name for name, _ in narrowed))
    return Judgement(
        profile, pod, cycle, equivalence_class, is_class_result, None, narrowed_by, verdicts.keys,
        verdicts.counts, scores, totals, dry_run, problem, chain,
    )  # fmt: skip


def _pre_filter(
    equivalence_class: EquivalenceClass, table: NodeTable, profile: Profile, pod: Pod, cycle: Cycle
) -> tuple[Refusal | None, NodeSets, list[Filter]]:
    """Completes the class's PreFilter results with those of the unsigned plugins. Returns the
    refusal, the sets of nodes, and the filters that the class does not answer. Raises
    PluginError."""
    refusal, narrowed = equivalence_class.refusal, list(equivalence_class.narrowed)
    skipped: set[str] = set()
    nodes = NodeView(table)
    for plugin in equivalence_class.unsigned_pre_filters:
        refusal = ask_pre_filter(plugin, cycle, pod, nodes, narrowed, skipped, refusal)
    uncached = [
        plugin for plugin in equivalence_class.uncached_filters if plugin.name not in skipped
    ]
    return refusal or unsatisfiable(narrowed), narrowed, uncached


def _extender_scores(
    chain: ExtenderChain, verdicts: PodSpecificVerdicts, nominated: str, table: NodeTable
) -> list[Scored]:
    """The extenders' scores; none if there is at most one feasible node, or if the nominated node
    is feasible."""
    if not chain.interested:
        return []
    row = table.rows.get(nominated, -1)
    is_nominated_feasible = row >= 0 and verdicts.keys[row] == KEY_PASSES
    if is_nominated_feasible or len(verdicts.feasible) < 2:
        return []
    return chain.scores(verdicts, table.size)


def _refused(dry_run: DryRun, refusal: Refusal) -> Judgement:
    table = dry_run.table
    keys = np.where(table.alive[: table.size], KEY_EXCLUDED, KEY_NO_NODE).astype(np.int32)
    totals = np.full(table.size, NOT_FEASIBLE, dtype=np.int64)
    return Judgement(
        dry_run.profile, dry_run.pod, dry_run.cycle, None, False, refusal, (), keys, counted(keys),
        [], totals, dry_run,
    )  # fmt: skip


def fit_error(judgement: Judgement, nodes: int, post_filter: str = "") -> str:
    """Upstream's message for a pod that no node accepts (framework/types.go FitError)."""
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
