"""Tasks for the executors' contract: they are imported by the workers."""

import os
import signal
from pathlib import Path


def square(number: int) -> int:
    return number * number


def fail(number: int) -> int:
    raise ValueError(f"task {number} has failed")


def killed_once(argument: tuple[Path, int]) -> int:
    """Is killed at the first try of task 1, as by the kernel when memory is short."""
    folder, number = argument
    mark = folder / "killed"
    if number == 1 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed_always(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number
