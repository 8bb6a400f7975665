"""Mutants of upgrades in steps, and the scenario for each."""

from collections.abc import Callable

from eventsched.eventlog.schema import migrations
from eventsched.eventlog.schema.migration_files import POST, PRE
from eventsched.eventlog.schema.migrations import StoredVersion
from eventsched.runtime.live.replica_plan import ReplicaPlan

from .invariants import ensure
from .versions import NEW, NEXT, THIS, VersionedProcess, VersionsMutant, VersionsWorld

Scenario = Callable[["VersionsStage"], None]


def _at_once(plan: ReplicaPlan, revision: str) -> ReplicaPlan:
    return plan


def _anytime(*_: object) -> None:
    """Looks for no session."""


VERSIONS_MUTANTS = {
    "eagerbehaviour": VersionsMutant(((ReplicaPlan, "on_schema", _at_once),)),
    "postanytime": VersionsMutant(((migrations, "_require_served", _anytime),)),
    "runsanywhere": VersionsMutant(((StoredVersion, "runs_us", True),)),
    "neverlooks": VersionsMutant(looks=False),
    "looksonce": VersionsMutant(asks_at_terms=False),
}


class VersionsStage(VersionsWorld):
    """A world in which nothing fails by itself."""

    def __init__(self, mutant: VersionsMutant) -> None:
        super().__init__(0, mutant=mutant)
        self.faults = False

    def settle(self) -> None:
        """Executes all possible events."""
        while self._able():
            self.step()

    def finish(self) -> None:
        """Ends the scenario."""
        self._calm_down()
        self._until_converged()

    def _is_time_up(self) -> bool:
        return False


def both_versions(stage: VersionsStage) -> None:
    """After step pre the next version leads first, and then this one."""
    ensure(stage.upgrade(PRE), "step pre is refused")
    first = stage.start("A", NEXT)
    stage.settle()
    stage.crash(first)
    stage.start("B", THIS)
    stage.settle()


def post_while_both_run(stage: VersionsStage) -> None:
    """A process of this version runs when step post is tried."""
    stage.upgrade(PRE)
    stage.start("A", THIS)
    stage.settle()
    stage.upgrade(POST)


def set_back_after_post(stage: VersionsStage) -> None:
    """The image is set back after step post."""
    stage.upgrade(PRE)
    stage.upgrade(POST)
    stage.crash(_led(stage, "A"))
    process = stage.start("B", THIS)
    assert isinstance(process, VersionedProcess)
    stage.settle()


def post_during_a_term(stage: VersionsStage) -> None:
    """A leader of the next version goes on while step post runs, and takes the behaviour up."""
    stage.upgrade(PRE)
    leader = _led(stage, "A")
    ensure(NEW not in leader.leader.engine.state.flags, "the behaviour is in force")
    stage.finish()


def post_lost_before_a_term(stage: VersionsStage) -> None:
    """A process of the next version starts after step post, and a failover loses that step before
    its term begins."""
    stage.upgrade(PRE)
    for name in "AB":
        stage.crash(_led(stage, name))
    stage.upgrade(POST)
    stage.start("C", NEXT)
    stage.database.fail_over(1)
    stage.auditor.history_changed()
    stage.settle()


def _led(stage: VersionsStage, name: str) -> VersionedProcess:
    process = stage.start(name, NEXT)
    stage.settle()
    assert isinstance(process, VersionedProcess)
    return process


VERSIONS_SCENARIOS: dict[str, Scenario] = {
    "eagerbehaviour": both_versions,
    "postanytime": post_while_both_run,
    "runsanywhere": set_back_after_post,
    "neverlooks": post_during_a_term,
    "looksonce": post_lost_before_a_term,
}
