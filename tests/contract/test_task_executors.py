"""What every TaskExecutor does. Those of Dask and Ray run on a real cluster of this machine, if
their packages are there: ``make test-executors`` installs them."""

import gc
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from eventsched.domain.errors import UnavailableError
from eventsched.runtime.executors.process_executor import ProcessExecutor
from eventsched.runtime.executors.task_executor import (
    TaskError,
    TaskExecutor,
    WorkerLostError,
    outcomes_in_order,
)
from tests.contract.executor_tasks import fail, killed, last_first, square

# Ray does not wait for the processes that it ends.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")


@pytest.fixture(params=["processes", "dask", "ray"])
def executor(request: pytest.FixtureRequest) -> Iterator[TaskExecutor]:
    yield _executor(request.param)
    gc.collect()  # what Ray leaves, while the warning is ignored


def _executor(name: str) -> TaskExecutor:
    if name == "processes":
        return ProcessExecutor(2)
    package = {"dask": "distributed", "ray": "ray"}[name]
    if find_spec(package) is None:
        pytest.skip(f"the package {package} is missing: make test-executors installs it")
    if name == "dask":
        from eventsched.runtime.executors.dask_executor import DaskExecutor

        return DaskExecutor(workers=2)
    from eventsched.runtime.executors.ray_executor import RayExecutor

    return RayExecutor(workers=2)


def test_outcomes_are_in_the_order_of_the_arguments(executor: TaskExecutor, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    tasks = [(tmp_path, number, 3) for number in range(4)]
    outcomes = outcomes_in_order(
        executor, last_first, tasks, lambda done, total: seen.append((done, total))
    )
    assert [(outcome.number, outcome.value) for outcome in outcomes] == [
        (number, number) for number in range(4)
    ]
    assert [outcome.problem for outcome in outcomes] == [None] * 4
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_without_tasks_nothing_is_started(executor: TaskExecutor) -> None:
    assert list(executor.run(square, [])) == []


def test_a_task_that_fails_costs_no_other_one(executor: TaskExecutor) -> None:
    outcomes = outcomes_in_order(executor, fail, range(4))
    assert [outcome.value for outcome in outcomes] == [0, None, None, 3]
    problems = [outcome.problem for outcome in outcomes]
    assert [type(problem) for problem in problems] == [
        type(None), UnavailableError, TaskError, type(None),
    ]  # fmt: skip
    assert str(problems[1]) == "task 1: has failed; try again"
    assert str(problems[2]) == "TwoPartError: task 2 has failed"
    [note] = getattr(problems[2], "__notes__", [""])
    assert "executor_tasks.py" in note


def test_a_killed_worker_costs_its_task_alone(executor: TaskExecutor, tmp_path: Path) -> None:
    """Task 1 is tried again, task 2 is given up after some tries; the others come to their end."""
    outcomes = outcomes_in_order(executor, killed, [(tmp_path, number) for number in range(6)])
    assert [outcome.value for outcome in outcomes] == [0, 1, None, 3, 4, 5]
    assert [outcome.number for outcome in outcomes if outcome.problem is not None] == [2]
    assert isinstance(outcomes[2].problem, WorkerLostError)
