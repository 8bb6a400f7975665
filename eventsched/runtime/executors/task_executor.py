"""The port: tasks go in, their results come out as they are ready.

A task is a function of a module and its argument; both are pickled. A worker that is killed costs
the task that it ran, which is repeated. Every implementation passes
tests/contract/test_task_executors.py.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

MOST_TRIES = 3
"""How often a task is tried whose worker ends without a result."""


class WorkerLostError(Exception):
    """The workers of a task ended without a result, again and again. ``number`` is the task's."""

    def __init__(self, number: int) -> None:
        super().__init__(f"the worker of task {number} was killed {MOST_TRIES} times")
        self.number = number


class TaskExecutor(Protocol):
    """Runs tasks."""

    def run(
        self, work: Callable[[Any], Any], arguments: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """Calls ``work`` with each argument, somewhere. Yields the number of each task and its
        result, as they are ready. Raises WorkerLostError, and what ``work`` raises; the other tasks
        are given up then."""
