"""What every TaskExecutor does."""

from pathlib import Path

import pytest

from eventsched.runtime.executors.process_executor import ProcessExecutor
from eventsched.runtime.executors.task_executor import TaskExecutor, WorkerLostError
from tests.contract.executor_tasks import fail, killed_always, killed_once, square


@pytest.fixture
def executor() -> TaskExecutor:
    return ProcessExecutor(2)


def test_each_result_comes_once(executor: TaskExecutor) -> None:
    assert sorted(executor.run(square, range(5))) == [(0, 0), (1, 1), (2, 4), (3, 9), (4, 16)]
    assert list(executor.run(square, [])) == []


def test_an_error_of_a_task_is_raised(executor: TaskExecutor) -> None:
    with pytest.raises(ValueError, match="task 7 has failed"):
        list(executor.run(fail, [7]))


def test_a_killed_worker_costs_its_task_alone(executor: TaskExecutor, tmp_path: Path) -> None:
    tasks = [(tmp_path, number) for number in range(3)]
    assert sorted(executor.run(killed_once, tasks)) == [(0, 0), (1, 1), (2, 2)]
    assert (tmp_path / "killed").exists()


def test_a_task_whose_workers_are_always_killed(executor: TaskExecutor) -> None:
    with pytest.raises(WorkerLostError, match="the worker of task 0 was killed 3 times"):
        list(executor.run(killed_always, [0]))
