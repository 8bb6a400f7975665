"""Each rule of the log protocol in a story that ends well with it and badly without it."""

import pytest

from .invariants import ViolationError
from .mutants import MUTANTS, NONE
from .scenarios import SCENARIOS, Scenario
from .stage import Stage

TOLD = [(scenario, name) for name, scenarios in SCENARIOS.items() for scenario in scenarios]
IDS = [f"{scenario.__name__}-{name}" for scenario, name in TOLD]


def test_there_is_a_story_for_every_mutant() -> None:
    """Seeds may not meet the rare ones."""
    assert set(SCENARIOS) == set(MUTANTS)


@pytest.mark.parametrize(("scenario", "mutant"), TOLD, ids=IDS)
def test_the_story_ends_well(scenario: Scenario, mutant: str) -> None:
    """And the cluster comes to rest, with the log in agreement."""
    for seed in range(5):
        stage = Stage(NONE, seed)
        scenario(stage)
        stage.finish()


@pytest.mark.parametrize(("scenario", "mutant"), TOLD, ids=IDS)
def test_the_story_ends_badly_without_the_rule(scenario: Scenario, mutant: str) -> None:
    """The simulation sees it."""
    for seed in range(5):
        stage = Stage(MUTANTS[mutant], seed)
        with pytest.raises(ViolationError):
            scenario(stage)
