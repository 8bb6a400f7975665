"""Each rule of fencing and recovery in a story that ends well with it and badly without it."""

import pytest

from .invariants import ViolationError
from .mutants import MUTANTS, NONE
from .scenarios import SCENARIOS, Scenario
from .stage import Stage

ROWS = {
    "noepoch": pytest.mark.row(13),
    "noheartbeat": pytest.mark.row(13),
    "nofence": pytest.mark.row(14),
    "redecide": pytest.mark.row(14),
    "retrynolog": pytest.mark.row(15),
    "noquarantine": pytest.mark.row(9),
    "trusting": pytest.mark.row(9),
    "keepsterms": pytest.mark.row(10),
    "redoafterloss": pytest.mark.row(11),
    "ignoresgaps": pytest.mark.row(20),
}
"""Rows of docs/failure-matrix.md."""
TOLD = [
    pytest.param(scenario, name, id=f"{scenario.__name__}-{name}", marks=ROWS.get(name, ()))
    for name, scenarios in SCENARIOS.items()
    for scenario in scenarios
]


def test_there_is_a_story_for_every_mutant() -> None:
    """Seeds may not meet the rare ones."""
    assert set(SCENARIOS) == set(MUTANTS)


@pytest.mark.parametrize(("scenario", "mutant"), TOLD)
def test_the_story_ends_well(scenario: Scenario, mutant: str) -> None:
    """And the cluster comes to rest, with the log in agreement."""
    for seed in range(5):
        stage = Stage(NONE, seed)
        scenario(stage)
        stage.finish()
        assert not stage.flights


@pytest.mark.parametrize(("scenario", "mutant"), TOLD)
def test_the_story_ends_badly_without_the_rule(scenario: Scenario, mutant: str) -> None:
    """The simulation sees it."""
    for seed in range(5):
        stage = Stage(MUTANTS[mutant], seed)
        with pytest.raises(ViolationError):
            scenario(stage)
