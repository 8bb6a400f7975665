"""How many points a feasible node is short of the best one, and in which plugins."""

from typing import NamedTuple

import numpy as np

from eventsched.history.why_not.hypothesis import Hypothesis
from eventsched.scheduling.cycle.pod_specific_verdicts import weighted


class ScoreDifference(NamedTuple):
    """What a plugin adds to the node's total and to that of the best node: scores times weight."""

    plugin: str
    score: int
    best: int

    @property
    def difference(self) -> int:
        """The node's part without the best node's: negative if the plugin is against the node."""
        return self.score - self.best


class Shortfall(NamedTuple):
    """The total of the best other node (``best``) is ``points`` above that of the node; 0: both
    are equal, and the draw decides. ``scores`` are of the plugins that score the two nodes
    differently, the one that costs the node most first; their differences add up to ``-points``."""

    points: int
    best: str
    scores: tuple[ScoreDifference, ...]


def shortfall(hypothesis: Hypothesis, chosen: str) -> Shortfall | None:
    """How far the node is behind without a change; None if it lands or is refused. Of several best
    nodes it is the ``chosen`` one. Raises PluginError."""
    landing = hypothesis.landing(())
    if landing.lands or landing.plugins or landing.reasons:
        return None
    judgement, row = hypothesis.judged(()), hypothesis.row
    others = judgement.totals.copy()
    others[row] = -1
    best = int(others.argmax())
    there = hypothesis.engine.state.nodes
    if (other := there.rows.get(chosen)) is not None and others[other] == others[best]:
        best = other
    parts = (
        ScoreDifference(score.column.plugin, *weighted(score, np.array([row, best])).tolist())
        for score in judgement.scores
    )
    different = sorted(
        (part for part in parts if part.difference), key=lambda part: part.difference
    )
    return Shortfall(landing.behind, there.names[best], tuple(different))
