"""Tasks for the executors' contract: they are imported by the workers."""

import os
import signal
from pathlib import Path

from eventsched.domain.errors import UnavailableError
from tests.waiting import until


class TwoPartError(Exception):
    """Cannot be unpickled: it takes two arguments, and keeps one."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    if number == 1:
        raise UnavailableError("task 1", "has failed", "try again")
    if number == 2:
        raise TwoPartError("task 2", "has failed")
    return number


def last_first(argument: tuple[Path, int, int]) -> int:
    """Task 0 waits for the mark of the last one, so that it ends after it."""
    folder, number, last = argument
    mark = folder / "last"
    if number == 0:
        until(mark.exists, "the last task")
    elif number == last:
        mark.touch()
    return number


def killed(argument: tuple[Path, int]) -> int:
    """Task 1 is killed at its first try, task 2 at every try, as by the kernel when memory is
    short."""
    folder, number = argument
    mark = folder / "killed"
    if number == 2 or (number == 1 and not mark.exists()):
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number
