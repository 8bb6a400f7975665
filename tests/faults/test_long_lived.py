"""Logs that live long, by seed and by scripted scenarios."""

import pytest

from eventsched.eventlog.log_errors import CorruptLogError

from . import campaign
from .invariants import ViolationError
from .long_lived_mutants import LONG_LIVED, LONG_LIVED_MUTANTS
from .long_lived_scenarios import LONG_LIVED_SCENARIOS
from .long_lived_stage import LongLivedStage

SEEDS = 24
"""Of each kind."""
REACHED = """
append without room; archive without room; archiver killed; archiver without database; clock set;
crash in housekeeping; day archived; dropped partitions; full disk; housekeeping unanswered;
record PartitionSealed; slow database; start cut off; start standby; thinned partitions;
between two queries
"""


@pytest.mark.parametrize("lossy", [False, True], ids=["clean", "lossy"])
def test_nothing_wrong_happens_to_a_log_that_lives_long(lossy: bool) -> None:
    """Whatever fails: nothing is dropped that is not sealed and, if need be, archived; what is kept
    can be verified and continued; the archive and what is kept are the whole log."""
    counts, violations = campaign.run(range(SEEDS), lossy=lossy, world="longlived")
    assert not violations, "\n".join(violations)
    wanted = {name.strip() for name in REACHED.split(";")}
    assert not {name for name in wanted if not counts[name]}, "the seeds do not reach this"
    assert counts["dropped partitions"] > SEEDS


def test_there_is_a_scenario_for_every_mutant_of_housekeeping() -> None:
    """Random seeds reach some of them rarely."""
    assert set(LONG_LIVED_SCENARIOS) == set(LONG_LIVED_MUTANTS)


def to_its_end(stage: LongLivedStage, name: str) -> None:
    """Plays a mutant's scenario."""
    with stage.in_place():
        LONG_LIVED_SCENARIOS[name](stage)
        stage.finish()


@pytest.mark.parametrize("name", LONG_LIVED_MUTANTS)
def test_the_scenario_needs_the_rule(name: str) -> None:
    """With the rule it ends well, without it fails."""
    to_its_end(LongLivedStage(LONG_LIVED), name)
    stage = LongLivedStage(LONG_LIVED_MUTANTS[name])
    with pytest.raises((ViolationError, ValueError, CorruptLogError)):
        to_its_end(stage, name)
