"""Several configurations of a what-if run, side by side on an executor."""

import argparse
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from eventsched.cli.answers.answer_forms import is_document, print_document
from eventsched.domain.errors import InputError, UnavailableError
from eventsched.output.replays.grid_output import grid_text
from eventsched.output.replays.record_progress import RecordProgress
from eventsched.process.exit_codes import DIFFERS
from eventsched.runtime.executors.executor_choice import PROCESSES, executor_of
from eventsched.runtime.executors.task_executor import (
    TaskExecutor,
    TaskOutcome,
    WorkerLostError,
    outcomes_in_order,
)


def add_executor_option(group: argparse._ArgumentGroup) -> None:
    """Adds --executor."""
    group.add_argument(
        "--executor", metavar="NAME",
        help="what runs several configurations: processes of this machine (the default), dask or "
        "ray for a cluster that is started on this machine, dask://HOST:PORT (its scheduler) or "
        "ray://HOST:PORT (its server of Ray Client) for one that is there",
    )  # fmt: skip


def executor_of_grid(name: str | None, configurations: int) -> TaskExecutor | None:
    """The executor that --executor names; None for one configuration, which needs none. Raises
    InputError."""
    if configurations > 1:
        return executor_of(PROCESSES if name is None else name)
    if name is not None:
        raise InputError(
            "--executor", "runs several configurations", "name more of them by --what-if"
        )
    return None


def run_grid(
    executor: TaskExecutor, work: Callable[[Any], dict[str, Any]], tasks: Sequence[Any],
    names: Sequence[str], output: str,
) -> int:  # fmt: skip
    """Runs a task for each of the configurations ``names``, and prints their results; ``output`` is
    json or table. A configuration that fails costs no other one; the first problem is raised after
    all."""
    progress = RecordProgress("configurations")
    try:
        outcomes = outcomes_in_order(executor, work, tasks, progress)
    finally:
        progress.done()
    problems = [
        _named(name, outcome.problem) for name, outcome in zip(names, outcomes, strict=True)
    ]
    found = [problem for problem in problems if problem is not None]
    if len(found) < len(names):
        with suppress(BrokenPipeError):  # of --fail-if … | head the exit code is the answer
            _print(outcomes, names, problems, output)
    for problem in found:
        raise problem
    return DIFFERS if any(outcome.value["failed"] for outcome in outcomes) else 0


def _named(name: str, problem: Exception | None) -> Exception | None:
    """The problem of a configuration, with its name."""
    where = f"--what-if {name}"
    match problem:
        case InputError():
            return problem.within(where)
        case UnavailableError():
            return UnavailableError(f"{where}: {problem.where}", problem.problem, problem.remedy)
        case WorkerLostError():
            return InputError(where, str(problem), "give it more memory, or a shorter range")
        case Exception():
            problem.add_note(f"in {where}")
    return problem


def _print(
    outcomes: Sequence[TaskOutcome], names: Sequence[str], problems: Sequence[Exception | None],
    output: str,
) -> None:  # fmt: skip
    if is_document(output):
        documents = [
            outcome.value if problem is None else {"rules": name, "error": str(problem)}
            for name, outcome, problem in zip(names, outcomes, problems, strict=True)
        ]
        print_document({"configurations": documents}, output)
        return
    print(grid_text([outcome.value for outcome in outcomes if outcome.problem is None]))
    for problem in problems:
        if problem is not None:
            print(f"failed: {problem}")
