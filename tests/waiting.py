"""Waits of tests: each has an end, and says what did not come."""

import subprocess
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT = 60.0
"""Seconds: far more than anything here takes, also on a busy machine."""


def until(
    condition: Callable[[], T],
    what: str,
    within: float = LIMIT,
    *,
    of: "subprocess.Popen[str] | subprocess.Popen[bytes] | None" = None,
    every: float = 0.005,
) -> T:
    """What the condition gives once that is true. ``of`` is the process that has to bring it about.

    Raises TimeoutError, naming ``what``, after ``within`` seconds, and at once if that process has
    ended before.
    """
    deadline = time.monotonic() + within
    while True:
        ended = of is not None and of.poll() is not None
        found = condition()
        if found:
            return found
        if ended and of is not None:
            raise TimeoutError(f"not {what}: the process ended with exit code {of.returncode}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"not {what} within {within:g} s")
        time.sleep(every)


def joined(thread: threading.Thread, within: float = LIMIT) -> None:
    """Waits for the end of a thread. Raises TimeoutError."""
    thread.join(within)
    if thread.is_alive():
        raise TimeoutError(f"thread {thread.name} did not end within {within:g} s")


def next_line(process: "subprocess.Popen[str]", within: float = LIMIT) -> str:
    """The next line that a process prints, empty at its end. A process without output for this long
    is killed; then it raises TimeoutError."""
    assert process.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    guard = threading.Timer(within, give_up)
    guard.start()
    try:
        line = process.stdout.readline()
    finally:
        guard.cancel()
        guard.join(LIMIT)
    if late.is_set() and not line:
        raise TimeoutError(f"no line of {process.args!r} within {within:g} s")
    return line
