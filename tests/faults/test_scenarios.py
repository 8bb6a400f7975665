"""Scenarios for each rule of fencing and recovery: they pass with the rule and fail without it."""

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
CASES = [
    pytest.param(scenario, name, id=f"{scenario.__name__}-{name}", marks=ROWS.get(name, ()))
    for name, scenarios in SCENARIOS.items()
    for scenario in scenarios
]


def test_there_is_a_scenario_for_every_mutant() -> None:
    """Random seeds may not reach the rare ones."""
    assert set(SCENARIOS) == set(MUTANTS)


@pytest.mark.parametrize(("scenario", "mutant"), CASES)
def test_the_scenario_passes(scenario: Scenario, mutant: str) -> None:
    """The cluster converges, and agrees with the log."""
    for seed in range(5):
        stage = Stage(NONE, seed)
        scenario(stage)
        stage.finish()
        assert not stage.flights


@pytest.mark.parametrize(("scenario", "mutant"), CASES)
def test_the_scenario_fails_without_the_rule(scenario: Scenario, mutant: str) -> None:
    for seed in range(5):
        stage = Stage(MUTANTS[mutant], seed)
        with pytest.raises(ViolationError):
            scenario(stage)
