"""Two versions on one log, by seed and by scripted scenarios."""

from collections import Counter

import pytest

from .invariants import ViolationError
from .versions import VersionsMutant, VersionsWorld
from .versions_mutants import VERSIONS_MUTANTS, VERSIONS_SCENARIOS, VersionsStage

SEEDS = 30
REACHED = {
    "step pre", "step post", "step post refused", "start of this version", "behaviour taken up",
    "start of the next version", "start refused", "term refused",
}  # fmt: skip


def test_nothing_wrong_happens_while_two_versions_run() -> None:
    """In any order of starts, steps and faults: what a process follows it can read, a behaviour is
    in force only after step post, and in the end it is in force."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        counts += VersionsWorld(seed, lossy=seed % 3 == 0).run().counts
    assert not {name for name in REACHED if not counts[name]}, "the seeds do not reach this"


def to_its_end(stage: VersionsStage, name: str) -> None:
    """Plays a mutant's scenario."""
    with stage.in_place():
        VERSIONS_SCENARIOS[name](stage)
        stage.finish()


@pytest.mark.parametrize("name", VERSIONS_MUTANTS)
def test_the_scenario_needs_the_rule_of_upgrades(name: str) -> None:
    """With the rule it ends well, without it fails."""
    to_its_end(VersionsStage(VersionsMutant()), name)
    with pytest.raises(ViolationError):
        to_its_end(VersionsStage(VERSIONS_MUTANTS[name]), name)
