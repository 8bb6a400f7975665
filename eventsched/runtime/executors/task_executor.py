"""The port: tasks go in, their outcomes come out as they are ready.

A task is a function of a module and its argument; both are pickled. A worker that is killed costs
the task that it ran, which is repeated; a task that fails costs no other one. Every implementation
passes tests/contract/test_task_executors.py.
"""

import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MOST_TRIES = 3
"""How often a task is tried whose worker ends without a result. A cluster that was there before has
a setting of its own."""


class WorkerLostError(Exception):
    """The workers of a task ended without a result, again and again."""

    def __init__(self) -> None:
        super().__init__("the worker was killed at every try")


class TaskError(Exception):
    """A task has raised an exception that cannot be pickled. The message has its type and text."""


@dataclass(frozen=True)
class TaskOutcome:
    """How a task ended: ``number`` is its place among the arguments, ``value`` its result.
    ``problem`` is what it has raised, or a WorkerLostError; None if it has a result."""

    number: int
    value: Any = None
    problem: Exception | None = None


class TaskExecutor(Protocol):
    """Runs tasks."""

    def run(self, work: Callable[[Any], Any], arguments: Sequence[Any]) -> Iterator[TaskOutcome]:
        """Calls ``work`` with each argument, somewhere. Yields one outcome for each task, as they
        are ready. Raises InputError if no cluster answers, and UnavailableError if it ends."""
        ...


def outcomes_in_order(
    executor: TaskExecutor,
    work: Callable[[Any], Any],
    arguments: Sequence[Any],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[TaskOutcome]:
    """Runs all tasks. The outcomes in the order of the arguments. ``progress`` is called with how
    many have ended, and how many there are."""
    outcomes: list[TaskOutcome] = []
    for outcome in executor.run(work, arguments):
        outcomes.append(outcome)
        progress(len(outcomes), len(arguments))
    return sorted(outcomes, key=lambda outcome: outcome.number)


def attempted(work: Callable[[Any], Any], argument: Any) -> tuple[Any, Exception | None]:
    """Runs in the worker: the result of a task, or what it has raised. Unexpected exceptions have
    the worker's traceback as a note."""
    try:
        return work(argument), None
    except Exception as problem:  # noqa: BLE001 - the caller of the executor judges it
        return None, _portable(problem)


def _portable(problem: Exception) -> Exception:
    """The exception as it can be sent. Exceptions with arguments of their own often cannot."""
    lines = "".join(traceback.format_exception(problem))
    try:
        sent = pickle.loads(pickle.dumps(problem))
        if not isinstance(problem, type(sent)):
            raise TypeError(sent)
    except Exception:  # noqa: BLE001 - whatever pickle or the exception's constructor raises
        problem = TaskError(f"{type(problem).__name__}: {problem}")
    problem.add_note(lines)
    return problem
