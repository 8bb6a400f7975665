"""What a check finds, and what a check is."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

from eventsched.eventlog.inspection.database_facts import DatabaseFacts


class Severity(StrEnum):
    """How bad a finding is."""

    REFUSE = "refuse"
    """The scheduler must not be trusted to run on this database."""
    WARN = "warn"


class DatabaseFinding(NamedTuple):
    """Something that is wrong: why it matters, and a command or an SQL statement against it."""

    severity: Severity
    problem: str
    why: str
    remedy: str


class Check(NamedTuple):
    """A function from facts to findings. ``lacks`` says which facts are missing for it; "" if it
    can be made."""

    name: str
    find: Callable[[DatabaseFacts], Iterable[DatabaseFinding]]
    lacks: Callable[[DatabaseFacts], str] = lambda facts: ""


def refuse(problem: str, why: str, remedy: str) -> DatabaseFinding:
    """A finding that the scheduler must not run on."""
    return DatabaseFinding(Severity.REFUSE, problem, why, remedy)


def warn(problem: str, why: str, remedy: str) -> DatabaseFinding:
    """A finding that an operator should know."""
    return DatabaseFinding(Severity.WARN, problem, why, remedy)
